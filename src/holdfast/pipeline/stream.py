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
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import ChangeRefused, HoldfastError, NotAvailable, ReadError, SchemaError, ValueRefused, discreet
from holdfast.executors.executor import Executor
from holdfast.pipeline.config import EXECUTORS_ABOVE, DeltaSource, JdbcSource, Pipeline, seconds
from holdfast.pipeline.delivery import Delivery
from holdfast.pipeline.landing import Applied
from holdfast.pipeline.sources import Batch, JdbcTables, LandingFiles, jdbc_table, stream_of
from holdfast.rulebook import Rulebook
from holdfast.rules.rulefile import RuleEntry, RuleFile
from holdfast.store.directory import directory_at
from holdfast.store.interrupt import stopping
from holdfast.store.marks import Marks
from holdfast.store.store import Store
from holdfast.table.change import Feed
from holdfast.table.effect import Bad
from holdfast.table.read import schema_of
from holdfast.workflow.decisions import ACCEPTED, FILE, adopt, decided_at, file_of, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger("holdfast")
Record = dict[str, Any]
OnVersion = Callable[[Record, Record | None], None]  # the record of a version, Spark's progress
_POLL = 0.2
_LOOK_EVERY = 50  # polls: how often a stream that goes on looks for landing files that were written again
_POISON = (ReadError, SchemaError, ValueRefused, ChangeRefused)  # what a batch's own content is at fault for
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
        self.delivery = Delivery.of(pipeline, spark)
        self.book.needed_from = self.delivery.needed_from
        self.delivery.deliver(self.book)

    def take(self, batch: Batch) -> None:
        """Applies a batch, unless it was applied already. One whose content cannot be applied at all stops the stream,
        or, if the pipeline says so, is quarantined as a whole."""
        book, quarantine = self.book, self.pipeline.on_error == "quarantine"
        self._adopt()
        if not book.knows(self.pipeline.name, batch.id, batch.offsets):
            try:
                self._apply(batch, quarantine)
            except _POISON as error:
                if not quarantine:
                    raise
                reason = str(error).removeprefix(f"{batch.place}: ")
                log.warning("quarantined as a whole: %s: %s", batch.place, reason)
                self._publish(batch, [], [Bad.unread(batch.place, reason)])
        self.delivery.deliver(book)
        book.forget()

    def _apply(self, batch: Batch, quarantine: bool) -> None:
        with discreet(bool(self.book.masked)):
            content = batch.read(self.book.tables, quarantine)
        if self.pipeline.new_columns == "accept":
            self._accept_columns(content.feeds)
        self._publish(batch, content.feeds, content.bad)

    def _publish(self, batch: Batch, feeds: list[Feed], bad: list[Bad]) -> None:
        how = {"source": self.pipeline.name, "on_error": self.pipeline.on_error, "offsets": batch.offsets}
        self.book.apply(feeds, batch.id, bad=bad, **how)

    def close(self) -> None:
        """Lets message sinks have what waits for them, and others write."""
        try:
            self.delivery.close(self.book)
        finally:
            self.book.close()

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
            self.book.alter(columns=added, declared=False)


def _unknown_columns(feed: Feed, book: Rulebook, table: str) -> dict[str, str]:
    options, source = book.tables[table], feed.part.source
    names = [n for n in source.table.column_names if n not in options.schema and n not in options.ignored]
    if source.shared:
        names = [n for n in names if source.table.column(n).null_count < source.table.num_rows]
    return {c.name: c.type_text for c in schema_of(source.only(names)).columns} if names else {}


def place_of(pipeline: Pipeline, book: Rulebook) -> tuple[str, str]:
    """Where violations are searched, `process` or `spark`, and why."""
    if pipeline.executor != "auto":
        return pipeline.executor, "as the pipeline says"
    rows = sum(book.count(name) for name in book.tables)
    if rows > EXECUTORS_ABOVE:
        return "spark", f"{rows:,} rows are more than {EXECUTORS_ABOVE:,}"
    return "process", f"{rows:,} rows are at most {EXECUTORS_ABOVE:,}"


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
        follower = _FOLLOWERS[pipeline.book]
        for batch in stream_of(pipeline).batches(frame, number, follower.book.records()):
            follower.take(batch)


def close_book(pipeline: Pipeline) -> list[str]:
    """Lets others write, where the batches ran in this process. Says which sinks are behind, and why."""
    with _LOCK:
        follower = _FOLLOWERS.pop(pipeline.book, None)
        if follower is not None:
            version = follower.book.version
            follower.close()
            shutil.rmtree(f"{pipeline.book}-work", ignore_errors=True)
            return [
                f"sink {sink}: {behind:,} of {version:,} versions are not delivered; the next run delivers them "
                f"({follower.delivery.failed().get(sink, 'not yet tried')})"
                for sink, behind in follower.delivery.behind(version).items()
            ]
    return []


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
        mask=_masked(pipeline, decided),
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
        decided.set_mask(_masked(pipeline, decided))
    return decided


def _masked(pipeline: Pipeline, decided: RuleFile) -> list[str]:
    return sorted({*pipeline.mask, *decided.mask})


def _ensure_decisions(pipeline: Pipeline) -> None:
    """Writes them where a process was killed between making the rulebook, which checks just these, and writing them;
    and masks what the pipeline masks by now."""
    with Rulebook.open(pipeline.book) as book:
        if not book.masked.issuperset(pipeline.mask):
            book.alter(mask=book.masked.union(pipeline.mask))
        if book.path is None or (book.path / FILE).exists():
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


def watch(pipeline: Pipeline, spark: SparkSession, on_version: OnVersion | None = None) -> list[str]:
    """Runs a pipeline until its source has no more, or for ever; `on_version` is told every version once. Returns what
    needs somebody to look at it: landing files that were not applied, and why; sinks that are behind.

    Ctrl-C ends it after the batch at work; nothing is lost either way.
    """
    make_book(pipeline, spark)
    told = _Teller(pipeline, on_version)
    problems: list[str] = []
    with stopping() as stop:
        try:
            if isinstance(pipeline.source, JdbcSource):
                _poll_jdbc(pipeline, spark, told, stop)
            else:
                _follow_stream(pipeline, spark, told, stop)
            if not stop.is_set():
                problems = _settle_landing(pipeline, spark)
                _deliver_rest(pipeline, spark)
                told.look()
        finally:
            problems += close_book(pipeline)
    if stop.is_set():
        raise KeyboardInterrupt
    return problems


def _deliver_rest(pipeline: Pipeline, spark: SparkSession) -> None:
    """Tells sinks what is left, where the batches ran in another process, which has ended (Spark Connect)."""
    with _LOCK:
        version, marks = Store.open(directory_at(pipeline.book)).version, Marks(directory_at(pipeline.book)).all()
        if pipeline.book not in _FOLLOWERS and any(marks.get(sink, 0) < version for sink in pipeline.named_sinks):
            _FOLLOWERS[pipeline.book] = Follower(pipeline, spark)


def _settle_landing(pipeline: Pipeline, spark: SparkSession) -> list[str]:
    """Compares the landing directory with what the rulebook has: what Spark did not notice is applied, and what cannot
    be applied is named."""
    files = stream_of(pipeline)
    if not isinstance(files, LandingFiles):
        return []
    with Rulebook.open(pipeline.book) as book:
        applied = Applied(book.records(), pipeline.name)
    untaken = files.untaken(applied)
    if untaken:
        with _LOCK:
            if pipeline.book not in _FOLLOWERS:
                _FOLLOWERS[pipeline.book] = Follower(pipeline, spark)
            follower = _FOLLOWERS[pipeline.book]
            for batch in untaken:
                follower.take(batch)
    return files.landing.named(applied)


class _Teller:
    """Tells versions as their manifests appear, whichever process made them."""

    def __init__(self, pipeline: Pipeline, on_version: OnVersion | None) -> None:
        self._directory, self._on_version = directory_at(pipeline.book), on_version
        self._last = Store.open(self._directory).version
        self._landing = stream_of(pipeline) if not isinstance(pipeline.source, JdbcSource) else None
        with Rulebook.open(pipeline.book) as book:
            self._applied = Applied(book.records(), pipeline.name)
        self._named: set[str] = set()

    def look(self, progress: Record | None = None) -> None:
        """Tells the versions that are new."""
        store = Store.open(self._directory)
        kept = store.versions_with_change()
        for version in range(max(self._last + 1, kept[0]), store.version + 1):
            try:
                record = store.manifest_of(version).record
            except FileNotFoundError:  # forgotten meanwhile
                continue
            self._applied.note(record)
            if self._on_version is not None:
                self._on_version(record, progress)
        self._last = store.version

    def name_files(self) -> None:
        """Warns of landing files that need somebody to look at them, of each once."""
        if isinstance(self._landing, LandingFiles):
            for problem in self._landing.landing.named(self._applied):
                if problem not in self._named:
                    log.warning(problem)
                    self._named.add(problem)


def _follow_stream(pipeline: Pipeline, spark: SparkSession, told: _Teller, stop: threading.Event) -> None:
    batch = functools.partial(run_batch, pipeline.model_dump_json())
    writer = stream_of(pipeline).frame(spark).writeStream.foreachBatch(batch).queryName(pipeline.name)
    writer = writer.option("checkpointLocation", pipeline.checkpoint_path)
    every = pipeline.trigger.every
    if every is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(1000 * seconds(every))} milliseconds")
    query, polls = writer.start(), 0
    try:
        while query.isActive and not stop.is_set():
            told.look(_progress(query))
            if every is not None and polls % _LOOK_EVERY == 0:
                told.name_files()
            polls += 1
            stop.wait(_POLL)
    finally:
        if query.isActive:
            query.stop()
    if stop.is_set():
        return
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


def _poll_jdbc(pipeline: Pipeline, spark: SparkSession, told: _Teller, stop: threading.Event) -> None:
    assert isinstance(pipeline.source, JdbcSource)
    follower = _FOLLOWERS[pipeline.book] = Follower(pipeline, spark)
    tables = JdbcTables(pipeline.source)
    while not stop.is_set():
        book = follower.book
        batch = tables.batch(spark, book.next_batch(pipeline.name), book.last_offsets(pipeline.name))
        if batch is not None:
            follower.take(batch)
            told.look()
        elif pipeline.trigger.every is None:
            return
        if pipeline.trigger.every is not None:
            stop.wait(seconds(pipeline.trigger.every))
