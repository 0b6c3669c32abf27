"""Parses the arguments that name tables, keys, columns and types."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from holdfast.discovery.search_options import Sizes
from holdfast.errors import HoldfastError
from holdfast.table.file_places import name_of
from holdfast.table.reading import ReadAs, Reading


def tables_of(files: Sequence[str]) -> Any:
    """A path for one file, {name: path} for several. A table is named after its file, or as in name=path."""
    named: dict[str, Path] = {}
    for text in files:
        name, _, path = text.rpartition("=") if "=" in text and not Path(text).exists() else (name_of(text), "", text)
        if name in named:
            raise HoldfastError(f"two tables would be called {name!r}; write name=path for one of them")
        named[name] = Path(path)
    if len(named) == 1 and "=" not in files[0]:
        return next(iter(named.values()))
    return named


def reading_of(
    delimiter: str | None, encoding: str | None, date_format: str | None = None, null_values: list[str] | None = None
) -> Reading:
    """How text files are read; what is not said is recognised."""
    return Reading(delimiter, encoding, date_format, tuple(null_values) if null_values is not None else None)


def written(options: Mapping[str, str | list[str] | None]) -> str:
    """Options as they are written on the command line, each behind a space.

    >>> written({"--kind": ["key", "fd"], "--delimiter": ";", "--encoding": None})
    " --kind key --kind fd --delimiter ';'"
    """
    values = {name: [value] if isinstance(value, str) else value or [] for name, value in options.items()}
    return "".join(f" {name} {quote(value)}" for name, of_name in values.items() for value in of_name)


def tell_reading(tables: Mapping[str, ReadAs | None]) -> None:
    """Says on stderr how text files were read, if they are not plain."""
    for name, read_as in tables.items():
        if read_as is not None and str(read_as):
            print(f"holdfast: {name} was read with {read_as}", file=sys.stderr)


def keys_of(texts: Sequence[str]) -> Any:
    """`id`, `area,phone`, or `orders=id` for each of several tables."""
    if not texts:
        return None
    if all("=" in text for text in texts):
        return {name: tuple(columns.split(",")) for name, _, columns in (text.partition("=") for text in texts)}
    if len(texts) > 1:
        raise HoldfastError("with several keys, name the table of each: --key orders=id --key customers=id")
    return tuple(texts[0].split(","))


def columns_of(texts: Sequence[str] | None) -> Any:
    """`zip`, `zip,city`, or `orders=zip,city` for each of several tables."""
    named = {t: c.split(",") for t, e, c in (text.partition("=") for text in texts or ()) if e}
    plain = [name for text in texts or () if "=" not in text for name in text.split(",")]
    if named and plain:
        raise HoldfastError("with several tables, name the table of each list of columns: orders=zip,city")
    return named or plain or None


def types_of(texts: Sequence[str]) -> dict[str, Any] | None:
    """`zip=text`, or `orders.zip=text` where there are several tables."""
    types: dict[str, Any] = {}
    for text in texts:
        column, _, kind = text.rpartition("=")
        if not column:
            raise HoldfastError(f"{text!r}: a type is given as column=type, such as zip=text")
        table, _, name = column.rpartition(".")
        if table:
            types.setdefault(table, {})[name] = kind
        else:
            types[column] = kind
    return types or None


def size_of(text: str) -> Sizes:
    """`3`, `none` for no limit, or `default`."""
    if text == "none":
        return None
    if text == "default":
        return text
    if not text.isdigit():
        raise HoldfastError(f"--max-size is a number or none, not {text!r}")
    return int(text)
