"""Evidence of tables with too many rows to compare all pairs: some clues, each with a live pair that has it (IncDC).

The clues suffice if every rule that they do not refute holds. From nothing: sample pairs, derive the rules and their
claims, search a pair that satisfies a claim, and add its clue, until there is none. Inserted rows: a claim that
contains a proven conjunction is searched only among pairs with an inserted row, since no older pair satisfies it.
Deleted rows: drop the clues whose pair lost a row, and search the claims that this opens among all rows. (Keeping only
the maximal evidence, without a new search, is wrong with nulls.)
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from holdfast.arrays import Array, Arrays, Flags
from holdfast.discovery.budget import Budget, spans
from holdfast.discovery.dc.clashes import Clashes, Pair
from holdfast.discovery.dc.evidence import Evidence
from holdfast.discovery.dc.predicate_space import PredicateSpace
from holdfast.discovery.pair_sets import Tally, sampled_neighbours
from holdfast.discovery.slices import distinct
from holdfast.executors.executor import Block, Cancelled, Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.rules.masks import Masks, Numbers, among, none
from holdfast.table.dictionary import Codes
from holdfast.table.row_change import RowChange

_SAMPLED = 4_000  # rows whose pairs are compared first, and pairs of neighbours in the order of each column
_TRIED = 100_000  # rows of a sample in which claims are searched before all rows
_PASS_IN_PAIRS = 0.05  # passes over the rows that take as long as comparing one row with all rows
_PARTS = 8  # parts of the claims on an executor

Search = Callable[[Masks, Flags], Iterator[tuple[Masks, Pair | None]]]
DeriveClaims = Callable[[Masks, int], Masks]  # from the atoms that pairs lack and the number of rows


@dataclass
class LeanEvidence:
    """Clues, each with a pair of row ids, and the claims that are proven."""

    space: PredicateSpace
    executor: Executor = field(default_factory=ThreadExecutor)
    CLUES: ClassVar[str] = "lean_clues"  # the name of their array among the facts

    def __post_init__(self) -> None:
        self._evidence = Evidence(self.space)
        self.clues = np.zeros((0, self.space.width), np.uint64)
        self.pairs = np.zeros((0, 2), np.int64)
        self.proven = none(len(self.space.atoms))  # conjunctions that no pair satisfies

    def __len__(self) -> int:
        return len(self.clues)

    def lacking(self, budget: Budget | None = None) -> Masks:
        """The sets of atoms that the pairs lack, in both orientations."""
        both = np.concatenate([self.clues, self.space.mirrored(self.clues, budget)])
        return distinct(self.space.lacks(both, budget), budget)

    def update(self, change: RowChange, derive: DeriveClaims, budget: Budget | None = None) -> tuple[Tally, Tally]:
        """Updates the clues to the rows after a change, by the claims that `derive` gives for them. Returns the clues
        added and removed. O(rows) for each claim that is searched, see `Clashes`."""
        budget, before = budget or Budget(), self.tally()
        lost = np.isin(self.pairs, change.removed).any(axis=1)
        self.clues, self.pairs = self.clues[~lost], self.pairs[~lost]
        ids = np.concatenate([change.added, change.kept])
        codes = np.concatenate([change.added_codes, change.kept_codes], axis=1)
        if not len(self.clues):
            self.proven = none(len(self.space.atoms))
            self._sample(ids, codes, budget)
        self._prove(ids, codes, len(change.added), derive, budget)
        difference = self.tally() - before
        return difference.where(difference.counts > 0), difference.where(difference.counts < 0)

    def tally(self) -> Tally:
        return Tally(self.clues, np.ones(len(self), np.int64), self.pairs)

    def _sample(self, ids: Numbers, codes: Codes, budget: Budget) -> None:
        rows = codes.shape[1]
        if rows < 2:
            return
        sample = np.unique(np.linspace(0, rows - 1, min(rows, _SAMPLED)).astype(np.int64))
        half = len(sample) // 2  # in two halves, because only pairs with a rest are recorded
        lead, rest = sample[:half], sample[half:]
        counted = self._evidence.pairs(lead, codes[:, lead], rest, codes[:, rest], budget=budget)
        near = []
        for column in codes:
            budget.check()
            near.append(sampled_neighbours(np.argsort(column, kind="stable"), _SAMPLED))
        places = np.concatenate([counted.pairs, *near])
        self._add(codes, places, ids, budget)

    def _add(self, codes: Codes, places: Numbers, ids: Numbers, budget: Budget) -> None:
        """Adds the clues of pairs of rows, by position. A clue that is there already keeps its pair."""
        clues = self.space.clues(codes, places, budget)
        tally = self._evidence.settled(Tally(clues, np.ones(len(clues), np.int64), ids[places]), budget)
        is_old = among(tally.sets, self.clues) if len(self.clues) else np.zeros(len(tally), np.bool_)
        self.clues = np.concatenate([self.clues, tally.sets[~is_old]])
        self.pairs = np.concatenate([self.pairs, tally.pairs[~is_old]])

    def _prove(self, ids: Numbers, codes: Codes, lead: int, derive: DeriveClaims, budget: Budget) -> None:
        """Derives claims, searches pairs that satisfy one and adds their clues, until there are none. Then `proven` has
        the claims; if the budget runs out, those that were searched."""
        held = np.concatenate([self.proven, self.space.mirrored_atoms(self.proven)])
        search = (
            self._search_elsewhere(codes, lead) if self.executor.elsewhere else self._search_here(codes, lead, budget)
        )
        proven = claims = none(len(self.space.atoms))
        with suppress(Cancelled):
            while True:
                claims = self.canonical(derive(self.lacking(budget), codes.shape[1]))
                unproven = claims[~among(claims, proven)] if len(proven) else claims
                only_new = np.zeros(len(unproven), np.bool_)
                for first, _ in spans(len(unproven) if len(held) else 0, 1, budget):
                    only_new[first] = ((held & unproven[first]) == held).all(axis=1).any()
                now_proven, places, clues_before = [proven], [np.zeros((0, 2), np.int64)], len(self)
                try:
                    for claim, pair in search(unproven, only_new):
                        if pair is None:
                            now_proven.append(claim[None, :])
                        else:
                            places.append(np.array([pair]))
                finally:
                    proven = np.concatenate(now_proven)
                self._add(codes, np.concatenate(places), ids, budget)
                if budget.spent() or len(self) == clues_before:
                    break
        self.proven = proven[among(proven, claims)] if len(proven) else proven

    def _search_here(self, codes: Codes, lead: int, budget: Budget) -> Search:
        """Searches claims one by one, in a sample of the rows before all rows. Skips claims that a pair found before
        satisfies."""
        step = max(1, codes.shape[1] // _TRIED)
        every = Clashes(self.space, codes, lead, executor=self.executor, budget=budget)
        sample = Clashes(self.space, np.ascontiguousarray(codes[:, ::step]), budget=budget) if step > 1 else None

        def search(claims: Masks, only_new: Flags) -> Iterator[tuple[Masks, Pair | None]]:
            lacked = none(len(self.space.atoms))
            every.compare_new |= int(only_new.sum()) > _PASS_IN_PAIRS * lead
            for n, claim in enumerate(claims):
                budget.report("verifying rules", n / len(claims))
                if budget.spent():
                    return
                if not (lacked & claim).any(axis=1).all():
                    continue
                pair = sample.pair(claim) if sample is not None and not only_new[n] else None
                if pair is not None:
                    pair = pair[0] * step, pair[1] * step
                else:
                    pair = every.pair(claim, new=bool(only_new[n]))
                if pair is not None:
                    clues = self.space.clues(codes, np.array([pair]))
                    both = np.concatenate([clues, self.space.mirrored(clues)])
                    lacked = np.concatenate([lacked, self.space.lacks(both)])
                yield claim, pair

        return search

    def _search_elsewhere(self, codes: Codes, lead: int) -> Search:
        """Searches the claims on the executor, in parts."""
        space = np.frombuffer(pickle.dumps(self.space), np.uint8)
        shared = {"codes": codes, "lead": np.array([lead]), "space": space}

        def search(claims: Masks, only_new: Flags) -> Iterator[tuple[Masks, Pair | None]]:
            size = max(1, -(-len(claims) // _PARTS))
            blocks = [
                Block({"claims": claims[i : i + size], "only_new": only_new[i : i + size]})
                for i in range(0, len(claims), size)
            ]
            answers = [np.asarray(answer["pairs"]) for answer in self.executor.map(clash_tile, blocks, shared)]
            pairs = np.concatenate([np.zeros((0, 2), np.int64), *answers]).tolist()
            yield from zip(claims, (None if t < 0 else (t, s) for t, s in pairs), strict=True)

        return search

    def canonical(self, atoms: Masks) -> Masks:
        """One of each conjunction and its mirror image, without duplicates."""
        mirror = self.space.mirrored_atoms(atoms)
        differ = atoms != mirror
        first, rows = differ.argmax(axis=1), np.arange(len(atoms))
        turn = differ.any(axis=1) & (mirror[rows, first] < atoms[rows, first])
        return distinct(np.where(turn[:, None], mirror, atoms))

    def to_arrays(self) -> dict[str, Array]:
        return {self.CLUES: self.clues, "lean_pairs": self.pairs}

    def load(self, arrays: Arrays) -> None:
        """Replaces the clues. Call `restore` afterwards."""
        self.clues = np.asarray(arrays[self.CLUES], np.uint64)
        self.pairs = np.asarray(arrays["lean_pairs"], np.int64)

    def restore(self, derive: DeriveClaims, rows: int) -> None:
        """Derives the claims of loaded clues, which were proven before these were stored."""
        self.proven = self.canonical(derive(self.lacking(), rows))


def clash_tile(block: Arrays, shared: Arrays) -> Arrays:
    """For each claim a pair of rows, by position, that satisfies it, or (-1, -1)."""
    space: PredicateSpace = pickle.loads(np.asarray(shared["space"]).tobytes())
    rows = Clashes(space, np.asarray(shared["codes"]), int(np.asarray(shared["lead"])[0]))
    claims = np.asarray(block["claims"], np.uint64)
    pairs = [
        rows.pair(claim, new=bool(new)) or (-1, -1)
        for claim, new in zip(claims, np.asarray(block["only_new"]), strict=True)
    ]
    return {"pairs": np.array(pairs, np.int64).reshape(-1, 2)}
