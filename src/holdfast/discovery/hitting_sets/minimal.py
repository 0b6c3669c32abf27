"""All minimal hitting sets of a family of edges, and how they change when edges are added and removed.

Keys, FDs, order dependencies and denial constraints are all derived here. Vertices are bits. An edge is a set of
vertices; a hitting set has at least one vertex of every edge. Only inclusion-minimal edges count: a set that hits an
edge hits every larger edge too.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.discovery.budget import Budget, spans
from holdfast.discovery.slices import distinct, numbered
from holdfast.executors.executor import Cancelled
from holdfast.kernels.hitting_sets import FOUND, PAUSED, SearchLimits, SearchState, all_critical, first_missed, search
from holdfast.kernels.sets import antichain
from holdfast.rules.masks import Masks, Numbers, among, full, none, pack, sizes, unpack


class Groups(NamedTuple):
    """Groups of vertices: group_of[vertex]. A hitting set has vertices of at most `most` groups (None: no limit), and
    never all vertices of a group. Every group has at least two vertices; without such groups, pass no `Groups`."""

    group_of: Numbers
    most: int | None = None

    def members(self) -> Masks:
        """[group]: its vertices, as a mask."""
        return pack(self.group_of[None, :] == np.arange(int(self.group_of.max(initial=-1)) + 1)[:, None])


# Work between two budget checks, a few hundredths of a second each:
_STEPS, _FEWEST_STEPS = 200_000, 16  # steps of the search
_EDGES = 20_000_000  # edges visited by these steps
_COMPARED = 50_000_000  # pairs of edges compared
_TRIED = 400_000_000  # pairs of a set and an edge; 64 edges are tested at once
_TRANSPOSED = 1 << 15  # edges, a multiple of 64

_SEARCHING = 0.6  # share of the time for searching a sample; the rest is for testing the result on all edges
_ROOM = 16_384  # hitting sets that the kernel returns at once
_MANY, _SAMPLE = 50_000, 4_000  # with more edges than this the search starts from a sample of this size
_TOO_MANY = 200_000  # edges: comparing more of them pairwise takes too long
_LOCAL = 0.02  # share of changed edges up to which an update is faster than a new search


def minimal_hitting_sets(
    edges: Masks,
    vertices: int,
    most: int | None = None,
    *,
    roots: Masks | None = None,
    within: Masks | None = None,
    groups: Groups | None = None,
    budget: Budget | None = None,
) -> Masks:
    """The minimal hitting sets with at most `most` vertices, all of them in `within`, as `groups` allows; with `roots`,
    only supersets of a root. If the budget runs out, those found until then. MMCS; O(edges / 64 x size) for each node.

    >>> edges = np.array([[0b011], [0b110]], np.uint64)
    >>> sorted(minimal_hitting_sets(edges, vertices=3)[:, 0].tolist())
    [2, 5]
    """
    allowed = full(vertices) if within is None else within
    is_small = roots is None and groups is not None and groups.most is not None  # hitting sets have few vertices
    try:
        if within is not None:
            edges = distinct(edges & within, budget)
            edges = edges if is_small and len(edges) > _MANY else minimal_edges(edges, budget)
        if is_small and groups is not None and len(edges) > _MANY:
            return _search_from_sample(edges, vertices, most, groups, allowed, budget)
        return _search_all(edges, vertices, most, roots, allowed, groups, budget)
    except Cancelled:  # before the search began
        return none(vertices)


def _search_all(
    edges: Masks,
    vertices: int,
    most: int | None,
    roots: Masks | None,
    allowed: Masks,
    groups: Groups | None,
    budget: Budget | None,
) -> Masks:
    """The minimal hitting sets by one search over all edges."""
    width = edges.shape[1]
    columns = edges_by_vertex(edges, vertices, budget)
    roots = np.zeros((1, width), np.uint64) if roots is None else np.ascontiguousarray(roots)
    limit = vertices if most is None else min(most, vertices)
    place = _search_state(min(max(limit, int(sizes(roots).max(initial=0))), vertices) + 2, columns.shape[1], width)
    limits = SearchLimits(allowed[0], limit, np.zeros(0, np.int64), none(vertices), 0)
    if groups is not None:
        most_groups = vertices if groups.most is None else groups.most
        limits = limits._replace(group=groups.group_of, members=groups.members(), most_groups=most_groups)
    edges, out = np.ascontiguousarray(edges), np.empty((_ROOM, width), np.uint64)
    batches: list[Masks] = []
    steps = max(_FEWEST_STEPS, min(_STEPS, _EDGES // max(1, len(edges))))
    while True:
        status = search(edges, columns, roots, limits, place, out, steps)
        batches.append(out[: place.at[FOUND]].copy())
        if status != PAUSED or (budget is not None and budget.spent()):
            break
    hitting_sets = np.concatenate(batches)
    return distinct(hitting_sets) if len(roots) > 1 else hitting_sets


def edges_by_vertex(edges: Masks, vertices: int, budget: Budget | None = None) -> Masks:
    """[vertex]: the edges that contain it, as a mask: the transpose of `edges`."""
    columns = np.zeros((vertices, max(1, -(-len(edges) // 64))), np.uint64)
    for first, stop in spans(len(edges), _TRANSPOSED, budget):
        columns[:, first // 64 : -(-stop // 64)] = pack(np.ascontiguousarray(unpack(edges[first:stop], vertices).T))
    return columns


def _search_from_sample(
    edges: Masks, vertices: int, most: int | None, groups: Groups, within: Masks, budget: Budget | None
) -> Masks:
    """Minimal hitting sets of few vertices, from a sample of the edges. Each round tests the hitting sets of the sample
    on all edges and adds the edges that they miss, until none is missed. A set that hits all edges and is minimal for
    the sample is minimal for all edges."""
    columns = edges_by_vertex(edges, vertices, budget)
    sampled = np.zeros(len(edges), np.bool_)
    sampled[:: len(edges) // _SAMPLE] = True
    while True:
        searching = budget.part(_SEARCHING) if budget is not None else None
        candidates = none(vertices)
        with suppress(Cancelled):  # the rest of the time is not for searching
            few_edges = minimal_edges(edges[sampled], searching)
            candidates = _search_all(few_edges, vertices, most, None, within, groups, searching)
        missed, at_once, tried = np.zeros(len(candidates), np.int64), _at_once(edges), 0
        while tried < len(candidates) and (budget is None or not budget.spent()):
            stop = min(tried + at_once, len(candidates))
            first_missed(columns, len(edges), candidates[tried:stop], missed[tried:stop])
            tried = stop
        if budget is not None and searching is not None and searching.ended:
            budget.ended = searching.ended  # not all hitting sets are known
        if tried < len(candidates) or (budget is not None and budget.ended) or (missed < 0).all():
            return candidates[:tried][missed[:tried] < 0]
        sampled[missed[missed >= 0]] = True


def _at_once(edges: Masks) -> int:
    """How many sets are tested on all edges between budget checks."""
    return max(1, _TRIED // max(1, len(edges)))


def _search_state(depth: int, edge_words: int, words: int) -> SearchState:
    """Room for a search of this depth: what each level of the stack keeps."""
    unmet, twice = np.zeros((2, depth, edge_words), np.uint64)
    allowed, tried = np.zeros((2, depth, words), np.uint64)
    return SearchState(unmet, twice, allowed, tried, np.zeros(depth, np.int64), np.array([0, -1, 0, 0]))


def minimal_edges(edges: Masks, budget: Budget | None = None) -> Masks:
    """The edges that contain no other edge. O(edges x smaller edges); O(edges) if all have the same size."""
    single = sizes(edges) == 1
    if single.any():
        in_single = np.bitwise_or.reduce(edges[single], axis=0)
        edges = edges[single | ~(edges & in_single).any(axis=1)]
    edges = distinct(edges, budget)
    counts = sizes(edges).astype(np.uint16)  # NumPy sorts 16-bit numbers by radix
    order = np.argsort(counts, kind="stable")
    edges, counts, keep = np.ascontiguousarray(edges[order]), counts[order], np.empty(len(edges), np.int64)
    first = kept = smaller = 0
    while first < len(edges):
        if first and budget is not None:
            budget.check()
        size = int(((kept * kept + 4.0 * _COMPARED) ** 0.5 - kept) / 2)  # (kept + size) x size pairs are compared
        stop = min(len(edges), first + max(_FEWEST_STEPS, size))
        kept, smaller = antichain(edges, counts, first, stop, kept, smaller, keep)
        first = stop
    return edges[keep[:kept]]


def equivalent_edges(edges: Masks, groups: Groups, budget: Budget | None = None) -> Masks:
    """Edges with the same minimal hitting sets: the minimal ones, or all distinct ones if there are too many to compare
    and the search works on a sample anyway."""
    too_many = groups.most is not None and len(edges) > _TOO_MANY
    return distinct(edges, budget) if too_many else minimal_edges(edges, budget)


def hits_all(sets: Masks, edges: Masks, budget: Budget | None = None) -> npt.NDArray[np.bool_]:
    """Which sets have a vertex of every edge. O(sets x edges)."""
    hits = np.ones(len(sets), np.bool_)
    for first, _ in spans(len(edges), 1, budget):
        hits &= (sets & edges[first]).any(axis=1)
    return hits


def _hit_once(sets: Masks, edges: Masks, budget: Budget | None = None) -> Numbers:
    """The positions of the sets that have exactly one vertex of some edge. O(sets x edges)."""
    once = np.zeros(len(sets), np.bool_)
    for first, _ in spans(len(edges), 1, budget):
        once |= sizes(sets & edges[first]) == 1
    return np.flatnonzero(once)


def updated_hitting_sets(
    hitting_sets: Masks,
    before: Masks | None,
    edges: Masks,
    vertices: int,
    most: int | None = None,
    *,
    groups: Groups | None = None,
    budget: Budget | None = None,
) -> Masks:
    """The minimal hitting sets of `edges`: updated from those of the edges `before` if few edges changed, else from a
    new search. If the budget runs out, some of them."""
    try:
        if before is not None:
            removed, added = difference(before, edges, budget)
            if len(removed) + len(added) == 0:
                return hitting_sets
            if len(removed) + len(added) <= _LOCAL * len(edges):
                after = (hitting_sets, removed, added, edges, vertices, most)
                return hitting_sets_after(*after, groups=groups, budget=budget)
        return minimal_hitting_sets(edges, vertices, most, groups=groups, budget=budget)
    except Cancelled:
        return none(vertices)


def difference(before: Masks, after: Masks, budget: Budget | None = None) -> tuple[Masks, Masks]:
    """The edges removed and the edges added."""
    _, numbers = numbered(np.concatenate([before, after]), budget)
    old, new = numbers[: len(before)], numbers[len(before) :]
    return before[~np.isin(old, new)], after[~np.isin(new, old)]


def hitting_sets_after(
    hitting_sets: Masks,
    removed: Masks,
    added: Masks,
    edges: Masks,
    vertices: int,
    most: int | None = None,
    *,
    groups: Groups | None = None,
    budget: Budget | None = None,
) -> Masks:
    """The minimal hitting sets of `edges`, from those before edges were `removed` and `added`.

    A removed edge frees exactly the minimal hitting sets of the remaining edges that miss it; and a hitting set with a
    vertex that was critical only for this edge is no longer minimal. An added edge removes the hitting sets that miss
    it; their minimal supersets that hit it take their place. A hitting set that was larger than `most` can appear only
    because an edge was removed.
    """
    if len(removed):
        rest = edges[~among(edges, added)]
        is_minimal = _still_minimal(hitting_sets, removed, rest, vertices, budget)
        every = full(vertices)
        freed = [
            minimal_hitting_sets(rest, vertices, most, within=every & ~edge, groups=groups, budget=budget)
            for edge in removed[:, None]
        ]
        hitting_sets = distinct(np.concatenate([hitting_sets[is_minimal], *freed]))
    if len(added):
        kept = hits_all(hitting_sets, added, budget)
        grown = none(vertices)
        if not kept.all():
            roots = hitting_sets[~kept]
            grown = minimal_hitting_sets(edges, vertices, most, roots=roots, groups=groups, budget=budget)
        hitting_sets = distinct(np.concatenate([hitting_sets[kept], grown]))
    return hitting_sets


def _still_minimal(
    hitting_sets: Masks, removed: Masks, rest: Masks, vertices: int, budget: Budget | None
) -> npt.NDArray[np.bool_]:
    """Which hitting sets are minimal without the removed edges: each vertex is the only one in some remaining edge."""
    columns = edges_by_vertex(rest, vertices, budget)
    is_minimal = np.ones(len(hitting_sets), np.bool_)
    doubtful = _hit_once(hitting_sets, removed, budget)
    answers = np.empty(len(doubtful), np.bool_)
    for first, stop in spans(len(doubtful), _at_once(rest), budget):
        all_critical(columns, hitting_sets[doubtful[first:stop]], answers[first:stop])
    is_minimal[doubtful] = answers
    return is_minimal
