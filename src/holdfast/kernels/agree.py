"""The sets of tests that pairs of rows pass, counted for a tile of pairs.

A test is (left column, right column, operator); the set of a pair has the bits of the tests that it passes. Agree-sets
are the sets of the tests for equality of each column. Eight tests make a plane of bytes, and a row is compared with a
strip of partners at a time, so that the processor compares many partners at once.

Three kernels count sets, each in a table of its own kind; `next_strip` and `fill_keys` are their loop over the pairs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holdfast.kernels.compiled import inlined, kernel, part
from holdfast.kernels.sets import AHEAD, GOLDEN, ONE, copy_set, look_ahead, place_from, place_of

_STRIP = 2048  # partners at a time: their planes stay in the nearest cache
_PLANES_PER_WORD = 8
BYTES, HALVES, WORDS = 0, 1, 2  # kinds of columns
EQUAL, LESS, GREATER, DIFFERENT, NEVER = 0, 1, 2, 3, 4  # tests of the row against its partner


class PairRows(NamedTuple):
    """The rows of a tile. A column has codes, or, with fewer values, numbers of two bytes or one, as `kind` says."""

    codes: Any  # int64[column, row]
    halves: Any  # uint16[column, row]
    small: Any  # uint8[column, row]
    kind: Any  # int64[column]
    tests: Any  # int64[test, 3]
    known: Any  # uint64[row, word]: the tests that the row can pass as the first of a pair
    lifts: Any  # uint64[2, row or 0, word]: the tests that the row passes with every row, as the first or the second
    one: Any  # whether a lift counts only if exactly one of both rows has it


class SetCounts(NamedTuple):
    """Sets, how many pairs have each, one of these pairs, and the hash table of the sets."""

    table: Any  # int32[4 x room]: number of the set + 1
    sets: Any  # uint64[room, word]
    counts: Any  # int64[room]
    pairs: Any  # int64[room, 2]


@part
def mark(plane, bit, value, values, test):
    """Sets a bit for each partner with which the row passes a test. O(partners)."""
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
def compare(planes, rows, row, start, stop):
    """Sets the bit of each test that the row and a partner pass. O(partners x tests)."""
    for p in range(planes.shape[0]):
        planes[p, : stop - start] = 0
    for k in range(rows.tests.shape[0]):
        left, right, test = rows.tests[k, 0], rows.tests[k, 1], rows.tests[k, 2]
        plane, bit = planes[k >> 3], np.uint8(1 << (k & 7))
        if rows.kind[left] == BYTES:
            mark(plane, bit, rows.small[left, row], rows.small[right, start:stop], test)
        elif rows.kind[left] == HALVES:
            mark(plane, bit, rows.halves[left, row], rows.halves[right, start:stop], test)
        else:
            mark(plane, bit, rows.codes[left, row], rows.codes[right, start:stop], test)


@part
def gather(keys, planes, word, width):
    """keys[:width] = the word that eight planes make, or the part of it that fits the type of the keys."""
    keys[:width] = 0
    for p in range(word * _PLANES_PER_WORD, min((word + 1) * _PLANES_PER_WORD, planes.shape[0])):
        plane, shift = planes[p], keys.dtype.type(8 * (p & 7))
        for j in range(width):
            keys[j] |= keys.dtype.type(plane[j]) << shift


@inlined
def fill_keys(keys, planes, rows, row, start, stop, sql):
    """keys[:, j] = the set of the row and partner start + j, with `sql` followed by the tests that they fail although
    both rows know the values. O(partners x tests)."""
    known, lifts, width, words = rows.known, rows.lifts, stop - start, rows.known.shape[1]
    compare(planes, rows, row, start, stop)
    for w in range(words):
        key = keys[w]
        gather(key, planes, w, width)
        if sql:
            for j in range(width):
                keys[words + w, j] = known[row, w] & known[start + j, w] & ~keys[w, j]
        mask = keys.dtype.type(known[row, w])
        for j in range(width):
            key[j] &= mask
        if lifts.shape[1]:
            mine = keys.dtype.type(lifts[0, row, w])
            for j in range(width):
                theirs = keys.dtype.type(lifts[1, start + j, w])
                key[j] |= (mine ^ theirs) if rows.one else (mine | theirs)


@inlined
def next_strip(span, begin, row):
    """The strip of partners after that of a row: (where strips begin, the row, its first partner, the end); at the end
    of the tile an empty one. A tile has the pairs i < j, i in the first span of rows and j in the second."""
    while begin < span[3]:
        end = min(begin + _STRIP, span[3])
        row += 1
        if row >= span[1]:
            begin, row = begin + _STRIP, span[0] - 1
        elif row + 1 < end:
            return begin, row, max(begin, row + 1), end
    return begin, row, begin, begin


@kernel
def count_direct(rows, span, counts, pairs):
    """counts[set] += 1 for each pair of a tile; pairs[set], unless `pairs` is empty, is one of them. For up to 24
    tests: counts has a place for each set. O(pairs x tests). Adding to a place that was just written waits for it, so
    two tables take turns."""
    planes = np.zeros(((rows.tests.shape[0] + 7) >> 3, _STRIP), np.uint8)
    keys = np.zeros((1, _STRIP), np.uint32)
    turn, seen, key = np.zeros_like(counts), np.zeros(pairs.shape[0], np.uint8), keys[0]
    begin, i, start, end = next_strip(span, span[2], span[0] - 1)
    while start < end:
        width = end - start
        fill_keys(keys, planes, rows, i, start, end, False)
        if pairs.shape[0]:
            all_seen = np.uint8(1)
            for j in range(width):
                all_seen &= seen[key[j]]
            if not all_seen:
                for j in range(width):
                    if not seen[key[j]]:
                        seen[key[j]] = 1
                        pairs[key[j], 0], pairs[key[j], 1] = i, start + j
        half = width // 2
        for j in range(half):
            counts[key[j]] += 1
            turn[key[half + j]] += 1
        if width & 1:
            counts[key[width - 1]] += 1
        begin, i, start, end = next_strip(span, begin, i)
    counts += turn


@kernel
def count_single(rows, span):
    """(sets, counts, pairs) of the pairs of a tile, for sets of one word. O(pairs x tests). A set and its count lie
    side by side, so that a pair touches one place in memory."""
    planes = np.zeros(((rows.tests.shape[0] + 7) >> 3, _STRIP), np.uint8)
    keys, bits, used = np.zeros((1, _STRIP), np.uint64), 14, 0
    slots = np.zeros((1 << bits, 2), np.uint64)
    sets, pairs = np.empty((1 << (bits - 1), 1), np.uint64), np.empty((1 << (bits - 1), 2), np.int64)
    begin, i, start, end = next_strip(span, span[2], span[0] - 1)
    while start < end:
        width = end - start
        fill_keys(keys, planes, rows, i, start, end, False)
        while used + width > sets.shape[0]:
            bits += 1
            slots, sets, pairs = widened(slots, sets, pairs, used, bits)
        word = keys[0]
        for j in range(width):
            key = word[j]
            at = slot_of(slots, key, bits)
            if slots[at, 1] == 0:
                slots[at, 0] = key
                sets[used, 0], pairs[used, 0], pairs[used, 1] = key, i, start + j
                used += 1
            slots[at, 1] += ONE
        begin, i, start, end = next_strip(span, begin, i)
    counts = np.empty(used, np.int64)
    for k in range(used):
        counts[k] = np.int64(slots[slot_of(slots, sets[k, 0], bits), 1])
    return sets[:used], counts, pairs[:used]


@inlined
def slot_of(slots, key, bits):
    """The slot of a set, or the free one where it belongs. O(1), expected."""
    last = np.uint64(slots.shape[0] - 1)
    at = (key * GOLDEN) >> np.uint64(64 - bits)
    while slots[at, 1] != 0 and slots[at, 0] != key:
        at = (at + ONE) & last
    return at


@part
def widened(slots, sets, pairs, used, bits):
    """The same sets with more slots, and room for half as many sets. O(slots)."""
    more, room = np.zeros((1 << bits, 2), np.uint64), 1 << (bits - 1)
    for place in range(slots.shape[0]):
        if slots[place, 1] != 0:
            at = slot_of(more, slots[place, 0], bits)
            more[at, 0], more[at, 1] = slots[place, 0], slots[place, 1]
    more_sets, more_pairs = np.empty((room, 1), np.uint64), np.empty((room, 2), np.int64)
    more_sets[:used], more_pairs[:used] = sets[:used], pairs[:used]
    return more, more_sets, more_pairs


@part
def empty_counts(room, width):
    """Room for so many sets of `width` words."""
    sets, pairs = np.empty((room, width), np.uint64), np.empty((room, 2), np.int64)
    return SetCounts(np.zeros(4 * room, np.int32), sets, np.zeros(room, np.int64), pairs)


@part
def grown(found, used, room):
    """The same sets with room for more. O(sets)."""
    larger = empty_counts(room, found.sets.shape[1])
    larger.sets[:used], larger.counts[:used] = found.sets[:used], found.counts[:used]
    larger.pairs[:used] = found.pairs[:used]
    for i in range(used):
        larger.table[place_of(larger.table, larger.sets, larger.sets, i)] = i + 1
    return larger


@kernel
def count_hashed(rows, span, sql):
    """(sets, counts, pairs) of the pairs of a tile, for any number of tests. With `sql` a set is two: the tests that
    the pair passes, and those that it fails although both rows know the values. O(pairs x tests)."""
    planes = np.zeros(((rows.tests.shape[0] + 7) >> 3, _STRIP), np.uint8)
    words = 2 * rows.known.shape[1] if sql else rows.known.shape[1]
    keys, strip = np.zeros((words, _STRIP), np.uint64), np.zeros((_STRIP, words), np.uint64)
    hashes, entries = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.int32)
    room, used = 4096, 0
    table, sets, counts, pairs = empty_counts(room, words)
    begin, i, start, end = next_strip(span, span[2], span[0] - 1)
    while start < end:
        width = end - start
        fill_keys(keys, planes, rows, i, start, end, sql)
        if used + width + 1 >= room:
            while used + width + 1 >= room:
                room *= 4
            table, sets, counts, pairs = grown(SetCounts(table, sets, counts, pairs), used, room)
        for j in range(width):
            for w in range(words):
                strip[j, w] = keys[w, j]
        for j in range(width):
            if j % AHEAD == 0:
                seen = look_ahead(table, sets, strip, j, min(j + AHEAD, width), hashes, entries)
                pairs[room - 1, 0] = np.int64(seen)
            at = place_from(table, sets, strip, j, hashes[j % AHEAD])
            if table[at] == 0:
                copy_set(sets, used, strip, j)
                pairs[used, 0], pairs[used, 1] = i, start + j
                used += 1
                table[at] = used
            counts[table[at] - 1] += 1
        begin, i, start, end = next_strip(span, begin, i)
    return sets[:used], counts[:used], pairs[:used]
