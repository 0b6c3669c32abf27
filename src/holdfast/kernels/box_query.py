"""What is asked of a bucket of the box index, and how blocks and sorted stretches lie to it.

A query is a box: for each dimension (lo, hi, hole, has_hole): lo <= value <= hi, and value != hole if there is one.
"""

from __future__ import annotations

import numpy as np

from holdfast.kernels.box import BLOCK_BITS, FROM, LEAST, MOST, OWN, PYRAMID, UP_TO
from holdfast.kernels.compiled import part

# operators, and null policies
EQ, NE, LT, LE, GT, GE, ANY = range(7)
NULL_EQUAL, NULL_DISTINCT, NULL_SQL = range(3)


@part
def range_of(op, value, policy):
    """The x for which `value op x` holds: (lo, hi, hole, has_hole, possible). Null is LEAST."""
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
    """Sets the box of a row: in dimension d, the x for which `value op x` holds. Returns whether there are any."""
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
def relation(least, most, query, d):
    """How bounds lie to the box in dimension d: 0 outside, 1 partly inside, 2 inside."""
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
    """How a block of the pyramid lies to the box in all dimensions but the first. O(dims)."""
    found = 2
    for d in range(1, query.shape[0]):
        here = relation(blocks[d - 1, at, which], blocks[d - 1, at, which + 1], query, d)
        if here == 0:
            return 0
        found = min(found, here)
    return found


@part
def jump(blocks, base, place, end, query):
    """The first place after `place`, which is aligned, that may be in the box; `place` if there is nothing to skip.

    Looks at the rest of the group of sixteen blocks, or at its start up to `end`: one look for each level of the
    pyramid instead of one for each block. O(levels x dims).
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


@part
def trim(blocks, base, begin, end, run, query):
    """The stretch of a run without blocks outside the box at its start or end, if one look shows that. O(dims).

    `run` is where the run begins and ends: bounds up to a block count from its begin, bounds from a block to its end.
    """
    last = (end >> BLOCK_BITS) - 1
    if begin == run[0] and last >= begin >> BLOCK_BITS and block_relation(blocks, base[0] + last, UP_TO, query) == 0:
        begin = (last + 1) << BLOCK_BITS
    elif end == run[1]:
        first = (begin + 15) >> BLOCK_BITS
        if first <= (end - 1) >> BLOCK_BITS and block_relation(blocks, base[0] + first, FROM, query) == 0:
            end = first << BLOCK_BITS
    return begin, end


@part
def next_stretch(blocks, base, place, end, query):
    """(length, relation to the box) of the largest block at an aligned place that is inside or outside the box; else
    of the block of 16. O(levels x dims)."""
    step, known = np.int64(1) << BLOCK_BITS, block_relation(blocks, base[0] + (place >> BLOCK_BITS), OWN, query)
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
    return step, known


@part
def first_from(ascending, start, length, wanted):
    """The first place of a sorted stretch whose value is not below `wanted`. O(log length), without branches."""
    while length > 0:
        half = length >> 1
        below = ascending[start + half] < wanted
        start = start + half + 1 if below else start
        length = length - half - 1 if below else half
    return start


@part
def lower_bound(values, fences, start, stop, wanted):
    """The first place of a stretch of a run whose value in the first dimension is not below `wanted`.

    O(log entries): first among the fences, which are close together, then in one block.
    """
    block, blocks = (start >> BLOCK_BITS) + 1, (stop - 1) >> BLOCK_BITS
    block = first_from(fences, block, blocks + 1 - block, wanted)
    start, stop = max(start, (block - 1) << BLOCK_BITS), min(stop, block << BLOCK_BITS)
    return first_from(values[0], start, stop - start, wanted)


@part
def count_ordered(ordered, begin, end, query):
    """How many values of a sorted block are in the second dimension of the box. O(log)."""
    length = end - begin
    count = end if query[1, 1] == MOST else first_from(ordered, begin, length, query[1, 1] + 1)
    count -= first_from(ordered, begin, length, query[1, 0])
    if query[1, 3] != 0:
        hole = query[1, 2]
        count += first_from(ordered, begin, length, hole)
        count -= end if hole == MOST else first_from(ordered, begin, length, hole + 1)
    return count


@part
def is_two_dimensional(query):
    """Whether the box is unbounded in every dimension after the second."""
    for d in range(2, query.shape[0]):
        if query[d, 0] != LEAST or query[d, 1] != MOST or query[d, 3] != 0:
            return False
    return True


@part
def mark_inside(values, begin, count, query, first, marks):
    """marks[i] = whether entry begin + i is in the box in the dimensions from `first` on. Returns how many are.

    O(entries x dims). Without branches, which would be mispredicted, so that several entries are compared at once.
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
