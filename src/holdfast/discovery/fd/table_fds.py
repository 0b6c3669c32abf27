"""The keys and FDs of one table under change.

Three strategies (decision 0008): counted agree-sets of all pairs; beyond `most_pairs`, agree-sets with a witness each,
for rules that hold exactly; and rows grouped by columns, for rules that nearly hold. If rows do not change, small rules
are found first, by size, and larger ones where agree-sets are too many.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Array, Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.discovery.fd.approximate import ApproximateFds
from holdfast.discovery.fd.collapsed import CollapsedRules
from holdfast.discovery.fd.exact import FdRules
from holdfast.discovery.fd.levels import MOST_RULES, RulesBySize
from holdfast.discovery.fd.oracle import Oracle
from holdfast.discovery.fd.witnessed import WitnessedAgreeSets
from holdfast.discovery.pair_sets import Tally
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.witness.partitions import DEFAULT_MEMORY, Partitions
from holdfast.executors.executor import Cancelled, Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.table.dictionary import Codes
from holdfast.table.row_change import RowChange

MAX_AGREE_SET_PAIRS = 1e9  # pairs of a change that are counted at most: 45,000 rows from nothing
_SMALL = 2  # columns of rules that are found by size first
_NARROW, _FEW_CELLS = 24, 5_000_000  # columns and cells with which agree-sets take less than a second
_LEAST_SECONDS = 0.5  # for agree-sets, where larger rules by size would take less


class TableFds:
    """The rules of one table. Its facts are the agree-sets. `static`: there is only one change, from nothing.

    >>> table = TableFds(2, SearchOptions(("key", "fd")))
    >>> no_rows = np.arange(0), np.zeros((2, 0), np.int64)
    >>> _ = table.update(RowChange(*no_rows, np.arange(3), np.array([[1, 2, 3], [5, 5, 5]]), *no_rows))
    >>> table.collapsed().ruleset(["a", "b"], None).texts()
    ['() -> b', 'key(a)']
    """

    def __init__(
        self,
        columns: int,
        options: SearchOptions,
        executor: Executor | None = None,
        *,
        most_pairs: float = MAX_AGREE_SET_PAIRS,
        memory: int = DEFAULT_MEMORY,
        static: bool = False,
    ) -> None:
        self.columns, self.options, self._most_pairs, self._memory = columns, options, most_pairs, memory
        self._executor = executor or ThreadExecutor()
        self.counted: AgreeSets | None = None
        if not options.max_error or any(options.measure(kind) == "g1" for kind in options.of_one_table):
            self.counted = AgreeSets(columns, options.nulls, self._executor)
        self.witnessed: WitnessedAgreeSets | None = None
        self._exact = FdRules(columns, options.sizes, options.of_one_table) if not options.max_error else None
        self._near = ApproximateFds(columns, options.sizes, options.of_one_table) if options.max_error else None
        self._oracle: Oracle | None = None
        self._is_static = static
        self._by_size: RulesBySize | None = None
        # agree-sets that the last change added and removed, with a pair each
        self.added = self.removed = Tally.nothing(AgreeSets(columns, options.nulls).width)

    def run_on(self, executor: Executor | None) -> None:
        """Sets the executor of large changes."""
        self._executor = executor or ThreadExecutor()
        for facts in (self.counted, self.witnessed):
            if facts is not None:
                facts.executor = self._executor

    @property
    def strategy(self) -> str:
        """The strategy, in words."""
        if self.counted is not None:
            return f"{len(self.counted):,} agree-sets of all pairs"
        return self.witnessed.strategy if self.witnessed is not None else "rows grouped by columns"

    @property
    def complete_up_to(self) -> dict[str, int]:
        """The size up to which all rules of a kind are known, for kinds that are `unfinished`."""
        return {} if self._by_size is None else dict.fromkeys(self._by_size.unfinished, self._by_size.done)

    def update(self, change: RowChange, budget: Budget | None = None) -> dict[str, Array]:
        """Updates facts and rules to the rows after a change. Returns the facts that were added, for `merge`
        elsewhere."""
        if self._is_static and self._exact is not None and change.rows_after > 1:
            self._find(change, budget or Budget())
            return {}
        return self._update(change, budget)

    def _find(self, change: RowChange, budget: Budget) -> None:
        """Finds small rules by size, if there are many columns or cells; then all others by agree-sets, in the time
        that they would take by size; and if agree-sets are too many for that, by size. There are no keys if two rows
        agree on all columns."""
        limits = {kind: self.options.sizes[kind] for kind in self.options.of_one_table}
        partitions = Partitions.of_codes(change.added_codes, self.options.nulls, self._memory)
        if "fd" not in limits and partitions.of(range(self.columns)).shared_pairs():
            limits = {}
        most = max(
            (self.columns if limit is None else min(limit, self.columns) for limit in limits.values()), default=0
        )
        if most > _SMALL and self.columns <= _NARROW and self.columns * change.rows_after <= _FEW_CELLS:
            self._update(change, budget)
            return
        by_size = self._by_size = RulesBySize(partitions, limits)
        by_size.search(_SMALL, budget)
        if by_size.is_done:
            return
        left = budget.left()
        limit = max(_LEAST_SECONDS, by_size.seconds_left())
        agreeing, exact = budget.at_most(limit if left is None else min(limit, left / 2)), self._exact
        assert exact is not None
        try:
            self._update(change, agreeing)
        except Cancelled:  # before anything was proven
            exact.keep({}, agreeing)
        too_many = left is not None and exact.collapsed().count_expanded() > MOST_RULES  # many columns are equal
        if exact.unfinished or too_many:
            by_size.search(by_size.largest, budget)
        else:
            self._by_size = None

    def _update(self, change: RowChange, budget: Budget | None) -> dict[str, Array]:
        delta = self._update_facts(change, budget)
        budget = budget or Budget()
        if self._near is not None:
            self._search(np.concatenate([change.kept_codes, change.added_codes], axis=1), budget)
        elif self.counted is not None:
            self._derive(self.counted, change.rows_after, budget)
        return delta

    def _update_facts(self, change: RowChange, budget: Budget | None) -> dict[str, Array]:
        if self.counted is not None and change.pairs > self._most_pairs:
            self._give_up_counts()
        if self.counted is None:
            return self._update_witnessed(change, budget or Budget())
        delta = self.counted.delta(change, budget)
        self.added, self.removed = self.counted.merge(delta, budget)
        return {"sets": delta.sets, "counts": delta.counts}

    def _give_up_counts(self) -> None:
        """Turns to agree-sets with a witness each."""
        self.counted = None
        if self._exact is not None and self.witnessed is None:
            self.witnessed = WitnessedAgreeSets(self.columns, self.options.nulls, self._executor, self._memory)
            self._exact.collapse = self.options.nulls != "sql"

    def _update_witnessed(self, change: RowChange, budget: Budget) -> dict[str, Array]:
        if self.witnessed is None or self._exact is None:
            return {"witnessed": np.zeros(0)}
        before = Tally(self.witnessed.sets, np.ones(len(self.witnessed), np.int64), self.witnessed.pairs)
        self.witnessed.update(change, self._exact, budget)
        after = Tally(self.witnessed.sets, np.ones(len(self.witnessed), np.int64), self.witnessed.pairs)
        difference = after - before
        self.added, self.removed = difference.where(difference.counts > 0), difference.where(difference.counts < 0)
        return {"witnessed": np.zeros(0)} | self.witnessed.to_arrays()

    def _search(self, codes: Codes, budget: Budget) -> None:
        """Finds the rules that nearly hold."""
        assert self._near is not None
        self._oracle = Oracle(self.counted, codes, self.options, self._memory)
        self._near.update(self._oracle.is_good, codes.shape[1], self._oracle.order, budget)

    def _derive(self, counted: AgreeSets, rows: int, budget: Budget) -> None:
        """Derives the exact rules of a number of rows from their agree-sets."""
        assert self._exact is not None
        self._exact.update(*counted.split(counted.sets), rows, budget)

    def merge(self, delta: Arrays) -> None:
        """Adds facts that `update` returned in another process. Call `restore` afterwards to derive the rules."""
        if "witnessed" in delta:
            self._give_up_counts()
            if self.witnessed is not None and "sets" in delta:
                self.witnessed.load(delta)
        elif self.counted is not None:
            self.counted.merge(Tally.without_pairs(delta))

    def restore(self, codes: Codes) -> None:
        """Derives the rules from the facts and the current rows."""
        if self._near is not None:
            self._search(codes, Budget())
        elif self.counted is not None:
            self._derive(self.counted, codes.shape[1], Budget())
        elif self.witnessed is not None and self._exact is not None:
            self._exact.update(*self.witnessed.split(), codes.shape[1])

    def to_arrays(self) -> dict[str, Array]:
        """All facts, in the form that `merge` takes."""
        if self.counted is not None:
            return self.counted.to_arrays()
        return {"witnessed": np.zeros(0)} | (self.witnessed.to_arrays() if self.witnessed is not None else {})

    @property
    def unfinished(self) -> dict[str, str]:
        """The kinds whose search a budget ended, and why."""
        if self._by_size is not None:
            return dict.fromkeys(self._by_size.unfinished, self._by_size.ended)
        rules = self._exact if self._near is None else self._near
        return {} if rules is None else rules.unfinished

    def collapsed(self) -> CollapsedRules:
        """The rules that hold, over classes of equivalent columns."""
        rules = self._exact if self._near is None else self._near
        assert rules is not None
        found = rules.collapsed()
        if self._by_size is None:
            return found
        return self._by_size.with_larger(found)

    def errors(self, rules: CollapsedRules) -> npt.NDArray[np.float64] | None:
        """The errors of rules on the current rows; None if only exact rules are searched."""
        if self._oracle is None:
            return None
        return np.array([self._oracle.error(left, right) for left, right in rules.pairs()], np.float64)
