"""Witness search by passes over all rows."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.witness.clashes import Clashes, Pair
from holdfast.discovery.witness.partitions import Partitions
from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.discovery.witness.search import Witnesses
from holdfast.executors.executor import Cancelled
from holdfast.rules.masks import Masks, Numbers, none
from holdfast.table.dictionary import Codes
from holdfast.table.row_change import Ids, RowChange

_TRIED = 100_000  # rows of a sample in which claims are searched before all rows
_GROUPED = 1 << 28  # bytes of rows grouped by columns


class AllPairs:
    """Finds pairs of the rows after a change, by at least one pass over them for each claim that holds."""

    def __init__(self, space: PredicateSpace, change: RowChange, budget: Budget) -> None:
        self._space, self._change, self._budget = space, change, budget

    @property
    def ids(self) -> Ids:
        """The inserted rows and the others."""
        return self._change.after[0]

    @property
    def codes(self) -> Codes:
        return self._change.after[1]

    @cached_property
    def _every(self) -> Clashes:
        return Clashes(self._space, self.codes, len(self._change.added), budget=self._budget)

    @cached_property
    def _step(self) -> int:
        return max(1, len(self.ids) // _TRIED)

    @cached_property
    def _sample(self) -> Clashes | None:
        step = self._step
        some = np.ascontiguousarray(self.codes[:, ::step])
        return Clashes(self._space, some, budget=self._budget) if step > 1 else None

    @cached_property
    def _groups(self) -> Partitions:
        return Partitions.of_codes(self.codes, self._space.nulls, _GROUPED)

    def search(self, claims: Masks, budget: Budget, *, new: bool = False) -> Witnesses:
        """Claim by claim, in a sample of the rows before all rows. With `new`, only pairs with an inserted row can
        satisfy a claim. What was not searched when the budget is spent is not settled."""
        found = Witnesses.nothing(self._space)
        lacked, settled = none(len(self._space.atoms)), []
        for n, claim in enumerate(claims):
            budget.report("verifying rules", n / len(claims))
            if budget.spent():
                break
            settled.append(claim)
            if not (lacked & claim).any(axis=1).all():
                continue  # a pair that was found for another claim satisfies it
            try:
                pair = self._pair(claim, new)
            except Cancelled:
                settled.pop()
                break
            if pair is not None:
                clue = self.clues(np.array([pair]))
                both = self._space.both_ways(clue)
                lacked = np.concatenate([lacked, self._space.lacks(both)])
                pairs = self.ids[np.array([pair, pair[::-1]])]
                found = Witnesses(np.concatenate([found.clues, both]), np.concatenate([found.pairs, pairs]), claims[:0])
        return found._replace(settled=np.concatenate([claims[:0], *(claim[None, :] for claim in settled)]))

    def _pair(self, claim: Masks, new: bool) -> Pair | None:
        if not new and self._sample is not None:
            pair = self._sample.pair(claim)
            if pair is not None:
                return pair[0] * self._step, pair[1] * self._step
        if not new and (agreement := self._space.agreement(claim)) is not None:
            clashes = self._groups.clashes(*agreement, most=1).tolist()
            return (clashes[0][0], clashes[0][1]) if clashes else None
        return self._every.pair(claim, new=new)

    def clues(self, places: Numbers) -> Masks:
        """The clues of pairs of rows, by position."""
        return self._space.clues(self.codes[:, places.ravel()], np.arange(places.size).reshape(-1, 2))
