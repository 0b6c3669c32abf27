"""Some rows of a table on Spark, for the memory of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_ROWS, MOST_BYTES = 50_000, 1 << 28
_MEASURED = 1000  # rows that tell how long rows are


def sampled_rows(frame: DataFrame, count: int) -> pa.Table:
    """A sample of the rows of a frame that has `count`: all of them if they are few, and two at least."""
    first = frame.limit(_MEASURED).toArrow()
    size = min(MOST_ROWS, MOST_BYTES // max(1, first.nbytes // max(1, first.num_rows)))
    if count <= size:
        return frame.toArrow()
    rows = frame.sample(size / count, seed=0).limit(size).toArrow()
    return rows if rows.num_rows > 1 else first.slice(0, 2)
