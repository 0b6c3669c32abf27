"""The generator of the attribute clustering of a database (incremental S-INDD, sections 4 and 5), in memory.

For each value the attributes that have it and how often; for each cluster, a set of attributes, the number of values
that exactly these attributes have. A change merges the cells that come and extracts those that go; an update touches
only the cells that it changes. Flat arrays: about 26 bytes for a value that one attribute has, 27 more for each of
several (value, attribute) pairs. With only inserts (the paper's variant of that name) nothing is counted: 22 bytes a
value, however many attributes have it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from holdfast.discovery.ind.cells import MAX_ATTRIBUTES, Cells, Gains, Moves, Values
from holdfast.kernels.generator import (
    AT,
    CLUSTERS,
    DONE,
    FREE,
    MORE_PAIRS,
    MORE_VALUES,
    MOVES,
    ONLY_INSERTS,
    PAIRS,
    VALUES,
    Clusters,
    GeneratorValues,
    PairCounts,
    are_known,
    change_cells,
    enter_pairs,
    enter_values,
    list_cells,
)
from holdfast.kernels.handle import Handle
from holdfast.kernels.sets import enter_sets
from holdfast.rules.masks import Masks, Numbers, has, unpack, words_for
from holdfast.table.keys import table_for

_LEAST = 64
_SPARSE = 1.4  # places of the table for a value, at least
_AT_ONCE = 1 << 19  # values that are listed
_MANY_DEAD = 1 << 16  # values, from which on those that nobody has are forgotten once they are half


class Generator:
    """Values, their clusters, and how many values each cluster has.

    >>> generator = Generator(attributes=2)
    >>> _ = generator.change(Cells.made([5, 6, 5], [0, 0, 0], [0, 0, 1], [1, 1, 1]))
    >>> sorted(generator.clusters().items())
    [((0,), 1), ((0, 1), 1)]
    """

    def __init__(self, attributes: int, *, only_inserts: bool = False) -> None:
        assert attributes < MAX_ATTRIBUTES
        self.attributes, self.only_inserts = attributes, only_inserts
        self._values = table_for(_LEAST)
        self.numbers, self.spaces = np.zeros(_LEAST, np.int64), np.zeros(_LEAST, np.int16)
        self.cluster_of = np.zeros(_LEAST, np.int32)
        self._counts = np.zeros(0 if only_inserts else _LEAST, np.int32)
        self._pair_keys, self._pair_counts = np.full(2 * _LEAST, FREE), np.zeros(2 * _LEAST, np.int32)
        self._cluster_table = table_for(_LEAST)
        self._masks, self._sizes = np.zeros((_LEAST, words_for(attributes)), np.uint64), np.zeros(_LEAST, np.int64)
        self._members = np.zeros(_LEAST, np.int64)
        self._state = np.zeros(7, np.int64)
        self._state[CLUSTERS] = 1  # the empty one, of values that nobody has any more
        self._state[ONLY_INSERTS] = only_inserts
        enter_sets(self._cluster_table, self._masks.copy(), 0, self.masks, np.empty(1, np.int64))
        self._renew_handle()

    @property
    def used(self) -> int:
        """Values that were ever there."""
        return int(self._state[VALUES])

    @property
    def masks(self) -> Masks:
        """The clusters, by number; the first is empty."""
        return self._masks[: self._state[CLUSTERS]]

    @property
    def members(self) -> Numbers:
        """How many values each cluster has."""
        return self._members[: self._state[CLUSTERS]]

    @property
    def nbytes(self) -> int:
        """Of the values and their counts; room that was never touched is no memory."""
        records = (self.numbers, self.spaces, self.cluster_of, self._counts)
        tables = (self._values, self._pair_keys, self._pair_counts)
        return sum(a[: self.used].nbytes for a in records) + sum(a.nbytes for a in tables)

    def clusters(self) -> dict[tuple[int, ...], int]:
        """The attribute clustering: {attributes: how many values}, for tests."""
        bits = unpack(self.masks, self.attributes)
        found = zip(bits, self.members.tolist(), strict=True)
        return {tuple(np.flatnonzero(row).tolist()): count for row, count in found if row.any() and count}

    def load(self, cells: Cells) -> Gains:
        """Merges cells that come; which clusters grew. O(cells), expected."""
        before = self.members.copy()
        self._run(cells, 0)
        gains = self.members.copy()
        gains[: len(before)] -= before
        grown = np.flatnonzero(gains)
        return Gains(self.masks[grown], gains[grown])

    def change(self, cells: Cells) -> Moves:
        """Merges and extracts cells; those that go come before those that come. O(cells), expected."""
        if self.used > _MANY_DEAD and 2 * self._dead > self.used:
            self._forget_dead()
        moved, came_from = self._run(cells, cells.size)
        values, first = np.unique(moved, return_index=True)
        before = came_from[first]
        after = self.cluster_of[values].astype(np.int64)
        stays = before == after
        if stays.any():
            values, before, after = values[~stays], before[~stays], after[~stays]
        return Moves(self._at(values), before, after, self.masks)

    def _run(self, cells: Cells, most: int) -> tuple[Numbers, Numbers]:
        """Values that moved, of so many at most, and the clusters they had; a value once for each time."""
        state = self._state
        state[AT] = state[MOVES] = 0
        moved, came_from = np.empty(most, np.int64), np.empty(most, np.int64)
        while True:
            wanted = self._handle.call(change_cells, *cells.sealed(), moved, came_from)
            if wanted == DONE:
                return moved[: state[MOVES]], came_from[: state[MOVES]]
            (self._more_values if wanted == MORE_VALUES else self._more_pairs if wanted == MORE_PAIRS else self._more)()
            self._renew_handle()

    def _renew_handle(self) -> None:
        """After an array was replaced."""
        values = GeneratorValues(self._values, self.numbers, self.spaces, self.cluster_of, self._counts)
        clusters = Clusters(self._cluster_table, self._masks, self._sizes, self._members)
        self._handle = Handle([*values, *PairCounts(self._pair_keys, self._pair_counts), *clusters, self._state])

    @property
    def _dead(self) -> int:
        """Values that nobody has any more. Values enter from the empty cluster, of which that many are missing."""
        return self.used + int(self._members[0])

    def _forget_dead(self) -> None:
        made = Generator(self.attributes, only_inserts=self.only_inserts)
        for cells in self.ranges():
            made.load(cells)
        self.__dict__.update(made.__dict__)

    def knows(self, cells: Cells) -> npt.NDArray[np.bool_]:
        """Which cells are of values that were ever there. O(cells), expected."""
        out = np.empty(cells.size, np.bool_)
        are_known(*cells.sealed().values, self._values, self.numbers, self.spaces, out)
        return out

    def ranges(self) -> Iterator[Cells]:
        """All cells, by the hash of the value, in some runs. O(values log values + cells)."""
        live = np.flatnonzero(self.cluster_of[: self.used])
        live = live[np.argsort(self._at(live).hashes())]
        for first in range(0, len(live), _AT_ONCE):
            yield self._listed(live[first : first + _AT_ONCE])

    def _listed(self, values: Numbers) -> Cells:
        out = Cells.empty(int(self._sizes[self.cluster_of[values]].sum()))
        self._handle.call(list_cells, values, self.only_inserts, out)
        return out.sealed()

    def lacking(self, left: int, right: int, most: int) -> Values:
        """The first values that one attribute has and the other has not. O(values)."""
        bad = has(self.masks, left) & ~has(self.masks, right)
        found = np.flatnonzero(bad[self.cluster_of[: self.used]])
        return self._at(found).first(most)

    def _at(self, values: Numbers) -> Values:
        """Values by number."""
        return Values(self.numbers[values], self.spaces[values])

    def __str__(self) -> str:
        return "values in memory"

    def _more_values(self) -> None:
        room = 2 * len(self.numbers)
        for name in ("numbers", "spaces", "cluster_of", *(() if self.only_inserts else ("_counts",))):
            setattr(self, name, _grown(getattr(self, name), room))
        if len(self._values) < _SPARSE * room:
            self._values = np.zeros(2 * len(self._values), np.int32)
            enter_values(self._values, self.numbers, self.spaces, self.used)

    def _more_pairs(self) -> None:
        live = int((self._pair_keys >= 0).sum())
        room = 1 << max(7, (3 * live).bit_length())
        keys, counts = np.full(room, FREE), np.zeros(room, np.int32)
        self._state[PAIRS] = enter_pairs(self._pair_keys, self._pair_counts, keys, counts)
        self._pair_keys, self._pair_counts = keys, counts

    def _more(self) -> None:
        """More room for clusters."""
        room = 2 * len(self._masks)
        for name in ("_masks", "_sizes", "_members"):
            setattr(self, name, _grown(getattr(self, name), room))
        table, numbers = table_for(room), np.empty(self._state[CLUSTERS], np.int64)
        enter_sets(table, self._masks.copy(), 0, self.masks, numbers)
        self._cluster_table = table


def _grown(array: npt.NDArray[np.generic], room: int) -> npt.NDArray[np.generic]:
    made = np.zeros((room, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    return made
