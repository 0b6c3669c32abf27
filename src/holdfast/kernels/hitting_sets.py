"""Minimal hitting sets (covers): sets of vertices that meet every edge, and would not without any one of them.

MMCS (Murakami and Uno, 2014) on bitsets over the edges: columns[v] are the edges of vertex v. A vertex of a set is
critical while some edge is met by it alone; a set with a vertex that is not cannot become minimal by growing.
The search keeps its place in arrays, so that it can be stopped at any node and continued.

Vertices may be in groups, members[group]: then a cover has vertices of a limited number of groups, and never a whole
group. Both are true of every part of such a cover, so that a search along parts misses none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from holdfast.kernels.compiled import inlined, kernel, part
from holdfast.kernels.sets import ONE, bit_of, lowest, members_of, ones

DONE, PAUSED = 0, 1
ROOT, DEPTH, BASE, FOUND = 0, 1, 2, 3  # the places of `at`
_NOWHERE, _PRUNED, _COVER = -1, 0, 1
CHUNK = 64  # words of edges that are looked at together
_MANY = np.int64(1) << np.int64(60)


class SearchState(NamedTuple):
    """Where a search is: for each depth what is not met, what is met twice, what may still be added and what is to be
    tried; the vertices chosen so far; and `at`: the root that is searched, the depth, its least, how many were found.
    """

    unmet: np.ndarray
    twice: np.ndarray
    allowed: np.ndarray
    tried: np.ndarray
    chosen: np.ndarray
    at: np.ndarray


class SearchLimits(NamedTuple):
    """What hitting sets are searched: of at most `most` vertices, all of them of `within` or of a root, and of at most
    `most_groups` groups. An empty `group`: there are no groups."""

    within: np.ndarray  # [word]
    most: int
    group: np.ndarray  # [vertex]
    members: np.ndarray  # [group, word]
    most_groups: int


@inlined
def choose(depth, edges, state, most):
    """Sets tried[depth]: the allowed vertices of the unmet edge that has fewest of them, or, for the last vertex that
    may be added, those that all unmet edges have. They are no longer allowed. Returns 1 where nothing is unmet, 0
    where some edge can no longer be met, else -1. O(unmet edges)."""
    unmet, allowed, tried = state.unmet, state.allowed, state.tried
    words, last = allowed.shape[1], most - depth == 1
    fewest, best, met = _MANY, 0, True
    if last:
        tried[depth] = allowed[depth]
    for q in range(unmet.shape[1]):
        rest = unmet[depth, q]
        while rest:
            met = False
            if depth >= most:
                return _PRUNED
            edge = q * 64 + lowest(rest)
            rest &= rest - ONE
            if last:
                left = np.uint64(0)
                for w in range(words):
                    tried[depth, w] &= edges[edge, w]
                    left |= tried[depth, w]
                if left == 0:
                    return _PRUNED
            else:
                count = 0
                for w in range(words):
                    count += ones(edges[edge, w] & allowed[depth, w])
                if count == 0:
                    return _PRUNED
                if count < fewest:
                    fewest, best = count, edge
    if met:
        return _COVER
    for w in range(words):
        if not last:
            tried[depth, w] = allowed[depth, w] & edges[best, w]
        allowed[depth, w] &= ~tried[depth, w]
    return _NOWHERE


@part
def start(root, within, edges, columns, state):
    """Starts at a root: its vertices are chosen, those of `within` are allowed. Returns the depth, or -1 if some vertex
    of the root is not critical. O(edges / 64 x depth^2)."""
    unmet, twice, allowed, chosen = state.unmet, state.twice, state.allowed, state.chosen
    depth, count = 0, edges.shape[0]
    for q in range(unmet.shape[1]):
        left = min(count - 64 * q, 64)
        unmet[0, q] = ~np.uint64(0) if left == 64 else bit_of(left) - ONE
        twice[0, q] = 0
    for w in range(within.shape[0]):
        allowed[0, w] = within[w] & ~root[w]
    for w in range(root.shape[0]):
        rest = root[w]
        while rest:
            vertex = w * 64 + lowest(rest)
            rest &= rest - ONE
            if not add(vertex, depth, columns, state):
                return -1
            allowed[depth + 1] = allowed[depth]
            chosen[depth] = vertex
            depth += 1
    return depth


@inlined
def add(vertex, depth, columns, state):
    """Sets unmet and twice of depth + 1 for one more vertex. Returns whether all earlier vertices are still critical.
    O(edges / 64 x depth)."""
    unmet, twice, chosen = state.unmet, state.twice, state.chosen
    for q in range(unmet.shape[1]):
        twice[depth + 1, q] = twice[depth, q] | (~unmet[depth, q] & columns[vertex, q])
    for k in range(depth):
        alone = np.uint64(0)
        for q in range(unmet.shape[1]):
            alone |= columns[chosen[k], q] & ~twice[depth + 1, q]
        if alone == 0:
            return False
    for q in range(unmet.shape[1]):
        unmet[depth + 1, q] = unmet[depth, q] & ~columns[vertex, q]
    return True


@inlined
def keep_to_groups(depth, state, limits):
    """Removes from allowed[depth] what would complete a group and, at the limit of groups, the vertices of all others.
    O(depth^2)."""
    allowed, chosen, group, members, most = (
        state.allowed,
        state.chosen,
        limits.group,
        limits.members,
        limits.most_groups,
    )
    used = 0
    for k in range(depth):
        mine, same = group[chosen[k]], 0
        fresh = True
        for other in range(depth):
            if group[chosen[other]] == mine:
                same += 1
                fresh = fresh and other >= k
        used += 1 if fresh else 0
        size = 0
        for w in range(members.shape[1]):
            size += ones(members[mine, w])
        if same >= size - 1:
            for w in range(members.shape[1]):
                allowed[depth, w] &= ~members[mine, w]
    if used >= most:
        for w in range(members.shape[1]):
            mask = np.uint64(0)
            for k in range(depth):
                mask |= members[group[chosen[k]], w]
            allowed[depth, w] &= mask


@inlined
def open_node(depth, edges, limits, state):
    """Applies the limits of groups to a node and chooses what it tries; returns what `choose` does."""
    if limits.group.shape[0]:
        keep_to_groups(depth, state, limits)
    return choose(depth, edges, state, limits.most)


@kernel
def search(edges, columns, roots, limits, state, out, steps):
    """Writes the minimal hitting sets that contain a root, within limits, to `out`: as many as it has room for, in at
    most so many steps; state.at[FOUND] counts them. Returns PAUSED if the search is not finished: call again. Several
    roots may lead to the same hitting set. O(edges / 64 x depth) for each node."""
    at, tried, chosen = state.at, state.tried, state.chosen
    depth, base, found = at[DEPTH], at[BASE], 0
    while found < out.shape[0] and steps > 0:
        steps -= 1
        if depth < base:  # the next root
            if at[ROOT] == roots.shape[0]:
                at[DEPTH], at[BASE], at[FOUND] = depth, base, found
                return DONE
            root = at[ROOT]
            at[ROOT] += 1
            base = start(roots[root], limits.within, edges, columns, state)
            if base < 0 or base > limits.most:
                depth, base = -1, 0
                continue
            depth = base
            what = open_node(depth, edges, limits, state)
            if what >= 0:
                if what == _COVER:
                    out[found] = roots[root]
                    found += 1
                depth -= 1
            continue
        vertex = -1
        for w in range(tried.shape[1]):
            if tried[depth, w]:
                vertex = w * 64 + lowest(tried[depth, w])
                tried[depth, w] &= tried[depth, w] - ONE
                break
        if vertex < 0:
            depth -= 1
            continue
        if not add(vertex, depth, columns, state):
            continue
        state.allowed[depth + 1] = state.allowed[depth]
        state.allowed[depth, vertex >> 6] |= bit_of(vertex)
        chosen[depth] = vertex
        what = open_node(depth + 1, edges, limits, state)
        if what == _COVER:
            out[found] = 0
            for k in range(depth + 1):
                out[found, chosen[k] >> 6] |= bit_of(chosen[k])
            found += 1
        elif what == _NOWHERE:
            depth += 1
    at[DEPTH], at[BASE], at[FOUND] = depth, base, found
    return PAUSED


@kernel
def all_critical(columns, covers, out):
    """out[i] = whether each vertex of covers[i] alone meets some edge. O(covers x vertices x edges / 64), less if such
    edges come early."""
    chosen, vertices = np.empty(columns.shape[0], np.int64), np.empty(columns.shape[0], np.int64)
    once, twice = np.zeros(CHUNK, np.uint64), np.zeros(CHUNK, np.uint64)
    for i in range(covers.shape[0]):
        count = members_of(covers, i, vertices)
        chosen[:count] = vertices[:count]
        size = count
        for begin in range(0, columns.shape[1], CHUNK):
            if count == 0:
                break
            end = min(begin + CHUNK, columns.shape[1])
            once[:], twice[:] = 0, 0
            for k in range(size):
                met = columns[chosen[k], begin:end]
                for q in range(end - begin):
                    twice[q] |= once[q] & met[q]
                    once[q] |= met[q]
            k = 0
            while k < count:  # those without such an edge so far
                met, alone = columns[vertices[k], begin:end], np.uint64(0)
                for q in range(end - begin):
                    alone |= met[q] & ~twice[q]
                if alone:
                    count -= 1
                    vertices[k] = vertices[count]
                else:
                    k += 1
        out[i] = count == 0


@kernel
def first_missed(columns, count, covers, out):
    """out[i] = the first of `count` edges that covers[i] does not meet, or -1. O(covers x vertices x edges / 64), less
    if one comes early."""
    met = np.zeros(CHUNK, np.uint64)
    for i in range(covers.shape[0]):
        out[i] = -1
        for begin in range(0, columns.shape[1], CHUNK):
            end = min(begin + CHUNK, columns.shape[1])
            met[:] = 0
            for w in range(covers.shape[1]):
                rest = covers[i, w]
                while rest:
                    column = columns[w * 64 + lowest(rest), begin:end]
                    rest &= rest - ONE
                    for q in range(end - begin):
                        met[q] |= column[q]
            for q in range(end - begin):
                if ~met[q]:
                    edge = 64 * (begin + q) + lowest(~met[q])
                    out[i] = edge if edge < count else -1
                    break
            if out[i] >= 0:
                break
