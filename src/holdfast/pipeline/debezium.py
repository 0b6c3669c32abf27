"""Reads Debezium change events (JSON) as changes of tables.

`after` holds an inserted row, `before` a deleted one. An event may carry a schema, which is ignored. Events may be
delivered repeatedly, so an insert replaces a row with the same key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.errors import Location, ReadError, SchemaError, cell, detail, shown
from holdfast.table.change import DELETE, UPSERT, Feed, Part
from holdfast.table.effect import Bad
from holdfast.table.kind import Kind
from holdfast.table.options import TableOptions
from holdfast.table.schema import Column, Schema, unknown_name
from holdfast.table.source import Source

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS = 10**14  # a time after 1973 in microseconds is larger than any in milliseconds before the year 5138


class _Rows:
    """The changed rows of one table, in order."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.types: list[int] = []
        self.places: list[str] = []
        self.newest = 0  # milliseconds since 1970

    def add(self, kind: int, row: dict[str, Any], place: str) -> None:
        self.rows.append(row)
        self.types.append(kind)
        self.places.append(place)


class _Places(Location):
    """The location of each row in the input, given as text."""

    def __init__(self, source: str, places: list[str]) -> None:
        super().__init__(source)
        object.__setattr__(self, "_places", places)

    def row(self, index: int) -> str:
        return str(self._places[index])  # type: ignore[attr-defined]


def feeds_of(
    lines: Iterable[tuple[str, str | None]],
    tables: Mapping[str, TableOptions],
    source: str,
    bad: list[Bad] | None = None,
) -> list[Feed]:
    """Converts events, given in order as (place, JSON text), to one feed per table. Ignores tombstones.

    An event that cannot be read is an error. If `bad` is given, the event is added to it instead.
    """
    by_table: dict[str, _Rows] = {}
    for place, text in lines:
        if text is None or not text.strip():
            continue
        try:
            _add(by_table, place, text, tables)
        except (ReadError, SchemaError) as error:
            if bad is None:
                raise
            bad.append(Bad.unread(place, str(error).removeprefix(f"{place}: "), {"text": text}))
    return [_feed(name, rows, source) for name, rows in by_table.items() if rows.rows]


def _add(by_table: dict[str, _Rows], place: str, text: str, tables: Mapping[str, TableOptions]) -> None:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{place}: not JSON: {error}") from None
    payload = event.get("payload", event) if isinstance(event, dict) else event
    if payload is None:  # a tombstone
        return
    if not isinstance(payload, dict) or "op" not in payload:
        raise ReadError(f"{place}: not a Debezium event: it has no `op`")
    operation, before, after = payload["op"], payload.get("before"), payload.get("after")
    if operation == "t":
        raise ReadError(f"{place}: the source table was truncated; create the rulebook again")
    if operation == "m":  # a message, not a row
        return
    name = _table_of(payload, place, tables)
    key, schema = tables[name].key, tables[name].schema
    if not key:
        raise SchemaError(f"table {shown(name)}: Debezium events need a key")
    if operation not in ("c", "u", "r", "d"):
        raise ReadError(f"{place}: {cell(operation)} is not an operation that Debezium has")
    changed = by_table.setdefault(name, _Rows())
    changed.newest = max(changed.newest, _milliseconds(payload))
    if operation == "d":
        changed.add(DELETE, _row(before, "before", place, schema), place)
        return
    row = _row(after, "after", place, schema)
    old = _row(before, "before", place, schema) if operation == "u" and before else row
    if any(old.get(k) != row.get(k) for k in key):
        changed.add(DELETE, old, place)
    changed.add(UPSERT, row, place)


def _milliseconds(payload: dict[str, Any]) -> int:
    """When the change was made in the database, or else when Debezium saw it; 0 if the event does not say."""
    source = payload.get("source")
    times = [source.get("ts_ms") if isinstance(source, dict) else None, payload.get("ts_ms")]
    return next((time for time in times if type(time) is int and 0 < time < _MICROSECONDS), 0)


def _row(row: Any, name: str, place: str, schema: Schema) -> dict[str, Any]:
    """One side of an event, with each value converted to its column's kind."""
    if not isinstance(row, dict):
        raise ReadError(f"{place}: the event has no `{name}`")
    converted = {}
    for column, value in row.items():
        try:
            converted[column] = _value(value, schema.column(column)) if column in schema else value
        except (ValueError, TypeError, ArithmeticError):
            kind = schema.column(column).type_text
            raise ReadError(f"{place}: column {shown(column)}: {cell(value)} is not a {kind}") from None
    return converted


def _table_of(payload: dict[str, Any], place: str, tables: Mapping[str, TableOptions]) -> str:
    if len(tables) == 1:
        return next(iter(tables))
    name = (payload.get("source") or {}).get("table") or (payload.get("source") or {}).get("collection")
    if name not in tables:
        raise SchemaError(f"{place}: {unknown_name('table', str(name), list(tables))}")
    return str(name)


def _feed(name: str, rows: _Rows, source: str) -> Feed:
    names = list(dict.fromkeys(column for row in rows.rows for column in row))
    columns = {column: _array([row.get(column) for row in rows.rows], source, column) for column in names}
    part = Source(name, pa.table(columns), _Places(source, rows.places))
    happened = (_EPOCH + timedelta(milliseconds=rows.newest)).isoformat() if rows.newest else None
    return Feed(Part.by_keys(part, np.array(rows.types, np.int8)), name, happened)


def _array(values: list[Any], source: str, column: str) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError) as error:
        raise ReadError(f"{source}, column {cell(column)}: {detail(error)}") from None


def _value(value: Any, column: Column) -> Any:
    """Converts a JSON value to the column's kind. Times may be given as numbers, decimals as text."""
    if value is None:
        return None
    if column.kind is Kind.DATE:
        return date(1970, 1, 1) + timedelta(days=value) if isinstance(value, int) else date.fromisoformat(str(value))
    if column.kind is Kind.TIMESTAMP:
        if isinstance(value, int):
            scale = 1 if abs(value) >= _MICROSECONDS else 1000
            return _EPOCH + timedelta(microseconds=value * scale)
        return datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    if column.kind in (Kind.DECIMAL, Kind.FLOAT) and isinstance(value, int | float | str):
        return Decimal(str(value)) if column.kind is Kind.DECIMAL else float(value)
    return value
