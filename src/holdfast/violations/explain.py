"""Why a rule is violated: the worst rows, what they clash about, what they have in common, and what to remove.

Violating pairs are the edges of a graph whose nodes are rows. A group is a connected part of it: one wrong zip that
clashes with 500 rows is one finding. The fewest rows whose removal clears a group are a minimum vertex cover: exact for
small groups, greedy (the row with most open violations first) for others, and said which. Where several choices are
equally good, the rows that arrived last are to be removed. Where not all violations were listed, small groups are
completed; what is said about larger ones holds for the violations that were listed, and says so.
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
from holdfast.table.dictionary import TextDictionary
from holdfast.table.encode import decode_table
from holdfast.table.rows import Rows
from holdfast.violations.detect import CheckedRule
from holdfast.violations.listing import names_of

EXACT_UP_TO = 24
Row = int
Edge = tuple[Row, Row]
PartnersOf = Callable[[Row], Iterable[Row]]


@dataclass(frozen=True)
class Cause:
    """Rows that violate the rule with each other, and what to remove: `exact` says that these are all rows and pairs
    of the group, and that no fewer rows clear it."""

    rows: list[Row]
    pairs: int
    remove: list[Row]
    exact: bool


@dataclass(frozen=True)
class Clash:
    """One violating pair side by side: the columns the rule compares, with the values of t and s."""

    t: object
    s: object | None
    values: dict[str, tuple[object, object | None]]


@dataclass(frozen=True)
class Explanation:
    """What is behind the violations of a rule. Rows are named by key, or by row id."""

    rule: str
    count: int
    looked_at: int
    worst: list[tuple[object, int]] = field(default_factory=list)
    clashes: list[Clash] = field(default_factory=list)
    causes: list[tuple[list[object], int, list[object], bool]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # how many rows each cause has, of which some are named

    def _repr_html_(self) -> str:
        rows = [
            (clash.t, clash.s, "; ".join(f"{c}: {a!r} | {b!r}" for c, (a, b) in clash.values.items()))
            for clash in self.clashes
        ]
        title = f"<p><code>{escape(self.rule)}</code>: {self.count:,} violations</p><pre>{escape(self.summary())}</pre>"
        return title + html_table(["t", "s", "values"], rows, self.count)

    def summary(self) -> str:
        """The worst rows, and what they share."""
        lines = []
        if self.is_partial:
            lines.append(f"  (explained from the first {self.looked_at:,})")
        for row, count in self.worst:
            lines.append(f"  row {row}: in {count:,} violations")
        for (_, pairs, remove, exact), size in zip(self.causes, self.sizes, strict=True):
            lines.append(
                f"  {self.bounded(size, exact)} rows share a cause ({self.bounded(pairs, exact)} pairs); "
                f"{self.advice(exact)}: {remove}"
            )
        return "\n".join(lines)

    @property
    def is_partial(self) -> bool:
        """Whether there are more violations than were looked at."""
        return self.looked_at < self.count

    def bounded(self, number: int, exact: bool) -> str:
        """The size of a cause, which is at least that where not all of it was looked at."""
        return f"at least {number:,}" if self.is_partial and not exact else f"{number:,}"

    def advice(self, exact: bool) -> str:
        """What the rows to remove of a cause are."""
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
    """What is behind these violations of a rule (the first of `count`), with the rows as people know them. A row's
    partners, in either role, are asked for where not all violations are given."""

    def named(ids: list[Row]) -> list[Any]:
        made: list[Any] = names_of(np.array(ids, np.int64), rows, dictionary).to_pylist()
        return made

    found = causes(pairs, limit, partners_of if len(pairs) < count else None)
    return Explanation(
        rule=text,
        count=count,
        looked_at=len(pairs),
        worst=[(named([row])[0], number) for row, number in worst_rows(pairs, limit)],
        clashes=_clashes(item, pairs.first(limit), rows, dictionary),
        causes=[(named(c.rows[:limit]), c.pairs, named(c.remove), c.exact) for c in found],
        sizes=[len(c.rows) for c in found],
    )


def _clashes(item: CheckedRule, pairs: Pairs, rows: Rows, dictionary: TextDictionary) -> list[Clash]:
    """The compared values of some pairs, side by side."""
    ids = [side for side in (pairs.t, pairs.s) if side is not None]
    names = [names_of(side, rows, dictionary).to_pylist() for side in ids]
    cells = [decode_table(rows.schema, rows.codes_of(side), dictionary).to_pylist() for side in ids]
    made = []
    for i in range(len(pairs)):
        t, s = names[0][i], names[1][i] if len(ids) > 1 else None
        values = {c: (cells[0][i][c], cells[1][i][c] if len(ids) > 1 else None) for c in compared_columns(item)}
        made.append(Clash(t, s, values))
    return made


def compared_columns(item: CheckedRule) -> list[str]:
    """The columns that the rule looks at."""
    if isinstance(item.rule, Ind):
        return list(item.rule.left)
    return list(dict.fromkeys(c.column for p in sorted(as_dc(item.rule).written, key=str) for c in p.cells))


def worst_rows(pairs: Pairs, most: int) -> list[tuple[Row, int]]:
    """The rows in most violations, each unordered pair counted once."""
    edges = _edges(pairs)
    ids, counts = np.unique(edges.ravel(), return_counts=True) if len(edges) else (pairs.t, np.ones(len(pairs), int))
    order = np.lexsort((ids, -counts))[:most]
    return [(int(ids[i]), int(counts[i])) for i in order]


def causes(pairs: Pairs, most: int | None = None, partners_of: PartnersOf | None = None) -> list[Cause]:
    """Connected groups of violating rows, those with most pairs first. `partners_of` is given where these are not all
    pairs; then groups of a few rows are completed with it. O(pairs), but for exact covers of small groups."""
    if pairs.s is None:
        return []
    made: list[Cause] = []
    completed: set[Row] = set()
    for edges in _connected(_edges(pairs).tolist()):
        if len(made) == most:
            break
        if edges[0][0] in completed:  # part of a group that is listed already
            continue
        whole = edges if partners_of is None else _completed(edges, partners_of)
        made.append(_cause(edges if whole is None else whole, whole=whole is not None))
        if partners_of is not None and whole is not None:
            completed |= set(made[-1].rows)
    return sorted(made, key=lambda cause: (-cause.pairs, cause.rows))


def _connected(edges: Iterable[Edge]) -> list[list[Edge]]:
    """The edges by connected part, the largest first; equally large ones by their first rows."""
    parent: dict[Row, Row] = {}
    listed = [(a, b) for a, b in edges]

    def root(row: Row) -> Row:
        while parent.setdefault(row, row) != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    for a, b in listed:
        parent[root(a)] = root(b)
    grouped: dict[Row, list[Edge]] = defaultdict(list)
    for a, b in listed:
        grouped[root(a)].append((a, b))
    return sorted(grouped.values(), key=lambda group: (-len(group), group))


def _completed(edges: list[Edge], partners_of: PartnersOf) -> list[Edge] | None:
    """All pairs of the group that these pairs are part of; None where that has more rows than an exact cover takes."""
    to_ask, seen = sorted(_rows_of(edges)), _rows_of(edges)
    whole: set[Edge] = set()
    while to_ask and len(seen) <= EXACT_UP_TO:
        row = to_ask.pop()
        partners = set(partners_of(row))
        whole |= {(min(row, other), max(row, other)) for other in partners}
        to_ask += sorted(partners - seen)
        seen |= partners
    return sorted(whole) if len(seen) <= EXACT_UP_TO else None


def _rows_of(edges: Iterable[Edge]) -> set[Row]:
    return {row for edge in edges for row in edge}


def _edges(pairs: Pairs) -> np.ndarray:
    """The unordered pairs, each once."""
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
    """Rows that touch every edge: again and again the one with most open edges, of equal ones the one that arrived
    last. O(edges log edges).

    >>> greedy_cover([(1, 2)]), greedy_cover([(1, 2), (1, 3)])
    ({2}, {1})
    """
    neighbours: dict[Row, set[Row]] = defaultdict(set)
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    waiting = [(-len(others), -row) for row, others in neighbours.items()]
    heapq.heapify(waiting)
    cover: set[Row] = set()
    while waiting:
        degree, negative = heapq.heappop(waiting)
        others = neighbours[-negative]
        if not others or len(others) != -degree:  # nothing open any more, or an entry from before edges were covered
            continue
        cover.add(-negative)
        neighbours[-negative] = set()
        for other in others:
            neighbours[other].discard(-negative)
            heapq.heappush(waiting, (-len(neighbours[other]), -other))
    return cover


def smallest_cover(edges: Iterable[Edge]) -> set[Row]:
    """The fewest rows that touch every edge. Of all such choices the latest by arrival: sorted from the newest row to
    the oldest, it is the largest. Exponential in the number of rows, at worst.

    >>> smallest_cover([(1, 2)]), smallest_cover([(1, 2), (2, 3), (3, 4)])
    ({2}, {2, 4})
    """
    listed = list(edges)
    rows = sorted(_rows_of(listed))
    place = {row: i for i, row in enumerate(rows)}
    neighbours = [0] * len(rows)
    for a, b in listed:
        neighbours[place[a]] |= 1 << place[b]
        neighbours[place[b]] |= 1 << place[a]
    still_open = (1 << len(rows)) - 1
    allowed = _cover_size(still_open, neighbours)
    cover: set[Row] = set()
    for i in reversed(range(len(rows))):  # the newest row that some smallest cover has, then the next
        mine = 1 << i
        if not (still_open & mine and neighbours[i] & still_open):
            continue
        if _cover_size(still_open & ~mine, neighbours) == allowed - 1:
            cover.add(rows[i])
            still_open, allowed = still_open & ~mine, allowed - 1
        else:  # it stays, so all its partners go
            partners = neighbours[i] & still_open
            cover |= {rows[k] for k in _places(partners)}
            still_open, allowed = still_open & ~partners & ~mine, allowed - partners.bit_count()
    return cover


def _cover_size(still_open: int, neighbours: list[int]) -> int:
    """The size of a smallest cover of the edges between these rows (bits), by branching on the row with most of them:
    it goes, or all its partners do."""
    degree, row = (
        max(((neighbours[i] & still_open).bit_count(), i) for i in _places(still_open)) if still_open else (0, 0)
    )
    if degree == 0:
        return 0
    without = 1 + _cover_size(still_open & ~(1 << row), neighbours)
    if degree == 1:  # separate pairs: either row will do
        return without
    partners = neighbours[row] & still_open
    return min(without, degree + _cover_size(still_open & ~partners & ~(1 << row), neighbours))


def _places(bits: int) -> list[int]:
    return [i for i in range(bits.bit_length()) if bits >> i & 1]
