"""The maximal sets of Dep-Miner: the agree-sets that decide which rules hold, for all right sides at once.

A pair that agrees on X and differs in A refutes X -> A. Most agree-sets refute nothing that a larger one does not
refute. Keys are treated as one more right side, in which every pair differs; its bit follows those of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.kernels.sets import refutations
from holdfast.rules.masks import Masks, Numbers, has, mask_of, numbered, sizes, unpack, words_for

_AT_ONCE = 4096  # sets between budget checks


@dataclass(frozen=True)
class MaximalSets:
    """Sets of columns, larger before smaller, and for each the right sides that it refutes and no larger set does."""

    columns: int
    sets: Masks
    rights: Masks

    @classmethod
    def of(cls, agree: Masks, differ: Masks, columns: int, budget: Budget | None = None) -> MaximalSets:
        """From the columns in which pairs agree and those in which they differ. If the budget runs out, only the
        largest sets, which refute less. O(sets x kept sets), less in practice."""
        rights = np.zeros((len(agree), words_for(columns + 1)), np.uint64)
        rights[:, : differ.shape[1]] = differ
        rights |= mask_of([columns], columns + 1)
        agree, rights = _merged(agree, rights)
        order = np.argsort(-sizes(agree), kind="stable")
        agree, rights = np.ascontiguousarray(agree[order]), np.ascontiguousarray(rights[order])
        keep, useful, kept = np.empty(len(agree), np.int64), np.empty_like(rights), 0
        for first in range(0, len(agree), _AT_ONCE):
            if budget is not None and budget.spent():
                break
            if budget is not None:
                budget.report("checking column combinations", first / len(agree))
            kept = refutations(agree, rights, first, min(first + _AT_ONCE, len(agree)), kept, keep, useful)
        return cls(columns, agree[keep[:kept]], useful[keep[:kept]])

    def edges(self, right: int, usable: Masks) -> Masks:
        """For each set that refutes `right`, the other usable columns: a left side must have one of them."""
        edges = ~self.sets[has(self.rights, right)] & usable
        return edges & ~mask_of([right], self.columns) if right < self.columns else edges

    def classes(self) -> Numbers:
        """For each column the first one that is in the same sets and in the same right sides. Such columns are
        equivalent: each determines the other, and rules hold for both or for none."""
        membership = np.concatenate([unpack(self.sets, self.columns), unpack(self.rights, self.columns)])
        _, first, inverse = np.unique(np.packbits(membership, axis=0), axis=1, return_index=True, return_inverse=True)
        return np.asarray(first[inverse.reshape(-1)], np.int64)


def _merged(agree: Masks, rights: Masks) -> tuple[Masks, Masks]:
    """Each agree-set once, with the right sides of all its entries."""
    sets, numbers = numbered(agree)
    if len(sets) == len(agree):
        return agree, rights
    merged = np.zeros((len(sets), rights.shape[1]), np.uint64)
    np.bitwise_or.at(merged, numbers, rights)
    return sets, merged
