"""A directory of versions. Files are never edited; a version exists once its manifest does.

    book/manifests/0000000007.json    what version 7 consists of
    book/files/0000000007-change-5f0c2a91.arrow

A process killed at any point leaves the versions that were published, and at most files that no manifest names.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.arrays import Arrays, from_buffer, map_file, to_buffer
from holdfast.errors import StoreError
from holdfast.store.disk import Disk
from holdfast.store.manifest import FileRef, Manifest

MANIFESTS, FILES = "manifests", "files"


class Store:
    """The versions of one rulebook.

    `publish` is the only way to a new version: O(size of the change), plus a new snapshot when the changes since
    the last one exceed a quarter of it.
    """

    def __init__(self, path: Path, manifest: Manifest, disk: Disk) -> None:
        self.path, self.manifest, self._disk = path, manifest, disk

    @classmethod
    def create(cls, path: str | Path, arrays: Arrays, meta: dict[str, Any], disk: Disk | None = None) -> Store:
        """Makes a directory with version 0; one that holds anything already is refused."""
        path, disk = Path(path), disk or Disk()
        if path.exists() and (not path.is_dir() or _holds_versions(path) or _strangers(path)):
            raise StoreError(f"{path} exists already; give a new directory, or open it")
        try:
            for directory in (path, path / FILES, path / MANIFESTS):
                disk.make_directory(directory)
            snapshot = _put_arrays(disk, path, 0, "snapshot", arrays)
            store = cls(path, Manifest(0, snapshot, (), meta), disk)
            store._put_manifest(store.manifest)
        except OSError as error:
            raise StoreError(f"{path}: the rulebook could not be written: {error}") from error
        return store

    @classmethod
    def open(cls, path: str | Path, disk: Disk | None = None) -> Store:
        """The newest version."""
        path = Path(path)
        versions = sorted((path / MANIFESTS).glob("[0-9]*.json"))
        if not versions:
            raise StoreError(f"{path} is not a rulebook: it has no {MANIFESTS}/")
        return cls(path, Manifest.from_bytes(versions[-1].read_bytes(), str(versions[-1])), disk or Disk())

    @property
    def version(self) -> int:
        return self.manifest.version

    def load(self) -> tuple[Arrays, list[Arrays]]:
        """The arrays of the snapshot and of each change after it, mapped; every checksum is verified."""
        arrays: list[Arrays] = [from_buffer(self._verified(ref)) for ref in self.manifest.files]
        return arrays[0], arrays[1:]

    def _verified(self, ref: FileRef) -> pa.Buffer:
        path = self.path / FILES / ref.name
        if not path.exists():
            raise StoreError(f"{path} is missing; restore it from a backup, or restore the whole directory")
        buffer = map_file(path)
        if buffer.size != ref.size or hashlib.sha256(buffer).hexdigest() != ref.sha256:
            raise StoreError(f"{path} is damaged (wrong checksum); restore it from a backup")
        return buffer

    def publish(self, change: Arrays, snapshot: Callable[[], Arrays], meta: dict[str, Any] | None = None) -> None:
        """Makes the next version: this one plus `change`. `snapshot()` gives the arrays of this version, and is
        asked for only when a new snapshot is due."""
        version, base, changes = self.version + 1, self.manifest.snapshot, self.manifest.changes
        try:
            if self.manifest.wants_snapshot:
                base, changes = _put_arrays(self._disk, self.path, version, "snapshot", snapshot()), ()
            ref = _put_arrays(self._disk, self.path, version, "change", change)
            manifest = Manifest(version, base, (*changes, ref), self.manifest.meta if meta is None else meta)
            self._put_manifest(manifest)
        except OSError as error:
            raise StoreError(
                f"{self.path}: version {version} could not be written: {error}; nothing changed"
            ) from error
        self.manifest = manifest

    def _put_manifest(self, manifest: Manifest) -> None:
        path = self.path / MANIFESTS / f"{manifest.version:010d}.json"
        try:
            self._disk.put(path, manifest.to_bytes(), secrets.token_hex(4))
        except FileExistsError:
            raise StoreError(f"{path}: another process published this version first; open the rulebook again") from None


def _put_arrays(disk: Disk, path: Path, version: int, what: str, arrays: Arrays) -> FileRef:
    buffer = to_buffer(arrays)
    attempt = secrets.token_hex(4)
    name = f"{version:010d}-{what}-{attempt}.arrow"
    disk.put(path / FILES / name, buffer, attempt)
    return FileRef(name, buffer.size, hashlib.sha256(buffer).hexdigest())


def _holds_versions(path: Path) -> bool:
    return any((path / MANIFESTS).glob("[0-9]*.json"))


def _strangers(path: Path) -> bool:
    """Whether the directory holds something that an interrupted `create` would not have left."""
    return any(child.name not in (MANIFESTS, FILES) for child in path.iterdir())
