"""All minimal good sets, for a test that stays good when a set grows.

The bad sets are those below a border of maximal bad sets. A good set has a member outside each of them, so the minimal
good sets are the minimal hitting sets of the complements of maximal bad sets. The search tests the minimal hitting sets
of the complements known so far. It grows each bad set until one more member would make it good, and adds the complement
to the edges, until every tested set is good. This finds rules that nearly hold: adding a column never raises the error.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget
from holdfast.discovery.hitting_sets.minimal import (
    Groups,
    difference,
    hitting_sets_after,
    minimal_edges,
    minimal_hitting_sets,
)
from holdfast.executors.executor import Cancelled
from holdfast.rules.masks import Masks, Numbers, among, full, none


class Trial(NamedTuple):
    """Which sets are good, how much each of them misses, and for each bad one the complement of a maximal bad set
    that contains it."""

    good: Flags
    missed: Numbers
    complements: Masks


class SetTest(Protocol):
    """Decides which sets are good."""

    at_once: int  # sets that are tested between budget checks

    def is_bad(self, sets: Masks) -> Flags: ...

    def tried(self, sets: Masks) -> Trial: ...


@dataclass
class Border:
    """The minimal good sets among some vertices, and the border from which the next search starts."""

    vertices: int
    within: Masks | None = None
    most: int | None = None
    groups: Groups | None = None
    good: Masks = field(init=False)
    missed: Numbers = field(init=False)  # by each good set
    _edges: Masks = field(init=False)  # complements of maximal bad sets

    def __post_init__(self) -> None:
        self._edges = none(self.vertices)
        self._clear()

    @property
    def allowed(self) -> Masks:
        """The vertices that sets may have."""
        return full(self.vertices) if self.within is None else self.within

    def _clear(self) -> None:
        self.good, self.missed = none(self.vertices), np.zeros(0, np.int64)

    def update(self, test: SetTest, budget: Budget | None = None) -> None:
        """Finds the good sets under a changed test; if the budget runs out, those found until then. O((good sets +
        maximal bad sets) x vertices) tests."""
        self._clear()
        with suppress(Cancelled):
            self._search(test, budget or Budget())

    def _search(self, test: SetTest, budget: Budget) -> None:
        allowed = self.allowed
        edges = self._edges[test.is_bad(allowed & ~self._edges)] if len(self._edges) else self._edges
        self._edges = edges
        sets = self._hitting_sets(edges, budget)
        while budget.ended is None:
            untried = sets[~among(sets, self.good)]  # a good set stays a minimal hitting set
            complements = self._try(untried, test, budget)
            if not len(complements) or budget.ended:
                break
            edges = minimal_edges(np.concatenate([edges, complements]), budget)
            sets = self._hitting_sets_after(sets, self._edges, edges, budget)
            self._edges = edges

    def _try(self, sets: Masks, test: SetTest, budget: Budget) -> Masks:
        """Keeps the good sets; returns the complements of maximal bad sets that contain the others."""
        complements, good, missed = none(self.vertices), [self.good], [self.missed]
        for first in range(0, len(sets), test.at_once):
            if budget.spent():
                break
            part = sets[first : first + test.at_once]
            if len(part) == 1 and not (complements & part).any(axis=1).all():
                continue  # a bad set found in this round refutes it
            trial = test.tried(part)
            good.append(part[trial.good])
            missed.append(trial.missed[trial.good])
            if not trial.good.all():
                complements = np.concatenate([complements, trial.complements[~trial.good]])
        self.good, self.missed = np.concatenate(good), np.concatenate(missed)
        return complements

    def _hitting_sets(self, edges: Masks, budget: Budget) -> Masks:
        return minimal_hitting_sets(
            edges, self.vertices, self.most, within=self.within, groups=self.groups, budget=budget
        )

    def _hitting_sets_after(self, sets: Masks, before: Masks, edges: Masks, budget: Budget) -> Masks:
        if self.groups is not None:  # edges share so many vertices that a new search is faster
            return self._hitting_sets(edges, budget)
        removed, added = difference(before, edges, budget)
        return hitting_sets_after(sets, removed, added, edges, self.vertices, self.most, budget=budget)
