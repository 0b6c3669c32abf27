"""The baseline: recorded violations that do not alert.

It is a Parquet file with the id of the rule and the names of the rows as JSON, as sinks get them. A recorded violation
that is removed and added again is still in the baseline.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.errors import HoldfastError, StoreError
from holdfast.rulebook import Rulebook
from holdfast.rulebook.outbox import names_as_json
from holdfast.whole_file import replace_whole

FILE = "baseline.parquet"
MOST = 1_000_000  # violations of one rule
_DIGEST = b"holdfast.sha256"  # in the metadata of the file
_SCHEMA = pa.schema([(name, pa.string()) for name in ("rule_id", "t", "s")])


class Baseline:
    """The recorded violations of each rule.

    >>> Baseline(_SCHEMA.empty_table()).count("fd-1")
    0
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @classmethod
    def load(cls, path: Path) -> Baseline:
        """Reads a baseline; an empty one if there is no file. A damaged file is an error."""
        if not path.exists():
            return cls(_SCHEMA.empty_table())
        try:
            table = pq.read_table(pa.BufferReader(path.read_bytes()))
            digest = (table.schema.metadata or {}).get(_DIGEST)
            table = table.replace_schema_metadata(None).select(_SCHEMA.names).cast(_SCHEMA)
        except OSError as error:
            if error.errno is not None:
                raise StoreError(f"{path} cannot be read: {error.strerror}") from error
            raise _damaged(path) from error  # an error of Arrow, not of the system
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise _damaged(path) from error
        if digest is not None and digest != _digest(table):  # files of version 0.1 have none
            raise _damaged(path)
        return cls(table)

    @classmethod
    def of(cls, book: Rulebook) -> Baseline:
        return cls(_SCHEMA.empty_table()) if book.path is None else cls.load(book.path / FILE)

    def save(self, path: Path) -> None:
        """Writes the file atomically and durably, with a checksum."""
        out = pa.BufferOutputStream()
        pq.write_table(self._table.replace_schema_metadata({_DIGEST: _digest(self._table)}), out)
        replace_whole(path, out.getvalue().to_pybytes())

    def count(self, rule_id: str) -> int:
        """The number of recorded violations of a rule."""
        return int(pc.sum(pc.equal(self._table["rule_id"], rule_id)).as_py() or 0)

    def record(self, book: Rulebook, rules: Iterable[str]) -> Baseline:
        """A baseline with the current violations of these rules instead of the recorded ones."""
        table = self._table
        for rule in rules:
            entry = book.entry(rule)
            if book.count_violations(entry.id) > MOST:
                raise HoldfastError(f"`{entry.rule}` has more than {MOST:,} violations; a tolerance fits it better")
            table = table.filter(pc.not_equal(table["rule_id"], entry.id))
            table = pa.concat_tables([table, _named(entry.id, book.violations(entry.id))])
        return Baseline(table.combine_chunks())

    def new_violations(self, book: Rulebook, rule_id: str, limit: int) -> pa.Table:
        """The first current violations of a rule that are not recorded, with the names of rows as JSON."""
        new = _SCHEMA.empty_table()
        for part in book.violation_parts(rule_id):
            new = pa.concat_tables([new, self.new(_named(rule_id, part))])
            if len(new) >= limit:
                break
        return new.slice(0, limit)

    def new(self, events: pa.Table) -> pa.Table:
        """The events (rule_id, t, s as JSON) that are not recorded."""
        if not len(self._table) or not len(events):
            return events
        keys = ["rule_id", "t", "s"]
        numbered = events.select(keys).append_column("place", pa.array(range(len(events))))
        recorded = self._table.append_column("known", pa.repeat(pa.scalar(True), len(self._table)))
        filled = [t.set_column(2, "s", pc.fill_null(t["s"], "")) for t in (numbered, recorded)]
        joined = filled[0].join(filled[1], keys, join_type="left anti").sort_by("place")
        return events.take(joined["place"])


def _digest(table: pa.Table) -> bytes:
    """A checksum of the cells that does not depend on the chunks."""
    parts = []
    for column in table.columns:
        lengths, texts = hashlib.sha256(), hashlib.sha256()
        for chunk in column.chunks:
            lengths.update(pc.fill_null(pc.binary_length(chunk), -1).cast(pa.int64()).to_numpy(zero_copy_only=False))
            filled = pc.fill_null(chunk, "")
            ends = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset : filled.offset + len(filled) + 1]
            if filled.buffers()[2] is not None and len(ends):
                texts.update(filled.buffers()[2][int(ends[0]) : int(ends[-1])])
        parts += [lengths.hexdigest(), texts.hexdigest()]
    return hashlib.sha256("".join(parts).encode()).hexdigest().encode()


def _damaged(path: Path) -> StoreError:
    advice = "restore it from a backup, or remove it and record it again: holdfast rules baseline DIR"
    return StoreError(f"{path} is damaged; {advice}")


def _named(rule_id: str, violations: pa.Table) -> pa.Table:
    t = names_as_json(violations["t"])
    s = names_as_json(violations["s"]) if "s" in violations.column_names else pa.nulls(len(t), pa.string())
    return pa.table({"rule_id": pa.repeat(pa.scalar(rule_id), len(t)), "t": t, "s": s}, schema=_SCHEMA)
