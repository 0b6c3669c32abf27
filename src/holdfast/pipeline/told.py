"""What sinks are told of one version."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa

from holdfast.rulebook import Rulebook
from holdfast.rules.bind import table_of
from holdfast.workflow.alerts import Alert, alerts_of
from holdfast.workflow.masking import Mask

VIOLATIONS, QUARANTINE, RULES = "violations", "quarantine", "rules"
_BAD = pa.schema([(n, pa.string()) for n in ("table", "place", "change_type", "values", "reason")])
_RULES = pa.schema([(n, pa.string()) for n in ("rule_id", "rule", "change", "t", "s")])


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
        if entry is None:  # retired meanwhile: its table is not known any more
            return bool(self._mask)
        return self._mask.hides_names(table_of(entry.value, self._book.schemas))

    @cached_property
    def _mask(self) -> Mask:
        return Mask.of(self._book, self._masked)

    def filled(self) -> Iterator[tuple[str, pa.Table]]:
        """The tables that have rows."""
        return ((name, table) for name, table in self.tables.items() if table.num_rows)


def _names(event: dict[str, Any]) -> dict[str, str]:
    """The rows that decided about a rule, as JSON."""
    return {side: json.dumps(event[side]) for side in ("t", "s") if event[side] is not None}
