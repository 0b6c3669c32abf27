"""Finds columns that are the sum or the product of two others in each row.

Rows decide in which both operands count: neither is zero, nor one in a product. Elsewhere a sum is only a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget
from holdfast.indexes.rowtest import rows_that_satisfy
from holdfast.ranking.credible import MAX_EXCEPTIONS, Credible
from holdfast.ranking.table_view import TableView
from holdfast.rules.predicate import Formula
from holdfast.rules.rule import Calculation, as_dc
from holdfast.rules.wording import counted
from holdfast.table.dictionary import NULL, TextDictionary
from holdfast.table.kind import Kind

_LEAST_VALUES = 5  # different values of a column, and of pairs of operands that count
_MAX_COLUMNS, _CELLS = 60, 50_000_000  # that are tried, and comparisons of cells for that
_LEAST_ROWS, _MAX_ROWS = 64, 4096  # in which candidates are tried; what is found is measured on all rows
_MAX_NUMBER = 2.0**53  # larger numbers are not tried: a float does not hold them
_MOST, _SCORE = 10, 0.95


class Calculations:
    """The credible sums and products of a table. O(columns^3 x some rows + rules x rows)."""

    def __init__(self, view: TableView, most_exceptions: float = MAX_EXCEPTIONS, budget: Budget | None = None) -> None:
        self._view, self._most, self._budget = view, most_exceptions, budget or Budget()
        columns = [place for place in range(len(view)) if self._is_tried(place)][:_MAX_COLUMNS]
        self._columns = columns
        self._values = self._numbers(columns)

    def _is_tried(self, place: int) -> bool:
        view, column = self._view, self._view.schema.columns[place]
        is_exact = column.kind in (Kind.INTEGER, Kind.DECIMAL)
        return is_exact and view.distinct[place] >= _LEAST_VALUES and not view.is_copy(place)

    def _numbers(self, columns: list[int]) -> np.ndarray:
        """The values of some rows, those with most numbers other than zero first; NaN for empty cells."""
        codes = self._view.codes[columns]
        scales = np.array([[10.0 ** self._view.schema.columns[place].scale] for place in columns])
        values = np.where(codes == NULL, np.nan, codes / scales) if len(columns) else np.zeros((0, 0))
        trials = max(1, len(columns) ** 3)
        order = np.argsort(-(np.nan_to_num(values) != 0).sum(axis=0), kind="stable")
        return values[:, order[: min(_MAX_ROWS, max(_LEAST_ROWS, _CELLS // trials))]]

    def rules(self) -> list[Credible]:
        """The sums and products, those with the fewest exceptions first."""
        found = list(self._search())
        return sorted(found, key=lambda one: (one.error, -one.score, str(one.rule)))[:_MOST]

    def _search(self) -> Iterator[Credible]:
        values = self._values
        small = np.nan_to_num(np.abs(values)).max(axis=1, initial=0) < _MAX_NUMBER
        for left, right in combinations(np.flatnonzero(small).tolist(), 2):
            if self._budget.spent():
                self._budget.skip("worth reading: not all sums and products were tried")
                return
            for op in "+*":
                count = self._counts(values[left], values[right], op)
                if count.sum() < _LEAST_VALUES:
                    continue
                formula = values[left] + values[right] if op == "+" else values[left] * values[right]
                near = np.isclose(values[:, count], formula[count], rtol=1e-12, atol=0) | np.isnan(values[:, count])
                share = near.mean(axis=1)
                for result in np.flatnonzero(share >= 1 - 2 * self._most).tolist():
                    if result not in (left, right):
                        measured = self._measured(self._columns[result], op, self._columns[left], self._columns[right])
                        if measured is not None:
                            yield measured

    def _counts(self, left: np.ndarray, right: np.ndarray, op: str) -> Flags:
        """The rows in which both operands count."""
        count: Flags = ~np.isnan(left) & ~np.isnan(right) & (left != 0) & (right != 0)
        return count if op == "+" else count & (np.abs(left) != 1) & (np.abs(right) != 1)

    def _measured(self, result: int, op: str, left: int, right: int) -> Credible | None:
        """A calculation, measured on all rows; None if too many rows disagree, or too few could."""
        view = self._view
        rule = Calculation(view.name(result), Formula(op, view.name(left), view.name(right)))
        wrong = rows_that_satisfy(as_dc(rule).predicates, view.schema, view.all_codes, TextDictionary(), "sql")
        operands = view.all_codes[[left, right]]
        ones = np.array([[10 ** view.schema.columns[place].scale] for place in (left, right)])
        decides = (view.all_codes[[result, left, right]] != NULL).all(axis=0) & (operands != 0).all(axis=0)
        if op == "*":
            decides &= (np.abs(operands) != ones).all(axis=0)
        deciding = int(decides.sum())
        some = operands[:, np.flatnonzero(decides)[:_MAX_ROWS]]
        kinds = len(np.unique(some, axis=1).T) if deciding else 0
        if kinds < _LEAST_VALUES or int((wrong & decides).sum()) > self._most * deciding:
            return None
        error = float(wrong.mean())
        reasons = [f"{counted(deciding, 'row')} in which both count"]
        if error:
            reasons.append(f"{counted(int(wrong.sum()), 'row')} of {view.rows:,} disagree")
        return Credible(rule, _SCORE, error, tuple(reasons)) if error <= self._most else None
