"""The generator of the attribute clustering of a database (incremental S-INDD, sections 4 and 5), in memory.

For each value the attributes that have it and how often; for each cluster, a set of attributes, the number of values
that exactly these attributes have. A change merges the cells that come and extracts those that go; an update touches
only the cells that it changes. Flat arrays: about 26 bytes for a value that one attribute has, 27 more for each of
several (value, attribute) pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.kernels.generator import (
    AT,
    CLUSTERS,
    DONE,
    FREE,
    MORE_PAIRS,
    MORE_VALUES,
    MOVES,
    PAIRS,
    VALUES,
    change_cells,
    enter_pairs,
    enter_values,
)
from holdfast.kernels.sets import enter_sets
from holdfast.rules.masks import Masks, Numbers, unpack, words_for
from holdfast.table.dictionary import Codes
from holdfast.table.identity import Spaces
from holdfast.table.keys import table_for

_LEAST = 64
_SPARSE = 1.4  # places of the table for a value, at least
MOST_ATTRIBUTES = 1 << 16


class Cells(NamedTuple):
    """Values of attributes: (number, space) of each, the attribute, and how many come (or, negative, go)."""

    numbers: Codes
    spaces: Spaces
    attributes: npt.NDArray[np.int32]
    amounts: Numbers

    @classmethod
    def joined(cls, parts: list[Cells]) -> Cells:
        if not parts:
            none = np.zeros(0, np.int64)
            return cls(none, none.astype(np.int16), none.astype(np.int32), none)
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class Moves(NamedTuple):
    """Values that changed their cluster, and the clusters they had and have."""

    values: Numbers
    before: Numbers
    after: Numbers


class Generator:
    """Values, their clusters, and how many values each cluster has.

    >>> generator = Generator(attributes=2)
    >>> one, two = np.zeros(3, np.int16), np.ones(3, np.int64)
    >>> _ = generator.change(Cells(np.array([5, 6, 5]), one, np.array([0, 0, 1], np.int32), two))
    >>> sorted(generator.clusters().items())
    [((0,), 1), ((0, 1), 1)]
    """

    def __init__(self, attributes: int) -> None:
        assert attributes < MOST_ATTRIBUTES
        self.attributes = attributes
        self._values = table_for(_LEAST)
        self.numbers, self.spaces = np.zeros(_LEAST, np.int64), np.zeros(_LEAST, np.int16)
        self.cluster_of, self._counts = np.zeros(_LEAST, np.int32), np.zeros(_LEAST, np.int32)
        self._pair_keys, self._pair_counts = np.full(2 * _LEAST, FREE), np.zeros(2 * _LEAST, np.int32)
        self._cluster_table = table_for(_LEAST)
        self._masks, self._sizes = np.zeros((_LEAST, words_for(attributes)), np.uint64), np.zeros(_LEAST, np.int64)
        self._members = np.zeros(_LEAST, np.int64)
        self._state = np.zeros(6, np.int64)
        self._state[CLUSTERS] = 1  # the empty one, of values that nobody has any more
        enter_sets(self._cluster_table, self._masks.copy(), 0, self.masks, np.empty(1, np.int64))

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
        """Of the values and their counts."""
        arrays = (self._values, self.numbers, self.spaces, self.cluster_of, self._counts)
        return sum(a.nbytes for a in (*arrays, self._pair_keys, self._pair_counts))

    def clusters(self) -> dict[tuple[int, ...], int]:
        """The attribute clustering: {attributes: how many values}, for tests."""
        bits = unpack(self.masks, self.attributes)
        found = zip(bits, self.members.tolist(), strict=True)
        return {tuple(np.flatnonzero(row).tolist()): count for row, count in found if row.any() and count}

    def change(self, cells: Cells, *, told: bool = True) -> Moves:
        """Merges and extracts cells; those that go come before those that come. Not `told`, the moves are left out.
        O(cells), expected."""
        state, most = self._state, len(cells.numbers) if told else 0
        state[AT] = state[MOVES] = 0
        moved, came_from = np.empty(most, np.int64), np.empty(most, np.int64)
        while True:
            wanted = change_cells(
                *cells,
                self._values, self.numbers, self.spaces, self.cluster_of, self._counts,
                self._pair_keys, self._pair_counts,
                self._cluster_table, self._masks, self._sizes, self._members,
                moved, came_from, state,
            )  # fmt: skip
            if wanted == DONE:
                break
            (self._more_values if wanted == MORE_VALUES else self._more_pairs if wanted == MORE_PAIRS else self._more)()
        values, first = np.unique(moved[: state[MOVES]], return_index=True)
        before = came_from[first]
        after = self.cluster_of[values].astype(np.int64)
        stays = before == after
        return Moves(values[~stays], before[~stays], after[~stays])

    def _more_values(self) -> None:
        room = len(self.numbers) * 3 // 2
        for name in ("numbers", "spaces", "cluster_of", "_counts"):
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
