"""A multiset of what pairs of rows have in common, under inserts and deletes.

Agree-sets (`fd/agree_sets`) and evidence (`dc/evidence`) are such multisets. State adds: a change contributes the pairs
of inserted rows and subtracts those of deleted rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.arrays import Array, Arrays
from holdfast.discovery.budget import Budget, spans
from holdfast.discovery.pair_tiles import Compared, agree_tile, blocks
from holdfast.discovery.slices import AT_ONCE, added, numbered
from holdfast.executors.executor import Executor
from holdfast.kernels.sets import enter_sets
from holdfast.rules.masks import Masks, Numbers
from holdfast.table.dictionary import Codes
from holdfast.table.keys import table_for
from holdfast.table.row_change import RowChange

Ids = Numbers
_NOBODY = np.zeros(0, np.int64)
FEW_PAIRS = 20_000_000  # not worth sending elsewhere
_FIRST_PAIRS = 1 << 18
_SLICE_SECONDS = 0.25  # about, of a tile where time is limited
_PAIR_SECONDS, _SET_SECONDS = 5e-9, 5e-7  # of a pair, and of a set that no pair had before
_TILES = 8  # at a time on an executor


@dataclass(frozen=True)
class Tally:
    """Distinct sets, how many pairs have each, and one such pair by row ids."""

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
        """Entries of which several may be of one set. O(entries), expected."""
        distinct, numbers = numbered(sets, budget)
        total, one = added(numbers, counts, len(distinct), budget), np.empty((len(distinct), 2), np.int64)
        one[numbers] = pairs
        return cls(distinct, total, one)

    def __sub__(self, other: Tally) -> Tally:
        """What came without what went; the pair of an entry is one that came where more came, else one that went."""
        if not len(self):
            return Tally(other.sets, -other.counts, other.pairs)
        sets, numbers = numbered(np.concatenate([self.sets, other.sets]))
        counts, pairs = np.zeros(len(sets), np.int64), np.zeros((len(sets), 2), np.int64)
        mine, theirs = numbers[: len(self)], numbers[len(self) :]
        counts[mine] = self.counts
        counts[theirs] -= other.counts
        pairs[mine] = self.pairs
        went = counts[theirs] < 0
        pairs[theirs[went]] = other.pairs[went]
        changed = counts != 0
        return Tally(sets[changed], counts[changed], pairs[changed])

    def where(self, chosen: Array) -> Tally:
        return Tally(self.sets[chosen], self.counts[chosen], self.pairs[chosen])

    @classmethod
    def counted(cls, arrays: Arrays) -> Tally:
        """Sets and counts without pairs."""
        return cls.from_arrays({**arrays, "pairs": np.full((len(arrays["sets"]), 2), -1)})

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Tally:
        sets, counts, pairs = (np.asarray(arrays[name]) for name in ("sets", "counts", "pairs"))
        return cls(np.asarray(sets, np.uint64), np.asarray(counts, np.int64), np.asarray(pairs, np.int64))


def sampled_neighbours(order: Numbers, most: int) -> Numbers:
    """About `most` pairs of neighbours in an order of rows, evenly spread."""
    pairs = np.stack([order[:-1], order[1:]], axis=1)
    return pairs[:: max(1, len(pairs) // most)]


class PairSets:
    """A multiset of what pairs of rows have: a state that is added to. Sets whose count is zero are dropped when they
    are half. What a set says is left to subclasses."""

    executor: Executor
    few_pairs: int
    pairs_per_tile: int
    two_sided = False  # whether a set is followed by the tests that both rows know and do not pass

    def __post_init__(self) -> None:
        self.generation = 0  # of the numbers of the entries
        self._clear(16)

    def _clear(self, room: int) -> None:
        self._sets = np.zeros((room, self.width), np.uint64)
        self._counts = np.zeros(room, np.int64)
        self._table = table_for(room)
        self._used = self._known = self._dead = 0

    @property
    def width(self) -> int:
        """Words of an entry."""
        raise NotImplementedError

    def compared(self, codes: Codes, pairs: int) -> Compared:
        """The rows of codes[column, row] as the kernels compare them, for so many pairs."""
        raise NotImplementedError

    def arranged(self, codes: Codes) -> Numbers:
        """An order of many rows in which neighbours are much alike: then the pairs of a tile have fewer sets."""
        return np.arange(codes.shape[1])

    def settled(self, tally: Tally, budget: Budget | None = None) -> Tally:
        """What was counted, as it is kept."""
        return tally

    def __len__(self) -> int:
        return self._used - self._dead

    @property
    def _live(self) -> Numbers:
        return np.flatnonzero(self._counts[: self._used])

    @property
    def sets(self) -> Masks:
        """The entries that some pair has."""
        return self._sets[self._live]

    @property
    def counts(self) -> Numbers:
        """How many unordered pairs have each of them."""
        return self._counts[self._live]

    @property
    def all_sets(self) -> Masks:
        """The entries by number, those that no pair has any more among them."""
        return self._sets[: self._used]

    @property
    def all_counts(self) -> Numbers:
        return self._counts[: self._used]

    def delta(self, change: RowChange, budget: Budget | None = None) -> Tally:
        """What the pairs of change rows add and take: change x rows, and the pairs inside the change (Alg. 1 and 2), in
        tiles on the executor. Of many rows, where less stays than goes, from scratch. O(pairs x columns)."""
        stay, new = (change.kept, change.kept_codes), (change.added, change.added_codes)
        after = len(change.kept) + len(change.added)
        if len(change.removed) and change.pairs > max(after * after // 2, self.few_pairs):
            before = Tally(self.sets, self.counts, np.full((len(self), 2), -1))
            ids, codes = (np.concatenate([a, b], axis=-1) for a, b in zip(stay, new, strict=True))
            return self.pairs(ids, codes, budget=budget) - before
        came = self.pairs(*new, *stay, budget=budget)
        went = self.pairs(change.removed, change.removed_codes, *stay, budget=budget)
        return came - went if len(went) else came

    def pairs(
        self,
        ids: Ids,
        codes: Codes,
        rest: Ids = _NOBODY,
        rest_codes: Codes | None = None,
        *,
        budget: Budget | None = None,
    ) -> Tally:
        """The tally of the pairs of some rows among themselves and with the rest. Where all rows are compared, for
        many pairs, no pair is remembered: it is not worth a second look at each of them."""
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
        """The tiles, some at a time, with a look at the clock between them. The first rows tell how many sets there are
        and so how long a pair takes: that depends on the data only, and so does the answer."""
        first = min(lead, max(1, _FIRST_PAIRS // max(1, rows)))
        answers = [agree_tile({"span": np.array([0, first, 0, rows], np.int64)}, shared)]
        share = len(answers[0]["sets"]) / max(1, first * (rows - first) + first * (first - 1) // 2)
        seconds = _PAIR_SECONDS + _SET_SECONDS * share
        tiles = blocks(lead, rows, max(_FIRST_PAIRS, min(self.pairs_per_tile, int(_SLICE_SECONDS / seconds))), first)
        at_once, total = 1 if here else _TILES, sum(tile.cost for tile in tiles)
        done = 0.0
        for start, stop in spans(len(tiles), at_once, budget):
            some = tiles[start:stop]
            answers += (
                [agree_tile(t.arrays, shared) for t in some] if here else self.executor.map(agree_tile, some, shared)
            )
            done += sum(tile.cost for tile in some)
            budget.tell("comparing rows", done / total)
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
        assert (after >= 0).all(), "a pair was taken that was not there"
        self._counts[numbers] = after
        self._dead += int((after == 0).sum()) - int(((before == 0) & (numbers < self._known)).sum())
        self._known = self._used
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
        self._known, self._dead = self._used, int((counts == 0).sum())

    def to_arrays(self) -> dict[str, Array]:
        return {"sets": self.sets, "counts": self.counts}

    def load(self, arrays: Arrays) -> None:
        """Takes the place of what is there."""
        self.generation += 1
        self._load(np.asarray(arrays["sets"]).astype(np.uint64), np.asarray(arrays["counts"]).astype(np.int64))
