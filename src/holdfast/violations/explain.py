"""Why a rule is violated: the worst rows, what they clash about, what they have in common, and what to remove.

Violating pairs are the edges of a graph whose nodes are rows. A group is a connected part of it: one wrong zip that
clashes with 500 rows is one finding. The fewest rows whose removal clears a group are a minimum vertex cover: exact for
small groups, greedy (the row with most open violations first) for others, and said which.
"""

from __future__ import annotations

from collections import defaultdict
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
from holdfast.violations.detect import Checked
from holdfast.violations.listing import names_of

EXACT_UP_TO = 24
Row = int


@dataclass(frozen=True)
class Cause:
    """Rows that violate the rule with each other, and the fewest to remove."""

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
        if self.looked_at < self.count:
            lines.append(f"  (explained from the first {self.looked_at:,})")
        for row, count in self.worst:
            lines.append(f"  row {row}: in {count:,} violations")
        for (_, pairs, remove, exact), size in zip(self.causes, self.sizes, strict=True):
            how = "fewest rows" if exact else "a few rows, found greedily,"
            lines.append(f"  {size} rows share a cause ({pairs} pairs); {how} to remove: {remove}")
        return "\n".join(lines)

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
    item: Checked, text: str, count: int, pairs: Pairs, rows: Rows, words: TextDictionary, limit: int
) -> Explanation:
    """What is behind these violations of a rule (the first of `count`), with the rows as people know them."""

    def named(ids: list[Row]) -> list[Any]:
        made: list[Any] = names_of(np.array(ids, np.int64), rows, words).to_pylist()
        return made

    found = causes(pairs)[:limit]
    return Explanation(
        rule=text,
        count=count,
        looked_at=len(pairs),
        worst=[(named([row])[0], number) for row, number in worst_rows(pairs, limit)],
        clashes=_clashes(item, pairs.first(limit), rows, words),
        causes=[(named(c.rows[:limit]), c.pairs, named(c.remove), c.exact) for c in found],
        sizes=[len(c.rows) for c in found],
    )


def _clashes(item: Checked, pairs: Pairs, rows: Rows, words: TextDictionary) -> list[Clash]:
    """The compared values of some pairs, side by side."""
    ids = [side for side in (pairs.t, pairs.s) if side is not None]
    names = [names_of(side, rows, words).to_pylist() for side in ids]
    cells = [decode_table(rows.schema, rows.codes_of(side), words).to_pylist() for side in ids]
    made = []
    for i in range(len(pairs)):
        t, s = names[0][i], names[1][i] if len(ids) > 1 else None
        values = {c: (cells[0][i][c], cells[1][i][c] if len(ids) > 1 else None) for c in compared_columns(item)}
        made.append(Clash(t, s, values))
    return made


def compared_columns(item: Checked) -> list[str]:
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


def causes(pairs: Pairs) -> list[Cause]:
    """Connected groups of violating rows, the largest first. O(pairs), but for exact covers of small groups."""
    if pairs.s is None:
        return []
    edges = _edges(pairs)
    parent: dict[Row, Row] = {}

    def root(row: Row) -> Row:
        while parent.setdefault(row, row) != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    for a, b in edges.tolist():
        parent[root(a)] = root(b)
    grouped: dict[Row, list[tuple[Row, Row]]] = defaultdict(list)
    for a, b in edges.tolist():
        grouped[root(a)].append((a, b))
    made = [_cause(group) for group in grouped.values()]
    return sorted(made, key=lambda cause: (-cause.pairs, cause.rows))


def _edges(pairs: Pairs) -> np.ndarray:
    """The unordered pairs, each once."""
    if pairs.s is None or not len(pairs):
        return np.zeros((0, 2), np.int64)
    both = np.stack([np.minimum(pairs.t, pairs.s), np.maximum(pairs.t, pairs.s)], axis=1)
    return np.unique(both, axis=0)


def _cause(edges: list[tuple[Row, Row]]) -> Cause:
    rows = sorted({row for edge in edges for row in edge})
    exact = len(rows) <= EXACT_UP_TO
    remove = smallest_cover(edges) if exact else greedy_cover(edges)
    return Cause(rows, len(edges), sorted(remove), exact)


def greedy_cover(edges: list[tuple[Row, Row]]) -> set[Row]:
    """Rows that touch every edge: again and again the one with most open edges. O(edges log edges)."""
    open_edges: dict[Row, set[Row]] = defaultdict(set)
    for a, b in edges:
        open_edges[a].add(b)
        open_edges[b].add(a)
    cover: set[Row] = set()
    while any(open_edges.values()):
        row = max(open_edges, key=lambda r: (len(open_edges[r]), -r))
        for other in open_edges.pop(row):
            open_edges[other].discard(row)
        cover.add(row)
    return cover


def smallest_cover(edges: list[tuple[Row, Row]]) -> set[Row]:
    """The fewest rows that touch every edge, by branching on the row with most open edges: in or out."""
    best = greedy_cover(edges)

    def branch(left: list[tuple[Row, Row]], chosen: set[Row]) -> None:
        nonlocal best
        if len(chosen) >= len(best):
            return
        if not left:
            best = chosen
            return
        degree: dict[Row, int] = defaultdict(int)
        for a, b in left:
            degree[a] += 1
            degree[b] += 1
        row = max(degree, key=lambda r: (degree[r], -r))
        neighbours = {b if a == row else a for a, b in left if row in (a, b)}
        branch([e for e in left if row not in e], chosen | {row})
        branch([e for e in left if not neighbours & set(e)], chosen | neighbours)

    branch(list(dict.fromkeys(edges)), set())
    return best
