"""Where changes come from: streams of Structured Streaming, and what a micro-batch of each means as changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Place, ReadError
from holdfast.executors.spark import quoted
from holdfast.pipeline.config import DebeziumSource, DeltaSource, FilesSource, JdbcSource, KafkaSource, Pipeline
from holdfast.pipeline.debezium import feeds_of
from holdfast.store.directory import directory_at
from holdfast.table.change import CHANGE_TYPE, DELETE, UPSERT, Feed, Part, read_feed
from holdfast.table.options import TableOptions
from holdfast.table.read import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tables = Mapping[str, TableOptions]
_FILE = "path string, modificationTime timestamp, length bigint, content binary"


@dataclass(frozen=True)
class Batch:
    """What is applied as one: its id, what it is made of, and how to read it."""

    id: str | int
    offsets: str
    read: Callable[[Tables], list[Feed]]


class Stream(Protocol):
    """A source that Structured Streaming follows."""

    def frame(self, spark: SparkSession) -> DataFrame:
        """The stream."""

    def batches(self, frame: DataFrame, number: int) -> list[Batch]:
        """What a micro-batch of it is made of, in order."""


def stream_of(pipeline: Pipeline) -> Stream:
    source = pipeline.source
    if isinstance(source, FilesSource):
        return LandingFiles(source.path, source.files_per_batch, read_change_file)
    if isinstance(source, DebeziumSource):
        return LandingFiles(source.path, source.files_per_batch, _read_debezium_file)
    if isinstance(source, KafkaSource):
        return KafkaTopics(source, pipeline.checkpoint_path)
    if isinstance(source, DeltaSource):
        return DeltaFeed(source, pipeline.checkpoint_path)
    raise ReadError(f"{source.kind} is not a stream")


class LandingFiles:
    """Spark finds the files and remembers which are done; they are read here, each as a whole, oldest first, so that
    every message names the file and its row. A file is a batch: after a crash Spark may put files together otherwise.
    """

    def __init__(self, path: str, files_per_batch: int, read: Callable[[str, Tables], list[Feed]]) -> None:
        self._path, self._most, self._read = path, files_per_batch, read

    def frame(self, spark: SparkSession) -> DataFrame:
        if "://" not in self._path:
            Path(self._path).mkdir(parents=True, exist_ok=True)
        stream = spark.readStream.format("binaryFile").schema(_FILE).option("maxFilesPerTrigger", self._most)
        return stream.load(self._path).select("path", "modificationTime", "length")

    def batches(self, frame: DataFrame, number: int) -> list[Batch]:
        found = sorted(frame.collect(), key=lambda row: (row["modificationTime"], row["path"]))
        return [self.batch(_local(row["path"]), row["length"]) for row in found]

    def batch(self, path: str, length: int) -> Batch:
        """The batch that a file is: known by its name, and its length."""
        return Batch(unquote(path).rpartition("/")[2], f"{length} bytes", lambda tables: self._read(path, tables))


def _local(address: str) -> str:
    """A file's address as Spark says it, as a path where it is one."""
    parts = urlparse(address)
    return unquote(parts.path) if parts.scheme == "file" else address


def read_change_file(path: str, _: Tables) -> list[Feed]:
    return [feed for _, feeds in read_feed(path) for feed in feeds]


def _read_debezium_file(path: str, tables: Tables) -> list[Feed]:
    try:
        with Path(path).open(encoding="utf-8") as file:
            lines = [(f"{path}, line {i}", line) for i, line in enumerate(file, start=1)]
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: cannot be read: {error}") from error
    return feeds_of(lines, tables, path)


class KafkaTopics:
    """Records in the order of their offsets."""

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

    def batches(self, frame: DataFrame, number: int) -> list[Batch]:
        def read(tables: Tables) -> list[Feed]:
            rows = frame.toArrow().sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])
            lines = [
                (f"topic {r['topic']}, partition {r['partition']}, offset {r['offset']}", r["value"])
                for r in rows.to_pylist()
            ]
            if self._source.format == "debezium":
                return feeds_of(lines, tables, self._source.topics)
            return _feeds_of_rows(lines, self._source.topics)

        return [Batch(number, _offsets_of(self._checkpoint, number), read)]


def _feeds_of_rows(lines: list[tuple[str, str | None]], source: str) -> list[Feed]:
    """JSON rows with _change_type, and _table where there are several tables."""
    records = []
    for place, text in lines:
        try:
            record = json.loads(text or "null")
        except ValueError as error:
            raise ReadError(f"{place}: not JSON: {error}") from None
        if not isinstance(record, dict) or CHANGE_TYPE not in record:
            raise ReadError(f"{place}: not a changed row: it has no {CHANGE_TYPE}")
        records.append(record)
    names = list(dict.fromkeys(name for record in records for name in record))
    table = pa.table({name: [record.get(name) for record in records] for name in names})
    return [feed for _, feeds in read_feed(Source(source, table, Place(source))) for feed in feeds]


class DeltaFeed:
    """Delta's change data feed. Within a commit, what goes comes before what comes."""

    def __init__(self, source: DeltaSource, checkpoint: str) -> None:
        self._source, self._checkpoint = source, checkpoint

    def frame(self, spark: SparkSession) -> DataFrame:
        source = self._source
        stream = spark.readStream.format("delta").option("readChangeFeed", "true")
        stream = stream.option("startingVersion", source.starting_version)
        return stream.load(source.path) if "/" in source.path else stream.table(source.path)

    def batches(self, frame: DataFrame, number: int) -> list[Batch]:
        def read(_: Tables) -> list[Feed]:
            table = frame.toArrow()
            types = table.column(CHANGE_TYPE)
            goes = pc.is_in(types, pa.array(["delete", "update_preimage"]))
            commits = table.column("_commit_version").to_numpy()
            order = np.lexsort((~goes.to_numpy(zero_copy_only=False), commits))
            kinds = np.where(goes.to_numpy(zero_copy_only=False), DELETE, UPSERT).astype(np.int8)[order]
            rows = table.select([n for n in table.column_names if not n.startswith("_")]).take(order)
            return [
                Feed(Part.by_keys(Source(self._source.path, rows, Place(self._source.path)), kinds), self._source.table)
            ]

        return [Batch(number, _offsets_of(self._checkpoint, number), read)]


@dataclass(frozen=True)
class JdbcTables:
    """Tables of a database, asked again and again for rows whose watermark is not below the last one seen."""

    source: JdbcSource

    def batch(self, spark: SparkSession, number: int, offsets: str | None) -> Batch | None:
        """What changed since the watermarks in these offsets; None where nothing did."""
        since: dict[str, Any] = json.loads(offsets) if offsets is not None else {}
        feeds: list[Feed] = []
        until = dict(since)
        for name, table in self.source.tables.items():
            rows = jdbc_table(self.source, name, spark)
            if since.get(name) is not None:
                rows = rows.where(rows[quoted(table.watermark)] >= since[name])
            found = rows.toArrow()
            if found.num_rows:
                marks = found.column(table.watermark)
                until[name] = str(pc.max(marks).as_py())
                kinds = np.full(found.num_rows, UPSERT, np.int8)
                feeds.append(Feed(Part.by_keys(Source(name, found, Place(table.table)), kinds), name))
        if not feeds or until == since:  # those with the last watermark are known
            return None
        return Batch(number, json.dumps(until), lambda _: feeds)


def jdbc_table(source: JdbcSource, name: str, spark: SparkSession) -> DataFrame:
    """A table of a database as it is now."""
    options = {"url": source.url, "dbtable": source.tables[name].table, **source.options}
    return spark.read.format("jdbc").options(**options).load()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _offsets_of(checkpoint: str, number: int) -> str:
    """The offsets that Spark planned for a batch, from its checkpoint; the second line has times and settings."""
    lines = directory_at(checkpoint).read("offsets", str(number)).to_pybytes().decode().splitlines()
    return _digest("\n".join(lines[2:]))
