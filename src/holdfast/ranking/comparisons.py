"""Finds comparisons of two columns that hold in each row and are worth reading: the least is never above the most.

A comparison is credible if rows would often violate it had each column come from another row, and hardly any row does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget
from holdfast.indexes.rowtest import holds
from holdfast.ranking.column_names import words_of
from holdfast.ranking.credible import MAX_EXCEPTIONS, Credible
from holdfast.ranking.table_view import TableView
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare
from holdfast.rules.rule import Dc
from holdfast.rules.wording import counted, percent
from holdfast.table.compare import common_codes, comparable
from holdfast.table.dictionary import NULL

_LEAST_FILLED = 0.05  # share of rows that have both values
_BY_CHANCE = 0.08  # share of rows that would violate it, had the values come from different rows
_BY_CHANCE_ALIKE = 0.005  # the same if the names of the columns share a word
_FEWER = 0.05  # of these, the share that may violate it
_MOST = 10
_UNLIKE = 0.5  # share of rows whose texts would differ, had they come from different rows
_FLAG = 2  # different values: that one flag implies another is no comparison, unless their names are alike


@dataclass(frozen=True)
class _Comparison:
    """`left <= right` in each row, or the stronger `op`."""

    left: int
    right: int
    op: Op
    by_chance: float
    error: float


class Comparisons:
    """The credible comparisons of a table. O(columns^2 x rows)."""

    def __init__(self, view: TableView, most_exceptions: float = MAX_EXCEPTIONS, budget: Budget | None = None) -> None:
        self._view, self._most_exceptions, self._budget = view, most_exceptions, budget or Budget()
        self._found = list(self._search())

    def _search(self) -> Iterator[_Comparison]:
        for left, right in permutations(range(len(self._view)), 2):
            if self._budget.spent():
                self._budget.skip("worth reading: not all pairs of columns were compared in each row")
                return
            found = self._compared(left, right)
            if found is not None:
                yield found

    def _compared(self, left: int, right: int) -> _Comparison | None:
        view, columns = self._view, self._view.schema.columns
        if not comparable(columns[left], columns[right]) or min(view.distinct[[left, right]]) < 2:
            return None
        a, b = common_codes(columns[left], view.codes[left], columns[right], view.codes[right])
        filled = np.flatnonzero((a != NULL) & (b != NULL))
        if len(filled) < max(2, _LEAST_FILLED * view.searched):
            return None
        if not columns[left].kind.ordered:
            return self._equal(a, b, left, right)
        above = float((a[filled] > b[filled]).mean())
        if above > self._most_exceptions:
            return None
        t, s = (filled[side % len(filled)] for side in view.pairs)
        by_chance = float((a[t] > b[s]).mean())
        are_alike = self._share_a_word(left, right)
        if by_chance < (_BY_CHANCE_ALIKE if are_alike else _BY_CHANCE) or above > _FEWER * by_chance:
            return None
        if not are_alike and max(view.distinct[[left, right]] - view.empty[[left, right]].any(axis=1)) <= _FLAG:
            return None
        if (a[filled] == b[filled]).all():
            return self._found_as(left, right, Op.EQ, by_chance) if left < right else None
        return self._found_as(left, right, Op.LE, by_chance)

    def _found_as(self, left: int, right: int, op: Op, by_chance: float) -> _Comparison | None:
        """The comparison, measured on all rows: `<` in place of `<=` if no row has equal values."""
        error = self._error(left, right, op)
        if op is Op.LE and self._error(left, right, Op.LT) == error:
            op = Op.LT
        return _Comparison(left, right, op, by_chance, error) if error <= self._most_exceptions else None

    def _share_a_word(self, left: int, right: int) -> bool:
        first, second = ({*words_of(self._view.name(column))} for column in (left, right))
        return any(len(word) > 1 and not word.isdigit() for word in first & second)

    def _equal(self, a: np.ndarray, b: np.ndarray, left: int, right: int) -> _Comparison | None:
        """The equality of two columns without an order."""
        if left > right or float((a != b).mean()) > self._most_exceptions:
            return None
        t, s = self._view.pairs
        by_chance = float((a[t] != b[s]).mean())
        return self._found_as(left, right, Op.EQ, by_chance) if by_chance > _UNLIKE else None

    def _error(self, left: int, right: int, op: Op) -> float:
        """The share of all rows that violate it."""
        return float(self._violating(left, right, op).mean())

    def _violating(self, left: int, right: int, op: Op) -> Flags:
        view, columns = self._view, self._view.schema.columns
        codes = common_codes(columns[left], view.all_codes[left], columns[right], view.all_codes[right])
        return holds(op.inverse, *codes, view.nulls)

    def rules(self) -> list[Credible]:
        """The comparisons, those that follow from two others last; before that, those that chance would violate most.
        Of equal columns, only the first is compared with the others."""
        equal = {(c.left, c.right) for c in self._found if c.op is Op.EQ}
        copies = {right for _, right in equal}
        pairs = {(c.left, c.right) for c in self._found}
        found = [c for c in self._found if c.left not in copies and (c.right not in copies or c.op is Op.EQ)]
        found.sort(key=lambda c: (self._follows(c, pairs), -c.by_chance, c.left, c.right))
        return [self._measured(c) for c in found[:_MOST]]

    def _follows(self, comparison: _Comparison, pairs: set[tuple[int, int]]) -> bool:
        """Whether a third column is between the two."""
        left, right = comparison.left, comparison.right
        return any((left, m) in pairs and (m, right) in pairs for m in range(len(self._view)) if m not in (left, right))

    def _measured(self, comparison: _Comparison) -> Credible:
        left, right = (Cell("t", self._view.name(c)) for c in (comparison.left, comparison.right))
        rule = Dc(frozenset({Compare(left, comparison.op.inverse, right)}))
        reasons = [f"with values of other rows, {percent(comparison.by_chance)} of the rows would violate it"]
        if comparison.error:
            reasons.append(
                f"{counted(round(comparison.error * self._view.rows), 'row')} of {self._view.rows:,} disagree"
            )
        score = 0.6 + 0.4 * min(1.0, 2 * comparison.by_chance)
        return Credible(rule, round(score, 3), comparison.error, tuple(reasons))
