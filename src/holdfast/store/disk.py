"""The few things the store asks of a file system, each a method, so that a test can fail at any of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from holdfast.whole_file import sync_directory, write_new


class Disk:
    """A local file system. `put` is put-if-absent, and what it returned from survives a crash."""

    def put(self, path: Path, data: pa.Buffer | bytes, attempt: str) -> None:
        """Makes `path` with this content, whole or not at all; FileExistsError where it exists already.

        The content is written and synced under a name of this attempt alone; a hard link gives it its real name,
        which fails where that is taken; syncing the directory makes the name durable.
        """
        temporary = path.with_name(f".{path.name}.{attempt}")
        try:
            self.write(temporary, data)
            self.link(temporary, path)
        finally:
            self.remove(temporary)
        self.sync_directory(path.parent)

    def write(self, path: Path, data: pa.Buffer | bytes) -> None:
        """Makes and syncs a file; what has its name already, a link too, is an error."""
        write_new(path, data)

    def link(self, source: Path, target: Path) -> None:
        target.hardlink_to(source)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.sync_directory(path.parent)

    def sync_directory(self, path: Path) -> None:
        sync_directory(path)
