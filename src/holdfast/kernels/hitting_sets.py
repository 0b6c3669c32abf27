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

from holdfast.kernels.compiled import kernel, part
from holdfast.kernels.sets import ONE, bit_of, lowest, ones

DONE, PAUSED = 0, 1
ROOT, DEPTH, BASE, FOUND = 0, 1, 2, 3  # the places of `at`
_NOWHERE, _PRUNED, _COVER = -1, 0, 1
_CHUNK = 64  # words of edges that are looked at together
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


@part
def choose(depth, edges, unmet, allowed, tried, most):
    """Sets tried[depth]: the allowed vertices of the unmet edge that has fewest of them, or, for the last vertex that
    may be added, those that all unmet edges have. They are no longer allowed. Returns 1 where nothing is unmet, 0
    where some edge can no longer be met, else -1. O(unmet edges)."""
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
def start(root, within, edges, columns, unmet, twice, allowed, chosen):
    """Puts the place at a root: its vertices are chosen, those of `within` are allowed. Returns the depth, or -1 where
    some vertex of the root is not critical."""
    depth = 0
    count = edges.shape[0]
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
            if not add(vertex, depth, columns, unmet, twice, chosen):
                return -1
            allowed[depth + 1] = allowed[depth]
            chosen[depth] = vertex
            depth += 1
    return depth


@part
def add(vertex, depth, columns, unmet, twice, chosen):
    """Sets unmet and twice of depth + 1 for one vertex more; whether all vertices before it are still critical."""
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


@part
def keep_to_groups(depth, allowed, chosen, group, members, most):
    """Takes from allowed[depth], after `depth` chosen vertices, the last of a group, and other groups where there are
    enough. O(depth^2)."""
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


@kernel
def search(edges, columns, roots, within, most, group, members, most_groups, place, out, steps):
    """Minimal covers of at most `most` vertices that contain a root and otherwise vertices of `within`: into `out`, as
    far as there is room and for at most so many steps. Returns PAUSED where there is more to search: call again. An
    empty `group` is none at all.

    Several roots may lead to the same cover. O(edges / 64 x vertices of the cover) for each node.
    """
    unmet, twice, allowed, tried, chosen, at = place
    depth, base, found = at[DEPTH], at[BASE], 0
    while found < out.shape[0] and steps > 0:
        steps -= 1
        if depth < base:  # the next root
            if at[ROOT] == roots.shape[0]:
                at[DEPTH], at[BASE], at[FOUND] = depth, base, found
                return DONE
            root = at[ROOT]
            at[ROOT] += 1
            base = start(roots[root], within, edges, columns, unmet, twice, allowed, chosen)
            if base < 0 or base > most:
                depth, base = -1, 0
                continue
            depth = base
            if group.shape[0]:
                keep_to_groups(depth, allowed, chosen, group, members, most_groups)
            what = choose(depth, edges, unmet, allowed, tried, most)
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
        if not add(vertex, depth, columns, unmet, twice, chosen):
            continue
        allowed[depth + 1] = allowed[depth]
        allowed[depth, vertex >> 6] |= bit_of(vertex)
        chosen[depth] = vertex
        if group.shape[0]:
            keep_to_groups(depth + 1, allowed, chosen, group, members, most_groups)
        what = choose(depth + 1, edges, unmet, allowed, tried, most)
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
    """out[i] = whether each vertex of covers[i] meets some edge alone. O(covers x vertices x edges / 64), less where
    such edges are soon found."""
    vertices = np.empty(columns.shape[0], np.int64)
    once, twice = np.zeros(_CHUNK, np.uint64), np.zeros(_CHUNK, np.uint64)
    for i in range(covers.shape[0]):
        count = 0
        for w in range(covers.shape[1]):
            rest = covers[i, w]
            while rest:
                vertices[count] = w * 64 + lowest(rest)
                rest &= rest - ONE
                count += 1
        for begin in range(0, columns.shape[1], _CHUNK):
            if count == 0:
                break
            end = min(begin + _CHUNK, columns.shape[1])
            once[:], twice[:] = 0, 0
            for w in range(covers.shape[1]):
                rest = covers[i, w]
                while rest:
                    met = columns[w * 64 + lowest(rest), begin:end]
                    rest &= rest - ONE
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
    """out[i] = the first of so many edges that covers[i] does not meet, or -1. O(covers x vertices x edges / 64), less
    where one is soon found."""
    met = np.zeros(_CHUNK, np.uint64)
    for i in range(covers.shape[0]):
        out[i] = -1
        for begin in range(0, columns.shape[1], _CHUNK):
            end = min(begin + _CHUNK, columns.shape[1])
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
