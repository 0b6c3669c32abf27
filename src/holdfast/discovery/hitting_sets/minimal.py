"""All minimal covers of a family of edges, and how they change when edges come and go.

One implementation for everything that is found by inversion. Vertices are bits; an edge is the set of vertices of
which a cover must have one. Edges are taken as inclusion-minimal ones: a larger edge is met with a smaller one.
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
    """Vertices that belong together: group_of[vertex]. A cover has vertices of at most `most` groups (None: of any
    number), and of no group all. Groups of one vertex are none: leave them out altogether."""

    group_of: Numbers
    most: int | None = None

    def members(self) -> Masks:
        """[group]: its vertices."""
        return pack(self.group_of[None, :] == np.arange(int(self.group_of.max(initial=-1)) + 1)[:, None])


_STEPS, _FEWEST_STEPS = 200_000, 16  # between looks at the clock: some hundredths of a second
_EDGES = 20_000_000  # that are met by all of these steps
_COMPARED = 50_000_000  # pairs of edges
_COVERS = 400_000_000  # pairs of a cover and an edge, of which 64 are looked at together
_SEARCHING = 0.6  # of the time: the rest is for trying what was found
_TURNED = 1 << 15  # edges, a multiple of 64
_ROOM = 16_384
_MANY, _SAMPLE = 50_000, 4_000  # edges from which on some of them are looked at first, and how many then
_TOO_MANY = 200_000  # to look for those that contain others
_LOCAL = 0.02  # of the edges: up to here following a change is faster than the search anew


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
    """The minimal covers with at most `most` vertices, all of them `within` some, as `groups` allow; with roots, only
    those that contain one of them. Where the budget ends first, those found until then. MMCS; O(edges / 64 x size) for
    each node.

    >>> edges = np.array([[0b011], [0b110]], np.uint64)
    >>> sorted(minimal_hitting_sets(edges, vertices=3)[:, 0].tolist())
    [2, 5]
    """
    allowed = full(vertices) if within is None else within
    few = roots is None and groups is not None and groups.most is not None
    try:
        if within is not None:
            edges = distinct(edges & within, budget)
            edges = edges if few and len(edges) > _MANY else smallest(edges, budget)
        if few and groups is not None and len(edges) > _MANY:
            return _covers_of_many(edges, vertices, most, groups, allowed, budget)
        return _searched(edges, vertices, most, roots, allowed, groups, budget)
    except Cancelled:  # before the search began
        return none(vertices)


def _searched(
    edges: Masks,
    vertices: int,
    most: int | None,
    roots: Masks | None,
    allowed: Masks,
    groups: Groups | None,
    budget: Budget | None,
) -> Masks:
    """The same from all edges."""
    width = edges.shape[1]
    columns = columns_of(edges, vertices, budget)
    roots = np.zeros((1, width), np.uint64) if roots is None else np.ascontiguousarray(roots)
    limit = vertices if most is None else min(most, vertices)
    place = _place(min(max(limit, int(sizes(roots).max(initial=0))), vertices) + 2, columns.shape[1], width)
    limits = SearchLimits(allowed[0], limit, np.zeros(0, np.int64), none(vertices), 0)
    if groups is not None:
        most_groups = vertices if groups.most is None else groups.most
        limits = limits._replace(group=groups.group_of, members=groups.members(), most_groups=most_groups)
    edges, out = np.ascontiguousarray(edges), np.empty((_ROOM, width), np.uint64)
    found: list[Masks] = []
    steps = max(_FEWEST_STEPS, min(_STEPS, _EDGES // max(1, len(edges))))
    while True:
        status = search(edges, columns, roots, limits, place, out, steps)
        found.append(out[: place.at[FOUND]].copy())
        if status != PAUSED or (budget is not None and budget.spent()):
            break
    covers = np.concatenate(found)
    return distinct(covers) if len(roots) > 1 else covers


def columns_of(edges: Masks, vertices: int, budget: Budget | None = None) -> Masks:
    """[vertex]: the edges that it meets."""
    made = np.zeros((vertices, max(1, -(-len(edges) // 64))), np.uint64)
    for first, stop in spans(len(edges), _TURNED, budget):
        made[:, first // 64 : -(-stop // 64)] = pack(np.ascontiguousarray(unpack(edges[first:stop], vertices).T))
    return made


def _covers_of_many(
    edges: Masks, vertices: int, most: int | None, groups: Groups, within: Masks, budget: Budget | None
) -> Masks:
    """Minimal covers of few vertices: those of some of the edges are tried on all, and edges that they miss are added,
    until they miss none. What is then minimal for some edges is so for all."""
    columns = columns_of(edges, vertices, budget)
    chosen = np.zeros(len(edges), np.bool_)
    chosen[:: len(edges) // _SAMPLE] = True
    while True:
        searching = budget.part(_SEARCHING) if budget is not None else None
        covers = none(vertices)
        with suppress(Cancelled):  # the rest of the time is not for searching
            covers = _searched(smallest(edges[chosen], searching), vertices, most, None, within, groups, searching)
        missed, at_once, tried = np.zeros(len(covers), np.int64), _at_once(edges), 0
        while tried < len(covers) and (budget is None or not budget.spent()):
            stop = min(tried + at_once, len(covers))
            first_missed(columns, len(edges), covers[tried:stop], missed[tried:stop])
            tried = stop
        if budget is not None and searching is not None and searching.ended:
            budget.ended = searching.ended  # not all covers are known
        if tried < len(covers) or (budget is not None and budget.ended) or (missed < 0).all():
            return covers[:tried][missed[:tried] < 0]
        chosen[missed[missed >= 0]] = True


def _at_once(edges: Masks) -> int:
    """How many covers are tried on all edges between looks at the clock."""
    return max(1, _COVERS // max(1, len(edges)))


def _place(depth: int, edge_words: int, words: int) -> SearchState:
    unmet, twice = np.zeros((2, depth, edge_words), np.uint64)
    allowed, tried = np.zeros((2, depth, words), np.uint64)
    return SearchState(unmet, twice, allowed, tried, np.zeros(depth, np.int64), np.array([0, -1, 0, 0]))


def smallest(edges: Masks, budget: Budget | None = None) -> Masks:
    """The edges that contain no other one. O(edges x smaller edges): nothing where all are of one size."""
    single = sizes(edges) == 1
    if single.any():
        met = np.bitwise_or.reduce(edges[single], axis=0)
        edges = edges[single | ~(edges & met).any(axis=1)]
    edges = distinct(edges, budget)
    counts = sizes(edges).astype(np.uint16)  # short numbers are sorted by digits
    order = np.argsort(counts, kind="stable")
    edges, counts, keep = np.ascontiguousarray(edges[order]), counts[order], np.empty(len(edges), np.int64)
    first = kept = smaller = 0
    while first < len(edges):
        if first and budget is not None:
            budget.check()
        few = int(((kept * kept + 4.0 * _COMPARED) ** 0.5 - kept) / 2)  # (kept + few) x few are compared
        stop = min(len(edges), first + max(_FEWEST_STEPS, few))
        kept, smaller = antichain(edges, counts, first, stop, kept, smaller, keep)
        first = stop
    return edges[keep[:kept]]


def reduced(edges: Masks, groups: Groups, budget: Budget | None = None) -> Masks:
    """Edges with the same minimal covers: the smallest, or, where there are so many that covers of few vertices are
    found from a sample of them, all different ones. Comparing millions with each other would never end."""
    many = groups.most is not None and len(edges) > _TOO_MANY
    return distinct(edges, budget) if many else smallest(edges, budget)


def meets_all(covers: Masks, edges: Masks, budget: Budget | None = None) -> npt.NDArray[np.bool_]:
    """Which covers have a vertex of every edge. O(covers x edges)."""
    met = np.ones(len(covers), np.bool_)
    for first, _ in spans(len(edges), 1, budget):
        met &= (covers & edges[first]).any(axis=1)
    return met


def _met_once(covers: Masks, edges: Masks, budget: Budget | None = None) -> Numbers:
    """The numbers of the covers that have just one vertex of some edge. O(covers x edges)."""
    once = np.zeros(len(covers), np.bool_)
    for first, _ in spans(len(edges), 1, budget):
        once |= sizes(covers & edges[first]) == 1
    return np.flatnonzero(once)


def followed(
    covers: Masks,
    before: Masks | None,
    edges: Masks,
    vertices: int,
    most: int | None = None,
    *,
    groups: Groups | None = None,
    budget: Budget | None = None,
) -> Masks:
    """The minimal covers of `edges`, along the change from those of the edges `before` where that is small, or searched
    anew; where the budget ends first, some of them."""
    try:
        return _followed(covers, before, edges, vertices, most, groups, budget)
    except Cancelled:
        return none(vertices)


def _followed(
    covers: Masks,
    before: Masks | None,
    edges: Masks,
    vertices: int,
    most: int | None,
    groups: Groups | None,
    budget: Budget | None,
) -> Masks:
    if before is not None:
        _, numbers = numbered(np.concatenate([before, edges]), budget)
        old, now = numbers[: len(before)], numbers[len(before) :]
        gone, new = before[~np.isin(old, now)], edges[~np.isin(now, old)]
        if len(gone) + len(new) == 0:
            return covers
        if len(gone) + len(new) <= _LOCAL * len(edges):
            return hitting_sets_after(covers, gone, new, edges, vertices, most, groups=groups, budget=budget)
    return minimal_hitting_sets(edges, vertices, most, groups=groups, budget=budget)


def hitting_sets_after(
    covers: Masks,
    gone: Masks,
    new: Masks,
    edges: Masks,
    vertices: int,
    most: int | None = None,
    *,
    groups: Groups | None = None,
    budget: Budget | None = None,
) -> Masks:
    """The minimal covers of `edges`, from those of before it lost the `gone` edges and got the `new` ones.

    A lost edge frees exactly the minimal covers of the rest that lie outside it, and some covers lose a vertex that
    was critical for it alone. A new edge lets go of the covers that miss it, and what contains one of these and is
    minimal comes. By `most`, a cover that was too large to be known can come only through a lost edge.
    """
    if len(gone):
        rest = edges[~among(edges, new)]
        columns = columns_of(rest, vertices, budget)
        critical = np.ones(len(covers), np.bool_)
        doubtful = _met_once(covers, gone, budget)
        some = np.empty(len(doubtful), np.bool_)
        for first, stop in spans(len(doubtful), _at_once(rest), budget):
            all_critical(columns, covers[doubtful[first:stop]], some[first:stop])
        critical[doubtful] = some
        every = full(vertices)
        freed = [
            minimal_hitting_sets(rest, vertices, most, within=every & ~edge, groups=groups, budget=budget)
            for edge in gone[:, None]
        ]
        covers = distinct(np.concatenate([covers[critical], *freed]))
    if len(new):
        kept = meets_all(covers, new, budget)
        grown = none(vertices)
        if not kept.all():
            grown = minimal_hitting_sets(edges, vertices, most, roots=covers[~kept], groups=groups, budget=budget)
        covers = distinct(np.concatenate([covers[kept], grown]))
    return covers
