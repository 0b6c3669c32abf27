"""The rows of a table on Spark, as signed images in files.

An image is a row as it was from version `v` on. It counts until a piece has it again with n = -1. Rows are identified
by their key, or by an id that they get when they are written; the youngest id is the largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.spark.frames import cells, places, same, spark_type
from holdfast.spark.listing import ID
from holdfast.spark.state_files import StateFiles
from holdfast.table.options import TableOptions

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

MANY = 500_000  # rows; fewer are sent to all workers, rather than moving the rows that they meet


def rows_state(table: str) -> str:
    """The name of the state with the rows of a table."""
    return f"rows-{table.encode().hex()}"


@dataclass(frozen=True)
class SparkRows:
    """The rows of a table."""

    files: StateFiles
    name: str
    options: TableOptions

    @property
    def identity(self) -> list[str]:
        """The columns that identify a row."""
        return places(self.options.schema, self.options.key) or [ID]

    @property
    def columns(self) -> list[str]:
        """The cells, and the id if there is no key."""
        return [*([] if self.options.key else [ID]), *cells(self.options.schema)]

    def first(self, frame: DataFrame) -> DataFrame:
        """The first images, of a frame of cells."""
        ids = [] if self.options.key else [F.monotonically_increasing_id().alias(ID)]
        columns = self.options.schema.columns
        values = [F.col(f"c{i}").cast(spark_type(column)).alias(f"c{i}") for i, column in enumerate(columns)]
        return frame.select(*ids, *values, *_signed(0, 1))

    def current(self) -> DataFrame:
        """The images that count: with the columns `v`, cells, and the id if there is no key."""
        return self._counting(self.files.read(rows_state(self.name)))

    def _counting(self, images: DataFrame) -> DataFrame:
        pieces = self.files.states[rows_state(self.name)].pieces
        added = images.where("n > 0").select(*self.columns, "v")
        if len(pieces) < 2:
            return added
        gone = self.files.read(rows_state(self.name), pieces[1:]).where("n < 0")
        names = [f"gone{i}" for i in range(len(self.identity) + 1)]
        gone = gone.select(*self.identity, "v").toDF(*names)
        few = self.files.added_rows(rows_state(self.name)) <= MANY
        return added.join(F.broadcast(gone) if few else gone, same([*self.identity, "v"], names), "left_anti")

    def that_meet(self, wanted: DataFrame, on: list[str], many: bool) -> DataFrame:
        """The images that count and whose columns `on` are those of some wanted row; nulls are equal."""
        names = [f"wanted{i}" for i in range(len(on))]
        wanted = wanted.select(on).toDF(*names).distinct()
        images = self.files.read(rows_state(self.name))
        images = images.join(wanted if many else F.broadcast(wanted), same(on, names), "left_semi")
        return self._counting(images)

    def without(self, moves: DataFrame, many: bool) -> DataFrame:
        """The images that count and that a batch does not change. `moves` has their identity."""
        names = [f"moved{i}" for i in range(len(self.identity))]
        moved = moves.select(self.identity).toDF(*names)
        return self.current().join(moved if many else F.broadcast(moved), same(self.identity, names), "left_anti")

    def changed(self, moves: DataFrame, version: int) -> DataFrame:
        """The signed images of a batch: each row as it was, with -1, and as it is now, with +1."""
        schema = self.options.schema
        ids = [] if self.options.key else [ID]
        old = [F.col(f"old_{c}").alias(c) for c in cells(schema)]
        new = [F.col(f"new_{c}").alias(c) for c in cells(schema)]
        was = moves.where("existed").select(*ids, *old, F.col("v"), F.lit(-1).alias("n"))
        is_ = moves.where("remains").select(*ids, *new, *_signed(version, 1))
        return was.unionByName(is_)

    def merged(self, whole: bool) -> DataFrame:
        """The images of all pieces as one, or of those after the first: without images that came and went."""
        if whole:
            return self.current().select(*self.columns, "v", F.lit(1).alias("n"))
        state = self.files.states[rows_state(self.name)]
        images = self.files.read(rows_state(self.name), state.pieces[1:])
        summed = images.groupBy(*self.columns, "v").agg(F.sum("n").cast("int").alias("n"))
        return summed.where("n != 0")


def _signed(version: int, n: int) -> list[Expr]:
    return [F.lit(version).cast("bigint").alias("v"), F.lit(n).alias("n")]
