"""DynASt's own way to agree-sets (sections 4 and 5.3): attribute-value evidence vectors and their zip-bit products.

EV(A, v) says for each row whether it has the value v in column A. The zip-bit product of a tuple's vectors has, for
each row, the agree-set of the tuple with it. Tuples that share values share factors: Alg. 3 performs the product that
most tuples need, first. The default path compares rows instead, eight columns at a time in one register, which
measures faster at every shape (`python -m benchmarks.agree`); this is the paper's structure behind the same interface,
an independent oracle for tests and a row in the benchmarks. Nulls are values here (`equal`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from holdfast.discovery.pair_sets import Tally
from holdfast.rules.masks import Masks, mask_of, numbered, words_for
from holdfast.table.dictionary import Codes

Vector = Masks  # for each row a set of columns
Name = tuple[int, int]  # a vector: its column and value; or a product: -1 and its number


@dataclass
class ValueVectors:
    """The vectors of a table's values, which rows are added to and taken from.

    >>> vectors = ValueVectors(np.array([[0, 1, 1, 2], [0, 1, 0, 2], [0, 0, 1, 0], [0, 1, 2, 1]]))
    >>> [f"{row:04b}"[::-1] for row in vectors.evidence(np.array([[0], [0], [0], [0]]))[0][:, 0].tolist()]
    ['1111', '0010', '0100', '0010']
    """

    codes: Codes
    products: int = field(default=0, init=False)  # that were performed so far

    def vector(self, column: int, value: int) -> Vector:
        """EV(column, value), with the bit of the column set where it is 1."""
        here = self.codes[column] == value
        return np.where(here[:, None], mask_of([column], len(self.codes)), np.uint64(0))

    def evidence(self, tuples: Codes) -> list[Vector]:
        """For each tuple its agree-sets with all rows (Alg. 3): pairs of neighbouring factors are multiplied, the pair
        that most tuples need first. O(products x rows)."""
        rows_of: list[list[Name]] = [[(c, int(v)) for c, v in enumerate(row)] for row in tuples.T]  # T_to_V
        made = {name: self.vector(*name) for factors in rows_of for name in factors}
        needs: dict[tuple[Name, Name], set[int]] = defaultdict(set)  # P_to_T
        for t, factors in enumerate(rows_of):
            for pair in pairwise(factors):
                needs[pair].add(t)
        while needs:
            (left, right), users = max(needs.items(), key=lambda item: (len(item[1]), item[0]))
            product = (-1, len(made))
            made[product] = made[left] | made[right]
            self.products += 1
            for t in users.copy():
                self._replace(rows_of[t], t, (left, right), product, needs)
        return [made[factors[0]] for factors in rows_of]

    @staticmethod
    def _replace(
        factors: list[Name], t: int, pair: tuple[Name, Name], product: Name, needs: dict[tuple[Name, Name], set[int]]
    ) -> None:
        """Puts the product in the place of its factors, and the pairs with its neighbours in the place of theirs."""
        at = factors.index(pair[0])
        around = factors[max(at - 1, 0) : at + 3]
        for old in pairwise(around):
            needs[old].discard(t)
            if not needs[old]:
                del needs[old]
        factors[at : at + 2] = [product]
        around = factors[max(at - 1, 0) : at + 2]
        for new in pairwise(around):
            needs[new].add(t)

    def inserted(self, tuples: Codes) -> Tally:
        """The delta of an insert (Alg. 1), which also enters the rows."""
        before, after = self.codes, np.concatenate([self.codes, tuples], axis=1)
        self.codes = after
        return self._tally(self.evidence(tuples), before.shape[1])

    def deleted(self, places: list[int]) -> Tally:
        """The delta of a delete (Alg. 2), to be subtracted, which also takes the rows out. The rows that go are put
        last, so that each is paired with what is before it."""
        gone = self.codes[:, places]
        rest = np.delete(self.codes, places, axis=1)
        self.codes = rest
        delta = self.inserted(gone)
        self.codes = rest
        return delta

    def _tally(self, vectors: list[Vector], first: int) -> Tally:
        """The agree-sets of each tuple with the rows before it; the empty one counts, which the paper drops."""
        width = words_for(len(self.codes))
        sets = np.concatenate([np.zeros((0, width), np.uint64), *(v[: first + i] for i, v in enumerate(vectors))])
        found, numbers = numbered(sets)
        return Tally(found, np.bincount(numbers, minlength=len(found)), np.full((len(found), 2), -1))
