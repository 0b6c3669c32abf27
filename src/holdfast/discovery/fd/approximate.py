"""All minimal keys and FDs whose error is small enough, by asking an oracle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.collapsed import CollapsedRules
from holdfast.discovery.hitting_sets.border import Border, Trial
from holdfast.rules.masks import Masks, full, mask_of, none, pack, unpack

IsGood = Callable[[Sequence[int], int | None], bool]  # left columns and right column; None: a key


@dataclass
class ApproximateFds:
    """The rules of one table. `most` limits the columns of a left side and of a key."""

    columns: int
    most: Mapping[str, int | None] = field(default_factory=dict)
    kinds: Collection[str] = ("key", "fd")

    def __post_init__(self) -> None:
        self.unfinished: dict[str, str] = {}  # the kinds that a budget ended, and why
        self._lefts: dict[int, Masks] = {}
        self._borders: dict[int, Border] = {}

    def update(self, is_good: IsGood, rows: int, order: Sequence[int], budget: Budget | None = None) -> None:
        """Finds the rules of the current rows. `order`: the columns in the order in which bad left sides are grown, the
        least selective first."""
        budget, self.unfinished, self._lefts = budget or Budget(), {}, {}
        if rows < 2:
            return
        rights = [self.columns] if "key" in self.kinds else []
        rights += [*range(self.columns)] if "fd" in self.kinds else []
        for done, right in enumerate(rights):
            budget.report("searching for rules with exceptions", done / len(rights))
            right_budget = budget.for_one_of(len(rights) - done)
            if not right_budget.spent():
                border = self._border(right)
                border.update(LeftSideTest(border, right, is_good, order), right_budget)
                self._lefts[right] = border.good
            if right_budget.ended:
                self.unfinished["key" if right == self.columns else "fd"] = right_budget.ended

    def _border(self, right: int) -> Border:
        if right not in self._borders:
            is_key = right == self.columns
            allowed = full(self.columns) if is_key else full(self.columns) & ~mask_of([right], self.columns)
            self._borders[right] = Border(self.columns, allowed, self.most.get("key" if is_key else "fd"))
        return self._borders[right]

    def collapsed(self) -> CollapsedRules:
        lefts = np.concatenate([none(self.columns), *self._lefts.values()])
        rights = [np.full(len(masks), right) for right, masks in self._lefts.items()]
        return CollapsedRules(np.arange(self.columns), lefts, np.concatenate([np.zeros(0, np.int64), *rights]))


class LeftSideTest:
    """Which left sides of one right side are good. A key needs at least one column."""

    at_once = 1  # each test takes a pass over the rows

    def __init__(self, border: Border, right: int, is_good: IsGood, order: Sequence[int]) -> None:
        self._columns, self._right, self._order = border.vertices, right, order
        self._oracle, self._is_key, self._allowed = is_good, right == border.vertices, border.allowed
        self._single = pack(np.eye(border.vertices, dtype=np.bool_))  # [column]: a set of it alone

    def is_bad(self, sets: Masks) -> Flags:
        return np.array([not self._is_good(left) for left in sets], np.bool_)

    def tried(self, sets: Masks) -> Trial:
        good, complements = ~self.is_bad(sets), np.zeros_like(sets)
        for i in np.flatnonzero(~good).tolist():
            complements[i] = self._allowed[0] & ~self._grown(sets[i])
        return Trial(good, np.zeros(len(sets), np.int64), complements)

    def _is_good(self, left: Masks) -> bool:
        columns = np.flatnonzero(unpack(left[None, :], self._columns)[0]).tolist()
        return bool(columns or not self._is_key) and self._oracle(columns, None if self._is_key else self._right)

    def _grown(self, left: Masks) -> Masks:
        """A bad set to which no column can be added without making it good."""
        for column in self._order:
            more = left | self._single[column]
            if column != self._right and (more != left).any() and not self._is_good(more):
                left = more
        return left
