"""Agree-sets of given pairs of rows."""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import kernel, part
from holdfast.kernels.sets import ONE


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
