"""All violating pairs of a rule: rows are sent to tiles, in each of which the kernels of the process search.

For rules that no aggregate can count: those with order comparisons, or between different columns. O(rows log rows) for
rules with equalities; for others, each two blocks whose bounds leave room for a violation meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from holdfast.rules.operator import Op
from holdfast.rules.predicate import Compare
from holdfast.rules.rule import as_dc
from holdfast.spark.pair_tasks import COUNT, PairSearch, S, T, TileTask
from holdfast.spark.predicates import are_exact, common
from holdfast.spark.session import cores_of
from holdfast.spark.state_files import union
from holdfast.spark.tiles import BLOCKS, ROWS_PER_TILE, SLOTS, BlockTiles, Bounds, HashTiles, distinct_edges
from holdfast.table.kind import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PairComparison:
    """t op s of a pair rule, both sides as Spark expressions of one type: numbers, if it is by an order."""

    op: Op
    t: Expr
    s: Expr
    is_float: bool


@dataclass(frozen=True)
class TiledSearch:
    """The search of a rule's violations among rows with the columns `id`, c0, c1, ... and, for lists, k0, k1, ..."""

    search: PairSearch
    rows: DataFrame

    @cached_property
    def cores(self) -> int:
        return cores_of(self.rows.sparkSession)

    def counts(self) -> DataFrame:
        """Numbers of violations, to be summed."""
        return self._searched([], lists=False, schema=COUNT)

    def pairs(self, names: list[str], types: list[str]) -> DataFrame:
        """The names of the violating pairs: t0, t1, ..., s0, s1, ... `names` are columns of the rows."""
        sent = [f"k{i}" for i in range(len(names))]
        rows = self.rows.select("*", *(F.col(n).alias(k) for n, k in zip(names, sent, strict=True)))
        schema = ", ".join(f"{side}{i} {type_}" for side in "ts" for i, type_ in enumerate(types))
        return TiledSearch(self.search, rows)._searched(sent, lists=True, schema=schema)

    def _searched(self, names: list[str], *, lists: bool, schema: str) -> DataFrame:
        columns = ["id", *names, *(f"c{i}" for i in self.search.columns)]
        tiles, sent = self._hashed(columns) if self._equal else self._blocked(columns)
        parts = max(1, min(tiles, 64 * self.cores))
        return sent.repartition(parts, "tile").mapInArrow(TileTask(self.search, lists), schema)

    # --- what the rule compares -----------------------------------------------------------------------------

    @cached_property
    def _comparisons(self) -> list[PairComparison]:
        """The comparisons between t and s that Spark can do exactly."""
        schema, made = self.search.schema, []
        for p in sorted(as_dc(self.search.rule).written, key=str):  # type: ignore[arg-type]
            if isinstance(p, Compare) and p.is_pair and are_exact([p], schema):
                left, right = (schema.column(cell.column) for cell in p.cells)
                a, b = (F.col(f"c{schema.position(column.name)}") for column in (left, right))
                t, s = common(left, a, right, b)
                kind = left.kind if left.kind is right.kind else None
                made.append(PairComparison(p.op, as_number(kind, t), as_number(kind, s), kind is Kind.FLOAT))
        return made

    @cached_property
    def _equal(self) -> list[PairComparison]:
        return [c for c in self._comparisons if c.op is Op.EQ]

    @cached_property
    def _ordered(self) -> list[PairComparison]:
        return [c for c in self._comparisons if c.op.is_order]

    # --- rules with equalities ------------------------------------------------------------------------------

    def _hashed(self, columns: list[str]) -> tuple[int, DataFrame]:
        roles = [(T, [c.t for c in self._equal]), (S, [c.s for c in self._equal])]
        if self.search.group.shared:
            roles = [(T | S, roles[0][1])]
        slots = {role: F.pmod(F.xxhash64(*keys), F.lit(SLOTS)).cast("int") for role, keys in roles}
        counted = [self.rows.groupBy(slot.alias("slot")).agg(F.count("*").alias("n")) for slot in slots.values()]
        rows: dict[int, int] = {}
        for part in counted:
            for row in part.collect():
                rows[row["slot"]] = rows.get(row["slot"], 0) + row["n"]
        tiles = HashTiles.of(rows, self.cores)
        if tiles.is_split and self.search.group.shared:
            slots = {T: slots[T | S], S: slots[T | S]}
        return tiles.count, union(self._in_hash_tiles(slot, role, tiles, columns) for role, slot in slots.items())

    def _in_hash_tiles(self, slot: Expr, role: int, tiles: HashTiles, columns: list[str]) -> DataFrame:
        rows = self.rows.select(*columns, F.lit(role).alias("role"), slot.alias("slot"))
        layout = self._local(slot=list(range(SLOTS)), first=tiles.first, chunks=tiles.chunks)
        rows = rows.join(F.broadcast(layout), "slot")
        if not tiles.is_split:
            return rows.select(*columns, "role", F.col("first").alias("tile"))
        rows = rows.select("*", F.explode(F.sequence(F.lit(0).cast("bigint"), F.col("chunks") - 1)).alias("other"))
        mine, many, other = F.pmod(F.col("id"), F.col("chunks")), F.col("chunks"), F.col("other")
        within = mine * many + other if role == T else other * many + mine
        return rows.select(*columns, "role", (F.col("first") + within).alias("tile"))

    def _local(self, **columns: list[int]) -> DataFrame:
        """A small table of numbers."""
        made = {name: pa.array(values, pa.int64()) for name, values in columns.items()}
        return self.rows.sparkSession.createDataFrame(pa.table(made))

    # --- rules without equalities ---------------------------------------------------------------------------

    def _blocked(self, columns: list[str]) -> tuple[int, DataFrame]:
        count = max(1, min(BLOCKS, max(self.cores, -(-self.rows.count() // (ROWS_PER_TILE // 4)))))
        by = self._ordered[0] if self._ordered else None
        edges = self._edges(by, count) if by is not None else []
        if by is None:
            block = F.pmod(F.col("id"), F.lit(count)).cast("int")
            blocks = {T: block, S: block}
            bounds: dict[int, dict[int, list[Bounds]]] = {role: {b: [] for b in range(count)} for role in (T, S)}
            edges = [float(b) for b in range(1, count)]
        else:
            blocks = {T: block_of(by.t, edges), S: block_of(by.s, edges)}
            bounds = self._bounds(blocks)
        tiles = BlockTiles.of(edges, bounds[T], bounds[S], [c.op for c in self._ordered])
        sent = []
        for role, of in ((T, tiles.of_t), (S, tiles.of_s)):
            layout = self._local(
                block=[block for block, some in enumerate(of) for _ in some],
                tile=[tile for some in of for tile in some],
            )
            rows = self.rows.select(*columns, F.lit(role).alias("role"), blocks[role].alias("block"))
            sent.append(rows.join(F.broadcast(layout), "block").select(*columns, "role", "tile"))
        return tiles.count, union(sent)

    def _edges(self, by: PairComparison, count: int) -> list[float]:
        if count == 1:
            return []
        both = union(self.rows.select(side.cast("double").alias("value")) for side in (by.t, by.s))
        shares = [i / count for i in range(1, count)]
        (found,) = both.agg(F.percentile_approx("value", shares, 1000)).collect()
        return distinct_edges(found[0] or [])

    def _bounds(self, blocks: dict[int, Expr]) -> dict[int, dict[int, list[Bounds]]]:
        """The least and greatest values of each block, as t and as s, merged over all partitions."""
        made: dict[int, dict[int, list[Bounds]]] = {}
        for role, block in blocks.items():
            sides = [(c.t if role == T else c.s, c.is_float) for c in self._ordered]
            totals = []
            for d, (side, is_float) in enumerate(sides):
                strange = side.isNull() | (F.isnan(side) if is_float else F.lit(False))
                totals += [F.min(side).alias(f"least{d}"), F.max(side).alias(f"most{d}")]
                totals.append(F.max(strange).alias(f"open{d}"))
            rows = self.rows.groupBy(block.alias("block")).agg(*totals).collect()
            dims = range(len(sides))
            made[role] = {
                r["block"]: [Bounds(r[f"least{d}"], r[f"most{d}"], r[f"open{d}"]) for d in dims] for r in rows
            }
        return made


def as_number(kind: Kind | None, cell: Expr) -> Expr:
    """A date or timestamp as a number, which no session's time zone changes. None: of two kinds, already a number."""
    if kind is Kind.DATE:
        return F.unix_date(cell)
    return F.unix_micros(cell) if kind is Kind.TIMESTAMP else cell


def block_of(value: Expr, edges: list[float]) -> Expr:
    """The number of edges that are at most the value; the last block for nulls. A balanced tree of tests."""

    def between(low: int, high: int) -> Expr:
        if low == high:
            return F.lit(low)
        middle = (low + high) // 2
        return F.when(value.cast("double") < F.lit(edges[middle]), between(low, middle)).otherwise(
            between(middle + 1, high)
        )

    return F.when(value.isNull(), F.lit(len(edges) + 1)).otherwise(between(0, len(edges)))
