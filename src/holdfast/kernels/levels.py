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


class RowGroups(NamedTuple):
    """Rows grouped by the first columns of a left side: a line for each number of columns."""

    members: Any
    ends: Any
    filled: Any  # how many members a line has
    count: Any  # how many groups


@part
def no_groups(total, size):
    """All rows in one group, and room for `size` columns."""
    members = np.empty((size + 1, total), np.int32)
    ends = np.empty((size + 1, total // 2 + 1), np.int32)
    filled, count = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
    for i in range(total):
        members[0, i] = i
    ends[0, 0], filled[0], count[0] = total, total, 1
    return RowGroups(members, ends, filled, count)


@part
def group(rows, groups, left, first, stop):
    """RowGroups rows by more columns of a left side."""
    for i in range(first, stop):
        groups.filled[i + 1], groups.count[i + 1] = refine(
            groups.members[i, : groups.filled[i]], groups.ends[i, : groups.count[i]],
            rows.by_column[left[i]], rows.count, groups.members[i + 1], groups.ends[i + 1],
        )  # fmt: skip


@part
def open_rights(level, left, known, open_):
    """The right sides that smaller left sides determine, and those that are to be tested; returns whether there are
    any."""
    known[:] = np.uint64(0)
    for out in range(left.shape[0]):
        rank = rank_of(left, left.shape[0], out, level.choose)
        for w in range(known.shape[0]):
            known[w] |= level.before[rank, w]
    for w in range(open_.shape[0]):
        open_[w] = level.wanted[w] & ~known[w]
    for i in range(left.shape[0]):
        open_[left[i] >> 6] &= ~bit_of(left[i])
    return open_.any()


@kernel
def test_left_sides(rows, level, prefixes, sets, rights, progress):
    """Tests the left sides that consist of a prefix and one more column behind it, and lists those that determine right
    sides which no smaller left side determines: sets[i, place] and rights[i, word]. `progress` has the number of
    prefixes that are done and of left sides that are listed; ends before a prefix that might not find room.
    O(rows of the groups of the prefix) for each left side, less if smaller ones determine everything."""
    columns, size = rows.by_row.shape[1], prefixes.shape[1] + 1
    groups = no_groups(rows.by_row.shape[0], size)
    left, open_, known = np.empty(size, np.int64), np.empty_like(level.wanted), np.empty_like(level.wanted)
    ready = 0  # columns of the last prefix by which rows are grouped
    while progress[0] < prefixes.shape[0] and progress[1] + columns <= sets.shape[0]:
        prefix = prefixes[progress[0]]
        same = 0
        while same < ready and prefix[same] == left[same]:
            same += 1
        ready = same
        left[: size - 1] = prefix
        for column in range(prefix[size - 2] + 1 if size > 1 else 0, columns):
            left[size - 1] = column
            if open_rights(level, left, known, open_):
                group(rows, groups, left, ready, size)
                ready = size - 1
                if groups.count[size]:
                    open_[columns >> 6] &= ~bit_of(columns)
                    members = groups.members[size, : groups.filled[size]]
                    test_rights(rows, members, groups.ends[size, : groups.count[size]], open_)
                if open_.any():
                    sets[progress[1]], rights[progress[1]] = left, open_
                    progress[1] += 1
                known |= open_
            if level.after.shape[0]:
                level.after[rank_of(left, size, -1, level.choose)] = known
        progress[0] += 1
