"""Cells, the values of attributes with signed counts; and moves of values between clusters of attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Arrays
from holdfast.kernels.runs import hash_values, merge_runs, sum_cells, value_masks
from holdfast.rules.masks import Masks, Numbers, has, none, numbered, words_for
from holdfast.table.dictionary import Codes
from holdfast.table.identity import Spaces

Places = npt.NDArray[np.int64]
_TYPES = (np.int64, np.int16, np.uint16, np.int32)  # of the arrays of a run: 16 bytes for a cell
MAX_ATTRIBUTES = 1 << 16


class Cells(NamedTuple):
    """Values of attributes: each as (number, space), with its attribute and a count; negative counts are deletions.

    A *run* is sorted by the hash of the value, has each (value, attribute) once, and is read-only.
    """

    numbers: Codes
    spaces: Spaces
    attributes: npt.NDArray[np.uint16]
    amounts: npt.NDArray[np.int32]

    @classmethod
    def of(
        cls, numbers: npt.ArrayLike, spaces: npt.ArrayLike, attributes: npt.ArrayLike, amounts: npt.ArrayLike
    ) -> Cells:
        """Cells from arrays of any integer types."""
        arrays = (numbers, spaces, attributes, amounts)
        return cls._make(np.asarray(array).astype(kind) for array, kind in zip(arrays, _TYPES, strict=True))

    @classmethod
    def empty(cls, size: int = 0) -> Cells:
        return cls._make(np.empty(size, kind) for kind in _TYPES)

    @classmethod
    def joined(cls, parts: Sequence[Cells]) -> Cells:
        if len(parts) == 1:
            return parts[0]
        return cls._make(np.concatenate(arrays) for arrays in zip(cls.empty(), *parts, strict=True))

    @property
    def size(self) -> int:
        return len(self.numbers)

    def at(self, chosen: npt.NDArray[np.bool_] | Places | slice) -> Cells:
        return Cells._make(array[chosen] for array in self)

    @property
    def values(self) -> Values:
        return Values(self.numbers, self.spaces)

    def summed(self) -> Cells:
        """The cells as a run. O(n log n)."""
        hashes = self.values.hashes()
        order = np.lexsort((self.attributes, hashes))
        if self._collides(order, hashes):
            order = np.lexsort((self.attributes, self.numbers, hashes))
        out = Cells.empty(self.size)
        return out.at(slice(0, sum_cells(order, self.sealed(), out))).sealed()

    def _collides(self, order: Places, hashes: npt.NDArray[np.uint64]) -> bool:
        """Whether different values have the same hash."""
        sorted_hashes, numbers, spaces = hashes[order], self.numbers[order], self.spaces[order]
        same = sorted_hashes[1:] == sorted_hashes[:-1]
        return bool((same & ((numbers[1:] != numbers[:-1]) | (spaces[1:] != spaces[:-1]))).any())

    def sealed(self) -> Cells:
        """Read-only views. Arrays of mapped files are read-only too, so kernels are compiled for one type only."""
        return Cells._make(_sealed(array) for array in self)

    def to_arrays(self) -> Arrays:
        return self._asdict()

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Cells:
        """A run from the arrays of a file; without arrays, an empty run."""
        return (cls._make(arrays[name] for name in cls._fields) if arrays else cls.empty()).sealed()

    def clusters(self, attributes: int) -> tuple[Masks, Places]:
        """Of a run: the attributes of each value that has any, and the position of its first cell. O(n)."""
        masks, firsts = np.empty((self.size, words_for(attributes)), np.uint64), np.empty(self.size, np.int64)
        used = value_masks(*self.sealed(), masks, firsts)
        return masks[:used], firsts[:used]

    def lacking(self, left: int, right: int, attributes: int) -> Values:
        """Of a run: the values that `left` has and `right` lacks. O(n)."""
        masks, firsts = self.clusters(attributes)
        return self.values.at(firsts[has(masks, left) & ~has(masks, right)])


def _sealed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def merged(runs: Iterable[Cells]) -> Cells:
    """Several runs as one, the smallest first. O(cells x log runs)."""
    rest = sorted(runs, key=lambda run: -run.size)
    while len(rest) > 1:
        a, b = rest.pop(), rest.pop()
        out = Cells.empty(a.size + b.size)
        both = out.at(slice(0, merge_runs(a, b, out))).sealed()
        place = next((i for i, run in enumerate(rest) if run.size < both.size), len(rest))
        rest.insert(place, both)
    return rest[0] if rest else Cells.from_arrays({})


class Values(NamedTuple):
    """Values of a database, as numbers and spaces."""

    numbers: Codes
    spaces: Spaces

    def at(self, chosen: npt.NDArray[np.bool_] | Places) -> Values:
        return Values(self.numbers[chosen], self.spaces[chosen])

    def hashes(self) -> npt.NDArray[np.uint64]:
        out = np.empty(len(self.numbers), np.uint64)
        hash_values(_sealed(self.numbers), _sealed(self.spaces), out)
        return out

    def first(self, most: int) -> Values:
        """The first values by space, then by number: small numbers, early dates, texts in order of arrival. O(n)."""
        parts = [self.at(np.zeros(0, np.int64))]
        for space in np.unique(self.spaces):
            numbers = self.numbers[self.spaces == space]
            numbers = np.sort(np.partition(numbers, most)[:most] if len(numbers) > most else numbers)
            parts.append(Values(numbers, np.full(len(numbers), space, np.int16)))
        return Values(*(np.concatenate(arrays)[:most] for arrays in zip(*parts, strict=True)))

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Values:
        return cls(np.asarray(arrays["numbers"], np.int64), np.asarray(arrays["spaces"], np.int16))

    def distinct(self) -> Values:
        """Each value once. O(n log n)."""
        order = np.lexsort(self[::-1])
        ordered = self.at(order)
        numbers, spaces = ordered
        new = np.ones(len(order), np.bool_)
        new[1:] = (numbers[1:] != numbers[:-1]) | (spaces[1:] != spaces[:-1])
        return ordered.at(new)

    @classmethod
    def joined(cls, parts: Sequence[Values]) -> Values:
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class Gains(NamedTuple):
    """By how many values each cluster grew or, negative, shrank."""

    masks: Masks
    counts: Numbers


class Moves(NamedTuple):
    """Values that changed their cluster; `before` and `after` are positions in `masks`."""

    values: Values
    before: Numbers
    after: Numbers
    masks: Masks

    @classmethod
    def joined(cls, parts: Sequence[Moves], attributes: int) -> Moves:
        """The moves of disjoint parts of the values."""
        nothing = np.zeros(0, np.int64)
        parts = [cls(Cells.empty().values, nothing, nothing, none(attributes)), *parts]
        firsts = np.cumsum([0, *(len(part.masks) for part in parts)])
        before, after = (
            np.concatenate([side + first for side, first in zip(sides, firsts, strict=False)])
            for sides in ([p.before for p in parts], [p.after for p in parts])
        )
        masks, numbers = numbered(np.concatenate([p.masks for p in parts]))
        return cls(Values.joined([p.values for p in parts]), numbers[before], numbers[after], masks)

    def gains(self) -> Gains:
        size = len(self.masks)
        return Gains(self.masks, np.bincount(self.after, minlength=size) - np.bincount(self.before, minlength=size))
