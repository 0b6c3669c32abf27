"""All minimal FDs and keys of a table, kept true to its agree-sets.

Each pair that differs in A gives an edge of A: the other columns in which the pair differs. X -> A holds iff X has a
column of every edge of A, so the minimal left sides are the minimal hitting sets of the edges. Keys are the left sides
of a right side in which every pair differs. A change of agree-sets changes the edges of some right sides only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.collapsed import CollapsedRules
from holdfast.discovery.fd.maximal_sets import MaximalSets
from holdfast.discovery.hitting_sets.minimal import updated_hitting_sets
from holdfast.rules.masks import Masks, Numbers, mask_of, none


@dataclass
class FdRules:
    """The rules of one table.

    `most` limits the columns of a left side and of a key. Every rule is valid and minimal; if the budget runs out,
    some are missing.
    """

    columns: int
    most: Mapping[str, int | None] = field(default_factory=dict)
    kinds: Collection[str] = ("key", "fd")
    collapse: bool = True  # merge equivalent columns

    def __post_init__(self) -> None:
        self.unfinished: dict[str, str] = {}  # the kinds that a budget ended, and why
        self._forget()

    def _forget(self) -> None:
        self.classes: Numbers = np.arange(self.columns)
        self._edges: dict[int, Masks] = {}
        self.left_sides: dict[int, Masks] = {}  # by right side

    def update(self, agree: Masks, differ: Masks, rows: int, budget: Budget | None = None) -> None:
        """Derives the rules of a number of rows from their agree-sets."""
        budget, self.unfinished = budget or Budget(), {}
        if rows < 2:  # there are no pairs, and so no rules
            self._forget()
            return
        maximal = MaximalSets.of(agree, differ, self.columns, budget)
        if budget.spent():
            self.keep({}, budget)
            return
        classes = maximal.classes() if self.collapse else self.classes
        if (classes != self.classes).any():
            self._forget()
            self.classes = classes
        usable = mask_of(np.unique(classes).tolist(), self.columns)
        rights = self._rights()
        for done, right in enumerate(rights):
            if budget.spent():
                self.keep({r: self.left_sides[r] for r in rights[:done]}, budget, rights[done:])
                return
            budget.report("deriving rules", done / len(rights))
            right_budget = budget.for_one_of(len(rights) - done)
            self._update_right(right, maximal.edges(right, usable), right_budget)
            if right_budget.ended:
                self._note(right, right_budget)

    def keep(self, left_sides: dict[int, Masks], budget: Budget, rest: Sequence[int] | None = None) -> None:
        """Keeps only these rules, because the time budget ran out. `rest`: the right sides that are unfinished; None:
        all."""
        self.left_sides, self._edges = left_sides, {}
        for right in self._rights() if rest is None else rest:
            self._note(right, budget)

    def _note(self, right: int, budget: Budget) -> None:
        """Notes that a right side is unfinished."""
        self.unfinished["key" if right == self.columns else "fd"] = str(budget.ended)

    def _rights(self) -> list[int]:
        """The right sides. Keys come first, because there are few of them."""
        columns = np.unique(self.classes).tolist() if "fd" in self.kinds else []
        return [self.columns, *columns] if "key" in self.kinds else columns

    def _update_right(self, right: int, edges: Masks, budget: Budget) -> None:
        """Updates the left sides of one right side to its edges."""
        most = self.most.get("key" if right == self.columns else "fd")
        before, lefts = self._edges.get(right), self.left_sides.get(right, none(self.columns))
        self.left_sides[right] = updated_hitting_sets(lefts, before, edges, self.columns, most, budget=budget)
        self._edges[right] = edges

    def _is_class_of_several(self, column: int) -> bool:
        """Whether a column stands for a class of two or more columns that are not constant."""
        lefts = self.left_sides.get(column)
        constant = lefts is not None and len(lefts) == 1 and not lefts.any()
        return int((self.classes == column).sum()) > 1 and not constant

    def collapsed(self) -> CollapsedRules:
        """The rules, over classes of equivalent columns."""
        limit = self.most.get("fd")
        lefts, rights = [none(self.columns)], [np.zeros(0, np.int64)]
        for right, left_sides in self.left_sides.items():
            equivalent = none(self.columns)
            if limit != 0 and self._is_class_of_several(right):
                equivalent = mask_of([right], self.columns)
            lefts += [left_sides, equivalent]
            rights.append(np.full(len(left_sides) + len(equivalent), right))
        return CollapsedRules(self.classes, np.concatenate(lefts), np.concatenate(rights))
