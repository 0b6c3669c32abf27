"""Who is told what a version changed. Sinks read from the rulebook's outbox, so a restart tells what was not told yet.

How far a sink is, is a mark in the rulebook's directory. Parquet and Delta: exactly once. Other tables and webhooks: at
least once, with what is needed to recognise a repetition.
"""

from __future__ import annotations

import contextlib
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet

from holdfast.pipeline.config import AlertSink, DeltaSink, ParquetSink, Pipeline, Sink, TableSink, WebhookSink
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import table_of
from holdfast.store.directory import Directory, directory_at
from holdfast.workflow.alerts import Alert, alerts_of, send
from holdfast.workflow.masking import Mask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("holdfast")
MARKS = "sinks"
VIOLATIONS, QUARANTINE, RULES = "violations", "quarantine", "rules"
_TRIES, _WAIT = 3, 10.0  # of a webhook; seconds
_BAD = pa.schema([(n, pa.string()) for n in ("table", "place", "change_type", "values", "reason")])
_RULES = pa.schema([(n, pa.string()) for n in ("rule_id", "rule", "change", "t", "s")])


def _names(event: dict[str, Any]) -> dict[str, str]:
    """The rows that decided about a rule, as JSON."""
    return {side: json.dumps(event[side]) for side in ("t", "s") if event[side] is not None}


class Told:
    """What is told of one version: tables by name, each row with book, version, batch and time."""

    def __init__(self, name: str, book: Rulebook, version: int, masked: Collection[str] = ()) -> None:
        self.record, violations, bad, found = book.events_of(version)
        self.name, self.version = name, version
        self._book, self._found, self._masked = book, found, masked
        altered = self.record.get("altered", {}).get("rules", [])
        rules = [{"rule_id": e.id, "rule": e.rule, "change": "added"} for e in book.entries if e.id in altered]
        rules += [event | {"rule_id": event["id"]} | _names(event) for event in found]
        lines = [{**row, "values": json.dumps(row["values"], default=str)} for row in bad]
        self.tables = {
            VIOLATIONS: self._signed(violations),
            QUARANTINE: self._signed(pa.Table.from_pylist(lines, schema=_BAD)),
            RULES: self._signed(pa.Table.from_pylist(rules, schema=_RULES)),
        }

    def _signed(self, table: pa.Table) -> pa.Table:
        signs = {
            "book": self.name,
            "version": self.version,
            "batch": str(self.record["batch"]),
            "time": self.record["time"],
        }
        for place, (name, value) in enumerate(signs.items()):
            table = table.add_column(place, name, pa.repeat(pa.scalar(value), table.num_rows))
        return table

    @cached_property
    def alerts(self) -> list[Alert]:
        """What of it is worth waking somebody for."""
        return alerts_of(self._book, self.record["violations"], self.tables[VIOLATIONS], self._found, self._masked)

    def hides(self, rule: str) -> bool:
        """Whether the rows that violate a rule must not be named."""
        entry = next((e for e in self._book.entries if e.id == rule), None)
        mask = Mask.of(self._book, self._masked)
        return entry is not None and mask.hides_names(table_of(entry.value, self._book.schemas))

    def filled(self) -> Iterator[tuple[str, pa.Table]]:
        """The tables that have rows."""
        return ((name, table) for name, table in self.tables.items() if table.num_rows)


class Writer(Protocol):
    """Tells one sink. `patient`: a failure is tried again with the next version, and stops nothing."""

    patient: bool

    def write(self, told: Told) -> None: ...


class ParquetWriter:
    """`<path>/<table>/version=7/part.parquet`: written again, it is replaced."""

    patient = False

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

    patient = False

    def __init__(self, sink: DeltaSink, spark: SparkSession) -> None:
        self._path, self._spark = sink.path, spark

    def write(self, told: Told) -> None:
        for name, table in told.filled():
            writer = self._spark.createDataFrame(table).write.format("delta").mode("append")
            writer = writer.option("txnAppId", f"holdfast-{told.name}-{name}").option("txnVersion", told.version)
            writer.save(f"{self._path}/{name}")


class TableWriter:
    """Spark tables `<name>_<table>`, appended to."""

    patient = False

    def __init__(self, sink: TableSink, spark: SparkSession) -> None:
        self._name, self._spark = sink.name, spark

    def write(self, told: Told) -> None:
        for name, table in told.filled():
            self._spark.createDataFrame(table).write.mode("append").saveAsTable(f"{self._name}_{name}")


class WebhookWriter:
    """One POST for each version that changed violations or kept rows apart."""

    patient = True

    def __init__(self, sink: WebhookSink) -> None:
        self._sink = sink

    def write(self, told: Told) -> None:
        changed = {i: counts for i, counts in told.record["violations"].items() if counts[0] or counts[1]}
        if not changed and not told.record["quarantined"]:
            return
        body = {"book": told.name, "version": told.version, "batch": told.record["batch"], "time": told.record["time"]}
        rules = [self._rule(told, i, *counts) for i, counts in changed.items()]
        alerts = {"alerts": [alert.record() for alert in told.alerts]}
        data = json.dumps(
            body | {"quarantined": told.record["quarantined"], "violations": rules} | alerts, default=str
        ).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"{told.name}/{told.version}"}
        request = urllib.request.Request(self._sink.url, data, headers | self._sink.headers, method="POST")
        with urllib.request.urlopen(request, timeout=_WAIT):
            pass

    def _rule(self, told: Told, rule: str, added: int, removed: int, total: int) -> dict[str, Any]:
        listed = told.tables[VIOLATIONS]
        rows = [r for r in listed.to_pylist() if r["rule_id"] == rule and r["change"] == "added" and r["t"] is not None]
        rows = [] if told.hides(rule) else rows[: self._sink.limit]
        pairs = [[json.loads(r[side]) for side in ("t", "s") if r[side] is not None] for r in rows]
        return {"rule": rule, "added": added, "removed": removed, "total": total, "pairs_added": pairs}


class AlertWriter:
    """One message for each version that is worth one."""

    patient = True

    def __init__(self, sink: AlertSink) -> None:
        self._urls = sink.urls

    def write(self, told: Told) -> None:
        if told.alerts:
            send(told.name, told.alerts, self._urls)


def _writer(sink: Sink, spark: SparkSession | None) -> Writer:
    if isinstance(sink, ParquetSink):
        return ParquetWriter(sink)
    if isinstance(sink, WebhookSink):
        return WebhookWriter(sink)
    if isinstance(sink, AlertSink):
        return AlertWriter(sink)
    assert spark is not None
    if isinstance(sink, DeltaSink):
        return DeltaWriter(sink, spark)
    return TableWriter(sink, spark)


class Outbox:
    """Tells all sinks of a pipeline every version, in order."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession | None) -> None:
        self._name, self._masked = pipeline.name, pipeline.mask
        self._directory: Directory = directory_at(pipeline.book)
        self._writers = {f"{sink.kind}-{i}": _writer(sink, spark) for i, sink in enumerate(pipeline.sinks)}
        self._done = self._marks()

    def _marks(self) -> dict[str, int]:
        done = dict.fromkeys(self._writers, 0)
        for name in self._directory.names(MARKS):
            sink, _, version = name.rpartition(".")
            if sink in done:
                done[sink] = max(done[sink], int(version))
        return done

    @property
    def needed_from(self) -> int | None:
        """The oldest version that a sink has still to be told of."""
        return min(self._done.values()) + 1 if self._done else None

    def deliver(self, book: Rulebook) -> None:
        """Tells every sink what it does not know yet."""
        for sink, writer in self._writers.items():
            for version in range(self._done[sink] + 1, book.version + 1):
                if not self._tell(sink, writer, Told(self._name, book, version, self._masked)):
                    break
                self._mark(sink, version)
        book.needed_from = self.needed_from

    def _tell(self, sink: str, writer: Writer, told: Told) -> bool:
        for attempt in range(1, _TRIES + 1):
            try:
                writer.write(told)
            except (urllib.error.URLError, OSError) as error:
                if not writer.patient:
                    raise
                log.warning("sink %s, version %d, attempt %d: %s", sink, told.version, attempt, error)
            else:
                return True
        return False

    def _mark(self, sink: str, version: int) -> None:
        self._directory.make_folder(MARKS)
        with contextlib.suppress(FileExistsError):
            self._directory.put(MARKS, f"{sink}.{version:010d}", b"")
        self._directory.remove(MARKS, f"{sink}.{self._done[sink]:010d}")
        self._done[sink] = version
