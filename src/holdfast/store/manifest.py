"""What a version consists of: a snapshot and the changes after it, as a small JSON file with a number."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from holdfast.errors import StoreError

FORMAT = 1


@dataclass(frozen=True)
class FileRef:
    """A file of the store: its name, size and SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Version `version` is `snapshot` plus `changes`, in order; `meta` describes the states."""

    version: int
    snapshot: FileRef
    changes: tuple[FileRef, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> tuple[FileRef, ...]:
        return (self.snapshot, *self.changes)

    @property
    def wants_snapshot(self) -> bool:
        """Whether the changes exceed a quarter of the snapshot."""
        return 4 * sum(change.size for change in self.changes) > self.snapshot.size

    def to_bytes(self) -> bytes:
        body = json.dumps(asdict(self), sort_keys=True)
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
        snapshot, changes = FileRef(**body["snapshot"]), tuple(FileRef(**ref) for ref in body["changes"])
        return cls(body["version"], snapshot, changes, body["meta"])
