"""A multiset of the sets of pairs of rows, under inserts and deletes.

The set of a pair is its agree-set (`fd/agree_sets`) or its clue (`dc/evidence`). A change adds the pairs of inserted
rows and subtracts those of deleted rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.arrays import Array, Arrays
from holdfast.discovery.budget import Budget, spans
from holdfast.discovery.pair_tiles import Compared, agree_tile, blocks
from holdfast.discovery.slices import AT_ONCE, numbered, sums_by_number
from holdfast.executors.executor import Executor
from holdfast.kernels.sets import enter_sets
from holdfast.rules.masks import Masks, Numbers
from holdfast.table.dictionary import Codes
from holdfast.table.keys import table_for
from holdfast.table.row_change import RowChange

Ids = Numbers
_NO_IDS = np.zeros(0, np.int64)
FEW_PAIRS = 20_000_000  # too few to pay for a round trip to the executor
_FIRST_PAIRS = 1 << 18  # of the first tile, which estimates the cost of a pair
_SLICE_SECONDS = 0.25  # of a tile under a time budget, about
_PAIR_SECONDS, _SET_SECONDS = 5e-9, 5e-7  # for a pair, and for a set that no earlier pair had
_TILES = 8  # tiles on an executor between budget checks


@dataclass(frozen=True)
class Tally:
    """Distinct sets, how many pairs have each, and the row ids of one such pair (-1: not known)."""

    sets: Masks
    counts: Numbers
    pairs: Numbers

    def __len__(self) -> int:
        return len(self.sets)

    @classmethod
    def nothing(cls, width: int) -> Tally:
        return cls(np.zeros((0, width), np.uint64), np.zeros(0, np.int64), np.zeros((0, 2), np.int64))

    @classmethod
    def total(cls, parts: Sequence[Tally], width: int, budget: Budget | None = None) -> Tally:
        """The sum of several tallies. O(entries), expected."""
        parts = [part for part in parts if len(part)]
        if len(parts) < 2:
            return parts[0] if parts else cls.nothing(width)
        sets, counts, pairs = ([getattr(part, name) for part in parts] for name in ("sets", "counts", "pairs"))
        return cls.summed(np.concatenate(sets), np.concatenate(counts), np.concatenate(pairs), budget)

    @classmethod
    def summed(cls, sets: Masks, counts: Numbers, pairs: Numbers, budget: Budget | None = None) -> Tally:
        """The tally of entries that may repeat a set. O(entries), expected."""
        distinct, numbers = numbered(sets, budget)
        witnesses = np.empty((len(distinct), 2), np.int64)
        witnesses[numbers] = pairs
        return cls(distinct, sums_by_number(numbers, counts, len(distinct), budget), witnesses)

    def __sub__(self, other: Tally) -> Tally:
        """The difference, without zero counts. The pair of an entry is from `self` if its count is positive, else from
        `other`."""
        if not len(self):
            return Tally(other.sets, -other.counts, other.pairs)
        sets, numbers = numbered(np.concatenate([self.sets, other.sets]))
        counts, pairs = np.zeros(len(sets), np.int64), np.zeros((len(sets), 2), np.int64)
        kept, subtracted = numbers[: len(self)], numbers[len(self) :]
        counts[kept] = self.counts
        counts[subtracted] -= other.counts
        pairs[kept] = self.pairs
        removed = counts[subtracted] < 0
        pairs[subtracted[removed]] = other.pairs[removed]
        changed = counts != 0
        return Tally(sets[changed], counts[changed], pairs[changed])

    def where(self, chosen: Array) -> Tally:
        return Tally(self.sets[chosen], self.counts[chosen], self.pairs[chosen])

    @classmethod
    def without_pairs(cls, arrays: Arrays) -> Tally:
        """A tally of sets and counts, whose pairs are not known."""
        return cls.from_arrays({**arrays, "pairs": np.full((len(arrays["sets"]), 2), -1)})

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Tally:
        sets, counts, pairs = (np.asarray(arrays[name]) for name in ("sets", "counts", "pairs"))
        return cls(np.asarray(sets, np.uint64), np.asarray(counts, np.int64), np.asarray(pairs, np.int64))


def sampled_neighbours(order: Numbers, most: int) -> Numbers:
    """About `most` pairs of neighbours in an order of rows, evenly spaced."""
    pairs = np.stack([order[:-1], order[1:]], axis=1)
    return pairs[:: max(1, len(pairs) // most)]


class PairSets:
    """The multiset. Subclasses say what the set of a pair is. Entries whose count is zero are dropped once they are
    half of all."""

    executor: Executor
    few_pairs: int
    pairs_per_tile: int
    two_sided = False  # whether an entry is two sets: the tests that the pair passes, and those that it fails

    def __post_init__(self) -> None:
        self.generation = 0  # grows when entries are renumbered
        self._clear(16)

    def _clear(self, room: int) -> None:
        self._sets = np.zeros((room, self.width), np.uint64)
        self._counts = np.zeros(room, np.int64)
        self._table = table_for(room)
        self._used = self._merged = self._dead = 0

    @property
    def width(self) -> int:
        """Words of an entry."""
        raise NotImplementedError

    def compared(self, codes: Codes, pairs: int) -> Compared:
        """The rows of codes[column, row] in the form that kernels compare; `pairs`: how many pairs they compare."""
        raise NotImplementedError

    def arranged(self, codes: Codes) -> Numbers:
        """An order of the rows that puts similar rows next to each other, so that a tile has fewer distinct sets."""
        return np.arange(codes.shape[1])

    def settled(self, tally: Tally, budget: Budget | None = None) -> Tally:
        """A tally in the form in which it is kept."""
        return tally

    def __len__(self) -> int:
        return self._used - self._dead

    @property
    def _live(self) -> Numbers:
        return np.flatnonzero(self._counts[: self._used])

    @property
    def sets(self) -> Masks:
        """The entries that at least one pair has."""
        return self._sets[self._live]

    @property
    def counts(self) -> Numbers:
        """How many unordered pairs have each entry of `sets`."""
        return self._counts[self._live]

    @property
    def all_sets(self) -> Masks:
        """The entries by number, including those that no pair has any more."""
        return self._sets[: self._used]

    @property
    def all_counts(self) -> Numbers:
        return self._counts[: self._used]

    def delta(self, change: RowChange, budget: Budget | None = None) -> Tally:
        """The sets of pairs that a change adds, minus those that it removes: pairs of a changed and a kept row, and
        pairs of changed rows (Alg. 1 and 2), in tiles on the executor. Counts all pairs anew if these are fewer.
        O(pairs x columns)."""
        kept, inserted = (change.kept, change.kept_codes), (change.added, change.added_codes)
        after = len(change.kept) + len(change.added)
        if len(change.removed) and change.pairs > max(after * after // 2, self.few_pairs):
            before = Tally(self.sets, self.counts, np.full((len(self), 2), -1))
            ids, codes = (np.concatenate([a, b], axis=-1) for a, b in zip(kept, inserted, strict=True))
            return self.pairs(ids, codes, budget=budget) - before
        added = self.pairs(*inserted, *kept, budget=budget)
        removed = self.pairs(change.removed, change.removed_codes, *kept, budget=budget)
        return added - removed if len(removed) else added

    def pairs(
        self,
        ids: Ids,
        codes: Codes,
        rest: Ids = _NO_IDS,
        rest_codes: Codes | None = None,
        *,
        budget: Budget | None = None,
    ) -> Tally:
        """The tally of the pairs of some rows with each other and with the `rest`. Without a rest and with many pairs,
        the pairs of the tally are not recorded, which would slow the comparison down."""
        lead = len(ids)
        if not lead:
            return Tally.nothing(self.width)
        if len(rest) and rest_codes is not None:
            ids, codes = np.concatenate([ids, rest]), np.concatenate([codes, rest_codes], axis=1)
        elif lead * lead > self.few_pairs:
            order = self.arranged(codes)
            ids, codes = ids[order], codes[:, order]
        pairs = lead * len(ids)
        rows = self.compared(codes, pairs)
        shared = {"flags": np.array([self.two_sided, len(rest) > 0 or pairs < self.few_pairs])} | vars(rows)
        if budget is not None and not (self.executor.elsewhere and pairs >= self.few_pairs):
            answers = self._in_slices(lead, len(ids), shared, pairs < self.few_pairs, budget)
        elif pairs < self.few_pairs:
            answers = [agree_tile(tile.arrays, shared) for tile in blocks(lead, len(ids), self.pairs_per_tile)]
        else:
            answers = self.executor.map(agree_tile, blocks(lead, len(ids), self.pairs_per_tile), shared)
        parts = [Tally.from_arrays(answer) for answer in answers]
        total = self.settled(Tally.total(parts, self.width, budget), budget)
        return Tally(total.sets, total.counts, ids[total.pairs])

    def _in_slices(self, lead: int, rows: int, shared: Arrays, here: bool, budget: Budget) -> list[Arrays]:
        """The tiles, with budget checks in between. A first tile estimates how many sets there are and so what a pair
        costs. Tiles depend on the data only, never on the clock, so the result is reproducible."""
        first = min(lead, max(1, _FIRST_PAIRS // max(1, rows)))
        answers = [agree_tile({"span": np.array([0, first, 0, rows], np.int64)}, shared)]
        sets_per_pair = len(answers[0]["sets"]) / max(1, first * (rows - first) + first * (first - 1) // 2)
        seconds = _PAIR_SECONDS + _SET_SECONDS * sets_per_pair
        tiles = blocks(lead, rows, max(_FIRST_PAIRS, min(self.pairs_per_tile, int(_SLICE_SECONDS / seconds))), first)
        at_once, total = 1 if here else _TILES, sum(tile.cost for tile in tiles)
        done = 0.0
        for start, stop in spans(len(tiles), at_once, budget):
            batch = tiles[start:stop]
            answers += (
                [agree_tile(t.arrays, shared) for t in batch] if here else self.executor.map(agree_tile, batch, shared)
            )
            done += sum(tile.cost for tile in batch)
            budget.report("comparing rows", done / total)
        return answers

    def merge(self, delta: Tally, budget: Budget | None = None) -> tuple[Tally, Tally]:
        """Adds a delta. Returns its entries that no pair had before, and those that no pair has any more. O(entries of
        the delta), amortised."""
        self._reserve(len(delta))
        numbers = np.empty(len(delta), np.int64)
        sets = np.ascontiguousarray(delta.sets)
        for first, stop in spans(len(sets), AT_ONCE, budget):
            self._used = enter_sets(self._table, self._sets, self._used, sets[first:stop], numbers[first:stop])
        before = self._counts[numbers]
        after = before + delta.counts
        assert (after >= 0).all(), "a pair was subtracted that had not been added"
        self._counts[numbers] = after
        self._dead += int((after == 0).sum()) - int(((before == 0) & (numbers < self._merged)).sum())
        self._merged = self._used
        if self._dead > self._used // 2 + 16:
            self.load(self.to_arrays())
        return delta.where(before == 0), delta.where(after == 0)

    def _reserve(self, more: int) -> None:
        if self._used + more > len(self._counts):
            self._load(self._sets[: self._used], self._counts[: self._used], more)

    def _load(self, sets: Masks, counts: Numbers, more: int = 0) -> None:
        self._clear(max(16, (len(sets) + more) * 3 // 2))
        self._used = enter_sets(self._table, self._sets, 0, np.ascontiguousarray(sets), np.empty(len(sets), np.int64))
        self._counts[: self._used] = counts
        self._merged, self._dead = self._used, int((counts == 0).sum())

    def to_arrays(self) -> dict[str, Array]:
        return {"sets": self.sets, "counts": self.counts}

    def load(self, arrays: Arrays) -> None:
        """Replaces all entries."""
        self.generation += 1
        self._load(np.asarray(arrays["sets"]).astype(np.uint64), np.asarray(arrays["counts"]).astype(np.int64))
