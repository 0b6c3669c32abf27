"""Keeps the keys and FDs of one table true to its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.collapsed import CollapsedRules
from holdfast.discovery.fd.table_fds import MAX_AGREE_SET_PAIRS, TableFds
from holdfast.discovery.maintainer import Tables
from holdfast.discovery.pair_sets import Tally
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.table_maintainer import AGREEMENT, TableMaintainer
from holdfast.executors.executor import Executor
from holdfast.rules.change import Pair, RuleChange
from holdfast.rules.masks import has, mask_of
from holdfast.rules.rule import Fd, Key, Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Schema


class FdMaintainer(TableMaintainer[TableFds]):
    """The `Maintainer` of keys and FDs."""

    share, PREFIX = 3, AGREEMENT

    def __init__(
        self,
        table: str,
        schema: Schema,
        options: SearchOptions,
        executor: Executor | None = None,
        *,
        most_pairs: float = MAX_AGREE_SET_PAIRS,
        static: bool = False,
    ) -> None:
        fds = TableFds(len(schema), options, executor, most_pairs=most_pairs, static=static)
        super().__init__(table, options.of_one_table, fds)
        self._schema = schema

    @property
    def complete_up_to(self) -> Mapping[str, int]:
        return self._kept.complete_up_to

    def _updated(self, change: RowChange, budget: Budget | None) -> RuleChange:
        before = self._kept.collapsed()
        self.added_facts = self._kept.update(change, budget)
        after = self._kept.collapsed()
        deciding_pair = DecidingPair(self._schema, self._kept.added, self._kept.removed)
        added, removed = self._ruleset(after.minus(before)), self._ruleset(before.minus(after))
        return RuleChange(added, removed, deciding_pair, table=self.table)

    def _ruleset(self, rules: CollapsedRules, *, errors: bool = False) -> RuleSet:
        return rules.ruleset(self._schema.names, self.table, self._kept.errors(rules) if errors else None)

    def rules(self) -> RuleSet:
        return self._ruleset(self._kept.collapsed(), errors=True)

    def restore(self, rows: Tables) -> None:
        self._kept.restore(self.waiting.codes_then(rows[self.table]))


@dataclass(frozen=True)
class DecidingPair:
    """Finds the pair that decided about a key or FD, among the agree-sets that a change added and removed."""

    schema: Schema
    added: Tally
    removed: Tally

    def __call__(self, rule: Rule) -> Pair | None:
        if not isinstance(rule, Key | Fd):
            return None
        columns = len(self.schema)
        left = mask_of(self.schema.positions(sorted(rule.columns if isinstance(rule, Key) else rule.left)), columns)
        width = left.shape[1]
        for tally in (self.added, self.removed):
            violates = ((tally.sets[:, :width] & left) == left).all(axis=1)
            if isinstance(rule, Fd):
                right = self.schema.positions([rule.right])[0]
                sql = tally.sets.shape[1] > width
                violates &= has(tally.sets[:, width:], right) if sql else ~has(tally.sets[:, :width], right)
            places = np.flatnonzero(violates & (tally.pairs >= 0).all(axis=1))
            if len(places):
                t, s = sorted(tally.pairs[places[0]].tolist())
                return t, s
        return None
