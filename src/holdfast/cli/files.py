"""Parses the arguments that name tables, keys, columns and types."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from holdfast.discovery.search_options import Sizes
from holdfast.errors import HoldfastError
from holdfast.pipeline.config import SPARK_ABOVE


def tables_of(files: Sequence[str]) -> Any:
    """A path for one file, {name: path} for several. A table is named after its file, or as in name=path."""
    named: dict[str, Path] = {}
    for text in files:
        name, _, path = text.rpartition("=") if "=" in text and not Path(text).exists() else (Path(text).stem, "", text)
        if name in named:
            raise HoldfastError(f"two tables would be called {name!r}; write name=path for one of them")
        named[name] = Path(path)
    if len(named) == 1 and "=" not in files[0]:
        return next(iter(named.values()))
    return named


def goes_to_spark(tables: Any, on: str) -> bool:
    """Whether to check these files on Spark: if asked to, or if Parquet files have too many rows for one process."""
    if on not in ("auto", "process", "spark"):
        raise HoldfastError(f"--on is auto, process or spark, not {on!r}")
    paths = list(tables.values()) if isinstance(tables, Mapping) else [tables]
    parquet = all(path.is_dir() or path.suffix == ".parquet" for path in paths)
    if on == "spark" and not parquet:
        raise HoldfastError("--on spark is for Parquet files; convert the others first")
    rows = sum(_rows_of(path) for path in paths) if parquet and on == "auto" else 0
    if rows > SPARK_ABOVE:
        print(f"holdfast: {rows:,} rows are more than {SPARK_ABOVE:,}: checking on Spark", file=sys.stderr)
    return on == "spark" or rows > SPARK_ABOVE


def _rows_of(path: Path) -> int:
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    return sum(pq.read_metadata(file).num_rows for file in files if file.exists())


@contextmanager
def frames_of(tables: Any) -> Iterator[Any]:
    """The files as Spark DataFrames, while Spark runs in this process."""
    from holdfast.spark.session import running

    with running() as spark:
        named = tables if isinstance(tables, Mapping) else {tables.stem: tables}
        yield {name: spark.read.parquet(str(path.absolute())) for name, path in named.items()}


def keys_of(texts: Sequence[str]) -> Any:
    """`id`, `area,phone`, or `orders=id` for each of several tables."""
    if not texts:
        return None
    if all("=" in text for text in texts):
        return {name: tuple(columns.split(",")) for name, _, columns in (text.partition("=") for text in texts)}
    if len(texts) > 1:
        raise HoldfastError("with several keys, name the table of each: --key orders=id --key customers=id")
    return tuple(texts[0].split(","))


def columns_of(texts: Sequence[str] | None) -> Any:
    """`zip`, `zip,city`, or `orders=zip,city` for each of several tables."""
    named = {t: c.split(",") for t, e, c in (text.partition("=") for text in texts or ()) if e}
    plain = [name for text in texts or () if "=" not in text for name in text.split(",")]
    if named and plain:
        raise HoldfastError("with several tables, name the table of each list of columns: orders=zip,city")
    return named or plain or None


def types_of(texts: Sequence[str]) -> dict[str, Any] | None:
    """`zip=text`, or `orders.zip=text` where there are several tables."""
    types: dict[str, Any] = {}
    for text in texts:
        column, _, kind = text.rpartition("=")
        if not column:
            raise HoldfastError(f"{text!r}: a type is given as column=type, such as zip=text")
        table, _, name = column.rpartition(".")
        if table:
            types.setdefault(table, {})[name] = kind
        else:
            types[column] = kind
    return types or None


def size_of(text: str) -> Sizes:
    """`3`, `none` for no limit, or `default`."""
    if text == "none":
        return None
    if text == "default":
        return text
    if not text.isdigit():
        raise HoldfastError(f"--max-size is a number or none, not {text!r}")
    return int(text)
