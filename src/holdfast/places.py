"""Where a rulebook keeps its rows, and where a check runs: in this process, or on Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, shown

PLACES = ("auto", "process", "spark")
FRAMES_STAY_ABOVE = 5_000_000  # rows of Spark DataFrames, above which `auto` leaves them there
FILES_GO_ABOVE = 20_000_000  # rows of Parquet files, above which `auto` sends them to Spark


def are_spark_frames(data: Any) -> bool:
    """Whether data is a Spark DataFrame, classic or Connect, or a mapping of names to such."""
    frames = list(data.values()) if isinstance(data, Mapping) else [data]
    return bool(frames) and all(_is_spark_frame(frame) for frame in frames)


def _is_spark_frame(data: object) -> bool:
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "sparkSession")


def is_for_spark(data: Any, on: str) -> bool:
    """Whether data is to stay on Spark. `auto`: if it is there and large."""
    if on not in PLACES:
        raise HoldfastError(f"on is auto, process or spark, not {shown(on)}")
    there = are_spark_frames(data)
    if on == "spark" and not there:
        raise HoldfastError("on='spark' is for Spark DataFrames; read the data with Spark first")
    if on != "auto" or not there:
        return on == "spark"
    frames = data.values() if isinstance(data, Mapping) else [data]
    return bool(sum(frame.count() for frame in frames) > FRAMES_STAY_ABOVE)


def is_url(place: str) -> bool:
    """Whether a path has a scheme, such as s3a:// or dbfs:/."""
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+:/", place) is not None


def parquet_rows(path: Path) -> int:
    """The number of rows of a Parquet file or of a directory of such; 0 for other files, and for those that cannot be
    read, which the reader then names."""
    if not path.is_dir() and path.suffix != ".parquet":
        return 0
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import read_metadata

    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    try:
        return sum(read_metadata(file).num_rows for file in files if file.exists())
    except (ArrowInvalid, OSError):
        return 0
