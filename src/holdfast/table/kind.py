"""The seven column kinds."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What a column's values are. All but boolean and text have an order.

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
        """Columns of one group can be compared with each other."""
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
