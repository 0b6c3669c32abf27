"""The logs of a rulebook: a record for each version, rules added and removed, quarantined rows."""

from __future__ import annotations

import json

import pyarrow as pa

from holdfast.errors import ChangeRefused, shown
from holdfast.store.log import Log, Record
from holdfast.store.step import Step

_HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("batch", pa.string()),
        ("source", pa.string()),
        ("time", pa.string()),
        ("table", pa.string()),
    ]
    + [(name, pa.int64()) for name in ("inserted", "deleted", "updated", "quarantined", "drift")]
    + [(name, pa.int64()) for name in ("rules_added", "rules_removed")]
)
_RULE_HISTORY = pa.schema(
    [("version", pa.int64())]
    + [(name, pa.string()) for name in ("batch", "table", "change", "id", "kind", "rule", "t", "s", "value")]
)
_QUARANTINE = pa.schema(
    [("version", pa.int64())]
    + [(name, pa.string()) for name in ("batch", "table", "place", "change_type", "values", "reason")]
)


class Chronicle:
    """Three logs that only grow, and the batches of each source that they contain."""

    def __init__(self) -> None:
        self.log, self.rules, self.quarantine = Log(), Log(), Log()
        self._seen: dict[str, dict[str | int, str | None]] = {}  # batches of each source, and their offsets
        self._highest: dict[str, int] = {}  # of each source's integer batch ids

    @property
    def version(self) -> int:
        return int(self.log.records[-1]["version"]) if self.log.records else 0

    def add(self, step: Step) -> None:
        """Adds a version."""
        self.log.append(step.record)
        if step.bad is not None:
            self.quarantine.merge(step.bad)
        if step.rules is not None:
            self.rules.merge(step.rules)
        self._note_batch(step.record)

    def note_all(self) -> None:
        """Notes the batches of all versions, after the logs were read."""
        for record in self.log.records:
            self._note_batch(record)

    def _note_batch(self, record: Record) -> None:
        if record["version"] and record["batch"] is not None:
            source, batch = record["source"], record["batch"]
            self._seen.setdefault(source, {})[batch] = record.get("offsets")
            if isinstance(batch, int):
                self._highest[source] = max(batch, self._highest.get(source, batch))

    def next_batch(self, source: str) -> int:
        """The number that follows the last batch of a source."""
        return self._highest.get(source, 0) + 1

    def last_offsets(self, source: str) -> str | None:
        """What the last batch of a source was made of."""
        return next(reversed(self._seen[source].values())) if self._seen.get(source) else None

    def knows(self, source: str, batch: str | int, offsets: str | None = None) -> bool:
        """Whether this batch was applied already; an error if it was made of something else then."""
        before = self._seen.get(source, {}).get(batch)
        if offsets is not None and before is not None and before != offsets:
            raise ChangeRefused(
                f"batch {batch} of {shown(source)} was applied already, but was made of something else then: a lost or "
                f"foreign checkpoint. Restore the checkpoint; or, with a new one, give the source a new name and only "
                f"what this rulebook has not seen"
            )
        if isinstance(batch, int) and source in self._highest and batch <= self._highest[source]:
            return True
        return batch in self._seen.get(source, ())

    def late(self) -> dict[str, dict[str, int]]:
        """The kinds of found rules that are late, by table, and the last version for which they were not."""
        if not self.log.records:
            return {}
        found: dict[str, dict[str, int]] = {}
        for table, kinds in self.log.records[-1].get("late", {}).items():
            for kind in kinds:
                records = reversed(self.log.records)
                in_time = (r["version"] for r in records if kind not in r.get("late", {}).get(table, ()))
                found.setdefault(table, {})[kind] = next(in_time)
        return found

    def history(self) -> pa.Table:
        """What each batch did to each table, oldest first."""
        rows = [
            {k: r[k] for k in ("version", "source", "time", "quarantined", "drift")}
            | {"batch": str(r["batch"]), "table": name}
            | dict(zip(("rules_added", "rules_removed"), r.get("rules", {}).get(name, (0, 0)), strict=True))
            | counts
            for r in self.log.records
            for name, counts in r["tables"].items()
        ]
        return pa.Table.from_pylist(rows, schema=_HISTORY)

    def rule_history(self) -> pa.Table:
        """The rules added and removed, oldest first, with the two rows that decided; rows by name, as JSON."""
        rows = [
            r
            | {"batch": str(r["batch"])}
            | {name: None if r.get(name) is None else json.dumps(r[name]) for name in ("t", "s", "value")}
            for r in self.rules.records
        ]
        return pa.Table.from_pylist(rows, schema=_RULE_HISTORY)

    def quarantined(self) -> pa.Table:
        """The quarantined rows with the reason; their values as JSON."""
        rows = [
            r | {"batch": str(r["batch"]), "values": json.dumps(r["values"], default=str)}
            for r in self.quarantine.records
        ]
        return pa.Table.from_pylist(rows, schema=_QUARANTINE)
