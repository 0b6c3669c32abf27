"""What keeps rules true to rows: a maintainer turns a change of rows into a change of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from holdfast.arrays import Arrays
from holdfast.discovery.budget import Budget
from holdfast.executors.executor import Executor
from holdfast.rules.change import RuleChange
from holdfast.rules.ruleset import RuleSet
from holdfast.table.row_change import RowChange
from holdfast.table.rows import Rows

Tables = Mapping[str, Rows]
RowChanges = Mapping[str, RowChange]


class Maintainer(Protocol):
    """Keeps the minimal rules of some kinds true to the rows of one table, or of all tables.

    Its facts are what the store keeps, so that the rules need not be searched again: `merge` them, then `restore`. A
    maintainer without facts of its own has empty ones.
    """

    @property
    def table(self) -> str | None:
        """The table whose rules it keeps; None: rules between tables."""

    @property
    def kinds(self) -> tuple[str, ...]: ...

    @property
    def share(self) -> int:
        """The weight of its first search when time is divided among searches."""

    @property
    def unfinished(self) -> Mapping[str, str]:
        """The kinds whose first search a budget ended, and why."""

    @property
    def complete_up_to(self) -> Mapping[str, int]:
        """The size up to which all rules of an unfinished kind were found."""

    @property
    def added_facts(self) -> Arrays:
        """The facts that the last update added."""

    def begin(self, rows: Tables, budget: Budget) -> None:
        """Finds the rules from nothing. Raises `Cancelled` if nothing was proven in time."""

    def update(self, changes: RowChanges, rows: Tables, budget: Budget | None = None) -> RuleChange:
        """Updates the rules to the rows after the changes; `rows` are those before. If a budget runs out, `unfinished`
        says which rules are missing."""

    def rules(self) -> RuleSet:
        """The rules that hold, with their errors if they may have some."""

    def describe(self) -> str:
        """How the rules are kept, in words."""

    def to_arrays(self) -> Arrays:
        """The facts."""

    def merge(self, facts: Arrays) -> None:
        """Adds facts that another process found."""

    def restore(self, rows: Tables) -> None:
        """Finds the rules from the merged facts."""

    def run_on(self, executor: Executor | None) -> None:
        """Lets large changes be worked on elsewhere, or in this process again."""
