"""Reads CSV files as Arrow text. One parser reads header and rows, so both agree on quotes and line breaks."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv

from holdfast.errors import ReadError, cell, detail
from holdfast.table.reading import Reading
from holdfast.table.text_file import TextFile, not_utf_8, text_file

_HEADER_BLOCKS = (1 << 20, 1 << 24, 1 << 28, 2**31 - 1)  # bytes parsed at once; a row must fit one block
_BLOCKS = _HEADER_BLOCKS[1:]
_TOO_LONG = ("straddling", "cannot infer number of columns")  # in Arrow's messages about rows longer than a block
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class CsvTable(NamedTuple):
    """The cells of a file as text, what separates them, and the encoding of the file."""

    cells: pa.Table
    delimiter: str
    encoding: str


def read_csv(path: Path, only: Collection[str] | None = None, reading: Reading | None = None) -> CsvTable:
    """All cells as text, or those of the columns `only`; an empty cell is null. Ragged rows and wrong encodings are
    errors that name the line. With `reading`, encodings other than UTF-8 are recognised."""
    with text_file(path, reading) as file:
        return CsvTable(_read(file, only), file.delimiter, file.encoding)


def _read(file: TextFile, only: Collection[str] | None) -> pa.Table:
    _require_header(file)
    names = _header(file)
    places = [i for i, name in enumerate(names) if only is None or name in only]
    for block in _BLOCKS:
        try:
            cells = _cells(file, len(names), block, places)
            return cells.slice(1).rename_columns([names[i] for i in places])
        except pa.ArrowInvalid as error:
            if not any(phrase in str(error) for phrase in _TOO_LONG):
                reason = not_utf_8(file) or _ragged(file, len(names)) or f"{file.place}: {detail(error)}"
                raise ReadError(reason) from error
    raise ReadError(f"{file.place}: a row is longer than {block:,} bytes; is there a quote that is never closed?")


def _require_header(file: TextFile) -> None:
    with file.path.open("rb") as content:
        first = content.read(len(_BYTE_ORDER_MARK) + 1).removeprefix(_BYTE_ORDER_MARK)
    if not first:
        raise ReadError(f"{file.place}: the file is empty; a CSV file begins with a header")
    if first[:1] in b"\r\n":
        raise ReadError(f"{file.place}, line 1: the line is empty; a CSV file begins with a header")


def _header(file: TextFile) -> list[str]:
    """The column names; an empty one becomes `column_N`. Reads one block, or a larger one if the header is longer."""
    size = file.path.stat().st_size
    for block in _HEADER_BLOCKS:
        try:
            width = len(_first_block(file, block, None).schema)
            texts = [column[0].as_py() or "" for column in _first_block(file, block, width).columns]
        except pa.ArrowInvalid:
            if block > size:
                break
            continue
        names = [text if text.strip() else f"column_{i + 1}" for i, text in enumerate(texts)]
        if len(set(names)) < len(names):
            duplicate = next(n for n in names if names.count(n) > 1)
            raise ReadError(f"{file.place}: column {cell(duplicate)} stands twice in the header")
        return names
    raise ReadError(
        not_utf_8(file) or f"{file.place}, line 1: the header does not end; is there a quote that is never closed?"
    )


def _first_block(file: TextFile, block: int, width: int | None) -> pa.RecordBatch:
    """The cells of the first block, without ragged rows; as text if the width is known."""
    parsing = pa.csv.ParseOptions(
        delimiter=file.delimiter, newlines_in_values=True, invalid_row_handler=lambda _: "skip"
    )
    options = pa.csv.ReadOptions(autogenerate_column_names=True, block_size=block)
    with pa.csv.open_csv(_input(file.path), options, parsing, _as_text(range(width or 0))) as reader:
        return reader.read_next_batch()


def _as_text(places: Iterable[int]) -> pa.csv.ConvertOptions:
    """Reads these columns as text, and no others if there are any."""
    types = {f"f{i}": pa.string() for i in places}
    return pa.csv.ConvertOptions(
        column_types=types, include_columns=list(types), null_values=[""], strings_can_be_null=True
    )


def _cells(file: TextFile, width: int, block: int, places: list[int]) -> pa.Table:
    """All rows of these columns, including the header. In a file of one column, an empty line is a null."""
    options = pa.csv.ReadOptions(autogenerate_column_names=True, block_size=block)
    parsing = pa.csv.ParseOptions(delimiter=file.delimiter, newlines_in_values=True, ignore_empty_lines=width > 1)
    return pa.csv.read_csv(_input(file.path), options, parsing, _as_text(places))


def _input(path: Path) -> Any:
    """The file; if it is small, with a line break at its end, which Arrow needs to read a header without rows."""
    if path.stat().st_size > _HEADER_BLOCKS[0]:
        return path
    content = path.read_bytes()
    return pa.BufferReader(content if content[-1:] in (b"\n", b"\r") else content + b"\n")


def _ragged(file: TextFile, width: int) -> str | None:
    """Names the line with too few or too many cells. Arrow's line numbers are wrong after a quoted line break."""
    try:
        with file.path.open(encoding="utf-8-sig", newline="") as content:
            rows = csv.reader(content, delimiter=file.delimiter)
            for row in rows:
                if row and len(row) != width:
                    text = file.delimiter.join(row)
                    return f"{file.place}, line {rows.line_num}: {len(row)} cells instead of {width}: {cell(text)}"
    except (csv.Error, UnicodeDecodeError):
        pass  # use Arrow's message
    return None
