"""The JSON API."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import StreamingResponse

from holdfast.report.facts import Line
from holdfast.web.application import Application
from holdfast.web.models import (
    Decided,
    Decision,
    Kind,
    Page,
    RowId,
    RowModel,
    RuleHistory,
    RuleId,
    Rules,
    Size,
    Status,
    Summary,
    TableModel,
    Text,
    Violations,
)  # fmt: skip


def add_api(app: FastAPI, served: Application) -> None:
    """Adds the routes under /api/."""
    snapshot = served.snapshot
    missing: dict[int | str, dict[str, Any]] = {404: {"description": "not found"}}

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
        events, trend, survived = snapshot.history_of(served.line(rule_id))
        points = [vars(point) for point in trend]
        return RuleHistory(events=[event.record() for event in events], trend=points, survived=survived)

    @app.get("/api/tables/{table:path}/rows", responses=missing)
    def named_row(table: str, key: Text) -> RowModel:
        """A row by its key (a,b for two columns), or by its id if the table has no key."""
        return served.row(table, served.row_named(table, key))[0]

    @app.get("/api/tables/{table:path}/rows/{row}", responses=missing)
    def row(table: str, row: RowId) -> RowModel:
        return served.row(table, row)[0]

    @app.get("/api/tables/{table:path}", responses=missing)
    def table_page(table: str) -> TableModel:
        """A table: what is worth reading about it, and what its columns contain."""
        page = served.table(table)
        return TableModel.model_validate({"key": page.key, "columns": page.columns, **page.said.record()})

    @app.post(
        "/api/rules/{rule_id}/decision",
        dependencies=[Depends(served.require_token)],
        responses=missing | {403: {"description": "the token is missing or wrong"}},
    )
    def decide(rule_id: RuleId, decision: Decision) -> Decided:
        fields = decision.model_dump(exclude={"status"})
        status, said = snapshot.decide(served.line(rule_id), decision.status, **fields)
        return Decided(status=status, said=said)

    @app.get("/api/events", response_class=StreamingResponse)
    async def events(request: Request) -> StreamingResponse:
        """Server-sent events: the summary after each new version or decision."""
        return StreamingResponse(served.updates(request), media_type="text/event-stream")
