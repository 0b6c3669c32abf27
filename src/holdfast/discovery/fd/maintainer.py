"""The keys and FDs of one table: a maintainer turns a change of rows into a change of rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Array, Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.discovery.fd.agree_tree import AgreeTree
from holdfast.discovery.fd.border import Border
from holdfast.discovery.fd.collapsed import Collapsed
from holdfast.discovery.fd.exact import FdRules
from holdfast.discovery.fd.partitions import DEFAULT_MEMORY, Partitions
from holdfast.discovery.fd.witnessed import WitnessedAgreeSets
from holdfast.discovery.pair_sets import Moved, Tally
from holdfast.discovery.search_options import SearchOptions
from holdfast.executors.executor import Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.rules.limit import most_within
from holdfast.table.dictionary import Codes

MAX_AGREE_SET_PAIRS = 1e9  # of a change: beyond, agree-sets are not counted (any more). 45,000 rows from nothing


class FdMaintainer:
    """The rules of one table. Its facts are counted agree-sets; beyond `most_pairs`, agree-sets with witnesses for
    exact rules, and groups of rows for approximate ones, as always for those by g3.

    >>> table = FdMaintainer(2, SearchOptions.of(("key", "fd")))
    >>> nobody = np.arange(0), np.zeros((2, 0), np.int64)
    >>> _ = table.follow(Moved(*nobody, np.arange(3), np.array([[1, 2, 3], [5, 5, 5]]), *nobody))
    >>> table.collapsed().ruleset(["a", "b"], None).texts()
    ['() -> b', 'key(a)']
    """

    def __init__(
        self,
        columns: int,
        wanted: SearchOptions,
        executor: Executor | None = None,
        *,
        most_pairs: float = MAX_AGREE_SET_PAIRS,
        memory: int = DEFAULT_MEMORY,
    ) -> None:
        self.columns, self.wanted, self._most_pairs, self._memory = columns, wanted, most_pairs, memory
        self._executor = executor or ThreadExecutor()
        self.counted: AgreeSets | None = None
        if not wanted.max_error or any(wanted.measure(kind) == "g1" for kind in wanted.of_one_table):
            self.counted = AgreeSets(columns, wanted.nulls, self._executor)
        self.witnessed: WitnessedAgreeSets | None = None
        self._exact = FdRules(columns, wanted.sizes, wanted.of_one_table) if not wanted.max_error else None
        self._border = Border(columns, wanted.sizes, wanted.of_one_table) if wanted.max_error else None
        self._oracle: Oracle | None = None
        # agree-sets that came and went with the last change, with a pair each
        self.came = self.went = Tally.nothing(AgreeSets(columns, wanted.nulls).width)

    def run_on(self, executor: Executor | None) -> None:
        """Where large changes are worked on from now on."""
        self._executor = executor or ThreadExecutor()
        for facts in (self.counted, self.witnessed):
            if facts is not None:
                facts.executor = self._executor

    @property
    def strategy(self) -> str:
        """How the rules are followed, in words."""
        if self.counted is not None:
            return f"{len(self.counted):,} agree-sets of all pairs"
        return f"{len(self.witnessed):,} agree-sets with a pair each" if self.witnessed else "rows grouped by columns"

    def follow(self, moved: Moved, budget: Budget | None = None) -> dict[str, Array]:
        """Brings facts and rules to the rows after a change; returns what `merge` adds elsewhere."""
        delta = self._follow_facts(moved, budget)
        budget = budget or Budget()
        if self._border is not None:
            self._search(np.concatenate([moved.stay_codes, moved.new_codes], axis=1), budget)
        elif self.counted is not None:
            self._invert(self.counted, len(moved.stay) + len(moved.new), budget)
        return delta

    def _follow_facts(self, moved: Moved, budget: Budget | None) -> dict[str, Array]:
        if self.counted is not None and moved.pairs > self._most_pairs:
            self._give_up_counts()
        if self.counted is None:
            return self._follow_witnessed(moved, budget or Budget())
        delta = self.counted.delta(moved, budget)
        self.came, self.went = self.counted.merge(delta, budget)
        return {"sets": delta.sets, "counts": delta.counts}

    def _give_up_counts(self) -> None:
        self.counted = None
        if self._exact is not None and self.witnessed is None:
            self.witnessed = WitnessedAgreeSets(self.columns, self.wanted.nulls, self._executor, self._memory)
            self._exact.collapse = self.wanted.nulls != "sql"

    def _follow_witnessed(self, moved: Moved, budget: Budget) -> dict[str, Array]:
        if self.witnessed is None or self._exact is None:
            return {"witnessed": np.zeros(0)}
        before = Tally(self.witnessed.sets, np.ones(len(self.witnessed), np.int64), self.witnessed.pairs)
        self.witnessed.follow(moved, self._exact, budget)
        after = Tally(self.witnessed.sets, np.ones(len(self.witnessed), np.int64), self.witnessed.pairs)
        change = after - before
        self.came, self.went = change.where(change.counts > 0), change.where(change.counts < 0)
        return {"witnessed": np.zeros(0)} | self.witnessed.to_arrays()

    def _search(self, codes: Codes, budget: Budget) -> None:
        """Finds the rules that nearly hold on rows."""
        assert self._border is not None
        self._oracle = Oracle(self.counted, codes, self.wanted, self._memory)
        self._border.update(self._oracle.is_good, codes.shape[1], self._oracle.order, budget)

    def _invert(self, counted: AgreeSets, rows: int, budget: Budget) -> None:
        """Reads the exact rules of so many rows from their agree-sets."""
        assert self._exact is not None
        self._exact.update(*counted.split(counted.sets), rows, budget)

    def merge(self, delta: Arrays) -> None:
        """Adds what `follow` returned elsewhere, to the facts only: `settle` follows."""
        if "witnessed" in delta:
            self._give_up_counts()
            if self.witnessed is not None and "sets" in delta:
                self.witnessed.load(delta)
        elif self.counted is not None:
            self.counted.merge(Tally.counted(delta))

    def settle(self, codes: Codes) -> None:
        """Brings the rules to the facts, for the rows as they are."""
        if self._border is not None:
            self._search(codes, Budget())
        elif self.counted is not None:
            self._invert(self.counted, codes.shape[1], Budget())
        elif self.witnessed is not None and self._exact is not None:
            self._exact.update(*self.witnessed.split(), codes.shape[1])

    def to_arrays(self, delta: Arrays | None = None) -> dict[str, Array]:
        """The facts, as a delta from nothing; or as they were before a delta that was the last."""
        if self.counted is not None:
            now = self.counted.to_arrays()
            if delta is None:
                return now
            before = Tally.counted(now) - Tally.counted(delta)
            return {"sets": before.sets, "counts": before.counts}
        return {"witnessed": np.zeros(0)} | (self.witnessed.to_arrays() if self.witnessed is not None else {})

    @property
    def unfinished(self) -> dict[str, str]:
        """The kinds whose search a budget ended, and why."""
        rules = self._exact if self._border is None else self._border
        return {} if rules is None else rules.unfinished

    def collapsed(self) -> Collapsed:
        """The rules that hold."""
        rules = self._exact if self._border is None else self._border
        assert rules is not None
        return rules.collapsed()

    def errors(self, found: Collapsed) -> npt.NDArray[np.float64] | None:
        """The errors of some rules of this table, on the rows as they are; None where all rules hold exactly."""
        if self._oracle is None:
            return None
        return np.array([self._oracle.error(left, right) for left, right in found.pairs()], np.float64)


class Oracle:
    """The error of any key or FD on some rows: g1 from counted agree-sets where there are any, else by grouping."""

    def __init__(self, counted: AgreeSets | None, codes: Codes, wanted: SearchOptions, memory: int) -> None:
        self._tree = AgreeTree(counted) if counted is not None else None
        self._groups = Partitions.of_codes(codes, wanted.nulls, memory)
        self._wanted, self._rows = wanted, int(codes.shape[1])
        self._most_pairs = most_within(wanted.max_error, self._rows * (self._rows - 1))
        self._known: dict[tuple[tuple[int, ...], int | None], int] = {}  # errors of rules that are good
        self._most_rows = most_within(wanted.max_error, self._rows)

    @property
    def order(self) -> Sequence[int]:
        """Columns of few values first: they tell least."""
        return self._groups.by_values()

    def is_good(self, left: Sequence[int], right: int | None) -> bool:
        """Whether the error is small enough: a test on integers."""
        pairs = self._measure(right) == "g1"
        count = self._count(left, right)
        good = count <= (self._most_pairs if pairs else self._most_rows)
        if good:
            self._known[tuple(left), right] = count
        return good

    def error(self, left: Sequence[int], right: int | None) -> float:
        if self._rows < 2:
            return 0.0
        known = self._known.get((tuple(left), right))
        count = self._count(left, right) if known is None else known
        return count / (self._rows * (self._rows - 1) if self._measure(right) == "g1" else self._rows)

    def _count(self, left: Sequence[int], right: int | None) -> int:
        """The pairs or the rows that are wrong."""
        if self._measure(right) == "g1":
            return self._pairs(left, right)
        return self._groups.errors(left, right)[1]

    def _measure(self, right: int | None) -> str:
        return self._wanted.measure("key" if right is None else "fd")

    def _pairs(self, left: Sequence[int], right: int | None) -> int:
        if self._tree is not None:
            return self._tree.violations(left, right)
        return self._groups.errors(left, right)[0]
