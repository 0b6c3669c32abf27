"""The net effect of a change on one table, with the drift and the bad rows that the planner found."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.table.row_change import RowDelta


@dataclass(frozen=True)
class Drift:
    """An update or delete whose old value is not the stored value."""

    table: str
    row: str
    column: str
    expected: object
    stored: object


@dataclass(frozen=True)
class Reason:
    """Why a row cannot be applied: `full` quotes values, `plain` does not."""

    full: str
    plain: str

    def prefixed(self, prefix: str) -> Reason:
        return Reason(prefix + self.full, prefix + self.plain)


Reasons = dict[int, Reason]  # by event


@dataclass(frozen=True)
class Bad:
    """A row or a whole file that cannot be applied: its location, its content and the reason.

    `plain` is the reason without values, for readers who may not see masked columns.
    """

    table: str | None
    place: str
    change_type: str
    values: dict[str, object]
    reason: str
    plain: str

    @classmethod
    def unread(cls, place: str, reason: str, values: dict[str, object] | None = None) -> Bad:
        """Input that could not be read as rows."""
        return cls(None, place, "unreadable", values or {}, reason, "cannot be read as changes of rows")


@dataclass
class Effect:
    """The net effect of a change on one table."""

    delta: RowDelta
    drift: list[Drift] = field(default_factory=list)
    quarantined: list[Bad] = field(default_factory=list)
