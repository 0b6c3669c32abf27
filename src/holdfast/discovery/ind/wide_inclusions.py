"""Inclusions of several columns, enough for composite foreign keys.

A candidate is some unary inclusions between the same two tables. Those are tried whose parts all hold, from narrow to
wide; the widest that hold are the result. A left tuple with a null is ignored, and a left side without any tuple says
nothing. After a change only those candidates are tried again that it can have decided otherwise: a broken one when
tuples went on the left or came on the right, one that holds when tuples came on the left or went on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations, groupby

import numpy as np
import numpy.typing as npt

from holdfast.discovery.budget import Budget
from holdfast.discovery.ind.cells import Cells, Values
from holdfast.discovery.ind.inclusions import Inclusions, Pair
from holdfast.rules.change import RuleChange
from holdfast.rules.rule import Ind, Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.keys import groups

Candidate = tuple[Pair, ...]  # by left attribute
Witness = Values  # a left tuple that the right side does not have
HOLDS, VACUOUS = "holds", "vacuous"
Status = str | Witness


class WideInclusions:
    """The maximal exact inclusions of two columns and more, up to `most` of them (None: as wide as they are), made of
    the unary ones that are `eligible`."""

    def __init__(
        self, inclusions: Inclusions, most: int | None, eligible: Callable[[Pair], bool] = lambda _: True
    ) -> None:
        self._of, self._most, self._eligible = inclusions, most, eligible
        self._status: dict[Candidate, Status] = {}
        self._found: dict[Ind, Candidate] = {}

    @property
    def found(self) -> Mapping[Ind, Candidate]:
        return self._found

    def ruleset(self) -> RuleSet:
        return _ruleset(self._found)

    def begin(self, codes: Mapping[str, Codes], budget: Budget | None = None) -> None:
        """Finds them in rows, codes[table][column, row]; where time is up, what was proven until then. O(rows) for
        each candidate that is tried."""
        self._status = {}
        self._search(codes, budget or Budget())

    def follow(self, codes: Mapping[str, Codes], cells: Cells) -> RuleChange:
        """Brings them to rows after a change of these cells."""
        before, was = self._found, self._status
        went, came = ({*np.unique(cells.attributes[side]).tolist()} for side in (cells.amounts < 0, cells.amounts > 0))
        self._status = {c: status for c, status in was.items() if not _may_change(c, status, went, came)}
        self._search(codes, Budget())
        added, removed = ({r: c for r, c in some.items() if r not in other}
                          for some, other in ((self._found, before), (before, self._found)))  # fmt: skip
        now: dict[Ind, Status | None] = {rule: self._check(candidate, codes) for rule, candidate in removed.items()}
        decided = now | {rule: was.get(c) for rule, c in added.items()}

        def value(rule: Rule) -> object:
            status = decided.get(rule) if isinstance(rule, Ind) else None
            return self._of.shown(status) if isinstance(status, Values) else None

        lost = frozenset(rule for rule, status in now.items() if status == VACUOUS)
        return RuleChange(_ruleset(added), _ruleset(removed), value=value, vacuous=lost)

    def _search(self, codes: Mapping[str, Codes], budget: Budget) -> None:
        found = [candidate for pairs in self._by_tables() for candidate in self._widest(pairs, codes, budget)]
        self._found = {self._rule(candidate): candidate for candidate in found}

    def _by_tables(self) -> Iterator[list[Pair]]:
        """The unary inclusions between each two tables."""
        tables = [attribute.table for attribute in self._of.attributes]
        chosen = filter(self._eligible, self._of.exact_pairs())
        pairs = sorted(chosen, key=lambda p: (tables[p[0]], tables[p[1]], p))
        for _, some in groupby(pairs, key=lambda p: (tables[p[0]], tables[p[1]])):
            yield list(some)

    def _widest(self, pairs: list[Pair], codes: Mapping[str, Codes], budget: Budget) -> Iterator[Candidate]:
        """The widest candidates that hold, with all their parts."""
        level: set[Candidate] = {(pair,) for pair in pairs}
        width = 1
        while level and (self._most is None or width < self._most):
            wider = {c for c in _joined(level, budget) if self._check(c, codes) == HOLDS}
            if budget.ended:  # which of the level are the widest is not known
                return
            if width > 1:
                parts = {part for c in wider for part in combinations(c, width)}
                yield from (c for c in level if c not in parts)
            level, width = wider, width + 1
        if width > 1:
            yield from level

    def _check(self, candidate: Candidate, codes: Mapping[str, Codes]) -> Status:
        if candidate not in self._status:
            self._status[candidate] = self._tried(candidate, codes)
        return self._status[candidate]

    def _tried(self, candidate: Candidate, codes: Mapping[str, Codes]) -> Status:
        left, right = (self.tuples([pair[side] for pair in candidate], codes) for side in (0, 1))
        if not left.shape[1]:
            return VACUOUS
        both = np.concatenate([right, left], axis=1)
        lost = np.flatnonzero(groups(both, np.arange(len(both)))[right.shape[1] :] >= right.shape[1])
        return Values(left[0::2, lost[0]], left[1::2, lost[0]].astype(np.int16)) if len(lost) else HOLDS

    def tuples(self, attributes: list[int], codes: Mapping[str, Codes]) -> npt.NDArray[np.int64]:
        """The values of some columns in all rows that have no null there, as numbers and spaces."""
        places = [self._of.attributes[a] for a in attributes]
        rows = codes[places[0].table][[place.place for place in places]]
        rows = rows[:, (rows != NULL).all(axis=0)]
        parts = [self._of.identities(place.column, row) for place, row in zip(places, rows, strict=True)]
        return np.array([half for number, space in parts for half in (number, space.astype(np.int64))], np.int64)

    def _rule(self, candidate: Candidate) -> Ind:
        left, right = ([self._of.attributes[pair[side]] for pair in candidate] for side in (0, 1))
        names = [tuple(a.column.name for a in side) for side in (left, right)]
        return Ind(left[0].table, names[0], right[0].table, names[1])


def _joined(level: set[Candidate], budget: Budget) -> Iterator[Candidate]:
    """Candidates of one pair more, all of whose parts are in the level; no column stands twice on one side. They end
    when the budget does."""
    for _, some in groupby(sorted(level), key=lambda c: c[:-1]):
        for one, other in combinations(list(some), 2):
            if budget.spent():
                return
            (a, _), (b, right) = one[-1], other[-1]
            if a < b and all(right != taken for _, taken in one):
                joined = (*one, other[-1])
                if all(part in level for part in combinations(joined, len(one))):
                    yield joined


def _may_change(candidate: Candidate, status: Status, went: set[int], came: set[int]) -> bool:
    """Whether cells that went from and came to attributes can have decided a candidate otherwise."""
    (left_went, left_came), (right_went, right_came) = (
        [any(pair[side] in some for pair in candidate) for some in (went, came)] for side in (0, 1)
    )
    if status == VACUOUS:
        return left_came
    if status == HOLDS:
        return left_came or right_went or left_went
    return left_went or right_came


def _ruleset(rules: Iterable[Ind]) -> RuleSet:
    return RuleSet.from_rules(sorted(rules, key=str))
