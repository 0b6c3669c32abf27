"""Finds the numbers in a JSON file that Arrow's reader silently rounds to 64-bit floats."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from holdfast.table.exact_floats import round_trips

_BLOCK_BYTES = 1 << 24
_LONG = re.compile(rb"[\s:,\[]-?[0-9](?:[0-9.]{15}|[0-9.]*[eE]-?[0-9]{3})")  # more than 15 digits, or tiny


class Rounded(NamedTuple):
    """A number that differs from the float it was read as."""

    column: str
    line: int
    text: str


class _Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


def rounded_numbers(path: Path, floats: Collection[str]) -> tuple[Rounded, ...]:
    """The first rounded number of each column in `floats`. O(bytes); only lines with long numbers are parsed."""
    first: dict[str, Rounded] = {}
    lines_before = 0
    with path.open("rb") as file:
        while lines := file.readlines(_BLOCK_BYTES):
            if _LONG.search(b"".join(lines)):
                for number, line in enumerate(lines, start=lines_before + 1):
                    if _LONG.search(line):
                        for name, text in _inexact(line, floats):
                            first.setdefault(name, Rounded(name, number, text))
            lines_before += len(lines)
    return tuple(first.values())


def _inexact(line: bytes, floats: Collection[str]) -> list[tuple[str, str]]:
    """(column, text) of the rounded numbers of a line."""
    try:
        row = json.loads(line, parse_float=_Number, parse_int=_Number)
    except ValueError:  # a row on several lines
        return []
    numbers = row.items() if isinstance(row, dict) else ()
    return [(n, str(v)) for n, v in numbers if n in floats and isinstance(v, _Number) and not _is_exact(v)]


def _is_exact(text: str) -> bool:
    value = float(text)
    is_lost = value == 0 and any(digit in "123456789" for digit in re.split("[eE]", text)[0])
    return not is_lost and round_trips(text, value)
