"""Keep the inclusions of a database true to its rows: those of one column, and those of several."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from holdfast.arrays import Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.ind.cells import Cells
from holdfast.discovery.ind.inclusions import Inclusions
from holdfast.discovery.ind.runs import Runs
from holdfast.discovery.ind.wide_inclusions import CodeTuples, WideInclusions
from holdfast.discovery.maintainer import RowChanges, Tables
from holdfast.executors.executor import Cancelled, Executor
from holdfast.rules.change import RuleChange
from holdfast.rules.ruleset import RuleSet


class _OfAllTables:
    """What both maintainers share: they have no facts of their own, since cells are kept as runs."""

    table: str | None = None
    kinds: tuple[str, ...] = ("ind",)
    share = 1

    @property
    def added_facts(self) -> Arrays:
        return {}

    @property
    def complete_up_to(self) -> Mapping[str, int]:
        return {}

    def __init__(self) -> None:
        self.unfinished: dict[str, str] = {}

    def to_arrays(self) -> Arrays:
        return {}

    def merge(self, facts: Arrays) -> None:
        pass

    def restore(self, rows: Tables) -> None:
        self.begin(rows, Budget())

    def begin(self, rows: Tables, budget: Budget) -> None:
        raise NotImplementedError


class IndMaintainer(_OfAllTables):
    """The `Maintainer` of inclusions of one column. `runs`: the cells that the store has, if any."""

    def __init__(self, inclusions: Inclusions, executor: Executor | None = None, runs: Runs | None = None) -> None:
        super().__init__()
        self.inclusions, self._executor, self._runs = inclusions, executor, runs
        self.cells = Cells.empty()  # of the last update

    def begin(self, rows: Tables, budget: Budget) -> None:
        if self._runs is not None:
            self.inclusions.read(self._runs)
        else:
            self.inclusions.load({name: table.codes() for name, table in rows.items()}, budget)
            if budget.ended:
                raise Cancelled(budget.ended)
        self.inclusions.run_on(self._executor)

    def update(self, changes: RowChanges, rows: Tables, budget: Budget | None = None) -> RuleChange:
        self.cells, change = self.inclusions.update(changes)
        return change

    def rules(self) -> RuleSet:
        if self.unfinished:  # nothing is known
            return RuleSet()
        return self.inclusions.rules()

    def describe(self) -> str:
        return "" if self.unfinished else f"inclusions: {self.inclusions.values}"

    def run_on(self, executor: Executor | None) -> None:
        self._executor = executor
        self.inclusions.run_on(executor)


class WideIndMaintainer(_OfAllTables):
    """The `Maintainer` of inclusions of several columns, built from those that `unary` keeps. It runs after
    `unary`."""

    def __init__(self, unary: IndMaintainer, most: int | None) -> None:
        super().__init__()
        self._unary, self._wide = unary, WideInclusions(unary.inclusions, most)

    def begin(self, rows: Tables, budget: Budget) -> None:
        if self._unary.unfinished:
            raise Cancelled("inclusions of one column are not known")
        codes = {name: table.codes() for name, table in rows.items()}
        self._wide.begin(CodeTuples(self._unary.inclusions, codes), budget)
        if budget.ended:
            self.unfinished = {"ind": budget.ended}

    def update(self, changes: RowChanges, rows: Tables, budget: Budget | None = None) -> RuleChange:
        after = {
            name: changes[name].codes_after() if name in changes else table.codes() for name, table in rows.items()
        }
        inclusions, cells = self._unary.inclusions, self._unary.cells
        less, more = ({*np.unique(cells.attributes[side]).tolist()} for side in (cells.amounts < 0, cells.amounts > 0))
        return self._wide.update(CodeTuples(inclusions, after), less, more, inclusions.shown)

    def rules(self) -> RuleSet:
        return self._wide.ruleset()

    def describe(self) -> str:
        return ""

    def run_on(self, executor: Executor | None) -> None:
        pass
