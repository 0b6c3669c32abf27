"""The file system operations of the store. Each is a method, so that tests can make any of them fail."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from holdfast.whole_file import sync_directory, write_new


class Disk:
    """A local file system. `put` is put-if-absent, and durable once it has returned."""

    def put(self, path: Path, data: pa.Buffer | bytes, attempt: str) -> None:
        """Creates `path` with this content, atomically; FileExistsError if it exists already.

        The content is written and synced under a temporary name that contains `attempt`. A hard link then gives it its
        real name, which fails if that name is taken. Syncing the directory makes the name durable.
        """
        temporary = path.with_name(f".{path.name}.{attempt}")
        try:
            self.write(temporary, data)
            self.link(temporary, path)
        finally:
            self.remove(temporary)
        self.sync_directory(path.parent)

    def write(self, path: Path, data: pa.Buffer | bytes) -> None:
        """Creates and syncs a file. Anything that has its name already, also a symbolic link, is an error."""
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
