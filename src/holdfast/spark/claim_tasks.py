"""Tasks of Spark that search pairs of rows that refute claims, with the witness search of the process.

A claim says that no pair of rows satisfies a conjunction of weak atoms. A task looks at the rows that it gets: those of
a partition, those that share values, or those of two blocks. What it yields are the number of a claim and the cells of
both rows: at most one pair for each claim and each search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from holdfast.arrays import Flags, table_from_buffer
from holdfast.discovery.budget import Budget
from holdfast.discovery.witness.all_pairs import AllPairs
from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.discovery.witness.search import Witnesses, WitnessSearch
from holdfast.discovery.witness.sorted_search import SortedSearch
from holdfast.rules.masks import Masks, Numbers, among
from holdfast.spark.pair_tasks import Batches, codes_of
from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.table.row_change import RowChange

if TYPE_CHECKING:
    from holdfast.table.schema import Schema

ROWS_AT_ONCE = 500_000  # of a partition that are searched together


@dataclass(frozen=True)
class AskedClaims:
    """Claims, and the seconds that a search for pairs may take (None: any)."""

    space: PredicateSpace
    masks: Masks
    seconds: float | None = None

    @property
    def schema(self) -> Schema:
        return self.space.schema

    def only(self, numbers: Flags | Numbers) -> AskedClaims:
        return AskedClaims(self.space, self.masks[numbers], self.seconds)

    def refutations(self, codes: Codes, lead: int | None = None) -> Iterator[tuple[int, int, int]]:
        """(claim, t, s) for each claim that two rows refute, by number and position. With `lead`, one of the rows is
        among the first `lead`; no pair of the others satisfies a claim."""
        found, rest = Witnesses.nothing(self.space), self.masks
        for search in self._searches(codes, lead):
            if len(rest):
                more = search.search(rest, self._budget, new=lead is not None)
                found, rest = found.joined(more), rest[~among(rest, more.settled)]
        lacked = self.space.lacks(found.clues)
        for number, claim in enumerate(self.masks):
            satisfying = np.flatnonzero(~(lacked & claim).any(axis=1))
            if len(satisfying):
                t, s = found.pairs[satisfying[number % len(satisfying)]].tolist()
                yield number, t, s

    @property
    def _budget(self) -> Budget:
        return Budget(self.seconds)

    def _searches(self, codes: Codes, lead: int | None) -> list[WitnessSearch]:
        ids, first = np.arange(codes.shape[1]), codes.shape[1] if lead is None else lead
        change = RowChange(ids[:0], codes[:, :0], ids[:first], codes[:, :first], ids[first:], codes[:, first:])
        every = AllPairs(self.space, change, self._budget)
        return [SortedSearch(self.space, ids, codes, first), every]


@dataclass(frozen=True)
class RowsTask:
    """Searches among the rows of a partition, some at a time; with `together`, among all of them."""

    claims: AskedClaims
    together: bool = False

    def __call__(self, batches: Batches) -> Batches:
        for rows in some_at_a_time(batches, None if self.together else ROWS_AT_ONCE):
            yield from self.found(rows)

    def found(self, rows: pa.Table) -> Batches:
        if rows.num_rows > 1:
            codes = codes_of(self.claims.schema, rows, TextDictionary())
            yield from _named(rows, self.claims.refutations(codes))


@dataclass(frozen=True)
class ClaimTileTask:
    """Searches among the rows of a tile. `asked[tile, claim]`: whether the claim is searched there."""

    claims: AskedClaims
    asked: Flags

    def __call__(self, key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        chosen = np.flatnonzero(self.asked[key[0].as_py()])
        rows = rows.drop_columns(["tile"])
        found = pa.Table.from_batches(RowsTask(self.claims.only(chosen)).found(rows), pair_schema(rows.schema))
        numbers = pa.array(chosen[found.column("claim").to_numpy()], pa.int32())
        return found.set_column(0, "claim", numbers)


@dataclass(frozen=True)
class FollowTask:
    """Searches among pairs of an inserted row and a row of the partition; and, with `alone`, among the inserted rows,
    for each row of the partition once. `inserted`: their cells, as an Arrow file."""

    claims: AskedClaims
    inserted: bytes
    alone: bool = False

    def __call__(self, batches: Batches) -> Batches:
        inserted, dictionary = table_from_buffer(pa.py_buffer(self.inserted)), TextDictionary()
        first = codes_of(self.claims.schema, inserted, dictionary)
        texts = len(dictionary)
        for rows in some_at_a_time(batches, ROWS_AT_ONCE):
            if self.alone:
                yield from _named(inserted, self.claims.refutations(first))
                continue
            codes = np.concatenate([first, codes_of(self.claims.schema, rows, dictionary)], axis=1)
            both = pa.concat_tables([inserted, rows.select(inserted.column_names).cast(inserted.schema)])
            yield from _named(both, self.claims.refutations(codes, inserted.num_rows))
            dictionary.truncate(texts)


def some_at_a_time(batches: Batches, most: int | None) -> Iterator[pa.Table]:
    """The rows of batches as tables of about `most` rows; None: as one table."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if most is not None and sum(b.num_rows for b in waiting) >= most:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def pair_schema(cells: pa.Schema) -> pa.Schema:
    """The columns of what tasks yield: the claim, and the cells of both rows."""
    sides = [pa.field(f"{side}_{field.name}", field.type) for side in "ts" for field in cells]
    return pa.schema([pa.field("claim", pa.int32()), *sides])


def _named(rows: pa.Table, pairs: Iterator[tuple[int, int, int]]) -> Batches:
    found = np.array(list(pairs), np.int64).reshape(-1, 3)
    if not len(found):
        return
    columns = [pa.array(found[:, 0], pa.int32())]
    for places in found[:, 1:].T:
        columns += [column.combine_chunks() for column in rows.take(pa.array(places)).columns]
    yield from pa.Table.from_arrays(columns, schema=pair_schema(rows.schema)).to_batches()
