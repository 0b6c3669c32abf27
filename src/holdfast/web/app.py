"""`holdfast serve`: pages and a JSON API over one rulebook, for this machine only.

Reading needs nothing. Deciding needs the token that is printed at start, in a header that no other site can send: the
browser keeps it after the printed address was opened once.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request
from fastapi import Path as PathValue
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from starlette.middleware.trustedhost import TrustedHostMiddleware

from holdfast.errors import HoldfastError
from holdfast.report.facts import Line, Shown, causes_of, query_of, shown_violation, text_of
from holdfast.report.page import environment, style
from holdfast.rules.rule import KINDS
from holdfast.rules.sql import DIALECTS
from holdfast.web.snapshot import STATUS, Snapshot
from holdfast.web.sparkline import sparkline

HOSTS = ["127.0.0.1", "localhost"]
TOKEN_HEADER = "X-Holdfast-Token"
_BEAT = 0.3  # seconds between looks for something new, for who waits for it
_IDLE = 50  # beats without news, after which a sign of life is sent
_LATEST = 2**53
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Page = Annotated[int, Query(ge=1, le=10**6)]
Size = Annotated[int, Query(ge=1, le=200)]
Text = Annotated[str, Query(max_length=200)]
RuleId = Annotated[str, PathValue(max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
RowId = Annotated[int, PathValue(ge=0, le=_LATEST, description="a row's id, as t and s of violations have it")]
Status = Literal["", "accepted", "suggested", "rejected", "retired", "found"]
Kind = Literal["", "key", "fd", "ind", "order", "dc"]


class Rules(BaseModel):
    """A page of rules."""

    total: int
    page: int
    rules: list[Line]


class Violations(BaseModel):
    total: int
    page: int
    table: str
    violations: list[Shown]


class RuleHistory(BaseModel):
    events: list[dict[str, Any]]
    trend: list[dict[str, Any]]


class RowModel(BaseModel):
    """A row, and the accepted rules that it violates."""

    table: str
    row: int
    values: dict[str, str]
    rules: list[dict[str, Any]]


class Summary(BaseModel):
    name: str
    version: int
    time: str
    tables: list[dict[str, Any]]
    accepted: int
    violated: int
    violations: int
    found: dict[str, int]


class Decision(BaseModel):
    """What is decided about a rule."""

    status: Literal["accepted", "rejected", "retired", "suggested"]
    severity: Literal["error", "warn", "info"] | None = None
    owner: str | None = Field(None, max_length=200)
    tolerance: float | None = Field(None, ge=0, le=1)


class Decided(BaseModel):
    status: str
    said: str


class Application:
    """The routes over one snapshot."""

    def __init__(self, snapshot: Snapshot, token: str) -> None:
        self.snapshot, self._token = snapshot, token
        self._templates = environment("holdfast.web")
        self._templates.globals |= {"kinds": KINDS, "statuses": STATUS, "dialects": DIALECTS, "sparkline": sparkline}
        self._templates.filters["url"] = lambda text: quote(str(text), safe="")

    # --- pieces that pages and the API share ----------------------------------------------------------------

    def line(self, rule_id: str) -> Line:
        found = self.snapshot.line(rule_id)
        if found is None:
            raise HTTPException(404, f"there is no rule {rule_id}")
        return found

    def violations(self, rule_id: str, page: int, size: int) -> Violations:
        with self.snapshot.looking(self.line(rule_id)) as (_, look, mask):
            shown = [shown_violation(look.item.rule, look.table, v, mask) for v in look.page((page - 1) * size, size)]
            return Violations(total=look.count, page=page, table=look.table, violations=shown)

    def summary(self) -> Summary:
        facts = self.snapshot.view.facts
        tables = [{"name": name, "rows": rows, "columns": columns} for name, rows, columns in facts.tables]
        return Summary(
            name=facts.name,
            version=facts.version,
            time=facts.time,
            tables=tables,
            accepted=facts.accepted,
            violated=facts.violated,
            violations=facts.violations,
            found=facts.counts,
        )

    def row(self, table: str, row: int, most: int = 20) -> tuple[RowModel, list[tuple[Line, int, list[Any]]]]:
        """A row, and for each accepted rule that it violates how often, and with which partners."""
        with self.snapshot.book() as (book, mask):
            cells = book.row(table, row) if table in book.schemas else None
            if cells is None:
                raise HTTPException(404, f"there is no row {row} of {table}")
            found = [
                (self.line(entry.id), count, [shown_violation(entry.value, table, v, mask) for v in violations])
                for entry, count, violations in book.row_violations(table, row, most)
                if self.snapshot.line(entry.id) is not None
            ]
        values = {column: text_of(value) for column, value in mask.row(table, cells).items()}
        rules = [{"id": line.id, "rule": line.rule, "violations": count} for line, count, _ in found]
        return RowModel(table=table, row=row, values=values, rules=rules), found

    def row_named(self, table: str, key: str) -> int:
        with self.snapshot.book() as (book, mask):
            if table not in book.schemas:
                raise HTTPException(404, f"there is no table {table}")
            mask.require_by_key(table)
            return book.row_named(key, table)

    def query(self, line: Line, dialect: str) -> str:
        """SQL to see the violations in the warehouse, or why there is none."""
        with self.snapshot.looking(line) as (book, look, _):
            try:
                return query_of(book, look, dialect)
            except HoldfastError as error:
                return f"-- {error}"

    def html(self, name: str, **values: Any) -> HTMLResponse:
        view = self.snapshot.view
        text = self._templates.get_template(name).render(view=view, facts=view.facts, **values)
        return HTMLResponse(text)

    def require_token(self, given: Annotated[str | None, Header(alias=TOKEN_HEADER)] = None) -> None:
        if given is None or not secrets.compare_digest(given.encode(), self._token.encode()):
            raise HTTPException(403, f"deciding needs the token that `holdfast serve` printed, as {TOKEN_HEADER}")

    async def news(self, request: Request) -> AsyncIterator[str]:
        """A message for each new view, as server-sent events."""
        seen, idle = -1, 0
        while not await request.is_disconnected() and not request.app.state.is_ending():
            view = self.snapshot.view
            if view.number != seen:
                seen, idle = view.number, 0
                yield f"event: version\ndata: {json.dumps(self.summary().model_dump())}\n\n"
            elif idle >= _IDLE:
                idle = 0
                yield ": still here\n\n"
            idle += 1
            await asyncio.sleep(_BEAT)


def make_app(directory: Path, token: str, hosts: list[str] | None = None) -> FastAPI:
    """The application over the rulebook in a directory."""
    snapshot = Snapshot(directory)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        snapshot.follow()
        yield
        snapshot.close()

    app = FastAPI(title="Holdfast", docs_url=None, redoc_url=None, openapi_url="/api/openapi.json", lifespan=life)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts or HOSTS)
    served = Application(snapshot, token)
    app.state.is_ending = bool  # told by who runs it: connections that wait for news then end
    _protect(app, served)
    _add_api(app, served)
    _add_pages(app, served)
    return app


def _protect(app: FastAPI, served: Application) -> None:
    @app.middleware("http")
    async def headers(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await answer(request)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @app.exception_handler(HoldfastError)
    async def refused(request: Request, error: HoldfastError) -> Response:
        return await answered(request, HTTPException(422, str(error)))

    @app.exception_handler(HTTPException)
    async def answered(request: Request, error: HTTPException) -> Response:
        if request.url.path.startswith("/api/"):
            return JSONResponse({"detail": error.detail}, error.status_code)
        title = "Not found" if error.status_code == 404 else "Problem"
        page = served.html("problem.html", title=title, text=error.detail)
        page.status_code = error.status_code
        return page


def _add_api(app: FastAPI, served: Application) -> None:
    snapshot = served.snapshot
    missing: dict[int | str, dict[str, Any]] = {404: {"description": "there is no such thing"}}

    @app.get("/api/summary")
    def summary() -> Summary:
        return served.summary()

    @app.get("/api/rules")
    def rules(
        search: Text = "", kind: Kind = "", column: Text = "", status: Status = "", page: Page = 1, size: Size = 50
    ) -> Rules:
        total, lines = snapshot.rules(search, kind, column, status, page, size)
        return Rules(total=total, page=page, rules=lines)

    @app.get("/api/rules/{rule_id}", responses=missing)
    def rule(rule_id: RuleId) -> Line:
        return served.line(rule_id)

    @app.get("/api/rules/{rule_id}/violations", responses=missing)
    def violations(rule_id: RuleId, page: Page = 1, size: Size = 20) -> Violations:
        return served.violations(rule_id, page, size)

    @app.get("/api/rules/{rule_id}/history", responses=missing)
    def history(rule_id: RuleId) -> RuleHistory:
        events, trend = snapshot.history_of(served.line(rule_id))
        return RuleHistory(events=[event.record() for event in events], trend=[vars(point) for point in trend])

    @app.get("/api/tables/{table}/rows", responses=missing)
    def named_row(table: str, key: Text) -> RowModel:
        """A row by its key as people write it (a,b for two columns), or by its id in a table without a key."""
        return served.row(table, served.row_named(table, key))[0]

    @app.get("/api/tables/{table}/rows/{row}", responses=missing)
    def row(table: str, row: RowId) -> RowModel:
        return served.row(table, row)[0]

    @app.post(
        "/api/rules/{rule_id}/decision",
        dependencies=[Depends(served.require_token)],
        responses=missing | {403: {"description": "the token is missing or wrong"}},
    )
    def decide(rule_id: RuleId, decision: Decision) -> Decided:
        fields = decision.model_dump(exclude={"status"})
        said = snapshot.decide(served.line(rule_id), decision.status, **fields)
        return Decided(status=decision.status, said=said)

    @app.get("/api/events", response_class=StreamingResponse)
    async def events(request: Request) -> StreamingResponse:
        """Server-sent events: the summary, whenever a version or a decision is new."""
        return StreamingResponse(served.news(request), media_type="text/event-stream")


def _add_pages(app: FastAPI, served: Application) -> None:
    snapshot = served.snapshot

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def overview() -> HTMLResponse:
        lines = [line for line in snapshot.view.facts.lines if line.status == "accepted" and line.violations]
        worst = sorted(lines, key=lambda line: -(line.violations or 0))[:10]
        suggested = [line for line in snapshot.view.facts.lines if line.status == "suggested"][:10]
        return served.html("overview.html", here="overview", worst=worst, suggested=suggested)

    @app.get("/rules", response_class=HTMLResponse, include_in_schema=False)
    def rules(
        search: Text = "", kind: Kind = "", column: Text = "", status: Status = "", page: Page = 1
    ) -> HTMLResponse:
        size = 50
        total, lines = snapshot.rules(search, kind, column, status, page, size)
        asked = {"search": search, "kind": kind, "column": column, "status": status}
        pages = max(1, -(-total // size))
        return served.html("rules.html", here="rules", lines=lines, total=total, page=page, pages=pages, asked=asked)

    @app.get("/rules/{rule_id}", response_class=HTMLResponse, include_in_schema=False)
    def rule(rule_id: RuleId, page: Page = 1, dialect: Text = "duckdb") -> HTMLResponse:
        size, line = 10, served.line(rule_id)
        with snapshot.looking(line) as (_, look, mask):
            shown = [shown_violation(look.item.rule, look.table, v, mask) for v in look.page((page - 1) * size, size)]
            total, table, causes = look.count, look.table, causes_of(look, mask) if page == 1 and look.count else ()
        events, trend = snapshot.history_of(line)
        dialect = dialect if dialect in DIALECTS else "duckdb"
        return served.html(
            "rule.html", here="rules", line=line, shown=shown, total=total, table=table, causes=causes, page=page,
            pages=max(1, -(-total // size)), events=events[:50], trend=trend, dialect=dialect,
            sql=served.query(line, dialect),
        )  # fmt: skip

    @app.get("/tables/{table}/rows", response_class=HTMLResponse, include_in_schema=False)
    def find_row(table: str, key: Text = "") -> Response:
        found = served.row_named(table, key)
        return RedirectResponse(f"/tables/{quote(table, safe='')}/rows/{found}", 303)

    @app.get("/tables/{table}/rows/{row}", response_class=HTMLResponse, include_in_schema=False)
    def row(table: str, row: RowId) -> HTMLResponse:
        model, found = served.row(table, row)
        return served.html("row.html", here="", row=model, found=found)

    @app.get("/graph", response_class=HTMLResponse, include_in_schema=False)
    def graph() -> HTMLResponse:
        _, lines = snapshot.rules(kind="ind", size=100)
        return served.html("graph.html", here="graph", graph=snapshot.graph(), lines=lines)

    @app.get("/history", response_class=HTMLResponse, include_in_schema=False)
    def history() -> HTMLResponse:
        return served.html("history.html", here="history", timeline=snapshot.view.facts.timeline[-200:][::-1])

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: Literal["style.css", "pages.css", "pages.js"]) -> Response:
        if name == "style.css":
            return Response(style(), media_type="text/css")
        text = files("holdfast.web").joinpath("static", name).read_text(encoding="utf-8")
        return Response(text, media_type="text/css" if name.endswith(".css") else "text/javascript")
