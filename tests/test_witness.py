"""Witness search against the definition: which conjunctions do pairs of rows satisfy?

One law for all implementations: by brute force, by passes, by comparing inserted rows, in sorted rows (with and without
memory for orders). `test_spark_discover` runs it on Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from holdfast.discovery.budget import Budget
from holdfast.discovery.dc.compared_pairs import ComparedPairs
from holdfast.discovery.dc.evidence import Evidence
from holdfast.discovery.witness import orders, parts, sorted_search
from holdfast.discovery.witness.all_pairs import AllPairs
from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.discovery.witness.search import Witnesses, WitnessSearch
from holdfast.discovery.witness.sorted_search import SortedSearch
from holdfast.executors.threads import ThreadExecutor
from holdfast.rules.masks import Masks, mask_of, none
from holdfast.rules.operator import Op
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.kind import Kind
from holdfast.table.row_change import Ids, RowChange
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


class BruteForce:
    """Witness search as it is defined: all pairs are compared."""

    def __init__(self, space: PredicateSpace, ids: Ids, codes: Codes, added: Ids) -> None:
        rows = len(ids)
        places = np.array([(t, s) for t in range(rows) for s in range(rows) if t != s], np.int64).reshape(-1, 2)
        self.space, self.pairs, self.clues = space, ids[places], space.clues(codes, places)
        self.is_new = np.isin(self.pairs, added).any(axis=1)

    def of_older_rows(self) -> Witnesses:
        return Witnesses(self.clues[~self.is_new], self.pairs[~self.is_new], none(len(self.space.atoms)))

    def search(self, claims: Masks, budget: Budget, *, new: bool = False) -> Witnesses:
        searched = self.is_new if new else np.ones(len(self.pairs), np.bool_)
        found = Witnesses(self.clues[searched], self.pairs[searched], claims[:0])
        return found.satisfying(self.space, claims)._replace(settled=claims)


def passes(space: PredicateSpace, first: RowChange) -> Callable[[RowChange], WitnessSearch]:
    return lambda change: AllPairs(space, change, Budget())


def compared(space: PredicateSpace, first: RowChange) -> Callable[[RowChange], WitnessSearch]:
    return lambda change: ComparedPairs(Evidence(space, ThreadExecutor(1)), change)


def in_sorted_rows(memory: int) -> Callable[[PredicateSpace, RowChange], Callable[[RowChange], WitnessSearch]]:
    def kept(space: PredicateSpace, first: RowChange) -> Callable[[RowChange], WitnessSearch]:
        search = SortedSearch(space, first.added, first.added_codes, memory=memory)

        def changed(change: RowChange) -> WitnessSearch:
            search.change(change)
            return search

        return changed

    return kept


SEARCHES = {
    "passes": passes,
    "compared": compared,
    "sorted rows": in_sorted_rows(orders.MEMORY),
    "sorted rows, no memory for orders": in_sorted_rows(0),
}


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("seed", range(2))
def test_every_search_answers_as_brute_force_does(nulls, name, seed, monkeypatch):
    """As rows come and go, of the pairs with an inserted row and of all pairs: the settled claims that a pair satisfies
    are those that a found pair satisfies; and every pair that is found is live and shows its clue."""
    monkeypatch.setattr(orders, "_SAMPLED", 20)
    monkeypatch.setattr(orders, "_MISJUDGED", [4.0, 0.0][seed])  # whether orders are chosen again each time
    monkeypatch.setattr(sorted_search, "_PARTNERS", 2)
    monkeypatch.setattr(sorted_search, "_LEAST_PAIRS", 1)
    monkeypatch.setattr(SortedSearch, "_needs_many_passes", lambda self, claim: True)
    rng = np.random.default_rng(seed)
    space = PredicateSpace.of(SCHEMA, nulls, [(0, 1), (0, 2)])
    known, claims = Known(space, rng), random_claims(space, rng, 200)
    made, decided = SEARCHES[name](space, known.step(60, 0, 0)), []
    for _ in range(8):
        change = known.step(int(rng.integers(0, 6)), int(rng.integers(0, 14)), int(rng.integers(0, 4)))
        search, brute = made(change), BruteForce(space, known.ids, known.codes, change.added)
        for new in (True,) if name == "compared" else (True, False):
            some = claims[rng.random(len(claims)) < 0.5]
            some = some[~brute.of_older_rows().refuted(space, some)] if new else some
            found = search.search(some, Budget(), new=new)
            assert len(found.settled) == len(some)
            assert set(map(tuple, found.pairs)) <= set(map(tuple, brute.pairs[brute.is_new | (not new)]))
            places = np.searchsorted(np.sort(known.ids), found.pairs)
            assert (space.clues(known.codes, np.argsort(known.ids)[places]) == found.clues).all()
            expected = brute.search(found.settled, Budget(), new=new).refuted(space, found.settled)
            assert found.refuted(space, found.settled).tolist() == expected.tolist()
            decided += [(new, answer) for answer in expected.tolist()]
    counts = Counter(decided)
    assert counts[True, False] > 20 and counts[True, True] > 2
    assert name == "compared" or min(counts[False, False], counts[False, True]) > 20


@pytest.mark.parametrize("nulls", NULLS)
def test_rows_of_several_changes_are_searched_as_inserted_rows_are(nulls, monkeypatch):
    """Of pairs with a row that was inserted or updated with some change or later, also after rows got new places."""
    monkeypatch.setattr(orders, "_SAMPLED", 20)
    monkeypatch.setattr(sorted_search, "_VISITS", {True: 4000, False: 4000})
    rng = np.random.default_rng(0)
    space = PredicateSpace.of(SCHEMA, nulls, [(0, 1)])
    known, claims = Known(space, rng), random_claims(space, rng, 300)
    first = known.step(60, 0, 0)
    search, added, answers = SortedSearch(space, first.added, first.added_codes), [], Counter()
    for number in range(1, 9):
        change = known.step(4, 12 if number < 5 else 0, 3)
        search.change(change)
        added.append(change.added)
        assert search.changes == number
        for since in range(1, number + 1):
            brute = BruteForce(space, known.ids, known.codes, np.concatenate(added[since - 1 :]))
            some = claims[~brute.of_older_rows().refuted(space, claims)]
            found = search.since(since).search(some, Budget(), new=True)
            expected = brute.search(found.settled, Budget(), new=True).refuted(space, found.settled)
            assert len(found.settled) == len(some)
            assert found.refuted(space, found.settled).tolist() == expected.tolist()
            answers.update(expected.tolist())
    assert min(answers.values()) > 20 and len(answers) == 2


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
    chosen = parts.chosen_parts(space, claims, [parts.Sampled(lacked, 5.0)], claims[:0])
    assert len(chosen) < len(claims)
    contains = np.array([((claims & part) == part).all(axis=1) for part in chosen])
    assert contains.any(axis=0).all()
    for part in chosen[contains.sum(axis=1) > 1]:
        assert (lacked & part).any(axis=1).all() or (part == claims).all(axis=1).any()
