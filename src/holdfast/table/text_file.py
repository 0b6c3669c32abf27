"""Opens text files for the CSV parser: unpacks and decodes them, and recognises what separates cells."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from holdfast.errors import ReadError, cell, detail
from holdfast.table.reading import UTF_8, WINDOWS, Reading

PACKED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_CANDIDATES = (",", ";", "\t", "|")
_SNIFFED, _SNIFFED_ROWS = 1 << 16, 50  # bytes and rows that show the delimiter
_STEP = 1 << 24
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


@dataclass(frozen=True)
class TextFile:
    """A file of UTF-8 text. `place`: the name for messages; `encoding`: what it was written in."""

    path: Path
    place: Path
    delimiter: str = ","
    encoding: str = UTF_8


def unpacked_name(path: Path) -> Path:
    """`a.csv` of `a.csv.gz`."""
    return path.with_suffix("") if path.suffix.lower() in PACKED else path


@contextmanager
def text_file(path: Path, reading: Reading | None) -> Iterator[TextFile]:
    """The file as UTF-8 text, in a temporary file if it is packed or in another encoding. Without `reading`, only
    UTF-8 is read."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as home:
        plain = _unpacked(path, Path(home)) if path.suffix.lower() in PACKED else path
        encoding = _encoding(plain, reading) if reading is not None else UTF_8
        if encoding != UTF_8:
            plain = _decoded(plain, path, encoding, Path(home))
        usual = DELIMITERS.get(unpacked_name(path).suffix.lower(), ",")
        delimiter = (reading.delimiter if reading is not None else None) or _delimiter(plain, usual)
        yield TextFile(plain, path, delimiter, encoding)


def _unpacked(path: Path, home: Path) -> Path:
    target = home / "unpacked"
    try:
        with (
            pa.CompressedInputStream(pa.OSFile(str(path)), PACKED[path.suffix.lower()]) as packed,
            target.open("wb") as out,
        ):
            while block := packed.read(_STEP):
                out.write(block)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise ReadError(f"{path}: cannot be unpacked: {detail(error)}") from error
    return target


def _encoding(path: Path, reading: Reading) -> str:
    """UTF-16 if the file says so; Windows-1252 if it is no UTF-8 and nothing in it looks like UTF-8."""
    if reading.encoding is not None:
        return (
            UTF_8
            if reading.encoding.lower().replace("-", "").replace("_", "") in ("utf8", "utf8sig")
            else reading.encoding
        )
    with path.open("rb") as file:
        mark = _MARKS.get(file.read(2))
    if mark is not None:
        return mark
    is_utf_8, has_pairs = True, False
    with path.open("rb") as file:
        for line in file:
            if line.isascii():
                continue
            try:
                line.decode(UTF_8)
                has_pairs = True
            except UnicodeDecodeError:
                is_utf_8 = False
    return UTF_8 if is_utf_8 or has_pairs or _is_binary(path) else WINDOWS


def _is_binary(path: Path) -> bool:
    """Whether a file has bytes that no text has."""
    with path.open("rb") as file:
        first = file.read(_SNIFFED)
    return any(byte in first for byte in (b"\x00", b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d"))


def _decoded(path: Path, place: Path, encoding: str, home: Path) -> Path:
    target = home / "decoded"
    try:
        with path.open(encoding=encoding, newline="") as file, target.open("w", encoding=UTF_8, newline="") as out:
            while block := file.read(_STEP):
                out.write(block)
    except (UnicodeError, OSError) as error:
        raise ReadError(f"{place}: cannot be read as {encoding}: {detail(error)}") from error
    return target


def _delimiter(path: Path, usual: str) -> str:
    """What splits all of the first rows into the same number of cells, more than one; the usual one if it does."""
    with path.open("rb") as file:
        block = file.read(_SNIFFED)
    text = block.decode(UTF_8, errors="replace").removeprefix("\ufeff")
    cut = len(block) == _SNIFFED
    widths = {candidate: _width(text, candidate, cut) for candidate in dict.fromkeys((usual, *_CANDIDATES))}
    fitting = [candidate for candidate, width in widths.items() if width > 1]
    return usual if usual in fitting or not fitting else max(fitting, key=lambda c: widths[c])


def _width(text: str, delimiter: str, cut: bool) -> int:
    """The number of cells of each of the first rows; 0 if they differ."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if row:
                rows.append(row)
            if len(rows) > _SNIFFED_ROWS:
                break
    except csv.Error:
        return 0
    rows = rows[:-1] if cut and len(rows) > 1 else rows
    widths = {len(row) for row in rows}
    return widths.pop() if len(widths) == 1 else 0


def not_utf_8(file: TextFile) -> str | None:
    """Names the first line that is not UTF-8, if there is one."""
    with file.path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                line.decode(UTF_8)
            except UnicodeDecodeError as error:
                bad = line[error.start : error.start + 8]
                place = f"{file.place}, line {number}, byte {error.start + 1} of the line"
                return f"{place}: {cell(bad)} is not UTF-8; convert the file to UTF-8, or say --encoding"
    return None
