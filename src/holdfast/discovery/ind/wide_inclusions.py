"""Inclusions of several columns, for composite foreign keys.

A candidate is a set of unary inclusions between the same two tables. The search goes from narrow to wide candidates and
tests those whose parts all hold; the maximal ones that hold are the result. Left tuples with a null are ignored; a left
side without tuples is vacuous. After a change only candidates whose status it can have changed are tested again: a
broken one if left cells were removed or right cells added, one that holds if left cells were added or cells of either
side removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import combinations, groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.discovery.budget import Budget
from holdfast.discovery.ind.cells import Values
from holdfast.discovery.ind.counts import InclusionCounts, Pair
from holdfast.discovery.ind.inclusions import Inclusions
from holdfast.rules.change import RuleChange
from holdfast.rules.rule import Ind, Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.keys import groups

Candidate = tuple[Pair, ...]  # sorted by left attribute
HOLDS, VACUOUS = "holds", "vacuous"
Status = Any  # HOLDS, VACUOUS, or a witness: a left tuple that the right side lacks
Tests = Callable[[Iterable[Candidate]], Iterator[tuple[Candidate, Status]]]  # what becomes of candidates, in order


class WideInclusions:
    """The maximal exact inclusions of two or more columns, at most `most` (None: no limit), built from the `eligible`
    ones among the unary inclusions of `counts`."""

    def __init__(
        self, counts: InclusionCounts, most: int | None, eligible: Callable[[Pair], bool] = lambda _: True
    ) -> None:
        self._of, self._most, self._eligible = counts, most, eligible
        self.status: dict[Candidate, Status] = {}
        self._found: dict[Ind, Candidate] = {}

    @property
    def found(self) -> Mapping[Ind, Candidate]:
        return self._found

    def ruleset(self) -> RuleSet:
        return _ruleset(self._found)

    def begin(self, tests: Tests, budget: Budget | None = None) -> None:
        """Finds the inclusions. If the budget runs out, those proven until then."""
        self.status = {}
        self._search(tests, budget or Budget())

    def following(self, counts: InclusionCounts) -> WideInclusions:
        """The same inclusions, to be updated to the unary inclusions of `counts`."""
        made = WideInclusions(counts, self._most, self._eligible)
        made.status, made._found = self.status, self._found
        return made

    def restore(self, status: Mapping[Candidate, Status]) -> None:
        """Finds the inclusions from the status of every candidate."""
        self.status = dict(status)
        self._search(_nothing_to_test, Budget())

    def update(
        self, tests: Tests, less: Collection[int], more: Collection[int], shown: Callable[[Any], object]
    ) -> RuleChange:
        """Updates the inclusions after a change. `less`, `more`: attributes with removed and with added cells; `shown`
        makes a witness readable."""
        before, status_before = self._found, self.status
        self.status = {c: status for c, status in status_before.items() if not _may_change(c, status, less, more)}
        self._search(tests, Budget())
        added = {rule: candidate for rule, candidate in self._found.items() if rule not in before}
        removed = {rule: candidate for rule, candidate in before.items() if rule not in self._found}
        now = dict(self._checked(removed.values(), tests))
        decided = {rule: now[candidate] for rule, candidate in removed.items()}
        decided |= {rule: status_before.get(candidate) for rule, candidate in added.items()}

        def value(rule: Rule) -> object:
            status = decided.get(rule) if isinstance(rule, Ind) else None
            return None if status is None or isinstance(status, str) else shown(status)

        lost = frozenset(rule for rule, candidate in removed.items() if _is(now[candidate], VACUOUS))
        return RuleChange(_ruleset(added), _ruleset(removed), value=value, vacuous=lost)

    def _search(self, tests: Tests, budget: Budget) -> None:
        widest = [candidate for pairs in self._by_tables() for candidate in self._widest(pairs, tests, budget)]
        self._found = {self._rule(candidate): candidate for candidate in widest}

    def _by_tables(self) -> Iterator[list[Pair]]:
        """The eligible unary inclusions, for each two tables."""
        tables = [attribute.table for attribute in self._of.attributes]
        chosen = filter(self._eligible, self._of.exact_pairs())
        pairs = sorted(chosen, key=lambda p: (tables[p[0]], tables[p[1]], p))
        for _, group in groupby(pairs, key=lambda p: (tables[p[0]], tables[p[1]])):
            yield list(group)

    def _widest(self, pairs: list[Pair], tests: Tests, budget: Budget) -> Iterator[Candidate]:
        """The maximal candidates that hold, level by level."""
        level: set[Candidate] = {(pair,) for pair in pairs}
        width = 1
        while level and (self._most is None or width < self._most):
            wider = {c for c, status in self._checked(_joined(level, budget), tests) if _is(status, HOLDS)}
            if budget.ended:  # which of the level are the widest is not known
                return
            if width > 1:
                parts = {part for c in wider for part in combinations(c, width)}
                yield from (c for c in level if c not in parts)
            level, width = wider, width + 1
        if width > 1:
            yield from level

    def _checked(self, candidates: Iterable[Candidate], tests: Tests) -> Iterator[tuple[Candidate, Status]]:
        """The status of candidates, which is kept."""
        known = []

        def unknown() -> Iterator[Candidate]:
            for candidate in candidates:
                if candidate in self.status:
                    known.append(candidate)
                else:
                    yield candidate

        for candidate, status in tests(unknown()):
            self.status[candidate] = status
            yield candidate, status
        yield from ((candidate, self.status[candidate]) for candidate in known)

    def _rule(self, candidate: Candidate) -> Ind:
        left, right = ([self._of.attributes[pair[side]] for pair in candidate] for side in (0, 1))
        names = [tuple(a.column.name for a in side) for side in (left, right)]
        return Ind(left[0].table, names[0], right[0].table, names[1])


class CodeTuples:
    """Tests candidates on rows, codes[table][column, row]: O(rows) for each."""

    def __init__(self, inclusions: Inclusions, codes: Mapping[str, Codes]) -> None:
        self._of, self._codes = inclusions, codes

    def __call__(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, Status]]:
        for candidate in candidates:
            yield candidate, self._status(candidate)

    def _status(self, candidate: Candidate) -> Status:
        left, right = (self.tuples([pair[side] for pair in candidate]) for side in (0, 1))
        if not left.shape[1]:
            return VACUOUS
        both = np.concatenate([right, left], axis=1)
        missing = np.flatnonzero(groups(both, np.arange(len(both)))[right.shape[1] :] >= right.shape[1])
        return Values(left[0::2, missing[0]], left[1::2, missing[0]].astype(np.int16)) if len(missing) else HOLDS

    def tuples(self, attributes: list[int]) -> npt.NDArray[np.int64]:
        """The values of columns, as numbers and spaces, in all rows without a null there."""
        places = [self._of.attributes[a] for a in attributes]
        rows = self._codes[places[0].table][[place.place for place in places]]
        rows = rows[:, (rows != NULL).all(axis=0)]
        parts = [self._of.identities(place.column, row) for place, row in zip(places, rows, strict=True)]
        return np.array([half for number, space in parts for half in (number, space.astype(np.int64))], np.int64)


def _nothing_to_test(candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, Status]]:
    """For candidates whose status is known."""
    assert not list(candidates)
    return iter(())


def _is(status: Status, what: str) -> bool:
    return isinstance(status, str) and status == what


def _joined(level: set[Candidate], budget: Budget) -> Iterator[Candidate]:
    """Candidates with one more pair, all of whose parts are in the level and no column of which repeats on one side.
    Stops when the budget is spent."""
    for _, group in groupby(sorted(level), key=lambda c: c[:-1]):
        for first, second in combinations(list(group), 2):
            if budget.spent():
                return
            (a, _), (b, right) = first[-1], second[-1]
            if a < b and all(right != taken for _, taken in first):
                joined = (*first, second[-1])
                if all(part in level for part in combinations(joined, len(first))):
                    yield joined


def _may_change(candidate: Candidate, status: Status, less: Collection[int], more: Collection[int]) -> bool:
    """Whether a candidate's status can have changed. `less`, `more`: attributes with removed and with added cells."""
    (left_less, left_more), (right_less, right_more) = (
        [any(pair[side] in attributes for pair in candidate) for attributes in (less, more)] for side in (0, 1)
    )
    if _is(status, VACUOUS):
        return left_more
    if _is(status, HOLDS):
        return left_more or right_less or left_less
    return left_less or right_more


def _ruleset(rules: Iterable[Ind]) -> RuleSet:
    return RuleSet.from_rules(sorted(rules, key=str))
