"""The layout of tiles. Every two rows that may violate a rule together meet in exactly one tile.

For rules with equalities, a tile is a range of key hashes. A range with too many rows, because many share a key, is
split into chunks, with one tile for each pair of chunks. For rules without equalities, a tile is a pair of blocks by
the first dimension; pairs whose bounds rule out any violation are omitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from holdfast.indexes.plan import Group
from holdfast.pipeline.whole.parts import Places

SLOTS = 4096  # ranges of key hashes
ROWS_PER_TILE = 1_000_000
BLOCKS = 24  # at most, for a group without equalities
T, S = 1, 2  # roles, as bits: a row may have both


@dataclass(frozen=True)
class HashTiles:
    """Tiles by ranges of key hashes.

    `tile_of[slot]` is the first tile of a range, `chunks[slot]` its number of chunks. A range of c > 1 chunks has c * c
    tiles, one for each pair of chunks.
    """

    tile_of: Places
    chunks: Places
    count: int

    @classmethod
    def of(cls, rows: Places, cores: int) -> HashTiles:
        """Lays tiles out from the number of rows by range: merges small ranges into a tile, and splits large ones."""
        share = max(1, min(ROWS_PER_TILE, int(rows.sum()) // (2 * cores) + 1))
        chunks = np.maximum(1, -(-rows // (2 * share))).astype(np.int64)
        tile_of, tile, filled = np.zeros(SLOTS, np.int64), 0, 0
        for slot in np.argsort(chunks, kind="stable").tolist():  # ranges that are split come last
            if chunks[slot] > 1 or filled + int(rows[slot]) > share:
                tile, filled = tile + (1 if filled else 0), 0
            tile_of[slot] = tile
            if chunks[slot] > 1:
                tile += int(chunks[slot]) ** 2
            else:
                filled += int(rows[slot])
        return cls(tile_of, chunks, tile + 1)

    def send(self, slots: Places, ids: Places, role: int) -> tuple[Places, Places]:
        """(row, tile) for each tile that a row in this role belongs to."""
        chunks = self.chunks[slots]
        rows = np.repeat(np.arange(len(slots)), chunks)
        other = np.arange(len(rows)) - np.repeat(np.cumsum(chunks) - chunks, chunks)
        mine, many = ids[rows] % chunks[rows], chunks[rows]
        within = mine * many + other if role == T else other * many + mine
        return rows, self.tile_of[slots[rows]] + np.where(many > 1, within, 0)


@dataclass(frozen=True)
class BlockTiles:
    """Tiles as pairs of a t block and an s block. `wanted[t, s]` is the number of the tile, -1 if it is omitted."""

    edges: tuple[Places, Places]  # between blocks, by the first dimension, as t and as s
    wanted: Places

    @property
    def count(self) -> int:
        return int(self.wanted.max(initial=-1)) + 1

    def block(self, values: Places, role: int) -> Places:
        return np.searchsorted(self.edges[0 if role == T else 1], values, side="right").astype(np.int64)

    def send(self, blocks: Places, _: Places, role: int) -> tuple[Places, Places]:
        tiles = self.wanted if role == T else self.wanted.T
        rows, others = np.nonzero(tiles[blocks] >= 0)
        return rows, tiles[blocks[rows], others]


def may_violate(group: Group, t: pd.DataFrame, s: pd.DataFrame) -> bool:
    """Whether the bounds of a t block and an s block allow a violation of at least one rule."""
    mine, theirs = t.set_index("dim"), s.set_index("dim")
    for rule in range(len(group.rules)):
        possible = True
        for d, op in enumerate(group.ops(rule)):
            if op is None or d not in mine.index or d not in theirs.index:
                continue
            if mine.nulls[d] or theirs.nulls[d]:
                continue  # whether a null matches depends on the null policy, which the index evaluates
            low, high = (mine.least[d], theirs.most[d]), (mine.most[d], theirs.least[d])
            possible &= bool(
                {"<": low[0] < low[1], "<=": low[0] <= low[1], ">": high[0] > high[1], ">=": high[0] >= high[1]}.get(
                    str(op.value), True
                )
            )
        if possible:
            return True
    return False
