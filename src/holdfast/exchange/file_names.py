"""Files of an export: names made of tables, and writing that never leaves the directory."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.exchange.contract import Files
from holdfast.whole_file import replace_whole

_LONGEST = 40  # of what is kept of a name that cannot stay as it is


def file_name(name: str) -> str:
    """The name itself where it can be one of a file, else what is left of it and part of its hash."""
    if re.fullmatch(r"\w[\w.-]*", name) and len(name.encode()) <= 100:
        return name
    return f"{re.sub(r'[^a-zA-Z0-9_]', '_', name)[:_LONGEST]}_{_hash(name)}"


def file_names(names: Iterable[str], wanted: Callable[[str], str] = file_name) -> dict[str, str]:
    """A file name for each name. No two are the same, also where a file system knows no case.

    >>> file_names(["orders", "Orders", "x/../../evil"])
    {'orders': 'orders', 'Orders': 'Orders_b7e8acdd52', 'x/../../evil': 'x_______evil_314e3fe9b9'}
    """
    made: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        made[name] = wanted(name)
        while _folded(made[name]) in taken:
            made[name] += f"_{_hash(name)}"
        taken.add(_folded(made[name]))
    return made


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def write_files(files: Files, directory: Path) -> list[Path]:
    """Writes the files of an export; none of them, where one would be outside the directory."""
    root = directory.resolve()
    places = {directory / name: text for name, text in files.items()}
    for place in places:
        if not place.resolve().is_relative_to(root) or place.resolve() == root:
            raise HoldfastError(f"{place} leads out of {directory}; nothing was written")
    for place, text in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(place, text.encode())
    return list(places)
