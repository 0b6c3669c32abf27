"""Sources of changes: their Spark streams, and how their micro-batches become batches of changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import HoldfastError, Location, ReadError, detail
from holdfast.pipeline.config import DebeziumSource, DeltaSource, FilesSource, JdbcSource, KafkaSource, Pipeline
from holdfast.pipeline.debezium import feeds_of
from holdfast.pipeline.landing import Applied, LandingFile, Standing
from holdfast.pipeline.remote_landing import landing_at
from holdfast.spark.events import FrameFeed
from holdfast.spark.frames import quoted
from holdfast.store.directory import directory_at
from holdfast.table.change import CHANGE_TYPE, DELETE, UPSERT, Feed, Part, read_feed
from holdfast.table.effect import Bad
from holdfast.table.options import TableOptions
from holdfast.table.reading import UTF_8, Reading
from holdfast.table.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tables = Mapping[str, TableOptions]
Record = dict[str, Any]
_FILE = "path string, modificationTime timestamp, length bigint, content binary"
_FOREVER = "36500d"  # by default Spark ignores files that are a week older than the newest


@dataclass(frozen=True)
class Content:
    """The content of a batch: changes of tables, and input that could not be read."""

    feeds: list[Feed]
    bad: list[Bad]


Read = Callable[[Tables, bool], Content]  # True: quarantine unreadable input instead of raising an error


@dataclass(frozen=True)
class Batch:
    """A batch that is applied atomically."""

    id: str | int
    offsets: str  # identify the content, to recognise a replay
    place: str  # for messages
    read: Read
    frames: Callable[[], list[FrameFeed]] | None = None  # the changes as they are on Spark, for rulebooks there


class Stream(Protocol):
    """A source that Structured Streaming follows."""

    def frame(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame."""

    def batches(self, frame: DataFrame, number: int, records: Iterable[Record]) -> list[Batch]:
        """The batches of a micro-batch, in order. `records`: those of the rulebook's versions."""


def stream_of(pipeline: Pipeline) -> Stream:
    """The stream of a pipeline's source; JDBC sources have none."""
    source = pipeline.source
    if isinstance(source, FilesSource | DebeziumSource):
        return LandingFiles.of(pipeline)
    if isinstance(source, KafkaSource):
        return KafkaTopics(source, pipeline.checkpoint_path)
    if isinstance(source, DeltaSource):
        return DeltaFeed(source, pipeline.checkpoint_path)
    raise ReadError(f"{source.kind} is not a stream")


class LandingFiles:
    """Files in a landing directory. Each file is one batch; the oldest comes first.

    Spark only notices that files appeared. We compare the directory with the rulebook to find new files, and therefore
    depend neither on Spark's list of seen files nor on its encoding of names. A file is read in this process, so that
    messages can name file and row.
    """

    def __init__(self, path: str, name: str, files_per_batch: int, read: Callable[[Path, Tables, bool], Content]):
        """`name`: the source under which the rulebook counts the batches."""
        self.landing, self._name, self._files_per_batch, self._read = landing_at(path), name, files_per_batch, read

    @classmethod
    def of(cls, pipeline: Pipeline) -> LandingFiles:
        source = pipeline.source
        assert isinstance(source, FilesSource | DebeziumSource)
        read = read_change_file if isinstance(source, FilesSource) else _read_debezium_file
        return cls(source.path, pipeline.name, source.files_per_batch, read)

    def frame(self, spark: SparkSession) -> DataFrame:
        self.landing.make()
        stream = spark.readStream.format("binaryFile").schema(_FILE)
        stream = stream.option("maxFilesPerTrigger", self._files_per_batch)
        stream = stream.option("recursiveFileLookup", "true").option("maxFileAge", _FOREVER)
        return stream.load(self.landing.spark_path).select("path")

    def batches(self, frame: DataFrame, number: int, records: Iterable[Record]) -> list[Batch]:
        return self.new_batches(Applied(records, self._name))

    def new_batches(self, applied: Applied) -> list[Batch]:
        """The files that the rulebook has not applied, oldest first."""
        standings = applied.standings(self.landing.files())
        return [self._batch(file) for file, standing in standings if standing is Standing.NEW]

    def _batch(self, file: LandingFile) -> Batch:
        def read(tables: Tables, quarantine: bool) -> Content:
            with file.local() as path:
                content = _named(str(file.path), path, lambda: self._read(path, tables, quarantine))
            file.require_unchanged()
            return content

        return Batch(file.name, file.identity(), str(file.path), read)


def _named(place: str, path: Path, read: Callable[[], Content]) -> Content:
    """What was read from a file; messages about it name its place, not that of a copy."""
    if place == str(path):
        return read()
    try:
        content = read()
    except ReadError as error:
        raise ReadError(str(error).replace(str(path), place)) from error
    bad = [replace(bad, place=bad.place.replace(str(path), place)) for bad in content.bad]
    return Content([_feed_at(place, feed) for feed in content.feeds], bad)


def _feed_at(place: str, feed: Feed) -> Feed:
    source = replace(feed.part.source, place=replace(feed.part.source.place, source=place))
    return replace(feed, part=replace(feed.part, source=source))


def read_change_file(path: Path, tables: Tables, _: bool) -> Content:
    """Reads a change file as a whole; in another encoding than UTF-8 only if a table was made of such a file."""
    encodings = {table.read_as.encoding for table in tables.values() if table.read_as is not None}
    reading = Reading() if encodings - {UTF_8} else None
    try:
        return Content([feed for _, feeds in read_feed(path, reading=reading) for feed in feeds], [])
    except HoldfastError:
        raise
    except (Exception, RecursionError) as error:  # a damaged file can make a parser raise anything
        raise ReadError(f"{path}: cannot be read: {type(error).__name__}: {detail(error)}") from error


def _read_debezium_file(path: Path, tables: Tables, quarantine: bool) -> Content:
    try:
        with path.open(encoding="utf-8") as file:
            lines: list[tuple[str, str | None]] = [(f"{path}, line {i}", line) for i, line in enumerate(file, start=1)]
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: cannot be read: {detail(error)}") from error
    return _debezium(lines, tables, str(path), quarantine)


def _debezium(lines: list[tuple[str, str | None]], tables: Tables, source: str, quarantine: bool) -> Content:
    bad: list[Bad] = []
    return Content(feeds_of(lines, tables, source, bad if quarantine else None), bad)


class KafkaTopics:
    """Records of Kafka topics, in the order of their offsets."""

    def __init__(self, source: KafkaSource, checkpoint: str) -> None:
        self._source, self._checkpoint = source, checkpoint

    def frame(self, spark: SparkSession) -> DataFrame:
        source = self._source
        options = {"kafka.bootstrap.servers": source.servers, "subscribe": source.topics}
        options |= {"startingOffsets": "earliest", "failOnDataLoss": "true"}
        if source.rows_per_batch is not None:
            options["maxOffsetsPerTrigger"] = str(source.rows_per_batch)
        stream = spark.readStream.format("kafka").options(**(options | source.options)).load()
        return stream.selectExpr("topic", "partition", "offset", "cast(value as string) as value")

    def batches(self, frame: DataFrame, number: int, records: Iterable[Record]) -> list[Batch]:
        topics = self._source.topics

        def read(tables: Tables, quarantine: bool) -> Content:
            rows = frame.toArrow().sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])
            lines = [
                (f"topic {r['topic']}, partition {r['partition']}, offset {r['offset']}", r["value"])
                for r in rows.to_pylist()
            ]
            if self._source.format == "debezium":
                return _debezium(lines, tables, topics, quarantine)
            return _changed_rows(lines, topics, quarantine)

        return [Batch(number, _offsets_of(self._checkpoint, number), f"topics {topics}, batch {number}", read)]


def _changed_rows(lines: list[tuple[str, str | None]], source: str, quarantine: bool) -> Content:
    """Reads JSON rows with _change_type, and _table if there are several tables."""
    rows, bad = [], []
    for place, text in lines:
        try:
            rows.append(_changed_row(text))
        except ReadError as error:
            if not quarantine:
                raise ReadError(f"{place}: {error}") from None
            bad.append(Bad.unread(place, str(error), {"text": text}))
    if not rows:
        return Content([], bad)
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    return Content([feed for _, feeds in read_feed(Source(source, table, Location(source))) for feed in feeds], bad)


def _changed_row(text: str | None) -> Record:
    try:
        row = json.loads(text or "null")
    except (ValueError, RecursionError) as error:
        raise ReadError(f"not JSON: {detail(error)}") from None
    if not isinstance(row, dict) or CHANGE_TYPE not in row:
        raise ReadError(f"not a changed row: it has no {CHANGE_TYPE}")
    return row


class DeltaFeed:
    """The change data feed of a Delta table. Within a commit, deletes are applied before inserts."""

    def __init__(self, source: DeltaSource, checkpoint: str) -> None:
        self._source, self._checkpoint = source, checkpoint

    def frame(self, spark: SparkSession) -> DataFrame:
        source = self._source
        stream = spark.readStream.format("delta").option("readChangeFeed", "true")
        stream = stream.option("startingVersion", source.starting_version)
        return stream.load(source.path) if "/" in source.path else stream.table(source.path)

    def batches(self, frame: DataFrame, number: int, records: Iterable[Record]) -> list[Batch]:
        def read(_: Tables, __: bool) -> Content:
            table = frame.toArrow()
            types = table.column(CHANGE_TYPE)
            is_delete = pc.is_in(types, pa.array(["delete", "update_preimage"])).to_numpy(zero_copy_only=False)
            commits = table.column("_commit_version").to_numpy()
            order = np.lexsort((~is_delete, commits))
            kinds = np.where(is_delete, DELETE, UPSERT).astype(np.int8)[order]
            rows = table.select([n for n in table.column_names if not n.startswith("_")]).take(order)
            part = Part.by_keys(Source(self._source.path, rows, Location(self._source.path)), kinds)
            return Content([Feed(part, self._source.table)], [])

        def frames() -> list[FrameFeed]:
            return [FrameFeed(frame, self._source.table, order="_commit_version", upserts=True)]

        place = f"{self._source.path}, batch {number}"
        return [Batch(number, _offsets_of(self._checkpoint, number), place, read, frames)]


@dataclass(frozen=True)
class JdbcTables:
    """Tables of a database, polled for rows whose watermark is at least the last one seen."""

    source: JdbcSource

    def batch(self, spark: SparkSession, number: int, offsets: str | None) -> Batch | None:
        """The rows that changed since the watermarks in `offsets`; None if none did."""
        old_watermarks: dict[str, Any] = json.loads(offsets) if offsets is not None else {}
        changed = {name: self._changed(spark, name, old_watermarks.get(name)) for name in self.source.tables}
        watermarks = dict(old_watermarks)
        for name, frame in changed.items():
            newest = frame.selectExpr(f"cast(max({quoted(self.source.tables[name].watermark)}) as string)").collect()
            watermarks |= {name: newest[0][0]} if newest[0][0] is not None else {}
        if watermarks == old_watermarks:  # rows with exactly the old watermark were applied before
            return None

        def read(_: Tables, __: bool) -> Content:
            rows = {name: frame.toArrow() for name, frame in changed.items()}
            return Content([self._feed(name, table) for name, table in rows.items() if table.num_rows], [])

        def frames() -> list[FrameFeed]:
            upserts = {name: frame.selectExpr("*", f"'insert' as {CHANGE_TYPE}") for name, frame in changed.items()}
            return [FrameFeed(frame, name, upserts=True) for name, frame in upserts.items()]

        return Batch(number, json.dumps(watermarks), f"the database, batch {number}", read, frames)

    def _changed(self, spark: SparkSession, name: str, watermark: str | None) -> DataFrame:
        frame = jdbc_table(self.source, name, spark)
        if watermark is None:
            return frame
        return frame.where(frame[quoted(self.source.tables[name].watermark)] >= watermark)

    def _feed(self, name: str, rows: pa.Table) -> Feed:
        kinds = np.full(rows.num_rows, UPSERT, np.int8)
        return Feed(Part.by_keys(Source(name, rows, Location(self.source.tables[name].table)), kinds), name)


def jdbc_table(source: JdbcSource, name: str, spark: SparkSession) -> DataFrame:
    """The current rows of a database table."""
    options = {"url": source.url, "dbtable": source.tables[name].table, **source.options}
    return spark.read.format("jdbc").options(**options).load()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _offsets_of(checkpoint: str, number: int) -> str:
    """A digest of the offsets that Spark planned for a batch, from its checkpoint.

    The first two lines of that file hold a version, times and settings.
    """
    lines = directory_at(checkpoint).read("offsets", str(number)).to_pybytes().decode().splitlines()
    return _digest("\n".join(lines[2:]))
