"""The step of one batch: what it adds to the states of a rulebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.arrays import Arrays
from holdfast.store.log import Log, Record
from holdfast.table.row_change import RowDelta

WORDS, LOG, QUARANTINE, RULES, VALUES, OUTBOX = "words", "log", "quarantine", "rules", "values", "outbox"
GROWING = (WORDS, LOG, QUARANTINE, RULES, VALUES)  # append-only states
_TABLE, _FACTS = "table/", "facts/"


def table_state(name: str) -> str:
    """The name of the state that holds a table's rows."""
    return _TABLE + name


def facts_state(name: str) -> str:
    """The name of the state that holds a maintainer's facts about a table."""
    return _FACTS + name


@dataclass(frozen=True)
class Step:
    """The changes of one batch, by state."""

    rows: dict[str, RowDelta]  # by table
    record: Record  # for the log
    bad: Arrays | None = None  # quarantined rows
    rules: Arrays | None = None  # rules added and removed
    outbox: Arrays | None = None  # events for sinks
    facts: dict[str, Arrays] = field(default_factory=dict)  # facts of maintainers
    values: Arrays | None = None  # cells, for inclusions

    def to_states(self, words: Arrays) -> dict[str, Arrays]:
        """The change of each state as arrays, `words` being the new words. States that do not change are left out."""
        states: dict[str, Arrays] = {table_state(name): delta.to_arrays() for name, delta in self.rows.items() if delta}
        states |= {facts_state(name): delta for name, delta in self.facts.items()}
        states[LOG] = Log.delta([self.record])
        parts = ((QUARANTINE, self.bad), (RULES, self.rules), (OUTBOX, self.outbox), (VALUES, self.values))
        states |= {name: delta for name, delta in parts if delta is not None}
        return states | ({WORDS: words} if len(words["ends"]) else {})

    @classmethod
    def from_states(cls, states: Mapping[str, Arrays]) -> Step:
        rows = {name: RowDelta.from_arrays(arrays) for name, arrays in _named(states, _TABLE).items()}
        log = Log()
        log.merge(states[LOG])
        facts = _named(states, _FACTS)
        bad, rules, values = (states.get(name) for name in (QUARANTINE, RULES, VALUES))
        return cls(rows, log.records[0], bad, rules, facts=facts, values=values)


def _named(states: Mapping[str, Arrays], prefix: str) -> dict[str, Arrays]:
    return {name.removeprefix(prefix): arrays for name, arrays in states.items() if name.startswith(prefix)}
