"""What one batch adds to the states of a rulebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.arrays import Arrays
from holdfast.store.log import Log, Record
from holdfast.table.rows import RowDelta

WORDS, LOG, QUARANTINE, OUTBOX = "words", "log", "quarantine", "outbox"
GROWING = (WORDS, LOG, QUARANTINE)  # states that are only added to
_TABLE = "table/"


def table_state(name: str) -> str:
    """What the state of a table is called."""
    return _TABLE + name


@dataclass(frozen=True)
class Step:
    """Rows, a record for the log, what was kept apart, and what is to be told to sinks."""

    rows: dict[str, RowDelta]
    record: Record
    bad: Arrays | None = None
    outbox: Arrays | None = None

    def to_states(self, words: Arrays) -> dict[str, Arrays]:
        """The step and its words, as the store keeps them: only what is not empty."""
        states: dict[str, Arrays] = {table_state(name): delta.to_arrays() for name, delta in self.rows.items() if delta}
        states[LOG] = Log.delta([self.record])
        for name, some in ((QUARANTINE, self.bad), (OUTBOX, self.outbox)):
            if some is not None:
                states[name] = some
        return states | ({WORDS: words} if len(words["ends"]) else {})

    @classmethod
    def from_states(cls, states: Mapping[str, Arrays]) -> Step:
        rows = {
            name.removeprefix(_TABLE): RowDelta.from_arrays(arrays)
            for name, arrays in states.items()
            if name.startswith(_TABLE)
        }
        log = Log()
        log.merge(states[LOG])
        return cls(rows, log.records[0], states.get(QUARANTINE))
