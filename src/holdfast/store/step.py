"""What one batch adds to the states of a rulebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.arrays import Arrays
from holdfast.store.log import Log, Record
from holdfast.table.row_change import RowDelta

WORDS, LOG, QUARANTINE, RULES, VALUES, OUTBOX = "words", "log", "quarantine", "rules", "values", "outbox"
GROWING = (WORDS, LOG, QUARANTINE, RULES, VALUES)  # states that are only added to
_TABLE, _FACTS = "table/", "facts/"


def table_state(name: str) -> str:
    """What the state of a table is called."""
    return _TABLE + name


def facts_state(name: str) -> str:
    """What the facts about a table's rows are called, from which rules are read."""
    return _FACTS + name


@dataclass(frozen=True)
class Step:
    """Rows, a record for the log, what was kept apart, which rules came and went, what is to be told to sinks; the
    facts and the cells that rules are read from."""

    rows: dict[str, RowDelta]
    record: Record
    bad: Arrays | None = None
    rules: Arrays | None = None
    outbox: Arrays | None = None
    facts: dict[str, Arrays] = field(default_factory=dict)
    values: Arrays | None = None

    def to_states(self, words: Arrays) -> dict[str, Arrays]:
        """The step and its words, as the store keeps them: only what is not empty."""
        states: dict[str, Arrays] = {table_state(name): delta.to_arrays() for name, delta in self.rows.items() if delta}
        states |= {facts_state(name): delta for name, delta in self.facts.items()}
        states[LOG] = Log.delta([self.record])
        parts = ((QUARANTINE, self.bad), (RULES, self.rules), (OUTBOX, self.outbox), (VALUES, self.values))
        states |= {name: some for name, some in parts if some is not None}
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
