"""Minimal sets of vertices that meet all edges but some of small weight: covers of rules that nearly hold.

What is not met never weighs more with a vertex more. So the sets that miss too much are those below a border, and each
minimal good set has a vertex outside each of them: minimal covers again, of the complements of bad sets. The covers of
the bad sets known so far are tried; one that misses too much is grown until it would be good, and joins them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from holdfast.discovery.budget import Budget, spans
from holdfast.discovery.hitting_sets.minimal import Groups, columns_of, minimal_hitting_sets, smallest
from holdfast.discovery.slices import AT_ONCE
from holdfast.executors.executor import Cancelled
from holdfast.kernels.near_hitting_sets import weigh
from holdfast.rules.masks import Masks, Numbers, among, full, none, unpack

_PAIRS = 20_000_000  # of a set and an edge


def missed_by(sets: Masks, edges: Masks, weights: Numbers, vertices: int, budget: Budget | None = None) -> Numbers:
    """The weight of the edges that each set does not meet."""
    out, missed, nothing = np.zeros_like(sets), np.empty(len(sets), np.int64), np.zeros(0, np.int64)
    columns, at_once = columns_of(edges, vertices, budget), _at_once(edges)
    edges, sets, weights = np.ascontiguousarray(edges), np.ascontiguousarray(sets), np.ascontiguousarray(weights)
    for first, stop in spans(len(sets), at_once, budget):
        weigh(columns, edges, weights, sets[first:stop], nothing, 0, out[first:stop], missed[first:stop])
    return missed


def _at_once(edges: Masks) -> int:
    """How many sets are weighed between looks at the clock."""
    return max(1, _PAIRS // max(1, len(edges)))


def _weights_of(edges: Masks, weights: Numbers, vertices: int, budget: Budget) -> Numbers:
    """[vertex]: the weight of its edges."""
    total = np.zeros(vertices, np.int64)
    for first, stop in spans(len(edges), AT_ONCE, budget):
        total += weights[first:stop] @ unpack(edges[first:stop], vertices)
    return total


@dataclass
class NearHittingSets:
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
        """Finds the sets that miss edges of a weight of at most `most`, or those of them that are found before the
        budget is spent. O((good + bad sets) x vertices x edges)."""
        self.covers, self.missed = none(self.vertices), np.zeros(0, np.int64)
        with suppress(Cancelled):
            self._update(edges, weights, most, budget or Budget())

    def _update(self, edges: Masks, weights: Numbers, most: int, budget: Budget) -> None:
        allowed = full(self.vertices) if self.within is None else self.within
        edges, weights = np.ascontiguousarray(edges), np.ascontiguousarray(weights)
        columns, at_once = columns_of(edges, self.vertices, budget), _at_once(edges)
        met = _weights_of(edges, weights, self.vertices, budget)
        order = np.argsort(met, kind="stable")  # what meets least comes first
        order = order[unpack(allowed, self.vertices)[0][order]]
        bad = self._bad[missed_by(allowed & ~self._bad, edges, weights, self.vertices, budget) > most]
        while True:
            covers = minimal_hitting_sets(bad, self.vertices, within=allowed, groups=self.groups, budget=budget)
            open_ = covers[~among(covers, self.covers)]  # what is good stays a minimal cover
            grown = [bad]
            for first, stop in spans(len(open_), at_once, budget):
                some = open_[first:stop]
                outside, misses = np.zeros_like(some), np.empty(len(some), np.int64)
                weigh(columns, edges, weights, some, order, most, outside, misses)
                fine = misses <= most
                self.covers = np.concatenate([self.covers, some[fine]])
                self.missed = np.concatenate([self.missed, misses[fine]])
                grown.append(outside[~fine])
            if not sum(map(len, grown[1:])) or budget.spent():
                break
            bad = smallest(np.concatenate(grown), budget)
        self._bad = bad
