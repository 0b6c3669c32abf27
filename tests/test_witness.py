"""Witness search against the definition: which conjunctions do pairs with an inserted row satisfy?"""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.discovery.budget import Budget
from holdfast.discovery.witness import orders, parts, sorted_search
from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.discovery.witness.sorted_search import SortedSearch
from holdfast.rules.masks import Masks, mask_of
from holdfast.rules.operator import Op
from holdfast.table.dictionary import NULL
from holdfast.table.kind import Kind
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Column, Schema

NULLS = ["equal", "distinct", "sql"]
WEAKEST = [(Op.LE,), (Op.GE,), (Op.NE,), (Op.LE, Op.NE), (Op.GE, Op.NE), (Op.LE, Op.GE)]
SCHEMA = Schema(
    (
        Column("a", Kind.INTEGER),
        Column("b", Kind.DECIMAL, 2),
        Column("c", Kind.INTEGER),
        Column("d", Kind.TEXT),
        Column("e", Kind.INTEGER),
    )
)


def random_claims(space: PredicateSpace, rng: np.random.Generator, count: int) -> Masks:
    """Conjunctions of two to five comparisons."""
    claims = []
    for _ in range(count):
        wanted = set()
        for i in rng.choice(len(space.comparisons), int(rng.integers(2, 6)), replace=False).tolist():
            ordered = space.comparisons[i].ordered
            ops = WEAKEST[rng.integers(0, len(WEAKEST))] if ordered else [(Op.EQ,), (Op.NE,)][rng.integers(0, 2)]
            wanted |= {(i, op) for op in ops}
        claims.append(mask_of([n for n, atom in enumerate(space.atoms) if atom in wanted], len(space.atoms)))
    return np.concatenate(claims)


class Known:
    """Rows with ids that come and go, and what pairs of them lack."""

    def __init__(self, space: PredicateSpace, rng: np.random.Generator) -> None:
        self.space, self.rng, self.next = space, rng, 0
        self.ids, self.codes = np.zeros(0, np.int64), np.zeros((len(space.schema), 0), np.int64)

    def step(self, inserts: int, deletes: int, updates: int) -> RowChange:
        codes = self.rng.integers(0, 12, (len(self.codes), inserts + updates))
        codes[1] *= 100
        codes[4] = codes[0] // 3 + codes[2]
        codes[self.rng.random(codes.shape) < 0.1] = NULL
        order = self.rng.permutation(len(self.ids))
        gone, moved, kept = np.split(order, [min(deletes, len(order)), min(deletes + updates, len(order))])
        codes = codes[:, : len(moved) + inserts]
        removed = np.concatenate([gone, moved])
        added = np.concatenate([self.ids[moved], np.arange(self.next, self.next + inserts)])
        self.next += inserts
        kept.sort()
        change = RowChange(
            self.ids[removed], self.codes[:, removed], added, codes, self.ids[kept], self.codes[:, kept],
            updated=len(moved),
        )  # fmt: skip
        self.ids = np.concatenate([self.ids[kept], added])
        self.codes = np.concatenate([self.codes[:, kept], codes], axis=1)
        return change

    def satisfied(self, claims: Masks, added: np.ndarray) -> list[bool]:
        """Whether a pair with an added row satisfies each claim: all pairs are compared."""
        rows = len(self.ids)
        places = np.array([(t, s) for t in range(rows) for s in range(rows) if t != s], np.int64).reshape(-1, 2)
        places = places[np.isin(self.ids[places], added).any(axis=1)]
        lacks = self.space.lacks(self.space.clues(self.codes, places))
        return [bool((~(lacks & claim).any(axis=1)).any()) for claim in claims]


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("memory", [orders.MEMORY, 0])
@pytest.mark.parametrize("seed", range(3))
def test_partners_of_inserted_rows(nulls, memory, seed, monkeypatch):
    """Every claim that a pair with an inserted row satisfies is satisfied by a pair that is found, as rows come and
    go; and every pair that is found is live and has an inserted row."""
    monkeypatch.setattr(orders, "_SAMPLED", 20)
    monkeypatch.setattr(sorted_search, "_PARTNERS", 2)
    monkeypatch.setattr(SortedSearch, "_needs_many_passes", lambda self, claim: True)
    rng = np.random.default_rng(seed)
    space = PredicateSpace.of(SCHEMA, nulls, [(0, 1), (0, 2)])
    known, claims = Known(space, rng), random_claims(space, rng, 40)
    first = known.step(60, 0, 0)
    search, decided = SortedSearch(space, first.added, first.added_codes, memory=memory), []
    for _ in range(8):
        change = known.step(int(rng.integers(0, 6)), int(rng.integers(0, 14)), int(rng.integers(0, 4)))
        search.change(change)
        some = claims[rng.random(len(claims)) < 0.8]
        if not len(change.added):
            continue
        found = search.search(some, Budget(), new=True)
        ids = found.pairs
        assert len(found.settled) == len(some)
        assert np.isin(ids, known.ids).all() and np.isin(ids, change.added).any(axis=1).all()
        assert (ids[:, 0] != ids[:, 1]).all()
        place_of = {int(row): place for place, row in enumerate(known.ids)}
        places = np.array([[place_of[int(t)], place_of[int(s)]] for t, s in ids], np.int64).reshape(-1, 2)
        assert (space.clues(known.codes, places) == found.clues).all()
        refuted = found.refuted(space, some).tolist()
        assert refuted == known.satisfied(some, change.added)
        decided += refuted
        every = search.search(some, Budget())
        assert len(every.settled) == len(some) and np.isin(every.pairs, known.ids).all()
        assert every.refuted(space, some).tolist() == known.satisfied(some, known.ids)
    assert 20 < sum(decided) < len(decided) - 20


def test_claims_that_take_too_long_are_left_to_a_pass(monkeypatch):
    monkeypatch.setattr(sorted_search, "_VISITS", {True: 0, False: 0})
    space = PredicateSpace.of(SCHEMA, "equal")
    known = Known(space, np.random.default_rng(0))
    known.step(200, 0, 0)
    search = SortedSearch(space, known.ids, known.codes)
    search.change(known.step(5, 0, 0))
    claims = random_claims(space, np.random.default_rng(1), 5)
    assert len(search.search(claims, Budget(), new=True).settled) == len(search.search(claims, Budget()).settled) == 0


def test_parts_serve_all_claims():
    """Each claim contains a part; no pair of the sample satisfies a part that several claims share."""
    rng = np.random.default_rng(0)
    space = PredicateSpace.of(SCHEMA, "equal", [(0, 2)])
    known = Known(space, rng)
    known.step(40, 0, 0)
    claims = random_claims(space, rng, 300)
    pairs = rng.integers(0, 40, (500, 2))
    lacked = space.lacks(space.clues(known.codes, pairs[pairs[:, 0] != pairs[:, 1]]))
    chosen = parts.chosen_parts(space, claims, [parts.Sampled(lacked, 5.0)])
    assert len(chosen) < len(claims)
    contains = np.array([((claims & part) == part).all(axis=1) for part in chosen])
    assert contains.any(axis=0).all()
    for part in chosen[contains.sum(axis=1) > 1]:
        assert (lacked & part).any(axis=1).all() or (part == claims).all(axis=1).any()
