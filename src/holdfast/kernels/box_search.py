"""Searching one bucket of the box index: the entries in a box (`box_query.py`) are listed as pairs or counted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holdfast.kernels.box import (
    BLOCK_BITS,
    LEVELS,
    MORE_ORDERED_BITS,
    MOST,
    ORDERED_BITS,
    base_of,
    blocks_of,
    class_of,
    dead_of,
    directory_of,
    fences_of,
    head_of,
    ordered_of,
    record_of,
    runs_of,
    scratch_versions_of,
    start_of,
    tail_of,
    totals_of,
    values_of,
    versions_of,
)
from holdfast.kernels.box_query import (
    count_ordered,
    is_two_dimensional,
    jump,
    lower_bound,
    mark_inside,
    next_stretch,
    relation,
    trim,
)
from holdfast.kernels.compiled import part
from holdfast.kernels.handle import int32_1, int64_1, int64_2

_MANY = 2 << ORDERED_BITS
_BLOCK = 1 << BLOCK_BITS


class Ask(NamedTuple):
    """One question: which row asks, in which role, for which rule, and how."""

    asker: Any  # row id
    as_t: Any  # 1 or 0
    both: Any  # whether a pair stands for its mirror image too
    rule: Any
    counting: Any  # or listing
    live_only: Any  # whether some of the entries are dead


@part
def among_dead(ask, live_only):
    """The same question to entries of which some are dead, or none."""
    return Ask(ask.asker, ask.as_t, ask.both, ask.rule, ask.counting, live_only)


# --- pairs found: `found` is the address of the lines of three arrays ----------------------------------------------


@part
def pairs_of(found):
    """int64[2, room]: t and s, row ids."""
    return int64_2(found, np.int64(0))


@part
def rules_of(found):
    """int32[room]: the rules of the pairs; empty if there is only one rule."""
    return int32_1(found, np.int64(1))


@part
def row_ids_of(found):
    """int64[versions]: the row of each version."""
    return int64_1(found, np.int64(2))


@part
def put_stretch(found, at, ask, versions, dead, begin, end):
    """Writes the pairs of the live entries of a stretch, and their mirror images if the question is for both. Returns
    (entries, the next free place). O(entries)."""
    pairs, rules, row_ids, count = pairs_of(found), rules_of(found), row_ids_of(found), np.int64(0)
    to_t, to_s, start = pairs[1 - ask.as_t], pairs[ask.as_t], at
    for place in range(begin, end):
        version = versions[place]
        if ask.live_only and dead[version] != 0:
            continue
        count += 1
        partner = row_ids[version]
        to_t[at] = ask.asker
        to_s[at] = partner
        at += 1
        if ask.both:
            to_t[at] = partner
            to_s[at] = ask.asker
            at += 1
    if rules.shape[0] > 0:
        rules[start:at] = ask.rule
    return count, at


@part
def count_live(versions, dead, begin, end):
    """How many entries of a stretch are live. O(entries)."""
    count = np.int64(0)
    for place in range(begin, end):
        count += dead[versions[place]] == 0
    return count


@part
def take(box, versions, begin, end, ask, found, at):
    """Lists or counts a stretch of entries that are all in the box: (entries, next free place, or -1 without room)."""
    if ask.counting:
        return count_live(versions, dead_of(box), begin, end) if ask.live_only else end - begin, at
    if at + (end - begin) * (2 if ask.both else 1) > pairs_of(found).shape[1]:
        return np.int64(0), np.int64(-1)
    return put_stretch(found, at, ask, versions, dead_of(box), begin, end)


@part
def scan(box, begin, end, by_order, query, ask, found, at):
    """The entries of a stretch of a run that are in the box beyond the first dimension, as `take` reports them.

    O(blocks) of 16 to 65536 entries, and O(entries) of blocks that are partly in the box.
    """
    blocks, base, count, place = blocks_of(box), base_of(box), np.int64(0), begin
    while place < end:
        if by_order and place & ((1 << ORDERED_BITS) - 1) == 0 and place + (1 << ORDERED_BITS) <= end:
            size, which = np.int64(1) << ORDERED_BITS, 0
            more = np.int64(1) << MORE_ORDERED_BITS
            if place & (more - 1) == 0 and place + more <= end:
                size, which = more, 1
            count += count_ordered(ordered_of(box)[which], place, place + size, query)
            place += size
            continue
        step, known = min(end, ((place >> BLOCK_BITS) + 1) << BLOCK_BITS) - place, 1  # up to the end of a block
        if step == _BLOCK:
            further = jump(blocks, base, place, end, query)
            if further > place:
                place = further
                continue
            step, known = next_stretch(blocks, base, place, end, query)
        if known == 2:
            more, at = take(box, versions_of(box), place, place + step, ask, found, at)
            count += more
        elif known == 1:
            more, at = test(box, place, place + step, query, np.int64(1), ask, found, at)
            count += more
        if at < 0:
            return count, at
        place += step
    return count, at


@part
def test(box, begin, end, query, first, ask, found, at):
    """Lists or counts those of at most 64 entries that are in the box in the dimensions from `first` on. O(entries)."""
    marks = scratch_versions_of(box)[0]  # not in use while searching
    count = np.int64(mark_inside(values_of(box), begin, end - begin, query, first, marks))
    if count == 0 or (ask.counting and not ask.live_only):
        return count, at
    count = np.int64(0)
    for place in range(begin, end):
        if marks[place - begin] != 0:
            more, at = take(box, versions_of(box), place, place + 1, ask, found, at)
            if at < 0:
                return count, at
            count += more
    return count, at


@part
def search_run(box, directory, level, query, ask, found, at):
    """The entries of one run that are in the box, as `take` reports them. O(log entries + blocks + entries found).

    Many live entries of two dimensions are counted by blocks in which the second one is sorted, O(entries / 32768 x
    log). The next place is -2 if these blocks have to be sorted first.
    """
    runs = runs_of(box)
    begin, end = runs[directory, level, 0], runs[directory, level, 0] + runs[directory, level, 1]
    values, fences, dims, count = values_of(box), fences_of(box), query.shape[0], np.int64(0)
    run = begin, end
    left = right = end
    if dims > 0:
        if values[0, begin] < query[0, 0]:
            begin = lower_bound(values, fences, begin, end, query[0, 0])
        if begin < end and values[0, end - 1] > query[0, 1]:
            end = lower_bound(values, fences, begin, end, query[0, 1] + 1)
        left = right = end
        if query[0, 3] != 0:
            left = lower_bound(values, fences, begin, end, query[0, 2])
            right = end if query[0, 2] == MOST else lower_bound(values, fences, left, end, query[0, 2] + 1)
    for side in range(2):
        first, stop = (begin, left) if side == 0 else (right, end)
        if first < stop:
            if dims <= 1:
                more, at = take(box, versions_of(box), first, stop, ask, found, at)
            else:
                by_order = ask.counting and not ask.live_only and stop - first >= _MANY and is_two_dimensional(query)
                if by_order and runs[directory, level, 2] == 0:
                    return count, np.int64(-2)
                first, stop = trim(blocks_of(box), base_of(box), first, stop, run, query)
                more, at = scan(box, first, stop, by_order, query, ask, found, at)
            if at < 0:
                break
            count += more
    return count, at


@part
def search_bucket(box, bucket, keys, query, ask, found, at):
    """All entries of a bucket that are in the box: (entries, next free place; -1 without room for the pairs, -2 if
    blocks have to be sorted first). Mostly O(dims): no entry is within the bucket's bounds."""
    record = record_of(box)
    word = record[bucket, keys]
    directory, tail = directory_of(word), tail_of(word)
    if directory < 0 and tail == 0:
        return np.int64(0), at
    for d in range(query.shape[0]):
        bounds = keys + 1 + 2 * d
        if relation(record[bucket, bounds], record[bucket, bounds + 1], query, d) == 0:
            return np.int64(0), at
    if class_of(word) == 0 and tail == 1:
        scratch_versions_of(box)[0, 0] = head_of(word)
        return take(box, scratch_versions_of(box)[0], np.int64(0), np.int64(1), ask, found, at)
    begin, end = start_of(word), start_of(word) + tail
    count, at = test(box, begin, end, query, np.int64(0), ask, found, at)
    if directory >= 0:
        runs = runs_of(box)
        ask = among_dead(ask, totals_of(box)[directory, 1] > 0)
        for level in range(LEVELS):
            if runs[directory, level, 1] > 0 and at >= 0:
                more, at = search_run(box, directory, np.int64(level), query, ask, found, at)
                count += more
    return count, at
