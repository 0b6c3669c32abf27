"""The events of a batch for sinks: one Arrow table, which the store keeps until every sink has received it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.arrays import Arrays, table_from_buffer, table_to_buffer
from holdfast.rules.rulefile import RuleEntry
from holdfast.violations.listing import BatchViolations, Listed

ADDED, REMOVED = "added", "removed"
VIOLATIONS = pa.schema(
    [("sequence", pa.int64())]
    + [(name, pa.string()) for name in ("rule_id", "rule", "severity", "change", "t", "s")]
    + [("count", pa.int64())]
)


def violation_events(violations: BatchViolations, entries: Sequence[RuleEntry]) -> pa.Table:
    """A row for each violation added or removed, with row names as JSON. If there are too many to list, one row has
    their number and no names."""
    parts = [part for i, entry in enumerate(entries) for part in _events_of_rule(violations, i, entry)]
    table = pa.concat_tables(parts) if parts else VIOLATIONS.empty_table()
    return table.set_column(0, "sequence", pa.array(np.arange(table.num_rows)))


def _events_of_rule(violations: BatchViolations, number: int, entry: RuleEntry) -> Iterator[pa.Table]:
    delta = violations.by_rule[number]
    sides = ((REMOVED, delta.removed, delta.count_removed), (ADDED, delta.added, delta.count_added))
    for change, listed, count in sides:
        if count:
            t, s = _row_names(listed) if listed is not None else (pa.nulls(1, pa.string()), pa.nulls(1, pa.string()))
            texts = [pa.repeat(pa.scalar(x), len(t)) for x in (entry.id, entry.rule, entry.severity, change)]
            counts = pa.repeat(pa.scalar(1 if listed is not None else count, pa.int64()), len(t))
            yield pa.Table.from_arrays([pa.nulls(len(t), pa.int64()), *texts, t, s, counts], schema=VIOLATIONS)


def _row_names(listed: Listed) -> tuple[pa.Array, pa.Array]:
    table = listed.table.combine_chunks()
    t = names_as_json(table.column("t"))
    return t, names_as_json(table.column("s")) if "s" in table.column_names else pa.nulls(len(t), pa.string())


def names_as_json(names: pa.ChunkedArray) -> pa.Array:
    """Row names as JSON texts."""
    if pa.types.is_integer(names.type):
        return pc.cast(names, pa.string()).combine_chunks()
    return pa.array([json.dumps(name, default=str) for name in names.to_pylist()], pa.string())


def to_arrays(violations: pa.Table) -> Arrays:
    return {"violations": np.frombuffer(table_to_buffer(violations), np.uint8)}


def from_arrays(arrays: Arrays) -> pa.Table:
    return table_from_buffer(pa.py_buffer(np.ascontiguousarray(arrays["violations"])))
