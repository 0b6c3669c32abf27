"""A landing directory: its files, and whether a rulebook has applied each of them.

A file is identified by its relative path and by the SHA-256 of its content. Names are used as they are, without any
decoding. Files in sub-directories count. A name that begins with a dot or an underscore hides a file; writers use such
names for unfinished files.
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
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from holdfast.errors import ReadError, shown

Record = dict[str, Any]
_HIDDEN = (".", "_")
_PATTERN_CHARACTERS = re.compile(r"[\\*?\[\]{}]")  # Spark would read these as a pattern in a directory's name
_BY_LENGTH = re.compile(r"(\d+) bytes")  # offsets of releases before 0.2, which identified a file by name and length
_SETTLED = 2.0  # seconds after which a further write certainly changes the file's times, however coarse the clock


@dataclass(frozen=True)
class LandingFile:
    """A regular file of a landing directory, with its metadata."""

    name: str  # relative path, with `/`
    path: Path | str  # a URL, if it is not on a disk of this machine
    size: int
    changed: int  # st_mtime_ns; files are applied in this order
    stamp: tuple[Any, ...]  # differs after the file was rewritten

    @classmethod
    def at(cls, path: Path, name: str) -> LandingFile:
        status = path.stat()
        stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        return cls(name, path, status.st_size, status.st_mtime_ns, stamp)

    def digest(self) -> str:
        return content_hash(Path(self.path))

    @contextmanager
    def local(self) -> Iterator[Path]:
        """The file on a disk of this machine."""
        yield Path(self.path)

    def identity(self) -> str:
        """The content hash as JSON; with the stamp, if that suffices to recognise an unchanged file unread."""
        record: Record = {"sha256": self.digest()}
        if time.time() - self.stamp[2] / 1e9 > _SETTLED:
            record["stamp"] = self.stamp
        return json.dumps(record)

    def require_unchanged(self) -> None:
        """Raises an error if the file was written since it was hashed. To be called after reading it."""
        if LandingFile.at(Path(self.path), self.name).stamp != self.stamp:
            raise ReadError(
                f"{self.path}: was written while it was read; write it elsewhere and move it here when it is complete"
            )


def content_hash(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Standing(Enum):
    """Whether a rulebook has applied a file."""

    NEW = "new"
    APPLIED = "applied"
    REWRITTEN = "rewritten"  # applied, but with another content
    UNSURE = "unsure"  # an earlier release may have applied it


class Applied:
    """The files that a rulebook has applied from one source, according to the records of its versions."""

    def __init__(self, records: Iterable[Record], source: str) -> None:
        self._source = source
        self._identities: dict[str, Record] = {}  # `LandingFile.identity` by file name
        self._by_length: dict[str, tuple[int, float]] = {}  # length and time of application, by file name
        for record in records:
            self.note(record)

    def note(self, record: Record) -> None:
        """Adds the record of one version."""
        name, offsets = record["batch"], record.get("offsets")
        if record["source"] != self._source or not isinstance(name, str) or offsets is None:
            return
        length = _BY_LENGTH.fullmatch(offsets)
        if length is not None:
            self._by_length[name] = int(length[1]), datetime.fromisoformat(record["time"]).timestamp()
        else:
            self._identities[name] = json.loads(offsets)

    def standings(self, files: list[LandingFile]) -> Iterator[tuple[LandingFile, Standing]]:
        """The standing of each file. A file is read only if its times changed since it was applied."""
        candidates = Counter(name for file in files for name in self._old_batches(file))
        for file in files:
            yield file, self._standing(file, candidates)

    def _standing(self, file: LandingFile, candidates: Counter[str]) -> Standing:
        """`candidates`: how many files each batch of an earlier release may have been made of."""
        applied = self._identities.get(file.name)
        if applied is not None:
            same = applied.get("stamp") == list(file.stamp) or applied["sha256"] == file.digest()
            return Standing.APPLIED if same else Standing.REWRITTEN
        if file.name in self._by_length:
            return Standing.APPLIED if self._by_length[file.name][0] == file.size else Standing.REWRITTEN
        batches = self._old_batches(file)
        if not batches:
            return Standing.NEW
        is_older = all(file.stamp[2] / 1e9 <= self._by_length[name][1] for name in batches)
        return Standing.APPLIED if is_older and all(candidates[name] == 1 for name in batches) else Standing.UNSURE

    def _old_batches(self, file: LandingFile) -> list[str]:
        """Batches of earlier releases that may have been this file. They omitted directories and decoded names."""
        base_name = file.name.rpartition("/")[2]
        names = [name for name in {base_name, unquote(base_name)} if name in self._by_length]
        return [name for name in names if self._by_length[name][0] == file.size]


class Landing:
    """The current content of a landing directory."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    @property
    def spark_path(self) -> str:
        """The directory, as Spark's file source reads it."""
        return _PATTERN_CHARACTERS.sub(r"\\\g<0>", str(self.root))

    def make(self) -> None:
        """Makes the directory, unless it is there."""
        self.root.mkdir(parents=True, exist_ok=True)

    def files(self) -> list[LandingFile]:
        """The files to apply, sorted by modification time, then by name."""
        files = [LandingFile.at(path, name) for name, path in self._entries() if self._why_not(name, path) is None]
        return sorted(files, key=lambda file: (file.changed, file.name))

    def hidden(self) -> list[str]:
        """The names of hidden files."""
        return [name for name, path in self._entries() if self._why_not(name, path) == ""]

    def left_out(self) -> list[str]:
        """Entries that cannot be read, each with the reason. Hidden files are not among them."""
        reasons = ((name, self._why_not(name, path)) for name, path in self._entries())
        return [f"{_printable(self.root / name)}: {reason}" for name, reason in reasons if reason not in (None, "")]

    def _entries(self) -> Iterator[tuple[str, Path]]:
        """Everything below the directory that is not a directory, by relative path."""
        for home, folders, names in os.walk(self.root, onerror=_refuse):
            links = [name for name in folders if (Path(home) / name).is_symlink()]
            folders[:] = sorted(name for name in folders if name not in links)
            for name in sorted([*names, *links]):
                path = Path(home) / name
                yield path.relative_to(self.root).as_posix(), path

    def _why_not(self, name: str, path: Path) -> str | None:
        """Why an entry is not applied: an empty text if it is hidden. None if it is a file to apply."""
        if is_hidden(name):
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

    def problems(self, applied: Applied) -> list[str]:
        """The files that need attention, each with the reason and what to do."""
        problems = self.left_out()
        for file, standing in applied.standings(self.files()):
            if standing is Standing.REWRITTEN:
                problems.append(
                    f"{file.path}: was written again after it was applied, and its new content was not applied; "
                    f"give new content a new name"
                )
            elif standing is Standing.UNSURE:
                problems.append(
                    f"{file.path}: an earlier release applied a file called {shown(file.name.rpartition('/')[2])} of "
                    f"the same length, so this one was not applied; if it is a different file, give it a new name"
                )
        return problems


def is_hidden(name: str) -> bool:
    """Whether a file or a directory above it has a name that hides it."""
    return any(part.startswith(_HIDDEN) for part in name.split("/"))


def _printable(path: Path) -> str:
    """A path as text, with escapes for bytes that are not UTF-8."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _refuse(error: OSError) -> None:
    raise ReadError(f"{error.filename}: cannot be read: {error.strerror}") from error
