"""Strings to codes: an open-addressing table over an append-only byte store.

A slot is one 64-bit word: the upper 32 bits of the string's hash above its code + 1; zero is free.
"""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import kernel, part
from holdfast.kernels.hashing import hash_bytes

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_BLOCK = 64


@part
def same_bytes(left, left_start, right, right_start, length):
    for i in range(length):
        if left[left_start + i] != right[right_start + i]:
            return False
    return True


@part
def look_ahead(data, offsets, first, stop, slots, ends, hashes):
    """Hashes a block of strings and touches what they will look at, so that the memory serves them together."""
    mask = np.uint64(slots.shape[0] - 1)
    for i in range(first, stop):
        hashes[i - first] = hash_bytes(data, offsets[i], offsets[i + 1])
    seen = np.uint64(0)
    for i in range(stop - first):
        seen ^= slots[hashes[i] & mask]
    for i in range(stop - first):
        slot = slots[hashes[i] & mask]
        if slot != _ZERO:
            seen ^= np.uint64(ends[np.int64(slot & _LOW) - 1])
    return seen


@kernel
def encode_strings(data, offsets, valid, null, slots, stored, ends, size, out):
    """Codes of the strings data[offsets[i]:offsets[i+1]]; unknown ones are appended to stored/ends.

    `valid[i]` tells strings from nulls (an empty `valid`: all are strings). Stops early, before the string
    that would overfill the table or the store, and returns (strings done, dictionary size); the caller grows
    and calls again with the rest. O(bytes) expected.
    """
    mask = np.uint64(slots.shape[0] - 1)
    limit = slots.shape[0] // 2
    hashes = np.empty(_BLOCK, np.uint64)
    for i in range(out.shape[0]):
        if i % _BLOCK == 0:
            look_ahead(data, offsets, i, min(i + _BLOCK, out.shape[0]), slots, ends, hashes)
        if valid.shape[0] > 0 and not valid[i]:
            out[i] = null
            continue
        start, stop = offsets[i], offsets[i + 1]
        length = stop - start
        value = hashes[i % _BLOCK]
        tag = value & _HIGH
        at = value & mask
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
    mask = np.uint64(slots.shape[0] - 1)
    begin = np.int64(0)
    for code in range(size):
        value = hash_bytes(stored, begin, ends[code])
        at = value & mask
        while slots[at] != _ZERO:
            at = (at + _ONE) & mask
        slots[at] = (value & _HIGH) | np.uint64(code + 1)
        begin = ends[code]
