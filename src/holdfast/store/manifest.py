"""What a version consists of: files of states and the changes after them, in a small JSON file with a number."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from holdfast.errors import StoreError

FORMAT = 1


@dataclass(frozen=True)
class FileRef:
    """A file of the store: its name, size and SHA-256, and the states it has something of."""

    name: str
    size: int
    sha256: str
    states: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> FileRef:
        return cls(record["name"], record["size"], record["sha256"], tuple(record["states"]))


@dataclass(frozen=True)
class Manifest:
    """Version `version` is `states` plus `changes`, in order.

    A state that only grows has several files, one behind the other. `meta` describes the states, `record` what the
    version changed.
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
        """The file of what this version changed; none of the first one."""
        return {ref.name for ref in self.changes[-1:]}

    def changes_from(self, version: int) -> set[str]:
        """The files of what this version and older ones, from `version` on, changed: each has one."""
        older = self.version - version + 1
        return {ref.name for ref in self.changes[-older:]} if older > 0 else set()

    @property
    def state_size(self) -> int:
        return sum(ref.size for refs in self.states.values() for ref in refs)

    @property
    def touched(self) -> set[str]:
        """The states that the changes have something of."""
        return {state for change in self.changes for state in change.states}

    @property
    def wants_snapshot(self) -> bool:
        """Whether the changes exceed a quarter of the states."""
        return 4 * sum(change.size for change in self.changes) > self.state_size

    def to_bytes(self) -> bytes:
        body = json.dumps(asdict(self), sort_keys=True, default=str)
        digest = hashlib.sha256(body.encode()).hexdigest()
        return json.dumps({"format": FORMAT, "sha256": digest, "manifest": json.loads(body)}, indent=1).encode()

    @classmethod
    def from_bytes(cls, data: bytes, place: str) -> Manifest:
        """Reads a manifest; a newer format or damage is an error that says what to do."""
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
