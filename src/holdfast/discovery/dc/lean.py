"""Evidence of tables that are too tall for all pairs: some clues, each with a live pair of rows that has it (IncDC).

The clues are enough when everything that they leave standing holds. From nothing: the clues of sampled pairs, then of
whatever pairs refute what still stands, until nothing is refuted. Of rows that come, pairs are looked for that violate
what held before; only with new rows, since what contains a conjunction that no pair satisfied is satisfied by no old
pair either. Rows that go take the clues with them whose pair they were in, and what that frees is looked for among all
rows. (Keeping only the largest evidence, without looking again, is wrong with nulls.)
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from holdfast.arrays import Array, Arrays
from holdfast.discovery.budget import Budget, spans
from holdfast.discovery.dc.clashes import Clashes, Pair
from holdfast.discovery.dc.evidence import Evidence
from holdfast.discovery.dc.predicate_space import Bits, PredicateSpace
from holdfast.discovery.pair_sets import Tally, sampled_neighbours
from holdfast.discovery.slices import distinct
from holdfast.executors.executor import Block, Cancelled, Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.rules.masks import Masks, Numbers, among, none
from holdfast.table.dictionary import Codes
from holdfast.table.row_change import RowChange

_SAMPLED = 4_000  # rows whose pairs are all looked at first, and neighbours by each column
_TRIED = 100_000  # rows among which what stands is tried before it is among all

_PASS_IN_PAIRS = 0.05  # passes over the rows that take as long as comparing one row with all of them
_PARTS = 8  # of claims, where they are looked for elsewhere

Search = Callable[[Masks, Bits], Iterator[tuple[Masks, Pair | None]]]
Invert = Callable[[Masks, int], Masks]  # what pairs lack, of so many rows, to the conjunctions that have to hold


@dataclass
class LeanEvidence:
    """Clues with a pair of row ids each."""

    space: PredicateSpace
    executor: Executor = field(default_factory=ThreadExecutor)
    CLUES: ClassVar[str] = "lean_clues"  # the name of their array

    def __post_init__(self) -> None:
        self._evidence = Evidence(self.space)
        self.clues = np.zeros((0, self.space.width), np.uint64)
        self.pairs = np.zeros((0, 2), np.int64)
        self.proven = none(len(self.space.atoms))  # conjunctions that no pair satisfies

    def __len__(self) -> int:
        return len(self.clues)

    def lacking(self, budget: Budget | None = None) -> Masks:
        """What the pairs lack, in both orientations."""
        both = np.concatenate([self.clues, self.space.mirrored(self.clues, budget)])
        return distinct(self.space.lacks(both, budget), budget)

    def update(self, change: RowChange, invert: Invert, budget: Budget | None = None) -> tuple[Tally, Tally]:
        """Brings the clues to the rows after a change, `invert` being told of them; returns those that came and those
        that went. O(rows) for each conjunction that is looked for, see `Clashes`."""
        budget, before = budget or Budget(), self.tally()
        lost = np.isin(self.pairs, change.removed).any(axis=1)
        self.clues, self.pairs = self.clues[~lost], self.pairs[~lost]
        ids = np.concatenate([change.added, change.kept])
        codes = np.concatenate([change.added_codes, change.kept_codes], axis=1)
        if not len(self.clues):
            self.proven = none(len(self.space.atoms))
            self._sample(ids, codes, budget)
        self._prove(ids, codes, len(change.added), invert, budget)
        difference = self.tally() - before
        return difference.where(difference.counts > 0), difference.where(difference.counts < 0)

    def tally(self) -> Tally:
        return Tally(self.clues, np.ones(len(self), np.int64), self.pairs)

    def _sample(self, ids: Numbers, codes: Codes, budget: Budget) -> None:
        rows = codes.shape[1]
        if rows < 2:
            return
        some = np.unique(np.linspace(0, rows - 1, min(rows, _SAMPLED)).astype(np.int64))
        half = len(some) // 2  # of pairs with the rest one each is remembered
        lead, rest = some[:half], some[half:]
        counted = self._evidence.pairs(lead, codes[:, lead], rest, codes[:, rest], budget=budget)
        near = []
        for column in codes:
            budget.check()
            near.append(sampled_neighbours(np.argsort(column, kind="stable"), _SAMPLED))
        places = np.concatenate([counted.pairs, *near])
        self._add(codes, places, ids, budget)

    def _add(self, codes: Codes, places: Numbers, ids: Numbers, budget: Budget) -> None:
        """The clues of more pairs of rows, by position; of a clue that is known already the pair stays."""
        clues = self.space.clues(codes, places, budget)
        made = self._evidence.settled(Tally(clues, np.ones(len(clues), np.int64), ids[places]), budget)
        known = among(made.sets, self.clues) if len(self.clues) else np.zeros(len(made), np.bool_)
        self.clues = np.concatenate([self.clues, made.sets[~known]])
        self.pairs = np.concatenate([self.pairs, made.pairs[~known]])

    def _prove(self, ids: Numbers, codes: Codes, lead: int, invert: Invert, budget: Budget) -> None:
        """Looks for pairs that satisfy what should not be satisfied, takes their clues, and so on until there are none.
        Left in `proven`: what stands then, of that what was looked for in time."""
        held = np.concatenate([self.proven, self.space.mirrored_atoms(self.proven)])
        search = (
            self._search_elsewhere(codes, lead) if self.executor.elsewhere else self._search_here(codes, lead, budget)
        )
        found = standing = none(len(self.space.atoms))
        with suppress(Cancelled):
            while True:
                standing = self.canonical(invert(self.lacking(budget), codes.shape[1]))
                claims = standing[~among(standing, found)] if len(found) else standing
                only_new = np.zeros(len(claims), np.bool_)
                for first, _ in spans(len(claims) if len(held) else 0, 1, budget):
                    only_new[first] = ((held & claims[first]) == held).all(axis=1).any()
                proven, places, known = [found], [np.zeros((0, 2), np.int64)], len(self)
                try:
                    for claim, pair in search(claims, only_new):
                        if pair is None:
                            proven.append(claim[None, :])
                        else:
                            places.append(np.array([pair]))
                finally:
                    found = np.concatenate(proven)
                self._add(codes, np.concatenate(places), ids, budget)
                if budget.spent() or len(self) == known:
                    break
        self.proven = found[among(found, standing)] if len(found) else found

    def _search_here(self, codes: Codes, lead: int, budget: Budget) -> Search:
        """One claim after the other, among some rows before all; not those that a pair found before satisfies."""
        step = max(1, codes.shape[1] // _TRIED)
        every = Clashes(self.space, codes, lead, executor=self.executor, budget=budget)
        some = Clashes(self.space, np.ascontiguousarray(codes[:, ::step]), budget=budget) if step > 1 else None

        def search(claims: Masks, only_new: Bits) -> Iterator[tuple[Masks, Pair | None]]:
            lacked = none(len(self.space.atoms))
            every.compare_new |= int(only_new.sum()) > _PASS_IN_PAIRS * lead
            for n, claim in enumerate(claims):
                budget.tell("looking for violations", n / len(claims))
                if budget.spent():
                    return
                if not (lacked & claim).any(axis=1).all():
                    continue
                pair = some.pair(claim) if some is not None and not only_new[n] else None
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
        """The claims in parts, side by side."""
        space = np.frombuffer(pickle.dumps(self.space), np.uint8)
        shared = {"codes": codes, "lead": np.array([lead]), "space": space}

        def search(claims: Masks, only_new: Bits) -> Iterator[tuple[Masks, Pair | None]]:
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
        """Of each two mirror images one, each once."""
        mirror = self.space.mirrored_atoms(atoms)
        differ = atoms != mirror
        first, rows = differ.argmax(axis=1), np.arange(len(atoms))
        turn = differ.any(axis=1) & (mirror[rows, first] < atoms[rows, first])
        return distinct(np.where(turn[:, None], mirror, atoms))

    def to_arrays(self) -> dict[str, Array]:
        return {self.CLUES: self.clues, "lean_pairs": self.pairs}

    def load(self, arrays: Arrays) -> None:
        """Takes the place of what is there; `restore` follows."""
        self.clues = np.asarray(arrays[self.CLUES], np.uint64)
        self.pairs = np.asarray(arrays["lean_pairs"], np.int64)

    def restore(self, invert: Invert, rows: int) -> None:
        """What the clues leave standing holds."""
        self.proven = self.canonical(invert(self.lacking(), rows))


def clash_tile(block: Arrays, shared: Arrays) -> Arrays:
    """For some claims a pair of rows, by position, that satisfies each, or (-1, -1)."""
    space: PredicateSpace = pickle.loads(np.asarray(shared["space"]).tobytes())
    rows = Clashes(space, np.asarray(shared["codes"]), int(np.asarray(shared["lead"])[0]))
    claims = np.asarray(block["claims"], np.uint64)
    found = [
        rows.pair(claim, new=bool(new)) or (-1, -1)
        for claim, new in zip(claims, np.asarray(block["only_new"]), strict=True)
    ]
    return {"pairs": np.array(found, np.int64).reshape(-1, 2)}
