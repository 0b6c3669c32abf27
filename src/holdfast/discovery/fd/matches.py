"""The pairs of rows that come which can violate a rule, without looking at all pairs.

A pair that violates X -> A agrees on X, so also on any part of X. A few parts of few columns, on which few pairs
agree, are chosen so that every left side contains one; the pairs that agree on each are found by hash. (The same
thought as SelectIndex of IncDC, for equalities.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt

from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.discovery.fd.collapsed import Collapsed
from holdfast.discovery.pair_sets import Tally
from holdfast.discovery.pair_tiles import known
from holdfast.kernels.agree_match import count_matches
from holdfast.rules.masks import Masks, Numbers, among, distinct, unpack
from holdfast.table.dictionary import NULL, Codes

_SCAN, _COLUMN, _MATCH = 10.0, 5.0, 50.0  # nanoseconds for a row, for each column that is hashed, and for a match
_PAIR, _PAIR_COLUMN = 0.8, 0.1  # for a pair, and for each column of it, where all pairs are compared
_LEADING, _SAMPLE = 128, 1024  # rows from which the number of matches is estimated
_PART = 2  # columns of a part, unless it is a whole left side
MAX_MATCHES = 50_000_000  # of one part
MAX_LEFTS = 20_000

Part = tuple[int, ...]
Bits = npt.NDArray[np.uint8]


class Matcher:
    """Rows, of which the first `lead` come to the others."""

    def __init__(self, codes: Codes, lead: int, everything: AgreeSets) -> None:
        """`everything` compares all pairs, where that is cheaper."""
        self._codes, self._lead, self._all = np.ascontiguousarray(codes), lead, everything
        self._nulls, self._sql = everything.nulls, everything.nulls == "sql"
        self._known = known(self._codes, self._nulls)

    def tally(self, rules: Collapsed) -> Tally | None:
        """The agree-sets of all pairs that violate some rule, and of others, with a pair each; None where they are too
        many, as with a column that is no longer constant."""
        width = self._known.shape[1] * (2 if self._sql else 1)
        empty = ~rules.lefts.any(axis=1)
        lefts = distinct(rules.lefts[~empty])
        if len(lefts) > MAX_LEFTS or not all(map(self._is_constant, rules.rights[empty].tolist())):
            return None
        chosen = list(self._chosen(lefts))
        if sum(cost for _, _, cost in chosen) > self._lead * self._codes.shape[1] * (
            _PAIR + _PAIR_COLUMN * rules.columns
        ):
            return self._all.pairs(np.arange(self._lead), self._codes[:, : self._lead], *self._rest())
        found = []
        for part, covered, _ in chosen:
            rights = np.unique(rules.rights[among(rules.lefts, covered)])
            ends = rights if rights[-1] < rules.columns else rights[:0]  # every pair differs in the end of a key
            sets, counts, pairs, complete = count_matches(
                self._codes, self._known, np.array(part, np.int64), ends, self._lead, self._sql, MAX_MATCHES
            )
            if not complete:
                return None
            found.append(Tally(sets, counts, pairs))
        return Tally.total(found, width)

    def _rest(self) -> tuple[Numbers, Codes]:
        return np.arange(self._lead, self._codes.shape[1]), self._codes[:, self._lead :]

    def _is_constant(self, column: int) -> bool:
        """Whether a column that was constant still is."""
        values = self._codes[column]
        if self._nulls == "sql":
            values = values[values != NULL]
        return bool((values == values[:1]).all())

    def _chosen(self, lefts: Masks) -> Iterator[tuple[Part, Masks, float]]:
        """Parts such that each left side contains one, the left sides that each is for, and what it costs: those that
        cover most for that, first."""
        bits = unpack(lefts, len(self._codes))
        agree = self._sampled()
        columns = [tuple(np.flatnonzero(row).tolist()) for row in bits]
        parts = sorted({p for left in columns for p in (left, *_parts(left))})
        inside = np.array([bits[:, part].all(axis=1) for part in parts])
        costs = np.array([self._cost(agree, part) for part in parts])
        missing = np.ones(len(lefts), np.bool_)
        while missing.any():
            best = int(np.argmax((inside & missing).sum(axis=1) / costs))
            yield parts[best], lefts[inside[best] & missing], float(costs[best])
            missing &= ~inside[best]

    def _sampled(self) -> list[Bits]:
        """For each column which pairs of a sample agree, packed."""
        some = self._codes[:, : min(self._lead, _LEADING)]
        step = max(1, self._codes.shape[1] // _SAMPLE)
        others = self._codes[:, ::step]
        return [np.packbits(some[c][:, None] == others[c][None, :]) for c in range(len(self._codes))]

    def _cost(self, agree: list[Bits], part: Part) -> float:
        both = agree[part[0]]
        for c in part[1:]:
            both = both & agree[c]
        share = int(np.bitwise_count(both).sum(dtype=np.int64)) / (8 * len(both))
        rows = int(self._codes.shape[1])
        return rows * (_SCAN + _COLUMN * len(part)) + share * rows * self._lead * _MATCH


def _parts(left: Part) -> list[Part]:
    return [part for size in range(1, _PART + 1) for part in combinations(left, size)]
