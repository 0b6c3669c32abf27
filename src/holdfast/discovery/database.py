"""The discovered rules of all tables of a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from holdfast.arrays import Arrays
from holdfast.discovery.agree_set import Moved, Tally
from holdfast.discovery.budget import Budget
from holdfast.discovery.collapsed import Collapsed
from holdfast.discovery.masks import has, mask_of
from holdfast.discovery.table_rules import MOST_PAIRS, TableRules
from holdfast.discovery.wanted import Wanted
from holdfast.executors.executor import Executor
from holdfast.rules.change import Pair, RuleChange
from holdfast.rules.rule import Fd, Key, Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.table.rows import RowChange, Rows
from holdfast.table.schema import Schema


class DatabaseRules:
    """Keeps the rules of each table true to its rows. `named`: whether rules say the table they are about."""

    def __init__(
        self,
        schemas: Mapping[str, Schema],
        wanted: Wanted,
        executor: Executor | None = None,
        *,
        named: bool = False,
        most_pairs: float = MOST_PAIRS,
    ) -> None:
        self._schemas, self.wanted, self._named = schemas, wanted, named
        self.tables = {
            name: TableRules(len(schema), wanted, executor, most_pairs=most_pairs) for name, schema in schemas.items()
        }

    def follow(
        self, changes: Mapping[str, RowChange], rows: Mapping[str, Rows], budget: Budget | None = None
    ) -> dict[str, tuple[Arrays, RuleChange]]:
        """What changes of rows do to the rules of their tables, and the facts that were added. `rows` are as they were
        before; the rules are true to them after the changes."""
        return {name: self._follow_one(name, change, rows[name], budget) for name, change in changes.items()}

    def _follow_one(self, name: str, change: RowChange, rows: Rows, budget: Budget | None) -> tuple[Arrays, RuleChange]:
        table = self.tables[name]
        before = table.collapsed()
        delta = table.follow(moved_by(change, rows), budget)
        after = table.collapsed()
        why = Why(self._schemas[name], table.came, table.went)
        added, removed = (self._ruleset(name, found) for found in (after.minus(before), before.minus(after)))
        return delta, RuleChange(added, removed, why)

    def begin(self, name: str, rows: Rows, budget: Budget | None = None) -> None:
        """Finds the rules of a table from nothing."""
        arrival = RowChange.arrival(rows.ids(), rows.codes())
        self.tables[name].follow(moved_by(arrival, Rows(rows.schema)), budget)

    def _ruleset(self, name: str, found: Collapsed, *, errors: bool = False) -> RuleSet:
        known = self.tables[name].errors(found) if errors else None
        return found.ruleset(self._schemas[name].names, name if self._named else None, known)

    def rules(self) -> RuleSet:
        """All rules, with their errors."""
        parts = (self._ruleset(name, table.collapsed(), errors=True) for name, table in self.tables.items())
        found = RuleSet.joined(parts)
        how = tuple(f"{name}: {table.strategy}" for name, table in self.tables.items())
        return RuleSet(found.blocks, found.complete, self.wanted.limits, how)

    def settle(self, rows: Mapping[str, Rows]) -> None:
        """Brings the rules to facts that were merged."""
        for name, table in self.tables.items():
            table.settle(rows[name].codes())

    def run_on(self, executor: Executor | None) -> None:
        for table in self.tables.values():
            table.run_on(executor)


def moved_by(change: RowChange, rows: Rows) -> Moved:
    """Which rows leave, come and stay."""
    gone, gone_codes, new, new_codes = change.effective(list(range(len(rows.schema))))
    ids, codes = rows.ids(), rows.codes()
    if len(gone):
        stays = np.ones(len(ids), np.bool_)
        stays[np.searchsorted(ids, gone)] = False
        ids, codes = ids[stays], codes[:, stays]
    return Moved(gone, gone_codes, new, new_codes, ids, codes)


@dataclass(frozen=True)
class Why:
    """Finds the pair that decided about a rule, among the agree-sets that came and went."""

    schema: Schema
    came: Tally
    went: Tally

    def __call__(self, rule: Rule) -> Pair | None:
        if not isinstance(rule, Key | Fd):
            return None
        columns = len(self.schema)
        left = mask_of(self.schema.positions(sorted(rule.columns if isinstance(rule, Key) else rule.left)), columns)
        words = left.shape[1]
        for tally in (self.came, self.went):
            agrees = ((tally.sets[:, :words] & left) == left).all(axis=1)
            if isinstance(rule, Fd):
                right = self.schema.positions([rule.right])[0]
                sql = tally.sets.shape[1] > words
                agrees &= has(tally.sets[:, words:], right) if sql else ~has(tally.sets[:, :words], right)
            found = np.flatnonzero(agrees & (tally.pairs >= 0).all(axis=1))
            if len(found):
                t, s = sorted(tally.pairs[found[0]].tolist())
                return t, s
        return None
