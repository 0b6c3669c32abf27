"""Numbers in a JSON file that Arrow's reader rounds to 64-bit floats without a word."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from holdfast.table.exact_floats import round_trips

_AT_ONCE = 1 << 24  # bytes
_LONG = re.compile(rb"[\s:,\[]-?[0-9](?:[0-9.]{15}|[0-9.]*[eE]-?[0-9]{3})")  # what has more than 15 digits, or is tiny


class Rounded(NamedTuple):
    """A number that is not exactly the float it was read as."""

    column: str
    line: int
    text: str


class _Number(str):
    __slots__ = ()


def rounded_numbers(path: Path, floats: Collection[str]) -> tuple[Rounded, ...]:
    """The first such number of each of these columns. O(bytes); only lines with long numbers are parsed."""
    found: dict[str, Rounded] = {}
    number = 0
    with path.open("rb") as file:
        while lines := file.readlines(_AT_ONCE):
            if _LONG.search(b"".join(lines)):
                for i, line in enumerate(lines, start=number + 1):
                    if _LONG.search(line):
                        for name, text in _inexact(line, floats):
                            found.setdefault(name, Rounded(name, i, text))
            number += len(lines)
    return tuple(found.values())


def _inexact(line: bytes, floats: Collection[str]) -> list[tuple[str, str]]:
    try:
        row = json.loads(line, parse_float=_Number, parse_int=_Number)
    except ValueError:  # a row of several lines
        return []
    numbers = row.items() if isinstance(row, dict) else ()
    return [(n, str(v)) for n, v in numbers if n in floats and isinstance(v, _Number) and not _is_exact(v)]


def _is_exact(text: str) -> bool:
    value = float(text)
    lost = value == 0 and any(digit in "123456789" for digit in re.split("[eE]", text)[0])
    return not lost and round_trips(text, value)
