"""What sets of vertices do not meet, by weight, and how far they can grow and still miss too much."""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import kernel
from holdfast.kernels.sets import ONE, bit_of, lowest


@kernel
def weigh(columns, edges, weights, sets, order, most, out, missed):
    """missed[i] = the weight of the edges that sets[i] does not meet; columns[v] are the edges of vertex v. Where that
    is more than `most`, vertices are added in an order as long as it stays so, and out[i] are the others of the order.
    O(sets x edges / 64 x vertices), and O(missed edges) for each vertex of the order."""
    left = np.empty(edges.shape[0], np.int64)
    for i in range(sets.shape[0]):
        count, total = 0, np.int64(0)
        for q in range(columns.shape[1]):
            met = np.uint64(0)
            for w in range(sets.shape[1]):
                rest = sets[i, w]
                while rest:
                    met |= columns[w * 64 + lowest(rest), q]
                    rest &= rest - ONE
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
