"""The violations of one rule on the rows as they are: counted, listed in pages, of one row, explained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from holdfast.indexes.pairs import Ids, Pairs
from holdfast.indexes.rowtest import Mask, pairs_that_satisfy, rows_that_satisfy
from holdfast.rules.bind import Schemas, is_symmetric, table_of
from holdfast.rules.rule import Ind, as_dc
from holdfast.table.compare import common_codes
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.encode import decode_table
from holdfast.table.row_change import RowChange
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema
from holdfast.violations.detect import CheckedRule, Detector, rows_that_violate
from holdfast.violations.explain import Explanation, compared_columns, explanation
from holdfast.violations.listing import names_of

Record = dict[str, Any]
LOOK_AT = 100_000  # violations that an explanation is made from


@dataclass(frozen=True)
class Violation:
    """One violation for people: ids and names of the row and its partner (None for rules about rows), both rows whole,
    and the columns that the rule compares."""

    t: int
    s: int | None
    names: tuple[object, object | None]
    rows: tuple[Record, Record | None]
    compared: tuple[str, ...]

    @property
    def values(self) -> dict[str, tuple[object, object | None]]:
        """The compared cells of both rows."""
        left, right = self.rows
        return {c: (left[c], None if right is None else right[c]) for c in self.compared}


class Look:
    """The violations of one rule of a detector that is loaded with these rows."""

    def __init__(self, detector: Detector, number: int, rows: Mapping[str, Rows], dictionary: TextDictionary) -> None:
        self._detector, self._number, self._dictionary = detector, number, dictionary
        self.item = detector.checked[number]
        self.table = detector.table_of(number)
        self._rows = rows[self.table]

    @classmethod
    def at(cls, item: CheckedRule, schemas: Schemas, rows: Mapping[str, Rows], dictionary: TextDictionary) -> Look:
        """Any rule, sought now. O(rows), as a first check."""
        detector = Detector([item], schemas, dictionary)
        detector.load(rows)
        return cls(detector, 0, rows, dictionary)

    def follow(self, changes: Mapping[str, RowChange]) -> None:
        """Brings it to changes of the rows, which are not part of these yet. For a look with a detector of its own."""
        self._detector.apply(changes)
        self.__dict__.pop("_per_row", None)

    @property
    def count(self) -> int:
        return self._detector.counts[self._number]

    @property
    def error(self) -> float:
        return self.item.error(self.count, len(self._rows))

    @cached_property
    def _per_row(self) -> tuple[Ids, np.ndarray]:
        """The rows that are t of a violation, and after how many violations each of them ends."""
        ids, counts = self._detector.per_row(self._number, self._rows)
        there = counts > 0
        return ids[there], np.cumsum(counts[there])

    def count_rows(self) -> int:
        """How many rows are in a violation, as t; for symmetric rules, all that are in one."""
        return len(self._per_row[0])

    def page(self, start: int, size: int) -> list[Violation]:
        """The violations from `start` on, by t then s, without listing those before. O(rows) the first time."""
        ids, ends = self._per_row
        first, last = np.searchsorted(ends, [start, start + size - 1], side="right")
        chosen = ids[first : last + 1]
        if not len(chosen) or size <= 0:
            return []
        pairs = self._detector.partners(self._number, chosen, self._rows).ordered()
        skipped = start - int(ends[first - 1] if first else 0)
        t, s = pairs.t[skipped:], None if pairs.s is None else pairs.s[skipped:]
        return self.shown(Pairs(t, s).first(size))

    def shown(self, pairs: Pairs) -> list[Violation]:
        """Violations with their rows."""
        return shown(self.item, pairs, self._rows, self._dictionary)

    def explain(
        self, limit: int = 10, look_at: int = LOOK_AT, text: str | None = None, *, mirrored: bool = False
    ) -> Explanation:
        """The worst rows, their clashes and causes, from the first `look_at` violations. `mirrored`: for a text that
        has t and s the other way round."""
        pairs = self._detector.pairs(self._number, self._rows, look_at)
        if mirrored and pairs.s is not None:
            pairs = Pairs(pairs.s, pairs.t).ordered()
        shown = self.item.rule.as_written if text is None else text
        return explanation(
            self.item, shown, self.count, pairs, self._rows, self._dictionary, limit, partners_of=self._partners_of
        )

    def _partners_of(self, row: int) -> list[int]:
        """The rows with which a live row violates the rule, in either role. O(rows) where the roles differ."""
        rule = self.item.rule
        if isinstance(rule, Ind) or self.item.is_single:
            return []
        if is_symmetric(as_dc(rule)):
            found = self._detector.partners(self._number, np.array([row], np.int64), self._rows)
        else:
            found = of_row(self.item, row, {self.table: self._rows}, self._dictionary)
        assert found.s is not None
        return [int(other) for other in np.where(found.t == row, found.s, found.t)]


def shown(item: CheckedRule, pairs: Pairs, rows: Rows, dictionary: TextDictionary) -> list[Violation]:
    """Violations of a rule with their rows."""
    sides = [side for side in (pairs.t, pairs.s) if side is not None]
    names = [names_of(side, rows, dictionary).to_pylist() for side in sides]
    cells = [decode_table(rows.schema, rows.codes_of(side), dictionary).to_pylist() for side in sides]
    compared = tuple(compared_columns(item))
    if len(sides) == 1:
        return [
            Violation(t, None, (name, None), (row, None), compared)
            for t, name, row in zip(sides[0].tolist(), names[0], cells[0], strict=True)
        ]
    ids = [side.tolist() for side in sides]
    return [
        Violation(t, s, (a, b), (row, other), compared)
        for t, s, a, b, row, other in zip(*ids, *names, *cells, strict=True)
    ]


def of_row(item: CheckedRule, row: int, rows: Mapping[str, Rows], dictionary: TextDictionary) -> Pairs:
    """The violations of a rule that one live row of its table is in, each partner once: the row is t, or s where that
    is the only way. O(rows): it meets every row, and needs no index."""
    schemas = {name: some.schema for name, some in rows.items()}
    mine = rows[table_of(item.rule, schemas)]
    here, codes = np.array([row], np.int64), mine.codes_of(np.array([row], np.int64))
    if isinstance(item.rule, Ind):
        return Pairs(here[_lacks_partner(item, item.rule, codes, rows, dictionary)])
    if item.is_single:
        return Pairs(here[rows_that_violate(item, mine.schema, codes, dictionary)])
    ids, every, again = mine.ids(), mine.codes(), np.repeat(codes, len(mine), axis=1)
    sides = ({"t": again, "s": every}, {"t": every, "s": again})
    as_t, as_s = (ids[_meet(item, mine.schema, side, dictionary) & (ids != row)] for side in sides)
    as_s = as_s[~np.isin(as_s, as_t)]
    t = np.concatenate([np.full(len(as_t), row), as_s])
    return Pairs(t, np.concatenate([as_t, np.full(len(as_s), row)]))


def _meet(item: CheckedRule, schema: Schema, codes: Mapping[str, Codes], dictionary: TextDictionary) -> Mask:
    """Which pairs violate a rule about pairs."""
    predicates = as_dc(item.rule).written  # type: ignore[arg-type]
    found = pairs_that_satisfy(predicates, schema, codes, dictionary, item.nulls)
    for side in codes.values() if item.where else ():
        found &= rows_that_satisfy(item.where, schema, side, dictionary, "sql")
    return found


def _lacks_partner(
    item: CheckedRule, rule: Ind, codes: Codes, rows: Mapping[str, Rows], dictionary: TextDictionary
) -> Mask:
    """Whether one row, given by its codes, has values that the other table has not."""
    left, right = rows[rule.left_table].schema, rows[rule.right_table]
    there, theirs = np.ones(len(right), np.bool_), right.codes()
    for a, b in zip(rule.left, rule.right, strict=True):
        mine = codes[left.position(a)]
        if mine[0] == NULL:
            return np.zeros(1, np.bool_)
        other = theirs[right.schema.position(b)]
        one, many = common_codes(left.column(a), mine, right.schema.column(b), other)
        there &= (many == one[0]) & (other != NULL)
    applies = rows_that_satisfy(item.where, left, codes, dictionary, "sql") if item.where else np.ones(1, np.bool_)
    return np.asarray(applies & ~there.any())
