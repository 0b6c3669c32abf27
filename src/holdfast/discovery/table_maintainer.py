"""What maintainers of the rules of one table share: their facts, and changes that wait."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np

from holdfast.arrays import Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.maintainer import RowChanges, Tables
from holdfast.discovery.waiting import WaitingChanges
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

    def to_arrays(self) -> Arrays: ...

    def merge(self, delta: Arrays) -> None: ...

    def run_on(self, executor: Executor | None) -> None: ...


AGREEMENT, EVIDENCE = "", "evidence_"  # how the names of facts begin; those of agree-sets are older than prefixes
_CAUGHT_UP = "late_caught_up"  # the name of a fact: no change waits any more
Kept = TypeVar("Kept", bound=TableRules)


class TableMaintainer(Generic[Kept]):
    """The part of a `Maintainer` that does not depend on the kinds of rules: it hands the changes of its table on, or
    lets them wait. Facts are stored under names that begin with `PREFIX`."""

    PREFIX: ClassVar[str]

    def __init__(self, table: str, kinds: tuple[str, ...], kept: Kept) -> None:
        self.table, self.kinds, self._kept = table, kinds, kept
        self.added_facts: Arrays = {}
        self.waiting = WaitingChanges()
        self._seconds_per_row = 0.0  # of the last change

    @property
    def unfinished(self) -> Mapping[str, str]:
        return self._kept.unfinished

    @property
    def complete_up_to(self) -> Mapping[str, int]:
        return {}

    def begin(self, rows: Tables, budget: Budget) -> None:
        budget.check()
        table = rows[self.table]
        self._kept.update(RowChange.arrival(table.ids(), table.codes()), budget)

    def update(self, changes: RowChanges, rows: Tables, budget: Budget | None = None) -> RuleChange:
        """Updates the rules; also to the changes that waited."""
        self.added_facts = {}
        if self.table not in changes:
            return RuleChange(table=self.table)
        change, was_late, started = changes[self.table], self.is_late, time.monotonic()
        if was_late:
            self.waiting.add(change)
            change, self.waiting = self.waiting.with_kept(*change.after), WaitingChanges()
        found = self._updated(change, budget)
        self.added_facts = self._prefixed(self.added_facts | ({_CAUGHT_UP: np.zeros(0)} if was_late else {}))
        self._seconds_per_row = (time.monotonic() - started) / max(1, len(change.removed) + len(change.added))
        return found

    # --- changes that wait --------------------------------------------------------------------------------------

    @property
    def is_late(self) -> bool:
        """Whether the rules are those before changes that wait."""
        return len(self.waiting) > 0

    def is_too_slow(self, changes: RowChanges, budget: Budget) -> bool:
        """Whether an update would exceed a budget, going by how long the last one took."""
        if self.table not in changes:
            return False
        change, left = changes[self.table], budget.left()
        rows = len(self.waiting) + len(change.removed) + len(change.added)
        return budget.spent() or (left is not None and rows * self._seconds_per_row > left)

    def postpone(self, changes: RowChanges) -> None:
        """Lets the change of the table wait. The rules stay as they are, `is_late` says so."""
        change = changes[self.table]
        self.waiting.add(change)
        self.added_facts = self._prefixed(WaitingChanges.arrays_of(change))

    def _updated(self, change: RowChange, budget: Budget | None) -> RuleChange:
        """Updates the rules and `added_facts`."""
        raise NotImplementedError

    # --- facts --------------------------------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        return self._prefixed({**self._kept.to_arrays(), **self.waiting.to_arrays()})

    def merge(self, facts: Arrays) -> None:
        names = [name for name in facts if name.startswith(EVIDENCE) == (self.PREFIX == EVIDENCE)]
        mine = {name.removeprefix(self.PREFIX): facts[name] for name in names}
        if _CAUGHT_UP in mine:
            self.waiting = WaitingChanges()
        if all(name in mine for name in WaitingChanges.NAMES):
            self.waiting.merge(mine)
        others = {name: array for name, array in mine.items() if name not in (_CAUGHT_UP, *WaitingChanges.NAMES)}
        if others:
            self._kept.merge(others)

    def _prefixed(self, facts: Arrays) -> Arrays:
        return {self.PREFIX + name: array for name, array in facts.items()}

    def describe(self) -> str:
        late = f"; late: {len(self.waiting):,} changes of rows wait" if self.is_late else ""
        return f"{self.table}: {self._kept.strategy}{late}"

    def run_on(self, executor: Executor | None) -> None:
        self._kept.run_on(executor)
