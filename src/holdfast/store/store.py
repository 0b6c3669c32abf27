"""Versions of one rulebook. Files are never edited; a version exists once its manifest does.

    book/manifests/0000000007.json    what version 7 consists of
    book/manifests/whole-from-0000000005    of older ones only record and change are kept, for sinks
    book/files/0000000007-change-5f0c2a91.arrow
    book/lock                         held by the one process that writes

A process killed at any point leaves the versions that were published, and at most files that no manifest names.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import logging
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.arrays import Arrays, from_buffer, joined, split, to_buffer
from holdfast.errors import StoreError
from holdfast.store.directory import Directory, LocalDirectory, Lock
from holdfast.store.manifest import FileRef, Manifest

MANIFESTS, FILES = "manifests", "files"
States = Mapping[str, Arrays]
_MAX_FILES = 16  # of one state
_MANIFEST = re.compile(r"([0-9]{10,})\.json")
_FILE = re.compile(r"([0-9]{10,})-.+\.arrow")  # what is called otherwise is not ours
_MARK = re.compile(r"whole-from-([0-9]{10,})")
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
    """One version of a rulebook, and the way to the next.

    `publish` costs O(size of the change), plus new files of the states that changed when the changes since the last
    ones exceed a quarter of all states. States that did not change, and what states that only grow had already, are
    carried on by reference.
    """

    def __init__(self, directory: Directory, manifest: Manifest) -> None:
        self.directory, self.manifest = directory, manifest
        self._lock: Lock | None = None
        self._kept: _Kept | None = None  # once it is known

    @classmethod
    def create(cls, directory: Directory, states: States, meta: dict[str, Any], record: dict[str, Any]) -> Store:
        """Makes a directory with version 0; one that holds anything already is refused."""
        taken = StoreError(f"{directory} exists already; give a new directory, or open it")
        try:
            if _kept(directory).versions:
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
        """The newest version, or an older one that is still kept in full."""
        while True:
            try:
                kept = _kept(directory)
                if not kept.versions:
                    raise _no_rulebook(directory)
                if version is not None and version not in kept.whole:
                    raise _not_kept(directory, version, kept)
                return cls(directory, _read_manifest(directory, kept.versions[-1] if version is None else version))
            except FileNotFoundError:  # a writer has gone on in the meantime
                continue
            except OSError as error:
                raise StoreError(f"{directory} cannot be read: {error}") from error

    @property
    def version(self) -> int:
        return self.manifest.version

    def versions(self) -> list[int]:
        """The versions that are kept in full, and can be opened."""
        return _kept(self.directory).whole

    def versions_with_change(self) -> list[int]:
        """The versions whose record and change are kept: those, and older ones that sinks have still to be told of."""
        return _kept(self.directory).versions

    def load(self) -> Loaded:
        """The files of each state, and the states of each change after them, mapped; every checksum is verified."""
        states = {name: self.state(name) for name in self.manifest.states}
        return Loaded(states, [self._read(ref) for ref in self.manifest.changes])

    def state(self, name: str) -> list[dict[str, Any]]:
        """The files of one state, mapped."""
        return [self._read(ref)[name] for ref in self.manifest.states[name]]

    def change(self, version: int) -> dict[str, dict[str, Any]]:
        """What a version changed, whose change is kept."""
        try:
            manifest = self.manifest if version == self.version else _read_manifest(self.directory, version)
        except FileNotFoundError:
            raise _not_kept(self.directory, version, _kept(self.directory)) from None
        return self._read(manifest.changes[-1])

    def manifest_of(self, version: int) -> Manifest:
        return _read_manifest(self.directory, version)

    def is_superseded(self) -> bool:
        """Whether this version is no longer kept in full: a writer went on, and removed what it no longer needs."""
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
        """Becomes the writer, of the newest version; what interrupted writers left goes."""
        first, self._lock = self._lock is None, self._lock or self.directory.lock()
        try:
            if _kept(self.directory).versions[-1] != self.version:
                raise self._late(self.version + 1)
            if first:
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
        """Makes the next version: this one plus `change`.

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
        """Removes what only versions older than the newest `keep` have; of those from `needed_from` on, for which sinks
        wait, manifest and change stay. What cannot be removed now is removed later.

        A mark says from where on versions are whole, before the first of their files goes. A manifest goes before its
        files: a process killed between leaves files that nobody needs, for `_sweep`.
        """
        whole = max(self.version - keep + 1, 0)
        first = whole if needed_from is None else min(whole, needed_from)
        try:
            self._kept = self._kept or _kept(self.directory)
            if first < whole and self._kept.whole_from < whole:
                self._put_mark(self._kept, whole)
            self._forget_delivered(self._kept, first)
            self._thin_out(self._kept, first, whole)
            self._remove_marks(self._kept)
        except OSError as error:
            self._kept = None
            text = "%s: version %d is there, but files of old ones could not be removed: %s; the next writer tries it"
            log.warning(text, self.directory, self.version, error)

    def _forget_delivered(self, kept: _Kept, first: int) -> None:
        """Removes versions before `first` of which only the change was kept."""
        while kept.oldest < min(first, kept.whole_from):
            change = self.manifest_of(kept.oldest).own_files
            self.directory.remove(MANIFESTS, _manifest_name(kept.oldest))
            for name in change - self.manifest_of(kept.whole_from).files:
                self.directory.remove(FILES, name)
            kept.oldest += 1

    def _thin_out(self, kept: _Kept, first: int, whole: int) -> None:
        """Removes the versions before `whole`, from `first` on all but their changes.

        A file is in consecutive versions, so what the next version does not have, no later one has.
        """
        while kept.whole_from < whole:
            version = kept.whole_from
            old, after = self.manifest_of(version), self.manifest_of(version + 1)
            if version < first:
                self.directory.remove(MANIFESTS, _manifest_name(version))
                kept.oldest = version + 1
            for name in old.files - after.files - old.changes_from(max(first, kept.oldest)):
                self.directory.remove(FILES, name)
            kept.whole_from += 1

    def _put_mark(self, kept: _Kept, version: int) -> None:
        with contextlib.suppress(FileExistsError):  # of somebody who was interrupted
            self.directory.put(MANIFESTS, _mark_name(version), b"")
        kept.marks.append(version)

    def _remove_marks(self, kept: _Kept) -> None:
        """Removes marks that a later one replaces, and the last one when all versions are whole."""
        for version in [v for v in kept.marks if v < max(kept.marks) or v <= kept.oldest]:
            self.directory.remove(MANIFESTS, _mark_name(version))
            kept.marks.remove(version)

    def _sweep(self) -> None:
        """Removes files up to this version that no version needs. Later ones may belong to a writer elsewhere."""
        for folder in (MANIFESTS, FILES):
            self.directory.sweep(folder)
        kept, needed = _kept(self.directory), set()
        for version in kept.versions:
            manifest = self.manifest_of(version)
            needed |= manifest.files if version >= kept.whole_from else manifest.own_files
        for name in self.directory.names(FILES):
            ours = _FILE.fullmatch(name)
            if ours and name not in needed and int(ours[1]) <= self.version:
                self.directory.remove(FILES, name)


@dataclass
class _Kept:
    """The versions that have a manifest. Those from `whole_from` on are kept in full, of older ones only the change."""

    versions: list[int]
    oldest: int
    whole_from: int
    marks: list[int]

    @property
    def whole(self) -> list[int]:
        return [version for version in self.versions if version >= self.whole_from]


def _kept(directory: Directory) -> _Kept:
    """What is kept; files that have other names than ours are passed over."""
    names = directory.names(MANIFESTS)
    versions = sorted(int(found[1]) for name in names if (found := _MANIFEST.fullmatch(name)))
    marks = sorted(int(found[1]) for name in names if (found := _MARK.fullmatch(name)))
    oldest = versions[0] if versions else 0
    return _Kept(versions, oldest, max([oldest, *marks]), marks)


def _not_kept(directory: Directory, version: int, kept: _Kept) -> StoreError:
    whole = kept.whole
    listed = f"{whole[0]} to {whole[-1]}" if len(whole) > 1 else ", ".join(map(str, whole))
    if version in kept.versions:
        return StoreError(f"{directory} keeps of version {version} only what it changed; it keeps {listed} in full")
    return StoreError(f"{directory} has no version {version} (any more); it keeps {listed}")


def _no_rulebook(directory: Directory) -> StoreError:
    """Says how to make one, or which one was meant."""
    near = _near(directory.path) if isinstance(directory, LocalDirectory) else None
    advice = f"`holdfast init {directory} FILE...` makes one" if near is None else f"did you mean {near}?"
    return StoreError(f"{directory} is not a rulebook: it has no {MANIFESTS}/ with a version; {advice}")


def _near(path: Path) -> Path | None:
    """A rulebook beside it with nearly the same name, or around it."""
    if path.name in (MANIFESTS, FILES) and _kept(LocalDirectory(path.parent)).versions:
        return path.parent
    try:
        names = [child.name for child in path.parent.iterdir() if (child / MANIFESTS).is_dir()]
    except OSError:
        return None
    return next((path.with_name(name) for name in difflib.get_close_matches(path.name, names, 1)), None)


def _manifest_name(version: int) -> str:
    return f"{version:010d}.json"


def _mark_name(version: int) -> str:
    return f"whole-from-{version:010d}"


def _read_manifest(directory: Directory, version: int) -> Manifest:
    name = _manifest_name(version)
    return Manifest.from_bytes(directory.read(MANIFESTS, name).to_pybytes(), f"{directory}/{MANIFESTS}/{name}")
