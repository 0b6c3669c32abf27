"""The layout of tiles. Every two rows that may violate a rule together meet in exactly one tile.

For rules with equalities, a tile is a range of key hashes. A range with too many rows, because many share a key, is
split into chunks, with one tile for each pair of chunks. For rules without equalities, a tile is a pair of blocks by
the first dimension; pairs of blocks whose bounds rule out any violation are omitted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.rules.operator import Op

SLOTS = 4096  # ranges of key hashes
ROWS_PER_TILE = 1_000_000
BLOCKS = 64  # at most, for a rule without equalities


@dataclass(frozen=True)
class HashTiles:
    """`first[slot]` is the first tile of a range of key hashes, `chunks[slot]` its number of chunks. A range of c > 1
    chunks has c * c tiles, one for each pair of chunks."""

    first: list[int]
    chunks: list[int]
    count: int

    @classmethod
    def of(cls, rows: Mapping[int, int], cores: int) -> HashTiles:
        """Lays tiles out from the number of rows by range: merges small ranges into a tile, and splits large ones."""
        share = max(1, min(ROWS_PER_TILE, sum(rows.values()) // (2 * cores) + 1))
        chunks = [max(1, -(-rows.get(slot, 0) // (2 * share))) for slot in range(SLOTS)]
        first, tile, filled = [0] * SLOTS, 0, 0
        for slot in sorted(range(SLOTS), key=chunks.__getitem__):  # ranges that are split come last
            if chunks[slot] > 1 or filled + rows.get(slot, 0) > share:
                tile, filled = tile + (1 if filled else 0), 0
            first[slot] = tile
            if chunks[slot] > 1:
                tile += chunks[slot] ** 2
            else:
                filled += rows.get(slot, 0)
        return cls(first, chunks, tile + 1)

    @property
    def is_split(self) -> bool:
        return max(self.chunks) > 1


class Bounds(NamedTuple):
    """The values of a block in one dimension. `open`: it has values that the bounds do not describe (nulls, NaN)."""

    least: Any
    most: Any
    open: bool


Block = Sequence[Bounds]  # by dimension


@dataclass(frozen=True)
class BlockTiles:
    """`of_t[b]` are the tiles of t block b, `of_s[b]` those of s block b. Values of the first dimension below
    `edges[0]` are in block 0, and so on."""

    edges: list[float]
    of_t: list[list[int]]
    of_s: list[list[int]]
    count: int

    @classmethod
    def of(cls, edges: list[float], t: Mapping[int, Block], s: Mapping[int, Block], ops: Sequence[Op]) -> BlockTiles:
        """A tile for each t block and s block that may have a violation between them."""
        pairs = [(i, j) for i in sorted(t) for j in sorted(s) if may_violate(t[i], s[j], ops)]
        blocks = range(len(edges) + 2)  # the last is for rows without a value
        of_t = [[tile for tile, (i, _) in enumerate(pairs) if i == block] for block in blocks]
        of_s = [[tile for tile, (_, j) in enumerate(pairs) if j == block] for block in blocks]
        return cls(edges, of_t, of_s, len(pairs))


def may_violate(t: Block, s: Block, ops: Sequence[Op]) -> bool:
    """Whether the bounds of a t block and an s block leave room for t op s in every dimension."""
    return all(_has_room(op, a, b) for op, a, b in zip(ops, t, s, strict=True))


def _has_room(op: Op, t: Bounds, s: Bounds) -> bool:
    if t.open or s.open or None in (t.least, s.least):
        return True  # whether a null satisfies the rule depends on its policy, which the index knows
    rooms = {
        Op.LT: t.least < s.most,
        Op.LE: t.least <= s.most,
        Op.GT: t.most > s.least,
        Op.GE: t.most >= s.least,
        Op.EQ: t.least <= s.most and s.least <= t.most,
    }
    return bool(rooms.get(op, True))


def distinct_edges(quantiles: Sequence[float | None]) -> list[float]:
    """The edges between blocks, of quantiles that may repeat; NaN and infinite ones are left out."""
    return sorted({q for q in quantiles if q is not None and math.isfinite(q)})
