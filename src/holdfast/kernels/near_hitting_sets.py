"""The weight of the edges that sets of vertices do not meet, and how far a set can grow while it misses too much."""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import kernel
from holdfast.kernels.sets import ONE, bit_of, lowest, members_of


@kernel
def weigh(columns, edges, weights, sets, order, most, out, missed):
    """missed[i] = the weight of the edges that sets[i] does not meet; columns[v] are the edges of vertex v. Where that
    exceeds `most`, vertices are added in an order while it still does, and out[i] = the other vertices of the order.
    O(sets x edges / 64 x vertices), and O(missed edges) for each vertex of the order."""
    left, vertices = np.empty(edges.shape[0], np.int64), np.empty(columns.shape[0], np.int64)
    for i in range(sets.shape[0]):
        count, total, size = 0, np.int64(0), members_of(sets, i, vertices)
        for q in range(columns.shape[1]):
            met = np.uint64(0)
            for k in range(size):
                met |= columns[vertices[k], q]
            open_ = ~met
            while open_:
                edge = 64 * q + lowest(open_)
                open_ &= open_ - ONE
                if edge < edges.shape[0]:
                    left[count] = edge
                    count += 1
                    total += weights[edge]
        missed[i] = total
        if total <= most:
            continue
        for vertex in order:
            word, bit = vertex >> 6, bit_of(vertex)
            if sets[i, word] & bit:
                continue
            total = np.int64(0)
            for k in range(count):
                if not edges[left[k], word] & bit:
                    total += weights[left[k]]
            if total <= most:
                out[i, word] |= bit
                continue
            kept = 0
            for k in range(count):
                if not edges[left[k], word] & bit:
                    left[kept] = left[k]
                    kept += 1
            count = kept
