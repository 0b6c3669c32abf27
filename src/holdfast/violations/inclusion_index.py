"""Maintains the violations of one inclusion dependency: left rows whose values do not occur on the right side.

Every distinct tuple of either side gets a number. For each number we count the left rows and the right rows that have
the tuple. A left row violates the rule while its tuple's right count is zero.
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
    """The violations of one inclusion dependency; `count` is their exact number.

    A changed row costs expected O(1). A batch in which right tuples appear or vanish costs one pass over the left rows.
    """

    def __init__(self, rule: Ind, schemas: Schemas, where: frozenset[Predicate], dictionary: TextDictionary) -> None:
        self.rule, self.dictionary, self.where = rule, dictionary, where
        self._left, self._right = schemas[rule.left_table], schemas[rule.right_table]
        self._tuples = np.zeros((len(rule.left), 16), np.int64)
        self._keys = KeyMap(np.arange(len(rule.left)))
        self._size = 0  # distinct tuples
        self._counts = np.zeros((2, 16), np.int64)  # counts[left or right, tuple number]
        self._number_of = np.full(16, -1, np.int64)  # the tuple number of each left row, by row id
        self.count = 0

    @property
    def left_columns(self) -> list[int]:
        """The columns of the left table that the rule and its filter read."""
        tested = {self._left.position(cell.column) for p in self.where for cell in p.cells}
        return sorted(tested | set(self._left.positions(self.rule.left)))

    @property
    def right_columns(self) -> list[int]:
        return self._right.positions(self.rule.right)

    def change(
        self, left_leave: Ids, left_come: Ids, left_codes: Codes, right_leave: Codes, right_come: Codes
    ) -> tuple[Pairs, Pairs]:
        """Deletes and inserts rows. Returns (rows that now violate the rule, rows that no longer do).

        Deleted left rows are given by id, inserted ones by id and codes, right rows by codes.
        """
        deleted_numbers = self._numbers_of(left_leave)
        deleted_violations = left_leave[(deleted_numbers >= 0) & self._is_missing(deleted_numbers)]
        self._set_numbers(left_leave, np.full(len(left_leave), -1))
        np.subtract.at(self._counts[0], deleted_numbers[deleted_numbers >= 0], 1)
        vanished, appeared = self._change_right(right_leave, right_come)
        broken_rows, repaired_rows = self._rows_with(vanished), self._rows_with(appeared)
        inserted_numbers = self._left_numbers(left_codes)
        self._set_numbers(left_come, inserted_numbers)
        np.add.at(self._counts[0], inserted_numbers[inserted_numbers >= 0], 1)
        inserted_violations = left_come[(inserted_numbers >= 0) & self._is_missing(inserted_numbers)]
        added = Pairs(np.concatenate([broken_rows, inserted_violations]))
        removed = Pairs(np.concatenate([repaired_rows, deleted_violations]))
        added, removed = added.without(removed), removed.without(added)
        self.count += len(added) - len(removed)
        return added, removed

    def _change_right(self, leave: Codes, come: Codes) -> tuple[Numbers, Numbers]:
        """Counts the changed right rows. Returns the tuples that vanished and that appeared on the right side."""
        lost, gained = self._right_numbers(leave), self._right_numbers(come)
        touched = np.unique(np.concatenate([lost, gained]))
        missing_before = self._counts[1, touched] == 0
        np.subtract.at(self._counts[1], lost, 1)
        np.add.at(self._counts[1], gained, 1)
        missing_after = self._counts[1, touched] == 0
        return touched[missing_after & ~missing_before], touched[missing_before & ~missing_after]

    def violating(self) -> Pairs:
        """All violating left rows. O(left rows)."""
        counted_rows = np.flatnonzero(self._number_of >= 0)
        return Pairs(counted_rows[self._is_missing(self._number_of[counted_rows])])

    def _is_missing(self, numbers: Numbers) -> npt.NDArray[np.bool_]:
        return np.asarray(self._counts[1, np.maximum(numbers, 0)] == 0)

    def _rows_with(self, numbers: Numbers) -> Ids:
        """The left rows whose tuple has one of these numbers."""
        if not len(numbers):
            return np.zeros(0, np.int64)
        wanted = np.zeros(self._size + 1, bool)
        wanted[numbers] = True
        return np.flatnonzero(wanted[self._number_of] & (self._number_of >= 0))

    def _numbers_of(self, ids: Ids) -> Numbers:
        return self._number_of[ids] if len(ids) else np.zeros(0, np.int64)

    def _set_numbers(self, ids: Ids, numbers: Numbers) -> None:
        needed = int(ids.max(initial=-1)) + 1
        if needed > len(self._number_of):
            grown = np.full(max(needed, len(self._number_of) * 3 // 2), -1, np.int64)
            grown[: len(self._number_of)] = self._number_of
            self._number_of = grown
        self._number_of[ids] = numbers

    def _left_numbers(self, codes: Codes) -> Numbers:
        """The tuple numbers of left rows, -1 for a tuple with a null and for a row that the filter excludes."""
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
        """The tuples in the form in which both sides are comparable."""
        columns_of_tuple = []
        for a, b in zip(self.rule.left, self.rule.right, strict=True):
            columns = self._left.column(a), self._right.column(b)
            forms, side = meeting(*columns), 0 if left else 1
            schema, name = (self._left, a) if left else (self._right, b)
            columns_of_tuple.append(derived(columns[side], codes[schema.position(name)], forms[side]))
        return np.array(columns_of_tuple, np.int64).reshape(len(columns_of_tuple), codes.shape[1])

    def _numbered(self, tuples: Codes) -> Numbers:
        """The number of each tuple. New tuples get the next numbers."""
        numbers = self._keys.find(self._tuples, tuples)
        new = np.flatnonzero(numbers < 0)
        if len(new):
            distinct = np.unique(tuples[:, new], axis=1)
            first, last = self._size, self._size + distinct.shape[1]
            self._reserve(last)
            self._tuples[:, first:last] = distinct
            self._keys.add(self._tuples, np.arange(first, last))
            self._size = last
            numbers[new] = self._keys.find(self._tuples, tuples[:, new])
        return numbers

    def _reserve(self, size: int) -> None:
        if size > self._tuples.shape[1]:
            room = max(size, self._tuples.shape[1] * 3 // 2)
            tuples, counts = np.zeros((len(self._tuples), room), np.int64), np.zeros((2, room), np.int64)
            tuples[:, : self._size], counts[:, : self._size] = (
                self._tuples[:, : self._size],
                self._counts[:, : self._size],
            )
            self._tuples, self._counts = tuples, counts
