"""Sets of small integers as bit masks: rows of 64-bit words, masks[set, word]."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Flags
from holdfast.kernels.sets import enter_sets
from holdfast.table.keys import table_for

Masks = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


def words_for(bits: int) -> int:
    """The number of 64-bit words of a mask."""
    return max(1, -(-bits // 64))


def none(bits: int) -> Masks:
    """An empty array of masks."""
    return np.zeros((0, words_for(bits)), np.uint64)


def mask_of(places: Iterable[int], bits: int) -> Masks:
    """The mask of a set of places, as one row.

    >>> mask_of([0, 65], 70).tolist()
    [[1, 2]]
    """
    mask = np.zeros((1, words_for(bits)), np.uint64)
    for place in places:
        mask[0, place // 64] |= np.uint64(1 << place % 64)
    return mask


def full(bits: int) -> Masks:
    """The mask with all bits set."""
    return mask_of(range(bits), bits)


def pack(bits: Flags) -> Masks:
    """Masks from booleans[set, place]."""
    packed = np.packbits(bits, axis=1, bitorder="little")
    padded = np.zeros((len(bits), 8 * words_for(bits.shape[1])), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


def unpack(masks: Masks, bits: int) -> Flags:
    """The inverse of `pack`."""
    flat = np.ascontiguousarray(masks).view(np.uint8)
    return np.unpackbits(flat, axis=1, bitorder="little", count=bits).view(np.bool_)


def has(masks: Masks, place: int) -> Flags:
    """Which masks contain a place."""
    return (masks[:, place // 64] >> np.uint64(place % 64) & np.uint64(1)).astype(bool)


def sizes(masks: Masks) -> Numbers:
    """The number of places in each mask."""
    return np.asarray(np.bitwise_count(masks).sum(axis=1, dtype=np.int64))


def numbered(masks: Masks) -> tuple[Masks, Numbers]:
    """The distinct masks in order of appearance, and for each mask its position among them. O(masks), expected."""
    distinct, numbers = np.empty_like(masks, order="C"), np.empty(len(masks), np.int64)
    used = enter_sets(table_for(len(masks)), distinct, 0, np.ascontiguousarray(masks), numbers)
    return distinct[:used], numbers


def distinct(masks: Masks) -> Masks:
    """The distinct masks in order of appearance."""
    return numbered(masks)[0]


def among(masks: Masks, others: Masks) -> Flags:
    """Which masks occur in `others`. O(masks), expected."""
    return numbered(np.concatenate([others, masks]))[1][len(others) :] < len(distinct(others))
