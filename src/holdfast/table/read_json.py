"""Reads JSON files: a row for each line, or an array of rows."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.errors import Location, ReadError, cell, detail, shown
from holdfast.table.json_depth import require_shallow
from holdfast.table.source import Source

_SPACE = " \t\r\n"


def read_json(path: Path) -> pa.Table:
    """The rows of a file. O(bytes)."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as home:
        lines = as_lines(path, Path(home))
        return _read_lines(lines, path)


def _read_lines(lines: Path, place: Path) -> pa.Table:
    import pyarrow.json as arrow_json

    block = max(lines.stat().st_size, 1) + 1
    if block > 2**31 - 1:
        raise ReadError(f"{place}: JSON files of 2 GiB and more cannot be read; split the file or use Parquet")
    try:
        require_shallow(lines)
    except ReadError as error:
        raise ReadError(str(error).replace(str(lines), str(place))) from None
    return arrow_json.read_json(lines, arrow_json.ReadOptions(block_size=block))


def as_lines(path: Path, home: Path) -> Path:
    """The file, or a file in `home` with the rows of its array as lines, numbers as they are written."""
    with path.open("rb") as file:
        first = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if first != b"[":
        return path
    text = path.read_text(encoding="utf-8-sig")
    decoder, at, target = json.JSONDecoder(), _skipped(text, text.index("[") + 1), home / "rows.jsonl"
    with target.open("w", encoding="utf-8") as out:
        while text[at : at + 1] != "]":
            row, end = _row_at(decoder, text, at, path)
            if not isinstance(row, dict):
                raise ReadError(f"{path}, character {at + 1}: {cell(row)} is not a row; an object is expected")
            out.write(text[at:end].replace("\n", " ").replace("\r", " ") + "\n")
            at = _skipped(text, end)
            if text[at : at + 1] == ",":
                at = _skipped(text, at + 1)
            elif text[at : at + 1] != "]":
                raise ReadError(f"{path}, character {at + 1}: a comma or the end of the array is expected")
    if text[at + 1 :].strip():
        raise ReadError(f"{path}, character {at + 2}: nothing may follow the array of rows")
    return target


def _skipped(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _row_at(decoder: json.JSONDecoder, text: str, at: int, path: Path) -> tuple[Any, int]:
    try:
        return decoder.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{path}: not JSON: {detail(error)}") from None


def read_json_texts(path: Path) -> Source:
    """A JSON lines file with texts and fractions as written, to be parsed by known column kinds.

    JSON itself has no dates and no decimals.
    """
    rows: list[dict[str, Any]] = []
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-") as home:
            lines = as_lines(path, Path(home))
            require_shallow(lines)
            with lines.open(encoding="utf-8") as file:
                for number, line in enumerate(file, start=1):
                    if line.strip():
                        rows.append(_json_row(line, f"{path}, {'line' if lines is path else 'row'} {number}"))
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
