"""What the moves of a batch do to a pair rule that no aggregate can count: the moves meet all other rows.

The moves go to every worker, a chunk at a time, and the rows stay where they are: a scan of the columns that the rule
reads, or of the touched groups only, if the rule has equalities. The chunk is small, whatever the size of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.arrays import table_to_buffer
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Compare
from holdfast.rules.rule import as_dc
from holdfast.spark.listing import RowNames
from holdfast.spark.pair_tasks import CHANGE_COUNTS, MeetTask, Moved, PairSearch
from holdfast.spark.rows import SparkRows
from holdfast.spark.state_files import union
from holdfast.spark.upkeep import touched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOVES_AT_ONCE = 100_000


@dataclass(frozen=True)
class PairChange:
    """A pair rule and the moves of a batch, with the rows as they were before it."""

    search: PairSearch
    rows: SparkRows
    moves: DataFrame
    count: int

    def counted(self) -> DataFrame:
        """One row: violations added and removed."""
        parts = union(self._meetings(None, CHANGE_COUNTS, with_names=False))
        totals = (F.coalesce(F.sum(c), F.lit(0)).cast("decimal(38,0)").alias(c) for c in ("added", "removed"))
        return parts.agg(*totals)

    def listed(self, what: str) -> DataFrame:
        """t and s of the pairs that the batch added or removed."""
        names = RowNames.of(self.rows.options)
        fields = [f"{side}{i} {type_}" for side in "ts" for i, type_ in enumerate(names.types)]
        return names.pairs(union(self._meetings(what, ", ".join(fields), with_names=True)))

    def _meetings(self, lists: str | None, schema: str, *, with_names: bool) -> Iterator[DataFrame]:
        """The pairs of each chunk of moves: within the chunk, with rows that do not change, and with later chunks."""
        columns = ["existed", "remains", *(f"{end}_{c}" for end in ("old", "new") for c in self._cells)]
        names = RowNames.of(self.rows.options).parts("k") if with_names else []
        chunks = max(1, -(-self.count // MOVES_AT_ONCE))
        chunk = F.pmod(F.xxhash64(*self.rows.identity), F.lit(chunks))
        unmoved = self.rows.without(self.moves, many=chunks > 1)
        one = self.moves.sparkSession.range(1)
        for number in range(chunks):
            mine = self.moves.where(chunk == number)
            moved = Moved(self.search, table_to_buffer(mine.select(*columns, *names).toArrow()).to_pybytes())
            yield one.mapInArrow(MeetTask(moved, lists, alone=True), schema)
            others = self._touched(unmoved, mine).select(*self._cells, *names)
            yield others.mapInArrow(MeetTask(moved, lists), schema)
            if number + 1 < chunks:
                later = self.moves.where(chunk > number).select(*columns, *names)
                yield later.mapInArrow(MeetTask(moved, lists), schema)

    @property
    def _cells(self) -> list[str]:
        return [f"c{i}" for i in self.search.columns]

    @cached_property
    def _equal(self) -> list[str]:
        """The cells that t and s have in common in every violation."""
        pairs = [p for p in as_dc(self.search.rule).written if isinstance(p, Compare) and p.is_pair and p.op is Op.EQ]  # type: ignore[arg-type]
        columns = [p.cells[0].column for p in pairs if p.cells[0].column == p.cells[1].column]
        return [f"c{self.search.schema.position(column)}" for column in sorted(columns)]

    def _touched(self, unmoved: DataFrame, moves: DataFrame) -> DataFrame:
        """The rows that can be partners: those with the same values in the equalities."""
        ends = [
            moves.where(there).select(*(F.col(f"{end}_{c}").alias(c) for c in self._equal))
            for end, there in (("old", "existed"), ("new", "remains"))
        ]
        return touched(unmoved, union(ends), self._equal, many=False) if self._equal else unmoved
