"""The parameters and the JSON documents of the API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import BaseModel, Field

from holdfast.report.columns import ColumnFacts
from holdfast.report.facts import Line, Shown

_MAX_ROW_ID = 2**53  # JavaScript has no larger exact integers

Page = Annotated[int, Query(ge=1, le=10**6)]
Size = Annotated[int, Query(ge=1, le=200)]
Text = Annotated[str, Query(max_length=200)]
RuleId = Annotated[str, Path(max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
RowId = Annotated[int, Path(ge=0, le=_MAX_ROW_ID, description="the id of a row, as in t and s of violations")]
Status = Literal["", "accepted", "suggested", "rejected", "retired", "found"]
Kind = Literal["", "key", "fd", "ind", "order", "dc", "row"]


class Rules(BaseModel):
    """A page of rules."""

    total: int
    page: int
    rules: list[Line]


class Violations(BaseModel):
    """A page of the violations of a rule."""

    total: int
    page: int
    table: str
    violations: list[Shown]


class RuleHistory(BaseModel):
    """The events of a rule, its violations and error after each version, and what it survived, in words."""

    events: list[dict[str, Any]]
    trend: list[dict[str, Any]]
    survived: str


class TableModel(BaseModel):
    """A table: what is worth reading about it, by section, and what its columns contain."""

    table: str
    rows: int | None
    key: list[str]
    sections: list[dict[str, Any]]
    facts: list[str]
    columns: list[ColumnFacts]


class RowModel(BaseModel):
    """A row and the accepted rules that it violates."""

    table: str
    row: int
    values: dict[str, str]
    rules: list[dict[str, Any]]


class Summary(BaseModel):
    """The newest version in numbers. `found`: found rules by kind."""

    name: str
    version: int
    time: str
    tables: list[dict[str, Any]]
    accepted: int
    violated: int
    violations: int
    found: dict[str, int]


class Decision(BaseModel):
    """A decision about a rule. `found` takes a decision back, as if nobody had decided."""

    status: Literal["accepted", "rejected", "retired", "suggested", "found"]
    severity: Literal["error", "warn", "info"] | None = None
    owner: str | None = Field(None, max_length=200)
    tolerance: float | None = Field(None, ge=0, le=1)


class Decided(BaseModel):
    """The new status of a rule, and when it takes effect."""

    status: str
    said: str
