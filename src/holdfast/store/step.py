"""What one batch adds to the states of a rulebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.arrays import Arrays, joined
from holdfast.store.log import Log, Record
from holdfast.table.rows import RowDelta


@dataclass(frozen=True)
class Step:
    """Rows, a record for the log, and what was kept apart."""

    rows: dict[str, RowDelta]
    record: Record
    bad: Arrays | None

    def to_arrays(self, words: Arrays) -> Arrays:
        """The step and its words, as the store keeps them."""
        states: dict[str, Arrays] = {f"table/{name}": delta.to_arrays() for name, delta in self.rows.items()}
        states |= {"words": words, "log": Log.delta([self.record]), "quarantine": self.bad or Log.delta([])}
        return joined(states)

    @classmethod
    def from_arrays(cls, states: Mapping[str, Arrays]) -> Step:
        rows = {
            name.removeprefix("table/"): RowDelta.from_arrays(arrays)
            for name, arrays in states.items()
            if name.startswith("table/")
        }
        log = Log()
        log.merge(states["log"])
        return cls(rows, log.records[0], states["quarantine"])
