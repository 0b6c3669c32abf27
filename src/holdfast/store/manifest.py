"""The manifest of a version: a small JSON file that lists the state files and the change files after them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from holdfast.errors import StoreError

FORMAT = 1


@dataclass(frozen=True)
class FileRef:
    """A file of the store: its name, size and SHA-256, and the states that it contains (or contains changes of)."""

    name: str
    size: int
    sha256: str
    states: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> FileRef:
        return cls(record["name"], record["size"], record["sha256"], tuple(record["states"]))


@dataclass(frozen=True)
class Manifest:
    """The content of version `version`: the files `states` plus the files `changes`, applied in order.

    A state that only grows may consist of several consecutive files. `meta` describes the states, `record` the change
    that made this version.
    """

    version: int
    states: dict[str, tuple[FileRef, ...]]
    changes: tuple[FileRef, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> set[str]:
        """The names of all files."""
        return {ref.name for refs in (*self.states.values(), self.changes) for ref in refs}

    @property
    def own_files(self) -> set[str]:
        """The change file of this version; empty for version 0."""
        return {ref.name for ref in self.changes[-1:]}

    def changes_from(self, version: int) -> set[str]:
        """The change files of the versions from `version` to this one. Each version has one."""
        count = self.version - version + 1
        return {ref.name for ref in self.changes[-count:]} if count > 0 else set()

    @property
    def state_size(self) -> int:
        return sum(ref.size for refs in self.states.values() for ref in refs)

    @property
    def touched(self) -> set[str]:
        """The states that the change files modify."""
        return {state for change in self.changes for state in change.states}

    @property
    def wants_snapshot(self) -> bool:
        """Whether the change files exceed a quarter of the size of the state files."""
        return 4 * sum(change.size for change in self.changes) > self.state_size

    def to_bytes(self) -> bytes:
        body = json.dumps(asdict(self), sort_keys=True, default=str)
        digest = hashlib.sha256(body.encode()).hexdigest()
        return json.dumps({"format": FORMAT, "sha256": digest, "manifest": json.loads(body)}, indent=1).encode()

    @classmethod
    def from_bytes(cls, data: bytes, place: str) -> Manifest:
        """Parses a manifest. A newer format or damage raises an error that says what to do."""
        try:
            record = json.loads(data)
            number = record["format"]
        except (ValueError, KeyError, TypeError):
            raise StoreError(f"{place} is damaged (not a manifest); restore it from a backup") from None
        if number > FORMAT:
            raise StoreError(f"{place} has format {number}; this Holdfast reads up to {FORMAT}: install a newer one")
        body = record["manifest"]
        if hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest() != record["sha256"]:
            raise StoreError(f"{place} is damaged (wrong checksum); restore it from a backup")
        states = {name: tuple(map(FileRef.from_json, refs)) for name, refs in body["states"].items()}
        changes = tuple(map(FileRef.from_json, body["changes"]))
        return cls(body["version"], states, changes, body["meta"], body["record"])
