"""Unary inclusion dependencies of a whole database, kept true to its rows (incremental S-INDD).

A change moves values between clusters, and so changes some entries of `missing` (see `counts.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget
from holdfast.discovery.ind.cells import Cells, Moves, Values
from holdfast.discovery.ind.counts import InclusionCounts
from holdfast.discovery.ind.filed_generator import FiledGenerator
from holdfast.discovery.ind.generator import Generator
from holdfast.discovery.ind.runs import Runs
from holdfast.discovery.ind.spread_generator import SpreadGenerator
from holdfast.discovery.search_options import MEMORY_BUDGET
from holdfast.executors.executor import Executor
from holdfast.kernels.generator import count_moves
from holdfast.kernels.grouping import number_values
from holdfast.rules.change import RuleChange
from holdfast.rules.masks import Numbers, has
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.identity import TEXT, Spaces, identities, shown_value
from holdfast.table.keys import table_for
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Column, Schema
from holdfast.table.text_form import text_form

_FEW_MOVES = 200_000  # with more moves of values, whole clusters are counted
_MANY = 10_000  # with more rows, equal values are merged first
_SAMPLE = 20_000  # values that estimate whether merging equal values is worth it
_ROWS = 1 << 20  # at a time, so that memory is reused while it is in the cache


class ValueStore(Protocol):
    """Keeps values and their clusters: in memory, in files, or in buckets on an executor."""

    @property
    def nbytes(self) -> int:
        """In the memory of this process."""

    def change(self, cells: Cells) -> Moves:
        """Adds and removes cells; removed cells come first."""

    def ranges(self) -> Iterator[Cells]:
        """All cells as consecutive runs, by the hash of the value."""

    def lacking(self, left: int, right: int, most: int) -> Values:
        """The first values that `left` has and `right` lacks."""


class Inclusions(InclusionCounts):
    """All inclusions between columns of the same kind group. `as_text`: compare values as plain text.

    `max_error`: the share of distinct left values that may be missing. A column without values is included in every
    column; it is listed separately, as vacuous. `only_inserts`: a promise that no cell is ever removed.
    """

    def __init__(
        self,
        schemas: Mapping[str, Schema],
        dictionary: TextDictionary,
        *,
        max_error: float = 0.0,
        as_text: bool = False,
        only_inserts: bool = False,
        memory_budget: int = MEMORY_BUDGET,
    ) -> None:
        super().__init__(schemas, max_error=max_error, as_text=as_text)
        self._dictionary, self._as_text = dictionary, as_text
        self._only_inserts, self._memory_budget = only_inserts, memory_budget
        self._runs: Runs | None = None
        self._of_table = {n: [i for i, a in enumerate(self.attributes) if a.table == n] for n in schemas}
        self._types = {name: self._by_type(numbers) for name, numbers in self._of_table.items()}
        self.values: ValueStore = self._in_memory()

    def _by_type(self, numbers: list[int]) -> list[tuple[Numbers, Numbers]]:
        """(attributes, positions of their columns) of a table, for each type of column."""
        types: dict[tuple[str, int], list[int]] = {}
        for number in numbers:
            column = self.attributes[number].column
            types.setdefault((column.kind.value, column.scale), []).append(number)
        return [(np.array(group), np.array([self.attributes[n].place for n in group])) for group in types.values()]

    # --- where values are kept -------------------------------------------------------------------------------

    def load(self, codes: Mapping[str, Codes], budget: Budget | None = None) -> None:
        """Adds the first rows of all tables, in memory, column by column. If the budget runs out, nothing is known.
        O(cells + clusters)."""
        generator, budget, done = self._in_memory(), budget or Budget(), 0
        total = sum(table_codes.size for table_codes in codes.values())
        for table, table_codes in codes.items():
            for cells in self._cells({table: RowChange.arrival(np.arange(table_codes.shape[1]), table_codes)}, 1):
                if budget.spent():
                    return
                self.count_clusters(generator.load(cells))
                done += int(cells.amounts.sum())
                budget.report("comparing values", done / total)
        self.values = generator

    def read(self, runs: Runs) -> None:
        """Reads the values from the runs of a store. O(cells + clusters)."""
        self._runs = runs
        self.values = filed = FiledGenerator(runs, self._in_memory(), budget=self._memory_budget)
        for gains in filed.gains():
            self.count_clusters(gains)

    def file(self, runs: Runs) -> None:
        """Writes all values to empty runs. From then on memory is a cache."""
        self._runs = runs
        runs.merge(Cells.joined(list(self.values.ranges())).to_arrays())
        if isinstance(self.values, Generator):
            self.values = FiledGenerator(runs, self.values, budget=self._memory_budget)

    def run_on(self, executor: Executor | None) -> None:
        """Moves all values into buckets on a remote executor, or back into this process."""
        before = self.values
        if executor is not None and executor.elsewhere:
            self.values = SpreadGenerator(executor, len(self.attributes))
            self.values.change(Cells.joined(list(before.ranges())))
        elif isinstance(before, SpreadGenerator):
            self.values = generator = self._in_memory()
            if self._runs is not None:
                self.values = FiledGenerator(self._runs, generator, budget=self._memory_budget)
            else:
                for cells in before.ranges():
                    generator.load(cells)

    def _in_memory(self) -> Generator:
        return Generator(len(self.attributes), only_inserts=self._only_inserts)

    # --- changes of rows -------------------------------------------------------------------------------------

    def change(self, changes: Mapping[str, RowChange]) -> tuple[Cells, Moves]:
        """Applies changes of rows. Returns the cells added and removed, and the values that changed their cluster.
        O(changed cells + clusters)."""
        cells = Cells.joined([cells for sign in (-1, 1) for cells in self._cells(changes, sign)])
        moves = self.values.change(cells)
        if len(moves.before) < _FEW_MOVES:
            count_moves(moves.masks, moves.before, moves.after, len(self.attributes), self.missing, self.distinct)
        else:
            self.count_clusters(moves.gains())
        return cells, moves

    def _cells(self, changes: Mapping[str, RowChange], sign: int) -> Iterator[Cells]:
        """The removed (-1) or added (1) cells; of an update only those that it changes."""
        for table, change in changes.items():
            before, after = change.updates
            if sign < 0:
                whole, part = change.removed_codes[:, : len(change.removed) - change.updated], before
            else:
                whole, part = change.added_codes[:, change.updated :], after
            rows = whole.shape[1] + part.shape[1]
            if rows:
                moved = before != after
                yield from (self._of_many if rows > _MANY else self._of_few)(table, whole, part, moved, sign)

    def _of_few(self, table: str, whole: Codes, part: Codes, moved: Flags, sign: int) -> Iterator[Cells]:
        """The cells of few rows: columns of one type together."""
        for columns, places in self._types[table]:
            codes = whole[places].reshape(-1)
            owners = np.repeat(columns, whole.shape[1])
            if part.shape[1]:
                codes = np.concatenate([codes, part[places][moved[places]]])
                owners = np.concatenate([owners, np.repeat(columns, moved[places].sum(axis=1))])
            filled = codes != NULL
            if not filled.all():
                codes, owners = codes[filled], owners[filled]
            if len(codes):
                column = self.attributes[columns[0]].column
                yield Cells.of(*self.identities(column, codes), owners, np.full(len(codes), sign))

    def _of_many(self, table: str, whole: Codes, part: Codes, moved: Flags, sign: int) -> Iterator[Cells]:
        """The cells of many rows: column by column, a slice of rows at a time, with equal values merged."""
        for number in self._of_table[table]:
            attribute = self.attributes[number]
            columns = whole[attribute.place], part[attribute.place][moved[attribute.place]]
            for values in (column[i : i + _ROWS] for column in columns for i in range(0, len(column), _ROWS)):
                codes, amounts = _summed(values)
                if len(codes):
                    owners = np.full(len(codes), number)
                    yield Cells.of(*self.identities(attribute.column, codes), owners, sign * amounts)

    def identities(self, column: Column, codes: Codes) -> tuple[Codes, Spaces]:
        """(number, space) of each value, which are equal iff the values are."""
        if not self._as_text:
            return identities(column, codes)
        distinct, inverse = np.unique(codes, return_inverse=True)
        texts = text_form(column, distinct, self._dictionary)
        return self._dictionary.encode(texts)[inverse.reshape(-1)], np.full(len(codes), TEXT, np.int16)

    # --- queries ---------------------------------------------------------------------------------------------

    def update(self, changes: Mapping[str, RowChange]) -> tuple[Cells, RuleChange]:
        """Applies changes of rows. Returns their cells, and the inclusions added and removed."""
        before = self.valid()
        cells, moves = self.change(changes)
        return cells, self.changed_since(before, lambda left, right: self.deciding_value(moves, left, right))

    def missing_values(self, left: int, right: int, most: int = 10) -> list[object]:
        """The first values that `left` has and `right` lacks. O(values)."""
        return self.shown(self.values.lacking(left, right, most))

    def deciding_value(self, moves: Moves, left: int, right: int) -> object:
        """The first value that these moves made missing on the right, or made no longer missing; None if there is
        none."""
        lacks = has(moves.masks, left) & ~has(moves.masks, right)
        deciding = np.flatnonzero(lacks[moves.before] != lacks[moves.after])
        shown = self.shown(moves.values.at(deciding).first(1))
        return shown[0] if shown else None

    def shown(self, values: Values) -> list[object]:
        """Values as users see them."""
        pairs = zip(values.numbers.tolist(), values.spaces.tolist(), strict=True)
        return [shown_value(number, space, self._dictionary) for number, space in pairs]


def _summed(codes: Codes) -> tuple[Codes, Numbers]:
    """Values without nulls and their counts. Equal values are merged if that at least halves them."""
    filled = codes != NULL
    codes = codes if filled.all() else codes[filled]
    sample = codes[:: max(1, len(codes) // _SAMPLE)]
    repeats = len(sample) - len(np.unique(sample))
    if 2 * len(codes) * repeats < len(sample) ** 2:  # fewer than expected if half of the values were repeats
        return codes, np.ones(len(codes), np.int64)
    numbers = np.empty(len(codes), np.int32)
    distinct = number_values(codes, table_for(len(codes)), numbers)
    if 2 * distinct >= len(codes):
        return codes, np.ones(len(codes), np.int64)
    first = np.empty(distinct, np.int64)
    first[numbers[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes[first], np.bincount(numbers, minlength=distinct)
