"""Minimal sets of vertices that meet all edges but some of small weight: covers of rules that nearly hold.

What is not met never weighs more with a vertex more. So the sets that miss too much are those below a border, and each
minimal good set has a vertex outside each of them: minimal covers again, of the complements of bad sets. The covers of
the bad sets known so far are tried; one that misses too much is grown until it would be good, and joins them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.cover import Groups, columns_of, minimal_covers, smallest
from holdfast.kernels.near_cover import weigh
from holdfast.rules.masks import Masks, Numbers, among, full, none, unpack


def missed_by(sets: Masks, edges: Masks, weights: Numbers, vertices: int) -> Numbers:
    """The weight of the edges that each set does not meet."""
    out, missed, nothing = np.zeros_like(sets), np.empty(len(sets), np.int64), np.zeros(0, np.int64)
    weigh(columns_of(edges, vertices), *map(np.ascontiguousarray, (edges, weights, sets)), nothing, 0, out, missed)
    return missed


@dataclass
class NearCovers:
    """The minimal good sets among some vertices, and the border of bad ones, from which the next search starts."""

    vertices: int
    groups: Groups
    within: Masks | None = None
    covers: Masks = field(init=False)
    missed: Numbers = field(init=False)  # the weight of what each cover does not meet
    _bad: Masks = field(init=False)  # complements of bad sets

    def __post_init__(self) -> None:
        self.covers = self._bad = none(self.vertices)
        self.missed = np.zeros(0, np.int64)

    def update(self, edges: Masks, weights: Numbers, most: int, budget: Budget | None = None) -> None:
        """Finds the sets that miss edges of a weight of at most `most`. O((good + bad sets) x vertices x edges)."""
        budget = budget or Budget()
        allowed = full(self.vertices) if self.within is None else self.within
        edges, weights = np.ascontiguousarray(edges), np.ascontiguousarray(weights)
        columns = columns_of(edges, self.vertices)
        order = np.argsort(weights @ unpack(edges, self.vertices), kind="stable")  # what meets least comes first
        order = order[unpack(allowed, self.vertices)[0][order]]
        bad = self._bad[missed_by(allowed & ~self._bad, edges, weights, self.vertices) > most]
        good, missed = none(self.vertices), np.zeros(0, np.int64)
        while True:
            covers = minimal_covers(bad, self.vertices, within=allowed, groups=self.groups, budget=budget)
            open_ = covers[~among(covers, good)]  # what is good stays a minimal cover
            outside, misses = np.zeros_like(open_), np.empty(len(open_), np.int64)
            weigh(columns, edges, weights, open_, order, most, outside, misses)
            fine = misses <= most
            good, missed = np.concatenate([good, open_[fine]]), np.concatenate([missed, misses[fine]])
            if fine.all() or budget.spent():
                break
            bad = smallest(np.concatenate([bad, outside[~fine]]))
        self.covers, self.missed, self._bad = good, missed, bad
