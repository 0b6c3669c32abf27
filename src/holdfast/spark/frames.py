"""Tables as Spark DataFrames, with columns c0, c1, ... by position, in the types that rules compare.

Positions instead of names: names may contain anything, or differ only in case, which Spark does not distinguish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType

from holdfast.errors import HoldfastError, SchemaError, shown
from holdfast.places import are_spark_frames
from holdfast.table.kind import Kind
from holdfast.table.options import Choices, TableOptions
from holdfast.table.schema import Column, Schema, column_of_type_text

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame, SparkSession

_SPARK_TYPES = {
    Kind.INTEGER: "bigint",
    Kind.FLOAT: "double",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.BOOLEAN: "boolean",
    Kind.TEXT: "string",
}
_SHORT = 18  # digits of decimals that Spark keeps in 64 bits, and so compares several times faster
_KINDS = {
    **dict.fromkeys(("byte", "short", "integer", "long"), Kind.INTEGER),
    **dict.fromkeys(("float", "double"), Kind.FLOAT),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), Kind.TIMESTAMP),
    **dict.fromkeys(("string", "char", "varchar", "void"), Kind.TEXT),
    "date": Kind.DATE,
    "boolean": Kind.BOOLEAN,
}  # by Spark's names of types


def frames_of(data: Any) -> dict[str, DataFrame]:
    """The tables by name; a lone DataFrame is called `data`."""
    frames = dict(data) if isinstance(data, Mapping) else {"data": data}
    for name, frame in frames.items():
        if not are_spark_frames(frame):
            raise HoldfastError(f"on='spark' is for Spark DataFrames; read the data of {name} with Spark first")
    if not frames:
        raise SchemaError("there are no tables")
    return frames


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Rows in the memory of this process. Spark Connect cannot tell the columns of a table without rows."""
    return spark.createDataFrame(table, None if table.num_rows else from_arrow_schema(table.schema))


def schema_of(frame: DataFrame) -> Schema:
    """The columns that rules compare. A type that cannot be compared is an error that names the column."""
    return Schema(tuple(_column(field.name, field.dataType) for field in frame.schema.fields))


def _column(name: str, type_: Any) -> Column:
    kind = type_.typeName().partition("(")[0]
    if kind == "decimal":
        return column_of_type_text(name, f"decimal({type_.scale})")
    if kind not in _KINDS:
        raise SchemaError(
            f"column {shown(name)} has the type {type_.simpleString()}, which cannot be compared; cast it, or leave it "
            f"out (columns=, exclude=)"
        )
    return Column(name, _KINDS[kind])


def settled(frames: Mapping[str, DataFrame], choices: Choices) -> dict[str, tuple[DataFrame, TableOptions]]:
    """Each table with its chosen columns, in the types that rules compare, and its options."""
    choices.require_tables(frames)
    return {name: _settled(name, frame, choices, len(frames) == 1) for name, frame in frames.items()}


def _settled(name: str, frame: DataFrame, choices: Choices, alone: bool) -> tuple[DataFrame, TableOptions]:
    kept, key = choices.columns_of(name, frame.columns, f"table {shown(name)}")
    types = choices.types_of(name, alone)
    if types:
        column = next(iter(types))
        raise SchemaError(f"column {shown(column)}: on Spark, cast columns in the DataFrame itself, not by types=")
    positions = [i for i, column in enumerate(frame.columns) if column in kept]
    chosen = frame.toDF(*(f"c{i}" for i in range(len(frame.columns)))).select([f"c{i}" for i in positions])
    chosen = chosen.toDF(*(frame.columns[i] for i in positions))
    schema = schema_of(chosen)
    ignored = tuple(column for column in frame.columns if column not in kept)
    return by_position(chosen, schema), TableOptions(schema, key, (), ignored)


def by_position(frame: DataFrame, schema: Schema) -> DataFrame:
    """The columns of a frame that has exactly those of a schema, as c0, c1, ... in the types that rules compare."""
    types = [field.dataType for field in frame.schema.fields]
    numbered = frame.toDF(*(f"c{i}" for i in range(len(schema))))
    return numbered.select(
        [
            canonical(F.col(f"c{i}"), column, type_).alias(f"c{i}")
            for i, (column, type_) in enumerate(zip(schema.columns, types, strict=True))
        ]
    )


def canonical(cell: Expr, column: Column, type_: Any) -> Expr:
    """A cell in the type of its kind. Texts compare by bytes; timestamps without a zone are in UTC; 0.0 has no sign."""
    if column.kind is Kind.TEXT:
        plain = isinstance(type_, StringType) and getattr(type_, "collation", "UTF8_BINARY") == "UTF8_BINARY"
        return cell if plain and type(type_) is StringType else F.collate(cell.cast("string"), "UTF8_BINARY")
    if column.kind is Kind.TIMESTAMP and type_.typeName() == "timestamp_ntz":
        parts = (F.year(cell), F.month(cell), F.day(cell), F.hour(cell), F.minute(cell))
        return F.make_timestamp(*parts, F.date_part(F.lit("SECOND"), cell), F.lit("UTC"))
    if column.kind is Kind.FLOAT:
        return cell.cast("double") + F.lit(0.0)  # -0.0 + 0.0 = 0.0
    if column.kind is Kind.DECIMAL and type_.typeName() == "decimal" and type_.precision <= _SHORT:
        return cell.cast(f"decimal({_SHORT},{column.scale})")
    return cell.cast(spark_type(column))


def spark_type(column: Column) -> str:
    """The Spark type of a column's cells."""
    return f"decimal(38,{column.scale})" if column.kind is Kind.DECIMAL else _SPARK_TYPES[column.kind]


def cells(schema: Schema) -> list[str]:
    """c0, c1, ...: the names of a table's cells."""
    return [f"c{i}" for i in range(len(schema))]


def places(schema: Schema, names: Iterable[str]) -> list[str]:
    """The cells of columns by their names."""
    return [f"c{schema.position(name)}" for name in names]


def quoted(name: str) -> str:
    """A column name, quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"


def named(frame: DataFrame, schema: Schema) -> DataFrame:
    """The cells of a table under the names of its columns."""
    return frame.select(cells(schema)).toDF(*schema.names)


def same(left: Sequence[str], right: Sequence[str]) -> Expr:
    """Whether columns of a joined frame are equal one by one; nulls are equal."""
    pairs = [f"{a} <=> {b}" for a, b in zip(left, right, strict=True)]
    return F.expr(" and ".join(pairs) or "true")


def all_of(conditions: Iterable[Expr]) -> Expr:
    """Whether all conditions are true; true if there is none."""
    result = F.lit(True)
    for i, condition in enumerate(conditions):
        result = condition if i == 0 else result & condition
    return result
