"""A table as it was read, before its values become codes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from holdfast.errors import Location, ReadError, SchemaError, cell, detail, shown
from holdfast.table.encode import without_runs
from holdfast.table.json_numbers import Rounded
from holdfast.table.reading import ReadAs

Needed = Callable[[str], Collection[str] | None]  # the columns of a table that are needed; None: all
LONE_NAME = "data"  # of a single table without a name
JSON_NAMES = (".json", ".jsonl", ".ndjson")


@dataclass(frozen=True)
class Source:
    """A table as it was read.

    `textual`: all values are text, to be parsed by their columns' kinds. `shared`: the table has the columns of
    several tables; the columns of the other tables are null. `rounded`: numbers that differ from what was written.
    `has_cells`: the values are cells of a text file as they are written; `read_as`: how it was read, if that was
    recognised; the cells are plain then.
    """

    name: str
    table: pa.Table
    place: Location
    textual: bool = False
    shared: bool = False
    rounded: tuple[Rounded, ...] = ()
    read_as: ReadAs | None = None
    has_cells: bool = False
    written: pa.Table | None = None  # the cells as they are written, if `table` has them in plain form

    def only(self, names: list[str]) -> Source:
        return replace(self, table=self.table.select(names))


class RowsSource(Source):
    """Rows as Python values: tuples in the order of `names`, or mappings. The Arrow table is built on first use."""

    names: Sequence[str]
    rows: Sequence[Any]

    def __init__(self, name: str, rows: Sequence[Any], names: Sequence[str], place: Location) -> None:
        fields = {"name": name, "place": place, "textual": False, "shared": False, "names": names, "rows": rows}
        fields |= {"rounded": (), "read_as": None, "has_cells": False, "written": None}
        self.__dict__.update(fields)

    def tuples(self) -> Sequence[tuple[Any, ...]] | None:
        """The rows if all are tuples of the right length, else None."""
        width = len(self.names)
        for row in self.rows:
            if type(row) is not tuple or len(row) != width:
                return None
        return self.rows

    @cached_property
    def table(self) -> pa.Table:
        if self.rows and all(isinstance(row, Mapping) for row in self.rows):
            names = list(dict.fromkeys(name for row in self.rows for name in row))
            values = [[row.get(name) for row in self.rows] for name in names]
        else:
            names, values = list(self.names), [[] for _ in self.names]
            for i, row in enumerate(self.rows):
                if not isinstance(row, tuple | list) or len(row) != len(names):
                    raise ReadError(
                        f"{self.place.row(i)}: {cell(row)} is not a row; {len(names)} values or a mapping are expected"
                    )
                for column, value in zip(values, row, strict=True):
                    column.append(value)
        return pa.table({name: self._array(name, column) for name, column in zip(names, values, strict=True)})

    def _array(self, name: str, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise ReadError(f"{self.place.source}, column {shown(name)}: {detail(error)}") from error


def with_distinct_names(table: pa.Table, place: str) -> pa.Table:
    names = table.schema.names
    if len(set(names)) < len(names):
        duplicate = next(n for n in names if names.count(n) > 1)
        raise ReadError(f"{place}: column {cell(duplicate)} stands twice")
    return table


def with_plain_types(table: pa.Table, place: str) -> pa.Table:
    """The table without string views and run-end encoding, for which Arrow has few functions. Looks at each type once:
    most tables, also those of a single row, have neither."""
    kinds = {kind.id for kind in table.schema.types}
    if kinds & {pa.lib.Type_STRING_VIEW, pa.lib.Type_DICTIONARY}:
        table = _without_views(table)
    return _without_encoded_runs(table, place) if pa.lib.Type_RUN_END_ENCODED in kinds else table


def _without_views(table: pa.Table) -> pa.Table:
    """The table with string views as strings, also in dictionaries."""
    for i, field in enumerate(table.schema):
        if pa.types.is_string_view(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.large_string()))
        elif pa.types.is_dictionary(field.type) and pa.types.is_string_view(field.type.value_type):
            table = table.set_column(i, field.name, _with_plain_dictionary(table.column(i)))
    return table


def _with_plain_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.large_string()))
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(column.type.index_type, pa.large_string()))


def _without_encoded_runs(table: pa.Table, place: str) -> pa.Table:
    """The table without run-end encoding."""
    for i, field in enumerate(table.schema):
        if pa.types.is_run_end_encoded(field.type):
            try:
                table = table.set_column(i, field.name, without_runs(table.column(i)))
            except pa.ArrowException as error:
                raise SchemaError(f"{place}: column {shown(field.name)} cannot be read: {detail(error)}") from error
    return table
