"""Violations that are known: they are recorded once, and only others alert.

A Parquet file with the rule's id and the names of the rows as JSON, as sinks are told them. A known violation that went
and comes again is still known.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.errors import HoldfastError
from holdfast.outbox import names_as_json
from holdfast.rulebook import Rulebook

FILE = "baseline.parquet"
MOST = 1_000_000  # of one rule
_SCHEMA = pa.schema([(name, pa.string()) for name in ("rule_id", "t", "s")])


class Baseline:
    """The known violations, by rule.

    >>> Baseline(_SCHEMA.empty_table()).count("fd-1")
    0
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @classmethod
    def load(cls, path: Path) -> Baseline:
        return cls(pq.read_table(path) if path.exists() else _SCHEMA.empty_table())

    @classmethod
    def of(cls, book: Rulebook) -> Baseline:
        return cls(_SCHEMA.empty_table()) if book.path is None else cls.load(book.path / FILE)

    def save(self, path: Path) -> None:
        """As a whole or not at all."""
        temporary = path.with_name(f".{path.name}.new")
        pq.write_table(self._table, temporary)
        temporary.replace(path)

    def count(self, rule_id: str) -> int:
        return int(pc.sum(pc.equal(self._table["rule_id"], rule_id)).as_py() or 0)

    def record(self, book: Rulebook, rules: Iterable[str]) -> Baseline:
        """With the violations that these rules have now, instead of what was known of them."""
        table = self._table
        for rule in rules:
            entry = book.entry(rule)
            if book.count_violations(entry.id) > MOST:
                raise HoldfastError(f"`{entry.rule}` has more than {MOST:,} violations; a tolerance fits it better")
            table = table.filter(pc.not_equal(table["rule_id"], entry.id))
            table = pa.concat_tables([table, _named(entry.id, book.violations(entry.id))])
        return Baseline(table.combine_chunks())

    def new_violations(self, book: Rulebook, rule_id: str, limit: int) -> pa.Table:
        """Of the violations that a rule has now, the first that are not known, with the names of rows as JSON."""
        made = _SCHEMA.empty_table()
        for part in book.violation_parts(rule_id):
            made = pa.concat_tables([made, self.new(_named(rule_id, part))])
            if len(made) >= limit:
                break
        return made.slice(0, limit)

    def new(self, events: pa.Table) -> pa.Table:
        """Of events of one rule (rule_id, t, s as JSON), those that are not known."""
        if not len(self._table) or not len(events):
            return events
        mine = events.select(["rule_id", "t", "s"]).append_column("place", pa.array(range(len(events))))
        known = self._table.append_column("known", pa.repeat(pa.scalar(True), len(self._table)))
        keys = ["rule_id", "t", "s"]
        filled = [t.set_column(2, "s", pc.fill_null(t["s"], "")) for t in (mine, known)]
        joined = filled[0].join(filled[1], keys, join_type="left anti").sort_by("place")
        return events.take(joined["place"])


def _named(rule_id: str, violations: pa.Table) -> pa.Table:
    t = names_as_json(violations["t"])
    s = names_as_json(violations["s"]) if "s" in violations.column_names else pa.nulls(len(t), pa.string())
    return pa.table({"rule_id": pa.repeat(pa.scalar(rule_id), len(t)), "t": t, "s": s}, schema=_SCHEMA)
