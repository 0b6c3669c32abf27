"""Columns whose values are not shown to people: in reports, pages, webhooks and alerts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.errors import HoldfastError, shown
from holdfast.rulebook import Rulebook
from holdfast.table.options import TableOptions
from holdfast.workflow.decisions import Decisions

HIDDEN = "•••"


class Mask:
    """Hides cells, and the names of rows where part of their key is hidden: they then go by row id.

    >>> Mask(["ssn"], {}).row("people", {"ssn": "123", "zip": "10115"})
    {'ssn': '•••', 'zip': '10115'}
    """

    def __init__(self, columns: Collection[str], tables: Mapping[str, TableOptions]) -> None:
        self._columns, self._tables = frozenset(columns), tables

    @classmethod
    def of(cls, book: Rulebook, more: Collection[str] = ()) -> Mask:
        """That of a rulebook, by its decisions. A name that no column has is an error: it would hide nothing."""
        columns = frozenset(Decisions.of(book).masked | {*more})
        known = {
            name
            for table, schema in book.schemas.items()
            for column in schema.names
            for name in (column, f"{table}.{column}")
        }
        for column in sorted(columns - known):
            raise HoldfastError(
                f"{book.path or 'the rulebook'}: mask: there is no column {shown(column)}; nothing would be hidden"
            )
        return cls(columns, book.tables)

    def __bool__(self) -> bool:
        return bool(self._columns)

    def hides(self, table: str, column: str) -> bool:
        return column in self._columns or f"{table}.{column}" in self._columns

    def row(self, table: str, cells: Mapping[str, Any]) -> dict[str, Any]:
        return {column: HIDDEN if self.hides(table, column) else value for column, value in cells.items()}

    def hides_names(self, table: str) -> bool:
        """Whether the rows of a table must not be called by their key."""
        return table in self._tables and any(self.hides(table, column) for column in self._tables[table].key)

    def name(self, table: str, name: Any, row: int | None = None) -> Any:
        """What a row is called: by its key, or by its id where that is hidden."""
        if not self.hides_names(table):
            return name
        return HIDDEN if row is None else f"#{row}"
