"""Agree-sets of the pairs of coming rows that agree on some columns: found by hash, not by looking at all pairs."""

from __future__ import annotations

import numpy as np

from holdfast.kernels.agree import grown
from holdfast.kernels.compiled import kernel, part
from holdfast.kernels.hashing import hash_row
from holdfast.kernels.key_map import same_row
from holdfast.kernels.sets import ONE, place_of


@part
def can_agree(known, columns, row):
    """Whether a row has a value in each of the columns that can agree with another."""
    for i in range(columns.shape[0]):
        c = columns[i]
        if known[row, c >> 6] >> np.uint64(c & 63) & ONE == 0:
            return False
    return True


@part
def surely_agree(codes, known, columns, t, s):
    return same_row(codes, t, codes, s, columns) and can_agree(known, columns, t)


@kernel
def count_matches(codes, known, columns, ends, lead, sql, most):
    """(sets, counts, pairs, complete) of the pairs i < j, i among the first `lead` rows, that agree on the columns but
    not on all of `ends`, unless there are none; complete is false where there were more than `most`, and the rest was
    left out. O(rows + matches x columns)."""
    rows, words = codes.shape[1], known.shape[1]
    width = 2 * words if sql else words
    mask = np.uint64(1)
    while mask < 4 * lead:
        mask <<= ONE
    heads = np.zeros(mask, np.int32)
    mask -= ONE
    older = np.zeros(lead, np.int32)
    for i in range(lead):  # chains of the leading rows, the last one first
        if can_agree(known, columns, i):
            at = hash_row(codes, columns, i) & mask
            while heads[at] != 0 and not same_row(codes, heads[at] - 1, codes, i, columns):
                at = (at + ONE) & mask
            older[i] = heads[at]
            heads[at] = i + 1
    room, used, matches = 4096, 0, 0
    table = np.zeros(4 * room, np.int32)
    sets = np.empty((room, width), np.uint64)
    counts = np.zeros(room, np.int64)
    pairs = np.empty((room, 2), np.int64)
    for j in range(rows):
        at = hash_row(codes, columns, j) & mask
        while heads[at] != 0 and not same_row(codes, heads[at] - 1, codes, j, columns):
            at = (at + ONE) & mask
        i = np.int64(heads[at]) - 1
        if i < 0 or not can_agree(known, columns, j):
            continue
        while i >= 0:
            if i < j and (ends.shape[0] == 0 or not surely_agree(codes, known, ends, i, j)):
                if matches == most:
                    return sets[:used], counts[:used], pairs[:used], False
                matches += 1
                if used + 1 >= room:
                    room *= 4
                    table, sets, counts, pairs = grown(sets[:used], counts[:used], pairs[:used], room)
                agree_set(codes, known, i, j, sql, sets, used)
                place = place_of(table, sets, sets, used)
                if table[place] == 0:
                    pairs[used, 0], pairs[used, 1] = i, j
                    used += 1
                    table[place] = used
                counts[table[place] - 1] += 1
            i = np.int64(older[i]) - 1
    return sets[:used], counts[:used], pairs[:used], True


@part
def agree_set(codes, known, t, s, sql, out, place):
    """out[place] = the agree-set of two rows, under `sql` followed by the columns in which they differ. O(columns)."""
    words = known.shape[1]
    for w in range(words):
        found = np.uint64(0)
        for c in range(64 * w, min(codes.shape[0], 64 * w + 64)):
            if codes[c, t] == codes[c, s]:
                found |= ONE << np.uint64(c & 63)
        out[place, w] = found & known[t, w]
        if sql:
            out[place, words + w] = known[t, w] & known[s, w] & ~found


@kernel
def sets_of_pairs(codes, known, pairs, sql, out):
    """out[i] = the agree-set of rows pairs[i]. O(columns) for each pair."""
    for i in range(pairs.shape[0]):
        agree_set(codes, known, pairs[i, 0], pairs[i, 1], sql, out, i)
