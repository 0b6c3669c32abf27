"""Where the files of a table are: one file, a directory, a pattern, standard input."""

from __future__ import annotations

import glob
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import ReadError
from holdfast.table.databases import is_in_database, table_of
from holdfast.table.source import LONE_NAME
from holdfast.table.text_file import unpacked_name

STANDARD_INPUT = "-"
_PARQUET, _ARROW, _GZIP = b"PAR1", b"ARROW1", b"\x1f\x8b"


def name_of(place: str) -> str:
    """The name of the table at a place: that of the file, without `.csv` or `.csv.gz`; of a pattern, its directory's.

    >>> name_of("in/sales.csv.gz"), name_of("in/day-*.csv"), name_of("shop.db::orders"), name_of("-")
    ('sales', 'in', 'orders', 'data')
    """
    if place == STANDARD_INPUT:
        return LONE_NAME
    if is_in_database(place):
        return table_of(place)
    path = Path(place)
    if _is_pattern(place) and not path.exists():
        return path.parent.name or LONE_NAME
    return unpacked_name(path).stem


def _is_pattern(place: str) -> bool:
    return any(sign in place for sign in "*?[")


def files_at(place: str, suffixes: Collection[str]) -> list[Path] | None:
    """The files of a directory or pattern, sorted; None if the place is a file, or a directory of Parquet files."""
    path = Path(place)
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if unpacked_name(file).suffix.lower() in suffixes]
        if not files or all(file.suffix == ".parquet" for file in files):
            return None
    elif _is_pattern(place) and not path.exists():
        files = [file for file in map(Path, sorted(glob.glob(place, recursive=True))) if file.is_file()]  # noqa: PTH207
        if not files:
            raise ReadError(f"{place}: no file fits")
    else:
        return None
    return files


@contextmanager
def standard_input() -> Iterator[Path]:
    """Standard input as a file, whose name says what it contains: CSV, JSON, Parquet or Arrow."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as home:
        whole = Path(home) / "input"
        with whole.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        with whole.open("rb") as file:
            first = file.read(4096)
        text = first.lstrip()[:1]
        is_rows = text == b"{" or (text == b"[" and first.lstrip()[1:].lstrip()[:1] in (b"{", b"]"))
        unpacked = ".csv.gz" if first[:2] == _GZIP else ".csv"
        suffix = ".parquet" if first[:4] == _PARQUET else ".arrow" if first[:6] == _ARROW else unpacked
        named = Path(home) / f"standard input{'.json' if is_rows else suffix}"
        whole.rename(named)
        yield named
