"""Keeps the denial constraints and order dependencies of one table true to its rows."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.discovery.budget import Budget
from holdfast.discovery.dc.table_dcs import TableDcs
from holdfast.discovery.maintainer import Tables
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.table_maintainer import EVIDENCE, TableMaintainer
from holdfast.executors.executor import Executor
from holdfast.rules.change import RuleChange
from holdfast.rules.ruleset import RuleSet
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Schema


class DcMaintainer(TableMaintainer[TableDcs]):
    """The `Maintainer` of denial constraints and order dependencies."""

    share, PREFIX = 1, EVIDENCE

    def __init__(
        self,
        table: str,
        schema: Schema,
        options: SearchOptions,
        executor: Executor | None = None,
        *,
        most_pairs: float | None = None,
        static: bool = False,
    ) -> None:
        dcs = TableDcs(schema, options, executor, table=table, most_pairs=most_pairs, static=static)
        super().__init__(table, options.of_evidence, dcs)

    def _updated(self, change: RowChange, budget: Budget | None) -> RuleChange:
        before = self._kept.rules
        self.added_facts = self._kept.update(change, budget)
        after = self._kept.rules
        return RuleChange(after - before, before - after, self._kept.why, table=self.table)

    @property
    def complete_up_to(self) -> Mapping[str, int]:
        return self._kept.complete_up_to

    def rules(self) -> RuleSet:
        return self._kept.rules

    def restore(self, rows: Tables) -> None:
        self._kept.restore(self.waiting.count_then(rows[self.table]))
