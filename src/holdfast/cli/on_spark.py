"""Commands on Spark: which tables and changes they read there, and the session that they run in."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from glob import has_magic
from pathlib import Path
from typing import Any

from holdfast.cli.own_process import without_pandas
from holdfast.cli.progress import announce, stage_bar
from holdfast.errors import HoldfastError
from holdfast.places import FILES_GO_ABOVE, PLACES, parquet_rows
from holdfast.rulebook import Rulebook
from holdfast.rulebook.elsewhere import is_on_spark, require_place
from holdfast.store.directory import directory_at
from holdfast.store.store import Store
from holdfast.table.change import BATCH, TABLE


def goes_to_spark(tables: Any, on: str) -> bool:
    """Whether these files go to Spark: if asked to, or if Parquet files have too many rows for one process."""
    if on not in PLACES:
        raise HoldfastError(f"--on is auto, process or spark, not {on!r}")
    if on == "spark":
        return True
    paths = list(tables.values()) if isinstance(tables, Mapping) else [tables]
    rows = sum(parquet_rows(path) for path in paths) if on == "auto" else 0
    if rows > FILES_GO_ABOVE:
        print(f"holdfast: {rows:,} rows are more than {FILES_GO_ABOVE:,}: on Spark", file=sys.stderr)
        return True
    without_pandas()
    return False


def places_of(files: Sequence[str]) -> dict[str, str]:
    """The place of each table by its name: name=place, or a place, after which the table is named.

    >>> places_of(["s3a://bucket/orders/", "c=lake.customers", "/data/day=1"])
    {'orders': 's3a://bucket/orders/', 'c': 'lake.customers', 'day=1': '/data/day=1'}
    """
    named: dict[str, str] = {}
    for text in files:
        name, given, place = text.partition("=")
        if not given or "/" in name or ":" in name:
            name, place = re.sub(r"\.(parquet|orc)$", "", text.rstrip("/").rpartition("/")[2]), text
            name = name if "/" in text else name.rpartition(".")[2]
        if has_magic(name):
            raise HoldfastError(f"{text}: a pattern needs a name: write name={text}")
        if name in named:
            raise HoldfastError(f"two tables would be called {name!r}; write name=path for one of them")
        named[name] = place
    return named


@contextmanager
def session(master: str | None, remote: str | None) -> Iterator[Any]:
    """The Spark session of a command: the running one, or a new one."""
    from holdfast.spark.session import running
    from holdfast.spark.stage_progress import stage_progress

    if master and remote:
        raise HoldfastError("--master starts Spark, --remote uses one that runs: give one of them")
    announce()
    with running(master, remote=remote) as spark, stage_bar() as report, stage_progress(spark, report):
        yield spark


@contextmanager
def frames_of(files: Sequence[str], master: str | None, remote: str | None) -> Iterator[Any]:
    """The tables as Spark DataFrames, while the session runs."""
    with session(master, remote) as spark:
        from holdfast.spark.reading import frame_at

        yield {name: frame_at(spark, place) for name, place in places_of(files).items()}


def session_of_book(directory: Path, on: str, master: str | None, remote: str | None) -> Any:
    """The session that a rulebook needs: of Spark, if its rows are there; else nothing."""
    store = Store.open(directory_at(directory))
    require_place(store, on)
    if is_on_spark(store):
        return session(master, remote)
    without_pandas()
    return nullcontext()


def is_for_spark_to_read(changes: str, book: Any) -> bool:
    """Whether Spark reads a change: Parquet or a table, for a rulebook on Spark."""
    if isinstance(book, Rulebook):
        return False
    path = Path(changes)
    return not path.is_file() or path.suffix == ".parquet"


def feeds_of(changes: str, book: Any) -> list[Any]:
    """A change that Spark reads, by table. It is one batch."""
    from holdfast.spark.events import FrameFeed
    from holdfast.spark.reading import frame_at

    frame = frame_at(book.files.spark, changes)
    if BATCH in frame.columns:
        raise HoldfastError(f"{changes}: on Spark a change is one batch; write one file for each {BATCH}")
    if TABLE not in frame.columns:
        return [FrameFeed(frame)]
    unknown = frame.where(~frame[TABLE].isin([*book.tables]) | frame[TABLE].isNull()).limit(1).collect()
    if unknown:
        raise HoldfastError(f"{changes}: {TABLE} names {unknown[0][TABLE]!r}; there are: {', '.join(book.tables)}")
    columns = {name: [c for c in frame.columns if c.startswith("_") or c in book.schemas[name]] for name in book.tables}
    return [FrameFeed(frame.where(frame[TABLE] == name).select(some), name) for name, some in columns.items()]


def listed_pairs(frame: Any, limit: int) -> list[list[Any]]:
    """The first pairs of a list of violations, as values for JSON."""
    rows = frame.limit(limit).collect()
    return [[cell.asDict() if hasattr(cell, "asDict") else cell for cell in row] for row in rows]
