"""What maintainers of the rules of one table share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from holdfast.arrays import Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.maintainer import RowChanges, Tables
from holdfast.executors.executor import Executor
from holdfast.rules.change import RuleChange
from holdfast.table.row_change import RowChange


class TableRules(Protocol):
    """The rules of one table and their facts, without the table's name."""

    @property
    def unfinished(self) -> Mapping[str, str]: ...

    @property
    def strategy(self) -> str: ...

    def update(self, change: RowChange, budget: Budget | None = None) -> Arrays:
        """Updates facts and rules to the rows after a change. Returns the facts that were added."""

    def run_on(self, executor: Executor | None) -> None: ...


Kept = TypeVar("Kept", bound=TableRules)


class TableMaintainer(Generic[Kept]):
    """The part of a `Maintainer` that does not depend on the kinds of rules: it hands the changes of its table on."""

    def __init__(self, table: str, kinds: tuple[str, ...], kept: Kept) -> None:
        self.table, self.kinds, self._kept = table, kinds, kept
        self.added_facts: Arrays = {}

    @property
    def unfinished(self) -> Mapping[str, str]:
        return self._kept.unfinished

    def begin(self, rows: Tables, budget: Budget) -> None:
        budget.check()
        table = rows[self.table]
        self._kept.update(RowChange.arrival(table.ids(), table.codes()), budget)

    def update(self, changes: RowChanges, rows: Tables, budget: Budget | None = None) -> RuleChange:
        if self.table in changes:
            return self._updated(changes[self.table], budget)
        self.added_facts = {}
        return RuleChange(table=self.table)

    def _updated(self, change: RowChange, budget: Budget | None) -> RuleChange:
        """Updates the rules and `added_facts`."""
        raise NotImplementedError

    def describe(self) -> str:
        return f"{self.table}: {self._kept.strategy}"

    def run_on(self, executor: Executor | None) -> None:
        self._kept.run_on(executor)
