"""Violations of one inclusion dependency: left rows without a partner, under changes of both sides.

Every distinct tuple of either side has a number; counts per number say how many left and right rows have it. A left
row violates the rule while its tuple's right count is zero.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from holdfast.indexes.pairs import Ids, Pairs
from holdfast.indexes.rowtest import rows_that_satisfy
from holdfast.rules.bind import Schemas
from holdfast.rules.predicate import Predicate
from holdfast.rules.rule import Ind
from holdfast.table.compare import derived, meeting
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.keys import KeyMap

Numbers = npt.NDArray[np.int64]


class InclusionIndex:
    """`count` is the exact number of left rows without a partner. Each changed row costs O(1), expected; a right
    tuple that appears or vanishes costs one pass over the left rows."""

    def __init__(self, rule: Ind, schemas: Schemas, where: frozenset[Predicate], dictionary: TextDictionary) -> None:
        self.rule, self.dictionary, self.where = rule, dictionary, where
        self._left, self._right = schemas[rule.left_table], schemas[rule.right_table]
        self._tuples = np.zeros((len(rule.left), 16), np.int64)
        self._keys = KeyMap(np.arange(len(rule.left)))
        self._size = 0
        self._counts = np.zeros((2, 16), np.int64)  # of left and of right rows
        self._number_of = np.full(16, -1, np.int64)  # of left rows, by row id
        self.count = 0

    @property
    def left_columns(self) -> list[int]:
        tested = {self._left.position(cell.column) for p in self.where for cell in p.cells}
        return sorted(tested | set(self._left.positions(self.rule.left)))

    @property
    def right_columns(self) -> list[int]:
        return self._right.positions(self.rule.right)

    def change(
        self, left_leave: Ids, left_come: Ids, left_codes: Codes, right_leave: Codes, right_come: Codes
    ) -> tuple[Pairs, Pairs]:
        """(rows that now violate, rows that no longer do). Right rows come as codes; left rows that leave by id."""
        leaving = self._numbers_of(left_leave)
        gone = left_leave[(leaving >= 0) & self._is_missing(leaving)]
        self._set_numbers(left_leave, np.full(len(left_leave), -1))
        np.subtract.at(self._counts[0], leaving[leaving >= 0], 1)
        lost, won = self._right_numbers(right_leave), self._right_numbers(right_come)
        touched = np.unique(np.concatenate([lost, won]))
        before = self._counts[1, touched] == 0
        np.subtract.at(self._counts[1], lost, 1)
        np.add.at(self._counts[1], won, 1)
        after = self._counts[1, touched] == 0
        added, removed = self._rows_with(touched[after & ~before]), self._rows_with(touched[before & ~after])
        coming = self._left_numbers(left_codes)
        self._set_numbers(left_come, coming)
        np.add.at(self._counts[0], coming[coming >= 0], 1)
        fresh = left_come[(coming >= 0) & self._is_missing(coming)]
        new, old = Pairs(np.concatenate([added, fresh])), Pairs(np.concatenate([removed, gone]))
        new, old = new.without(old), old.without(new)
        self.count += len(new) - len(old)
        return new, old

    def violating(self) -> Pairs:
        """All left rows without a partner. O(left rows)."""
        known = np.flatnonzero(self._number_of >= 0)
        return Pairs(known[self._is_missing(self._number_of[known])])

    def _is_missing(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        return np.asarray(self._counts[1, np.maximum(numbers, 0)] == 0)

    def _rows_with(self, numbers: Numbers) -> Ids:
        if not len(numbers):
            return np.zeros(0, np.int64)
        wanted = np.zeros(self._size + 1, bool)
        wanted[numbers] = True
        return np.flatnonzero(wanted[self._number_of] & (self._number_of >= 0))

    def _numbers_of(self, ids: Ids) -> Numbers:
        return self._number_of[ids] if len(ids) else np.zeros(0, np.int64)

    def _set_numbers(self, ids: Ids, numbers: Numbers) -> None:
        most = int(ids.max(initial=-1)) + 1
        if most > len(self._number_of):
            grown = np.full(max(most, len(self._number_of) * 3 // 2), -1, np.int64)
            grown[: len(self._number_of)] = self._number_of
            self._number_of = grown
        self._number_of[ids] = numbers

    def _left_numbers(self, codes: Codes) -> Numbers:
        """The numbers of left tuples, -1 where one has a null or its row is filtered out."""
        tuples = self._forms(codes, left=True)
        counted = (tuples != NULL).all(axis=0)
        if self.where:
            counted &= rows_that_satisfy(self.where, self._left, codes, self.dictionary, "sql")
        numbers = np.full(codes.shape[1], -1, np.int64)
        numbers[counted] = self._numbered(tuples[:, counted])
        return numbers

    def _right_numbers(self, codes: Codes) -> Numbers:
        tuples = self._forms(codes, left=False)
        return self._numbered(tuples[:, (tuples != NULL).all(axis=0)])

    def _forms(self, codes: Codes, *, left: bool) -> Codes:
        made = []
        for a, b in zip(self.rule.left, self.rule.right, strict=True):
            columns = self._left.column(a), self._right.column(b)
            forms, side = meeting(*columns), 0 if left else 1
            schema, name = (self._left, a) if left else (self._right, b)
            made.append(derived(columns[side], codes[schema.position(name)], forms[side]))
        return np.array(made, np.int64).reshape(len(made), codes.shape[1])

    def _numbered(self, tuples: Codes) -> Numbers:
        """The number of each tuple; unknown ones get the next numbers."""
        found = self._keys.find(self._tuples, tuples)
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            distinct = np.unique(tuples[:, unknown], axis=1)
            first, last = self._size, self._size + distinct.shape[1]
            self._reserve(last)
            self._tuples[:, first:last] = distinct
            self._keys.add(self._tuples, np.arange(first, last))
            self._size = last
            found[unknown] = self._keys.find(self._tuples, tuples[:, unknown])
        return found

    def _reserve(self, size: int) -> None:
        if size > self._tuples.shape[1]:
            room = max(size, self._tuples.shape[1] * 3 // 2)
            tuples, counts = np.zeros((len(self._tuples), room), np.int64), np.zeros((2, room), np.int64)
            tuples[:, : self._size], counts[:, : self._size] = (
                self._tuples[:, : self._size],
                self._counts[:, : self._size],
            )
            self._tuples, self._counts = tuples, counts
