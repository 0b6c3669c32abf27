"""Writers for each kind of sink.

Table sinks are written as part of the batch. Message sinks are sent a message later, by another thread, so that a sink
that does not answer delays nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet

from holdfast.pipeline.config import AlertSink, DeltaSink, ParquetSink, Sink, TableSink, WebhookSink
from holdfast.pipeline.post import post
from holdfast.pipeline.sink_events import VIOLATIONS, SinkEvents
from holdfast.store.directory import directory_at
from holdfast.workflow.alerts import Alert, send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TableSinkWriter(Protocol):
    """Writes the events of a version. An error stops the stream before the next batch."""

    def write(self, events: SinkEvents) -> None: ...


@runtime_checkable
class MessageSender(Protocol):
    """Sends a message about the events of a version. After an error, it is called again later."""

    def message(self, events: SinkEvents) -> Any | None:
        """The message to send; None if the version needs none."""

    def send(self, message: Any) -> None:
        """Sends the message; OSError if that fails."""


class ParquetWriter:
    """Writes `<path>/<table>/version=7/part.parquet`, or Spark's own files there. A repeated write replaces them."""

    def __init__(self, sink: ParquetSink) -> None:
        self._path = sink.path

    def write(self, events: SinkEvents) -> None:
        for name, table in events.nonempty_tables():
            out = pa.BufferOutputStream()
            pa.parquet.write_table(table.drop_columns(["version"]), out)
            self._replace(f"{name}/version={events.version}", out.getvalue())
        for name, frame in events.frames_on_spark():
            frame.drop("version").write.mode("overwrite").parquet(f"{self._path}/{name}/version={events.version}")

    def _replace(self, folder: str, data: pa.Buffer) -> None:
        directory = directory_at(self._path)
        directory.remove(folder, "part.parquet")
        directory.make_folder(folder)
        directory.put(folder, "part.parquet", data)


class DeltaWriter:
    """Appends to Delta tables `<path>/<table>`. Delta ignores a version that a table has already."""

    def __init__(self, sink: DeltaSink, spark: SparkSession) -> None:
        self._path, self._spark = sink.path, spark

    def write(self, events: SinkEvents) -> None:
        for name, frame in _frames(events, self._spark):
            writer = frame.write.format("delta").mode("append")
            writer = writer.option("txnAppId", f"holdfast-{events.name}-{name}").option("txnVersion", events.version)
            writer.save(f"{self._path}/{name}")


class TableWriter:
    """Appends to Spark tables `<name>_<table>`."""

    def __init__(self, sink: TableSink, spark: SparkSession) -> None:
        self._name, self._spark = sink.name, spark

    def write(self, events: SinkEvents) -> None:
        for name, frame in _frames(events, self._spark):
            frame.write.mode("append").saveAsTable(f"{self._name}_{name}")


def _frames(events: SinkEvents, spark: SparkSession) -> Iterator[tuple[str, DataFrame]]:
    """The tables of a version as DataFrames."""
    for name, table in events.nonempty_tables():
        yield name, spark.createDataFrame(table)
    yield from events.frames_on_spark()


@dataclass(frozen=True)
class WebhookSender:
    """Sends one POST for each version that changed violations or quarantined rows."""

    sink: WebhookSink

    def message(self, events: SinkEvents) -> tuple[dict[str, str], bytes] | None:
        record = events.record
        changed = {rule: counts for rule, counts in record["violations"].items() if counts[0] or counts[1]}
        if not changed and not record["quarantined"]:
            return None
        body = {"book": events.name, "version": events.version, "batch": record["batch"], "time": record["time"]}
        body |= {"quarantined": record["quarantined"]}
        body |= {"violations": [self._rule(events, rule, *counts) for rule, counts in changed.items()]}
        body |= {"alerts": [alert.record() for alert in events.alerts]}
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"{events.name}/{events.version}"}
        return headers | self.sink.headers, json.dumps(body, default=str).encode()

    def _rule(self, events: SinkEvents, rule: str, added: int, removed: int, total: int) -> dict[str, Any]:
        """The part of the message about one rule: counts, and the first added violations."""
        listed = events.tables[VIOLATIONS]
        rows = [r for r in listed.to_pylist() if r["rule_id"] == rule and r["change"] == "added" and r["t"] is not None]
        rows = [] if events.hides(rule) else rows[: self.sink.limit]
        pairs = [[json.loads(r[side]) for side in ("t", "s") if r[side] is not None] for r in rows]
        return {"rule": rule, "added": added, "removed": removed, "total": total, "pairs_added": pairs}

    def send(self, message: tuple[dict[str, str], bytes]) -> None:
        post(self.sink.url, *message)


@dataclass(frozen=True)
class AlertSender:
    """Sends one message for each version with alerts, through Apprise."""

    urls: tuple[str, ...]

    def message(self, events: SinkEvents) -> tuple[str, list[Alert]] | None:
        return (events.name, events.alerts) if events.alerts else None

    def send(self, message: tuple[str, list[Alert]]) -> None:
        send(*message, self.urls)


def writer_of(sink: Sink, spark: SparkSession | None) -> TableSinkWriter | MessageSender:
    """The writer for a sink. Delta and table sinks need Spark."""
    if isinstance(sink, ParquetSink):
        return ParquetWriter(sink)
    if isinstance(sink, WebhookSink):
        return WebhookSender(sink)
    if isinstance(sink, AlertSink):
        return AlertSender(tuple(sink.urls))
    assert spark is not None
    if isinstance(sink, DeltaSink):
        return DeltaWriter(sink, spark)
    return TableWriter(sink, spark)
