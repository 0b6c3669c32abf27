"""The progress of each sink of a rulebook, as an empty file `sinks/<sink>.<version>`."""

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
        """The last delivered version by sink."""
        delivered: dict[str, int] = {}
        for name in self._directory.names(MARKS):
            match = _NAME.fullmatch(name)
            if match is not None:
                delivered[match[1]] = max(delivered.get(match[1], 0), int(match[2]))
        return delivered

    def needed_from(self) -> int | None:
        """The oldest version that is not yet delivered to every sink; None without sinks."""
        delivered = self.all()
        return min(delivered.values()) + 1 if delivered else None

    def put(self, sink: str, version: int, before: int | None = None) -> None:
        """Records that a version was delivered. `before` is the version of the mark that this one replaces."""
        self._directory.make_folder(MARKS)
        with contextlib.suppress(FileExistsError):
            self._directory.put(MARKS, _file(sink, version), b"")
        if before is not None and before != version:
            self.remove(sink, before)

    def remove(self, sink: str, version: int) -> None:
        self._directory.remove(MARKS, _file(sink, version))


def _file(sink: str, version: int) -> str:
    return f"{sink}.{version:010d}"
