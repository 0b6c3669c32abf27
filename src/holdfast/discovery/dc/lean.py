"""Evidence of tables with too many rows to compare all pairs: some clues, each with a live pair that has it (IncDC).

The clues suffice if every rule that they do not refute holds. From nothing: sample pairs, derive the rules and their
claims, search a pair that satisfies a claim, and add its clue, until there is none. Inserted rows: a claim that
contains a proven conjunction is searched only among pairs with an inserted row, since no older pair satisfies it.
The same goes for a conjunction that was proven some changes ago, and the rows that were inserted since: an error that
is repaired opens just the claims that it refuted.
Deleted rows: a clue whose pair lost a row gets its spare pair; without one it is dropped, and the claims that this
opens are searched among all rows. (Keeping only the maximal evidence, without a new search, is wrong with nulls.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from holdfast.arrays import Array, Arrays, Flags
from holdfast.discovery.budget import Budget, spans
from holdfast.discovery.dc.compared_pairs import ComparedPairs
from holdfast.discovery.dc.evidence import Evidence
from holdfast.discovery.pair_sets import Tally, sampled_neighbours
from holdfast.discovery.slices import distinct
from holdfast.discovery.witness.all_pairs import AllPairs
from holdfast.discovery.witness.orders import MEMORY
from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.discovery.witness.search import Witnesses, WitnessSearch
from holdfast.discovery.witness.sorted_search import COMPARED, FEW, SortedSearch, in_words
from holdfast.executors.executor import Cancelled, Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.rules.masks import Masks, among, none, numbered
from holdfast.table.row_change import Ids, RowChange

_REMEMBERED = 32  # changes whose refuted claims are remembered
_SAMPLED = 4_000  # rows whose pairs are compared first, and pairs of neighbours in the order of each column

DeriveClaims = Callable[[Masks, int], Masks]  # from the atoms that pairs lack and the number of rows


@dataclass
class LeanEvidence:
    """Clues, each with a pair of row ids, and the claims that are proven. Rows are compared with all rows until that
    has cost as much as sorting them; from then on sorted rows are kept, in at most `memory` bytes."""

    space: PredicateSpace
    executor: Executor = field(default_factory=ThreadExecutor)
    memory: int = MEMORY
    most_compared: int = COMPARED
    CLUES: ClassVar[str] = "lean_clues"  # the name of their array among the facts

    def __post_init__(self) -> None:
        self._evidence = Evidence(self.space, self.executor)
        self.clues = np.zeros((0, self.space.width), np.uint64)
        self.pairs, self._spares = np.zeros((2, 0, 2), np.int64)  # ids; the spare pair of a clue is -1 if there is none
        self.proven = none(len(self.space.atoms))  # conjunctions that no pair satisfies
        self._refuted: dict[int, Masks] = {}  # claims that held until a change of this number
        self._kept: SortedSearch | None = None
        self._compared = 0
        self._by_passes = 0  # claims, in the last change
        self._derived: tuple[Masks, Masks] | None = None  # clues, and the claims that were derived from them

    def __len__(self) -> int:
        return len(self.clues)

    def lacking(self, budget: Budget | None = None) -> Masks:
        """The sets of atoms that the pairs lack, in both orientations."""
        both = self.space.both_ways(self.clues, budget)
        return distinct(self.space.lacks(both, budget), budget)

    def update(self, change: RowChange, derive: DeriveClaims, budget: Budget | None = None) -> tuple[Tally, Tally]:
        """Updates the clues to the rows after a change, by the claims that `derive` gives for them. Returns the clues
        added and removed. Claims that hold on the older rows cost what the change costs, see `SortedSearch`; others
        O(rows) each, see `AllPairs`."""
        budget, before, self._by_passes = budget or Budget(), self.tally(), 0
        self._lose(change.removed)
        every = AllPairs(self.space, change, budget)
        if not len(self.clues):
            self.proven, self._kept = none(len(self.space.atoms)), None
            self._refuted = {}
            self._sample(every, budget)
        self._prove(self._searches(change, every), change.rows_after, derive, budget)
        difference = self.tally() - before
        return difference.where(difference.counts > 0), difference.where(difference.counts < 0)

    def _lose(self, removed: Ids) -> None:
        """Drops pairs with a removed row, and clues without a pair."""
        pairs, spares = self.pairs.copy(), self._spares.copy()
        spares[np.isin(spares, removed).any(axis=1)] = -1
        lost = np.isin(pairs, removed).any(axis=1)
        pairs[lost], spares[lost] = spares[lost], -1
        stays = pairs[:, 0] >= 0
        self.clues, self.pairs, self._spares = self.clues[stays], pairs[stays], spares[stays]

    def _searches(self, change: RowChange, every: AllPairs) -> list[WitnessSearch]:
        """The ways to search, in the order in which they are tried."""
        if self._kept is not None:
            self._kept.change(change)
            compared = (
                [ComparedPairs(self._evidence, change)] if len(change.added) <= min(FEW, self.most_compared) else []
            )
            return [*compared, self._kept, every]
        if len(self.proven):
            self._compared += len(change.added)
            if self._compared <= self.most_compared:
                self._evidence.executor = self.executor
                return [ComparedPairs(self._evidence, change), every]
        self._kept = SortedSearch(self.space, every.ids, every.codes, len(change.added), self.memory)
        return [self._kept, every]

    @property
    def strategy(self) -> str:
        """In words."""
        return f"{len(self):,} kinds of pairs with a pair each{in_words(self._kept, self._by_passes)}"

    def tally(self) -> Tally:
        return Tally(self.clues, np.ones(len(self), np.int64), self.pairs)

    def _sample(self, every: AllPairs, budget: Budget) -> None:
        ids, codes = every.ids, every.codes
        rows = len(ids)
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
        self._add(Witnesses(every.clues(places), ids[places], none(len(self.space.atoms))), budget)

    def _add(self, found: Witnesses, budget: Budget) -> None:
        """Adds the clues of pairs. A clue that is there already keeps its pair; another pair of it becomes its
        spare."""
        first, last = (
            self._evidence.settled(Tally(clues, np.ones(len(clues), np.int64), pairs), budget)
            for clues, pairs in ((found.clues[::-1], found.pairs[::-1]), (found.clues, found.pairs))
        )
        self.clues, numbers = numbered(np.concatenate([self.clues, first.sets, last.sets]))
        old, more = len(self.pairs), len(self.clues) - len(self.pairs)
        nobody = np.full((more, 2), -1)
        self.pairs, self._spares = np.concatenate([self.pairs, nobody]), np.concatenate([self._spares, nobody])
        for tally, of in zip((first, last), np.split(numbers[old:], [len(first)]), strict=True):
            lacks = self.pairs[of, 0] < 0
            self.pairs[of[lacks]] = tally.pairs[lacks]
            spare = (self.pairs[of] != tally.pairs).any(axis=1) & (self._spares[of, 0] < 0)
            self._spares[of[spare]] = tally.pairs[spare]

    def _prove(self, searches: list[WitnessSearch], rows: int, derive: DeriveClaims, budget: Budget) -> None:
        """Derives claims, searches pairs that satisfy one and adds their clues, until there are none. Then `proven` has
        the claims; if the budget runs out, those that were searched."""
        proven = claims = none(len(self.space.atoms))
        with suppress(Cancelled):
            while True:
                claims = self._claims(derive, rows, budget)
                unproven = claims[~among(claims, proven)] if len(proven) else claims
                before = len(self)
                for found in self._searched(searches, unproven, budget):
                    holds = ~found.refuted(self.space, found.settled)
                    proven = np.concatenate([proven, found.settled[holds]])
                    self._add(found, budget)
                if budget.spent() or len(self) == before:
                    break
        proven = proven[among(proven, claims)] if len(proven) else proven
        self._remember(self.proven[~among(self.proven, proven)] if len(proven) else self.proven)
        self.proven = proven

    def _remember(self, refuted: Masks) -> None:
        """Claims that held before the last change: pairs of older rows do not satisfy them."""
        if self._kept is None:
            return
        self._refuted[self._kept.changes] = refuted
        if len(self._refuted) > _REMEMBERED:
            del self._refuted[min(self._refuted)]

    def _claims(self, derive: DeriveClaims, rows: int, budget: Budget) -> Masks:
        """The claims of the clues, derived only if the clues are others than the last time."""
        if rows < 2 or self._derived is None or not np.array_equal(self._derived[0], self.clues):
            self.forget_claims()
            claims = self.canonical(derive(self.lacking(budget), rows))
            if rows > 1:
                self._derived = self.clues, claims
        return claims if self._derived is None else self._derived[1]

    def forget_claims(self) -> None:
        """Derives claims anew with the next change: those of the last one were not complete."""
        self._derived = None

    def _contain(self, claims: Masks, held: Masks, budget: Budget) -> Flags:
        """Which claims contain one of these conjunctions, in either orientation."""
        contain = np.zeros(len(claims), np.bool_)
        both = np.concatenate([held, self.space.mirrored_atoms(held)])
        for first, _ in spans(len(claims) if len(held) else 0, 1, budget):
            contain[first] = ((both & claims[first]) == both).all(axis=1).any()
        return contain

    def _searched(self, searches: list[WitnessSearch], claims: Masks, budget: Budget) -> Iterator[Witnesses]:
        """What is found for the claims. Those that hold on older rows are searched among pairs with a row that was
        inserted since."""
        held = self._contain(claims, self.proven, budget)
        yield from self._found([(search, True) for search in searches], claims[held], budget)
        claims = claims[~held]
        for change, refuted in sorted(self._refuted.items(), reverse=True):
            held = self._contain(claims, refuted, budget)
            if held.any() and self._kept is not None:
                yield from self._found([(self._kept.since(change), True), (searches[-1], False)], claims[held], budget)
                claims = claims[~held]
        yield from self._found([(search, False) for search in searches], claims, budget)

    def _found(self, ways: list[tuple[WitnessSearch, bool]], claims: Masks, budget: Budget) -> Iterator[Witnesses]:
        """What searches find, one after the other: each of them, whether it looks only at pairs with an inserted row,
        and what the others left."""
        for search, new in ways:
            if not len(claims):
                return
            self._by_passes += len(claims) if new and isinstance(search, AllPairs) else 0
            found = search.search(claims, budget, new=new)
            yield found
            claims = claims[~among(claims, found.settled)]

    def canonical(self, atoms: Masks) -> Masks:
        """One of each conjunction and its mirror image, without duplicates."""
        return distinct(self.space.turned(atoms))

    def to_arrays(self) -> dict[str, Array]:
        return {self.CLUES: self.clues, "lean_pairs": self.pairs}

    def load(self, arrays: Arrays) -> None:
        """Replaces the clues. Call `restore` afterwards."""
        self.clues = np.asarray(arrays[self.CLUES], np.uint64)
        self.pairs = np.asarray(arrays["lean_pairs"], np.int64)
        self._spares = np.full_like(self.pairs, -1)

    def restore(self, derive: DeriveClaims, rows: int) -> None:
        """Derives the claims of loaded clues, which were proven before these were stored."""
        self.proven = self.canonical(derive(self.lacking(), rows))
