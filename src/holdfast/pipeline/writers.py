"""How each kind of sink is written to.

A table sink is written within the batch, by what a version changed. A message sink is sent a message, later, by
another thread: whoever does not answer holds up nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet

from holdfast.pipeline.config import AlertSink, DeltaSink, ParquetSink, Sink, TableSink, WebhookSink
from holdfast.pipeline.post import post
from holdfast.pipeline.told import VIOLATIONS, Told
from holdfast.store.directory import directory_at
from holdfast.workflow.alerts import Alert, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TableSinkWriter(Protocol):
    """Writes what a version changed; an error stops the stream before the next batch."""

    def write(self, told: Told) -> None: ...


@runtime_checkable
class MessageSender(Protocol):
    """Sends a message of what a version changed; an error is tried again later."""

    def message(self, told: Told) -> Any | None:
        """What is to be sent; None where the version is not worth a message."""

    def send(self, message: Any) -> None:
        """Sends it; OSError where that fails."""


class ParquetWriter:
    """`<path>/<table>/version=7/part.parquet`: written again, it is replaced."""

    def __init__(self, sink: ParquetSink) -> None:
        self._path = sink.path

    def write(self, told: Told) -> None:
        for name, table in told.filled():
            out = pa.BufferOutputStream()
            pa.parquet.write_table(table.drop_columns(["version"]), out)
            self._replace(f"{name}/version={told.version}", out.getvalue())

    def _replace(self, folder: str, data: pa.Buffer) -> None:
        place = directory_at(self._path)
        place.remove(folder, "part.parquet")
        place.make_folder(folder)
        place.put(folder, "part.parquet", data)


class DeltaWriter:
    """Delta tables `<path>/<table>`; a version that a table has already is not written again."""

    def __init__(self, sink: DeltaSink, spark: SparkSession) -> None:
        self._path, self._spark = sink.path, spark

    def write(self, told: Told) -> None:
        for name, table in told.filled():
            writer = self._spark.createDataFrame(table).write.format("delta").mode("append")
            writer = writer.option("txnAppId", f"holdfast-{told.name}-{name}").option("txnVersion", told.version)
            writer.save(f"{self._path}/{name}")


class TableWriter:
    """Spark tables `<name>_<table>`, appended to."""

    def __init__(self, sink: TableSink, spark: SparkSession) -> None:
        self._name, self._spark = sink.name, spark

    def write(self, told: Told) -> None:
        for name, table in told.filled():
            self._spark.createDataFrame(table).write.mode("append").saveAsTable(f"{self._name}_{name}")


@dataclass(frozen=True)
class WebhookSender:
    """One POST for each version that changed violations or quarantined rows."""

    sink: WebhookSink

    def message(self, told: Told) -> tuple[dict[str, str], bytes] | None:
        changed = {i: counts for i, counts in told.record["violations"].items() if counts[0] or counts[1]}
        if not changed and not told.record["quarantined"]:
            return None
        body = {"book": told.name, "version": told.version, "batch": told.record["batch"], "time": told.record["time"]}
        body |= {"quarantined": told.record["quarantined"]}
        body |= {"violations": [self._rule(told, i, *counts) for i, counts in changed.items()]}
        body |= {"alerts": [alert.record() for alert in told.alerts]}
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"{told.name}/{told.version}"}
        return headers | self.sink.headers, json.dumps(body, default=str).encode()

    def _rule(self, told: Told, rule: str, added: int, removed: int, total: int) -> dict[str, Any]:
        listed = told.tables[VIOLATIONS]
        rows = [r for r in listed.to_pylist() if r["rule_id"] == rule and r["change"] == "added" and r["t"] is not None]
        rows = [] if told.hides(rule) else rows[: self.sink.limit]
        pairs = [[json.loads(r[side]) for side in ("t", "s") if r[side] is not None] for r in rows]
        return {"rule": rule, "added": added, "removed": removed, "total": total, "pairs_added": pairs}

    def send(self, message: tuple[dict[str, str], bytes]) -> None:
        post(self.sink.url, *message)


@dataclass(frozen=True)
class AlertSender:
    """One message for each version that is worth one, through Apprise."""

    urls: tuple[str, ...]

    def message(self, told: Told) -> tuple[str, list[Alert]] | None:
        return (told.name, told.alerts) if told.alerts else None

    def send(self, message: tuple[str, list[Alert]]) -> None:
        send(*message, self.urls)


def writer_of(sink: Sink, spark: SparkSession | None) -> TableSinkWriter | MessageSender:
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
