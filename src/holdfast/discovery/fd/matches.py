"""The pairs with an inserted row that can violate a rule, without comparing all pairs.

A pair that violates X -> A agrees on X, and so on any part of X. The matcher chooses small parts on which few pairs
agree, such that every left side contains one of them, and finds the pairs that agree on each part by hash. (The idea of
SelectIndex of IncDC, for equalities.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt

from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.discovery.fd.collapsed import CollapsedRules
from holdfast.discovery.pair_sets import Tally
from holdfast.discovery.pair_tiles import known_columns
from holdfast.kernels.agree_match import count_matches
from holdfast.rules.masks import Masks, Numbers, among, distinct, unpack
from holdfast.table.dictionary import NULL, Codes

_SCAN, _COLUMN, _MATCH = 10.0, 5.0, 50.0  # nanoseconds for a row, for a hashed column of it, and for a match
_PAIR, _PAIR_COLUMN = 0.8, 0.1  # nanoseconds for a pair and for a column of it, if all pairs are compared
_LEADING, _SAMPLE = 128, 1024  # inserted rows, and rows, from which the number of matches is estimated
_PART = 2  # columns of a part, at most, unless it is a whole left side
MAX_MATCHES = 50_000_000  # of one part
MAX_LEFTS = 20_000  # left sides

Part = tuple[int, ...]
Bits = npt.NDArray[np.uint8]


class Matcher:
    """Finds pairs of rows of which at least one is among the first `lead`, the inserted ones."""

    def __init__(self, codes: Codes, lead: int, agree_sets: AgreeSets) -> None:
        """`agree_sets` compares all pairs, if that is cheaper."""
        self._codes, self._lead, self._all = np.ascontiguousarray(codes), lead, agree_sets
        self._nulls, self._sql = agree_sets.nulls, agree_sets.nulls == "sql"
        self._known = known_columns(self._codes, self._nulls)

    def tally(self, rules: CollapsedRules) -> Tally | None:
        """Agree-sets with a pair each, by position; all pairs that violate a rule are among those counted. None if
        there are too many matches, for example because a column is no longer constant."""
        width = self._known.shape[1] * (2 if self._sql else 1)
        empty = ~rules.lefts.any(axis=1)
        lefts = distinct(rules.lefts[~empty])
        if len(lefts) > MAX_LEFTS or not all(map(self._is_constant, rules.rights[empty].tolist())):
            return None
        parts = list(self._chosen(lefts))
        if sum(cost for _, _, cost in parts) > self._lead * self._codes.shape[1] * (
            _PAIR + _PAIR_COLUMN * rules.columns
        ):
            return self._all.pairs(np.arange(self._lead), self._codes[:, : self._lead], *self._rest())
        tallies = []
        for part, lefts_of_part, _ in parts:
            rights = np.unique(rules.rights[among(rules.lefts, lefts_of_part)])
            ends = rights if rights[-1] < rules.columns else rights[:0]  # a key: all matches count
            sets, counts, pairs, complete = count_matches(
                self._codes, self._known, np.array(part, np.int64), ends, self._lead, self._sql, MAX_MATCHES
            )
            if not complete:
                return None
            tallies.append(Tally(sets, counts, pairs))
        return Tally.total(tallies, width)

    def _rest(self) -> tuple[Numbers, Codes]:
        return np.arange(self._lead, self._codes.shape[1]), self._codes[:, self._lead :]

    def _is_constant(self, column: int) -> bool:
        """Whether a column that was constant still is."""
        values = self._codes[column]
        if self._nulls == "sql":
            values = values[values != NULL]
        return bool((values == values[:1]).all())

    def _chosen(self, lefts: Masks) -> Iterator[tuple[Part, Masks, float]]:
        """(part, left sides that it is for, cost) of parts such that each left side contains one. Greedy: the part with
        most left sides for its cost comes first."""
        bits = unpack(lefts, len(self._codes))
        agree = self._sampled()
        columns = [tuple(np.flatnonzero(row).tolist()) for row in bits]
        parts = sorted({part for left in columns for part in (left, *_parts(left))})
        inside = np.array([bits[:, part].all(axis=1) for part in parts])
        costs = np.array([self._cost(agree, part) for part in parts])
        missing = np.ones(len(lefts), np.bool_)
        while missing.any():
            best = int(np.argmax((inside & missing).sum(axis=1) / costs))
            yield parts[best], lefts[inside[best] & missing], float(costs[best])
            missing &= ~inside[best]

    def _sampled(self) -> list[Bits]:
        """[column]: which pairs of a sample agree in it, as packed bits."""
        inserted = self._codes[:, : min(self._lead, _LEADING)]
        partners = self._codes[:, :: max(1, self._codes.shape[1] // _SAMPLE)]
        return [np.packbits(inserted[c][:, None] == partners[c][None, :]) for c in range(len(self._codes))]

    def _cost(self, agree: list[Bits], part: Part) -> float:
        """The estimated nanoseconds for finding the pairs that agree on a part."""
        both = agree[part[0]]
        for c in part[1:]:
            both = both & agree[c]
        share = int(np.bitwise_count(both).sum(dtype=np.int64)) / (8 * len(both))
        rows = int(self._codes.shape[1])
        return rows * (_SCAN + _COLUMN * len(part)) + share * rows * self._lead * _MATCH


def _parts(left: Part) -> list[Part]:
    """The small parts of a left side."""
    return [part for size in range(1, _PART + 1) for part in combinations(left, size)]
