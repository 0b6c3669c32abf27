"""Reads the files of a table, by the ending of their name: cells between delimiters, Parquet, Arrow, JSON; and tables
of databases."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from holdfast.errors import Location, ReadError, detail
from holdfast.table.cell_forms import CellForm, FormFinder, form_like, in_plain_form
from holdfast.table.databases import is_in_database, read_from_database, table_of
from holdfast.table.file_places import STANDARD_INPUT, files_at, name_of, standard_input
from holdfast.table.json_numbers import Rounded, rounded_numbers
from holdfast.table.read_csv import read_csv
from holdfast.table.read_excel import EXCEL_NAMES, read_excel
from holdfast.table.read_json import as_lines, read_json
from holdfast.table.read_parquet import read_parquet
from holdfast.table.reading import ReadAs, Reading
from holdfast.table.source import JSON_NAMES, Needed, Source, with_distinct_names, with_plain_types
from holdfast.table.text_file import DELIMITERS, PACKED, unpacked_name


def read_place(place: str, name: str | None, needed: Needed | None, reading: Reading | None) -> Source:
    """Reads a file, a directory of files, all files that fit a pattern, a table of a database, or standard input."""
    name = name or name_of(place)
    if is_in_database(place):
        file, sheet = Path(place.rpartition("::")[0]), table_of(place)
        if file.suffix.lower() in EXCEL_NAMES:
            return _from_excel(file, name, reading, sheet)
        return Source(name, with_distinct_names(read_from_database(place), place), Location(place))
    if place == STANDARD_INPUT:
        with standard_input() as path:
            return _read_path(path, name, needed, reading)
    files = files_at(place, READ_SUFFIXES)
    if files is None:
        return _read_path(Path(place), name, needed, reading)
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
    rounded = tuple(number for source in sources for number in source.rounded)
    return replace(first, name=name, table=table, place=Location(place), rounded=rounded, read_as=read_as)


def _read_path(path: Path, name: str, needed: Needed | None = None, reading: Reading | None = None) -> Source:
    if not path.exists():
        raise ReadError(f"{path}: there is no such file")
    suffix = unpacked_name(path).suffix.lower()
    if suffix in DELIMITERS or (suffix not in _READERS and path.suffix.lower() in PACKED):
        return _read_text(path, name, needed(name) if needed else None, reading)
    if path.suffix.lower() in EXCEL_NAMES:
        return _from_excel(path, name, reading)
    reader = _READERS.get(path.suffix.lower())
    if reader is None and not path.is_dir():
        raise ReadError(f"{path}: the name does not end in one of {', '.join(READ_SUFFIXES)}")
    try:
        table = _table_of(path, reader or read_parquet, needed(name) if needed else None)
    except (OSError, UnicodeDecodeError) as error:  # some are Arrow's own
        raise ReadError(f"{path}: cannot be read: {detail(error)}") from error
    except (pa.ArrowException, OverflowError, RecursionError, MemoryError, ValueError) as error:
        raise ReadError(f"{path}: {detail(error)}") from error
    table = with_plain_types(with_distinct_names(table, str(path)), str(path))
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
    return Source(name, read_table.cells, Location(str(path)), textual=True, read_as=read_as, has_cells=True)


def _from_excel(path: Path, name: str, reading: Reading | None, sheet: str | None = None) -> Source:
    """Reads a sheet of a workbook as a text file with these cells would be read."""
    if not path.is_file():
        raise ReadError(f"{path}: there is no such file")
    try:
        table = with_distinct_names(read_excel(path, sheet), str(path))
    except OSError as error:
        raise ReadError(f"{path}: cannot be read: {detail(error)}") from error
    read_as = None if reading is None else ReadAs()
    return Source(name, table, Location(str(path)), textual=True, read_as=read_as, has_cells=True)


def with_plain_cells(source: Source, reading: Reading, texts: Collection[str] = ()) -> Source:
    """The source of a text file with its cells in plain form, where a form is recognised; `texts`: columns that the
    user declared as text keep their numbers and dates as they are written."""
    if source.read_as is None or not source.textual:
        return source
    finder, table = FormFinder(reading.null_values, reading.date_format), source.table
    found = {name: finder.find(table.column(place)) for place, name in enumerate(table.column_names)}
    numbers = {form.number for form in found.values() if form is not None and form.number is not None}
    if len(numbers) == 1:  # one way to write numbers in the file: it also holds where they could be read in two ways
        (number,) = numbers
        for place, name in enumerate(table.column_names):
            form = found[name]
            if form is None or (form.number is None and form.date is None):
                nulls = () if form is None else form.nulls
                found[name] = form_like(number, table.column(place), nulls) or form
    dates = {form.date for form in found.values() if form is not None and form.date is not None}
    forms: dict[str, CellForm] = {}
    for name, form in found.items():
        if form is not None and len(dates & {*form.unclear}) == 1 == len(dates):  # another column shows the order
            form = CellForm(form.nulls, next(iter(dates)))
        if form is not None and name in texts:
            form = CellForm(form.nulls) if reading.null_values is not None else None
        if form is not None:
            forms[name] = form
    table = in_plain_form(table, forms)
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
READ_SUFFIXES = (*DELIMITERS, *_READERS, *EXCEL_NAMES)
