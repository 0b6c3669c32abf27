"""A pipeline at work: batches become changes, each change a version, and each version is told to the sinks.

Everything is recovered from the rulebook's manifest: a batch that was applied is skipped, a version that was not told
is told. `run_batch` may run in another process (Spark Connect), so it is given the pipeline's text and nothing else.
"""

from __future__ import annotations

import functools
import logging
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, NotAvailable
from holdfast.executors.executor import Executor
from holdfast.pipeline.config import ROWS_IN_PROCESS, DeltaSource, JdbcSource, Pipeline
from holdfast.pipeline.sinks import Outbox
from holdfast.pipeline.sources import Batch, JdbcTables, jdbc_table, stream_of
from holdfast.rulebook import Rulebook
from holdfast.rules.rulefile import RuleEntry, RuleFile
from holdfast.store.directory import directory_at
from holdfast.store.store import Store
from holdfast.table.change import Feed
from holdfast.table.read import schema_of
from holdfast.workflow.decisions import ACCEPTED, FILE, Decisions, adopt, decided_at, deciding, file_of, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger("holdfast")
Record = dict[str, Any]
OnVersion = Callable[[Record, Record | None], None]  # the record of a version, Spark's progress
_POLL = 0.2
_SECONDS = {"ms": 0.001, "millisecond": 0.001, "s": 1, "second": 1, "m": 60, "minute": 60, "h": 3600, "hour": 3600}
_ERROR = re.compile(r"holdfast\.errors\.(\w+): (.*)")


class Follower:
    """A rulebook that takes the batches of a pipeline and tells its sinks."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession | None) -> None:
        """Spark may be None where neither the executor nor a sink needs it."""
        self.pipeline = pipeline
        self.book = Rulebook.open(pipeline.book)
        self.book.hold()
        self._decided: tuple[int, int] | None = None  # the state of the decisions that were taken over
        if place_of(pipeline, self.book)[0] == "spark" and spark is not None:
            self.book.run_on(spark_executor(pipeline, spark))
        self._outbox = Outbox(pipeline, spark)
        self.book.needed_from = self._outbox.needed_from
        self._outbox.deliver(self.book)

    def take(self, batch: Batch) -> None:
        """Applies a batch, unless it was applied already."""
        name, book = self.pipeline.name, self.book
        self._adopt()
        if not book.knows(name, batch.id, batch.offsets):
            feeds = batch.read(book.tables)
            if self.pipeline.new_columns == "accept":
                self._accept_columns(feeds)
            book.apply(feeds, batch.id, source=name, on_error=self.pipeline.on_error, offsets=batch.offsets)
        self._outbox.deliver(book)
        book.forget()

    def _adopt(self) -> None:
        """Takes over what people decided about rules meanwhile; a file that cannot be read changes nothing."""
        state = None if self.book.path is None else decided_at(self.book.path)
        if state == self._decided:
            return
        try:
            adopt(self.book)
            self._decided = state
        except HoldfastError as error:
            log.warning("decisions are not taken over: %s", error)

    def _accept_columns(self, feeds: list[Feed]) -> None:
        """Adds the columns that the feeds have and the tables do not."""
        added: dict[str, dict[str, str]] = {}
        for feed in feeds:
            table = feed.table or next(iter(self.book.tables))
            for name, type_text in _unknown_columns(feed, self.book, table).items():
                added.setdefault(table, {}).setdefault(name, type_text)
        if added:
            self.book.alter(columns=added)


def _unknown_columns(feed: Feed, book: Rulebook, table: str) -> dict[str, str]:
    options, source = book.tables[table], feed.part.source
    names = [n for n in source.table.column_names if n not in options.schema and n not in options.ignored]
    if source.shared:
        names = [n for n in names if source.table.column(n).null_count < source.table.num_rows]
    return {c.name: c.type_text for c in schema_of(source.only(names)).columns}


def place_of(pipeline: Pipeline, book: Rulebook) -> tuple[str, str]:
    """Where violations are searched, `process` or `spark`, and why."""
    if pipeline.executor != "auto":
        return pipeline.executor, "as the pipeline says"
    rows = sum(book.count(name) for name in book.tables)
    if rows > ROWS_IN_PROCESS:
        return "spark", f"{rows:,} rows are more than {ROWS_IN_PROCESS:,}"
    return "process", f"{rows:,} rows are at most {ROWS_IN_PROCESS:,}"


def spark_executor(pipeline: Pipeline, spark: SparkSession) -> Executor:
    """Spark's executors, with a directory beside the book for what they read and write."""
    from holdfast.executors.spark import SparkExecutor

    if "://" in pipeline.book:
        raise NotAvailable("executor: spark needs a book in a directory that all workers share, not an object store")
    return SparkExecutor(spark, Path(f"{pipeline.book}-work"))


_FOLLOWERS: dict[str, Follower] = {}
_LOCK = threading.Lock()


def run_batch(text: str, frame: DataFrame, number: int) -> None:
    """What Spark calls for each micro-batch."""
    pipeline = Pipeline.model_validate_json(text)
    with _LOCK:
        if pipeline.book not in _FOLLOWERS:
            _FOLLOWERS[pipeline.book] = Follower(pipeline, frame.sparkSession)
        for batch in stream_of(pipeline).batches(frame, number):
            _FOLLOWERS[pipeline.book].take(batch)


def close_book(pipeline: Pipeline) -> None:
    """Lets others write, where the batches ran in this process."""
    with _LOCK:
        follower = _FOLLOWERS.pop(pipeline.book, None)
        if follower is not None:
            follower.book.close()
            shutil.rmtree(f"{pipeline.book}-work", ignore_errors=True)


def make_book(pipeline: Pipeline, spark: SparkSession | None) -> bool:
    """Makes the rulebook from the tables, unless there is one; whether it did."""
    if directory_at(pipeline.book).names("manifests"):
        _ensure_decisions(pipeline)
        return False
    decided = _decided(pipeline)
    book = Rulebook.create(
        pipeline.book,
        {name: _base(pipeline, name, spark) for name in pipeline.tables},
        kinds=pipeline.kinds,
        max_size=pipeline.max_size,
        compare=pipeline.compare,
        cross_columns=pipeline.cross_columns,
        evidence=pipeline.evidence,
        only_inserts=pipeline.only_inserts,
        max_error=pipeline.max_error,
        error=pipeline.error,
        rules=[entry for entry in decided if entry.status == ACCEPTED],
        key={name: table.key for name, table in pipeline.tables.items() if table.key is not None},
        types={name: table.types for name, table in pipeline.tables.items() if table.types},
        exclude={name: table.exclude for name, table in pipeline.tables.items() if table.exclude} or None,
        nulls=pipeline.nulls,
        rule_nulls=pipeline.rule_nulls,
        keep=pipeline.keep,
        outbox=True,
    )
    with book:
        if book.path is not None:
            write(book.path, decided)
    return True


def _decided(pipeline: Pipeline) -> RuleFile:
    """The decisions with which a rulebook begins."""
    if isinstance(pipeline.rules, str):
        decided = file_of([], Path(pipeline.rules))
    else:
        decided = file_of([_rule(rule) for rule in pipeline.rules])
    if pipeline.mask:
        decided.set_mask(pipeline.mask)
    return decided


def _ensure_decisions(pipeline: Pipeline) -> None:
    """Writes them where a process was killed between making the rulebook, which checks just these, and writing them."""
    with Rulebook.open(pipeline.book) as book:
        if book.path is None:
            return
        if (book.path / FILE).exists():
            if not Decisions.of(book).masked.issuperset(pipeline.mask):
                with deciding(book) as decisions:
                    decisions.mask(decisions.masked.union(pipeline.mask))
            return
        decided = _decided(pipeline)
        if {e.id for e in decided if e.status == ACCEPTED} == {entry.id for entry in book.entries}:
            write(book.path, decided)


def _rule(rule: str | dict[str, Any]) -> str | RuleEntry:
    return rule if isinstance(rule, str) else RuleEntry.model_validate(rule)


def _base(pipeline: Pipeline, name: str, spark: SparkSession | None) -> Any:
    base, source = pipeline.tables[name].base, pipeline.source
    if base is not None:
        return base
    assert spark is not None
    if isinstance(source, DeltaSource):
        reader = spark.read.format("delta").option("versionAsOf", source.starting_version - 1)
        return reader.load(source.path) if "/" in source.path else reader.table(source.path)
    assert isinstance(source, JdbcSource)
    return jdbc_table(source, name, spark)


def watch(pipeline: Pipeline, spark: SparkSession, on_version: OnVersion | None = None) -> None:
    """Runs a pipeline until its source has no more, or for ever; `on_version` is told every version once.

    Ctrl-C ends it after the batch at work; nothing is lost either way.
    """
    make_book(pipeline, spark)
    told = _Teller(pipeline, on_version)
    try:
        if isinstance(pipeline.source, JdbcSource):
            _poll_jdbc(pipeline, spark, told)
        else:
            _follow_stream(pipeline, spark, told)
    finally:
        close_book(pipeline)


class _Teller:
    """Tells versions as their manifests appear, whichever process made them."""

    def __init__(self, pipeline: Pipeline, on_version: OnVersion | None) -> None:
        self._directory, self._on_version = directory_at(pipeline.book), on_version
        self._last = Store.open(self._directory).version

    def look(self, progress: Record | None = None) -> None:
        if self._on_version is None:
            return
        store = Store.open(self._directory)
        kept = store.versions()
        for version in range(max(self._last + 1, kept[0]), store.version + 1):
            try:
                self._on_version(store.manifest_of(version).record, progress)
            except FileNotFoundError:  # forgotten meanwhile
                continue
        self._last = store.version


def _follow_stream(pipeline: Pipeline, spark: SparkSession, told: _Teller) -> None:
    batch = functools.partial(run_batch, pipeline.model_dump_json())
    writer = stream_of(pipeline).frame(spark).writeStream.foreachBatch(batch).queryName(pipeline.name)
    writer = writer.option("checkpointLocation", pipeline.checkpoint_path)
    every = pipeline.trigger.every
    query = (writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)).start()
    try:
        while query.isActive:
            told.look(_progress(query))
            time.sleep(_POLL)
    finally:
        if query.isActive:
            query.stop()
    told.look(_progress(query))
    error = query.exception()
    if error is not None:
        raise _readable(str(error))


def _progress(query: StreamingQuery) -> Record | None:
    last = query.lastProgress
    return None if last is None else dict(last) if isinstance(last, dict) else vars(last)


def _readable(text: str) -> HoldfastError:
    """Our own message, out of what Spark wraps around it."""
    found = _ERROR.findall(text)
    return HoldfastError(found[-1][1] if found else text.strip())


def _poll_jdbc(pipeline: Pipeline, spark: SparkSession, told: _Teller) -> None:
    assert isinstance(pipeline.source, JdbcSource)
    follower = _FOLLOWERS[pipeline.book] = Follower(pipeline, spark)
    tables = JdbcTables(pipeline.source)
    while True:
        book = follower.book
        batch = tables.batch(spark, book.next_batch(pipeline.name), book.last_offsets(pipeline.name))
        if batch is not None:
            follower.take(batch)
            told.look()
        elif pipeline.trigger.every is None:
            return
        if pipeline.trigger.every is not None:
            time.sleep(seconds(pipeline.trigger.every))


def seconds(text: str) -> float:
    """`10 seconds`, `500 ms`, `2 minutes`.

    >>> seconds("2 minutes"), seconds("500 ms")
    (120.0, 0.5)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?)\s*", text)
    if found is None:
        raise HoldfastError(f"{text!r} is not a time; write `10 seconds` or `2 minutes`")
    unit = found[2] if found[2] in _SECONDS else found[2].removesuffix("s")
    return float(found[1]) * _SECONDS[unit]
