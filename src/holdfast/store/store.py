"""The versions of one rulebook. Files are never edited; a version exists once its manifest does.

    book/manifests/0000000007.json          the files of version 7
    book/manifests/whole-from-0000000005    versions before 5 have only their record and change left, for sinks
    book/files/0000000007-change-5f0c2a91.arrow
    book/lock                               held by the one process that writes

A process killed at any point leaves all published versions intact, and possibly files that no manifest names.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import secrets
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from holdfast.arrays import Arrays, from_buffer, joined, split, to_buffer
from holdfast.errors import StoreError
from holdfast.store.directory import Directory, Lock, LostPut
from holdfast.store.kept_versions import (
    FILES,
    MANIFESTS,
    KeptVersions,
    list_versions,
    manifest_name,
    mark_name,
    no_rulebook,
    not_kept,
    read_manifest,
)
from holdfast.store.manifest import FileRef, Manifest

States = Mapping[str, Arrays]
_MAX_FILES = 16  # of one state
_FILE = re.compile(r"([0-9]{10,})-.+\.arrow")  # files with other names are not ours
log = logging.getLogger("holdfast")


class Loaded(NamedTuple):
    """The files of each state, and the states of each change after them."""

    states: dict[str, list[dict[str, Any]]]
    changes: list[dict[str, dict[str, Any]]]


class Due(NamedTuple):
    """Which states need new files with the next version, and to which of them a file is added to those that exist."""

    names: frozenset[str]
    added: frozenset[str]


class Store:
    """One version of a rulebook; `publish` makes the next.

    `publish` costs O(size of the change). When the change files exceed a quarter of the state files, it also writes new
    state files of the changed states. Files of unchanged states, and earlier files of growing states, are carried over
    by reference.
    """

    def __init__(self, directory: Directory, manifest: Manifest) -> None:
        self.directory, self.manifest = directory, manifest
        self._lock: Lock | None = None
        self._kept: KeptVersions | None = None  # cached by `collect`

    @classmethod
    def create(
        cls,
        directory: Directory,
        states: States,
        meta: dict[str, Any],
        record: dict[str, Any],
        folders: Collection[str] = (),
    ) -> Store:
        """Creates a directory with version 0. A directory that is not empty is an error, but for these `folders`."""
        taken = StoreError(f"{directory} exists already; give a new directory, or open it")
        try:
            if list_versions(directory).versions:
                raise taken
            directory.make(MANIFESTS, FILES, *folders)
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
        """Opens the newest version, or an older one that is still kept in full."""
        while True:
            try:
                kept = list_versions(directory)
                if not kept.versions:
                    raise no_rulebook(directory)
                if version is not None and version not in kept.whole:
                    raise not_kept(directory, version, kept)
                return cls(directory, read_manifest(directory, kept.versions[-1] if version is None else version))
            except FileNotFoundError:  # a writer has removed the version in the meantime
                continue
            except OSError as error:
                raise StoreError(f"{directory} cannot be read: {error}") from error

    @property
    def version(self) -> int:
        return self.manifest.version

    def versions(self) -> list[int]:
        """The versions that are kept in full and can be opened."""
        return list_versions(self.directory).whole

    def versions_with_change(self) -> list[int]:
        """The versions whose record and change are kept: also older ones, not yet delivered to every sink."""
        return list_versions(self.directory).versions

    def load(self) -> Loaded:
        """The memory-mapped files of each state, and the changes after them, by state. Verifies every checksum."""
        states = {name: self.state(name) for name in self.manifest.states}
        return Loaded(states, self.changes())

    def changes(self) -> list[dict[str, dict[str, Any]]]:
        """What was published after the files of the states, by state."""
        return [self._read(ref) for ref in self.manifest.changes]

    def state(self, name: str) -> list[dict[str, Any]]:
        """The memory-mapped files of one state."""
        return [self._read(ref)[name] for ref in self.manifest.states[name]]

    def change(self, version: int) -> dict[str, dict[str, Any]]:
        """The change of a version, by state."""
        try:
            manifest = self.manifest if version == self.version else read_manifest(self.directory, version)
        except FileNotFoundError:
            raise not_kept(self.directory, version, list_versions(self.directory)) from None
        return self._read(manifest.changes[-1])

    def manifest_of(self, version: int) -> Manifest:
        return read_manifest(self.directory, version)

    def is_superseded(self) -> bool:
        """Whether this version is no longer kept in full because a writer has published newer ones."""
        return self.version not in self.versions()

    def _read(self, ref: FileRef) -> dict[str, dict[str, Any]]:
        place = f"{self.directory}/{FILES}/{ref.name}"
        try:
            buffer = self.directory.read(FILES, ref.name)
        except FileNotFoundError:
            raise StoreError(f"{place} is missing; restore it from a backup, or restore the whole directory") from None
        except OSError as error:
            raise StoreError(f"{place} cannot be read: {error}") from error
        if buffer.size != ref.size or hashlib.sha256(buffer).hexdigest() != ref.sha256:
            raise StoreError(f"{place} is damaged (wrong checksum); restore it from a backup")
        return split(from_buffer(buffer))

    # --- writing --------------------------------------------------------------------------------------------

    def acquire(self) -> None:
        """Becomes the writer. This must be the newest version. Removes what interrupted writers left behind."""
        is_new_writer, self._lock = self._lock is None, self._lock or self.directory.lock()
        try:
            if list_versions(self.directory).versions[-1] != self.version:
                raise self._published_by_another(self.version + 1)
            if is_new_writer:
                self._sweep()
        except OSError as error:
            self.release()
            raise StoreError(f"{self.directory} cannot be written to: {error}; nothing changed") from error

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def due(self, growing: Collection[str] = (), altered: Collection[str] | None = None) -> Due | None:
        """Which states need new files: those that changed since their files, once the changes exceed a quarter of all
        states; and all `altered` ones, when the description of the states changes (None: it does not). A growing state
        gets one more file, or, after many, a single new one."""
        if altered is None and not self.manifest.wants_snapshot:
            return None
        altered = altered or ()
        added = {name for name in growing if len(self.manifest.states.get(name, ())) < _MAX_FILES}
        return Due(frozenset({*self.manifest.touched, *altered}), frozenset(added - {*altered}))

    def publish(
        self,
        change: States,
        record: dict[str, Any],
        *,
        snapshot: States | None = None,
        due: Due | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Publishes the next version: this one plus `change`.

        `snapshot` has the states that are `due`, as they were before the change; with new `meta`, as that describes
        them.
        """
        self.acquire()
        version, states, changes = self.version + 1, dict(self.manifest.states), self.manifest.changes
        try:
            if snapshot is not None and due is not None:
                for name, state in snapshot.items():
                    ref = self._put_states(version, name, {name: state})
                    states[name] = (*states.get(name, ()), ref) if name in due.added else (ref,)
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
        self._put(FILES, name, buffer)
        return FileRef(name, buffer.size, hashlib.sha256(buffer).hexdigest(), tuple(states))

    def _put_manifest(self, manifest: Manifest) -> None:
        try:
            self._put(MANIFESTS, manifest_name(manifest.version), manifest.to_bytes())
        except FileExistsError:
            raise self._published_by_another(manifest.version) from None
        except LostPut as error:
            text = f"{self.directory}: version {manifest.version} may be published or not: {error}"
            raise StoreError(f"{text}; open the rulebook again") from error

    def _put(self, folder: str, name: str, data: Any) -> None:
        """Puts a file. Its name or content has a random part, so no other writer puts the same: if this very content
        is there already, a client of an object store has lost an answer and asked again."""
        try:
            self.directory.put(folder, name, data)
        except FileExistsError:
            with contextlib.suppress(OSError):
                if self.directory.read(folder, name).to_pybytes() == bytes(data):
                    return
            raise

    def _published_by_another(self, version: int) -> StoreError:
        place = f"{self.directory}/{MANIFESTS}/{manifest_name(version)}"
        return StoreError(f"{place}: another process published this version first; open the rulebook again")

    # --- garbage collection ---------------------------------------------------------------------------------

    def collect(self, keep: int, needed_from: int | None = None) -> None:
        """Removes old versions: keeps the newest `keep` in full, and manifest and change from `needed_from` on.

        The latter are versions that are not yet delivered to every sink. Files that cannot be removed now are removed
        later. Order matters for a process that is killed in between: a mark says from which version on all files exist,
        and is written before the first of these files is removed. A manifest is removed before its files; `_sweep`
        removes files that no manifest names.
        """
        whole_from = max(self.version - keep + 1, 0)
        oldest_needed = whole_from if needed_from is None else min(whole_from, needed_from)
        try:
            self._kept = self._kept or list_versions(self.directory)
            if oldest_needed < whole_from and self._kept.whole_from < whole_from:
                self._put_mark(self._kept, whole_from)
            self._remove_delivered(self._kept, oldest_needed)
            self._remove_states(self._kept, oldest_needed, whole_from)
            self._remove_marks(self._kept)
        except OSError as error:
            self._kept = None
            text = "%s: version %d is published, but files of old ones could not be removed: %s; the next writer will"
            log.warning(text, self.directory, self.version, error)

    def _remove_delivered(self, kept: KeptVersions, oldest_needed: int) -> None:
        """Removes versions before `oldest_needed` of which only manifest and change are left."""
        while kept.oldest < min(oldest_needed, kept.whole_from):
            change = self.manifest_of(kept.oldest).own_files
            self.directory.remove(MANIFESTS, manifest_name(kept.oldest))
            for name in change - self.manifest_of(kept.whole_from).files:
                self.directory.remove(FILES, name)
            kept.oldest += 1

    def _remove_states(self, kept: KeptVersions, oldest_needed: int, whole_from: int) -> None:
        """Removes the versions before `whole_from`, but keeps manifests and changes from `oldest_needed` on.

        A file belongs to consecutive versions, so a file that the next version does not have, no later one has.
        """
        while kept.whole_from < whole_from:
            version = kept.whole_from
            old, after = self.manifest_of(version), self.manifest_of(version + 1)
            if version < oldest_needed:
                self.directory.remove(MANIFESTS, manifest_name(version))
                kept.oldest = version + 1
            for name in old.files - after.files - old.changes_from(max(oldest_needed, kept.oldest)):
                self.directory.remove(FILES, name)
            kept.whole_from += 1

    def _put_mark(self, kept: KeptVersions, version: int) -> None:
        with contextlib.suppress(FileExistsError):  # put by a writer that was interrupted
            self.directory.put(MANIFESTS, mark_name(version), b"")
        kept.marks.append(version)

    def _remove_marks(self, kept: KeptVersions) -> None:
        """Removes marks that a later one replaces, and the last one once all versions are whole."""
        for version in [v for v in kept.marks if v < max(kept.marks) or v <= kept.oldest]:
            self.directory.remove(MANIFESTS, mark_name(version))
            kept.marks.remove(version)

    def _sweep(self) -> None:
        """Removes unneeded files of versions up to this one. Later files may belong to a writer of an object store."""
        for folder in (MANIFESTS, FILES):
            self.directory.sweep(folder)
        kept, needed = list_versions(self.directory), set()
        for version in kept.versions:
            manifest = self.manifest_of(version)
            needed |= manifest.files if version >= kept.whole_from else manifest.own_files
        for name in self.directory.names(FILES):
            match = _FILE.fullmatch(name)
            if match and name not in needed and int(match[1]) <= self.version:
                self.directory.remove(FILES, name)
