"""Bitsets of any number of words, and a hash table of them: open addressing over sets[entry, word].

A table entry is the number of a set + 1; zero is free. Entries are never taken out: a set that counts nothing is dead
until the owner builds the table anew.
"""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import inlined, kernel, part
from holdfast.kernels.hashing import mix

ONE = np.uint64(1)
AHEAD = 64
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1, _M2, _M4 = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
_BYTES, _S1, _S2, _S4, _S56 = np.uint64(0x0101010101010101), np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


@part
def ones(word):
    """How many bits of a word are set."""
    word = word - ((word >> _S1) & _M1)
    word = (word & _M2) + ((word >> _S2) & _M2)
    word = (word + (word >> _S4)) & _M4
    return np.int64((word * _BYTES) >> _S56)


@part
def lowest(word):
    """The place of the lowest set bit of a word that has one."""
    return ones((word & (~word + ONE)) - ONE)


@part
def bit_of(place):
    """The word with the bit of a place set, that place being taken within its word."""
    return ONE << np.uint64(place & 63)


@part
def hash_set(sets, row):
    """The hash of sets[row]. Rows are given by number: a view of one would cost more than its hash."""
    value = GOLDEN
    for w in range(sets.shape[1]):
        value = mix(value ^ sets[row, w]) + GOLDEN
    return value


@part
def place_of(table, sets, wanted, row):
    """The place of wanted[row] in the table, or the free place where it belongs."""
    return place_from(table, sets, wanted, row, hash_set(wanted, row))


@part
def place_from(table, sets, wanted, row, value):
    """The same, from its hash."""
    mask = np.uint64(table.shape[0] - 1)
    at = value & mask
    while True:
        entry = np.int64(table[at])
        if entry == 0:
            return np.int64(at)
        same = True
        for w in range(wanted.shape[1]):
            if sets[entry - 1, w] != wanted[row, w]:
                same = False
                break
        if same:
            return np.int64(at)
        at = (at + ONE) & mask


@inlined
def members_of(sets, row, out):
    """out[:returned] = the places of the bits of sets[row], ascending. O(words + bits)."""
    count = 0
    for w in range(sets.shape[1]):
        rest = sets[row, w]
        while rest:
            out[count] = 64 * w + lowest(rest)
            rest &= rest - ONE
            count += 1
    return count


@part
def copy_set(sets, row, others, other):
    """sets[row] = others[other]. O(words)."""
    for w in range(sets.shape[1]):
        sets[row, w] = others[other, w]


@part
def look_ahead(table, sets, wanted, first, stop, hashes, entries):
    """Hashes the next sets and touches what they will read: first the places of the table, then the sets, so that
    memory serves these reads together. Returns what it read: store it, or the compiler drops the reads. O(sets)."""
    mask, seen = np.uint64(table.shape[0] - 1), np.uint64(0)
    for i in range(first, stop):
        hashes[i - first] = hash_set(wanted, i)
    for k in range(stop - first):
        entries[k] = table[hashes[k] & mask]
    for k in range(stop - first):
        if entries[k] > 0:
            seen ^= sets[entries[k] - 1, 0]
    return seen


@kernel
def enter_sets(table, sets, used, wanted, out):
    """out[i] = the number of wanted[i] among sets[:used]; new ones are appended. Returns how many sets there are then.
    `sets` must have room for all. O(1) each, expected."""
    hashes, entries = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.int32)
    for i in range(wanted.shape[0]):
        if i % AHEAD == 0:
            out[i] = look_ahead(table, sets, wanted, i, min(i + AHEAD, wanted.shape[0]), hashes, entries)
        at = place_from(table, sets, wanted, i, hashes[i % AHEAD])
        if table[at] == 0:
            copy_set(sets, used, wanted, i)
            used += 1
            table[at] = used
        out[i] = table[at] - 1
    return used


@kernel
def derive(sets, first, second, truth, out):
    """Bit b of out[i] = bit (x + 2 y) of truth[b], of the bits first[b] and second[b] of sets[i]; a place below zero is
    a bit that is not set. O(sets x bits)."""
    for i in range(sets.shape[0]):
        for w in range(out.shape[1]):
            word = np.uint64(0)
            for b in range(64 * w, min(64 * (w + 1), truth.shape[0])):
                x = y = np.uint64(0)
                if first[b] >= 0:
                    x = sets[i, first[b] >> 6] >> np.uint64(first[b] & 63) & ONE
                if second[b] >= 0:
                    y = sets[i, second[b] >> 6] >> np.uint64(second[b] & 63) & ONE
                word |= (truth[b] >> (x + y + y) & ONE) << np.uint64(b & 63)
            out[i, w] = word


@kernel
def antichain(sets, sizes, first, stop, kept, smaller, keep):
    """keep[:kept] = the numbers of the sets that contain no other, for sets[first:stop]; smaller sets come first.
    Returns (kept, how many of these are smaller than the last set), the start of the next call. Sets of one size are
    not compared. O(sets x smaller sets)."""
    for i in range(first, stop):
        if i and sizes[i] != sizes[i - 1]:
            smaller = kept
        alone = True
        for k in range(smaller):
            inside = True
            for w in range(sets.shape[1]):
                if sets[keep[k], w] & ~sets[i, w]:
                    inside = False
                    break
            if inside:
                alone = False
                break
        if alone:
            keep[kept] = i
            kept += 1
    return kept, smaller


@kernel
def refutations(sets, rights, first, stop, kept, keep, useful):
    """useful[i] = rights[i], the right sides that set i refutes, without those of its supersets, for sets[first:stop];
    larger sets come first. keep[:returned] are the numbers of the sets with any left, of which `kept` are from earlier
    calls. A set whose right sides all occur in larger ones adds nothing for smaller sets, so each set is compared with
    kept sets only. O(sets x kept sets), less if a set has nothing left early.
    """
    width = rights.shape[1]
    for i in range(first, stop):
        for w in range(width):
            useful[i, w] = rights[i, w]
        left = True
        for k in range(kept):
            larger = keep[k]
            inside = True
            for w in range(sets.shape[1]):
                if sets[i, w] & ~sets[larger, w]:
                    inside = False
                    break
            if inside:
                rest = np.uint64(0)
                for w in range(width):
                    useful[i, w] &= ~rights[larger, w]
                    rest |= useful[i, w]
                if rest == 0:
                    left = False
                    break
        if left:
            keep[kept] = i
            kept += 1
    return kept
