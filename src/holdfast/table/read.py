"""Reads tables as Arrow: frames of several libraries, files, and lists of rows.

Frames are recognised by their methods, so that no library is imported that the user did not import.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Location, ReadError, SchemaError, ValueRefused, cell, detail, shown
from holdfast.table.cell_forms import FormFinder
from holdfast.table.databases import is_in_database, read_from_database, table_of
from holdfast.table.encode import without_runs
from holdfast.table.file_places import STANDARD_INPUT, files_at, name_of, standard_input
from holdfast.table.json_depth import require_shallow
from holdfast.table.json_numbers import Rounded, rounded_numbers
from holdfast.table.kind import Kind
from holdfast.table.parse import decimal_scale, infer_column
from holdfast.table.read_csv import read_csv
from holdfast.table.read_json import as_lines, read_json
from holdfast.table.read_parquet import read_parquet
from holdfast.table.reading import ReadAs, Reading
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
from holdfast.table.text_file import DELIMITERS, PACKED, unpacked_name

Needed = Callable[[str], Collection[str] | None]  # the columns of a table that are needed; None: all
LONE_NAME = "data"  # of a single table without a name
JSON_NAMES = (".json", ".jsonl", ".ndjson")


@dataclass(frozen=True)
class Source:
    """A table as it was read.

    `textual`: all values are text, to be parsed by their columns' kinds. `shared`: the table has the columns of
    several tables; the columns of the other tables are null. `rounded`: numbers that differ from what was written.
    `read_as`: how a text file was read, if that was recognised; the cells are plain then.
    """

    name: str
    table: pa.Table
    place: Location
    textual: bool = False
    shared: bool = False
    rounded: tuple[Rounded, ...] = ()
    read_as: ReadAs | None = None

    def only(self, names: list[str]) -> Source:
        return replace(self, table=self.table.select(names))


class RowsSource(Source):
    """Rows as Python values: tuples in the order of `names`, or mappings. The Arrow table is built on first use."""

    names: Sequence[str]
    rows: Sequence[Any]

    def __init__(self, name: str, rows: Sequence[Any], names: Sequence[str], place: Location) -> None:
        fields = {"name": name, "place": place, "textual": False, "shared": False, "names": names, "rows": rows}
        fields |= {"rounded": (), "read_as": None}
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
        return _read_place(str(data), name, needed, reading)
    name = name or LONE_NAME
    table = _without_runs(_with_distinct_names(_to_arrow(data, name), name), f"table {shown(name)}")
    return Source(name, table, Location(f"table {shown(name)}"))


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


def _with_distinct_names(table: pa.Table, place: str) -> pa.Table:
    names = table.schema.names
    if len(set(names)) < len(names):
        duplicate = next(n for n in names if names.count(n) > 1)
        raise ReadError(f"{place}: column {cell(duplicate)} stands twice")
    return table


def _without_runs(table: pa.Table, place: str) -> pa.Table:
    """The table without run-end encoding, which few Arrow functions support."""
    for i, field in enumerate(table.schema):
        if pa.types.is_run_end_encoded(field.type):
            try:
                table = table.set_column(i, field.name, without_runs(table.column(i)))
            except pa.ArrowException as error:
                raise SchemaError(f"{place}: column {shown(field.name)} cannot be read: {detail(error)}") from error
    return table


def _read_place(place: str, name: str | None, needed: Needed | None, reading: Reading | None) -> Source:
    """Reads a file, a directory of files, all files that fit a pattern, a table of a database, or standard input."""
    if is_in_database(place):
        name = name or table_of(place)
        return Source(name, _with_distinct_names(read_from_database(place), place), Location(place))
    if place == STANDARD_INPUT:
        with standard_input() as path:
            return _read_path(path, name or LONE_NAME, needed, reading)
    path, files = Path(place), files_at(place, READ_SUFFIXES)
    name = name or name_of(place)
    if files is None:
        return _read_path(path, name, needed, reading)
    sources = [_read_path(file, name, needed, reading) for file in files]
    return _joined(place, name, files, sources)


def _joined(place: str, name: str, files: Sequence[Path], sources: Sequence[Source]) -> Source:
    """The rows of several files with the same columns."""
    first = sources[0]
    for file, source in zip(files, sources, strict=True):
        if source.table.column_names != first.table.column_names:
            raise ReadError(f"{file}: its columns are not those of {files[0]}: {', '.join(source.table.column_names)}")
    try:
        table = pa.concat_tables([source.table for source in sources], promote_options="permissive")
    except pa.ArrowException as error:
        raise ReadError(f"{place}: the files have columns of different types: {detail(error)}") from error
    read_as = max((s.read_as for s in sources if s.read_as), key=str, default=None)
    return replace(first, name=name, table=table, place=Location(place), read_as=read_as)


def _read_path(path: Path, name: str, needed: Needed | None = None, reading: Reading | None = None) -> Source:
    if not path.exists():
        raise ReadError(f"{path}: there is no such file")
    suffix = unpacked_name(path).suffix.lower()
    if suffix in DELIMITERS or (suffix not in _READERS and path.suffix.lower() in PACKED):
        return _read_text(path, name, needed(name) if needed else None, reading)
    reader = _READERS.get(path.suffix.lower())
    if reader is None and not path.is_dir():
        raise ReadError(f"{path}: the name does not end in one of {', '.join(READ_SUFFIXES)}")
    try:
        table = _table_of(path, reader or read_parquet, needed(name) if needed else None)
    except (OSError, UnicodeDecodeError) as error:  # some are Arrow's own
        raise ReadError(f"{path}: cannot be read: {detail(error)}") from error
    except (pa.ArrowException, OverflowError, RecursionError, MemoryError, ValueError) as error:
        raise ReadError(f"{path}: {detail(error)}") from error
    table = _without_runs(_with_distinct_names(table, str(path)), str(path))
    floats = [f.name for f in table.schema if pa.types.is_floating(f.type)]
    rounded = _rounded(path, floats) if reader is read_json and floats else ()
    return Source(name, table, Location(str(path)), rounded=rounded)


def _read_text(path: Path, name: str, only: Collection[str] | None, reading: Reading | None) -> Source:
    """Reads a file of cells between delimiters; all columns if one of `only` is not there."""
    try:
        read_table = read_csv(path, only, reading)
        if only is not None and not set(only) <= set(read_table.cells.column_names):
            read_table = read_csv(path, None, reading)
    except OSError as error:
        raise ReadError(f"{path}: cannot be read: {detail(error)}") from error
    except (pa.ArrowException, OverflowError, MemoryError, ValueError) as error:
        raise ReadError(f"{path}: {detail(error)}") from error
    read_as = None if reading is None else ReadAs(read_table.delimiter, read_table.encoding)
    return Source(name, read_table.cells, Location(str(path)), textual=True, read_as=read_as)


def with_plain_cells(source: Source, reading: Reading, texts: Collection[str] = ()) -> Source:
    """The source of a text file with its cells in plain form, where a form is recognised; `texts`: columns that the
    user declared as text keep their numbers and dates as they are written."""
    if source.read_as is None or not source.textual:
        return source
    finder, table, forms = FormFinder(reading.null_values, reading.date_format), source.table, {}
    for place, name in enumerate(table.column_names):
        form = finder.find(table.column(place))
        if form is not None and name in texts:
            form = replace(form, date=None, number=None) if reading.null_values is not None else None
        if form is not None:
            forms[name] = form
            table = table.set_column(place, name, form.plain(table.column(place)))
    return replace(source, table=table, read_as=replace(source.read_as, forms=forms))


def _table_of(path: Path, reader: Callable[..., pa.Table], only: Collection[str] | None) -> pa.Table:
    """The columns `only`, or all if one of them is not there, or if a file of this form is read as a whole."""
    if only is None or reader is not read_parquet:
        return reader(path)
    table = reader(path, only)
    return table if set(only) <= set(table.column_names) else reader(path)


def _rounded(path: Path, floats: list[str]) -> tuple[Rounded, ...]:
    """The numbers of a JSON file that a float does not represent as written."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as home:
        return tuple(rounded_numbers(as_lines(path, Path(home)), floats))


def read_json_texts(path: Path) -> Source:
    """A JSON lines file with texts and fractions as written, to be parsed by known column kinds.

    JSON itself has no dates and no decimals.
    """
    rows: list[dict[str, Any]] = []
    try:
        require_shallow(path)
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    rows.append(_json_row(line, f"{path}, line {number}"))
    except FileNotFoundError:
        raise ReadError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: cannot be read: {detail(error)}") from error
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: _json_column(path, name, [row.get(name) for row in rows]) for name in names}
    return Source(path.stem, pa.table(columns), Location(str(path)), textual=True)


def _json_row(line: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_float=str)
    except ValueError as error:
        raise ReadError(f"{place}: not JSON: {detail(error)}") from None
    if not isinstance(row, dict):
        raise ReadError(f"{place}: {cell(row)} is not a row; an object is expected")
    return row


def _json_column(path: Path, name: str, values: list[Any]) -> pa.Array:
    if any(isinstance(value, str) for value in values):
        values = [v if v is None or isinstance(v, str | list | dict) else json.dumps(v) for v in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError) as error:
        raise ReadError(f"{path}, column {shown(name)}: {detail(error)}") from None


def _read_feather(path: Path) -> pa.Table:
    from pyarrow import feather

    return feather.read_table(path)


_READERS = {
    ".parquet": read_parquet,
    ".arrow": _read_feather,
    ".feather": _read_feather,
    ".ipc": _read_feather,
    **dict.fromkeys(JSON_NAMES, read_json),
}
READ_SUFFIXES = (*DELIMITERS, *_READERS)


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
    return Source(source.name, table, source.place, source.textual, source.shared, read_as=source.read_as)


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
