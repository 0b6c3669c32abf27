"""The files of an export: safe names, and writing that never leaves the directory."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.exchange.contract import Files
from holdfast.whole_file import replace_whole

_MAX_KEPT = 40  # characters of a name that is not safe as it is


def file_name(name: str) -> str:
    """The name itself if it is safe as a file name, else its safe characters and a part of its hash."""
    if re.fullmatch(r"\w[\w.-]*", name) and len(name.encode()) <= 100:
        return name
    return f"{re.sub(r'[^a-zA-Z0-9_]', '_', name)[:_MAX_KEPT]}_{_hash(name)}"


def file_names(names: Iterable[str], to_file_name: Callable[[str], str] = file_name) -> dict[str, str]:
    """A file name for each name, all different, even on a file system that ignores case.

    >>> file_names(["orders", "Orders", "x/../../evil"])
    {'orders': 'orders', 'Orders': 'Orders_b7e8acdd52', 'x/../../evil': 'x_______evil_314e3fe9b9'}
    """
    chosen: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        chosen[name] = to_file_name(name)
        while _folded(chosen[name]) in taken:
            chosen[name] += f"_{_hash(name)}"
        taken.add(_folded(chosen[name]))
    return chosen


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def write_files(files: Files, directory: Path) -> list[Path]:
    """Writes the files of an export. Writes none of them if one would be outside the directory."""
    root = directory.resolve()
    places = {directory / name: text for name, text in files.items()}
    for place in places:
        if not place.resolve().is_relative_to(root) or place.resolve() == root:
            raise HoldfastError(f"{place} leads out of {directory}; nothing was written")
    for place, text in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(place, text.encode())
    return list(places)
