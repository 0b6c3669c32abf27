"""The events of one version, as sinks receive them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.rulebook import Rulebook
from holdfast.rules.bind import table_of
from holdfast.workflow.alerts import Alert, alerts_of
from holdfast.workflow.masking import Mask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VIOLATIONS, QUARANTINE, RULES = "violations", "quarantine", "rules"
_QUARANTINE_SCHEMA = pa.schema([(n, pa.string()) for n in ("table", "place", "change_type", "values", "reason")])
_RULES_SCHEMA = pa.schema([(n, pa.string()) for n in ("rule_id", "rule", "change", "t", "s")])


class SinkEvents:
    """The events of one version, as tables by name. Each row has book, version, batch and time."""

    def __init__(self, name: str, book: Any, version: int, masked: Collection[str] = ()) -> None:
        """`name`: the book's name in the events. `masked`: columns to mask besides those that the book masks."""
        self.record, violations, bad_rows, rule_events = book.events_of(version)
        self.name, self.version = name, version
        self._book, self._rule_events, self._masked = book, rule_events, masked
        altered = self.record.get("altered", {}).get("rules", [])
        rules = [{"rule_id": e.id, "rule": e.rule, "change": "added"} for e in book.entries if e.id in altered]
        rules += [event | {"rule_id": event["id"]} | _row_names(event) for event in rule_events]
        quarantined = [{**row, "values": json.dumps(row["values"], default=str)} for row in bad_rows]
        self.tables = {
            VIOLATIONS: self._with_version(violations),
            QUARANTINE: self._with_version(pa.Table.from_pylist(quarantined, schema=_QUARANTINE_SCHEMA)),
            RULES: self._with_version(pa.Table.from_pylist(rules, schema=_RULES_SCHEMA)),
        }

    def _with_version(self, table: pa.Table) -> pa.Table:
        """The table with book, version, batch and time as its first columns."""
        for position, (name, value) in enumerate(self._version_columns().items()):
            table = table.add_column(position, name, pa.repeat(pa.scalar(value), table.num_rows))
        return table

    def _version_columns(self) -> dict[str, Any]:
        batch, time = str(self.record["batch"]), self.record["time"]
        return {"book": self.name, "version": self.version, "batch": batch, "time": time}

    @cached_property
    def alerts(self) -> list[Alert]:
        """The alerts of this version."""
        return alerts_of(
            self._book, self.record["violations"], self.tables[VIOLATIONS], self._rule_events, self._masked
        )

    def hides(self, rule: str) -> bool:
        """Whether a mask forbids naming the rows that violate a rule."""
        entry = next((e for e in self._book.entries if e.id == rule), None)
        if entry is None:  # the rule was retired meanwhile, so its table is unknown
            return bool(self._mask)
        return self._mask.hides_names(table_of(entry.value, self._book.schemas))

    @cached_property
    def _mask(self) -> Mask:
        return Mask.of(self._book, self._masked)

    def nonempty_tables(self) -> Iterator[tuple[str, pa.Table]]:
        """The tables that have rows, by name; of a rulebook on Spark without the violations, which are a DataFrame."""
        in_memory = {name: t for name, t in self.tables.items() if name != VIOLATIONS or not self._on_spark}
        return ((name, table) for name, table in in_memory.items() if table.num_rows)

    @property
    def _on_spark(self) -> bool:
        return not isinstance(self._book, Rulebook)

    def frames_on_spark(self) -> Iterator[tuple[str, DataFrame]]:
        """The tables of a rulebook on Spark that need not pass through this process, by name."""
        if self._on_spark:
            from pyspark.sql.functions import lit

            columns = self._version_columns() | {"version": lit(self.version).cast("bigint")}
            for name, frame in self._book.table_events(self.version, self._mask.hides).items():
                yield name, frame.select(*(lit(value).alias(c) for c, value in columns.items()), *frame.columns)


def _row_names(event: dict[str, Any]) -> dict[str, str]:
    """The names of the two rows that decided about a rule, as JSON."""
    return {side: json.dumps(event[side]) for side in ("t", "s") if event[side] is not None}
