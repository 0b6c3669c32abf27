"""Tasks of Spark that search violating pairs with the kernels of the process: inside a tile, or against a change.

They run on workers, in `mapInArrow`, on cells c0, c1, ... of the columns that a rule reads. Names of rows come along in
the columns k0, k1, ... when pairs are listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.arrays import table_from_buffer
from holdfast.errors import ValueRefused
from holdfast.indexes.box import BoxIndex
from holdfast.indexes.index import violate_with_themselves
from holdfast.indexes.pairs import Ids, Pairs
from holdfast.indexes.plan import Group, compile_rule
from holdfast.rules.predicate import Cell, Compare, Constant, IsNull, Predicate
from holdfast.rules.rule import Dc, Rule, as_dc
from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.table.encode import encode_table
from holdfast.table.schema import Column, Schema
from holdfast.violations.detect import CheckedRule, rows_that_violate

T, S = 1, 2  # roles, as bits
COUNT = "violations decimal(38,0)"
CHANGE_COUNTS = "added decimal(38,0), removed decimal(38,0)"
_AT_ONCE = 4096  # rows whose pairs are in memory together
_COUNT_ONLY, _EVERYTHING = np.array([-1]), np.array([np.iinfo(np.int64).max])
_BEFORE = "\0before"  # of column names; no column of a user has it

Batches = Iterator[pa.RecordBatch]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PairSearch:
    """A pair rule of one table, compiled where it is needed."""

    rule: Rule
    schema: Schema
    nulls: str
    where: frozenset[Predicate] = frozenset()

    @cached_property
    def group(self) -> Group:
        compiled = compile_rule(self.rule, self.schema, self.nulls, self.where)
        group = Group(self.schema, compiled.t, compiled.s)
        group.add(compiled)
        return group

    @property
    def columns(self) -> list[int]:
        """The columns that the rule reads."""
        return self.group.columns

    def doubled(self) -> PairSearch:
        """The rule whose violations are the pairs that violate this one both before and after a change: each column
        stands twice, as it is after and as it was before."""
        columns = (*self.schema.columns, *(Column(c.name + _BEFORE, c.kind, c.scale) for c in self.schema.columns))
        predicates = as_dc(self.rule).written  # type: ignore[arg-type]
        both = Dc(predicates | frozenset(map(_before, predicates)))
        return PairSearch(both, Schema(columns), self.nulls, self.where | frozenset(map(_before, self.where)))


def _before(predicate: Predicate) -> Predicate:
    """The predicate about the columns as they were before."""

    def moved(cell: Cell) -> Cell:
        return Cell(cell.row, cell.column + _BEFORE)

    if isinstance(predicate, IsNull):
        return IsNull(moved(predicate.cell), predicate.negated)
    assert isinstance(predicate, Compare)  # formulas are about single rows
    right = predicate.right if isinstance(predicate.right, Constant) else moved(predicate.right)
    return Compare(moved(predicate.left), predicate.op, right)


def codes_of(schema: Schema, rows: pa.Table, dictionary: TextDictionary, prefix: str = "") -> Codes:
    """codes[column, row] of the cells that `rows` has; zeros for the others."""
    codes = np.zeros((len(schema), rows.num_rows), np.int64)
    given = [i for i in range(len(schema)) if f"{prefix}c{i}" in rows.column_names]
    if not given:
        return codes
    chosen = Schema(tuple(schema.columns[i] for i in given))
    cells = rows.select([f"{prefix}c{i}" for i in given]).rename_columns(list(chosen.names))
    encoded = encode_table(chosen, cells, dictionary)
    if encoded.problems:
        raise ValueRefused(str(encoded.problems[0]))
    codes[given] = encoded.codes
    return codes


def _tables(batches: Batches) -> Iterator[pa.Table]:
    for batch in batches:
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


def _number(count: int, *more: int) -> pa.RecordBatch:
    """One row of numbers, for `COUNT` or `CHANGE_COUNTS`."""
    names = ["violations"] if not more else ["added", "removed"]
    arrays = [pa.array([str(n)]).cast(pa.decimal128(38, 0)) for n in (count, *more)]
    return pa.record_batch(dict(zip(names, arrays, strict=True)))


def _named_pairs(pairs: Pairs, names: pa.Table) -> pa.RecordBatch:
    """The names of pairs of positions: t0, t1, ..., s0, s1, ..."""
    assert pairs.s is not None
    columns = {}
    for side, rows in (("t", pairs.t), ("s", pairs.s)):
        for name in names.column_names:
            values = names.column(name).take(pa.array(rows)).combine_chunks()
            columns[side + name[1:]] = (
                pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
            )
    return pa.record_batch(columns)


def _names(rows: pa.Table) -> pa.Table:
    return rows.select([name for name in rows.column_names if name.startswith("k")])


# --- inside tiles ---------------------------------------------------------------------------------------------


def _by_tile(batches: Batches) -> Iterator[pa.Table]:
    """The rows of each tile. All rows of a partition are in memory; the size of a tile is bounded."""
    some = list(batches)
    table = pa.Table.from_batches(some) if some else None
    if table is None or not table.num_rows:
        return
    tiles = table.column("tile").to_numpy()
    table = table.take(pa.array(np.argsort(tiles, kind="stable")))
    starts = np.flatnonzero(np.diff(np.sort(tiles), prepend=tiles.min() - 1))
    for start, stop in zip(starts, np.append(starts[1:], len(tiles)), strict=True):
        yield table.slice(int(start), int(stop - start))


@dataclass(frozen=True)
class TileTask:
    """Counts the violating pairs in the tiles of a task, or lists them."""

    search: PairSearch
    lists: bool

    def __call__(self, batches: Batches) -> Batches:
        for rows in _by_tile(batches):
            yield from self._of_tile(rows)

    def _of_tile(self, rows: pa.Table) -> Batches:
        group, dictionary = self.search.group, TextDictionary()
        codes = codes_of(self.search.schema, rows, dictionary)
        role, ids = rows.column("role").to_numpy(), np.unique(rows.column("id").to_numpy(), return_inverse=True)[1]
        as_t, as_s = np.flatnonzero(role & T), np.flatnonzero(role & S)
        index = BoxIndex(group, dictionary)
        index.hold(ids[as_s], np.ascontiguousarray(codes[:, as_s]), np.ones((2, len(as_s)), np.uint8))
        if self.lists:
            yield from self._listed(index, rows, codes, ids, as_t)
            return
        t_codes = np.ascontiguousarray(codes[:, as_t])
        themselves = violate_with_themselves(group, 0, t_codes, dictionary) & np.isin(ids[as_t], ids[as_s])
        _, counts = index.found(ids[as_t], t_codes, 0, emit=False)
        yield _number(int(counts.sum() - themselves.sum()))

    def _listed(self, index: BoxIndex, rows: pa.Table, codes: Codes, ids: Ids, as_t: Positions) -> Batches:
        names, position = _names(rows), np.zeros(int(ids.max()) + 1, np.int64)
        position[ids] = np.arange(len(ids))  # any copy of a row has its name
        for start in range(0, len(as_t), _AT_ONCE):
            some = as_t[start : start + _AT_ONCE]
            pairs, _ = index.found(ids[some], np.ascontiguousarray(codes[:, some]), 0)
            assert pairs.s is not None
            kept = pairs.t != pairs.s
            if kept.any():
                yield _named_pairs(Pairs(position[pairs.t[kept]], position[pairs.s[kept]]), names)


# --- against a change -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moved:
    """The rows that a batch changes, as this rule sees them: cells before (old_c0, ...) and after (new_c0, ...), and
    whether there is a row before and after (existed, remains). It is part of the task, as Arrow bytes."""

    search: PairSearch
    rows: bytes

    @cached_property
    def table(self) -> pa.Table:
        return table_from_buffer(pa.py_buffer(self.rows))


class _Meeting:
    """The changed rows in three indexes: as they are after the batch, as they were before, and as both."""

    def __init__(self, moved: Moved) -> None:
        table, search = moved.table, moved.search
        self.names, self.dictionary, self._search = _names(table), TextDictionary(), search
        old, new = (codes_of(search.schema, table, self.dictionary, prefix) for prefix in ("old_", "new_"))
        existed, remains = (table.column(name).to_numpy(zero_copy_only=False) for name in ("existed", "remains"))
        self.count, double = len(existed), search.doubled()
        images = ((search, new, remains), (search, old, existed), (double, np.vstack([new, old]), existed & remains))
        self._images = [(s, codes[:, there], np.flatnonzero(there)) for s, codes, there in images]
        self._indexes = [BoxIndex(s.group, self.dictionary) for s, _, _ in self._images]
        self.texts = len(self.dictionary)

    def hold(self) -> _Meeting:
        """Lets the indexes hold the changed rows, to be met by others."""
        for index, (_, codes, ids) in zip(self._indexes, self._images, strict=True):
            index.hold(ids, np.ascontiguousarray(codes))
        return self

    def among_themselves(self, limits: Positions) -> list[tuple[Pairs, int]]:
        """The pairs of changed rows, and how many: after, before, both."""
        found = []
        for index, (_, codes, ids) in zip(self._indexes, self._images, strict=True):
            pairs, _ = index.enter(ids, np.ascontiguousarray(codes), limits)
            found.append((pairs[0], int(index.counts[0])))
        return found

    def with_others(self, rows: pa.Table, limits: Positions) -> list[tuple[Pairs, int]]:
        """The pairs of a changed row and one of these other rows, which change too if they have cells before and after.
        Their ids follow those of the changed rows."""
        schema, everything = self._search.schema, np.ones(rows.num_rows, bool)
        if "existed" in rows.column_names:
            old, new = (codes_of(schema, rows, self.dictionary, prefix) for prefix in ("old_", "new_"))
            existed, remains = (rows.column(n).to_numpy(zero_copy_only=False) for n in ("existed", "remains"))
        else:
            old = new = codes_of(schema, rows, self.dictionary)
            existed = remains = everything
        images, found = ((new, remains), (old, existed), (np.vstack([new, old]), existed & remains)), []
        for index, (codes, there) in zip(self._indexes, images, strict=True):
            ids = self.count + np.flatnonzero(there)
            pairs, _, counts = index.meet(ids, np.ascontiguousarray(codes[:, there]), limits)
            found.append((pairs[0], int(counts[0])))
        self.dictionary.truncate(self.texts)
        return found


@dataclass(frozen=True)
class MeetTask:
    """Counts what a change does to the violations, or lists the pairs that it adds or removes.

    It meets the rows of the task: rows that do not change (cells c0, ...), or other changed rows (old_c0, ...). A pair
    that violates the rule before and after is neither added nor removed. `lists`: "added", "removed", or None for
    counts. `alone`: the pairs among the changed rows; else those with the rows of the task.
    """

    moved: Moved
    lists: str | None
    alone: bool = False

    def __call__(self, batches: Batches) -> Batches:
        limits = _EVERYTHING if self.lists else _COUNT_ONLY
        if self.alone:
            meeting = _Meeting(self.moved)
            for rows in _tables(batches):  # a single row of a range
                yield from self._told(meeting.among_themselves(limits), rows, meeting)
            return
        meeting = _Meeting(self.moved).hold()
        for rows in _tables(batches):
            step = _AT_ONCE if self.lists else rows.num_rows
            for start in range(0, rows.num_rows, step):
                part = rows.slice(start, step)
                yield from self._told(meeting.with_others(part, limits), part, meeting)

    def _told(self, found: list[tuple[Pairs, int]], rows: pa.Table, meeting: _Meeting) -> Batches:
        (after, added), (before, removed), (both, kept) = found
        if self.lists is None:
            yield _number(added - kept, removed - kept)
            return
        pairs = (after if self.lists == "added" else before).without(both)
        if len(pairs):
            names = meeting.names if self.alone else pa.concat_tables([meeting.names, _names(rows)])
            yield _named_pairs(pairs, names)


# --- rows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowTask:
    """Adds whether each row violates a rule about single rows, for comparisons that Spark cannot do exactly."""

    item: CheckedRule
    schema: Schema
    prefixes: tuple[str, ...] = ("",)

    def __call__(self, batches: Batches) -> Batches:
        for rows in _tables(batches):
            for prefix in self.prefixes:
                dictionary = TextDictionary()
                codes = codes_of(self.schema, rows, dictionary, prefix)
                violates = rows_that_violate(self.item, self.schema, codes, dictionary)
                rows = rows.append_column(f"{prefix}violates", pa.array(violates))
            yield from rows.to_batches()
