"""Which columns do left sides of one size determine? Rows are grouped by each left side, and few pairs of a group are
looked at: two rows that agree on the left refute at once all right sides in which they differ.

A left side of `size` columns is a prefix and a last column behind it. closure[rank, word] has the right sides that the
left side of a rank determines; the right side behind those of the columns is the key. Ranks are those of the
combinatorial number system: the sum of choose(column, place + 1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holdfast.kernels.compiled import kernel, part
from holdfast.kernels.partition import refine
from holdfast.kernels.sets import ONE, bit_of, lowest

_PAIRS = 24  # that are looked at in all columns before right sides are tried one by one


class LevelRows(NamedTuple):
    """The values as numbers, by row and by column; a negative number is null: it agrees with nothing on a left side."""

    by_row: Any
    by_column: Any
    count: Any  # zeroed, a place for each number
    nulls_differ: Any  # of a right side: from everything, or from nothing


class Level(NamedTuple):
    """What is known of the left sides with one column less, and what is found."""

    before: Any  # closure
    after: Any  # closure; without rows if it is not needed
    wanted: Any  # the right sides that are searched
    choose: Any  # choose[n, k]


@part
def rank_of(members, size, left_out, choose):
    """The rank of a left side without one of its members."""
    rank, place = 0, 1
    for i in range(size):
        if i != left_out:
            rank += choose[members[i], place]
            place += 1
    return rank


@part
def keep_agreeing(rows, t, s, open_):
    """Removes the right sides that two rows with equal left sides refute; returns whether any is left."""
    left = False
    for w in range(open_.shape[0]):
        rest = open_[w]
        while rest:
            at = rest & (~rest + ONE)
            rest ^= at
            c = 64 * w + lowest(at)
            if c < rows.by_row.shape[1]:
                a, b = rows.by_row[t, c], rows.by_row[s, c]
                agree = a == b
                if a < 0 or b < 0:
                    agree = not rows.nulls_differ
                if not agree:
                    open_[w] &= ~at
        left = left or open_[w] != 0
    return left


@part
def holds(rows, members, ends, c):
    """Whether rows with equal left sides have equal values in a column. O(rows of the groups)."""
    begin = 0
    for g in range(ends.shape[0]):
        first = np.int32(-1)
        for i in range(begin, ends[g]):
            number = rows.by_column[c, members[i]]
            if number < 0:
                if rows.nulls_differ:
                    return False
            elif first < 0:
                first = number
            elif number != first:
                return False
        begin = ends[g]
    return True


@part
def test_rights(rows, members, ends, open_):
    """Removes the right sides that do not hold for the groups of a left side."""
    seen, begin = 0, 0
    for g in range(ends.shape[0]):
        for i in range(begin + 1, ends[g]):
            if not keep_agreeing(rows, members[i - 1], members[i], open_):
                return
            seen += 1
            if seen >= _PAIRS:
                break
        if seen >= _PAIRS:
            break
        begin = ends[g]
    for w in range(open_.shape[0]):
        rest = open_[w]
        while rest:
            at = rest & (~rest + ONE)
            rest ^= at
            c = 64 * w + lowest(at)
            if c < rows.by_row.shape[1] and not holds(rows, members, ends, c):
                open_[w] &= ~at


@kernel
def test_left_sides(rows, level, prefixes, sets, rights, progress):
    """Tests the left sides that consist of a prefix and one more column behind it, and lists those that determine right
    sides which no smaller left side determines: sets[i, place] and rights[i, word]. `progress` has the number of
    prefixes that are done and of left sides that are listed; ends before a prefix that might not find room.
    O(rows of the groups of the prefix) for each left side, less if smaller ones determine everything."""
    columns, total = rows.by_row.shape[1], rows.by_row.shape[0]
    size = prefixes.shape[1] + 1
    words = level.wanted.shape[0]
    key_word, key_bit = columns >> 6, bit_of(columns)
    members = np.empty((size + 1, total), np.int32)
    ends = np.empty((size + 1, total // 2 + 1), np.int32)
    filled, groups = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
    for i in range(total):
        members[0, i] = i
    ends[0, 0], filled[0], groups[0] = total, total, 1
    left, open_ = np.empty(size, np.int64), np.empty(words, np.uint64)
    known = np.empty(words, np.uint64)
    ready = 0  # places of the prefix before, whose groups can be used again
    while progress[0] < prefixes.shape[0]:
        p = progress[0]
        last = prefixes[p, size - 2] if size > 1 else -1
        if progress[1] + columns > sets.shape[0]:
            return
        if p > 0:
            same = 0
            while same < size - 1 and prefixes[p, same] == prefixes[p - 1, same]:
                same += 1
            ready = min(ready, same)
        for i in range(size - 1):
            left[i] = prefixes[p, i]
        for column in range(last + 1, columns):
            left[size - 1] = column
            known[:] = np.uint64(0)
            for out in range(size):
                rank = rank_of(left, size, out, level.choose)
                for w in range(words):
                    known[w] |= level.before[rank, w]
            is_open = False
            for w in range(words):
                open_[w] = level.wanted[w] & ~known[w]
            for i in range(size):
                open_[left[i] >> 6] &= ~bit_of(left[i])
            for w in range(words):
                is_open = is_open or open_[w] != 0
            if is_open:
                while ready < size - 1:
                    c = left[ready]
                    filled[ready + 1], groups[ready + 1] = refine(
                        members[ready, : filled[ready]], ends[ready, : groups[ready]], rows.by_column[c],
                        rows.count, members[ready + 1], ends[ready + 1],
                    )  # fmt: skip
                    ready += 1
                filled[size], groups[size] = refine(
                    members[size - 1, : filled[size - 1]], ends[size - 1, : groups[size - 1]],
                    rows.by_column[column], rows.count, members[size], ends[size],
                )  # fmt: skip
                if groups[size]:
                    open_[key_word] &= ~key_bit
                    test_rights(rows, members[size, : filled[size]], ends[size, : groups[size]], open_)
                found = False
                for w in range(words):
                    found = found or open_[w] != 0
                    known[w] |= open_[w]
                if found:
                    at = progress[1]
                    for i in range(size):
                        sets[at, i] = left[i]
                    for w in range(words):
                        rights[at, w] = open_[w]
                    progress[1] += 1
            if level.after.shape[0]:
                rank = rank_of(left, size, -1, level.choose)
                for w in range(words):
                    level.after[rank, w] = known[w]
        progress[0] += 1
