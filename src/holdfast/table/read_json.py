"""Reads JSON files: a row for each line, or an array of rows."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.errors import ReadError, cell, detail
from holdfast.table.json_depth import require_shallow

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
    require_shallow(lines)
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
