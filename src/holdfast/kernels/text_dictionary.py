"""Strings to codes: an open-addressing table over an append-only byte store.

A slot is one 64-bit word: the upper 32 bits of the string's hash above its code + 1; zero is free. The place of a
slot are the uppermost bits of the hash: a larger table is filled from the slots alone, from front to back.
"""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import inlined, kernel, part
from holdfast.kernels.hashing import hash_bytes
from holdfast.kernels.sets import ones

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_BLOCK = 64


@part
def same_bytes(left, left_start, right, right_start, length):
    """Whether two stretches of bytes are equal. O(length)."""
    for i in range(length):
        if left[left_start + i] != right[right_start + i]:
            return False
    return True


@part
def shift_of(slots):
    """By how much a hash is shifted to be a place."""
    return np.uint64(64) - np.uint64(ones(np.uint64(slots.shape[0] - 1)))


@inlined
def free_from(slots, at):
    """The first free slot from a place on. O(1), expected."""
    mask = np.uint64(slots.shape[0] - 1)
    while slots[at] != _ZERO:
        at = (at + _ONE) & mask
    return at


@part
def look_ahead(data, offsets, first, stop, slots, ends, stored, hashes, met):
    """Hashes a block of strings and touches what they will read, so that memory serves these reads together. Returns
    what it read: store it, or the compiler drops the reads. O(bytes)."""
    shift = shift_of(slots)
    for i in range(first, stop):
        hashes[i - first] = hash_bytes(data, offsets[i], offsets[i + 1])
    for i in range(stop - first):
        met[i] = slots[hashes[i] >> shift]
    for i in range(stop - first):
        code = np.int64(met[i] & _LOW) - 1
        met[i] = np.uint64(min(ends[code - 1], stored.shape[0] - 1)) if code > 0 else _ZERO
    seen = np.int64(0)
    for i in range(stop - first):
        seen += stored[met[i]]
    return seen


@kernel
def encode_strings(data, offsets, valid, null, slots, stored, ends, size, out):
    """Codes of the strings data[offsets[i]:offsets[i+1]]; unknown ones are appended to stored/ends.

    `valid[i]` tells strings from nulls (an empty `valid`: all are strings). Stops early, before the string
    that would overfill the table or the store, and returns (strings done, dictionary size); the caller grows
    and calls again with the rest. O(bytes) expected.
    """
    mask, shift = np.uint64(slots.shape[0] - 1), shift_of(slots)
    limit = slots.shape[0] // 2
    hashes, met = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint64)
    for i in range(out.shape[0]):
        if i % _BLOCK == 0:
            out[i] = look_ahead(
                data, offsets, i, min(i + _BLOCK, out.shape[0]), slots, ends, stored, hashes, met
            )  # fmt: skip
        if valid.shape[0] > 0 and not valid[i]:
            out[i] = null
            continue
        start, stop = offsets[i], offsets[i + 1]
        length = stop - start
        value = hashes[i % _BLOCK]
        tag = value & _HIGH
        at = value >> shift
        while True:
            slot = slots[at]
            if slot == _ZERO:
                begin = ends[size - 1] if size > 0 else 0
                if size >= limit or size >= ends.shape[0] or begin + length > stored.shape[0]:
                    return i, size
                for j in range(length):
                    stored[begin + j] = data[start + j]
                ends[size] = begin + length
                slots[at] = tag | np.uint64(size + 1)
                out[i] = size
                size += 1
                break
            if slot & _HIGH == tag:
                code = np.int64(slot & _LOW) - 1
                begin = ends[code - 1] if code > 0 else 0
                if ends[code] - begin == length and same_bytes(stored, begin, data, start, length):
                    out[i] = code
                    break
            at = (at + _ONE) & mask
    return out.shape[0], size


@kernel
def rebuild_slots(slots, stored, ends, size):
    """Fills zeroed slots with the first `size` strings of the store. O(bytes)."""
    shift, begin = shift_of(slots), np.int64(0)
    for code in range(size):
        value = hash_bytes(stored, begin, ends[code])
        slots[free_from(slots, value >> shift)] = (value & _HIGH) | np.uint64(code + 1)
        begin = ends[code]


@kernel
def move_slots(slots, larger):
    """Fills a larger table, zeroed, with the slots of another. O(slots), and near to one another."""
    shift = shift_of(larger)
    for i in range(slots.shape[0]):
        if slots[i] != _ZERO:
            larger[free_from(larger, slots[i] >> shift)] = slots[i]
