"""How many values of each column other columns lack, and the unary inclusions that follow (S-INDD, Lemma 4.2).

`missing[A, B]` is the number of distinct values of A that are not in B: the sum of the sizes of all clusters with A and
without B. A is included in B iff the entry is zero, and nearly included if it is small. Queries never touch a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from holdfast.discovery.ind.cells import Gains
from holdfast.discovery.width import require_comparable
from holdfast.rules.change import RuleChange
from holdfast.rules.limit import most_within
from holdfast.rules.masks import Numbers, unpack
from holdfast.rules.names import quoted
from holdfast.rules.rule import Ind, Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.table.schema import Column, Schema

Pair = tuple[int, int]  # an attribute, and one that includes it
_AT_ONCE = 2048  # clusters that are summed at once


@dataclass(frozen=True)
class Attribute:
    """A column of a table, by position."""

    table: str
    place: int
    column: Column


class InclusionCounts:
    """The unary inclusions of a database, from the sizes of its clusters.

    `max_error`: the share of distinct left values that may be missing. `as_text`: all columns can be compared, not only
    those of one kind group.
    """

    def __init__(self, schemas: Mapping[str, Schema], *, max_error: float = 0.0, as_text: bool = False) -> None:
        self._max_error = max_error
        self.attributes = [
            Attribute(name, place, column)
            for name, schema in schemas.items()
            for place, column in enumerate(schema.columns)
        ]
        require_comparable(len(self.attributes))
        count = len(self.attributes)
        self.missing, self.distinct = np.zeros((count, count), np.int64), np.zeros(count, np.int64)
        groups = np.array([group_number(a.column, as_text) for a in self.attributes], np.int64)
        self.comparable = (groups[:, None] == groups[None, :]) & ~np.eye(count, dtype=np.bool_)

    def count_clusters(self, gains: Gains) -> None:
        """Adds changed sizes of clusters to `missing` and `distinct`. Sums are exact, far below 2^53."""
        for first in range(0, len(gains.masks), _AT_ONCE):
            bits = unpack(gains.masks[first : first + _AT_ONCE], len(self.attributes)).astype(np.float64)
            weighted = bits * gains.counts[first : first + _AT_ONCE].astype(np.float64)[:, None]
            self.missing += np.rint(weighted.T @ (1.0 - bits)).astype(np.int64)
            self.distinct += np.rint(weighted.sum(axis=0)).astype(np.int64)

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

    def rules(self) -> RuleSet:
        """The inclusions that hold, and the columns without values."""
        return RuleSet(self.ruleset(self.valid()).blocks, vacuous=self.vacuous())

    def changed_since(self, before: npt.NDArray[np.bool_], deciding_value: Callable[[int, int], object]) -> RuleChange:
        """The inclusions added and removed since `valid()` was `before`. `deciding_value` gives the value that broke or
        completed an inclusion [A, B]."""
        after = self.valid()
        if (before == after).all():
            return RuleChange()
        added, removed = self.ruleset(after & ~before), self.ruleset(before & ~after)
        lost = frozenset(self.rule(a, b) for a, b in np.argwhere(before & ~after).tolist() if not self.distinct[a])

        def value(rule: Rule) -> object:
            pair = self.pair(rule)
            return None if pair is None or rule in lost else deciding_value(*pair)

        return RuleChange(added, removed, value=value, vacuous=lost)

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


def group_number(column: Column, as_text: bool) -> int:
    """The number of a column's kind group; columns of one group can be compared."""
    return 0 if as_text else ("numbers", "dates", "booleans", "text").index(column.kind.group)
