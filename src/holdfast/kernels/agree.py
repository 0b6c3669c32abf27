"""How pairs of rows compare, counted for a tile of pairs.

Rows come as codes[column, row] and, for columns of fewer values, as two bytes, halves[column, row], or one,
small[column, row]: kind[column] says which. A test is (left column, right column, operator); a pair's set has the bits
of the tests that it passes. Eight tests make a plane of bytes, compared a strip of partners at a time, so that the
processor compares many partners at once. Agree-sets are the sets of the tests for equality of each column.
"""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import kernel, part
from holdfast.kernels.sets import AHEAD, GOLDEN, ONE, copy_set, look_ahead, place_from, place_of

_STRIP = 2048  # partners at a time: their planes stay in the nearest cache
_PLANES_PER_WORD = 8
BYTES, HALVES, WORDS = 0, 1, 2  # kinds of columns
EQUAL, LESS, GREATER, DIFFERENT, NEVER = 0, 1, 2, 3, 4  # tests of the row against its partner


@part
def mark(plane, bit, value, values, test):
    """Sets a bit for each partner with which the row passes a test."""
    none = np.uint8(0)
    if test == EQUAL:
        for j in range(values.shape[0]):
            plane[j] |= bit if values[j] == value else none
    elif test == LESS:
        for j in range(values.shape[0]):
            plane[j] |= bit if value < values[j] else none
    elif test == GREATER:
        for j in range(values.shape[0]):
            plane[j] |= bit if value > values[j] else none
    elif test == DIFFERENT:
        for j in range(values.shape[0]):
            plane[j] |= bit if values[j] != value else none


@part
def compare(planes, codes, halves, small, kind, tests, row, start, stop):
    """Sets the bit of each test that a partner and the row pass."""
    for p in range(planes.shape[0]):
        planes[p, : stop - start] = 0
    for k in range(tests.shape[0]):
        left, right, test = tests[k, 0], tests[k, 1], tests[k, 2]
        plane, bit = planes[k >> 3], np.uint8(1 << (k & 7))
        if kind[left] == BYTES:
            mark(plane, bit, small[left, row], small[right, start:stop], test)
        elif kind[left] == HALVES:
            mark(plane, bit, halves[left, row], halves[right, start:stop], test)
        else:
            mark(plane, bit, codes[left, row], codes[right, start:stop], test)


@kernel
def count_direct(codes, halves, small, kind, tests, known, lifts, one, span, counts, pairs):
    """counts[set] += 1 for each pair i < j, i in the first span of rows, j in the second; pairs[set], unless `pairs` is
    empty, is one of them. known[i] takes out the tests that row i passes with nobody; lifts[0, i] and lifts[1, j] put
    in those that a row passes with everybody as the first or the second of a pair, or, with `one`, only where exactly
    one of both says so. For up to 24 tests; counts has a place for each set. O(pairs x tests), a strip of partners at
    a time. Two tables take turns, since adding to a place that was just written has to wait for it."""
    planes = np.zeros(((tests.shape[0] + 7) >> 3, _STRIP), np.uint8)
    found = np.zeros(_STRIP, np.uint32)
    turn, seen = np.zeros_like(counts), np.zeros(pairs.shape[0], np.uint8)
    first, stop, first_other, stop_other = span[0], span[1], span[2], span[3]
    for begin in range(first_other, stop_other, _STRIP):
        end = min(begin + _STRIP, stop_other)
        for i in range(first, stop):
            start = max(begin, i + 1)
            if start >= end:
                continue
            width = end - start
            compare(planes, codes, halves, small, kind, tests, i, start, end)
            for j in range(width):
                found[j] = planes[0, j]
            for p in range(1, planes.shape[0]):
                plane, shift = planes[p], np.uint32(8 * p)
                for j in range(width):
                    found[j] |= np.uint32(plane[j]) << shift
            mask = np.uint32(known[i, 0])
            for j in range(width):
                found[j] &= mask
            if lifts.shape[1]:
                mine = np.uint32(lifts[0, i, 0])
                for j in range(width):
                    theirs = np.uint32(lifts[1, start + j, 0])
                    found[j] |= (mine ^ theirs) if one else (mine | theirs)
            if pairs.shape[0]:
                known_all = np.uint8(1)
                for j in range(width):
                    known_all &= seen[found[j]]
                if not known_all:
                    for j in range(width):
                        if not seen[found[j]]:
                            seen[found[j]] = 1
                            pairs[found[j], 0], pairs[found[j], 1] = i, start + j
            half = width // 2
            for j in range(half):
                counts[found[j]] += 1
                turn[found[half + j]] += 1
            if width & 1:
                counts[found[width - 1]] += 1
    counts += turn


@kernel
def count_single(codes, halves, small, kind, tests, known, lifts, one, span):
    """(sets, counts, pairs) of the pairs of a tile: as `count_direct`, for sets of one word. A set and its count lie
    side by side, so that a pair touches one place in memory. O(pairs x tests)."""
    planes = np.zeros(((tests.shape[0] + 7) >> 3, _STRIP), np.uint8)
    keys = np.zeros(_STRIP, np.uint64)
    first, stop, first_other, stop_other = span[0], span[1], span[2], span[3]
    bits = 14
    slots = np.zeros((1 << bits, 2), np.uint64)
    sets, pairs, used = np.empty((1 << (bits - 1), 1), np.uint64), np.empty((1 << (bits - 1), 2), np.int64), 0
    for begin in range(first_other, stop_other, _STRIP):
        end = min(begin + _STRIP, stop_other)
        for i in range(first, stop):
            start = max(begin, i + 1)
            if start >= end:
                continue
            width = end - start
            compare(planes, codes, halves, small, kind, tests, i, start, end)
            gather(keys, planes, 0, width)
            mask = known[i, 0]
            for j in range(width):
                keys[j] &= mask
            if lifts.shape[1]:
                mine = lifts[0, i, 0]
                for j in range(width):
                    theirs = lifts[1, start + j, 0]
                    keys[j] |= (mine ^ theirs) if one else (mine | theirs)
            while used + width > sets.shape[0]:
                slots, sets, pairs = widened(slots, sets, pairs, used, bits + 1)
                bits += 1
            shift, last = np.uint64(64 - bits), np.uint64(slots.shape[0] - 1)
            for j in range(width):
                key = keys[j]
                at = (key * GOLDEN) >> shift
                while slots[at, 1] != 0 and slots[at, 0] != key:
                    at = (at + ONE) & last
                if slots[at, 1] == 0:
                    slots[at, 0] = key
                    sets[used, 0], pairs[used, 0], pairs[used, 1] = key, i, start + j
                    used += 1
                slots[at, 1] += ONE
    counts = np.empty(used, np.int64)
    for k in range(used):
        counts[k] = np.int64(slots[slot_of(slots, sets[k, 0], bits), 1])
    return sets[:used], counts, pairs[:used]


@part
def slot_of(slots, key, bits):
    """Where a set is, or would be."""
    last = np.uint64(slots.shape[0] - 1)
    at = (key * GOLDEN) >> np.uint64(64 - bits)
    while slots[at, 1] != 0 and slots[at, 0] != key:
        at = (at + ONE) & last
    return at


@part
def widened(slots, sets, pairs, used, bits):
    """The same entries with room for more: half of the slots."""
    more = np.zeros((1 << bits, 2), np.uint64)
    for place in range(slots.shape[0]):
        if slots[place, 1] != 0:
            at = slot_of(more, slots[place, 0], bits)
            more[at, 0], more[at, 1] = slots[place, 0], slots[place, 1]
    more_sets, more_pairs = np.empty((1 << (bits - 1), 1), np.uint64), np.empty((1 << (bits - 1), 2), np.int64)
    more_sets[:used], more_pairs[:used] = sets[:used], pairs[:used]
    return more, more_sets, more_pairs


@kernel
def count_hashed(codes, halves, small, kind, tests, known, lifts, one, span, sql):
    """(sets, counts, pairs) of the pairs of a tile: as `count_direct`, for any number of tests. With `sql` a set is
    two: the tests that the pair passes, and the others that both rows know, nulls being in neither. O(pairs x tests).
    """
    words = known.shape[1]
    planes = np.zeros(((tests.shape[0] + 7) >> 3, _STRIP), np.uint8)
    width = 2 * words if sql else words
    keys, rows = np.zeros((width, _STRIP), np.uint64), np.zeros((_STRIP, width), np.uint64)
    hashes, entries = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.int32)
    first, stop, first_other, stop_other = span[0], span[1], span[2], span[3]
    room = 4096
    table = np.zeros(4 * room, np.int32)
    sets = np.empty((room, width), np.uint64)
    counts = np.zeros(room, np.int64)
    pairs = np.empty((room, 2), np.int64)
    used = 0
    for begin in range(first_other, stop_other, _STRIP):
        end = min(begin + _STRIP, stop_other)
        for i in range(first, stop):
            start = max(begin, i + 1)
            if start >= end:
                continue
            compare(planes, codes, halves, small, kind, tests, i, start, end)
            for w in range(words):
                gather(keys[w], planes, w, end - start)
                if sql:
                    for j in range(end - start):
                        keys[words + w, j] = known[i, w] & known[start + j, w] & ~keys[w, j]
                for j in range(end - start):
                    keys[w, j] &= known[i, w]
                if lifts.shape[1]:
                    for j in range(end - start):
                        mine, theirs = lifts[0, i, w], lifts[1, start + j, w]
                        keys[w, j] |= (mine ^ theirs) if one else (mine | theirs)
            if used + end - start + 1 >= room:
                while used + end - start + 1 >= room:
                    room *= 4
                table, sets, counts, pairs = grown(sets[:used], counts[:used], pairs[:used], room)
            for j in range(end - start):
                for w in range(width):
                    rows[j, w] = keys[w, j]
            for j in range(end - start):
                if j % AHEAD == 0:
                    seen = look_ahead(table, sets, rows, j, min(j + AHEAD, end - start), hashes, entries)
                    pairs[room - 1, 0] = np.int64(seen)
                at = place_from(table, sets, rows, j, hashes[j % AHEAD])
                if table[at] == 0:
                    copy_set(sets, used, rows, j)
                    pairs[used, 0], pairs[used, 1] = i, start + j
                    used += 1
                    table[at] = used
                counts[table[at] - 1] += 1
    return sets[:used], counts[:used], pairs[:used]


@part
def gather(keys, planes, word, width):
    """keys[:width] = the word that eight planes make."""
    keys[:width] = 0
    for p in range(word * _PLANES_PER_WORD, min((word + 1) * _PLANES_PER_WORD, planes.shape[0])):
        plane, shift = planes[p], np.uint64(8 * (p & 7))
        for j in range(width):
            keys[j] |= np.uint64(plane[j]) << shift


@part
def grown(sets, counts, pairs, room):
    """The same entries with room for more."""
    used = sets.shape[0]
    table = np.zeros(4 * room, np.int32)
    more_sets = np.empty((room, sets.shape[1]), np.uint64)
    more_counts = np.zeros(room, np.int64)
    more_pairs = np.empty((room, 2), np.int64)
    more_sets[:used], more_counts[:used], more_pairs[:used] = sets, counts, pairs
    for i in range(used):
        table[place_of(table, more_sets, more_sets, i)] = i + 1
    return table, more_sets, more_counts, more_pairs
