"""The seven column kinds."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

LiteralValue = bool | Decimal | str | date | datetime  # of a literal in a rule


class Kind(StrEnum):
    """The type of a column's values. All kinds except boolean and text are ordered.

    >>> Kind.DATE.ordered, Kind.TEXT.ordered
    (True, False)
    """

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BOOLEAN = "boolean"
    TEXT = "text"

    @property
    def ordered(self) -> bool:
        return self not in (Kind.BOOLEAN, Kind.TEXT)

    @property
    def group(self) -> str:
        """Columns of the same group can be compared with each other."""
        return _GROUPS[self]


_GROUPS = {
    Kind.INTEGER: "numbers",
    Kind.DECIMAL: "numbers",
    Kind.FLOAT: "numbers",
    Kind.DATE: "dates",
    Kind.TIMESTAMP: "dates",
    Kind.BOOLEAN: "booleans",
    Kind.TEXT: "text",
}
