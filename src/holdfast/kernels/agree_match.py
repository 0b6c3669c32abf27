"""Agree-sets of the pairs of inserted rows that agree on some columns: found by hash, without comparing all pairs."""

from __future__ import annotations

import numpy as np

from holdfast.kernels.agree import empty_counts, grown
from holdfast.kernels.compiled import kernel, part
from holdfast.kernels.key_map import probe, same_row
from holdfast.kernels.sets import ONE, place_of


@part
def can_agree(known, columns, row):
    """Whether a row has a value that can agree with another in each of the columns. O(columns)."""
    for i in range(columns.shape[0]):
        c = columns[i]
        if known[row, c >> 6] >> np.uint64(c & 63) & ONE == 0:
            return False
    return True


@part
def surely_agree(codes, known, columns, t, s):
    """Whether two rows agree on the columns. O(columns)."""
    return same_row(codes, t, codes, s, columns) and can_agree(known, columns, t)


@kernel
def count_matches(codes, known, columns, ends, lead, sql, most):
    """(sets, counts, pairs, complete) of the pairs i < j, i among the first `lead` rows, that agree on the columns but
    not on all of `ends` (empty: any). `complete` is False if there were more than `most` pairs; the rest is left out.
    O(rows + matches x columns)."""
    rows, words = codes.shape[1], known.shape[1]
    size = 1
    while size < 4 * lead:
        size *= 2
    heads, older = np.zeros(size, np.int32), np.zeros(lead, np.int32)
    for i in range(lead):  # chains of the leading rows, the last one first
        if can_agree(known, columns, i):
            place, free = probe(heads, codes, codes, columns, i)
            place = free if place < 0 else place
            older[i] = heads[place]
            heads[place] = i + 1
    room, used, matches = 4096, 0, 0
    found = empty_counts(room, 2 * words if sql else words)
    for j in range(rows):
        place, _ = probe(heads, codes, codes, columns, j)
        if place < 0 or not can_agree(known, columns, j):
            continue
        i = np.int64(heads[place]) - 1
        while i >= 0:
            if i < j and (ends.shape[0] == 0 or not surely_agree(codes, known, ends, i, j)):
                if matches == most:
                    return found.sets[:used], found.counts[:used], found.pairs[:used], False
                matches += 1
                if used + 1 >= room:
                    room *= 4
                    found = grown(found, used, room)
                agree_set(codes, known, i, j, sql, found.sets, used)
                at = place_of(found.table, found.sets, found.sets, used)
                if found.table[at] == 0:
                    found.pairs[used, 0], found.pairs[used, 1] = i, j
                    used += 1
                    found.table[at] = used
                found.counts[found.table[at] - 1] += 1
            i = np.int64(older[i]) - 1
    return found.sets[:used], found.counts[:used], found.pairs[:used], True


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
