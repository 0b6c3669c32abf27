"""Evidence of tables that are too tall for all pairs: some clues, each with a live pair of rows that has it (IncDC).

The clues are enough when everything that they leave standing holds. From nothing: the clues of sampled pairs, then of
whatever pairs refute what still stands, until nothing is refuted. Of rows that come, pairs are looked for that violate
what held before; only with new rows, since what contains a conjunction that no pair satisfied is satisfied by no old
pair either. Rows that go take the clues with them whose pair they were in, and what that frees is looked for among all
rows. (Keeping only the largest evidence, without looking again, is wrong with nulls.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from holdfast.arrays import Array, Arrays
from holdfast.discovery.agree_set import Moved, Tally
from holdfast.discovery.budget import Budget
from holdfast.discovery.clash import Clashes
from holdfast.discovery.evidence import Evidence
from holdfast.discovery.space import Space
from holdfast.executors.executor import Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.indexes.named import DEFAULT
from holdfast.rules.masks import Masks, Numbers, among, distinct, none
from holdfast.table.dictionary import Codes

_SAMPLED = 4_000  # rows whose pairs are all looked at first, and neighbours by each column
_TRIED = 100_000  # rows among which what stands is tried before it is among all

Invert = Callable[[Masks, int], Masks]  # what pairs lack, of so many rows, to the conjunctions that have to hold


@dataclass
class Lean:
    """Clues with a pair of row ids each."""

    space: Space
    executor: Executor = field(default_factory=ThreadExecutor)
    CLUES: ClassVar[str] = "lean_clues"  # the name of their array
    index: str = DEFAULT  # what is asked about more than two comparisons beside equalities

    def __post_init__(self) -> None:
        self._evidence = Evidence(self.space)
        self.clues = np.zeros((0, self.space.width), np.uint64)
        self.pairs = np.zeros((0, 2), np.int64)
        self.proven = none(len(self.space.atoms))  # conjunctions that no pair satisfies

    def __len__(self) -> int:
        return len(self.clues)

    def lacking(self) -> Masks:
        """What the pairs lack, in both orientations."""
        return distinct(self.space.lacks(np.concatenate([self.clues, self.space.mirrored(self.clues)])))

    def follow(self, moved: Moved, invert: Invert, budget: Budget | None = None) -> tuple[Tally, Tally]:
        """Brings the clues to the rows after a change, `invert` being told of them; returns those that came and those
        that went. O(rows) for each conjunction that is looked for, see `Clashes`."""
        budget, before = budget or Budget(), self.tally()
        lost = np.isin(self.pairs, moved.gone).any(axis=1)
        self.clues, self.pairs = self.clues[~lost], self.pairs[~lost]
        ids = np.concatenate([moved.new, moved.stay])
        codes = np.concatenate([moved.new_codes, moved.stay_codes], axis=1)
        if not len(self.clues):
            self.proven = none(len(self.space.atoms))
            self._sample(ids, codes)
        self._prove(ids, codes, len(moved.new), invert, budget)
        change = self.tally() - before
        return change.where(change.counts > 0), change.where(change.counts < 0)

    def tally(self) -> Tally:
        return Tally(self.clues, np.ones(len(self), np.int64), self.pairs)

    def _sample(self, ids: Numbers, codes: Codes) -> None:
        rows = codes.shape[1]
        if rows < 2:
            return
        some = np.unique(np.linspace(0, rows - 1, min(rows, _SAMPLED)).astype(np.int64))
        half = len(some) // 2  # of pairs with the rest one each is remembered
        lead, rest = some[:half], some[half:]
        counted = self._evidence.pairs(lead, codes[:, lead], rest, codes[:, rest])
        near = [_neighbours(np.argsort(column, kind="stable")) for column in codes]
        places = np.concatenate([counted.pairs, *near])
        self._add(codes, places, ids)

    def _add(self, codes: Codes, places: Numbers, ids: Numbers) -> Masks:
        """The clues of more pairs of rows, by position; of equal clues the pair of the first stays. Returns what these
        pairs lack, in both orientations."""
        clues = self.space.clues(codes, places)
        mirror = self.space.mirrored(clues)
        made = self._evidence.settled(Tally(clues, np.ones(len(clues), np.int64), ids[places]))
        known = among(made.sets, self.clues) if len(self.clues) else np.zeros(len(made), np.bool_)
        self.clues = np.concatenate([self.clues, made.sets[~known]])
        self.pairs = np.concatenate([self.pairs, made.pairs[~known]])
        return self.space.lacks(np.concatenate([clues, mirror]))

    def _prove(self, ids: Numbers, codes: Codes, lead: int, invert: Invert, budget: Budget) -> None:
        """Looks for pairs that satisfy what should not be satisfied, takes their clues, and so on until there are none.
        Left in `proven`: what stands then."""
        rows = codes.shape[1]
        held = np.concatenate([self.proven, self.space.mirrored_atoms(self.proven)])
        found = none(len(self.space.atoms))
        every = Clashes(self.space, codes, lead, self.index)
        step = max(1, rows // _TRIED)
        some = Clashes(self.space, np.ascontiguousarray(codes[:, ::step]), 0, self.index) if step > 1 else None
        while True:
            standing = self.canonical(invert(self.lacking(), rows))
            open_ = standing[~among(standing, found)] if len(found) else standing
            refuted = False
            fresh = none(len(self.space.atoms))
            for n, claim in enumerate(open_):
                budget.tell("looking for violations", n / len(open_))
                if budget.spent():
                    break
                if not ((fresh & claim).any(axis=1)).all():
                    continue  # a pair found meanwhile satisfies it
                only_new = len(held) > 0 and bool(((held & claim) == held).all(axis=1).any())
                pair = some.pair(claim) if some is not None and not only_new else None
                if pair is not None:
                    pair = pair[0] * step, pair[1] * step
                else:
                    pair = every.pair(claim, new=only_new)
                if pair is None:
                    found = np.concatenate([found, claim[None, :]])
                else:
                    refuted = True
                    fresh = np.concatenate([fresh, self._add(codes, np.array([pair]), ids)])
            if budget.spent() or not refuted:
                break
        self.proven = found[among(found, standing)] if len(found) else found

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
        """Takes the place of what is there; `settle` follows."""
        self.clues = np.asarray(arrays[self.CLUES], np.uint64)
        self.pairs = np.asarray(arrays["lean_pairs"], np.int64)

    def settle(self, invert: Invert, rows: int) -> None:
        """What the clues leave standing holds."""
        self.proven = self.canonical(invert(self.lacking(), rows))


def _neighbours(order: Numbers) -> Numbers:
    pairs = np.stack([order[:-1], order[1:]], axis=1)
    return pairs[:: max(1, len(pairs) // _SAMPLED)]
