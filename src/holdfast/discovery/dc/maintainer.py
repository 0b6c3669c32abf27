"""Keeps the denial constraints and order dependencies of one table true to its rows."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.arrays import Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.dc.table_dcs import TableDcs
from holdfast.discovery.maintainer import RowChanges, Tables
from holdfast.discovery.search_options import SearchOptions
from holdfast.executors.executor import Executor
from holdfast.rules.change import RuleChange
from holdfast.rules.ruleset import RuleSet
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Schema

_PREFIX = "evidence_"  # of the names of its facts; those of agree-sets have none


class DcMaintainer:
    """The `Maintainer` of denial constraints and order dependencies."""

    share = 1

    def __init__(
        self,
        table: str,
        schema: Schema,
        options: SearchOptions,
        executor: Executor | None = None,
        *,
        most_pairs: float | None = None,
    ) -> None:
        self.table, self.kinds = table, options.of_evidence
        self._dcs = TableDcs(schema, options, executor, table=table, most_pairs=most_pairs)
        self.added_facts: Arrays = {}

    @property
    def unfinished(self) -> Mapping[str, str]:
        return self._dcs.unfinished

    def begin(self, rows: Tables, budget: Budget) -> None:
        budget.check()
        table = rows[self.table]
        self._dcs.update(RowChange.arrival(table.ids(), table.codes()), budget)

    def update(self, changes: RowChanges, rows: Tables) -> RuleChange:
        if self.table not in changes:
            self.added_facts = {}
            return RuleChange(table=self.table)
        before = self._dcs.rules
        self.added_facts = _prefixed(self._dcs.update(changes[self.table]))
        after = self._dcs.rules
        return RuleChange(after - before, before - after, self._dcs.why, table=self.table)

    def rules(self) -> RuleSet:
        return self._dcs.rules

    def describe(self) -> str:
        return f"{self.table}: {self._dcs.strategy}"

    def to_arrays(self) -> Arrays:
        return _prefixed(self._dcs.to_arrays())

    def merge(self, facts: Arrays) -> None:
        names = [name for name in facts if name.startswith(_PREFIX)]
        self._dcs.merge({name.removeprefix(_PREFIX): facts[name] for name in names})

    def restore(self, rows: Tables) -> None:
        self._dcs.restore(len(rows[self.table]))

    def run_on(self, executor: Executor | None) -> None:
        self._dcs.run_on(executor)


def _prefixed(facts: Arrays) -> Arrays:
    return {_PREFIX + name: array for name, array in facts.items()}
