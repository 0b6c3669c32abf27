"""A prefix tree of agree-sets in arrays: a node for each column of a path, parents before children.

skip[node] is the first node that is not below it; its own entries are first[node] to first[node + 1] of the sorted
entries. The columns of a path ascend, so a subtree whose column is past the next wanted one cannot have it.
"""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import kernel
from holdfast.kernels.sets import ONE, lowest


@kernel
def build_tree(sets, column, skip, first):
    """The tree of sets that are sorted so that those with a common beginning stand together, the shorter one first.
    Returns the number of nodes; node 0 is the root, the empty set. O(bits of the sets)."""
    words = sets.shape[1]
    path = np.empty(64 * words + 1, np.int64)
    depth, nodes = 0, 1
    path[0] = 0
    column[0], first[0] = -1, 0
    for i in range(sets.shape[0]):
        kept, going = 0, True
        for w in range(words):
            rest = sets[i, w]
            while rest:
                wanted = 64 * w + lowest(rest)
                rest &= rest - ONE
                if going and kept < depth and column[path[kept + 1]] == wanted:
                    kept += 1
                    continue
                if going:
                    going = False
                    while depth > kept:
                        skip[path[depth]] = nodes
                        depth -= 1
                column[nodes], first[nodes] = wanted, i
                depth += 1
                path[depth] = nodes
                nodes += 1
    while depth >= 0:
        skip[path[depth]] = nodes
        depth -= 1
    first[nodes] = sets.shape[0]
    return nodes


@kernel
def count_specialisations(column, skip, first, entries, counts, differ, wanted, right):
    """The sum of counts of the entries whose set has all wanted columns (ascending) and that differ in `right`, or of
    all of them where that is negative. One pass over the tree without what cannot have them."""
    total, node, nodes = np.int64(0), np.int64(0), skip[0]
    depth_of = np.zeros(wanted.shape[0] + 1, np.int64)  # where the subtree of each wanted column ends
    have = 0
    depth_of[0] = nodes
    while node < nodes:
        while have > 0 and node >= depth_of[have]:
            have -= 1
        at = column[node]
        if at == right and right >= 0:
            node = skip[node]
            continue
        if have < wanted.shape[0] and at >= wanted[have]:
            if at > wanted[have]:
                node = skip[node]
                continue
            have += 1
            depth_of[have] = skip[node]
        if have == wanted.shape[0]:
            for e in range(first[node], first[node + 1]):
                entry = entries[e]
                if right < 0 or differ[entry, right >> 6] >> np.uint64(right & 63) & ONE:
                    total += counts[entry]
        node += 1
    return total


@kernel
def count_among(sets, differ, counts, begin, wanted, right):
    """The same for entries that are in no tree, from `begin` on: one by one."""
    total = np.int64(0)
    for i in range(begin, sets.shape[0]):
        has = right < 0 or differ[i, right >> 6] >> np.uint64(right & 63) & ONE
        for k in range(wanted.shape[0]):
            has = has and sets[i, wanted[k] >> 6] >> np.uint64(wanted[k] & 63) & ONE
        if has:
            total += counts[i]
    return total
