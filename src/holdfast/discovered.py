"""The discovered rules of a rulebook: made when first needed, from the facts in its store or from its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.database import DatabaseRules
from holdfast.discovery.ind.filed_generator import MEMORY_BUDGET
from holdfast.discovery.ind.runs import Runs
from holdfast.discovery.search_options import SearchOptions
from holdfast.errors import HoldfastError
from holdfast.executors.executor import Executor
from holdfast.indexes.pairs import Pairs
from holdfast.outbox import ADDED, REMOVED
from holdfast.rules.change import Pair, RuleChange
from holdfast.rules.rule import Rule
from holdfast.rules.ruleset import RuleBlock, RuleSet
from holdfast.store.log import Record
from holdfast.table.dictionary import TextDictionary
from holdfast.table.rows import RowChange, Rows
from holdfast.table.schema import Schema

VACUOUS = "vacuous"  # of an inclusion: its left side has no values any more
MAX_LISTED = 1000  # changes of rules that a version keeps with their rows; all are counted

NameRows = Callable[[str, Pairs], list[Record]]  # what the rows of a table are called


class Followed(NamedTuple):
    """What a batch did: the facts of each table that it changed, its rules, and the cells of its values."""

    facts: dict[str, Arrays]
    changes: dict[str, RuleChange]
    values: Arrays | None = None

    @property
    def change(self) -> RuleChange:
        """The changes of all tables as one."""
        found = list(self.changes.values())
        if len(found) < 2:
            return found[0] if found else RuleChange()
        added, removed = (RuleSet.joined(getattr(c, side) for c in found) for side in (ADDED, REMOVED))
        vacuous = frozenset(rule for c in found for rule in c.vacuous)
        value = next((c.value for c in found if len(c.added.of("ind")) or len(c.removed.of("ind"))), RuleChange().value)
        return RuleChange(added, removed, self._why, value, vacuous)

    def _why(self, rule: Rule) -> Pair | None:
        mine = self.changes.get(getattr(rule, "table", None) or "")
        return mine.why(rule) if mine is not None else None

    def counts(self) -> dict[str, list[int]]:
        """{table: [added, removed]}"""
        return {name: [len(change.added), len(change.removed)] for name, change in self.changes.items()}


class Discovered:
    """Follows the rows of a rulebook. Without `wanted`, there are no rules and nothing is done."""

    def __init__(
        self,
        wanted: SearchOptions | None,
        schemas: Mapping[str, Schema],
        dictionary: TextDictionary,
        executor: Executor | None,
        *,
        named: bool,
        memory_budget: int = MEMORY_BUDGET,
        runs: Runs | None = None,
    ) -> None:
        self._wanted, self._schemas, self._dictionary = wanted, schemas, dictionary
        self._executor, self._named = executor, named
        self._memory_budget, self._runs = memory_budget, runs
        self._made: DatabaseRules | None = None
        self._facts: dict[str, list[Arrays]] | None = None

    def __bool__(self) -> bool:
        return self._wanted is not None

    @property
    def is_made(self) -> bool:
        """Whether the rules are there, and not only what they follow from."""
        return self._made is not None

    def remember(self, facts: Mapping[str, Arrays]) -> None:
        """Facts from the store, to be added when rules are asked for; they are complete for the rows then."""
        self._facts = self._facts or {}
        for name, delta in facts.items():
            self._facts.setdefault(name, []).append(delta)

    def forget(self) -> None:
        """Everything is made anew from the rows, when it is needed."""
        self._made = self._facts = None

    def make(self, rows: Mapping[str, Rows], budget: Budget | None = None) -> DatabaseRules:
        """The rules of the rows as they are."""
        assert self._wanted is not None
        if self._made is None:
            made = DatabaseRules(
                self._schemas,
                self._wanted,
                self._dictionary,
                self._executor,
                named=self._named,
                memory_budget=self._memory_budget,
            )
            if self._facts is not None:
                for name, deltas in self._facts.items():
                    for delta in deltas:
                        made.merge(name, delta)
                made.settle(rows, self._runs)
            else:
                made.begin(rows, budget, self._runs)
            if made.unfinished:
                why = next(iter(made.unfinished.values()))
                raise HoldfastError(
                    f"discovery did not finish: {why}. A rulebook is never partial; give it more time "
                    f"(time_budget), fewer kinds, or a smaller max_size"
                )
            self._made, self._facts = made, None
        return self._made

    def follow(self, changes: Mapping[str, RowChange], rows: Mapping[str, Rows]) -> Followed:
        """Brings the rules to the rows after the changes."""
        if self._wanted is None:
            return Followed({}, {})
        rules = self.make(rows)
        made = rules.follow(changes, rows)
        facts = {name: delta for name, (delta, _) in made.items() if delta}
        values = rules.cells.summed().to_arrays() if self._runs is not None and changes else None
        return Followed(facts, {name: change for name, (_, change) in made.items()}, values)

    def file_values(self, rows: Mapping[str, Rows]) -> Runs | None:
        """Puts the values of inclusions into runs, for a store to keep."""
        found = self.make(rows).inclusions if self._wanted is not None else None
        if found is not None:
            self._runs = Runs()
            found.file(self._runs)
        return self._runs

    def since(self, held: RuleSet, rows: Mapping[str, Rows], altered: Collection[str]) -> Followed:
        """What became of the rules that held before tables were altered."""
        if self._wanted is None or not altered:
            return Followed({}, {})
        after = self.rules(rows)
        changes = {}
        for name in altered:
            now, before = (some.where(partial(_about, name if self._named else None)) for some in (after, held))
            changes[name] = RuleChange(now - before, before - now)
        now, before = after.of("ind"), held.of("ind")
        first = next(iter(changes))
        added = RuleSet.joined([changes[first].added, now - before])
        changes[first] = RuleChange(added, RuleSet.joined([changes[first].removed, before - now]))
        return Followed({}, changes)

    @property
    def has_facts(self) -> bool:
        """Whether there are facts to be kept about tables."""
        return self._wanted is not None and bool(self._wanted.of_one_table or self._wanted.of_evidence)

    def run_on(self, executor: Executor | None) -> None:
        """Where large changes are worked on from now on."""
        self._executor = executor
        if self._made is not None:
            self._made.run_on(executor)

    def rules(self, rows: Mapping[str, Rows]) -> RuleSet:
        return self.make(rows).rules() if self._wanted is not None else RuleSet()

    def facts(self, name: str, rows: Mapping[str, Rows], delta: Arrays | None) -> Arrays:
        """The facts of a table, as they were before a delta that was just followed."""
        return self.make(rows).to_arrays(name, delta)


def _about(table: str | None, block: RuleBlock) -> npt.NDArray[np.bool_]:
    return np.full(len(block), block.table == table and block.kind != "ind")


def rule_events(followed: Followed, name_rows: NameRows) -> list[Record]:
    """A record for each rule that came or went, up to MAX_LISTED for each table, with the rows that decided."""
    events: list[Record] = []
    for table, change in followed.changes.items():
        sides = [
            (VACUOUS if rule in change.vacuous else REMOVED, rule, text)
            for rule, text in islice(change.removed.with_texts(), MAX_LISTED)
        ]
        sides += [(ADDED, rule, text) for rule, text in islice(change.added.with_texts(), MAX_LISTED - len(sides))]
        pairs = [change.why(rule) for _, rule, _ in sides]
        known = np.array([pair for pair in pairs if pair is not None], np.int64).reshape(-1, 2)
        names = iter(name_rows(table, Pairs(known[:, 0], known[:, 1])) if len(known) else [])
        for (side, rule, text), pair in zip(sides, pairs, strict=True):
            rows = next(names) if pair is not None else {"t": None, "s": None}
            event = {"table": table, "change": side, "id": rule.id, "kind": rule.kind, "rule": text}
            events.append(event | rows | {"value": change.value(rule)})
    return [json.loads(json.dumps(event, default=str)) for event in events]
