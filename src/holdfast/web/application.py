"""What the pages and the API share: answers from the snapshot, templates, the token and live updates."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Header, HTTPException, Request
from fastapi.responses import HTMLResponse

from holdfast.errors import HoldfastError
from holdfast.report.facts import Line, query_of, shown_violation, text_of
from holdfast.report.page import environment
from holdfast.rules.rule import KINDS
from holdfast.rules.sql import DIALECTS
from holdfast.web.models import RowModel, Summary, Violations
from holdfast.web.snapshot import STATUS, Snapshot
from holdfast.web.sparkline import sparkline
from holdfast.web.table_page import TablePage

TOKEN_HEADER = "X-Holdfast-Token"
_POLL = 0.3  # seconds between two looks for a new view
_MAX_IDLE = 50  # polls without a new view before a keep-alive comment is sent


class Application:
    """Answers requests from one snapshot."""

    def __init__(self, snapshot: Snapshot, token: str) -> None:
        self.snapshot, self._token = snapshot, token
        self._templates = environment("holdfast.web")
        self._templates.globals |= {"kinds": KINDS, "statuses": STATUS, "dialects": DIALECTS, "sparkline": sparkline}

    def line(self, rule_id: str) -> Line:
        line = self.snapshot.line(rule_id)
        if line is None:
            raise HTTPException(404, f"there is no rule {rule_id}")
        return line

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

    def table(self, table: str) -> TablePage:
        if table not in dict(self.snapshot.view.columns):
            raise HTTPException(404, f"there is no table {table}")
        return self.snapshot.table_page(table)

    def row(self, table: str, row: int, most: int = 20) -> tuple[RowModel, list[tuple[Line, int, list[Any]]]]:
        """A row, and each accepted rule that it violates with the number of violations and the first of them."""
        with self.snapshot.book() as (book, mask):
            cells = book.row(table, row) if table in book.schemas else None
            if cells is None:
                raise HTTPException(404, f"there is no row {row} of {table}")
            violated = [
                (self.line(entry.id), count, [shown_violation(entry.value, table, v, mask) for v in violations])
                for entry, count, violations in book.row_violations(table, row, most)
                if self.snapshot.line(entry.id) is not None
            ]
        values = {column: text_of(value) for column, value in mask.row(table, cells).items()}
        rules = [{"id": line.id, "rule": line.rule, "violations": count} for line, count, _ in violated]
        return RowModel(table=table, row=row, values=values, rules=rules), violated

    def row_named(self, table: str, key: str) -> int:
        with self.snapshot.book() as (book, mask):
            if table not in book.schemas:
                raise HTTPException(404, f"there is no table {table}")
            mask.require_by_key(table)
            return book.row_named(key, table)

    def query(self, line: Line, dialect: str) -> str:
        """An SQL query for the violations, or a comment that says why there is none."""
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
            raise HTTPException(403, f"decisions need the token that `holdfast serve` printed, as {TOKEN_HEADER}")

    async def updates(self, request: Request) -> AsyncIterator[str]:
        """Server-sent events: the summary of each new view."""
        sent, idle = -1, 0
        while not await request.is_disconnected() and not request.app.state.is_ending():
            view = self.snapshot.view
            if view.number != sent:
                sent, idle = view.number, 0
                yield f"event: version\ndata: {json.dumps(self.summary().model_dump())}\n\n"
            elif idle >= _MAX_IDLE:
                idle = 0
                yield ": still here\n\n"
            idle += 1
            await asyncio.sleep(_POLL)
