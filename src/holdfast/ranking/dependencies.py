"""Finds the functional dependencies of a table that are worth reading: credible ones with a short left side.

A dependency is credible if it holds for nearly all rows, and if the left side predicts the right one far better than
chance would (`Determinant.strength`). With two columns on the left, it must do so given either of them too: most
accidental dependencies are one that nearly holds, with a column that separates the exceptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.ranking.column_names import names_a_key
from holdfast.ranking.credible import MAX_EXCEPTIONS, Credible
from holdfast.ranking.table_view import Determinant, TableView
from holdfast.rules.rule import Fd
from holdfast.rules.wording import counted, percent

_STRENGTH, _STRENGTH_OF_NEAR_KEY = 0.8, 0.98
_NEAR_KEY, _ALMOST_KEY = 0.5, 0.9  # shares of different values
_LEAST_SHARED = 0.05  # share of the rows that agree with others, without the largest group: a value such as 0
_LEAST_GROUPS = 5  # with several rows
_SAME_VALUE = 0.97  # share of pairs that agree: a column with nearly always the same value says little
_EXPECTED = 20.0  # violating pairs, if columns were unrelated
_FEW_ROWS, _SCORE_OF_FEW = 20, 0.4
_MOST_CONSTANTS, _SCORE_OF_CONSTANT = 3, 0.4
_GIVEN_EITHER, _EXPECTED_GIVEN_EITHER = 0.97, 100.0
_ALONE = 0.15  # share of rows in which each of two columns, alone, must fail to determine the right side
_MOST_PAIRED = 120  # columns that are combined in pairs


@dataclass(frozen=True)
class _Dependency:
    left: Determinant
    right: int

    @property
    def strength(self) -> float:
        return float(self.left.strength[self.right])


class Dependencies:
    """The credible dependencies of a table. O(columns^2 x rows) for one column on the left, columns times that for two.

    `most`: the most columns on the left; `most_exceptions`: the largest share of rows that may disagree.
    """

    def __init__(
        self,
        view: TableView,
        most: int | None = None,
        most_exceptions: float = MAX_EXCEPTIONS,
        budget: Budget | None = None,
    ) -> None:
        self._view, self._most_exceptions, self._budget = view, most_exceptions, budget or Budget()
        self._single = {c: view.left_side([c]) for c in self._left_columns()}
        self._of_one = [d for side in self._single.values() for d in self._credible(side)]
        self._first = self._representatives()
        self._of_two = list(self._pairs()) if most is None or most > 1 else []

    def _left_columns(self) -> Iterator[int]:
        for column in range(len(self._view)):
            if self._budget.spent():
                return
            if self._view.distinct[column] > 1 and not self._view.is_measurement(column):
                yield column

    def _credible(self, side: Determinant) -> Iterator[_Dependency]:
        """The right sides that a left side determines beyond chance."""
        if self._view.rows < _FEW_ROWS:
            yield from self._of_few_rows(side)
            return
        if side.shared - side.largest < _LEAST_SHARED * self._view.searched or not self._has_groups(side):
            return
        least = _STRENGTH if side.share_of_kinds <= _NEAR_KEY else _STRENGTH_OF_NEAR_KEY
        expected = side.agreeing * (1 - side.alike)
        good = (side.removed <= self._most_exceptions) & (side.strength >= least) & (expected >= _EXPECTED)
        good &= (side.alike <= _SAME_VALUE) & (self._view.distinct > 1)
        good[list(side.columns)] = False
        yield from (_Dependency(side, right) for right in np.flatnonzero(good).tolist())

    def _of_few_rows(self, side: Determinant) -> Iterator[_Dependency]:
        """In a table of few rows nothing is beyond chance; what holds is shown if some rows agree on one column."""
        if side.shared and len(side.columns) == 1:
            for right in np.flatnonzero((side.removed == 0) & (self._view.distinct > 1)).tolist():
                if right not in side.columns:
                    yield _Dependency(side, right)

    @staticmethod
    def _has_groups(side: Determinant) -> bool:
        return side.groups >= min(_LEAST_GROUPS, max(2, side.kinds))

    def _representatives(self) -> dict[int, int]:
        """For each column the one that stands for all columns that determine each other: the most like a key."""
        determines = {(d.left.columns[0], d.right) for d in self._of_one}
        order = sorted(range(len(self._view)), key=self._key_likeness)
        first: dict[int, int] = {}
        for column in order:
            equal = (c for c in order if c in first and first[c] == c and {(c, column), (column, c)} <= determines)
            first[column] = next(equal, column)
        return first

    def _key_likeness(self, column: int) -> tuple[bool, int]:
        return not names_a_key(self._view.name(column)), column

    def _pairs(self) -> Iterator[_Dependency]:
        """Dependencies with two columns on the left."""
        single = self._single
        columns = [c for c, side in single.items() if self._first[c] == c and side.share_of_kinds < _ALMOST_KEY]
        if len(columns) > _MOST_PAIRED:
            self._budget.skip(f"worth reading: of {len(columns)} columns, {_MOST_PAIRED} were combined in pairs")
            columns = sorted(columns, key=lambda c: single[c].kinds)[:_MOST_PAIRED]
        found: list[_Dependency] = []
        for a, b in combinations(columns, 2):
            if self._budget.spent():
                self._budget.skip("worth reading: not all pairs of columns were looked at")
                break
            found += self._of_pair(single[a], single[b])
        of_right: dict[int, list[_Dependency]] = {}
        for dependency in found:
            of_right.setdefault(dependency.right, []).append(dependency)
        return (d for d in found if not self._has_coarser(d, of_right[d.right]))

    def _of_pair(self, a: Determinant, b: Determinant) -> Iterator[_Dependency]:
        columns, most = (*a.columns, *b.columns), self._most_exceptions
        if min(a.removed[b.columns[0]], b.removed[a.columns[0]]) <= most:
            return
        alone = np.minimum(np.nan_to_num(a.removed), np.nan_to_num(b.removed))
        rights = np.flatnonzero((alone >= _ALONE) & (self._view.distinct > 1))
        rights = rights[~np.isin(rights, columns)]
        if not len(rights):
            return
        side = self._view.left_side(columns, rights.tolist(), most)
        if not side.agreeing:
            return
        chance = np.minimum(a.violating / a.agreeing, b.violating / b.agreeing)
        for dependency in self._credible(side):
            right = dependency.right
            expected = side.agreeing * chance[right]
            if expected >= _EXPECTED_GIVEN_EITHER and side.violating[right] <= (1 - _GIVEN_EITHER) * expected:
                yield dependency

    def _has_coarser(self, dependency: _Dependency, others: Sequence[_Dependency]) -> bool:
        """Whether another left side, which this one determines, determines the same column."""
        columns = {*dependency.left.columns}
        reached = self._reached(columns)
        return any(
            columns != {*other.left.columns} <= reached and not columns <= self._reached({*other.left.columns})
            for other in others
        )

    def _reached(self, columns: set[int]) -> set[int]:
        """The columns that these columns determine one by one, and themselves."""
        return columns.union(*(self._determined[column] for column in columns))

    @cached_property
    def _determined(self) -> dict[int, set[int]]:
        """For each column those that it determines alone."""
        determined: dict[int, set[int]] = {column: set() for column in range(len(self._view))}
        for dependency in self._of_one:
            determined[dependency.left.columns[0]].add(dependency.right)
        return determined

    def rules(self, most: int | None = None) -> list[Credible]:
        """The dependencies, by left side, the most telling left sides first, at most so many."""
        sides: dict[tuple[int, ...], list[_Dependency]] = {}
        for dependency in [*self._of_one, *self._of_two]:
            sides.setdefault(dependency.left.columns, []).append(dependency)
        shown = {columns: kept for columns, every in sides.items() if (kept := self._kept(columns, every))}
        order = sorted(shown, key=lambda columns: (-self._worth(shown[columns]), columns))
        found: list[Credible] = []
        for dependency in (d for columns in order[:most] for d in shown[columns]):
            if found and self._budget.spent():
                break
            found += self._measured(dependency)
        return [*found, *self._constants()]

    def _constants(self) -> list[Credible]:
        """Columns with one value that no row lacks, unless they are many."""
        view = self._view
        same = [c for c in range(len(view)) if view.distinct[c] == 1 and view.filled[c] == 1 and view.rows > 1]
        rules = [Fd(frozenset(), view.name(c)) for c in same if not view.error([], c)]
        return [Credible(rule, _SCORE_OF_CONSTANT) for rule in rules] if len(rules) <= _MOST_CONSTANTS else []

    def _kept(self, columns: tuple[int, ...], every: list[_Dependency]) -> list[_Dependency]:
        """Of a column that another one stands for, only that it determines that one."""
        (first, *others) = columns
        if others or self._first[first] == first:
            return every
        return [d for d in every if d.right == self._first[first]]

    def _worth(self, dependencies: list[_Dependency]) -> float:
        return max(self._score(d) for d in dependencies)

    def _score(self, dependency: _Dependency) -> float:
        side = dependency.left
        if self._view.rows < _FEW_ROWS:
            return _SCORE_OF_FEW
        return dependency.strength * (1 - side.share_of_kinds / 3) * (1 if len(side.columns) == 1 else 0.9)

    def _measured(self, dependency: _Dependency) -> list[Credible]:
        """The dependency, measured on all rows, unless too many disagree."""
        side, right, view = dependency.left, dependency.right, self._view
        error = view.error(side.columns, right)
        if error > self._most_exceptions:
            return []
        rule = Fd(frozenset(map(view.name, side.columns)), view.name(right))
        share = percent(side.shared / view.searched)
        reasons = [
            f"{share} of the rows have a left value that others have too, {counted(side.groups, 'value')} in all"
        ]
        if error:
            reasons.append(f"{counted(round(error * view.rows), 'row')} of {view.rows:,} disagree")
        return [Credible(rule, round(min(1.0, self._score(dependency)), 3), error, tuple(reasons))]
