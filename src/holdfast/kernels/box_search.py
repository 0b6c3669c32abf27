"""Searching one bucket of the box index.

A query is a box: for each dimension (lo, hi, hole, has_hole): lo <= value <= hi, and value != hole if there is one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holdfast.kernels.box import (
    BLOCK_BITS,
    FROM,
    LEAST,
    LEVELS,
    MORE_ORDERED_BITS,
    MOST,
    ORDERED_BITS,
    OWN,
    PYRAMID,
    UP_TO,
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
from holdfast.kernels.compiled import part
from holdfast.kernels.handle import int32_1, int64_1, int64_2

# operators, and null policies
EQ, NE, LT, LE, GT, GE, ANY = range(7)
NULL_EQUAL, NULL_DISTINCT, NULL_SQL = range(3)
_MANY = 2 << ORDERED_BITS


@part
def range_of(op, value, policy):
    """What x must be for `value op x` to hold: (lo, hi, hole, has_hole, possible). Null is LEAST."""
    if op == ANY:
        return LEAST, MOST, np.int64(0), np.int64(0), True
    if value == LEAST:
        if op == NE:
            if policy == NULL_EQUAL:
                return LEAST + 1, MOST, np.int64(0), np.int64(0), True
            return LEAST, MOST, np.int64(0), np.int64(0), policy == NULL_DISTINCT
        holds = policy == NULL_EQUAL and (op == LE or op == GE or op == EQ)
        return LEAST, LEAST, np.int64(0), np.int64(0), holds
    if op == NE:
        return (LEAST + 1 if policy == NULL_SQL else LEAST), MOST, value, np.int64(1), True
    if op == EQ:
        return value, value, np.int64(0), np.int64(0), True
    if op == LE:
        return value, MOST, np.int64(0), np.int64(0), True
    if op == GE:
        return LEAST + 1, value, np.int64(0), np.int64(0), True
    if op == LT:
        return (value + 1 if value < MOST else MOST), MOST, np.int64(0), np.int64(0), value < MOST
    lowest = LEAST + 1
    return lowest, (value - 1 if value > lowest else lowest), np.int64(0), np.int64(0), value > lowest


@part
def make_query(codes, dims, ops, rule, policy, row, query):
    """The box for a row: in dimension d, what x must be for `value op x`. Returns whether it can be met."""
    for d in range(dims.shape[0]):
        lo, hi, hole, has_hole, possible = range_of(ops[rule, d], codes[dims[d], row], policy)
        if not possible:
            return False
        query[d, 0] = lo
        query[d, 1] = hi
        query[d, 2] = hole
        query[d, 3] = has_hole
    return True


@part
def lower_bound(values, fences, start, stop, wanted):
    """The first place of a stretch of a run whose value in the first dimension is not below `wanted`. O(log).

    First among the fences, which are close together, then in one block; without branches to mispredict.
    """
    block, blocks = (start >> BLOCK_BITS) + 1, (stop - 1) >> BLOCK_BITS
    length = blocks + 1 - block
    while length > 0:
        half = length >> 1
        below = fences[block + half] < wanted
        block = block + half + 1 if below else block
        length = length - half - 1 if below else half
    start, stop = max(start, (block - 1) << BLOCK_BITS), min(stop, block << BLOCK_BITS)
    length = stop - start
    while length > 0:
        half = length >> 1
        below = values[0, start + half] < wanted
        start = start + half + 1 if below else start
        length = length - half - 1 if below else half
    return start


@part
def relation(least, most, query, d):
    """How bounds lie to the box in dimension d: 0 outside, 1 partly inside, 2 wholly inside."""
    if most < query[d, 0] or least > query[d, 1]:
        return 0
    hole, has_hole = query[d, 2], query[d, 3] != 0
    if has_hole and least == hole and most == hole:
        return 0
    if least < query[d, 0] or most > query[d, 1] or (has_hole and least <= hole <= most):
        return 1
    return 2


@part
def block_relation(blocks, at, which, query):
    """The same for a block of the pyramid, over all dimensions but the first."""
    found = 2
    for d in range(1, query.shape[0]):
        here = relation(blocks[d - 1, at, which], blocks[d - 1, at, which + 1], query, d)
        if here == 0:
            return 0
        found = min(found, here)
    return found


@part
def jump(blocks, base, place, end, query):
    """How far one can go from an aligned place because nothing is in the box there; `place` itself if not at all.

    Looks at the rest of the group of sixteen that a block belongs to, or at the group's begin up to `end`: one look
    for each level of the pyramid instead of one for each block.
    """
    for level in range(PYRAMID - 1, 0, -1):
        bits = BLOCK_BITS * (level + 1)
        size = np.int64(1) << bits
        if place & (size - 1) != 0 or place + size > end:
            continue
        group = bits + BLOCK_BITS
        group_end = ((place >> group) + 1) << group
        if group_end <= end:
            if block_relation(blocks, base[level] + (place >> bits), FROM, query) == 0:
                return group_end
        elif place & ((np.int64(1) << group) - 1) == 0:
            if block_relation(blocks, base[level] + (end >> bits) - 1, UP_TO, query) == 0:
                return (end >> bits) << bits
    return place


# --- where pairs go: `found` is the address of the lines of three arrays ----------------------------------------


@part
def pairs_of(found):
    """int64[2, room]: t and s, row ids."""
    return int64_2(found, np.int64(0))


@part
def rules_of(found):
    """int32[room]: the rules of the pairs, or nothing where there is only one."""
    return int32_1(found, np.int64(1))


@part
def row_ids_of(found):
    """int64[versions]."""
    return int64_1(found, np.int64(2))


@part
def put_stretch(found, at, ask, versions, dead, begin, end):
    """Writes the pairs of a stretch of entries, without the dead ones, and their mirror images where the question is
    for both. Returns (how many entries, the next free place)."""
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


class Ask(NamedTuple):
    """One question: who asks, in which role, for which rule, and how."""

    asker: Any  # row id
    as_t: Any  # 1 or 0
    both: Any  # whether a pair found stands for its mirror image too
    rule: Any
    counting: Any  # or listing
    live_only: Any  # whether some of the entries asked are dead


@part
def count_live(versions, dead, begin, end):
    count = np.int64(0)
    for place in range(begin, end):
        count += dead[versions[place]] == 0
    return count


@part
def take(box, versions, begin, end, ask, found, at):
    """Lists or counts a stretch of entries, all of which are in the box: (how many, next place or -1: no room)."""
    if ask.counting:
        return count_live(versions, dead_of(box), begin, end) if ask.live_only else end - begin, at
    if at + (end - begin) * (2 if ask.both else 1) > pairs_of(found).shape[1]:
        return np.int64(0), np.int64(-1)
    return put_stretch(found, at, ask, versions, dead_of(box), begin, end)


@part
def below(ordered, begin, end, wanted):
    """How many of a sorted stretch are below `wanted`. O(log)."""
    start, length = begin, end - begin
    while length > 0:
        half = length >> 1
        less = ordered[start + half] < wanted
        start = start + half + 1 if less else start
        length = length - half - 1 if less else half
    return start - begin


@part
def count_ordered(ordered, begin, end, query):
    """How many of a sorted block are in the box, which asks about no further dimension. O(log)."""
    count = end - begin if query[1, 1] == MOST else below(ordered, begin, end, query[1, 1] + 1)
    count -= below(ordered, begin, end, query[1, 0])
    if query[1, 3] != 0:
        hole = query[1, 2]
        count += below(ordered, begin, end, hole)
        count -= end - begin if hole == MOST else below(ordered, begin, end, hole + 1)
    return count


@part
def is_two_dimensional(query):
    """Whether nothing is asked about a third dimension or more."""
    for d in range(2, query.shape[0]):
        if query[d, 0] != LEAST or query[d, 1] != MOST or query[d, 3] != 0:
            return False
    return True


@part
def scan(box, begin, end, start, stop, by_order, query, ask, found, at):
    """The entries of a stretch of a run that are in the box beyond the first dimension, block by block.

    Mostly there are none: then one look at the blocks from the run's start, or to its stop, tells.
    """
    blocks, base = blocks_of(box), base_of(box)
    count, place, last = np.int64(0), begin, (end >> BLOCK_BITS) - 1
    if begin == start and last >= begin >> BLOCK_BITS and block_relation(blocks, base[0] + last, UP_TO, query) == 0:
        place = (last + 1) << BLOCK_BITS
    elif end == stop:
        first = (begin + 15) >> BLOCK_BITS
        if first <= (end - 1) >> BLOCK_BITS and block_relation(blocks, base[0] + first, FROM, query) == 0:
            end = first << BLOCK_BITS
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
        if step == 16:
            further = jump(blocks, base, place, end, query)
            if further > place:
                place = further
                continue
            known = block_relation(blocks, base[0] + (place >> BLOCK_BITS), OWN, query)
            level = 1
            while level < PYRAMID and known != 1:
                bits = BLOCK_BITS * (level + 1)
                size = np.int64(1) << bits
                if place & (size - 1) != 0 or place + size > end:
                    break
                wider = block_relation(blocks, base[level] + (place >> bits), OWN, query)
                if wider == 1:
                    break
                step, known = size, wider
                level += 1
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
def mark_inside(values, begin, count, query, first, marks):
    """marks[i] says whether entry begin + i is in the box, dimensions from `first` on. Returns how many are.

    Written without branches: they would be mispredicted, and several entries are compared at once.
    """
    for i in range(count):
        marks[i] = 1
    for d in range(first, query.shape[0]):
        column = values[d, begin : begin + count]
        lo, hi, hole, no_hole = query[d, 0], query[d, 1], query[d, 2], query[d, 3] == 0
        for i in range(count):
            marks[i] &= np.int32((column[i] >= lo) & (column[i] <= hi) & ((column[i] != hole) | no_hole))
    total = np.int32(0)
    for i in range(count):
        total += marks[i]
    return total


@part
def test(box, begin, end, query, first, ask, found, at):
    """Lists or counts those of at most 64 entries that are in the box, dimensions from `first` on."""
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
    """The entries of one run that are in the box. O(log + blocks touched + entries found).

    Many entries of two dimensions are counted by blocks in which the second one is sorted, O(entries / 32768 x log);
    not where some are dead. The next place is -2 where that has to be done first.
    """
    runs = runs_of(box)
    begin, end = runs[directory, level, 0], runs[directory, level, 0] + runs[directory, level, 1]
    values, fences, dims, count = values_of(box), fences_of(box), query.shape[0], np.int64(0)
    run_start, run_stop = begin, end
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
                more, at = scan(box, first, stop, run_start, run_stop, by_order, query, ask, found, at)
            if at < 0:
                break
            count += more
    return count, at


@part
def search_bucket(box, bucket, keys, query, asker, as_t, both, rule, counting, found, at):
    """All entries of a bucket that are in the box: (how many, next free place or -1 where there was no room for them,
    -2 where there was none to count)."""
    record = record_of(box)
    word = record[bucket, keys]
    directory, tail = directory_of(word), tail_of(word)
    if directory < 0 and tail == 0:
        return np.int64(0), at
    for d in range(query.shape[0]):
        bounds = keys + 1 + 2 * d
        if relation(record[bucket, bounds], record[bucket, bounds + 1], query, d) == 0:
            return np.int64(0), at
    ask = Ask(asker, as_t, both, rule, counting, False)
    if class_of(word) == 0 and tail == 1:
        scratch_versions_of(box)[0, 0] = head_of(word)
        return take(box, scratch_versions_of(box)[0], np.int64(0), np.int64(1), ask, found, at)
    begin, end = start_of(word), start_of(word) + tail
    count, at = test(box, begin, end, query, np.int64(0), ask, found, at)
    if directory >= 0:
        runs = runs_of(box)
        ask = Ask(asker, as_t, both, rule, counting, totals_of(box)[directory, 1] > 0)
        for level in range(LEVELS):
            if runs[directory, level, 1] > 0 and at >= 0:
                more, at = search_run(box, directory, np.int64(level), query, ask, found, at)
                count += more
    return count, at
