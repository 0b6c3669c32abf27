"""What the store of a rulebook says without its rows: for commands that need no more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import StoreError
from holdfast.rules.rulefile import RuleEntry
from holdfast.store.directory import directory_at
from holdfast.store.log import Log, Record
from holdfast.store.step import LOG, Step
from holdfast.store.store import Store


@dataclass(frozen=True)
class Glance:
    """The checked rules of the newest version, the masked columns, and the record of each version, oldest first."""

    entries: tuple[RuleEntry, ...]
    masked: frozenset[str]
    records: list[Record]

    @classmethod
    def at(cls, path: str | Path) -> Glance:
        """Reads the rulebook in a directory, wherever its rows are. O(versions)."""
        while True:
            store = Store.open(directory_at(path))
            try:
                return cls._of(store)
            except StoreError:
                if not store.is_superseded():  # a writer has removed that version meanwhile
                    raise

    @classmethod
    def _of(cls, store: Store) -> Glance:
        log, meta = Log(), store.manifest.meta
        for part in store.state(LOG):
            log.merge(part)
        records = [*log.records, *(Step.from_states(change).record for change in store.changes())]
        entries = tuple(RuleEntry.model_validate(record) for record in meta["rules"])
        return cls(entries, frozenset(meta["options"]["mask"]), records)
