"""Versions of one rulebook. Files are never edited; a version exists once its manifest does.

    book/manifests/0000000007.json    what version 7 consists of
    book/files/0000000007-change-5f0c2a91.arrow
    book/lock                         held by the one process that writes

A process killed at any point leaves the versions that were published, and at most files that no manifest names.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection, Mapping
from typing import Any

from holdfast.arrays import Arrays, from_buffer, joined, split, to_buffer
from holdfast.errors import StoreError
from holdfast.store.directory import Directory, Lock
from holdfast.store.manifest import FileRef, Manifest

MANIFESTS, FILES = "manifests", "files"
States = Mapping[str, Arrays]
_MOST_FILES = 16  # of one state


class Store:
    """One version of a rulebook, and the way to the next.

    `publish` costs O(size of the change), plus new files of the states that changed when the changes since the last
    ones exceed a quarter of all states. States that did not change, and what states that only grow had already, are
    carried on by reference.
    """

    def __init__(self, directory: Directory, manifest: Manifest) -> None:
        self.directory, self.manifest = directory, manifest
        self._lock: Lock | None = None
        self._oldest: int | None = None  # kept version, once it is known

    @classmethod
    def create(cls, directory: Directory, states: States, meta: dict[str, Any], record: dict[str, Any]) -> Store:
        """Makes a directory with version 0; one that holds anything already is refused."""
        taken = StoreError(f"{directory} exists already; give a new directory, or open it")
        try:
            if _numbered(directory):
                raise taken
            directory.make(MANIFESTS, FILES)
            store = cls(directory, Manifest(0, {}, (), meta, record))
            files: dict[str, tuple[FileRef, ...]] = {}
            for name, state in states.items():
                files[name] = (store._put_states(0, name, {name: state}),)
            store.manifest = Manifest(0, files, (), meta, record)
            store._put_manifest(store.manifest)
        except FileExistsError:
            raise taken from None
        except OSError as error:
            raise StoreError(f"{directory}: the rulebook could not be written: {error}") from error
        return store

    @classmethod
    def open(cls, directory: Directory, version: int | None = None) -> Store:
        """The newest version, or an older one that is still kept."""
        while True:
            versions = _numbered(directory)
            if not versions:
                raise StoreError(f"{directory} is not a rulebook: it has no {MANIFESTS}/")
            if version is not None and version not in versions:
                kept = f"{versions[0]} to {versions[-1]}" if len(versions) > 1 else str(versions[0])
                raise StoreError(f"{directory} has no version {version} (any more); it keeps {kept}")
            try:
                return cls(directory, _read_manifest(directory, versions[-1] if version is None else version))
            except FileNotFoundError:  # a writer has gone on in the meantime
                continue

    @property
    def version(self) -> int:
        return self.manifest.version

    def versions(self) -> list[int]:
        """The versions that are kept."""
        return _numbered(self.directory)

    def load(self) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, dict[str, Any]]]]:
        """The files of each state, and the states of each change after them, mapped; every checksum is verified."""
        states = {name: self.state(name) for name in self.manifest.states}
        return states, [self._read(ref) for ref in self.manifest.changes]

    def state(self, name: str) -> list[dict[str, Any]]:
        """The files of one state, mapped."""
        return [self._read(ref)[name] for ref in self.manifest.states[name]]

    def change(self, version: int) -> dict[str, dict[str, Any]]:
        """What a kept version changed."""
        manifest = self.manifest if version == self.version else _read_manifest(self.directory, version)
        return self._read(manifest.changes[-1])

    def manifest_of(self, version: int) -> Manifest:
        return _read_manifest(self.directory, version)

    def is_superseded(self) -> bool:
        """Whether this version's manifest is gone: a writer went on, and removed what it no longer needs."""
        return self.version not in _numbered(self.directory)

    def _read(self, ref: FileRef) -> dict[str, dict[str, Any]]:
        place = f"{self.directory}/{FILES}/{ref.name}"
        try:
            buffer = self.directory.read(FILES, ref.name)
        except FileNotFoundError:
            raise StoreError(f"{place} is missing; restore it from a backup, or restore the whole directory") from None
        if buffer.size != ref.size or hashlib.sha256(buffer).hexdigest() != ref.sha256:
            raise StoreError(f"{place} is damaged (wrong checksum); restore it from a backup")
        return split(from_buffer(buffer))

    # --- writing --------------------------------------------------------------------------------------------

    def acquire(self) -> None:
        """Becomes the writer, of the newest version; what interrupted writers left goes."""
        first, self._lock = self._lock is None, self._lock or self.directory.lock()
        if _numbered(self.directory)[-1] != self.version:
            raise self._late(self.version + 1)
        if first:
            self._sweep()

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def publish(
        self,
        change: States,
        snapshot: Callable[[Collection[str], Collection[str]], States],
        record: dict[str, Any],
        *,
        growing: Collection[str] = (),
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Makes the next version: this one plus `change`.

        `snapshot(names, growing)` gives these states of this version, and of growing ones what they have beyond their
        files; it is asked only when new files are due. They are with new `meta`: then it gives the states as that
        describes them, those that changed with it too. A growing state with many files is put whole into one.
        """
        self.acquire()
        version, states, changes = self.version + 1, dict(self.manifest.states), self.manifest.changes
        try:
            if self.manifest.wants_snapshot or meta is not None:
                added = {name for name in growing if len(states.get(name, ())) < _MOST_FILES}
                for name, state in snapshot(self.manifest.touched, added).items():
                    ref = self._put_states(version, name, {name: state})
                    states[name] = (*states.get(name, ()), ref) if name in added else (ref,)
                changes = ()
            ref = self._put_states(version, "change", change)
            manifest = Manifest(version, states, (*changes, ref), self.manifest.meta if meta is None else meta, record)
            self._put_manifest(manifest)
        except OSError as error:
            raise StoreError(
                f"{self.directory}: version {version} could not be written: {error}; nothing changed"
            ) from error
        self.manifest = manifest

    def _put_states(self, version: int, what: str, states: States) -> FileRef:
        buffer = to_buffer(joined(states))
        name = f"{version:010d}-{what.replace('/', '-')}-{secrets.token_hex(4)}.arrow"
        self.directory.put(FILES, name, buffer)
        return FileRef(name, buffer.size, hashlib.sha256(buffer).hexdigest(), tuple(states))

    def _put_manifest(self, manifest: Manifest) -> None:
        try:
            self.directory.put(MANIFESTS, _manifest_name(manifest.version), manifest.to_bytes())
        except FileExistsError:
            raise self._late(manifest.version) from None

    def _late(self, version: int) -> StoreError:
        place = f"{self.directory}/{MANIFESTS}/{_manifest_name(version)}"
        return StoreError(f"{place}: another process published this version first; open the rulebook again")

    # --- forgetting -----------------------------------------------------------------------------------------

    def collect(self, keep: int, needed_from: int | None = None) -> None:
        """Removes versions older than the newest `keep`, but none from `needed_from` on, and the files that only they
        have. Manifests go first: a process killed between leaves files that no manifest names, for `_sweep`.

        A file is in consecutive versions, so what the next version does not have, no later one has.
        """
        first = self.version - keep + 1 if needed_from is None else min(self.version - keep + 1, needed_from)
        if self._oldest is None:
            self._oldest = _numbered(self.directory)[0]
        while self._oldest < first:
            old, after = (_read_manifest(self.directory, v) for v in (self._oldest, self._oldest + 1))
            self.directory.remove(MANIFESTS, _manifest_name(self._oldest))
            for name in old.files - after.files:
                self.directory.remove(FILES, name)
            self._oldest += 1

    def _sweep(self) -> None:
        """Removes files up to this version that no manifest names. Later ones may belong to a writer elsewhere."""
        for folder in (MANIFESTS, FILES):
            self.directory.sweep(folder)
        named = {name for v in _numbered(self.directory) for name in _read_manifest(self.directory, v).files}
        for name in self.directory.names(FILES):
            if name not in named and int(name.partition("-")[0]) <= self.version:
                self.directory.remove(FILES, name)


def _manifest_name(version: int) -> str:
    return f"{version:010d}.json"


def _numbered(directory: Directory) -> list[int]:
    return [int(name.removesuffix(".json")) for name in directory.names(MANIFESTS) if name[0].isdigit()]


def _read_manifest(directory: Directory, version: int) -> Manifest:
    name = _manifest_name(version)
    return Manifest.from_bytes(directory.read(MANIFESTS, name).to_pybytes(), f"{directory}/{MANIFESTS}/{name}")
