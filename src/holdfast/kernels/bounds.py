"""Rows in some order, in blocks with bounds: pairs are found without visiting pairs of blocks that have none.

The lowest blocks have 16 rows each, every higher block consists of eight. A block knows the least and the greatest
value of each column, and whether there is a null. So a pair of blocks is ruled out as soon as their bounds contradict
one comparison of a question, whatever the order of the rows; a good order only makes that happen early.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holdfast.kernels.compiled import inlined, kernel
from holdfast.kernels.sweep import DIFFERENT, EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, passes

LEAF, FANOUT = 16, 8  # rows of a lowest block, and blocks of a higher one
NEVER, APART, VALUE, DIFFERS = 0, 1, 2, 3  # a null satisfies nothing, meets nulls only, is a value, differs from all
NULL = np.iinfo(np.int64).min
_MOST = np.iinfo(np.int64).max


class Blocks(NamedTuple):
    """Rows in an order, and the bounds of blocks: low[column, block], high, has_null. Level l has the blocks from
    starts[l] to starts[l + 1]; the last level is one block."""

    order: Any
    starts: Any
    low: Any
    high: Any
    has_null: Any


class Question(NamedTuple):
    """A conjunction about a row and its partner: row's `ours` op partner's `theirs`, and how nulls compare."""

    ours: Any
    theirs: Any
    ops: Any
    nulls: Any


@kernel
def bound(values, blocks):
    """Fills in the bounds of the blocks. O(rows x columns)."""
    order, starts, low, high, has_null = blocks
    for c in range(values.shape[0]):
        for block in range(starts[1]):
            least, most, null = _MOST, NULL, False
            for i in range(block * LEAF, min(order.shape[0], (block + 1) * LEAF)):
                value = values[c, order[i]]
                if value == NULL:
                    null = True
                else:
                    least, most = min(least, value), max(most, value)
            low[c, block], high[c, block], has_null[c, block] = least, most, null
        for level in range(1, starts.shape[0] - 1):
            below = starts[level - 1]
            for block in range(starts[level + 1] - starts[level]):
                least, most, null = _MOST, NULL, False
                for i in range(below + block * FANOUT, min(starts[level], below + (block + 1) * FANOUT)):
                    least, most = min(least, low[c, i]), max(most, high[c, i])
                    null |= has_null[c, i]
                here = starts[level] + block
                low[c, here], high[c, here], has_null[c, here] = least, most, null


@inlined
def may_meet(low, high, has_null, their_low, their_high, they_have_null, op, nulls):
    """Whether values between the bounds, or nulls if there are any, can satisfy `ours op theirs`."""
    if low <= high and their_low <= their_high:
        if op == LESS:
            meets = low < their_high
        elif op == LESS_EQUAL:
            meets = low <= their_high
        elif op == GREATER:
            meets = high > their_low
        elif op == GREATER_EQUAL:
            meets = high >= their_low
        elif op == EQUAL:
            meets = low <= their_high and their_low <= high
        else:
            meets = low != high or their_low != their_high or low != their_low
        if meets:
            return True
    if nulls == NEVER:
        return False
    if op == DIFFERENT:
        if nulls == DIFFERS:
            return has_null or they_have_null
        return (has_null and their_low <= their_high) or (they_have_null and low <= high)
    return has_null and they_have_null and op != LESS and op != GREATER


@inlined
def may_meet_block(low, high, has_null, theirs, there, question, k):
    """Whether a value between the bounds and one of block `there` can satisfy a comparison of the question."""
    d = question.theirs[k]
    their_low, their_high, they_have_null = theirs.low[d, there], theirs.high[d, there], theirs.has_null[d, there]
    return may_meet(low, high, has_null, their_low, their_high, they_have_null, question.ops[k], question.nulls[k])


@inlined
def may_pair(mine, here, theirs, there, question):
    """Whether a row of block `here` and a partner of block `there` can satisfy the question."""
    for k in range(question.ops.shape[0]):
        c = question.ours[k]
        low, high, has_null = mine.low[c, here], mine.high[c, here], mine.has_null[c, here]
        if not may_meet_block(low, high, has_null, theirs, there, question, k):
            return False
    return True


@inlined
def may_be_partner(values, row, theirs, there, question):
    """Whether a row and a partner of block `there` can satisfy the question."""
    for k in range(question.ops.shape[0]):
        x = values[question.ours[k], row]
        low, high = bounds_of(x)
        if not may_meet_block(low, high, x == NULL, theirs, there, question, k):
            return False
    return True


@inlined
def bounds_of(value):
    """The bounds of a block with this value alone."""
    return (_MOST, NULL) if value == NULL else (value, value)


@inlined
def are_pair(values, row, partner, question):
    """Whether a row and its partner satisfy the question."""
    for k in range(question.ops.shape[0]):
        x, y = values[question.ours[k], row], values[question.theirs[k], partner]
        if x == NULL or y == NULL:
            (low, high), (their_low, their_high) = bounds_of(x), bounds_of(y)
            if not may_meet(low, high, x == NULL, their_low, their_high, y == NULL, question.ops[k], question.nulls[k]):
                return False
        elif not passes(x, y, question.ops[k]):
            return False
    return True


@kernel
def find_partners(rows, theirs, values, is_live, question, most_visits, out):
    """As `find_pairs`, for a few rows in turn: each alone rules out more blocks than a block of them would."""
    found, visits, levels = 0, 0, theirs.starts.shape[0] - 1
    stack = np.empty((levels * FANOUT, 2), np.int64)
    for row in rows if theirs.order.shape[0] and out.shape[0] else rows[:0]:
        stack[0] = levels - 1, 0
        height = 1 if may_be_partner(values, row, theirs, theirs.starts[levels - 1], question) else 0
        while height > 0:
            height -= 1
            level, block = stack[height]
            if visits > most_visits:
                return found, visits
            if level > 0:
                below = theirs.starts[level - 1]
                last = min(theirs.starts[level] - below, (block + 1) * FANOUT)
                visits += FANOUT
                for child in range(block * FANOUT, last):
                    if may_be_partner(values, row, theirs, below + child, question):
                        stack[height] = level - 1, child
                        height += 1
                continue
            visits += LEAF
            for j in range(block * LEAF, min(theirs.order.shape[0], (block + 1) * LEAF)):
                partner = np.int64(theirs.order[j])
                if are_pair(values, row, partner, question) and partner != row and is_live[partner]:
                    out[found, 0], out[found, 1] = row, partner
                    found += 1
                    if found == out.shape[0]:
                        return found, visits
    return found, visits


@kernel
def find_pairs(mine, theirs, values, is_live, question, most_visits, out):
    """out[i] = (row, partner), different live rows of `mine` and of `theirs` that satisfy the question. Returns (how
    many, visits); as soon as there are as many as there is room for, or more than `most_visits`, the rest is left out.
    A visit is a look at two blocks, at a row and a block, or at two rows. O(visits)."""
    found, visits, levels = 0, 0, mine.starts.shape[0] - 1
    stack = np.empty(((levels + theirs.starts.shape[0]) * FANOUT, 4), np.int64)
    stack[0] = levels - 1, 0, theirs.starts.shape[0] - 2, 0
    height = 1 if mine.order.shape[0] and theirs.order.shape[0] and out.shape[0] else 0
    while height > 0:
        height -= 1
        level, block, their_level, their_block = stack[height]
        visits += 1
        if visits > most_visits:
            break
        here, there = mine.starts[level] + block, theirs.starts[their_level] + their_block
        if not may_pair(mine, here, theirs, there, question):
            continue
        if level > their_level:
            last = min(mine.starts[level] - mine.starts[level - 1], (block + 1) * FANOUT)
            for child in range(block * FANOUT, last):
                stack[height] = level - 1, child, their_level, their_block
                height += 1
        elif their_level > 0:
            last = min(theirs.starts[their_level] - theirs.starts[their_level - 1], (their_block + 1) * FANOUT)
            for child in range(their_block * FANOUT, last):
                stack[height] = level, block, their_level - 1, child
                height += 1
        else:
            for i in range(block * LEAF, min(mine.order.shape[0], (block + 1) * LEAF)):
                row = np.int64(mine.order[i])
                visits += 1
                if not is_live[row] or not may_be_partner(values, row, theirs, there, question):
                    continue
                for j in range(their_block * LEAF, min(theirs.order.shape[0], (their_block + 1) * LEAF)):
                    partner = np.int64(theirs.order[j])
                    visits += 1
                    if are_pair(values, row, partner, question) and partner != row and is_live[partner]:
                        out[found, 0], out[found, 1] = row, partner
                        found += 1
                        if found == out.shape[0]:
                            return found, visits
    return found, visits
