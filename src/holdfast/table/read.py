"""Reads tables as Arrow: frames of several libraries, files, and lists of rows.

Frames are recognised by their methods, so that no library is imported that the user did not import.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Location, ReadError, SchemaError, ValueRefused, cell, detail, shown
from holdfast.table.json_numbers import Rounded
from holdfast.table.kind import Kind
from holdfast.table.parse import decimal_scale, infer_column
from holdfast.table.read_path import read_place
from holdfast.table.reading import Reading
from holdfast.table.schema import (
    Column,
    Schema,
    column_of_arrow,
    column_of_type_text,
    is_string,
    type_option,
    unknown_name,
    value_type,
)
from holdfast.table.source import (
    LONE_NAME,
    Needed,
    RowsSource,
    Source,
    with_distinct_names,
    with_plain_types,
)


def read(
    data: Any,
    name: str | None = None,
    names: Sequence[str] = (),
    needed: Needed | None = None,
    reading: Reading | None = None,
) -> Source:
    """Reads a pandas, Polars, Arrow, DuckDB or Spark table, a path, or a list of rows (mappings, or tuples in the order
    of `names`); of CSV and Parquet files only the columns that are `needed`. With `reading`, encodings of text files
    are recognised, and `with_plain_cells` recognises the forms of cells."""
    if isinstance(data, Source):
        return data
    if isinstance(data, list | tuple):
        return RowsSource(name or LONE_NAME, data, names, Location(f"table {shown(name or LONE_NAME)}"))
    if isinstance(data, str | Path):
        return read_place(str(data), name, needed, reading)
    name = name or LONE_NAME
    place = f"table {shown(name)}"
    table = with_plain_types(with_distinct_names(_to_arrow(data, name), name), place)
    return Source(name, table, Location(place))


def read_all(data: Any, needed: Needed | None = None, reading: Reading | None = None) -> dict[str, Source]:
    """Reads one table, or a mapping of names to tables; of each table only the columns that are `needed`. If one of
    them is not there, all are read, so that the error can name the nearest."""
    if not isinstance(data, Mapping):
        source = _narrowed(_as_table(read(data, None, needed=needed, reading=reading)), needed)
        return {source.name: source}
    if not data:
        raise ReadError("no table was given")
    sources = {
        str(name): _as_table(read(table, str(name), needed=needed, reading=reading)) for name, table in data.items()
    }
    return {name: _narrowed(source, needed) for name, source in sources.items()}


def _narrowed(source: Source, needed: Needed | None) -> Source:
    """The source with the needed columns only, if it has them all."""
    only, names = needed(source.name) if needed else None, source.table.column_names
    return source if only is None or not set(only) <= set(names) else source.only([n for n in names if n in only])


def _as_table(source: Source) -> Source:
    """The same source; records (a list of mappings) as an Arrow table."""
    if not isinstance(source, RowsSource):
        return source
    if not source.rows or not all(isinstance(row, Mapping) for row in source.rows):
        raise ReadError(f"table {shown(source.name)}: a table given as a list is a list of at least one mapping")
    return Source(source.name, source.table, source.place)


def _to_arrow(data: Any, name: str) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    library = type(data).__module__.partition(".")[0]
    try:
        if isinstance(data, pa.RecordBatchReader):
            return data.read_all()
        if library == "pandas":
            return pa.Table.from_pandas(data, preserve_index=False).replace_schema_metadata()
        if library == "polars" and hasattr(data, "collect"):
            data = data.collect()
        if hasattr(data, "toArrow"):  # Spark, classic and Connect
            return data.toArrow()
        if hasattr(data, "to_arrow_table"):  # DuckDB
            return data.to_arrow_table()
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
    except (pa.ArrowException, OSError, OverflowError, ValueError, AttributeError, TypeError) as error:
        raise ReadError(f"table {shown(name)} cannot be read: {detail(error)}") from error
    raise ReadError(
        f"table {shown(name)}: a {type(data).__name__} is not a table; give a pandas, Polars, Arrow, DuckDB or Spark "
        f"table, or a path"
    )


def schema_of(source: Source, types: Mapping[str, str] | None = None) -> Schema:
    """The schema of a source, from its Arrow types or, for a textual source, from all values.

    `types` overrides the types of single columns.
    """
    types = dict(types or {})
    for name in types:
        if name not in source.table.column_names:
            raise SchemaError(f"{source.place.source}: {unknown_name('column', name, source.table.column_names)}")
    try:
        return Schema(tuple(_column(source, field, types.get(field.name)) for field in source.table.schema))
    except SchemaError as error:
        raise SchemaError(f"{source.place.source}: {error}") from None


def _column(source: Source, field: pa.Field, declared: str | None) -> Column:
    values = source.table.column(field.name)
    if declared == "decimal":
        try:
            texts = pc.unique(values.cast(pa.string())).drop_null()
        except pa.ArrowException as error:
            raise SchemaError(f"column {shown(field.name)} cannot be read as decimal: {detail(error)}") from error
        return column_of_type_text(field.name, f"decimal({decimal_scale(texts)})")
    if declared is not None:
        return column_of_type_text(field.name, declared)
    if source.textual and is_string(field.type):
        return infer_column(field.name, values)
    return column_of_arrow(field)


def conform(source: Source, schema: Schema, names: Iterable[str]) -> Source:
    """The source with the named columns, whose types the user declared, cast exactly; raises ValueRefused."""
    table, names = source.table, tuple(names)
    for number in source.rounded:
        if number.column in schema and not (number.column in names and schema.column(number.column).kind is Kind.FLOAT):
            raise ValueRefused(_rounding_message(source, number))
    for name in names:
        if name in table.column_names and _needs_cast(
            schema.column(name), table.schema.field(name).type, source.textual
        ):
            values = _cast(source, schema.column(name), table.column(name))
            table = table.set_column(table.schema.get_field_index(name), name, values)
    as_read = {"read_as": source.read_as, "has_cells": source.has_cells}
    return Source(source.name, table, source.place, source.textual, source.shared, **as_read)  # type: ignore[arg-type]


def _rounding_message(source: Source, number: Rounded) -> str:
    option = type_option(number.column, "float")
    place = f"{source.place.source}, line {number.line}, column {shown(number.column)}"
    return (
        f"{place}: {cell(number.text)} is not exactly a 64-bit float, but JSON numbers are read as floats; "
        f"write the column's numbers in quotes, or accept rounding with {option} "
        f"(in Python: types={{{number.column!r}: 'float'}})"
    )


def _needs_cast(column: Column, type_: pa.DataType, textual: bool) -> bool:
    """Whether values must be cast to text. The encoder converts to all other kinds, or refuses the type."""
    return not textual and column.kind is Kind.TEXT and not is_string(value_type(type_)) and not pa.types.is_null(type_)


def _cast(source: Source, column: Column, values: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return values.cast(column.arrow_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueRefused(
            f"{source.place.source}, column {shown(column.name)}: cannot be read as {column.type_text}: {detail(error)}"
        ) from error
