"""All minimal left sides whose error is small enough, from an oracle that tells the error.

An error never grows with a column more, so the sets that are too wrong are those below a border. Every minimal good
set has a column outside each of them: minimal covers again. What the known bad sets leave standing is tried; a set
found bad is grown until it would be good, and joins the border; until everything that stands is good.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.collapsed import Collapsed
from holdfast.discovery.hitting_sets.minimal import hitting_sets_after, minimal_hitting_sets, smallest
from holdfast.executors.executor import Cancelled
from holdfast.rules.masks import Masks, among, full, mask_of, none, unpack

Good = Callable[[Sequence[int], int | None], bool]


@dataclass
class Border:
    """The minimal good left sides of each right side, and the border of bad sets, from which the next search starts."""

    columns: int
    most: Mapping[str, int | None] = field(default_factory=dict)
    kinds: Collection[str] = ("key", "fd")

    def __post_init__(self) -> None:
        self.covers: dict[int, Masks] = {}
        self.unfinished: dict[str, str] = {}  # the kinds that a budget ended, and why
        self._bad: dict[int, Masks] = {}

    def update(self, good: Good, rows: int, order: Sequence[int], budget: Budget | None = None) -> None:
        """Finds them anew for changed rows. `order` are the columns by which bad sets are grown, worst first."""
        budget, self.unfinished = budget or Budget(), {}
        self.covers = {}
        if rows < 2:
            return
        rights = [self.columns] if "key" in self.kinds else []
        rights += [*range(self.columns)] if "fd" in self.kinds else []
        for done, right in enumerate(rights):
            budget.tell("searching", done / len(rights))
            mine = budget.for_one_of(len(rights) - done)
            if not mine.spent():
                self._search(right, good, order, mine)
            if mine.ended:
                self.unfinished["key" if right == self.columns else "fd"] = mine.ended

    def _search(self, right: int, good: Good, order: Sequence[int], budget: Budget) -> None:
        key = right == self.columns
        end, most = (None, self.most.get("key")) if key else (right, self.most.get("fd"))
        allowed = full(self.columns) if key else full(self.columns) & ~mask_of([right], self.columns)

        def is_good(left: Masks) -> bool:
            columns = np.flatnonzero(unpack(left[None, :], self.columns)[0]).tolist()
            return bool(columns or not key) and good(columns, end)

        bad = [left for left in self._bad.get(right, none(self.columns)) if not is_good(left)]
        edges = smallest(allowed & ~np.array(bad, np.uint64).reshape(len(bad), -1)) if bad else none(self.columns)
        covers = minimal_hitting_sets(edges, self.columns, most, within=allowed, budget=budget)
        proven = none(self.columns)
        while budget.ended is None:
            open_ = covers[~among(covers, proven)]
            if not len(open_):
                break
            new: list[Masks] = []
            for left in open_:
                if budget.spent():
                    break
                if any(not (left & edge).any() for edge in new):
                    continue  # refuted by a set that was found meanwhile
                if is_good(left):
                    proven = np.concatenate([proven, left[None, :]])
                else:
                    new.append((allowed & ~self._grown(left, is_good, order, right))[0])
            if new:
                try:
                    after = smallest(np.concatenate([edges, np.array(new)]), budget)
                    gone, came = edges[~among(edges, after)], after[~among(after, edges)]
                    covers = hitting_sets_after(covers, gone, came, after, self.columns, most, budget=budget)
                except Cancelled:
                    break
                edges = after
        self._bad[right] = allowed & ~edges
        self.covers[right] = covers[among(covers, proven)]

    def _grown(self, left: Masks, is_good: Callable[[Masks], bool], order: Sequence[int], right: int) -> Masks:
        """A bad set to which no column can be added without making it good."""
        for column in order:
            more = left | mask_of([column], self.columns)[0]
            if column != right and (more != left).any() and not is_good(more):
                left = more
        return left

    def collapsed(self) -> Collapsed:
        lefts = np.concatenate([none(self.columns), *self.covers.values()])
        rights = [np.full(len(covers), right) for right, covers in self.covers.items()]
        return Collapsed(np.arange(self.columns), lefts, np.concatenate([np.zeros(0, np.int64), *rights]))
