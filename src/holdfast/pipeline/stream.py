"""Runs a pipeline: batches become changes, each change becomes a version, and each version is delivered to the sinks.

All progress is recovered from the rulebook: a batch that was applied is skipped, a version that was not delivered is
delivered. `run_batch` may run in another process (Spark Connect), so it receives the pipeline as JSON and nothing else.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.pipeline.config import JdbcSource, Pipeline
from holdfast.pipeline.follower import Follower
from holdfast.pipeline.landing import Applied
from holdfast.pipeline.new_book import make_book
from holdfast.pipeline.sources import JdbcTables, LandingFiles, stream_of
from holdfast.pipeline.trigger import seconds
from holdfast.rulebook.glance import Glance
from holdfast.store.directory import directory_at
from holdfast.store.interrupt import stopping
from holdfast.store.marks import Marks
from holdfast.store.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger("holdfast")
Record = dict[str, Any]
OnVersion = Callable[[Record, Record | None], None]  # called with the record of a version and Spark's progress
_POLL = 0.2  # seconds
_CHECK_FILES_EVERY = 50  # polls of a stream between two searches for landing files that need attention
_ERROR = re.compile(r"holdfast\.errors\.(\w+): (.*)")

_FOLLOWERS: dict[str, Follower] = {}  # of this process, by the path of the rulebook
_LOCK = threading.Lock()


def run_batch(text: str, frame: DataFrame, number: int) -> None:
    """Applies a micro-batch. Spark calls it; `text` is the pipeline as JSON."""
    pipeline = Pipeline.model_validate_json(text)
    with _LOCK:
        follower = _follower_of(pipeline, frame.sparkSession)
        for batch in stream_of(pipeline).batches(frame, number, follower.book.records()):
            follower.take(batch)


def _follower_of(pipeline: Pipeline, spark: SparkSession) -> Follower:
    """The pipeline's follower in this process, started if there is none. The caller holds the lock."""
    if pipeline.book not in _FOLLOWERS:
        _FOLLOWERS[pipeline.book] = Follower(pipeline, spark)
    return _FOLLOWERS[pipeline.book]


def close_book(pipeline: Pipeline) -> list[str]:
    """Closes the follower, if it is in this process. Returns a line for each sink with undelivered versions."""
    with _LOCK:
        follower = _FOLLOWERS.pop(pipeline.book, None)
        if follower is None:
            return []
        version = follower.book.version
        follower.close()
        return [
            f"sink {sink}: {behind:,} of {version:,} versions are not delivered; the next run delivers them "
            f"({follower.delivery.failed().get(sink, 'not yet tried')})"
            for sink, behind in follower.delivery.behind(version).items()
        ]


def watch(pipeline: Pipeline, spark: SparkSession, on_version: OnVersion | None = None) -> list[str]:
    """Runs a pipeline until its source is exhausted, or forever. Calls `on_version` once for every version.

    Returns what needs attention: landing files that were not applied, with the reason, and sinks with undelivered
    versions. Ctrl-C ends the pipeline after the current batch; nothing is lost.
    """
    make_book(pipeline, spark)
    versions = _VersionWatcher(pipeline, on_version)
    problems: list[str] = []
    with stopping() as stop:
        try:
            if isinstance(pipeline.source, JdbcSource):
                _poll_jdbc(pipeline, spark, versions, stop)
            else:
                _follow_stream(pipeline, spark, versions, stop)
            if not stop.is_set():
                problems = _settle_landing(pipeline, spark)
                _catch_up(pipeline)
                _deliver_rest(pipeline, spark)
                versions.report_new()
        finally:
            problems += close_book(pipeline)
    if stop.is_set():
        raise KeyboardInterrupt
    return problems


def _deliver_rest(pipeline: Pipeline, spark: SparkSession) -> None:
    """Delivers the remaining versions, if the batches ran in another process that has ended (Spark Connect)."""
    with _LOCK:
        version, marks = Store.open(directory_at(pipeline.book)).version, Marks(directory_at(pipeline.book)).all()
        if any(marks.get(sink, 0) < version for sink in pipeline.named_sinks):
            _follower_of(pipeline, spark)  # a new follower delivers


def _catch_up(pipeline: Pipeline) -> None:
    """Updates found rules that are late, and delivers that version. In another process, its next start does so."""
    with _LOCK:
        follower = _FOLLOWERS.get(pipeline.book)
        if follower is not None:
            follower.catch_up()
            follower.delivery.deliver(follower.book)


def _settle_landing(pipeline: Pipeline, spark: SparkSession) -> list[str]:
    """Applies landing files that Spark did not notice. Returns the files that need attention."""
    if isinstance(pipeline.source, JdbcSource):  # it has no stream
        return []
    files = stream_of(pipeline)
    if not isinstance(files, LandingFiles):
        return []
    applied = Applied(Glance.at(pipeline.book).records, pipeline.name)
    batches = files.new_batches(applied)
    if batches:
        with _LOCK:
            follower = _follower_of(pipeline, spark)
            for batch in batches:
                follower.take(batch)
    return files.landing.problems(applied)


class _VersionWatcher:
    """Reports versions as their manifests appear, whichever process published them."""

    def __init__(self, pipeline: Pipeline, on_version: OnVersion | None) -> None:
        self._directory, self._on_version = directory_at(pipeline.book), on_version
        self._last = Store.open(self._directory).version
        self._landing = stream_of(pipeline) if not isinstance(pipeline.source, JdbcSource) else None
        self._applied = Applied(Glance.at(pipeline.book).records, pipeline.name)
        self._warned: set[str] = set()

    def report_new(self, progress: Record | None = None) -> None:
        """Reports the versions that were published since the last call."""
        store = Store.open(self._directory)
        kept = store.versions_with_change()
        for version in range(max(self._last + 1, kept[0]), store.version + 1):
            try:
                record = store.manifest_of(version).record
            except FileNotFoundError:  # removed meanwhile
                continue
            self._applied.note(record)
            if self._on_version is not None:
                self._on_version(record, progress)
        self._last = store.version

    def warn_of_files(self) -> None:
        """Warns of landing files that need attention, once for each."""
        if isinstance(self._landing, LandingFiles):
            for problem in self._landing.landing.problems(self._applied):
                if problem not in self._warned:
                    log.warning(problem)
                    self._warned.add(problem)


def _follow_stream(pipeline: Pipeline, spark: SparkSession, versions: _VersionWatcher, stop: threading.Event) -> None:
    """Runs the streaming query until it ends or is stopped."""
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
            versions.report_new(_progress(query))
            if every is not None and polls % _CHECK_FILES_EVERY == 0:
                versions.warn_of_files()
            polls += 1
            stop.wait(_POLL)
    finally:
        if query.isActive:
            query.stop()
    if stop.is_set():
        return
    versions.report_new(_progress(query))
    error = query.exception()
    if error is not None:
        raise _readable(str(error))


def _progress(query: StreamingQuery) -> Record | None:
    last = query.lastProgress
    return None if last is None else dict(last) if isinstance(last, dict) else vars(last)


def _readable(text: str) -> HoldfastError:
    """Our own error message, without what Spark wraps around it."""
    errors = _ERROR.findall(text)
    return HoldfastError(errors[-1][1] if errors else text.strip())


def _poll_jdbc(pipeline: Pipeline, spark: SparkSession, versions: _VersionWatcher, stop: threading.Event) -> None:
    """Polls the database until nothing has changed, or until stopped if the pipeline has a trigger time."""
    assert isinstance(pipeline.source, JdbcSource)
    follower = _FOLLOWERS[pipeline.book] = Follower(pipeline, spark)
    tables = JdbcTables(pipeline.source)
    while not stop.is_set():
        book = follower.book
        batch = tables.batch(spark, book.next_batch(pipeline.name), book.last_offsets(pipeline.name))
        if batch is not None:
            follower.take(batch)
            versions.report_new()
        elif pipeline.trigger.every is None:
            return
        if pipeline.trigger.every is not None:
            stop.wait(seconds(pipeline.trigger.every))
