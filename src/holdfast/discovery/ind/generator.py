"""The generator of the attribute clustering of a database (incremental S-INDD, sections 4 and 5), in memory.

The generator has for each value the attributes that have it, and how often. A cluster is a set of attributes; its size
is the number of values that exactly these attributes have. A change merges added cells and extracts removed cells; an
update touches only the cells that it changes. Flat arrays: about 26 bytes for a value of one attribute, and 27 more for
each (value, attribute) of a value of several. The only-inserts variant of the paper needs no counts: 22 bytes a value,
however many attributes have it.
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

_LEAST = 64  # values, pairs and clusters for which there is room at first
_SPARSE = 1.4  # slots of the hash table for each value, at least
_AT_ONCE = 1 << 19  # values of a run that is listed
_MANY_DEAD = 1 << 16  # with more values, those without attributes are dropped once they are half


class Generator:
    """Values, their clusters, and the number of values of each cluster: a `ValueStore` in memory.

    >>> generator = Generator(attributes=2)
    >>> _ = generator.change(Cells.of([5, 6, 5], [0, 0, 0], [0, 0, 1], [1, 1, 1]))
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
        self._state[CLUSTERS] = 1  # the empty one, of values that no attribute has any more
        self._state[ONLY_INSERTS] = only_inserts
        enter_sets(self._cluster_table, self._masks.copy(), 0, self.masks, np.empty(1, np.int64))
        self._renew_handle()

    @property
    def used(self) -> int:
        """How many values were ever added."""
        return int(self._state[VALUES])

    @property
    def masks(self) -> Masks:
        """[cluster]: its attributes. The first cluster is empty."""
        return self._masks[: self._state[CLUSTERS]]

    @property
    def members(self) -> Numbers:
        """[cluster]: how many values it has."""
        return self._members[: self._state[CLUSTERS]]

    @property
    def nbytes(self) -> int:
        """Of the values and their counts. Untouched room does not count, since it takes no memory."""
        records = (self.numbers, self.spaces, self.cluster_of, self._counts)
        tables = (self._values, self._pair_keys, self._pair_counts)
        return sum(a[: self.used].nbytes for a in records) + sum(a.nbytes for a in tables)

    def clusters(self) -> dict[tuple[int, ...], int]:
        """The attribute clustering, {attributes: number of values}, for tests."""
        bits = unpack(self.masks, self.attributes)
        counted = zip(bits, self.members.tolist(), strict=True)
        return {tuple(np.flatnonzero(row).tolist()): count for row, count in counted if row.any() and count}

    def load(self, cells: Cells) -> Gains:
        """Adds cells. Returns which clusters grew. O(cells), expected."""
        before = self.members.copy()
        self._run(cells, 0)
        gains = self.members.copy()
        gains[: len(before)] -= before
        grown = np.flatnonzero(gains)
        return Gains(self.masks[grown], gains[grown])

    def change(self, cells: Cells) -> Moves:
        """Adds and removes cells; removed cells come first. O(cells), expected."""
        if self.used > _MANY_DEAD and 2 * self._dead > self.used:
            self._forget_dead()
        moved, came_from = self._run(cells, cells.size)
        values, first = np.unique(moved, return_index=True)
        before = came_from[first]
        after = self.cluster_of[values].astype(np.int64)
        unmoved = before == after
        if unmoved.any():
            values, before, after = values[~unmoved], before[~unmoved], after[~unmoved]
        return Moves(self._at(values), before, after, self.masks)

    def _run(self, cells: Cells, most: int) -> tuple[Numbers, Numbers]:
        """Changes cells. Returns up to `most` values that moved, once for each move, and the clusters they left."""
        state = self._state
        state[AT] = state[MOVES] = 0
        moved, came_from = np.empty(most, np.int64), np.empty(most, np.int64)
        while True:
            wanted = self._handle.call(change_cells, *cells.sealed(), moved, came_from)
            if wanted == DONE:
                return moved[: state[MOVES]], came_from[: state[MOVES]]
            make_room = {MORE_VALUES: self._more_values, MORE_PAIRS: self._more_pairs}.get(wanted, self._more_clusters)
            make_room()
            self._renew_handle()

    def _renew_handle(self) -> None:
        """After an array was replaced."""
        values = GeneratorValues(self._values, self.numbers, self.spaces, self.cluster_of, self._counts)
        clusters = Clusters(self._cluster_table, self._masks, self._sizes, self._members)
        self._handle = Handle([*values, *PairCounts(self._pair_keys, self._pair_counts), *clusters, self._state])

    @property
    def _dead(self) -> int:
        """How many values no attribute has any more. Values enter from the empty cluster, whose count goes below
        zero."""
        return self.used + int(self._members[0])

    def _forget_dead(self) -> None:
        """Drops values that no attribute has."""
        compact = Generator(self.attributes, only_inserts=self.only_inserts)
        for cells in self.ranges():
            compact.load(cells)
        self.__dict__.update(compact.__dict__)

    def knows(self, cells: Cells) -> npt.NDArray[np.bool_]:
        """Which cells have a value that was ever added. O(cells), expected."""
        out = np.empty(cells.size, np.bool_)
        are_known(*cells.sealed().values, self._values, self.numbers, self.spaces, out)
        return out

    def ranges(self) -> Iterator[Cells]:
        """All cells as consecutive runs, by the hash of the value. O(values log values + cells)."""
        live = np.flatnonzero(self.cluster_of[: self.used])
        live = live[np.argsort(self._at(live).hashes())]
        for first in range(0, len(live), _AT_ONCE):
            yield self._listed(live[first : first + _AT_ONCE])

    def _listed(self, values: Numbers) -> Cells:
        """The cells of values, by number."""
        out = Cells.empty(int(self._sizes[self.cluster_of[values]].sum()))
        self._handle.call(list_cells, values, self.only_inserts, out)
        return out.sealed()

    def lacking(self, left: int, right: int, most: int) -> Values:
        """The first values that `left` has and `right` lacks. O(values)."""
        lacks = has(self.masks, left) & ~has(self.masks, right)
        return self._at(np.flatnonzero(lacks[self.cluster_of[: self.used]])).first(most)

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

    def _more_clusters(self) -> None:
        room = 2 * len(self._masks)
        for name in ("_masks", "_sizes", "_members"):
            setattr(self, name, _grown(getattr(self, name), room))
        table, numbers = table_for(room), np.empty(self._state[CLUSTERS], np.int64)
        enter_sets(table, self._masks.copy(), 0, self.masks, numbers)
        self._cluster_table = table


def _grown(array: npt.NDArray[np.generic], room: int) -> npt.NDArray[np.generic]:
    larger = np.zeros((room, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
