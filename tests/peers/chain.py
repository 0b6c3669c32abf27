"""The minimum-rank index of IncDC (sections 5 and 6): rows that ascend in two dimensions at once form a chain.

In a chain a range of either dimension is a stretch, so what is in both ranges is a stretch too: two binary searches in
each chain find all partners of a row, whichever operators a rule has. The fewer chains, the better; OptIndex makes
the fewest. Differs from the paper: chains are sorted arrays instead of skip lists; with ties the first dimension never
has to be strict within a chain, and a search looks for both ends of a stretch, because rows that tie with the asking
row are neither before nor after it (the paper's Fetch takes them for smaller); rows can leave.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

from holdfast.indexes.plan import Side
from holdfast.rules.operator import Op
from holdfast.table.dictionary import NULL
from tests.peers.row_by_row import Entry, Ops, Partners, RowByRow, Values

MOST = (1 << 63) - 1
Range = tuple[int, int]  # both ends belong to it
Point = tuple[int, int]


@dataclass
class Chain:
    """Points that ascend in both dimensions (as turned by the index), with the rows that have these values."""

    first: array[int] = field(default_factory=lambda: array("q"))
    second: array[int] = field(default_factory=lambda: array("q"))
    rows: list[list[Entry]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def insert(self, at: int, point: Point, rows: list[Entry]) -> None:
        self.first.insert(at, point[0])
        self.second.insert(at, point[1])
        self.rows.insert(at, rows)

    def place_of(self, point: Point) -> int:
        """Where a point of this chain stands. O(log)."""
        begin, end = bisect_left(self.first, point[0]), bisect_right(self.first, point[0])
        return bisect_left(self.second, point[1], begin, end)

    def remove(self, point: Point) -> None:
        at = self.place_of(point)
        del self.first[at], self.second[at], self.rows[at]

    def stretch(self, first: Range, second: Range) -> range:
        """The places of the points in both ranges (Fetch, with both ends). O(log)."""
        begin = max(bisect_left(self.first, first[0]), bisect_left(self.second, second[0]))
        return range(begin, min(bisect_right(self.first, first[1]), bisect_right(self.second, second[1])))


class Chains:
    """Index(A^op1, B^op2): for t' behind t in a chain, t'.A op1 t.A (or they are equal) and t'.B op2 t.B.

    >>> index = Chains(Op.GT, Op.LT)
    >>> index.build({(1, 9): [], (2, 8): [], (3, 8): [], (2, 9): []})
    >>> index.rank
    2
    """

    def __init__(self, first: Op, second: Op) -> None:
        self._down = (first in (Op.LT, Op.LE), second in (Op.LT, Op.LE))
        self._strict = second in (Op.LT, Op.GT)
        self.chains: list[Chain] = []
        self._chain_of: dict[Point, Chain] = {}

    @property
    def rank(self) -> int:
        return len(self.chains)

    def build(self, points: dict[Point, list[Entry]]) -> None:
        """OptIndex (Alg. 3): the fewest chains. O(n log n).

        Points come in the order of both dimensions; each goes to the chain whose end is nearest below it. The ends
        stay in order, so a binary search finds it.
        """
        below = bisect_left if self._strict else bisect_right
        ends: list[int] = []
        by_end: list[Chain] = []
        for point, rows in sorted((self._turned(point), rows) for point, rows in points.items()):
            at = below(ends, point[1]) - 1
            if at < 0:
                at = 0
                ends.insert(0, point[1])
                by_end.insert(0, Chain())
                self.chains.append(by_end[0])
            ends[at] = point[1]
            by_end[at].insert(len(by_end[at]), point, rows)
            self._chain_of[point] = by_end[at]

    def add(self, point: Point, row: Entry) -> None:
        """Updating the index (section 6.3): into the longest chain where it fits, or a new one. O(rank x log)."""
        point = self._turned(point)
        chain = self._chain_of.get(point)
        if chain is not None:
            chain.rows[chain.place_of(point)].append(row)
            return
        places = [(chain, self._fits(chain, point)) for chain in self.chains]
        fitting = [(chain, at) for chain, at in places if at is not None]
        chain, at = max(fitting, key=lambda item: len(item[0])) if fitting else (Chain(), 0)
        if not fitting:
            self.chains.append(chain)
        chain.insert(at, point, [row])
        self._chain_of[point] = chain

    def _fits(self, chain: Chain, point: Point) -> int | None:
        """The place where a point can stand in a chain, or None: the two dimensions must agree on it."""
        low, high = bisect_left(chain.first, point[0]), bisect_right(chain.first, point[0])
        least, most = bisect_left(chain.second, point[1]), bisect_right(chain.second, point[1])
        if self._strict and least < most:
            return None
        at = max(low, least)
        return at if at <= min(high, most) else None

    def remove(self, point: Point, row: Entry) -> None:
        """O(log), and the cluster of the point."""
        point = self._turned(point)
        chain = self._chain_of[point]
        rows = chain.rows[chain.place_of(point)]
        rows.remove(row)
        if not rows:
            chain.remove(point)
            del self._chain_of[point]
            if not chain:
                self.chains = [c for c in self.chains if c is not chain]

    def search(self, first: Range, second: Range) -> Iterator[Entry]:
        """The rows in both ranges. O(rank x log + rows). With operators of its own direction this is Fetch, with a
        turned one the index is used reversely (section 6.2), with other columns than its own it is half of Fetch+."""
        first, second = (self._turned_range(r, d) for r, d in zip((first, second), self._down, strict=True))
        for chain in self.chains:
            for place in chain.stretch(first, second):
                yield from chain.rows[place]

    def _turned(self, point: Point) -> Point:
        """Ascending within a chain; the complement turns the order and exists for every 64-bit integer."""
        return (~point[0] if self._down[0] else point[0], ~point[1] if self._down[1] else point[1])

    @staticmethod
    def _turned_range(given: Range, down: bool) -> Range:
        return (~given[1], ~given[0]) if down else given

    def _check(self) -> None:
        """The invariants, for tests."""
        for chain in self.chains:
            assert min(map(len, chain.rows)) > 0  # a chain has points, and a point has rows
            points = list(zip(chain.first, chain.second, strict=True))
            assert all(a <= c for (a, _), (c, _) in pairwise(points))
            assert all(b < d if self._strict else b <= d for (_, b), (_, d) in pairwise(points))
            assert all(self._chain_of[point] is chain for point in points)
        assert sum(map(len, self.chains)) == len(self._chain_of)


def ranges(op: Op | None, value: int, nulls: str) -> list[Range]:
    """What x must be for `value op x` to hold; `!=` is two ranges, no operator is everything."""
    if op is None:
        return [(NULL, MOST)]
    if value == NULL:
        if op is Op.NE:
            return {"equal": [(NULL + 1, MOST)], "distinct": [(NULL, MOST)], "sql": []}[nulls]
        return [(NULL, NULL)] if nulls == "equal" and op in (Op.EQ, Op.LE, Op.GE) else []
    if op is Op.NE:
        found = [(NULL + 1 if nulls == "sql" else NULL, value - 1), (value + 1, MOST)]
    elif op in (Op.LT, Op.LE):
        found = [(value + (op is Op.LT), MOST)]
    elif op in (Op.GT, Op.GE):
        found = [(NULL + 1, value - (op is Op.GT))]
    else:
        found = [(value, value)]
    return [(low, high) for low, high in found if low <= high]


class ChainPartners:
    """Chains over the first two dimensions in each bucket of the key; further dimensions are tested row by row.

    One dimension is taken twice (a single chain), none is a single point.
    """

    def __init__(self, side: Side, ops: Ops) -> None:
        self._dims = len(side.dims)
        self._places = (0, min(1, self._dims - 1))
        self._marks = _long_chains(ops[0], ops[1]) if self._dims > 1 else (Op.GE, Op.GE)
        self._buckets: dict[Values, Chains] = {}

    @property
    def nbytes(self) -> int:
        chains = [chain for bucket in self._buckets.values() for chain in bucket.chains]
        return sum(24 * len(chain) + 8 * sum(map(len, chain.rows)) for chain in chains)

    def _point(self, values: Values) -> Point:
        return (values[self._places[0]], values[self._places[1]]) if values else (0, 0)

    def load(self, entries: Iterable[Entry]) -> None:
        """Both ways of turning the second dimension are tried, and the one with fewer chains is kept."""
        clusters: dict[Values, dict[Point, list[Entry]]] = defaultdict(lambda: defaultdict(list))
        for entry in entries:
            clusters[entry[1]][self._point(entry[2])].append(entry)
        for key, points in clusters.items():
            tries = [Chains(self._marks[0], mark) for mark in (Op.GE, Op.LE)]
            for made in tries:
                made.build(points)
            self._buckets[key] = min(tries, key=lambda made: made.rank)

    def add(self, entry: Entry) -> None:
        bucket = self._buckets.get(entry[1])
        if bucket is None:
            bucket = self._buckets[entry[1]] = Chains(*self._marks)
        bucket.add(self._point(entry[2]), entry)

    def remove(self, entry: Entry) -> None:
        bucket = self._buckets[entry[1]]
        bucket.remove(self._point(entry[2]), entry)
        if not bucket.chains:
            del self._buckets[entry[1]]

    def find(self, key: Values, values: Values, ops: Ops, nulls: str) -> list[int]:
        """As `Partners.find`."""
        bucket = self._buckets.get(key)
        if bucket is None:
            return []
        allowed = [ranges(op, value, nulls) for op, value in zip(ops, values, strict=True)]
        if not values:
            return [row for row, _, _ in bucket.search((NULL, MOST), (NULL, MOST))]
        found = []
        for first, second in product(*(allowed[place] for place in self._places)):
            for row, _, theirs in bucket.search(first, second):
                if all(any(low <= x <= high for low, high in allowed[d]) for d, x in enumerate(theirs[2:], start=2)):
                    found.append(row)
        return found


def _long_chains(first: Op | None, second: Op | None) -> tuple[Op, Op]:
    """The marks for which chains are long where the rule holds: few pairs satisfy both operators, so the rows that
    ascend in one dimension by the first operator mostly ascend in the other against the second."""
    return (Op.LE if first in (Op.LT, Op.LE) else Op.GE), (Op.LE if second in (Op.GT, Op.GE) else Op.GE)


class ChainIndex(RowByRow):
    """The index `chain`: an insert costs O(rank x log) for each bucket it asks, and O(bucket) memory moves."""

    def make_partners(self, side: Side, ops: Sequence[Ops]) -> Partners:
        return ChainPartners(side, ops[0])
