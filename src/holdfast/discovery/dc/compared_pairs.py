"""Witness search that compares inserted rows with all rows: best for few of them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.dc.evidence import Evidence
from holdfast.discovery.witness.search import Witnesses
from holdfast.rules.masks import Masks
from holdfast.table.row_change import RowChange


class ComparedPairs:
    """Finds pairs with an inserted row. All of them are compared, when first asked. O(inserted rows x rows)."""

    def __init__(self, evidence: Evidence, change: RowChange) -> None:
        self._evidence, self._change = evidence, change

    @cached_property
    def _both(self) -> Witnesses:
        """One pair of each kind, and the same pair turned around."""
        change = self._change
        tally = self._evidence.pairs(change.added, change.added_codes, change.kept, change.kept_codes)
        clues = self._evidence.space.both_ways(tally.sets)
        return Witnesses(clues, np.concatenate([tally.pairs, tally.pairs[:, ::-1]]), tally.sets[:0])

    def search(self, claims: Masks, budget: Budget, *, new: bool = False) -> Witnesses:
        if not new:
            return Witnesses.nothing(self._evidence.space)
        return self._both.satisfying(self._evidence.space, claims)._replace(settled=claims)
