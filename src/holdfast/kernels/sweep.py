"""A pair of different rows that satisfies two comparisons within groups, by one pass over sorted rows."""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import kernel, part

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, DIFFERENT = 0, 1, 2, 3, 4
_NOBODY = -1


@kernel
def by_group(rows, group, starts, out):
    """out = the rows by group, otherwise as they are; starts[g] is where group g begins, and moves on. O(rows)."""
    for row in rows:
        out[starts[group[row]]] = row
        starts[group[row]] += 1


@part
def passes(a, b, op):
    if op == LESS:
        return a < b
    if op == LESS_EQUAL:
        return a <= b
    if op == GREATER:
        return a > b
    if op == GREATER_EQUAL:
        return a >= b
    return a != b


@kernel
def find_pair(rows_t, rows_s, group_t, group_s, a_t, a_s, b_t, b_s, strict, op):
    """(t, s) of different rows of one group with t.a <= s.a, or < with `strict`, and t.b op s.b; or (-1, -1). Rows come
    by group and then by a. Of the rows t before a row s the two least and the two greatest in b are enough: if any of
    them passes with s, one of these does that is not s itself. O(rows)."""
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
