"""Some rows of a table in the memory of this process: a part of the table, in which no row occurs too often.

A rule that holds on the table holds on the sample. Two rows that refute a claim are added to it, by their values: a
sample never has a row more often than the table, because equal rows are added twice only if two equal rows were found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from holdfast.spark.frames import cells
from holdfast.table.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_ROWS, MOST_BYTES = 50_000, 1 << 28
_MEASURED = 1000  # rows that tell how long rows are
Values = tuple[Any, ...]


class RowSample:
    """A sample of the rows of a table, and how many rows the table has."""

    def __init__(self, schema: Schema, rows: pa.Table, count: int) -> None:
        self._schema, self._rows, self.count = schema, rows, count
        self._times = Counter(map(_name, _tuples(rows)))

    @classmethod
    def of(cls, frame: DataFrame, schema: Schema) -> RowSample:
        """The first sample of a frame of cells, with the extremes of each column, and a null if it has one."""
        frame, count = frame.select(cells(schema)), frame.count()
        first = frame.limit(_MEASURED).toArrow()
        size = min(MOST_ROWS, MOST_BYTES // max(1, first.nbytes // max(1, first.num_rows)))
        if count <= size:
            return cls(schema, frame.toArrow(), count)
        rows = frame.sample(size / count, seed=0).limit(size).toArrow()
        sample = cls(schema, rows if rows.num_rows > 1 else frame.limit(2).toArrow(), count)
        sample.add([_extremes(frame, schema)])
        return sample

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of the table."""
        return bool(self._rows.num_rows == self.count)

    @property
    def table(self) -> pa.Table:
        """The rows, under the names of the columns."""
        return self._rows.rename_columns(list(self._schema.names))

    def add(self, found: Iterable[pa.Table]) -> int:
        """Adds rows that were found together, as a pair that refutes a claim. Returns how many were new."""
        missing = []
        for rows in found:
            times = Counter(map(_name, _tuples(rows)))
            for place, values in enumerate(_tuples(rows)):
                name = _name(values)
                if self._times[name] < times[name]:
                    self._times[name] += 1
                    missing.append(rows.slice(place, 1))
        self._rows = pa.concat_tables([self._rows, *missing]).combine_chunks()
        return len(missing)


def _extremes(frame: DataFrame, schema: Schema) -> pa.Table:
    """Rows with the least and the greatest value of each column, and with a null; each of them once. They decide which
    columns are constant."""
    row = f"struct({', '.join(cells(schema))})"
    chosen = [
        expression.format(row=row, cell=cell)
        for cell in cells(schema)
        for expression in ("min_by({row}, {cell})", "max_by({row}, {cell})", "max(if({cell} is null, {row}, null))")
    ]
    rows = frame.agg(F.array(*map(F.expr, chosen)).alias("rows")).selectExpr("explode(array_distinct(rows)) as row")
    return rows.where("row is not null").select("row.*").toArrow()


def _tuples(rows: pa.Table) -> Iterator[Values]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True) if rows.num_columns else iter(())


def _name(values: Values) -> str:
    """Tells rows apart by their values; NaN equals itself."""
    return repr(values)
