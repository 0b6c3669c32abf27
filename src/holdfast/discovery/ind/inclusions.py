"""Unary inclusion dependencies of a whole database, kept true to its rows (incremental S-INDD).

`missing[A, B]` is the number of distinct values of A that are not in B: the sum of the sizes of all clusters with A and
without B. A change moves values between clusters, and so changes some entries. A is included in B iff the entry is zero
(Lemma 4.2), and nearly included if it is small. Queries never touch a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget
from holdfast.discovery.ind.cells import Cells, Gains, Moves, Values
from holdfast.discovery.ind.filed_generator import MEMORY_BUDGET, FiledGenerator
from holdfast.discovery.ind.generator import Generator
from holdfast.discovery.ind.runs import Runs
from holdfast.discovery.ind.spread_generator import SpreadGenerator
from holdfast.discovery.width import require_comparable
from holdfast.executors.executor import Executor
from holdfast.kernels.generator import count_moves
from holdfast.kernels.grouping import number_values
from holdfast.rules.change import RuleChange
from holdfast.rules.limit import most_within
from holdfast.rules.masks import Numbers, has, unpack
from holdfast.rules.names import quoted
from holdfast.rules.rule import Ind, Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.identity import TEXT, Spaces, identities, shown_value
from holdfast.table.keys import table_for
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Column, Schema
from holdfast.table.text_form import text_form

Pair = tuple[int, int]  # an attribute, and one that includes it
_AT_ONCE = 2048  # clusters that are summed at once
_FEW_MOVES = 200_000  # with more moves of values, whole clusters are counted
_MANY = 10_000  # with more rows, equal values are merged first
_SAMPLE = 20_000  # values that estimate whether merging equal values is worth it
_ROWS = 1 << 20  # at a time, so that memory is reused while it is in the cache


@dataclass(frozen=True)
class Attribute:
    """A column of a table, by position."""

    table: str
    place: int
    column: Column


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


class Inclusions:
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
        self._dictionary, self._max_error, self._as_text = dictionary, max_error, as_text
        self._only_inserts, self._memory_budget = only_inserts, memory_budget
        self._runs: Runs | None = None
        self.attributes = [
            Attribute(name, place, column)
            for name, schema in schemas.items()
            for place, column in enumerate(schema.columns)
        ]
        require_comparable(len(self.attributes))
        self._of_table = {n: [i for i, a in enumerate(self.attributes) if a.table == n] for n in schemas}
        self._types = {name: self._by_type(numbers) for name, numbers in self._of_table.items()}
        count = len(self.attributes)
        self.values: ValueStore = self._in_memory()
        self.missing, self.distinct = np.zeros((count, count), np.int64), np.zeros(count, np.int64)
        groups = np.array([group_number(a.column, as_text) for a in self.attributes], np.int64)
        self.comparable = (groups[:, None] == groups[None, :]) & ~np.eye(count, dtype=np.bool_)

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
                self._count(generator.load(cells))
                done += int(cells.amounts.sum())
                budget.report("comparing values", done / total)
        self.values = generator

    def read(self, runs: Runs) -> None:
        """Reads the values from the runs of a store. O(cells + clusters)."""
        self._runs = runs
        self.values = filed = FiledGenerator(runs, self._in_memory(), budget=self._memory_budget)
        for gains in filed.gains():
            self._count(gains)

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
            self._count(moves.gains())
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

    def _count(self, gains: Gains) -> None:
        """Adds changed sizes of clusters to `missing` and `distinct`. Sums are exact, far below 2^53."""
        for first in range(0, len(gains.masks), _AT_ONCE):
            bits = unpack(gains.masks[first : first + _AT_ONCE], len(self.attributes)).astype(np.float64)
            weighted = bits * gains.counts[first : first + _AT_ONCE].astype(np.float64)[:, None]
            self.missing += np.rint(weighted.T @ (1.0 - bits)).astype(np.int64)
            self.distinct += np.rint(weighted.sum(axis=0)).astype(np.int64)

    # --- queries ---------------------------------------------------------------------------------------------

    def valid(self) -> npt.NDArray[np.bool_]:
        """[A, B]: whether A, which has a value, is included in B within `max_error`."""
        near = self.missing == 0
        if self._max_error:
            near = self.missing <= self.most_missing(self._max_error)[:, None]
        return self._comparable(near)

    def most_missing(self, share: float) -> Numbers:
        """[A]: how many distinct values of A may be missing, for this share."""
        return np.array([most_within(share, count) for count in self.distinct.tolist()], np.int64)

    def exact_pairs(self) -> list[Pair]:
        """The pairs of attributes of which the second includes the first exactly."""
        return [(a, b) for a, b in np.argwhere(self._comparable(self.missing == 0)).tolist()]

    def _comparable(self, near: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Of pairs [A, B], those that can be compared and of which A has a value."""
        return np.asarray(near & (self.distinct > 0)[:, None] & self.comparable)

    def vacuous(self) -> tuple[str, ...]:
        """The columns without values, as text."""
        empty = [a for a, count in zip(self.attributes, self.distinct.tolist(), strict=True) if not count]
        return tuple(f"{quoted(a.table)}.{quoted(a.column.name)}" for a in empty)

    def update(self, changes: Mapping[str, RowChange]) -> tuple[Cells, RuleChange]:
        """Applies changes of rows. Returns their cells, and the inclusions added and removed."""
        before = self.valid()
        cells, moves = self.change(changes)
        after = self.valid()
        if (before == after).all():
            return cells, RuleChange()
        added, removed = self.ruleset(after & ~before), self.ruleset(before & ~after)
        lost = frozenset(self.rule(a, b) for a, b in np.argwhere(before & ~after).tolist() if not self.distinct[a])

        def value(rule: Rule) -> object:
            pair = self.pair(rule)
            return None if pair is None or rule in lost else self.deciding_value(moves, *pair)

        return cells, RuleChange(added, removed, value=value, vacuous=lost)

    def share(self, left: int, right: int) -> float:
        """The share of distinct left values that are missing on the right."""
        return float(self.missing[left, right] / max(1, self.distinct[left]))

    def ruleset(self, chosen: npt.NDArray[np.bool_]) -> RuleSet:
        """The chosen inclusions [A, B], with their errors if `max_error` is set."""
        pairs = np.argwhere(chosen).tolist()
        rules = RuleSet.from_rules(self.rule(a, b) for a, b in pairs)
        if not self._max_error or not pairs:
            return rules
        errors = np.array([self.share(a, b) for a, b in pairs])
        return replace(rules, blocks=(replace(rules.blocks[0], errors=errors),))

    def rule(self, left: int, right: int) -> Ind:
        a, b = self.attributes[left], self.attributes[right]
        return Ind(a.table, (a.column.name,), b.table, (b.column.name,))

    def pair(self, rule: Rule) -> Pair | None:
        """The attributes of an inclusion of one column; None for other rules."""
        if not isinstance(rule, Ind) or len(rule.left) > 1:
            return None
        places = {(a.table, a.column.name): i for i, a in enumerate(self.attributes)}
        return places[rule.left_table, rule.left[0]], places[rule.right_table, rule.right[0]]

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


def group_number(column: Column, as_text: bool) -> int:
    """The number of a column's kind group; columns of one group can be compared."""
    return 0 if as_text else ("numbers", "dates", "booleans", "text").index(column.kind.group)
