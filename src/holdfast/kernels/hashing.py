"""Hashes that never change: durable buckets and tables of every release rely on them.

The mixer is the finaliser of SplitMix64 (public domain); it is a bijection of 64-bit words.
"""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import part

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)
_BYTES = (
    np.uint64(8),
    np.uint64(16),
    np.uint64(24),
    np.uint64(32),
    np.uint64(40),
    np.uint64(48),
    np.uint64(56),
)


@part
def mix(word):
    """One 64-bit word, well mixed."""
    word = (word ^ (word >> _S30)) * _FIRST
    word = (word ^ (word >> _S27)) * _SECOND
    return word ^ (word >> _S31)


@part
def hash_row(codes, columns, row):
    """The hash of the chosen columns of codes[:, row]. O(columns)."""
    value = _GOLDEN
    for i in range(columns.shape[0]):
        value = mix(value ^ np.uint64(codes[columns[i], row])) + _GOLDEN
    return value


@part
def hash_bytes(data, start, stop):
    """The hash of data[start:stop], eight bytes at a step. O(length)."""
    value = _GOLDEN ^ np.uint64(stop - start)
    at = start
    while at + 8 <= stop:
        b0, b1, b2, b3, b4, b5, b6 = _BYTES
        word = (
            np.uint64(data[at])
            | (np.uint64(data[at + 1]) << b0)
            | (np.uint64(data[at + 2]) << b1)
            | (np.uint64(data[at + 3]) << b2)
            | (np.uint64(data[at + 4]) << b3)
            | (np.uint64(data[at + 5]) << b4)
            | (np.uint64(data[at + 6]) << b5)
            | (np.uint64(data[at + 7]) << b6)
        )
        value = mix(value ^ word)
        at += 8
    if at < stop:
        word = np.uint64(0)
        shift = np.uint64(0)
        while at < stop:
            word |= np.uint64(data[at]) << shift
            shift += np.uint64(8)
            at += 1
        value = mix(value ^ word)
    return value
