"""Tables that Spark reads: a path or pattern of Parquet, ORC or Delta files, anywhere, or a table of its catalog."""

from __future__ import annotations

import re
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from holdfast.errors import ReadError, shown
from holdfast.places import is_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLE_NAME = re.compile(r"(\w+|`[^`]+`)(\.(\w+|`[^`]+`))*")
_NEEDS_TYPES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")


def frame_at(spark: SparkSession, place: str) -> DataFrame:
    """The table at a path (`/data/sales`, `s3a://bucket/sales/*.parquet`), or of the catalog (`lake.sales`)."""
    try:
        return _read(spark, place)
    except PySparkException as error:
        raise ReadError(f"{place}: Spark cannot read it: {str(error).strip().splitlines()[0]}") from error


def _read(spark: SparkSession, place: str) -> DataFrame:
    path = Path(place)
    if is_url(place):
        return _files(spark, place, place)
    if path.exists() or has_magic(place):
        return _files(spark, place, str(path.absolute()))
    if _TABLE_NAME.fullmatch(place):
        return spark.table(place)
    raise ReadError(f"{place}: there is no such file")


def _files(spark: SparkSession, place: str, path: str) -> DataFrame:
    if place.lower().endswith(_NEEDS_TYPES):
        raise ReadError(
            f"{place}: on Spark, tables are Parquet, ORC, Delta or of the catalog, which know the types of columns; "
            f"convert {shown(Path(place).suffix)} files first"
        )
    if place.lower().endswith(".orc"):
        return spark.read.orc(path)
    if not is_url(place) and (Path(place) / "_delta_log").is_dir():
        return spark.read.format("delta").load(path)
    return spark.read.parquet(path)
