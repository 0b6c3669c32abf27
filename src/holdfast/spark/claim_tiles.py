"""Claims about pairs of rows that share no value: rows meet in pairs of blocks.

Blocks are ranges of one column. Each knows the bounds of all ordered columns; two blocks meet only if their bounds
leave room for a pair that satisfies some claim. A claim of two inequalities that holds leaves room only in blocks that
touch, so its rows are sent about three times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from holdfast.arrays import Flags
from holdfast.discovery.witness.predicate_space import PredicateSpace, Term
from holdfast.rules.masks import Masks
from holdfast.spark.claim_tasks import AskedClaims, ClaimTileTask
from holdfast.spark.frames import cells
from holdfast.spark.pair_tiles import as_number, block_of
from holdfast.spark.tiles import BLOCKS, Bounds, distinct_edges, may_violate
from holdfast.table.kind import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

ROWS_OF_BLOCK = 125_000
BlockBounds = Mapping[int, Mapping[int, Bounds]]  # by block and column


@dataclass(frozen=True)
class ClaimTiles:
    """Claims whose rows are cut into blocks of one column; None: of equal hashes."""

    rows: DataFrame
    space: PredicateSpace
    column: int | None
    blocks: int

    @classmethod
    def of(
        cls, rows: DataFrame, space: PredicateSpace, claims: Masks, numbers: Sequence[int], count: int
    ) -> Iterator[tuple[ClaimTiles, list[int]]]:
        """The claims by the column that cuts their rows into blocks, as few columns as possible."""
        blocks = max(1, min(BLOCKS, -(-count // ROWS_OF_BLOCK)))
        ordered = {number: _ordered_columns(space, claims[number]) for number in numbers}
        while ordered:
            uses = Counter(column for columns in ordered.values() for column in columns)
            column = min(uses, key=lambda c: (-uses[c], c)) if uses else None
            chosen = [number for number, columns in ordered.items() if column is None or column in columns]
            yield cls(rows, space, column, blocks), chosen
            ordered = {number: columns for number, columns in ordered.items() if number not in chosen}

    def found(self, asked: AskedClaims, schema: str) -> DataFrame:
        """The claims that are refuted in a tile, with pairs."""
        block = self._block()
        bounds = self._bounds(block) if self.blocks > 1 else {}
        pairs, needed = self._tiles(bounds, asked.masks)
        layout = pa.table(
            {
                "block": pa.array([b for pair in pairs for b in sorted(set(pair))], pa.int32()),
                "tile": pa.array([tile for tile, pair in enumerate(pairs) for _ in set(pair)], pa.int32()),
            }
        )
        rows = self.rows.select(*cells(self.space.schema), block.cast("int").alias("block"))
        if not pairs:
            return rows.where("false").mapInArrow(_nothing, schema)
        sent = rows.join(F.broadcast(self.rows.sparkSession.createDataFrame(layout)), "block").drop("block")
        task = ClaimTileTask(asked, needed)
        return sent.groupBy("tile").applyInArrow(lambda tile, some: task(tile, some), schema)  # counts its arguments

    # --- blocks ---------------------------------------------------------------------------------------------

    def _block(self) -> Expr:
        """The number of a row's block."""
        if self.blocks == 1:
            return F.lit(0)
        if self.column is None:
            return F.pmod(F.xxhash64(*cells(self.space.schema)), F.lit(self.blocks))
        value = self._number(self.column)
        shares = [i / self.blocks for i in range(1, self.blocks)]
        (found,) = self.rows.agg(F.percentile_approx(value.cast("double"), shares, 1000)).collect()
        return block_of(value, distinct_edges(found[0] or []))

    def _number(self, column: int) -> Expr:
        return as_number(self.space.schema.columns[column].kind, F.col(f"c{column}"))

    def _bounds(self, block: Expr) -> BlockBounds:
        """The least and the greatest value of each ordered column in each block."""
        columns = [i for i, column in enumerate(self.space.schema.columns) if column.kind.ordered]
        totals = []
        for c in columns:
            value = self._number(c)
            strange = value.isNull()
            if self.space.schema.columns[c].kind is Kind.FLOAT:
                strange |= F.isnan(value)
            totals += [
                F.min(value).alias(f"least{c}"),
                F.max(value).alias(f"most{c}"),
                F.max(strange).alias(f"open{c}"),
            ]
        rows = self.rows.groupBy(block.alias("block")).agg(F.count("*"), *totals).collect()
        return {r["block"]: {c: Bounds(r[f"least{c}"], r[f"most{c}"], r[f"open{c}"]) for c in columns} for r in rows}

    def _tiles(self, bounds: BlockBounds, claims: Masks) -> tuple[list[tuple[int, int]], Flags]:
        """The pairs of blocks that have to meet; and [tile, claim]: for which claims."""
        if self.blocks == 1:
            return [(0, 0)], np.ones((1, len(claims)), np.bool_)
        terms = [self._ordered_terms(claim) for claim in claims]
        blocks = sorted(bounds)
        pairs, needed = [], []
        for place, a in enumerate(blocks):
            for b in blocks[place:]:
                room = [_has_room(self.space, of, bounds[a], bounds[b]) for of in terms]
                if any(room):
                    pairs.append((a, b))
                    needed.append(room)
        return pairs, np.array(needed, np.bool_).reshape(len(pairs), len(claims))

    def _ordered_terms(self, claim: Masks) -> list[Term]:
        """The comparisons of values of one kind that have an order."""
        columns = self.space.schema.columns
        sides = [(i, op, self.space.comparisons[i]) for i, op in self.space.terms(claim)]
        return [(i, op) for i, op, c in sides if c.ordered and columns[c.left].kind is columns[c.right].kind]


def _has_room(space: PredicateSpace, terms: list[Term], a: Mapping[int, Bounds], b: Mapping[int, Bounds]) -> bool:
    """Whether bounds leave room for a pair of a row of one block and a row of the other, in either role."""
    ops = [op for _, op in terms]
    compared = [space.comparisons[i] for i, _ in terms]
    return any(
        may_violate([t[c.left] for c in compared], [s[c.right] for c in compared], ops) for t, s in ((a, b), (b, a))
    )


def _ordered_columns(space: PredicateSpace, claim: Masks) -> set[int]:
    """The columns that a claim compares by an order."""
    terms = space.terms(claim)
    return {side for i, op in terms if op.is_order for side in (space.comparisons[i].left, space.comparisons[i].right)}


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(())
