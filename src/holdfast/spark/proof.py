"""Proves on Spark what a sample of a table leaves standing.

A rule that holds on a table holds on every part of it. So if all minimal rules of a sample hold on the table, they are
the minimal rules of the table. Pairs of rows that refute a rule join the sample, which then leaves other rules
standing, until none is refuted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget
from holdfast.errors import HoldfastError, shown
from holdfast.rules.masks import Masks, among, distinct, none
from holdfast.rules.ruleset import RuleSet
from holdfast.spark.claims import ClaimSearch, InsertedRows, Refutations
from holdfast.spark.sampled_rules import SampledRules
from holdfast.table.dictionary import Codes
from holdfast.table.row_change import RowDelta


class SampleProof:
    """The claims of a sample's rules, and which of them are proven.

    `held`: claims that no pair of rows without an `inserted` one satisfies, as far as something is known of the table.
    `is_whole`: the sample has all rows, so its rules are those of the table.
    """

    def __init__(
        self,
        sample: SampledRules,
        search: Callable[[Codes], ClaimSearch],
        held: Masks | None = None,
        inserted: Sequence[InsertedRows] = (),
        is_whole: bool = False,
    ) -> None:
        self._sample, self._make_search, self._inserted, self._is_whole = sample, search, inserted, is_whole
        nothing = none(len(sample.space.atoms))
        self._held = nothing if held is None else np.concatenate([held, sample.space.mirrored_atoms(held)])
        self.proven = self._survived = self._fallen = nothing
        self.joined = [sample.rows.codes()[:, :0]]  # rows that joined the sample
        self.witnesses: dict[bytes, Codes] = {}  # the first two rows that refuted a claim

    def run(self, budget: Budget) -> bool:
        """Searches until every rule of the sample is proven. False if the budget ended that."""
        if self._is_whole:
            return self._sample.is_finished
        while self._sample.is_finished:
            _, claims = self._sample.claims()
            claims = distinct(claims[~among(claims, self.proven)])
            if among(claims, self._fallen).any():  # the sample has a pair that refutes it, and leaves it standing
                raise HoldfastError(
                    f"table {shown(self._sample.name)} has other rows each time it is read; write it to files first"
                )
            if not len(claims):
                return True
            if budget.spent():
                return False
            self._search(claims, budget)
        return False

    def rules(self) -> RuleSet:
        """The rules that are proven."""
        if self._is_whole:
            return self._sample.rules()
        rules, claims = self._sample.claims()
        proven = dict(zip(rules, among(claims, self.proven).tolist(), strict=True))
        return self._sample.rules().where(lambda block: np.array([proven[rule] for rule in block], np.bool_))

    def _search(self, claims: Masks, budget: Budget) -> None:
        """Proves or refutes the claims; only some, as soon as the sample has more pairs to derive others from."""
        search = self._make_search(self._sample.rows.codes())
        follows = self._contain_held(claims)
        if follows.any():
            self._settle(claims[follows], self._following(search, claims[follows], budget), budget)
        others = claims[~follows]
        fresh = others[~among(others, self._survived)]
        if len(fresh):
            refuted = self._refuted(fresh, search.in_partitions(fresh, budget), budget)
            self._survived = np.concatenate([self._survived, fresh[~refuted]])
            if refuted.any():
                return
        for found in search.everywhere(others, budget):
            self._settle(others[list(found.claims)], found, budget)

    def _following(self, search: ClaimSearch, claims: Masks, budget: Budget) -> Refutations | None:
        return search.following(claims, self._inserted, budget) if self._inserted else None

    def _contain_held(self, claims: Masks) -> Flags:
        """Which claims contain one that held before rows were inserted."""
        return np.array([((self._held & claim) == self._held).all(axis=1).any() for claim in claims], np.bool_)

    def _settle(self, claims: Masks, found: Refutations | None, budget: Budget) -> None:
        """Notes that all pairs were searched for the claims. None: there are none to search."""
        holds = ~self._refuted(claims, found, budget)
        if not budget.spent():  # else the tasks may have stopped early
            self.proven = np.concatenate([self.proven, claims[holds]])

    def _refuted(self, claims: Masks, found: Refutations | None, budget: Budget) -> Flags:
        """Which claims the pairs refute. Their rows join the sample."""
        refuted = np.zeros(len(claims), np.bool_)
        if found is None or not found.t.num_rows:
            return refuted
        pairs = self._sample.compared(found.t, found.s)
        if pairs.missing.shape[1]:
            self.joined.append(pairs.missing)
            self._sample.update(RowDelta.of_inserts(pairs.missing), budget)
        for number, claim in enumerate(claims):
            satisfying = np.flatnonzero(~(pairs.lacked & claim).any(axis=1))
            if len(satisfying):
                refuted[number] = True
                self.witnesses.setdefault(claim.tobytes(), pairs.rows[:, :, satisfying[0]])
        self._fallen = np.concatenate([self._fallen, claims[refuted]])
        return refuted
