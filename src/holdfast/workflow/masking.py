"""Columns whose values are not shown. docs/workflow.md lists where masks apply and where not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.errors import HIDDEN, HoldfastError, shown
from holdfast.rulebook import Rulebook
from holdfast.table.options import TableOptions, maskable
from holdfast.workflow.decisions import Decisions


class Mask:
    """Hides the cells of masked columns. Rows whose key is masked are named by their row id.

    >>> Mask(["ssn"], {}).row("people", {"ssn": "123", "zip": "10115"})
    {'ssn': '•••', 'zip': '10115'}
    """

    def __init__(self, columns: Collection[str], tables: Mapping[str, TableOptions]) -> None:
        self._columns, self._tables = frozenset(columns), tables

    @classmethod
    def of(cls, book: Rulebook, more: Collection[str] = ()) -> Mask:
        """The mask of a rulebook: the columns of its manifest, of rules.yml, and `more`. An unknown column is an error,
        because it would hide nothing."""
        columns = frozenset(book.masked | Decisions.of(book).masked | {*more})
        for column in sorted(columns - maskable(book.tables)):
            raise HoldfastError(
                f"{book.path or 'the rulebook'}: mask: there is no column {shown(column)}; nothing would be hidden"
            )
        return cls(columns, book.tables)

    def __bool__(self) -> bool:
        return bool(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mask) and self._columns == other._columns

    def __hash__(self) -> int:
        return hash(self._columns)

    def hides(self, table: str, column: str) -> bool:
        return column in self._columns or f"{table}.{column}" in self._columns

    def row(self, table: str, cells: Mapping[str, Any]) -> dict[str, Any]:
        return {column: HIDDEN if self.hides(table, column) else value for column, value in cells.items()}

    def hides_names(self, table: str) -> bool:
        """Whether the rows of a table must not be named by their key."""
        return table in self._tables and any(self.hides(table, column) for column in self._tables[table].key)

    def name(self, table: str, name: Any, row: int | None = None) -> Any:
        """The name of a row: its key, or its id if the key is masked."""
        if not self.hides_names(table):
            return name
        return HIDDEN if row is None else f"#{row}"

    def hides_any(self, table: str) -> bool:
        """Whether a table has a masked column."""
        return table not in self._tables or any(self.hides(table, c) for c in self._tables[table].schema.names)

    def quarantined(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """A record of a quarantined row. If its table has a masked column, all values are hidden: a bad row may have
        values in the wrong columns."""
        table, values = record["table"], record["values"]
        if not self._columns or (table is not None and not self.hides_any(table)):
            return dict(record)
        return {**record, "values": dict.fromkeys(values, HIDDEN), "reason": record.get("plain") or HIDDEN}

    def require_by_key(self, table: str) -> None:
        """Refuses to look rows up by a masked key: the answer would reveal whether a value exists."""
        if self.hides_names(table):
            raise HoldfastError(f"rows of {table} go by their id here, because their key is masked")
