"""What an index does for a group of rules: rows come and go, violating pairs come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from holdfast.indexes.pairs import Ids, Pairs
from holdfast.indexes.plan import Group, Side
from holdfast.indexes.rowtest import rows_that_satisfy
from holdfast.rules.rule import as_dc
from holdfast.table.dictionary import Codes, TextDictionary

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Index(Protocol):
    """Rows are given by id and by codes[column, row] of all columns; rules by their place in the group."""

    group: Group
    counts: Counts  # the exact number of violating ordered pairs of each rule

    @property
    def nbytes(self) -> int: ...

    def enter(self, ids: Ids, codes: Codes, limits: Counts) -> tuple[list[Pairs], list[bool]]:
        """Rows come: the pairs of each rule that come with them, and whether they were all listed.

        They are not where there are more than the rule's limit (-1: list nothing); `counts` is exact in any case.
        """

    def leave(self, ids: Ids, codes: Codes, limits: Counts) -> tuple[list[Pairs], list[bool]]:
        """Rows go: the pairs of each rule that go with them, likewise."""

    def partners(self, ids: Ids, codes: Codes, rule: int, *, emit: bool = True) -> tuple[Pairs, Counts]:
        """For rows that are here: the pairs of one rule in which they are t, and how many each has."""


MakeIndex = Callable[[Group, TextDictionary], Index]


def members(group: Group, side: Side, codes: Codes, words: TextDictionary) -> Mask:
    """Who may stand in a role: rows that pass its filter and whose key can be equal to another."""
    allowed = ~group.key_is_null(side, codes)
    for tests, nulls in ((side.filter, group.rules[0].nulls), (side.where, "sql")):
        if tests:
            allowed &= rows_that_satisfy(tests, group.schema, codes, words, nulls)
    return allowed


def violate_with_themselves(group: Group, rule: int, codes: Codes, words: TextDictionary) -> Mask:
    """Rows that would violate the rule if a row were its own partner."""
    compiled = group.rules[rule]
    found = rows_that_satisfy(as_dc(compiled.rule).written, group.schema, codes, words, compiled.nulls)  # type: ignore[arg-type]
    return found & rows_that_satisfy(compiled.t.where, group.schema, codes, words, "sql")
