"""How far each sink of a rulebook is: an empty file `sinks/<sink>.<version>` for each."""

from __future__ import annotations

import contextlib
import re

from holdfast.store.directory import Directory

MARKS = "sinks"
_NAME = re.compile(r"(.+)\.(\d{10})")


class Marks:
    """The last version that was delivered to each sink."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def all(self) -> dict[str, int]:
        done: dict[str, int] = {}
        for name in self._directory.names(MARKS):
            found = _NAME.fullmatch(name)
            if found is not None:
                done[found[1]] = max(done.get(found[1], 0), int(found[2]))
        return done

    def needed_from(self) -> int | None:
        """The oldest version that is not yet delivered to every sink; None without sinks."""
        done = self.all()
        return min(done.values()) + 1 if done else None

    def put(self, sink: str, version: int, before: int | None = None) -> None:
        """Notes that a version was delivered; `before` is the mark that it replaces."""
        self._directory.make_folder(MARKS)
        with contextlib.suppress(FileExistsError):
            self._directory.put(MARKS, _file(sink, version), b"")
        if before is not None and before != version:
            self.remove(sink, before)

    def remove(self, sink: str, version: int) -> None:
        self._directory.remove(MARKS, _file(sink, version))


def _file(sink: str, version: int) -> str:
    return f"{sink}.{version:010d}"
