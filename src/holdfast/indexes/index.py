"""What an index does for a group of rules: rows come and go, violating pairs come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from holdfast.indexes.pairs import Ids, Pairs
from holdfast.indexes.plan import Group, Side
from holdfast.indexes.rowtest import rows_that_satisfy
from holdfast.rules.rule import as_dc
from holdfast.table.dictionary import Codes, TextDictionary

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class PairChanges(NamedTuple):
    """What a change did to the pairs of each rule: those that went and came where they are all listed, and how many."""

    removed: list[Pairs]
    count_removed: Counts
    added: list[Pairs]
    count_added: Counts
    listed: list[bool]


class Index(Protocol):
    """Rows are given by id and by codes[column, row] of all columns; rules by their place in the group."""

    group: Group
    counts: Counts  # the exact number of violating ordered pairs of each rule
    asked_at_once: int  # rows that `partners` is best given when all pairs are listed
    least_asked: int  # and when only the first ones are
    works_elsewhere: bool  # so that several may be asked side by side

    @property
    def nbytes(self) -> int: ...

    def change(self, leave: Ids, leave_codes: Codes, come: Ids, come_codes: Codes, limits: Counts) -> PairChanges:
        """Rows go, then rows come: the pairs of each rule that went with the ones and came with the others.

        Those of a rule are listed unless there are more than its limit (-1: list nothing); counts are always exact.
        """

    def partners(self, ids: Ids, codes: Codes, rule: int, *, emit: bool = True) -> tuple[Pairs, Counts]:
        """For rows that are here: the pairs of one rule in which they are t, and how many each has."""


class Moving(Protocol):
    """An index in memory: rows come and go, with their pairs, and whether these were all listed."""

    counts: Counts

    def enter(self, ids: Ids, codes: Codes, limits: Counts) -> tuple[list[Pairs], list[bool]]: ...

    def leave(self, ids: Ids, codes: Codes, limits: Counts) -> tuple[list[Pairs], list[bool]]: ...


def moved(index: Moving, leave: Ids, leave_codes: Codes, come: Ids, come_codes: Codes, limits: Counts) -> PairChanges:
    """Rows go, then rows come."""
    before = index.counts.copy()
    removed, removed_listed = index.leave(leave, leave_codes, limits)
    middle = index.counts.copy()
    added, added_listed = index.enter(come, come_codes, limits)
    listed = [a and b for a, b in zip(removed_listed, added_listed, strict=True)]
    return PairChanges(removed, before - middle, added, index.counts - middle, listed)


MakeIndex = Callable[[Group, TextDictionary], Index]


def members(group: Group, side: Side, codes: Codes, dictionary: TextDictionary) -> Mask:
    """Who may stand in a role: rows that pass its filter and whose key can be equal to another."""
    allowed = ~group.key_is_null(side, codes)
    for tests, nulls in ((side.filter, group.rules[0].nulls), (side.where, "sql")):
        if tests:
            allowed &= rows_that_satisfy(tests, group.schema, codes, dictionary, nulls)
    return allowed


def violate_with_themselves(group: Group, rule: int, codes: Codes, dictionary: TextDictionary) -> Mask:
    """Rows that would violate the rule if a row were its own partner."""
    compiled = group.rules[rule]
    found = rows_that_satisfy(as_dc(compiled.rule).written, group.schema, codes, dictionary, compiled.nulls)  # type: ignore[arg-type]
    return found & rows_that_satisfy(compiled.t.where, group.schema, codes, dictionary, "sql")
