"""The changes of a batch as signed row events in a DataFrame: `seq` (their order), `sign`, `full`, and cells.

`full`: all cells are given, not only the key. An update is two events, the row before (-1) and after (+1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from holdfast.errors import NotAvailable, SchemaError, shown
from holdfast.places import are_spark_frames
from holdfast.spark.frames import all_of, by_position, places, schema_of, spark_type
from holdfast.spark.state_files import union
from holdfast.table.change import BEFORE, DELETE, UPSERT, Change, Changes, Feed, Part, require_changes
from holdfast.table.dictionary import TextDictionary
from holdfast.table.encode import decode_table, encode_table
from holdfast.table.kind import Kind
from holdfast.table.options import TableOptions
from holdfast.table.read import conform
from holdfast.table.schema import Schema, unknown_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NEXT_PART = 1 << 40  # between the order numbers of two parts of a change


@dataclass(frozen=True)
class Events:
    """The events of one table. `fixed`: they are in memory of this process, so that reading them twice gives the same
    rows."""

    frame: DataFrame
    fixed: bool


def events_by_table(changes: Changes, tables: dict[str, TableOptions], spark: SparkSession) -> dict[str, Events]:
    """The events of a batch by table, in the order in which they apply."""
    made: dict[str, list[Events]] = {}
    for name, change in require_changes(changes, tables):
        options = tables[name]
        for some in _events(change, options, spark):
            parts = made.setdefault(name, [])
            parts.append(Events(some.frame.withColumn("seq", F.col("seq") + len(parts) * _NEXT_PART), some.fixed))
    return {name: Events(union(p.frame for p in parts), all(p.fixed for p in parts)) for name, parts in made.items()}


def _events(change: Change | Feed, options: TableOptions, spark: SparkSession) -> list[Events]:
    if isinstance(change, Change) and any(map(are_spark_frames, _given(change))):
        return _of_frames(change, options)
    return [_of_part(part, options, spark) for part in change.parts(options)]


def _given(change: Change) -> list[Any]:
    return [given for given in (change.deletes, *(change.updates or ()), change.inserts) if given is not None]


def _of_frames(change: Change, options: TableOptions) -> list[Events]:
    """Of a change whose rows are DataFrames of Spark."""
    if not all(map(are_spark_frames, _given(change))):
        raise SchemaError("the parts of a change are all Spark DataFrames, or none of them is")
    if change.updates is not None:
        raise NotAvailable(
            "rows of two Spark DataFrames have no order in which they match: give the rows before as deletes and the "
            "rows after as inserts; a row that keeps its key is updated"
        )
    made = []
    for frame, sign in ((change.deletes, -1), (change.inserts, 1)):
        if frame is not None:
            columns = _columns(frame.columns, options, "deletes" if sign < 0 else "inserts", deletes=sign < 0)
            fitted = _fitted(frame, columns, options.schema)
            seq = F.monotonically_increasing_id()
            made.append(Events(_with_all_cells(fitted, columns, options, F.lit(sign), seq), fixed=False))
    return made


def _columns(present: Sequence[str], options: TableOptions, place: str, *, deletes: bool) -> list[str]:
    """The columns of a table that a part gives: all, or the key for deletes."""
    names = [n for n in options.schema.names if n in present]
    required = options.key if deletes and options.key else options.schema.names
    for name in required:
        if name not in names:
            raise SchemaError(f"{place}: column {shown(name)} is missing")
    for name in present:
        if name not in names and name not in options.ignored:
            raise SchemaError(f"{place}: {unknown_name('column', name, options.schema.names)}")
    return names if len(names) == len(options.schema) or not deletes else list(options.key)


def _fitted(frame: DataFrame, columns: list[str], schema: Schema) -> DataFrame:
    """The chosen columns as cells of the table; a column of another kind is an error."""
    numbered = frame.toDF(*(f"g{i}" for i in range(len(frame.columns))))
    chosen = numbered.select([f"g{frame.columns.index(name)}" for name in columns]).toDF(*columns)
    given = schema_of(chosen)
    for column in given.columns:
        wanted = schema.column(column.name)
        widens = column.kind in (Kind.INTEGER, Kind.DECIMAL) and wanted.kind is Kind.DECIMAL
        if column.kind is not wanted.kind and not widens and not _has_only_nulls(chosen, column.name):
            raise SchemaError(
                f"column {shown(column.name)} is {wanted.type_text}, but {column.type_text} in the change; cast it"
            )
        if wanted.kind is Kind.DECIMAL and column.scale > wanted.scale:
            raise SchemaError(
                f"column {shown(column.name)} has {wanted.scale} decimal places, but {column.scale} in the change; "
                f"cast it"
            )
    cells_of = by_position(chosen, given)
    wanted_cells = [(f"c{i}", schema.column(name)) for i, name in enumerate(columns)]
    return cells_of.select(
        [F.col(cell).cast(spark_type(c)).alias(f"c{schema.position(c.name)}") for cell, c in wanted_cells]
    )


def _has_only_nulls(frame: DataFrame, name: str) -> bool:
    return bool(frame.schema[name].dataType.typeName() == "void")


def _with_all_cells(frame: DataFrame, columns: list[str], options: TableOptions, sign: Any, seq: Any) -> DataFrame:
    """Events with a cell for every column: null, where a delete gives only the key."""
    schema = options.schema
    given = set(schema.positions(columns))
    made = [
        F.col(f"c{i}") if i in given else F.lit(None).cast(spark_type(c)).alias(f"c{i}")
        for i, c in enumerate(schema.columns)
    ]
    key = set(schema.positions(options.key))
    others = [F.col(f"c{i}").isNull() for i in sorted(given - key)]
    full = F.lit(len(given) == len(schema)) & (~all_of(others) if others else F.lit(True))
    return frame.select(seq.alias("seq"), sign.cast("int").alias("sign"), ((sign > 0) | full).alias("full"), *made)


def _of_part(part: Part, options: TableOptions, spark: SparkSession) -> Events:
    """Of rows in the memory of this process, read as a rulebook in the process reads them."""
    types, source = part.types, part.source
    if (types == UPSERT).any():
        raise NotAvailable("on Spark, a source must say whether it inserts or updates a row")
    names = _columns(source.table.column_names, options, source.place.source, deletes=bool((types == DELETE).all()))
    schema = Schema(tuple(options.schema.column(name) for name in names))
    source, dictionary = conform(source, schema, options.declared), TextDictionary()
    encoded = encode_table(
        schema, source.table, dictionary, textual=source.textual or options.declared, declared=options.declared
    )
    encoded.require_clean(source.place)
    values = decode_table(schema, encoded.codes, dictionary)
    arrays = {c: _short(values.column(n)) for c, n in zip(places(options.schema, names), names, strict=True)}
    signs = np.where((types == DELETE) | (types == BEFORE), -1, 1).astype(np.int32)
    events = pa.table({"seq": pa.array(np.arange(part.count)), "sign": pa.array(signs), **arrays})
    frame = spark.createDataFrame(events)
    return Events(_with_all_cells(frame, names, options, F.col("sign"), F.col("seq")), fixed=True)


def _short(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Large strings as strings, which Spark expects."""
    return values.cast(pa.string()) if pa.types.is_large_string(values.type) else values
