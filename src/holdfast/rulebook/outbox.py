"""What a batch tells the world, as one Arrow table that the store keeps until every sink has it."""

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


def violation_events(found: BatchViolations, entries: Sequence[RuleEntry]) -> pa.Table:
    """The violations that came and went, a row each: rows by name, as JSON. Where there were too many to list, one row
    has their number and no names."""
    parts = [part for i, entry in enumerate(entries) for part in _of_rule(found, i, entry)]
    table = pa.concat_tables(parts) if parts else VIOLATIONS.empty_table()
    return table.set_column(0, "sequence", pa.array(np.arange(table.num_rows)))


def _of_rule(found: BatchViolations, number: int, entry: RuleEntry) -> Iterator[pa.Table]:
    mine = found.by_rule[number]
    for change, listed, count in ((REMOVED, mine.removed, mine.count_removed), (ADDED, mine.added, mine.count_added)):
        if count:
            t, s = _named(listed) if listed is not None else (pa.nulls(1, pa.string()), pa.nulls(1, pa.string()))
            texts = [pa.repeat(pa.scalar(x), len(t)) for x in (entry.id, entry.rule, entry.severity, change)]
            counts = pa.repeat(pa.scalar(1 if listed is not None else count, pa.int64()), len(t))
            yield pa.Table.from_arrays([pa.nulls(len(t), pa.int64()), *texts, t, s, counts], schema=VIOLATIONS)


def _named(listed: Listed) -> tuple[pa.Array, pa.Array]:
    table = listed.table.combine_chunks()
    t = names_as_json(table.column("t"))
    return t, names_as_json(table.column("s")) if "s" in table.column_names else pa.nulls(len(t), pa.string())


def names_as_json(names: pa.ChunkedArray) -> pa.Array:
    """What rows are called, as JSON texts."""
    if pa.types.is_integer(names.type):
        return pc.cast(names, pa.string()).combine_chunks()
    return pa.array([json.dumps(name, default=str) for name in names.to_pylist()], pa.string())


def to_arrays(violations: pa.Table) -> Arrays:
    return {"violations": np.frombuffer(table_to_buffer(violations), np.uint8)}


def from_arrays(arrays: Arrays) -> pa.Table:
    return table_from_buffer(pa.py_buffer(np.ascontiguousarray(arrays["violations"])))
