"""Witness search: of some claims, which are refuted by a pair of rows, and by which pair?

A claim says that no pair of rows satisfies a conjunction of weak atoms. Keys, dependencies, order dependencies and
denial constraints of tall tables all come down to this question. There are three ways to answer it: by passes over all
rows (`AllPairs`), by comparing few inserted rows with all rows (`ComparedPairs`), and in rows that are kept sorted
between changes (`SortedSearch`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget
from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.rules.masks import Masks, Numbers, none


class Witnesses(NamedTuple):
    """Pairs of rows (t, s), by id, with their clues; and the claims that are settled: if none of the pairs satisfies
    such a claim, no pair that was searched does."""

    clues: Masks
    pairs: Numbers
    settled: Masks

    @classmethod
    def nothing(cls, space: PredicateSpace) -> Witnesses:
        return cls(np.zeros((0, space.width), np.uint64), np.zeros((0, 2), np.int64), none(len(space.atoms)))

    def satisfying(self, space: PredicateSpace, claims: Masks) -> Witnesses:
        """The pairs that satisfy a claim."""
        lacked, satisfies = space.lacks(self.clues), np.zeros(len(self.clues), np.bool_)
        for claim in claims:
            satisfies |= ~(lacked & claim).any(axis=1)
        return self._replace(clues=self.clues[satisfies], pairs=self.pairs[satisfies])

    def joined(self, other: Witnesses) -> Witnesses:
        """The pairs and the settled claims of both."""
        return Witnesses(*(np.concatenate(both) for both in zip(self, other, strict=True)))

    def refuted(self, space: PredicateSpace, claims: Masks) -> Flags:
        """Which claims one of the pairs satisfies."""
        lacked = space.lacks(self.clues)
        return np.array([not (lacked & claim).any(axis=1).all() for claim in claims], np.bool_)


class WitnessSearch(Protocol):
    """A way to search. It may leave claims unsettled, for another way."""

    def search(self, claims: Masks, budget: Budget, *, new: bool = False) -> Witnesses:
        """Pairs among which there is one for each settled claim that a pair satisfies. With `new`, no pair of older
        rows satisfies a claim, and only pairs with an inserted row are searched."""
