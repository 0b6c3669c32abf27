"""Near hitting sets, which miss edges of small weight only: rules that hold for most pairs."""

from __future__ import annotations

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget, spans
from holdfast.discovery.hitting_sets.border import Trial
from holdfast.discovery.hitting_sets.minimal import edges_by_vertex
from holdfast.discovery.slices import AT_ONCE
from holdfast.kernels.near_hitting_sets import weigh
from holdfast.rules.masks import Masks, Numbers, unpack

_PAIRS = 20_000_000  # of a set and an edge, between budget checks


class WeightedEdges:
    """A set is good if the edges that it misses weigh at most `most` together."""

    def __init__(
        self, edges: Masks, weights: Numbers, vertices: int, most: int, allowed: Masks, budget: Budget | None = None
    ) -> None:
        self._edges, self._weights = np.ascontiguousarray(edges), np.ascontiguousarray(weights)
        self._vertices, self._most, self._budget = vertices, most, budget or Budget()
        self._columns = edges_by_vertex(edges, vertices, budget)
        self.at_once = max(1, _PAIRS // max(1, len(edges)))
        order = np.argsort(self._weight_hit(), kind="stable")  # vertices that hit least come first
        self._order = order[unpack(allowed, vertices)[0][order]]

    def _weight_hit(self) -> Numbers:
        """[vertex]: the total weight of the edges that contain it."""
        total = np.zeros(self._vertices, np.int64)
        for first, stop in spans(len(self._edges), AT_ONCE, self._budget):
            total += self._weights[first:stop] @ unpack(self._edges[first:stop], self._vertices)
        return total

    def missed(self, sets: Masks) -> Numbers:
        """The weight of the edges that each set does not hit. O(sets x edges / 64)."""
        sets, missed, nothing = np.ascontiguousarray(sets), np.empty(len(sets), np.int64), np.zeros(0, np.int64)
        out = np.zeros_like(sets)
        for first, stop in spans(len(sets), self.at_once, self._budget):
            self._weigh(sets[first:stop], nothing, 0, out[first:stop], missed[first:stop])
        return missed

    def is_bad(self, sets: Masks) -> Flags:
        return self.missed(sets) > self._most

    def tried(self, sets: Masks) -> Trial:
        complements, missed = np.zeros_like(sets), np.empty(len(sets), np.int64)
        self._weigh(np.ascontiguousarray(sets), self._order, self._most, complements, missed)
        return Trial(missed <= self._most, missed, complements)

    def _weigh(self, sets: Masks, order: Numbers, most: int, complements: Masks, missed: Numbers) -> None:
        weigh(self._columns, self._edges, self._weights, sets, order, most, complements, missed)
