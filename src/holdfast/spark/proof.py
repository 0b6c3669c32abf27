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
from holdfast.rules.change import RuleChange
from holdfast.rules.masks import Masks, among, distinct, none
from holdfast.rules.ruleset import RuleSet
from holdfast.spark.claims import ClaimSearch, InsertedRows, Refutations
from holdfast.spark.sampled_rules import SampledRules
from holdfast.table.dictionary import Codes
from holdfast.table.row_change import RowDelta


class Proof:
    """The claims of a sample's rules, and which of them are proven. `held`: claims that no pair of rows without an
    `inserted` one satisfies, which is None if nothing is known of the rows."""

    def __init__(
        self,
        sample: SampledRules,
        search: Callable[[Codes], ClaimSearch],
        held: Masks | None = None,
        inserted: Sequence[InsertedRows] = (),
    ) -> None:
        self._sample, self._make_search, self._inserted = sample, search, inserted
        self._none = none(len(sample.space.atoms))
        self._held = self._none if held is None else np.concatenate([held, sample.space.mirrored_atoms(held)])
        self.proven = self._survived = self._fallen = self._none
        self.joined: list[Codes] = []  # rows that joined the sample
        self.changes: list[RuleChange] = []

    def run(self, budget: Budget) -> bool:
        """Searches until every rule of the sample is proven. False if the budget ended that."""
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
        rules, claims = self._sample.claims()
        proven = dict(zip(rules, among(claims, self.proven).tolist(), strict=True))
        return self._sample.rules().where(lambda block: np.array([proven[rule] for rule in block], np.bool_))

    def _search(self, claims: Masks, budget: Budget) -> None:
        """Proves or refutes the claims; only some, as soon as the sample has more pairs to derive others from."""
        search = self._make_search(self._sample.rows.codes())
        follows = self._contain_held(claims)
        if follows.any():
            self._settle(claims[follows], search.following(claims[follows], self._inserted, budget), budget)
        others = claims[~follows]
        fresh = others[~among(others, self._survived)]
        if len(fresh):
            refuted = self._refuted(fresh, search.in_partitions(fresh, budget), budget)
            self._survived = np.concatenate([self._survived, fresh[~refuted]])
            if refuted.any():
                return
        for found in search.everywhere(others, budget):
            self._settle(others[list(found.claims)], found, budget)

    def _contain_held(self, claims: Masks) -> Flags:
        """Which claims contain one that held before rows were inserted."""
        return np.array([((self._held & claim) == self._held).all(axis=1).any() for claim in claims], np.bool_)

    def _settle(self, claims: Masks, found: Refutations, budget: Budget) -> None:
        """Notes that all pairs were searched for the claims."""
        holds = ~self._refuted(claims, found, budget)
        if not budget.spent():  # else the tasks may have stopped early
            self.proven = np.concatenate([self.proven, claims[holds]])

    def _refuted(self, claims: Masks, found: Refutations, budget: Budget) -> Flags:
        """Which claims the pairs refute. Their rows join the sample."""
        if not found.t.num_rows:
            return np.zeros(len(claims), np.bool_)
        lacked, missing = self._sample.compared(found.t, found.s)
        if missing.shape[1]:
            self.joined.append(missing)
            self.changes += self._sample.update(RowDelta.of_inserts(missing), budget)
        refuted = np.array([not (lacked & claim).any(axis=1).all() for claim in claims], np.bool_)
        self._fallen = np.concatenate([self._fallen, claims[refuted]])
        return refuted
