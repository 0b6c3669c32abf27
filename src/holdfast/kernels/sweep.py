"""A pair of different rows that satisfies two or three comparisons within groups, by one pass over sorted rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holdfast.kernels.compiled import inlined, kernel

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, DIFFERENT, EQUAL = 0, 1, 2, 3, 4, 5
_NOBODY = -1


class SweptSide(NamedTuple):
    """The rows of one role, by group and then by `first`, and what is compared, for all rows of the table."""

    rows: Any
    group: Any  # [row]
    first: Any  # [row]
    rank: Any  # [row], from 1 on; or empty
    last: Any  # [row]


@kernel
def by_group(rows, group, starts, out):
    """out = the rows by group, otherwise in their order; starts[g] is where group g begins, and moves on. O(rows)."""
    for row in rows:
        out[starts[group[row]]] = row
        starts[group[row]] += 1


@inlined
def passes(a, b, op):
    """Whether `a op b` holds."""
    if op == LESS:
        return a < b
    if op == LESS_EQUAL:
        return a <= b
    if op == GREATER:
        return a > b
    if op == GREATER_EQUAL:
        return a >= b
    if op == EQUAL:
        return a == b
    return a != b


@kernel
def find_pair(t_side, s_side, strict, op):
    """(t, s) of different rows of one group with t.first <= s.first (< if strict) and t.last op s.last; or (-1, -1).

    Of the rows t before a row s the two least and the two greatest in `last` are enough: if any of them satisfies the
    comparison with s, one of these does that is not s itself. O(rows).
    """
    rows_t, group_t, a_t, _, b_t = t_side
    rows_s, group_s, a_s, _, b_s = s_side
    i, j = 0, 0
    while j < rows_s.shape[0]:
        group = group_s[rows_s[j]]
        while i < rows_t.shape[0] and group_t[rows_t[i]] < group:
            i += 1
        least = second_least = greatest = second_greatest = _NOBODY
        while j < rows_s.shape[0] and group_s[rows_s[j]] == group:
            s = rows_s[j]
            j += 1
            while i < rows_t.shape[0] and group_t[rows_t[i]] == group:
                t = rows_t[i]
                if a_t[t] > a_s[s] or (strict and a_t[t] == a_s[s]):
                    break
                i += 1
                if least == _NOBODY or b_t[t] < b_t[least]:
                    least, second_least = t, least
                elif second_least == _NOBODY or b_t[t] < b_t[second_least]:
                    second_least = t
                if greatest == _NOBODY or b_t[t] > b_t[greatest]:
                    greatest, second_greatest = t, greatest
                elif second_greatest == _NOBODY or b_t[t] > b_t[second_greatest]:
                    second_greatest = t
            for t in (least, second_least, greatest, second_greatest):
                if t != _NOBODY and t != s and passes(b_t[t], b_s[s], op):
                    return t, s
    return np.int64(_NOBODY), np.int64(_NOBODY)


@inlined
def keep_extremes(extremes, node, t, c_t):
    """Keeps the two rows of a node that are least in c, and the two that are greatest."""
    if extremes[node, 0] == _NOBODY or c_t[t] < c_t[extremes[node, 0]]:
        extremes[node, 0], extremes[node, 1] = t, extremes[node, 0]
    elif extremes[node, 1] == _NOBODY or c_t[t] < c_t[extremes[node, 1]]:
        extremes[node, 1] = t
    if extremes[node, 2] == _NOBODY or c_t[t] > c_t[extremes[node, 2]]:
        extremes[node, 2], extremes[node, 3] = t, extremes[node, 2]
    elif extremes[node, 3] == _NOBODY or c_t[t] > c_t[extremes[node, 3]]:
        extremes[node, 3] = t


@kernel
def find_in_three(t_side, s_side, strict, strict_rank, op, extremes):
    """As `find_pair`, with t.rank <= s.rank (< if strict_rank) as well. The rows t before a row s are in a binary
    indexed tree over the ranks, extremes[rank], which is -1 everywhere and left so if there is no pair.
    O(rows log ranks)."""
    rows_t, group_t, a_t, b_t, c_t = t_side
    rows_s, group_s, a_s, b_s, c_s = s_side
    i, j = 0, 0
    while j < rows_s.shape[0]:
        group = group_s[rows_s[j]]
        while i < rows_t.shape[0] and group_t[rows_t[i]] < group:
            i += 1
        first = i
        while j < rows_s.shape[0] and group_s[rows_s[j]] == group:
            s = rows_s[j]
            j += 1
            while i < rows_t.shape[0] and group_t[rows_t[i]] == group:
                t = rows_t[i]
                if a_t[t] > a_s[s] or (strict and a_t[t] == a_s[s]):
                    break
                i += 1
                node = b_t[t]
                while node < extremes.shape[0]:
                    keep_extremes(extremes, node, t, c_t)
                    node += node & -node
            node = b_s[s] - 1 if strict_rank else b_s[s]
            while node > 0:
                for k in range(4):
                    t = extremes[node, k]
                    if t != _NOBODY and t != s and passes(c_t[t], c_s[s], op):
                        return t, s
                node -= node & -node
        for k in range(first, i):
            node = b_t[rows_t[k]]
            while node < extremes.shape[0]:
                extremes[node, :] = _NOBODY
                node += node & -node
    return np.int64(_NOBODY), np.int64(_NOBODY)
