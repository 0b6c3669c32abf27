"""All minimal FDs and keys of a table, kept true to its agree-sets.

X -> A holds iff X has a column of every edge of A: the columns, without A, in which some pair that differs in A
differs too. Minimal left sides are minimal covers of the edges; so are keys, for a right side in which every pair
differs. A change of agree-sets changes the edges of some right sides; the others keep their rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.collapsed import Collapsed
from holdfast.discovery.fd.maximal_sets import MaximalSets
from holdfast.discovery.hitting_sets.minimal import followed
from holdfast.rules.masks import Masks, Numbers, mask_of, none


@dataclass
class FdRules:
    """The rules of one table.

    `most` limits the columns of a left side and of a key. Every rule is valid and minimal; after a spent budget some
    are missing.
    """

    columns: int
    most: Mapping[str, int | None] = field(default_factory=dict)
    kinds: Collection[str] = ("key", "fd")
    collapse: bool = True  # whether columns that can stand for each other do

    def __post_init__(self) -> None:
        self.unfinished: dict[str, str] = {}  # the kinds that a budget ended, and why
        self._forget()

    def _forget(self) -> None:
        self.classes: Numbers = np.arange(self.columns)
        self._edges: dict[int, Masks] = {}
        self.covers: dict[int, Masks] = {}  # left sides by right side

    def update(self, agree: Masks, differ: Masks, rows: int, budget: Budget | None = None) -> None:
        """Brings the rules to the agree-sets of so many rows."""
        budget, self.unfinished = budget or Budget(), {}
        if rows < 2:  # there are no pairs, and so no rules
            self._forget()
            return
        refuted = MaximalSets.of(agree, differ, self.columns, budget)
        if budget.spent():
            self.keep({}, budget)
            return
        classes = refuted.classes() if self.collapse else self.classes
        if (classes != self.classes).any():
            self._forget()
            self.classes = classes
        among = mask_of(np.unique(classes).tolist(), self.columns)
        rights = self._rights()
        for done, right in enumerate(rights):
            if budget.spent():
                self.keep({r: self.covers[r] for r in rights[:done]}, budget, rights[done:])
                return
            budget.tell("inverting", done / len(rights))
            mine = budget.for_one_of(len(rights) - done)
            self._follow(right, refuted.edges(right, among), among, mine)
            if mine.ended:
                self._note(right, mine)

    def keep(self, covers: dict[int, Masks], budget: Budget, rest: Sequence[int] | None = None) -> None:
        """Only these rules: the others, of the right sides in `rest` or of all, were not proven in time."""
        self.covers, self._edges = covers, {}
        for right in self._rights() if rest is None else rest:
            self._note(right, budget)

    def _note(self, right: int, budget: Budget) -> None:
        """Notes that the rules of a right side may not be all."""
        self.unfinished["key" if right == self.columns else "fd"] = str(budget.ended)

    def _rights(self) -> list[int]:
        """Keys come first: there are few of them."""
        columns = np.unique(self.classes).tolist() if "fd" in self.kinds else []
        return [self.columns, *columns] if "key" in self.kinds else columns

    def _follow(self, right: int, edges: Masks, among: Masks, budget: Budget) -> None:
        """Brings the covers of one right side to its edges, along the change where that is small."""
        most = self.most.get("key" if right == self.columns else "fd")
        before, covers = self._edges.get(right), self.covers.get(right, none(self.columns))
        self.covers[right] = followed(covers, before, edges, self.columns, most, budget=budget)
        self._edges[right] = edges

    def alike(self, column: int) -> list[int]:
        """The columns of the class of a column that determine each other: two or more, and none where they are
        constant."""
        members = np.flatnonzero(self.classes == column).tolist()
        covers = self.covers.get(column)
        constant = covers is not None and len(covers) == 1 and not covers.any()
        return members if len(members) > 1 and not constant else []

    def collapsed(self) -> Collapsed:
        """The rules, over classes of columns."""
        limit = self.most.get("fd")
        lefts, rights = [none(self.columns)], [np.zeros(0, np.int64)]
        for right, covers in self.covers.items():
            alike = mask_of([right], self.columns) if limit != 0 and self.alike(right) else none(self.columns)
            lefts += [covers, alike]
            rights.append(np.full(len(covers) + len(alike), right))
        return Collapsed(self.classes, np.concatenate(lefts), np.concatenate(rights))
