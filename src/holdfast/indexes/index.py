"""The interface of an index: it takes inserted and deleted rows and returns the violating pairs they add and remove."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Flags
from holdfast.indexes.pairs import Ids, Pairs
from holdfast.indexes.plan import Group, Side
from holdfast.indexes.rowtest import rows_that_satisfy
from holdfast.table.dictionary import Codes, TextDictionary

Counts = npt.NDArray[np.int64]


class PairChanges(NamedTuple):
    """Violating pairs that a change removed and added, by rule. Counts are exact; pairs are given where `listed`."""

    removed: list[Pairs]
    count_removed: Counts
    added: list[Pairs]
    count_added: Counts
    listed: list[bool]


class Index(Protocol):
    """Finds violating pairs for the rules of one group.

    Rows are given by id and by codes[column, row] of all columns, a rule by its position in the group.
    """

    group: Group
    counts: Counts  # exact number of violating ordered pairs, by rule
    asked_at_once: int  # rows per call of `partners` that work best to list all pairs
    least_asked: int  # fewest rows per call that are worth it when only the first pairs are listed

    @property
    def nbytes(self) -> int: ...

    def change(self, leave: Ids, leave_codes: Codes, come: Ids, come_codes: Codes, limits: Counts) -> PairChanges:
        """Deletes the rows `leave`, then inserts the rows `come`. Returns the pairs that this removed and added.

        A rule's pairs are listed unless they exceed its limit (-1: list nothing). Counts are always exact.
        """

    def partners(self, ids: Ids, codes: Codes, rule: int, *, emit: bool = True) -> tuple[Pairs, Counts]:
        """For rows of the index: the pairs of one rule in which they are t, and their number by row."""


class InMemoryIndex(Protocol):
    """An index that inserts and deletes rows separately. Both return pairs by rule, and whether each list is whole."""

    counts: Counts

    def enter(self, ids: Ids, codes: Codes, limits: Counts) -> tuple[list[Pairs], list[bool]]: ...

    def leave(self, ids: Ids, codes: Codes, limits: Counts) -> tuple[list[Pairs], list[bool]]: ...


def moved(
    index: InMemoryIndex, leave: Ids, leave_codes: Codes, come: Ids, come_codes: Codes, limits: Counts
) -> PairChanges:
    """`Index.change` of an index in memory: deletes, then inserts."""
    before = index.counts.copy()
    removed, removed_listed = index.leave(leave, leave_codes, limits)
    between = index.counts.copy()
    added, added_listed = index.enter(come, come_codes, limits)
    listed = [a and b for a, b in zip(removed_listed, added_listed, strict=True)]
    return PairChanges(removed, before - between, added, index.counts - between, listed)


MakeIndex = Callable[[Group, TextDictionary], Index]


def members(group: Group, side: Side, codes: Codes, dictionary: TextDictionary) -> Flags:
    """Rows that qualify for a role: they pass its filters, and their key can equal another key."""
    allowed = ~group.key_is_null(side, codes)
    for tests, nulls in ((side.filter, group.rules[0].nulls), (side.where, "sql")):
        if tests:
            allowed &= rows_that_satisfy(tests, group.schema, codes, dictionary, nulls)
    return allowed


def violate_with_themselves(group: Group, rule: int, codes: Codes, dictionary: TextDictionary) -> Flags:
    """Rows that would violate the rule if a row could be its own partner."""
    compiled = group.rules[rule]
    violates = rows_that_satisfy(compiled.predicates, group.schema, codes, dictionary, compiled.nulls)
    return violates & rows_that_satisfy(compiled.t.where, group.schema, codes, dictionary, "sql")
