"""The current violations of one rule: their number, pages of them, those of one row, and their explanation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from holdfast.arrays import Flags
from holdfast.indexes.pairs import Ids, Pairs
from holdfast.indexes.rowtest import pairs_that_satisfy, rows_that_satisfy
from holdfast.rules.bind import Schemas, is_symmetric, table_of
from holdfast.rules.rule import Ind, as_dc
from holdfast.table.compare import common_codes
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.encode import decode_table
from holdfast.table.row_change import RowChange
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema
from holdfast.violations.clashing_groups import ClashingGroups, clashing_groups
from holdfast.violations.detect import CheckedRule, Detector, rows_that_violate
from holdfast.violations.explain import Explanation, compared_columns, explanation
from holdfast.violations.listing import names_of

Record = dict[str, Any]
LOOK_AT = 100_000  # an explanation is based on the first violations, up to this number


@dataclass(frozen=True)
class Violation:
    """One violation for display: ids, names and cells of the row and its partner, and the compared columns.

    The partner is None for rules about single rows.
    """

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
    """The violations of one rule, on a detector that has loaded these rows."""

    def __init__(self, detector: Detector, number: int, rows: Mapping[str, Rows], dictionary: TextDictionary) -> None:
        self._detector, self._number, self._dictionary = detector, number, dictionary
        self.item = detector.checked[number]
        self.table = detector.table_of(number)
        self._rows = rows[self.table]

    @classmethod
    def at(cls, item: CheckedRule, schemas: Schemas, rows: Mapping[str, Rows], dictionary: TextDictionary) -> Look:
        """A look at any rule, also one that is not checked yet. Costs as much as a first check: at least O(rows)."""
        detector = Detector([item], schemas, dictionary)
        detector.load(rows, may_wait=False)  # `follow` hears of changes when the rows have them already
        return cls(detector, 0, rows, dictionary)

    def follow(self, changes: Mapping[str, RowChange]) -> None:
        """Applies changes that the rows have already. Only for a look that has a detector of its own (`Look.at`)."""
        self._detector.apply(changes)
        self.__dict__.pop("_per_row", None)

    @property
    def count(self) -> int:
        """The exact number of violations."""
        return self._detector.counts[self._number]

    @property
    def error(self) -> float:
        """The error g1 of the rule."""
        return self.item.error(self.count, len(self._rows))

    @cached_property
    def _per_row(self) -> tuple[Ids, np.ndarray]:
        """The rows that are t of a violation, and the cumulative number of violations up to each of them."""
        ids, counts = self._detector.per_row(self._number, self._rows)
        violates = counts > 0
        return ids[violates], np.cumsum(counts[violates])

    def count_rows(self) -> int:
        """The number of rows that are t of a violation; for symmetric rules, of all rows in a violation."""
        return len(self._per_row[0])

    def page(self, start: int, size: int) -> list[Violation]:
        """Violations `start` to `start + size`, sorted by t, then s. Earlier ones are not listed.

        O(rows) the first time.
        """
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
        """Violations with their rows, for display."""
        return shown(self.item, pairs, self._rows, self._dictionary)

    def groups(self, most: int | None = None) -> ClashingGroups | None:
        """The violations of a key or an FD as groups of rows, the largest first; None for other rules. O(rows)."""
        return clashing_groups(self.item, self._rows, self._dictionary, most)

    def explain(
        self, limit: int = 10, look_at: int = LOOK_AT, text: str | None = None, *, mirrored: bool = False
    ) -> Explanation:
        """Explains the rule from its first `look_at` violations: the worst rows, clashes and causes.

        `mirrored`: `text` has t and s swapped.
        """
        pairs = self._detector.pairs(self._number, self._rows, look_at)
        if mirrored and pairs.s is not None:
            pairs = Pairs(pairs.s, pairs.t).ordered()
        title = self.item.rule.as_written if text is None else text
        return explanation(
            self.item, title, self.count, pairs, self._rows, self._dictionary, limit, partners_of=self._partners_of
        )

    def _partners_of(self, row: int) -> list[int]:
        """The partners of a live row in either role. O(rows) unless the rule is symmetric."""
        rule = self.item.rule
        if isinstance(rule, Ind) or self.item.is_single:
            return []
        if is_symmetric(as_dc(rule)):
            pairs = self._detector.partners(self._number, np.array([row], np.int64), self._rows)
        else:
            pairs = of_row(self.item, row, {self.table: self._rows}, self._dictionary)
        assert pairs.s is not None
        return [int(partner) for partner in np.where(pairs.t == row, pairs.s, pairs.t)]


def shown(item: CheckedRule, pairs: Pairs, rows: Rows, dictionary: TextDictionary) -> list[Violation]:
    """Violations of a rule with their rows, for display."""
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
        Violation(t, s, (t_name, s_name), (t_row, s_row), compared)
        for t, s, t_name, s_name, t_row, s_row in zip(*ids, *names, *cells, strict=True)
    ]


def of_row(item: CheckedRule, row: int, rows: Mapping[str, Rows], dictionary: TextDictionary) -> Pairs:
    """The violations of a rule that contain one live row, each partner once. O(rows): compares it with every row.

    The row is t, or s if the pair violates the rule only in that order.
    """
    schemas = {name: table_rows.schema for name, table_rows in rows.items()}
    table = rows[table_of(item.rule, schemas)]
    row_id = np.array([row], np.int64)
    codes = table.codes_of(row_id)
    if isinstance(item.rule, Ind):
        return Pairs(row_id[_is_missing_on_the_right(item, item.rule, codes, rows, dictionary)])
    if item.is_single:
        return Pairs(row_id[rows_that_violate(item, table.schema, codes, dictionary)])
    ids, all_codes, repeated = table.ids(), table.codes(), np.repeat(codes, len(table), axis=1)
    sides = ({"t": repeated, "s": all_codes}, {"t": all_codes, "s": repeated})
    as_t, as_s = (ids[_pairs_violate(item, table.schema, side, dictionary) & (ids != row)] for side in sides)
    as_s = as_s[~np.isin(as_s, as_t)]
    t = np.concatenate([np.full(len(as_t), row), as_s])
    return Pairs(t, np.concatenate([as_t, np.full(len(as_s), row)]))


def _pairs_violate(item: CheckedRule, schema: Schema, codes: Mapping[str, Codes], dictionary: TextDictionary) -> Flags:
    """Which pairs violate a pair rule."""
    predicates = as_dc(item.rule).written  # type: ignore[arg-type]
    violate = pairs_that_satisfy(predicates, schema, codes, dictionary, item.nulls)
    for side in codes.values() if item.where else ():
        violate &= rows_that_satisfy(item.where, schema, side, dictionary, "sql")
    return violate


def _is_missing_on_the_right(
    item: CheckedRule, rule: Ind, codes: Codes, rows: Mapping[str, Rows], dictionary: TextDictionary
) -> Flags:
    """Whether one left row, given by its codes, violates an inclusion: no right row has its values."""
    left, right = rows[rule.left_table].schema, rows[rule.right_table]
    matches, right_codes = np.ones(len(right), np.bool_), right.codes()
    for left_name, right_name in zip(rule.left, rule.right, strict=True):
        left_value = codes[left.position(left_name)]
        if left_value[0] == NULL:
            return np.zeros(1, np.bool_)
        right_values = right_codes[right.schema.position(right_name)]
        right_column = right.schema.column(right_name)
        wanted, available = common_codes(left.column(left_name), left_value, right_column, right_values)
        matches &= (available == wanted[0]) & (right_values != NULL)
    applies = rows_that_satisfy(item.where, left, codes, dictionary, "sql") if item.where else np.ones(1, np.bool_)
    return np.asarray(applies & ~matches.any())
