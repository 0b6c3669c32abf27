"""What agree-sets refute: X -> A fails for a pair that agrees on X and differs in A.

Most agree-sets say nothing that a larger one does not say; the few others are the maximal sets of Dep-Miner, for all
right sides at once. A key is a right side too, in which every pair differs: its bit follows those of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.kernels.sets import refutations
from holdfast.rules.masks import Masks, Numbers, has, mask_of, numbered, sizes, unpack, words_for

_AT_ONCE = 4096  # sets between looks at the clock


@dataclass(frozen=True)
class MaximalSets:
    """Sets of columns, larger before smaller, and the right sides that each refutes and no larger one does."""

    columns: int
    sets: Masks
    rights: Masks

    @classmethod
    def of(cls, agree: Masks, differ: Masks, columns: int, budget: Budget | None = None) -> MaximalSets:
        """From the sets in which pairs agree and differ; after a spent budget, the largest of them only, which refute
        less. O(sets x kept sets), less in practice."""
        rights = np.zeros((len(agree), words_for(columns + 1)), np.uint64)
        rights[:, : differ.shape[1]] = differ
        rights |= mask_of([columns], columns + 1)
        agree, rights = _together(agree, rights)
        order = np.argsort(-sizes(agree), kind="stable")
        agree, rights = np.ascontiguousarray(agree[order]), np.ascontiguousarray(rights[order])
        keep, useful, kept = np.empty(len(agree), np.int64), np.empty_like(rights), 0
        for first in range(0, len(agree), _AT_ONCE):
            if budget is not None and budget.spent():
                break
            if budget is not None:
                budget.tell("reducing agree-sets", first / len(agree))
            kept = refutations(agree, rights, first, min(first + _AT_ONCE, len(agree)), kept, keep, useful)
        return cls(columns, agree[keep[:kept]], useful[keep[:kept]])

    def edges(self, right: int, among: Masks) -> Masks:
        """The columns, among some, of which a left side of `right` must have one, for each set that refutes it."""
        edges = ~self.sets[has(self.rights, right)] & among
        return edges & ~mask_of([right], self.columns) if right < self.columns else edges

    def classes(self) -> Numbers:
        """For each column the first one that is in the same sets and the same right sides: as left and as right sides
        such columns can stand for each other, as do columns of which each determines the other."""
        places = np.concatenate([unpack(self.sets, self.columns), unpack(self.rights, self.columns)])
        _, first, inverse = np.unique(np.packbits(places, axis=0), axis=1, return_index=True, return_inverse=True)
        return np.asarray(first[inverse.reshape(-1)], np.int64)


def _together(agree: Masks, rights: Masks) -> tuple[Masks, Masks]:
    """Each agree-set once, with the right sides of all its entries."""
    sets, numbers = numbered(agree)
    if len(sets) == len(agree):
        return agree, rights
    merged = np.zeros((len(sets), rights.shape[1]), np.uint64)
    np.bitwise_or.at(merged, numbers, rights)
    return sets, merged
