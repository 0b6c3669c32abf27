"""Tasks that find the violations in a tile, and count or list them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from holdfast.arrays import table_to_buffer
from holdfast.indexes.box import BoxIndex
from holdfast.indexes.index import violate_with_themselves
from holdfast.pipeline.whole.parts import Places, Table, codes_of, listed_rows, names_of, read_part
from holdfast.pipeline.whole.send import IndJob, PairJob, numbers_in
from holdfast.pipeline.whole.tiles import S, T
from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.violations.detect import CheckedRule, rows_that_violate
from holdfast.violations.inclusion_index import InclusionIndex

ANSWER = "rule int, count long, pairs binary"


def _answer(rule: int, count: int, pairs: pa.Table | None) -> pa.RecordBatch:
    data = table_to_buffer(pairs).to_pybytes() if pairs is not None and pairs.num_rows else None
    return pa.record_batch(
        {
            "rule": pa.array([rule], pa.int32()),
            "count": pa.array([count], pa.int64()),
            "pairs": pa.array([data], pa.binary()),
        }
    )


def _by_tile(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of each tile, sorted by id. All rows of a partition are in memory; the size of a tile is bounded."""
    some = list(batches)
    table = pa.Table.from_batches(some) if some else None
    if table is None or not table.num_rows:
        return
    order = np.lexsort((table.column("id").to_numpy(), table.column("tile").to_numpy()))
    table = table.take(pa.array(order))
    tiles = table.column("tile").to_numpy()
    starts = np.flatnonzero(np.append(True, np.diff(tiles) != 0))
    for start, stop in zip(starts, np.append(starts[1:], len(tiles)), strict=True):
        yield table.slice(int(start), int(stop - start))


def tile_task(
    job: PairJob, rule: int | None, limit: int | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Counts the violations of all rules of a group, or lists those of one rule, in the tiles of this task."""
    schema, group = job.table.schema, job.group
    for rows in _by_tile(batches):
        sent = [name for name in rows.column_names if name.startswith("c")]
        named = rows.select(sent).rename_columns([schema.names[int(name[1:])] for name in sent])
        dictionary = TextDictionary()
        codes, ids = codes_of(schema, named, dictionary), rows.column("id").to_numpy().copy()
        role = rows.column("role").to_numpy()
        as_t, as_s = np.flatnonzero(role & T), np.flatnonzero(role & S)
        index = BoxIndex(group, dictionary, tested=True)
        index.hold(ids[as_s], np.ascontiguousarray(codes[:, as_s]), np.ones((2, len(as_s)), np.uint8))
        t_codes, with_itself = np.ascontiguousarray(codes[:, as_t]), (role[as_t] & S) != 0
        for number in range(len(group.rules)) if rule is None else (rule,):
            themselves = violate_with_themselves(group, number, t_codes, dictionary) & with_itself
            if limit is None:
                _, counts = index.found(ids[as_t], t_codes, number, emit=False)
                yield _answer(number, int(counts.sum() - themselves.sum()), None)
            else:
                yield _answer(
                    number, 0, _first_pairs(index, ids[as_t], t_codes, number, limit, job.table, named, ids, dictionary)
                )


def _first_pairs(
    index: BoxIndex, ids: Places, codes: Codes, rule: int, limit: int, table: Table, rows: pa.Table, all_ids: Places,
    dictionary: TextDictionary,
) -> pa.Table:  # fmt: skip
    """The first pairs of a tile, sorted by t, then s, with the names of their rows."""
    t: list[Places] = []
    s: list[Places] = []
    have = 0
    for start in range(0, len(ids), 4096):
        pairs, _ = index.found(ids[start : start + 4096], np.ascontiguousarray(codes[:, start : start + 4096]), rule)
        assert pairs.s is not None
        kept = pairs.t != pairs.s
        order = np.lexsort((pairs.s[kept], pairs.t[kept]))[: limit - have]
        t.append(pairs.t[kept][order])
        s.append(pairs.s[kept][order])
        have += len(order)
        if have >= limit:
            break
    columns = {"t_id": np.concatenate([np.zeros(0, np.int64), *t]), "s_id": np.concatenate([np.zeros(0, np.int64), *s])}
    names = {name[0]: names_of(table, rows, all_ids, found, dictionary) for name, found in columns.items()}
    return pa.table({**{name: pa.array(found) for name, found in columns.items()}, **names})


def single_task(
    table: Table, item: CheckedRule, limit: int | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Counts or lists the violations of a one-row rule in the parts of this task."""
    for number in numbers_in(batches):
        for ids, rows in read_part(table, number):
            dictionary = TextDictionary()
            codes = codes_of(table.schema, rows, dictionary)
            bad = rows_that_violate(item, table.schema, codes, dictionary)
            listed = None if limit is None else listed_rows(table, rows, ids, ids[bad][:limit], dictionary)
            yield _answer(0, int(bad.sum()), listed)


def inclusion_task(job: IndJob, limit: int | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Counts or lists the violations of an inclusion in the tiles of this task."""
    left, right = job.tables["left"], job.tables["right"]
    schemas = {job.rule.left_table: left.schema, job.rule.right_table: right.schema}
    for rows in _by_tile(batches):
        dictionary = TextDictionary()
        role = rows.column("role").to_numpy()
        sides = {}
        for name, table, mine in (("left", left, role == T), ("right", right, role == S)):
            chosen = rows.filter(pa.array(mine)).select([f"{name}{i}" for i in range(len(table.schema))])
            sides[name] = chosen.rename_columns(list(table.schema.names))
        ids = rows.column("id").to_numpy()[role == T].copy()
        dense = np.arange(len(ids))
        left_codes, right_codes = (
            codes_of(t.schema, sides[n], dictionary) for n, t in (("left", left), ("right", right))
        )
        index = InclusionIndex(job.rule, schemas, job.checked.where, dictionary)
        none = np.zeros(0, np.int64)
        missing, _ = index.change(none, dense, left_codes, right_codes[:, :0], right_codes)
        found = np.sort(ids[missing.t])
        listed = None if limit is None else listed_rows(left, sides["left"], ids, found[:limit], dictionary)
        yield _answer(0, len(found), listed)
