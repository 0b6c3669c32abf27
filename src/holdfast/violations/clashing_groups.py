"""The violations of keys and FDs as groups of rows: which values clash, how often each occurs, and the odd rows.

A group with nine rows of one value and one row of another has 18 violating pairs; a reader needs one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.arrays import Flags, Positions
from holdfast.indexes.rowtest import rows_that_satisfy
from holdfast.rules.nulls import Nulls
from holdfast.rules.rule import Fd, Key
from holdfast.rules.wording import counted
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.encode import decode_column
from holdfast.table.keys import groups
from holdfast.table.rows import Rows
from holdfast.violations.detect import CheckedRule
from holdfast.violations.listing import names_of

_MOST_VALUES, _MOST_ROWS = 5, 5  # of a group that are named


@dataclass(frozen=True)
class Clashing:
    """One value of a group: in how many rows it is, and the newest of these rows, by name and by id."""

    value: object
    count: int
    rows: tuple[object, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True)
class ClashingGroup:
    """Rows that agree on the left side of an FD, or on a key. `values`: those of the right side, the commonest first;
    for a key, one entry with all rows."""

    left: dict[str, object]
    values: tuple[Clashing, ...]
    count: int
    right: str | None

    def __str__(self) -> str:
        """`San Francisco: CA 9 rows, CN 1 row (417)`."""
        left = ", ".join(_shown(value) for value in self.left.values()) or "all rows"
        if self.right is None:
            return f"{left}: {counted(self.count, 'row')} ({_listed(self.values[0])})"
        parts = [f"{_in_rows(v.value)} {counted(v.count, 'row')}" for v in self.values]
        parts[1:] = [f"{part} ({_listed(v)})" for part, v in zip(parts[1:], self.values[1:], strict=True)]
        rest = self.count - sum(v.count for v in self.values)
        others = [f"{counted(rest, 'row')} with other values"] if rest else []
        return f"{left}: {', '.join([*parts, *others])}"

    def record(self) -> dict[str, Any]:
        """The fields for JSON."""
        values = [{"value": _for_json(v.value), "count": v.count, "rows": list(v.rows)} for v in self.values]
        return {
            "left": {name: _for_json(value) for name, value in self.left.items()},
            "right": self.right,
            "rows": self.count,
            "values": values,
        }


@dataclass(frozen=True)
class ClashingGroups:
    """The first groups of a rule's violations, the largest first. `count`: of all groups; `rows`: in all groups;
    `fewest`: how many of these must be changed or removed so that nothing clashes."""

    groups: tuple[ClashingGroup, ...]
    count: int
    rows: int
    fewest: int


def clashing_groups(
    item: CheckedRule,
    rows: Rows,
    dictionary: TextDictionary,
    most: int | None = None,
    newcomers: Positions | None = None,
) -> ClashingGroups | None:
    """The groups of the violations of a key or an FD; None for other rules. `newcomers`: only groups that have one of
    these rows, which are named first. O(rows)."""
    if not isinstance(item.rule, Key | Fd):
        return None
    left = item.rule.columns if isinstance(item.rule, Key) else item.rule.left
    places = sorted(rows.schema.position(name) for name in left)
    right = rows.schema.position(item.rule.right) if isinstance(item.rule, Fd) else None
    codes, ids = rows.codes(), rows.ids()
    kept = _that_count(item, rows, dictionary, codes, places, right)
    codes, ids = codes[:, kept], ids[kept]
    group = groups(np.ascontiguousarray(codes[places]), np.arange(len(places))) if places else np.zeros(len(ids), int)
    bad = _clashing(group, None if right is None else codes[right], item.nulls)
    is_new = np.isin(ids, newcomers if newcomers is not None else ids[:0])
    if newcomers is not None:
        bad = bad[np.isin(bad, group[is_new])]
    sizes = np.bincount(group, minlength=len(group))[bad] if len(bad) else np.zeros(0, int)
    chosen = bad[np.lexsort((bad, -sizes))][:most]
    reader = _Reader(rows, dictionary, codes, ids, is_new, group, places, right)
    kept_rows = _most_that_agree(group, None if right is None else codes[right], bad, item.nulls)
    return ClashingGroups(
        tuple(map(reader.read, chosen.tolist())), len(bad), int(sizes.sum()), int(sizes.sum()) - kept_rows
    )


def _that_count(
    item: CheckedRule, rows: Rows, dictionary: TextDictionary, codes: Codes, left: Sequence[int], right: int | None
) -> Positions:
    """The rows that can violate the rule under its null policy and filter."""
    kept = np.ones(codes.shape[1], np.bool_)
    if item.where:
        kept &= rows_that_satisfy(item.where, rows.schema, codes, dictionary, Nulls.SQL)
    if item.nulls != Nulls.EQUAL:
        kept &= ~(codes[list(left)] == NULL).any(axis=0)
    if item.nulls == Nulls.SQL and right is not None:
        kept &= codes[right] != NULL
    return np.flatnonzero(kept)


def _clashing(group: Positions, right: Codes | None, nulls: str) -> Positions:
    """The first row of each group whose rows clash."""
    if right is None:
        sizes = np.bincount(group, minlength=len(group))
        return np.flatnonzero(sizes > 1)
    odd = right != right[group]
    if nulls == Nulls.DISTINCT:
        null = right == NULL
        sizes = np.bincount(group, minlength=len(group))
        odd |= null & (sizes[group] > 1)
    return np.unique(group[odd])


def _most_that_agree(group: Positions, right: Codes | None, bad: Positions, nulls: str) -> int:
    """How many rows of these groups can stay: in each, those of the commonest right value, or one row of a key."""
    if right is None or not len(bad):
        return len(bad)
    is_bad = np.isin(group, bad)
    of_bad, values = group[is_bad], right[is_bad]
    order = np.lexsort((values, of_bad))
    of_bad, values = of_bad[order], values[order]
    starts = np.flatnonzero((np.diff(of_bad, prepend=-1) != 0) | (np.diff(values, prepend=values[0]) != 0))
    counts = np.diff(starts, append=len(values))
    if nulls == Nulls.DISTINCT:
        counts[values[starts] == NULL] = 1
    firsts = np.flatnonzero(np.diff(of_bad[starts], prepend=-1))
    return int(np.maximum.reduceat(counts, firsts).sum())


@dataclass(frozen=True)
class _Reader:
    """Reads groups as values."""

    rows: Rows
    dictionary: TextDictionary
    codes: Codes
    ids: Positions
    is_new: Flags
    group: Positions
    left: Sequence[int]
    right: int | None

    def read(self, first: int) -> ClashingGroup:
        """The group of a first row."""
        start, stop = np.searchsorted(self._sorted, (first, first + 1))
        members = self._order[start:stop]
        left = {self.rows.schema.names[c]: self._values(c, members[:1])[0].as_py() for c in self.left}
        if self.right is None:
            return ClashingGroup(left, (self._clashing(None, members),), len(members), None)
        values, number, counts = np.unique(self.codes[self.right, members], return_inverse=True, return_counts=True)
        order = np.lexsort((values, -counts))
        has_new = np.bincount(number, self.is_new[members], len(values)) > 0
        order[1:] = order[1:][np.argsort(~has_new[order[1:]], kind="stable")]  # newcomers behind the commonest value
        order = order[:_MOST_VALUES]
        parts = [members[number == place] for place in order.tolist()]
        clashing = tuple(self._clashing(self._values(self.right, part[:1])[0].as_py(), part) for part in parts)
        return ClashingGroup(left, clashing, len(members), self.rows.schema.names[self.right])

    @cached_property
    def _order(self) -> Positions:
        """The rows, group behind group."""
        return np.argsort(self.group, kind="stable")

    @cached_property
    def _sorted(self) -> Positions:
        return np.asarray(self.group[self._order])

    def _values(self, column: int, places: Positions) -> pa.Array:
        return decode_column(self.rows.schema.columns[column], self.codes[column, places], self.dictionary)

    def _clashing(self, value: object, places: Positions) -> Clashing:
        """A value with its rows, newcomers first, then the newest."""
        order = np.lexsort((-self.ids[places], ~self.is_new[places]))
        newest = self.ids[places[order[:_MOST_ROWS]]]
        names = names_of(newest, self.rows, self.dictionary).to_pylist()
        return Clashing(value, len(places), tuple(names), tuple(newest.tolist()))


def _for_json(value: object) -> object:
    """A value that JSON has; NaN and infinity as text."""
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def _shown(value: object) -> str:
    return "empty" if value is None else str(value)


def _in_rows(value: object) -> str:
    """A value before a number of rows: `CA`, `179 in`."""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return f"{_shown(value)} in" if is_number else _shown(value)


def _listed(clashing: Clashing) -> str:
    names = ", ".join(_name(row) for row in clashing.rows)
    return f"{names}, ..." if clashing.count > len(clashing.rows) else names


def _name(row: object) -> str:
    return ", ".join(map(str, row.values())) if isinstance(row, dict) else str(row)
