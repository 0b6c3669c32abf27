"""The first rows of a rulebook on Spark: written once; every state reads that copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.errors import ChangeRefused, shown
from holdfast.spark.listing import ID
from holdfast.spark.rows import SparkRows, moves_state, rows_state
from holdfast.spark.state_files import StateFiles
from holdfast.table.options import TableOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_first_rows(
    files: StateFiles, tables: Mapping[str, tuple[DataFrame, TableOptions]]
) -> tuple[dict[str, int], dict[str, int]]:
    """Writes the rows of all tables. Returns how many each has, and the next id of those without a key."""
    counts, next_ids = {}, {}
    for name, (frame, options) in tables.items():
        rows = SparkRows(files, name, options)
        files.append(rows_state(name), rows.first(frame), 0)
        files.append(moves_state(name), rows.no_moves(), 0, rows=0)
        written = rows.current()
        if options.key:
            _require_key(rows, written)
            counts[name] = written.count()
        else:
            (row,) = written.agg(F.count("*").alias("n"), F.max(ID).alias("last")).collect()
            counts[name], next_ids[name] = row["n"], 0 if row["last"] is None else row["last"] + 1
    return counts, next_ids


def _require_key(rows: SparkRows, written: DataFrame) -> None:
    """Raises an error that names a row without a key, or a key that two rows have."""
    key = rows.identity
    twice = written.groupBy(key).agg(F.count("*").alias("times"))
    no_key = F.lit(False)
    for cell in key:
        no_key = no_key | F.col(cell).isNull()
    bad = twice.where((F.col("times") > 1) | no_key).limit(1).collect()
    if bad:
        values = [bad[0][cell] for cell in key]
        place = f"table {shown(rows.name)}"
        if None in values:
            raise ChangeRefused(f"{place}: a row has no key: a key column is null; nothing was made")
        text = ", ".join(f"{n} = {shown(v)}" for n, v in zip(rows.options.key, values, strict=True))
        raise ChangeRefused(f"{place}: {bad[0]['times']} rows have the key {text}; nothing was made")
