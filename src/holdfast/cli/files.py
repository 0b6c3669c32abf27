"""Files named on the command line, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError


def tables_of(files: Sequence[str]) -> Any:
    """A path for one file, {name: path} for several; a name is the file's stem, or given as name=path."""
    named: dict[str, Path] = {}
    for text in files:
        name, _, path = text.rpartition("=") if "=" in text and not Path(text).exists() else (Path(text).stem, "", text)
        if name in named:
            raise HoldfastError(f"two tables would be called {name!r}; write name=path for one of them")
        named[name] = Path(path)
    if len(named) == 1 and "=" not in files[0]:
        return next(iter(named.values()))
    return named


def keys_of(texts: Sequence[str]) -> Any:
    """`id`, `area,phone`, or `orders=id` for each of several tables."""
    if not texts:
        return None
    if all("=" in text for text in texts):
        return {name: tuple(columns.split(",")) for name, _, columns in (text.partition("=") for text in texts)}
    if len(texts) > 1:
        raise HoldfastError("with several keys each one names its table: --key orders=id --key customers=id")
    return tuple(texts[0].split(","))


def types_of(texts: Sequence[str]) -> dict[str, Any] | None:
    """`zip=text`, or `orders.zip=text` where there are several tables."""
    made: dict[str, Any] = {}
    for text in texts:
        column, _, kind = text.rpartition("=")
        if not column:
            raise HoldfastError(f"{text!r}: a type is given as column=type, such as zip=text")
        table, _, name = column.rpartition(".")
        if table:
            made.setdefault(table, {})[name] = kind
        else:
            made[column] = kind
    return made or None
