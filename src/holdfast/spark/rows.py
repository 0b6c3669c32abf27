"""The rows of a table on Spark, as signed images in files.

An image is a row as it was from version `v` on. It counts until an image with n = -1 takes it back. Rows are identified
by their key, or by an id that they get when they are written; the youngest id is the largest. A batch writes its moves,
each row before and after, and nothing else: a move is two images. Compaction writes them as such.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.spark.frames import cells, places, same, spark_type
from holdfast.spark.listing import ID
from holdfast.spark.state_files import StateFiles, union
from holdfast.table.options import TableOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MANY = 500_000  # rows; fewer are sent to all workers, rather than moving the rows that they meet


def rows_state(table: str) -> str:
    """The name of the state with the rows of a table."""
    return f"rows-{table.encode().hex()}"


def moves_state(table: str) -> str:
    """The name of the state with the moves of a table that are not added to the other states yet."""
    return f"moves-{table.encode().hex()}"


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
        return frame.select(*ids, *values, F.lit(0).cast("bigint").alias("v"), F.lit(1).alias("n"))

    def no_moves(self) -> DataFrame:
        """Moves of no row: the first piece. With it, every batch has the same plan, which Spark compiles once."""
        ends = [f"{cell} as {end}_{cell}" for end in ("old", "new") for cell in cells(self.options.schema)]
        flags = ["true as existed", "true as remains", "v", *ends, "false as bad", "false as drift", "v as moved"]
        return self.files.read(rows_state(self.name)).where("false").selectExpr(*self.identity, *flags)

    def waiting(self) -> DataFrame:
        """The moves that are not added to the states yet."""
        return self.files.read(moves_state(self.name))

    def current(self) -> DataFrame:
        """The images that count: with the columns `v`, cells, and the id if there is no key."""
        return self._counting(self._images(added=True))

    def _images(self, *, added: bool) -> DataFrame:
        """The images with n > 0 or with n < 0; of the latter, the first piece has none."""
        pieces = self.files.states[rows_state(self.name)].pieces
        chosen = self.files.read(rows_state(self.name), pieces if added else pieces[1:])
        images = chosen.where("n > 0" if added else "n < 0").select(*self.columns, "v")
        return union([images, self._ends(self.waiting(), after=added)])

    def _ends(self, moves: DataFrame, *, after: bool) -> DataFrame:
        """The images of moved rows after the move, or before it."""
        end, there, since = ("new", "remains", "moved") if after else ("old", "existed", "v")
        ids = [] if self.options.key else [ID]
        values = [f"{end}_{cell} as {cell}" for cell in cells(self.options.schema)]
        return moves.where(there).selectExpr(*ids, *values, f"{since} as v")

    def _counting(self, images: DataFrame) -> DataFrame:
        """The images that none takes back."""
        taken = self.files.added_rows(rows_state(self.name)) + self.files.all_rows(moves_state(self.name))
        names = [f"gone{i}" for i in range(len(self.identity) + 1)]
        gone = self._images(added=False).select(*self.identity, "v").toDF(*names)
        return images.join(
            F.broadcast(gone) if taken <= MANY else gone, same([*self.identity, "v"], names), "left_anti"
        )

    def that_meet(self, wanted: DataFrame, on: list[str], many: bool) -> DataFrame:
        """The images that count and whose columns `on` are those of some wanted row; nulls are equal."""
        names = [f"wanted{i}" for i in range(len(on))]
        wanted = wanted.select(on).toDF(*names)
        images = self._images(added=True)
        images = images.join(wanted if many else F.broadcast(wanted), same(on, names), "left_semi")
        return self._counting(images)

    def without(self, moves: DataFrame, many: bool) -> DataFrame:
        """The images that count and that a batch does not change. `moves` has their identity."""
        names = [f"moved{i}" for i in range(len(self.identity))]
        moved = moves.select(self.identity).toDF(*names)
        return self.current().join(moved if many else F.broadcast(moved), same(self.identity, names), "left_anti")

    def merged(self, whole: bool) -> DataFrame:
        """All images as one piece, or those that follow the first piece: without images that came and went."""
        if whole:
            return self.current().select(*self.columns, "v", F.lit(1).alias("n"))
        pieces = self.files.states[rows_state(self.name)].pieces[1:]
        images = [self.files.read(rows_state(self.name), pieces)] if pieces else []
        moves = self.waiting()
        for after, n in ((True, 1), (False, -1)):
            images.append(self._ends(moves, after=after).select("*", F.lit(n).alias("n")))
        summed = union(images).groupBy(*self.columns, "v").agg(F.sum("n").cast("int").alias("n"))
        return summed.where("n != 0")
