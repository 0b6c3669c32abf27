"""The evidence of a table: how its pairs of rows compare, as a multiset of clues under inserts and deletes (IncDC).

Each unordered pair counts once, with the smaller of its clue and the mirror image of the clue. So the multiset does not
depend on the order of rows, and gives both orientations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from holdfast.discovery.budget import Budget, spans
from holdfast.discovery.pair_sets import FEW_PAIRS, PairSets, Tally
from holdfast.discovery.pair_tiles import PAIRS_PER_TILE, Compared
from holdfast.discovery.slices import AT_ONCE, numbered, sums_by_number
from holdfast.discovery.witness.predicate_space import DIFFERENT, GREATER, LESS, PredicateSpace
from holdfast.executors.executor import Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.kernels import agree
from holdfast.rules.masks import Masks, Numbers, full, pack
from holdfast.table.dictionary import NULL, Codes

_SAMPLED_ROWS = 1_000  # from which the number of clues is estimated
_WORTH_RANKS = 200  # partners of a row from which on short numbers pay for sorting the values
_TESTS = {LESS: agree.LESS, GREATER: agree.GREATER, DIFFERENT: agree.DIFFERENT}


@dataclass
class Evidence(PairSets):
    """The clues of all pairs of a table."""

    space: PredicateSpace
    executor: Executor = field(default_factory=ThreadExecutor)
    few_pairs: int = FEW_PAIRS
    pairs_per_tile: int = PAIRS_PER_TILE

    @property
    def width(self) -> int:
        return self.space.width

    def compared(self, codes: Codes, pairs: int) -> Compared:
        """The operands as columns: one for a comparison of a column with itself, two for one of two columns. With many
        pairs, values get short numbers. O(rows x comparisons), and sorting for short numbers."""
        space, rows = self.space, codes.shape[1]
        operands = space.operands(codes)
        columns: list[Codes] = []
        places = []
        for comparison, (left, right) in zip(space.comparisons, operands, strict=True):
            places.append((len(columns), len(columns) + (comparison.left != comparison.right)))
            columns += [left] if comparison.left == comparison.right else [left, right]
        tests = np.array([(*places[i], _TESTS.get(say, agree.NEVER)) for i, say in space.bits], np.int64).reshape(-1, 3)
        numbers = np.stack(columns) if columns else np.zeros((0, rows), np.int64)
        small, halves = np.empty((0, 0), np.uint8), np.empty((0, 0), np.uint16)
        kind = np.full(len(numbers), agree.WORDS)
        if pairs > _WORTH_RANKS * max(1, rows):
            small, halves = np.empty(numbers.shape, np.uint8), np.empty(numbers.shape, np.uint16)
            for a, b in dict.fromkeys(places):
                both = sorted({a, b})
                ranks, count = _short(numbers[both])
                if count <= 1 << 8:
                    small[both], kind[both] = ranks, agree.BYTES
                elif count <= 1 << 16:
                    halves[both], kind[both] = ranks, agree.HALVES
        known = np.repeat(full(len(space.bits)), rows, axis=0)
        lifts = self._lifts(operands, rows)
        return Compared(numbers, halves, small, kind, tests, known, lifts, np.array([space.nulls == "equal"]))

    def arranged(self, codes: Codes) -> Numbers:
        """Sorts by the columns that most comparisons use, among these by those of few values first. O(rows x columns),
        and sorting."""
        uses = np.bincount([side for c in self.space.comparisons for side in (c.left, c.right)], minlength=len(codes))
        values = [len(np.unique(column)) for column in codes]
        first = sorted(range(len(codes)), key=lambda i: (-uses[i], values[i]))
        return np.lexsort([codes[i] for i in reversed(first)]) if first else np.arange(codes.shape[1])

    def _lifts(self, operands: list[tuple[Codes, Codes]], rows: int) -> Masks:
        """[side, row]: the bits that a null sets, as the first and as the second row of a pair; empty without nulls."""
        bits = np.zeros((2, rows, len(self.space.bits)), np.bool_)
        for place, (i, say) in enumerate(self.space.bits):
            if self.space.nulls != "equal" or say in (LESS, GREATER):
                for side, codes in enumerate(operands[i]):
                    bits[side, :, place] = codes == NULL
        return np.stack([pack(side) for side in bits]) if bits.any() else np.zeros((2, 0, self.width), np.uint64)

    def lacking(self, budget: Budget | None = None) -> tuple[Masks, Numbers]:
        """The sets of atoms that pairs lack, in both orientations, and how many ordered pairs lack each."""
        clues, counts = self.sets, self.counts
        both = np.concatenate([clues, self.space.mirrored(clues, budget)])
        lacks, numbers = numbered(self.space.lacks(both, budget), budget)
        return lacks, sums_by_number(numbers, np.concatenate([counts, counts]), len(lacks), budget)

    def settled(self, tally: Tally, budget: Budget | None = None) -> Tally:
        """Turns each pair to the smaller of its two clues, and merges equal clues."""
        sets, pairs = np.empty_like(tally.sets), np.empty_like(tally.pairs)
        for start, stop in spans(len(tally), AT_ONCE, budget):
            clues, ends = tally.sets[start:stop], tally.pairs[start:stop]
            mirror = self.space.mirrored(clues)
            differ = clues != mirror
            first, rows = differ.argmax(axis=1), np.arange(len(mirror))
            turn = differ.any(axis=1) & (mirror[rows, first] < clues[rows, first])
            sets[start:stop] = np.where(turn[:, None], mirror, clues)
            pairs[start:stop] = np.where(turn[:, None], ends[:, ::-1], ends)
        return Tally.summed(sets, tally.counts, pairs, budget) if len(tally) else tally


def _short(codes: Codes) -> tuple[Codes, int]:
    """Numbers from 0 on in the order of the codes, and their upper bound. Codes in a small range give their distance
    from the least one; others are sorted."""
    null = codes == NULL
    low, high = int(codes.min(initial=1 << 62, where=~null)), int(codes.max(initial=-(1 << 62), where=~null))
    if high - low < (1 << 16) - 1:
        return np.where(null, 0, codes - low + 1), max(0, high - low + 2)
    values, ranks = np.unique(codes, return_inverse=True)
    return ranks.reshape(codes.shape), len(values)


def expected_clues(space: PredicateSpace, codes: Codes, budget: Budget | None = None) -> float:
    """An estimate of the number of distinct clues, extrapolated from a sample of rows and half of it."""
    rows = codes.shape[1]
    if rows <= _SAMPLED_ROWS:
        return 0
    sample = codes[:, np.linspace(0, rows - 1, _SAMPLED_ROWS).astype(np.int64)]
    few, more = (
        len(Evidence(space).pairs(np.arange(n), np.ascontiguousarray(sample[:, :: _SAMPLED_ROWS // n]), budget=budget))
        for n in (_SAMPLED_ROWS // 2, _SAMPLED_ROWS)
    )
    return float(min(more * (more / few) ** np.log2(rows / _SAMPLED_ROWS), rows * rows / 2))
