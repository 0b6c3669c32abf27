"""The rules that a rulebook finds and keeps: searched when first needed, from the facts in its store or from its
rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.maintainer import RowChanges, Tables
from holdfast.discovery.search_options import SearchOptions
from holdfast.errors import HoldfastError
from holdfast.executors.executor import Executor
from holdfast.indexes.pairs import Pairs
from holdfast.rulebook.options import Resources
from holdfast.rulebook.outbox import ADDED, REMOVED
from holdfast.rulebook.state import BookState, Facts
from holdfast.rules.change import Pair, RuleChange
from holdfast.rules.rule import Rule
from holdfast.rules.rule_block import RuleBlock
from holdfast.rules.ruleset import RuleSet
from holdfast.store.log import Record
from holdfast.table.row_change import Ids

if TYPE_CHECKING:  # imported when rules are searched: a check needs none of it
    from holdfast.discovery.database import DatabaseRules
    from holdfast.discovery.ind.runs import Runs

VACUOUS = "vacuous"  # a removed inclusion whose left side has no values any more
MAX_LISTED = 1000  # rule changes of a version that are kept with their rows; all are counted

NameRows = Callable[[str, Pairs], list[Record]]  # the names of the rows of a table


class RuleUpdate(NamedTuple):
    """What a batch did to the found rules: the facts it added to each table, the rule changes by table, and the cells
    of its values. History has a line for each changed table: changes of inclusions are counted with the first."""

    facts: Mapping[str, Arrays] = {}
    changes: Mapping[str, RuleChange] = {}
    values: Arrays | None = None

    @property
    def change(self) -> RuleChange:
        """The changes of all tables as one."""
        return RuleChange.joined(self.changes.values())

    def counts(self) -> dict[str, list[int]]:
        """{table: [added, removed]}"""
        return {name: [len(change.added), len(change.removed)] for name, change in self.changes.items()}


class DiscoveredRules:
    """The found rules of a rulebook. Without search options there are none, and nothing is done."""

    def __init__(
        self,
        search: SearchOptions | None,
        state: BookState,
        *,
        is_lone: bool,
        resources: Resources,
        facts: Facts | None = None,
    ) -> None:
        self._search, self._state, self._is_lone, self._resources = search, state, is_lone, resources
        self._executor = resources.executor
        self._rules: DatabaseRules | None = None
        self._facts = facts  # from the store, merged when rules are asked for

    @property
    def _rows(self) -> Tables:
        return self._state.rows

    @property
    def is_searched(self) -> bool:
        """Whether the rules are in memory, and not only the facts."""
        return self._rules is not None

    @property
    def has_facts(self) -> bool:
        """Whether tables have facts that the store keeps."""
        return self._search is not None and self._search.has_facts

    def remember(self, facts: Mapping[str, Arrays]) -> None:
        """Notes facts that another process added, to be merged when rules are asked for."""
        self._facts = self._facts or {}
        for name, added in facts.items():
            self._facts.setdefault(name, []).append(added)

    def forget(self) -> None:
        """Drops everything; it is searched again from the rows when it is needed."""
        self._rules = self._facts = None

    def search(self, budget: Budget | None = None) -> DatabaseRules:
        """The rules of the current rows."""
        assert self._search is not None
        if self._rules is None:
            from holdfast.discovery.database import DatabaseRules, PairLimits

            rules = DatabaseRules(
                self._state.schemas,
                self._search,
                self._state.dictionary,
                self._executor,
                limits=PairLimits(memory=self._resources.memory_budget),
                runs=self._state.values,
            )
            if self._facts is not None:
                for name, parts in self._facts.items():
                    for part in parts:
                        rules.merge(name, part)
                rules.restore(self._rows)
            else:
                rules.begin(self._rows, budget)
            _require_finished(rules)
            self._rules, self._facts = rules, None
        return self._rules

    def update(self, changes: RowChanges) -> RuleUpdate:
        """Updates the rules to the rows after the changes."""
        if self._search is None:
            return RuleUpdate()
        rules, patience = self.search(), self._resources.rule_budget
        found = rules.update(changes, self._rows, self._budget(), None if patience is None else Budget(patience))
        return self._update(list(changes), found, rules, self._changed_values(rules) if changes else None)

    def catch_up(self) -> RuleUpdate:
        """Updates the rules that are late to the current rows."""
        rules = self.search()
        late = [*rules.late()]
        present = {name: self._rows[name].ids() for name in late}
        found = [
            replace(change, why=partial(_why, change, present[str(change.table)]))
            for change in rules.catch_up(self._rows, self._budget())
        ]
        return self._update(late, found, rules, None)

    def late(self) -> dict[str, list[str]]:
        """The kinds whose rules are late, by table."""
        if self._rules is not None:
            return self._rules.late()
        return {table: [*kinds] for table, kinds in self._state.chronicle.late().items()}

    def _budget(self) -> Budget:
        return Budget(progress=self._resources.search_progress)

    def _update(
        self, changes: list[str], found: Iterable[RuleChange], rules: DatabaseRules, values: Arrays | None
    ) -> RuleUpdate:
        """The changes of rules, by the tables that changed."""
        by_table: dict[str, list[RuleChange]] = {name: [] for name in changes}
        for change in found:
            change = change.of_lone_table() if self._is_lone else change
            name = change.table if change.table is not None else next(iter(changes))
            if name in by_table:
                by_table[name].append(change)
        facts = {name: added for name in changes if (added := rules.added_facts(name))}
        joined = {name: RuleChange.joined(parts, name) for name, parts in by_table.items()}
        return RuleUpdate(facts, joined, values)

    def _changed_values(self, rules: DatabaseRules) -> Arrays | None:
        if self._state.values is None or rules.inclusions is None:
            return None
        return rules.inclusions.cells.summed().to_arrays()

    def file_values(self) -> Runs | None:
        """Puts the values of inclusions into runs, for the store to keep."""
        inclusions = self.search().inclusions if self._search is not None else None
        if inclusions is None:
            return None
        from holdfast.discovery.ind.runs import Runs

        runs = Runs()
        inclusions.inclusions.file(runs)
        return runs

    def since(self, before: RuleSet, altered: Collection[str]) -> RuleUpdate:
        """What became of the rules that held before tables were altered."""
        if self._search is None or not altered:
            return RuleUpdate()
        after, changes = self.rules(), {}
        for name in altered:
            of_table = partial(_is_about, name)
            now, then = after.where(of_table), before.where(of_table)
            changes[name] = RuleChange(now - then, then - now, table=name)
        now, then = after.of("ind"), before.of("ind")
        first = next(iter(changes))
        changes[first] = RuleChange.joined([changes[first], RuleChange(now - then, then - now)], first)
        return RuleUpdate({}, changes)

    def run_on(self, executor: Executor | None) -> None:
        """Lets large changes be worked on elsewhere, or in this process again."""
        self._executor = executor
        if self._rules is not None:
            self._rules.run_on(executor)

    def rules(self) -> RuleSet:
        if self._search is None:
            return RuleSet()
        rules = self.search().rules()
        return rules.of_lone_table() if self._is_lone else rules

    def facts(self, table: str) -> Arrays:
        """The facts of a table, for the store to keep."""
        return self.search().facts(table)


def _require_finished(rules: DatabaseRules) -> None:
    for why in rules.unfinished.values():
        raise HoldfastError(
            f"discovery did not finish: {why}. A rulebook is never partial; give it more time "
            f"(time_budget), fewer kinds, or a smaller max_size"
        )


def _why(change: RuleChange, present: Ids, rule: Rule) -> Pair | None:
    """The rows that decided about a rule, unless one has left: it has no name any more."""
    pair = change.why(rule)
    if pair is None:
        return None
    places = np.searchsorted(present, pair)
    return pair if places.max() < len(present) and (present[places] == pair).all() else None


def _is_about(table: str, block: RuleBlock) -> npt.NDArray[np.bool_]:
    return np.full(len(block), block.table == table and block.kind != "ind")


def rule_events(update: RuleUpdate, name_rows: NameRows) -> list[Record]:
    """A record for each added or removed rule, up to MAX_LISTED for each table, with the rows that decided."""
    events: list[Record] = []
    for table, change in update.changes.items():
        sides = [
            (VACUOUS if rule in change.vacuous else REMOVED, rule, text)
            for rule, text in islice(change.removed.with_texts(), MAX_LISTED)
        ]
        sides += [(ADDED, rule, text) for rule, text in islice(change.added.with_texts(), MAX_LISTED - len(sides))]
        pairs = [change.why(rule) for _, rule, _ in sides]
        ids = np.array([pair for pair in pairs if pair is not None], np.int64).reshape(-1, 2)
        names = iter(name_rows(table, Pairs(ids[:, 0], ids[:, 1])) if len(ids) else [])
        for (side, rule, text), pair in zip(sides, pairs, strict=True):
            rows = next(names) if pair is not None else {"t": None, "s": None}
            event = {"table": table, "change": side, "id": rule.id, "kind": rule.kind, "rule": text}
            events.append(event | rows | {"value": change.value(rule)})
    return [json.loads(json.dumps(event, default=str)) for event in events]
