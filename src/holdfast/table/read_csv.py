"""Reads CSV files as Arrow text. One parser reads header and rows, so both agree on quotes and line breaks."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from holdfast.errors import ReadError, cell, detail

_HEADER_BLOCKS = (1 << 20, 1 << 24, 1 << 28, 2**31 - 1)  # bytes parsed at once; a row must fit one block
_BLOCKS = _HEADER_BLOCKS[1:]
_TOO_LONG = ("straddling", "cannot infer number of columns")  # in Arrow's messages about rows longer than a block
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_csv(path: Path, only: Collection[str] | None = None) -> pa.Table:
    """All cells as text, or those of the columns `only`; an empty cell is null. Ragged rows and wrong encodings are
    errors that name the line."""
    _require_header(path)
    names = _header(path)
    places = [i for i, name in enumerate(names) if only is None or name in only]
    for block in _BLOCKS:
        try:
            cells = _cells(path, len(names), block, places)
            return cells.slice(1).rename_columns([names[i] for i in places])
        except pa.ArrowInvalid as error:
            if not any(phrase in str(error) for phrase in _TOO_LONG):
                reason = _wrong_encoding(path) or _ragged(path, len(names)) or f"{path}: {detail(error)}"
                raise ReadError(reason) from error
    raise ReadError(f"{path}: a row is longer than {block:,} bytes; is there a quote that is never closed?")


def _require_header(path: Path) -> None:
    with path.open("rb") as file:
        first = file.read(len(_BYTE_ORDER_MARK) + 1).removeprefix(_BYTE_ORDER_MARK)
    if not first:
        raise ReadError(f"{path}: the file is empty; a CSV file begins with a header")
    if first[:1] in b"\r\n":
        raise ReadError(f"{path}, line 1: the line is empty; a CSV file begins with a header")


def _header(path: Path) -> list[str]:
    """The column names; an empty one becomes `column_N`. Reads one block, or a larger one if the header is longer."""
    size = path.stat().st_size
    for block in _HEADER_BLOCKS:
        try:
            width = len(_first_block(path, block, None).schema)
            texts = [column[0].as_py() or "" for column in _first_block(path, block, width).columns]
        except pa.ArrowInvalid:
            if block > size:
                break
            continue
        names = [text if text.strip() else f"column_{i + 1}" for i, text in enumerate(texts)]
        if len(set(names)) < len(names):
            duplicate = next(n for n in names if names.count(n) > 1)
            raise ReadError(f"{path}: column {cell(duplicate)} stands twice in the header")
        return names
    raise ReadError(
        _wrong_encoding(path) or f"{path}, line 1: the header does not end; is there a quote that is never closed?"
    )


def _first_block(path: Path, block: int, width: int | None) -> pa.RecordBatch:
    """The cells of the first block, without ragged rows; as text if the width is known."""
    parsing = pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
    options = pa.csv.ReadOptions(autogenerate_column_names=True, block_size=block)
    with pa.csv.open_csv(_input(path), options, parsing, _as_text(range(width or 0))) as reader:
        return reader.read_next_batch()


def _as_text(places: Iterable[int]) -> pa.csv.ConvertOptions:
    """Reads these columns as text, and no others if there are any."""
    types = {f"f{i}": pa.string() for i in places}
    return pa.csv.ConvertOptions(
        column_types=types, include_columns=list(types), null_values=[""], strings_can_be_null=True
    )


def _cells(path: Path, width: int, block: int, places: list[int]) -> pa.Table:
    """All rows of these columns, including the header. In a file of one column, an empty line is a null."""
    options = pa.csv.ReadOptions(autogenerate_column_names=True, block_size=block)
    parsing = pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=width > 1)
    return pa.csv.read_csv(_input(path), options, parsing, _as_text(places))


def _input(path: Path) -> Any:
    """The file; if it is small, with a line break at its end, which Arrow needs to read a header without rows."""
    if path.stat().st_size > _HEADER_BLOCKS[0]:
        return path
    content = path.read_bytes()
    return pa.BufferReader(content if content[-1:] in (b"\n", b"\r") else content + b"\n")


def _ragged(path: Path, width: int) -> str | None:
    """Names the line with too few or too many cells. Arrow's line numbers are wrong after a quoted line break."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            for row in rows:
                if row and len(row) != width:
                    return f"{path}, line {rows.line_num}: {len(row)} cells instead of {width}: {cell(','.join(row))}"
    except (csv.Error, UnicodeDecodeError):
        pass  # use Arrow's message
    return None


def _wrong_encoding(path: Path) -> str | None:
    """Names the first line that is not UTF-8, if there is one."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                bad = line[error.start : error.start + 8]
                place = f"{path}, line {number}, byte {error.start + 1} of the line"
                return f"{place}: {cell(bad)} is not UTF-8; convert the file to UTF-8"
    return None
