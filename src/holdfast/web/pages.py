"""The HTML pages and their static files."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from holdfast.report.facts import causes_of, shown_violation
from holdfast.report.page import style
from holdfast.rules.grammar import parse
from holdfast.rules.sentence import violations_in_words
from holdfast.rules.sql import DIALECTS
from holdfast.web.application import Application
from holdfast.web.models import Kind, Page, RowId, RuleId, Status, Text


def add_pages(app: FastAPI, served: Application) -> None:
    """Adds the routes of the pages."""
    _add_lists(app, served)
    _add_details(app, served)
    _add_static(app)


_GROUPS = 10  # of rows that clash, on the page of a rule
_NAMES = 1000  # of columns, that a search proposes


def _add_lists(app: FastAPI, served: Application) -> None:
    snapshot = served.snapshot

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def overview() -> HTMLResponse:
        violated = [line for line in snapshot.view.facts.lines if line.status == "accepted" and line.violations]
        worst = sorted(violated, key=lambda line: -(line.violations or 0))[:10]
        suggested = [line for line in snapshot.view.facts.lines if line.status == "suggested"][:10]
        charts = snapshot.charts()
        return served.html("overview.html", here="overview", worst=worst, suggested=suggested, charts=charts)

    @app.get("/rules", response_class=HTMLResponse, include_in_schema=False)
    def rules(
        search: Text = "", kind: Kind = "", column: Text = "", status: Status = "", page: Page = 1
    ) -> HTMLResponse:
        size = 50  # of a page
        total, lines = snapshot.rules(search, kind, column, status, page, size)
        asked = {"search": search, "kind": kind, "column": column, "status": status}
        names = sorted({name for _, columns in snapshot.view.columns for name in columns})
        return served.html(
            "rules.html", here="rules", lines=lines, total=total, page=page, pages=max(1, -(-total // size)),
            asked=asked, names=names[:_NAMES],
        )  # fmt: skip

    @app.get("/graph", response_class=HTMLResponse, include_in_schema=False)
    def graph() -> HTMLResponse:
        lines = [line for line in snapshot.view.lines if line.kind == "ind" and line.sentence]
        return served.html("graph.html", here="graph", graph=snapshot.graph(), lines=lines)

    @app.get("/history", response_class=HTMLResponse, include_in_schema=False)
    def history() -> HTMLResponse:
        return served.html("history.html", here="history", timeline=snapshot.view.facts.timeline[-200:][::-1])


def _add_details(app: FastAPI, served: Application) -> None:
    snapshot = served.snapshot

    @app.get("/rules/{rule_id}", response_class=HTMLResponse, include_in_schema=False)
    def rule(rule_id: RuleId, page: Page = 1, dialect: Text = "duckdb") -> HTMLResponse:
        size, line = 10, served.line(rule_id)
        with snapshot.looking(line) as (_, look, mask):
            shown = [shown_violation(look.item.rule, look.table, v, mask) for v in look.page((page - 1) * size, size)]
            total, table, is_first = look.count, look.table, page == 1 and look.count > 0
            groups = look.groups(_GROUPS) if is_first and not mask.hides_any(table) else None
            causes = causes_of(look, mask) if is_first and groups is None else ()
        events, trend, survived = snapshot.history_of(line)
        dialect = dialect if dialect in DIALECTS else "duckdb"
        return served.html(
            "rule.html", here="rules", line=line, shown=shown, total=total, table=table, causes=causes,
            groups=groups, page=page, amount=violations_in_words(parse(line.rule), total),
            pages=max(1, -(-total // size)), events=events[:50], trend=trend, survived=survived, dialect=dialect,
            sql=served.query(line, dialect),
        )  # fmt: skip

    @app.get("/tables/{table:path}/rows", response_class=HTMLResponse, include_in_schema=False)
    def find_row(table: str, key: Text = "") -> Response:
        if f"{table}/rows" in dict(snapshot.view.columns):  # a table with such a name
            return table_page(f"{table}/rows")
        row_id = served.row_named(table, key)
        return RedirectResponse(f"/tables/{quote(table, safe='')}/rows/{row_id}", 303)

    @app.get("/tables/{table:path}/rows/{row}", response_class=HTMLResponse, include_in_schema=False)
    def row(table: str, row: RowId) -> HTMLResponse:
        model, violated = served.row(table, row)
        return served.html("row.html", here="", row=model, violated=violated)

    @app.get("/tables/{table:path}", response_class=HTMLResponse, include_in_schema=False)
    def table_page(table: str) -> HTMLResponse:
        return served.html("table.html", here="graph", page=served.table(table))


def _add_static(app: FastAPI) -> None:
    @app.get("/static/{name}", include_in_schema=False)
    def static(name: Literal["style.css", "pages.css", "pages.js"]) -> Response:
        if name == "style.css":
            return Response(style(), media_type="text/css")
        text = files("holdfast.web").joinpath("static", name).read_text(encoding="utf-8")
        return Response(text, media_type="text/css" if name.endswith(".css") else "text/javascript")
