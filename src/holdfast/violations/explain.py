"""Explains why a rule is violated: the worst rows, the clashing values, common causes, and which rows to remove.

Violating pairs are the edges of a graph whose nodes are rows. A cause is a connected component of it: one wrong zip
that clashes with 500 rows is one cause. The fewest rows whose removal clears a component are a minimum vertex cover.
It is computed exactly for small components and greedily (the row with most uncovered edges first) for others; the
result says which. Of equally good covers we choose the rows that arrived last. If not all violations were listed,
small components are completed; statements about larger ones hold for the listed violations only, and say so.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from holdfast.html_table import html_table
from holdfast.indexes.pairs import Pairs
from holdfast.rules.rule import Ind, as_dc
from holdfast.rules.wording import counted
from holdfast.table.dictionary import TextDictionary
from holdfast.table.encode import decode_table
from holdfast.table.rows import Rows
from holdfast.violations.detect import CheckedRule
from holdfast.violations.listing import names_of

EXACT_UP_TO = 24  # rows of a component
Row = int
Edge = tuple[Row, Row]
PartnersOf = Callable[[Row], Iterable[Row]]


@dataclass(frozen=True)
class Cause:
    """A connected component of violating rows, and rows to remove.

    `exact`: these are all rows and pairs of the component, and no smaller set of rows clears it.
    """

    rows: list[Row]
    pairs: int
    remove: list[Row]
    exact: bool


@dataclass(frozen=True)
class Clash:
    """One violating pair: the values of t and s in the columns that the rule compares."""

    t: object
    s: object | None
    values: dict[str, tuple[object, object | None]]


@dataclass(frozen=True)
class Explanation:
    """The explanation of a rule's violations. Rows are named by key, or by row id without a key."""

    rule: str
    count: int
    looked_at: int
    worst: list[tuple[object, int]] = field(default_factory=list)
    clashes: list[Clash] = field(default_factory=list)
    causes: list[tuple[list[object], int, list[object], bool]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # rows of each cause; `causes` names only the first

    def _repr_html_(self) -> str:
        rows = [
            (clash.t, clash.s, "; ".join(f"{c}: {a!r} | {b!r}" for c, (a, b) in clash.values.items()))
            for clash in self.clashes
        ]
        title = f"<p><code>{escape(self.rule)}</code>: {self.count:,} violations</p><pre>{escape(self.summary())}</pre>"
        return title + html_table(["t", "s", "values"], rows, self.count)

    def summary(self) -> str:
        """The worst rows and the causes, as text."""
        lines = []
        if self.is_partial:
            lines.append(f"  (explained from the first {self.looked_at:,})")
        for row, count in self.worst:
            lines.append(f"  row {row}: in {counted(count, 'violation')}")
        for (_, pairs, remove, exact), size in zip(self.causes, self.sizes, strict=True):
            lines.append(
                f"  {self.bounded(size, exact)} rows share a cause ({self.bounded(pairs, exact)} pairs); "
                f"{self.advice(exact)}: {remove}"
            )
        return "\n".join(lines)

    @property
    def is_partial(self) -> bool:
        """Whether the explanation is based on a part of the violations."""
        return self.looked_at < self.count

    def bounded(self, number: int, exact: bool) -> str:
        """The size of a cause as text, marked as a lower bound if the cause may be larger."""
        return f"at least {number:,}" if self.is_partial and not exact else f"{number:,}"

    def advice(self, exact: bool) -> str:
        """What the rows to remove of a cause are: fewest, or only some."""
        if exact:
            return "fewest rows to remove"
        if self.is_partial:
            return f"rows to remove for the first {self.looked_at:,} violations, others may have to go too"
        return "a few rows to remove, found greedily"

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.count:,} violations"]
        lines += [self.summary()] if self.count else []
        for clash in self.clashes:
            sides = ", ".join(
                f"{c}: {a!r} | {b!r}" if clash.s is not None else f"{c}: {a!r}" for c, (a, b) in clash.values.items()
            )
            lines.append(f"  {clash.t}{'' if clash.s is None else f' with {clash.s}'}: {sides}")
        return "\n".join(lines)


def explanation(
    item: CheckedRule,
    text: str,
    count: int,
    pairs: Pairs,
    rows: Rows,
    dictionary: TextDictionary,
    limit: int,
    partners_of: PartnersOf,
) -> Explanation:
    """Explains a rule with `count` violations from the given ones, with rows by name.

    `partners_of` returns a row's partners in either role. It is called only if not all violations are given.
    """

    def named(ids: list[Row]) -> list[Any]:
        names: list[Any] = names_of(np.array(ids, np.int64), rows, dictionary).to_pylist()
        return names

    largest_causes = causes(pairs, limit, partners_of if len(pairs) < count else None)
    return Explanation(
        rule=text,
        count=count,
        looked_at=len(pairs),
        worst=[(named([row])[0], number) for row, number in worst_rows(pairs, limit)],
        clashes=_clashes(item, pairs.first(limit), rows, dictionary),
        causes=[(named(c.rows[:limit]), c.pairs, named(c.remove), c.exact) for c in largest_causes],
        sizes=[len(c.rows) for c in largest_causes],
    )


def _clashes(item: CheckedRule, pairs: Pairs, rows: Rows, dictionary: TextDictionary) -> list[Clash]:
    """The compared values of each pair, side by side."""
    ids = [side for side in (pairs.t, pairs.s) if side is not None]
    names = [names_of(side, rows, dictionary).to_pylist() for side in ids]
    cells = [decode_table(rows.schema, rows.codes_of(side), dictionary).to_pylist() for side in ids]
    clashes = []
    for i in range(len(pairs)):
        t, s = names[0][i], names[1][i] if len(ids) > 1 else None
        values = {c: (cells[0][i][c], cells[1][i][c] if len(ids) > 1 else None) for c in compared_columns(item)}
        clashes.append(Clash(t, s, values))
    return clashes


def compared_columns(item: CheckedRule) -> list[str]:
    """The columns that the rule compares; of an inclusion, those of its left side."""
    if isinstance(item.rule, Ind):
        return list(item.rule.left)
    return list(dict.fromkeys(c.column for p in sorted(as_dc(item.rule).written, key=str) for c in p.cells))


def worst_rows(pairs: Pairs, most: int) -> list[tuple[Row, int]]:
    """The rows with most violations. Each unordered pair counts once."""
    edges = _edges(pairs)
    ids, counts = np.unique(edges.ravel(), return_counts=True) if len(edges) else (pairs.t, np.ones(len(pairs), int))
    order = np.lexsort((ids, -counts))[:most]
    return [(int(ids[i]), int(counts[i])) for i in order]


def causes(pairs: Pairs, most: int | None = None, partners_of: PartnersOf | None = None) -> list[Cause]:
    """The connected components of violating rows, those with most pairs first.

    `partners_of` is given if these are not all pairs; it then completes components of a few rows. O(pairs), apart from
    the exact covers of small components.
    """
    if pairs.s is None:
        return []
    largest: list[Cause] = []
    completed: set[Row] = set()
    for edges in _components(_edges(pairs).tolist()):
        if len(largest) == most:
            break
        if edges[0][0] in completed:  # part of a component that was completed already
            continue
        whole = edges if partners_of is None else _completed(edges, partners_of)
        largest.append(_cause(edges if whole is None else whole, whole=whole is not None))
        if partners_of is not None and whole is not None:
            completed |= set(largest[-1].rows)
    return sorted(largest, key=lambda cause: (-cause.pairs, cause.rows))


def _components(edges: Iterable[Edge]) -> list[list[Edge]]:
    """The edges by connected component, the largest first, equally large ones by their edges (union-find)."""
    parent: dict[Row, Row] = {}
    edge_list = [(a, b) for a, b in edges]

    def root(row: Row) -> Row:
        while parent.setdefault(row, row) != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    for a, b in edge_list:
        parent[root(a)] = root(b)
    by_root: dict[Row, list[Edge]] = defaultdict(list)
    for a, b in edge_list:
        by_root[root(a)].append((a, b))
    return sorted(by_root.values(), key=lambda component: (-len(component), component))


def _completed(edges: list[Edge], partners_of: PartnersOf) -> list[Edge] | None:
    """All edges of the component that these edges belong to; None if it has too many rows for an exact cover."""
    to_visit, seen = sorted(_rows_of(edges)), _rows_of(edges)
    whole: set[Edge] = set()
    while to_visit and len(seen) <= EXACT_UP_TO:
        row = to_visit.pop()
        partners = set(partners_of(row))
        whole |= {(min(row, partner), max(row, partner)) for partner in partners}
        to_visit += sorted(partners - seen)
        seen |= partners
    return sorted(whole) if len(seen) <= EXACT_UP_TO else None


def _rows_of(edges: Iterable[Edge]) -> set[Row]:
    return {row for edge in edges for row in edge}


def _edges(pairs: Pairs) -> np.ndarray:
    """The distinct unordered pairs."""
    if pairs.s is None or not len(pairs):
        return np.zeros((0, 2), np.int64)
    both = np.stack([np.minimum(pairs.t, pairs.s), np.maximum(pairs.t, pairs.s)], axis=1)
    return np.unique(both, axis=0)


def _cause(edges: list[Edge], *, whole: bool) -> Cause:
    rows = sorted(_rows_of(edges))
    small = len(rows) <= EXACT_UP_TO
    remove = smallest_cover(edges) if small else greedy_cover(edges)
    return Cause(rows, len(edges), sorted(remove), whole and small)


def greedy_cover(edges: Iterable[Edge]) -> set[Row]:
    """A vertex cover, greedily: repeatedly takes the row with most uncovered edges, of equal ones the newest.

    O(edges log edges).

    >>> greedy_cover([(1, 2)]), greedy_cover([(1, 2), (1, 3)])
    ({2}, {1})
    """
    neighbours: dict[Row, set[Row]] = defaultdict(set)
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    heap = [(-len(adjacent), -row) for row, adjacent in neighbours.items()]  # most edges first, then newest row
    heapq.heapify(heap)
    cover: set[Row] = set()
    while heap:
        negative_degree, negative_row = heapq.heappop(heap)
        row = -negative_row
        adjacent = neighbours[row]
        if not adjacent or len(adjacent) != -negative_degree:  # all edges are covered, or the entry is outdated
            continue
        cover.add(row)
        neighbours[row] = set()
        for neighbour in adjacent:
            neighbours[neighbour].discard(row)
            heapq.heappush(heap, (-len(neighbours[neighbour]), -neighbour))
    return cover


def smallest_cover(edges: Iterable[Edge]) -> set[Row]:
    """A minimum vertex cover. Of several, the one of the newest rows: sorted newest first, it is the largest.

    Exponential in the number of rows in the worst case.

    >>> smallest_cover([(1, 2)]), smallest_cover([(1, 2), (2, 3), (3, 4)])
    ({2}, {2, 4})
    """
    edge_list = list(edges)
    rows = sorted(_rows_of(edge_list))
    position = {row: i for i, row in enumerate(rows)}
    neighbours = [0] * len(rows)  # bit masks
    for a, b in edge_list:
        neighbours[position[a]] |= 1 << position[b]
        neighbours[position[b]] |= 1 << position[a]
    undecided = (1 << len(rows)) - 1
    size = _cover_size(undecided, neighbours)
    cover: set[Row] = set()
    for i in reversed(range(len(rows))):  # from the newest row on: take it if some minimum cover contains it
        bit = 1 << i
        if not (undecided & bit and neighbours[i] & undecided):
            continue
        if _cover_size(undecided & ~bit, neighbours) == size - 1:
            cover.add(rows[i])
            undecided, size = undecided & ~bit, size - 1
        else:  # the row is not in the cover, so all its partners are
            partners = neighbours[i] & undecided
            cover |= {rows[k] for k in _positions(partners)}
            undecided, size = undecided & ~partners & ~bit, size - partners.bit_count()
    return cover


def _cover_size(undecided: int, neighbours: list[int]) -> int:
    """The size of a minimum cover of the edges between these rows (a bit mask).

    Branches on the row with most edges: either it is in the cover, or all its partners are.
    """
    degree, row = (
        max(((neighbours[i] & undecided).bit_count(), i) for i in _positions(undecided)) if undecided else (0, 0)
    )
    if degree == 0:
        return 0
    with_row = 1 + _cover_size(undecided & ~(1 << row), neighbours)
    if degree == 1:  # only separate pairs are left: either row will do
        return with_row
    partners = neighbours[row] & undecided
    return min(with_row, degree + _cover_size(undecided & ~partners & ~(1 << row), neighbours))


def _positions(bits: int) -> list[int]:
    return [i for i in range(bits.bit_length()) if bits >> i & 1]
