"""A landing directory: which files are there, and what a rulebook knows of each.

A file is known by its path from the directory and by the SHA-256 of its content. Names are taken as they are: nothing
in them is decoded. Sub-directories count. A name that begins with a dot or an underscore, as writers give to files that
are not finished, hides a file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from holdfast.errors import ReadError, shown

Record = dict[str, Any]
_HIDDEN = (".", "_")
_BY_LENGTH = re.compile(r"(\d+) bytes")  # how releases before 0.2 knew a file: by its name and its length
_SETTLED = 2.0  # seconds after which a change of a file shows in its times, however coarse the clock is


@dataclass(frozen=True)
class LandingFile:
    """A regular file: its path from the directory, with `/`, and what the file system says of it."""

    name: str
    path: Path
    size: int
    changed: int  # st_mtime_ns: by this files have an order
    stamp: tuple[int, ...]  # differs after the file was written again

    @classmethod
    def at(cls, path: Path, name: str) -> LandingFile:
        found = path.stat()
        stamp = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        return cls(name, path, found.st_size, found.st_mtime_ns, stamp)

    def digest(self) -> str:
        return content_hash(self.path)

    def identity(self) -> str:
        """The content's hash, and the stamp, by which an unchanged file is recognised without reading it again."""
        record: Record = {"sha256": self.digest()}
        if time.time() - self.stamp[2] / 1e9 > _SETTLED:
            record["stamp"] = self.stamp
        return json.dumps(record)

    def require_unchanged(self) -> None:
        """After it was read: what was read is what was hashed."""
        if LandingFile.at(self.path, self.name).stamp != self.stamp:
            raise ReadError(f"{self.path}: was written while it was read; move a file there when it is whole")


def content_hash(path: Path) -> str:
    """The SHA-256 of a file, by which its content is known."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Standing(Enum):
    """What a rulebook knows of a file."""

    NEW = "new"
    APPLIED = "applied"
    REWRITTEN = "rewritten"
    UNSURE = "unsure"


class Applied:
    """The files that a rulebook has taken from one source, by the records of its versions."""

    def __init__(self, records: Iterable[Record], source: str) -> None:
        self._source = source
        self._known: dict[str, Record] = {}
        self._by_length: dict[str, tuple[int, float]] = {}  # a file's length, and when it was applied
        for record in records:
            self.note(record)

    def note(self, record: Record) -> None:
        """One more version."""
        name, offsets = record["batch"], record.get("offsets")
        if record["source"] != self._source or not isinstance(name, str) or offsets is None:
            return
        old = _BY_LENGTH.fullmatch(offsets)
        if old is not None:
            self._by_length[name] = int(old[1]), datetime.fromisoformat(record["time"]).timestamp()
        else:
            self._known[name] = json.loads(offsets)

    def standings(self, files: list[LandingFile]) -> Iterator[tuple[LandingFile, Standing]]:
        """What is known of each file. A file is read only where its times changed since it was applied."""
        claims = Counter(name for file in files for name in self._claimed(file))
        for file in files:
            yield file, self._standing(file, claims)

    def _standing(self, file: LandingFile, claims: Counter[str]) -> Standing:
        known = self._known.get(file.name)
        if known is not None:
            same = known.get("stamp") == list(file.stamp) or known["sha256"] == file.digest()
            return Standing.APPLIED if same else Standing.REWRITTEN
        if file.name in self._by_length:
            return Standing.APPLIED if self._by_length[file.name][0] == file.size else Standing.REWRITTEN
        old = self._claimed(file)
        if not old:
            return Standing.NEW
        came_before = all(file.stamp[2] / 1e9 <= self._by_length[name][1] for name in old)
        return Standing.APPLIED if came_before and all(claims[name] == 1 for name in old) else Standing.UNSURE

    def _claimed(self, file: LandingFile) -> list[str]:
        """Batches of earlier releases, which left out directories and decoded names, that this file may be."""
        last = file.name.rpartition("/")[2]
        names = [name for name in {last, unquote(last)} if name in self._by_length]
        return [name for name in names if self._by_length[name][0] == file.size]


class Landing:
    """The directory as it is now."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def files(self) -> list[LandingFile]:
        """The files that are to be applied once each, by modification time, then by name."""
        found = [LandingFile.at(path, name) for name, path in self._entries() if self._why_not(name, path) is None]
        return sorted(found, key=lambda file: (file.changed, file.name))

    def hidden(self) -> list[str]:
        """The files that their names hide."""
        return [name for name, path in self._entries() if self._why_not(name, path) == ""]

    def left_out(self) -> list[str]:
        """What is never read, each with the reason; hidden files, which are meant to be left, not among them."""
        reasons = ((name, self._why_not(name, path)) for name, path in self._entries())
        return [f"{_printable(self.root / name)}: {reason}" for name, reason in reasons if reason not in (None, "")]

    def _entries(self) -> Iterator[tuple[str, Path]]:
        """Everything below the directory that is not a directory, by its path from there."""
        for home, folders, names in os.walk(self.root, onerror=_refuse):
            links = [name for name in folders if (Path(home) / name).is_symlink()]
            folders[:] = sorted(name for name in folders if name not in links)
            for name in sorted([*names, *links]):
                path = Path(home) / name
                yield path.relative_to(self.root).as_posix(), path

    def _why_not(self, name: str, path: Path) -> str | None:
        """Why a file is not taken: an empty text for a hidden one; None where it is."""
        if any(part.startswith(_HIDDEN) for part in name.split("/")):
            return ""
        if _printable(path) != str(path):
            return "the name is not UTF-8; give the file another one"
        try:
            mode = path.stat().st_mode
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        if stat.S_ISDIR(mode):
            return "a link to a directory is not followed; move the files themselves here"
        return None if stat.S_ISREG(mode) else "is not a regular file"

    def named(self, applied: Applied) -> list[str]:
        """The files that need somebody to look at them, each with the reason and what to do."""
        made = self.left_out()
        for file, standing in applied.standings(self.files()):
            if standing is Standing.REWRITTEN:
                made.append(
                    f"{file.path}: was written again after it was applied, and its new content was not applied; "
                    f"give new content a new name"
                )
            elif standing is Standing.UNSURE:
                made.append(
                    f"{file.path}: an earlier release applied a file called {shown(file.name.rpartition('/')[2])} of "
                    f"the same length, so this one was not applied; if it is another one, give it a new name"
                )
        return made


def _printable(path: Path) -> str:
    """A path as text; bytes that are not UTF-8 as escapes."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _refuse(error: OSError) -> None:
    raise ReadError(f"{error.filename}: cannot be read: {error.strerror}") from error
