"""Counts the violations of keys and FDs by groups of rows, without an index.

An index answers which rows violate a rule together with a row. As long as nobody asks that, the sizes of groups are
enough: a key is violated by sum n(n-1) pairs, an FD by sum n^2 - sum n_a^2, over the values a of its right side.
"""

from __future__ import annotations

import numpy as np

from holdfast.arrays import Positions
from holdfast.indexes.rowtest import rows_that_satisfy
from holdfast.rules.nulls import Nulls
from holdfast.rules.predicate import Predicate
from holdfast.rules.rule import Fd, Key
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.keys import groups
from holdfast.table.schema import Schema

_Left = tuple[tuple[str, ...], str, frozenset[Predicate]]


class GroupCounts:
    """Violating pairs of keys and FDs of one table. Rules with the same left side share their groups. O(rows) for each
    left side, and for each FD.

    >>> schema, codes = Schema.of(a="integer", b="integer"), np.array([[1, 1, 1, 2], [7, 7, 8, 9]])
    >>> counts = GroupCounts(schema, codes, TextDictionary())
    >>> counts.count(Key(frozenset("a")), "sql"), counts.count(Fd(frozenset("a"), "b"), "sql")
    (6, 4)
    """

    def __init__(self, schema: Schema, codes: Codes, dictionary: TextDictionary) -> None:
        self._schema, self._codes, self._dictionary = schema, codes, dictionary
        self._grouped: dict[_Left, tuple[Codes, Positions]] = {}

    def count(self, rule: Key | Fd, nulls: str, where: frozenset[Predicate] = frozenset()) -> int:
        """The number of violating ordered pairs."""
        left = rule.columns if isinstance(rule, Key) else rule.left
        codes, group = self._groups(tuple(sorted(left)), nulls, where)
        if isinstance(rule, Key):
            return _pairs(group)
        return _pairs_that_differ(group, codes[self._schema.position(rule.right)], nulls)

    def _groups(self, left: tuple[str, ...], nulls: str, where: frozenset[Predicate]) -> tuple[Codes, Positions]:
        """The rows that can agree with others on the left side: their codes, and the first row of each one's group."""
        key = left, str(nulls), where
        if key not in self._grouped:
            columns, codes = np.array(self._schema.positions(left), np.int64), self._codes
            if where:
                codes = codes[:, rows_that_satisfy(where, self._schema, codes, self._dictionary, Nulls.SQL)]
            empty = codes[columns] == NULL
            if nulls != Nulls.EQUAL and empty.any():
                codes = codes[:, ~empty.any(axis=0)]
            self._grouped[key] = codes, groups(codes, columns)
        return self._grouped[key]


def _pairs(group: Positions) -> int:
    """The ordered pairs of different members of a group."""
    sizes = np.bincount(group)
    sizes = sizes[sizes > 1]
    return int((sizes * (sizes - 1)).sum())


def _pairs_that_differ(group: Positions, right: Codes, nulls: str) -> int:
    """The ordered pairs of members of a group whose right values differ under a null policy."""
    null = right == NULL
    if nulls == Nulls.SQL and null.any():
        filled = np.flatnonzero(~null)
        group, right, null = groups(group[None, filled], np.arange(1)), right[filled], null[filled]
    odd = right != right[group]
    if nulls == Nulls.DISTINCT:
        odd |= null
    if not odd.any():
        return 0
    mixed = np.isin(group, group[odd])
    group, right, null = group[mixed], right[mixed], null[mixed]
    cells = np.stack([group, right])
    if nulls == Nulls.DISTINCT:
        cells = cells[:, ~null]
    return _pairs(group) - _pairs(groups(cells, np.arange(2)))
