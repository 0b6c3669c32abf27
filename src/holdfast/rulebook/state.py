"""The states of a rulebook: dictionary, rows, logs and the values of inclusions. They are loaded, merged, snapshot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from holdfast.arrays import Arrays
from holdfast.rulebook.chronicle import Chronicle
from holdfast.store.log import Log
from holdfast.store.step import GROWING, LOG, QUARANTINE, RULES, VALUES, WORDS, Step, facts_state, table_state
from holdfast.store.store import Due, Loaded
from holdfast.table.dictionary import TextDictionary
from holdfast.table.options import TableOptions
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema

if TYPE_CHECKING:
    from holdfast.discovery.ind.runs import Runs

Facts = dict[str, list[Arrays]]  # of each table, the parts that are to be merged
FactsOf = Callable[[str], Arrays]


class StateSnapshot(NamedTuple):
    """States as they were before a batch, for new files, and how much of each growing state is in files then. `due`
    says which states those are; None: all."""

    states: dict[str, Arrays]
    filed: dict[str, int]
    due: Due | None


class BookState:
    """Everything that a rulebook keeps in its store but the facts of found rules, which follow from the rows."""

    def __init__(self, tables: dict[str, TableOptions], values: Runs | None = None) -> None:
        self.tables, self.values = tables, values  # the values of inclusions, if they are durable
        self.dictionary = TextDictionary()
        self.rows = {name: Rows(options.schema, options.key) for name, options in tables.items()}
        self.chronicle = Chronicle()
        self.filed = dict.fromkeys(GROWING, 0)  # how much of each growing state is in its files

    @property
    def schemas(self) -> dict[str, Schema]:
        return {name: options.schema for name, options in self.tables.items()}

    @classmethod
    def load(
        cls, tables: dict[str, TableOptions], loaded: Loaded, *, has_facts: bool, uses_values: bool
    ) -> tuple[BookState, Facts]:
        """The states in the files of a version, and the facts of its tables."""
        states = dict(loaded.states)
        runs = states.pop(VALUES, None)
        state = cls(tables)
        if runs is not None and uses_values:
            from holdfast.discovery.ind.runs import Runs

            state.values = Runs(runs)
        facts: Facts = {}
        for name, rows in state.rows.items():
            rows.load(states[table_state(name)][0])
            if has_facts:
                facts[name] = [states[facts_state(name)][0]]
        for name, growing in state._growing().items():
            for part in states.get(name, ()):
                growing.merge(part)
        state.filed |= state._lengths()
        state.chronicle.note_all()
        for change in loaded.changes:
            step = state.read_step(change)
            state.merge(step)
            for name, added in step.facts.items():
                facts.setdefault(name, []).append(added)
        return state, facts

    def read_step(self, change: Mapping[str, Arrays]) -> Step:
        """The step in a change file; its texts join the dictionary at once."""
        if WORDS in change:
            self.dictionary.merge(change[WORDS])
        return Step.from_states(change)

    def merge(self, step: Step) -> None:
        """Adds a step; its texts are in the dictionary already."""
        for name, delta in step.rows.items():
            self.rows[name].merge(delta)
        self.chronicle.add(step)
        if step.values is not None and self.values is not None:
            self.values.merge(step.values)

    def _growing(self) -> dict[str, TextDictionary | Log | Runs]:
        logs = {LOG: self.chronicle.log, QUARANTINE: self.chronicle.quarantine, RULES: self.chronicle.rules}
        states: dict[str, TextDictionary | Log | Runs] = {WORDS: self.dictionary, **logs}
        return states if self.values is None else states | {VALUES: self.values}

    def _lengths(self) -> dict[str, int]:
        return {name: len(state) for name, state in self._growing().items()}

    def snapshot(self, due: Due | None, facts_of: FactsOf | None, texts: int) -> StateSnapshot:
        """The states that are due, or all; of growing ones what is not in files yet. `texts`: how much of the
        dictionary counts, since a batch that is being planned has added its texts already."""
        growing = due.added if due is not None else frozenset[str]()
        start = {name: self.filed[name] if name in growing else 0 for name in GROWING}
        make: dict[str, Callable[[], Arrays]] = {table_state(name): rows.to_arrays for name, rows in self.rows.items()}
        if facts_of is not None:
            make |= {facts_state(name): partial(facts_of, name) for name in self.rows}
        make[WORDS] = lambda: self.dictionary.to_arrays(start[WORDS], texts)
        for name, state in self._growing().items():
            if name != WORDS:
                make[name] = partial(state.to_arrays, start[name])
        chosen = {name: state() for name, state in make.items() if due is None or name in due.names}
        lengths = self.filed | self._lengths() | {WORDS: texts}
        return StateSnapshot(
            chosen, {name: lengths[name] if name in chosen else self.filed[name] for name in GROWING}, due
        )

    def widened(self, tables: dict[str, TableOptions], altered: Collection[str]) -> BookState:
        """The same states under tables whose columns were added or widened. O(rows of the altered tables)."""
        state = BookState(tables)
        state.dictionary, state.chronicle, state.filed = self.dictionary, self.chronicle, dict(self.filed)
        state.rows = {
            name: rows.widened(tables[name].schema) if name in altered else rows for name, rows in self.rows.items()
        }
        state.values = None if altered else self.values  # columns have new numbers
        return state
