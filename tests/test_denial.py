"""Denial constraints and order dependencies against their definitions, as rows come and go."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import date
from itertools import combinations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.discovery.budget import Budget
from holdfast.discovery.dc.evidence import Evidence, expected_clues
from holdfast.discovery.dc.table_dcs import TableDcs
from holdfast.discovery.row_rules import row_rules
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.witness.clashes import Clashes
from holdfast.discovery.witness.orders import MEMORY
from holdfast.discovery.witness.predicate_space import PredicateSpace, cross_pairs
from holdfast.discovery.witness.sorted_search import COMPARED
from holdfast.executors.executor import Cancelled
from holdfast.rules.masks import mask_of, unpack
from holdfast.rules.operator import Op, Weak
from holdfast.rules.plain import plain_minimal
from holdfast.rules.rule import Order
from holdfast.rules.ruleset import RuleSet
from holdfast.table.dictionary import NULL
from holdfast.table.kind import Kind
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Column, Schema
from tests import naive
from tests.clock import Ticking
from tests.conftest import cases
from tests.slices import small_slices
from tests.test_executors import FarThreads

NULLS = ["equal", "distinct", "sql"]
NAMES = ("b", "a c", "a")


def schema_of(kinds):
    return Schema(tuple(Column(name, kind) for name, kind in zip(NAMES, kinds, strict=False)))


def rows_of(codes, names):
    return [{n: None if v == NULL else int(v) for n, v in zip(names, row, strict=True)} for row in codes.T]


def moved(stay, new, gone=None):
    gone = gone if gone is not None else new[:, :0]
    sizes = [x.shape[1] for x in (gone, new, stay)]
    ids = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    return RowChange(ids[0], gone, ids[1], new, ids[2], stay)


@st.composite
def tables(draw, most_columns=3, most_rows=5):
    kinds = draw(st.lists(st.sampled_from([Kind.INTEGER, Kind.TEXT]), min_size=1, max_size=most_columns))
    values = st.sampled_from([0, 1, 2, NULL])
    rows = draw(st.lists(st.tuples(*[values] * len(kinds)), max_size=most_rows))
    return schema_of(kinds), np.array(rows, np.int64).reshape(len(rows), len(kinds)).T.copy()


@st.composite
def spaces(draw, most_columns=3):
    """A table, and perhaps two columns of one kind that are compared."""
    schema, codes = draw(tables(most_columns))
    alike = [(a, b) for a in range(len(schema)) for b in range(a) if schema.columns[a].kind is schema.columns[b].kind]
    return (
        schema,
        codes,
        [tuple(sorted(p)) for p in draw(st.lists(st.sampled_from(alike), max_size=1))] if alike else [],
    )


@pytest.mark.parametrize("nulls", NULLS)
@given(told=spaces())
@settings(max_examples=cases(40))
def test_what_pairs_lack(nulls, told):
    """Each clue against the comparisons of its pair, and the number of pairs."""
    schema, codes, pairs = told
    space = PredicateSpace.of(schema, nulls, pairs)
    evidence = Evidence(space)
    evidence.merge(evidence.delta(moved(codes[:, :0], codes)))
    rows = rows_of(codes, schema.names)
    expected = {}
    for i, t in enumerate(rows):
        for j, s in enumerate(rows):
            if i != j:
                lacks = tuple(
                    not naive.holds(op, t[schema.names[c.left]], s[schema.names[c.right]], nulls)
                    for c, op in ((space.comparisons[k], op) for k, op in space.atoms)
                )
                expected[lacks] = expected.get(lacks, 0) + 1
    found = {}
    for clues in (evidence.sets, space.mirrored(evidence.sets)):
        for row, count in zip(unpack(space.lacks(clues), len(space.atoms)), evidence.counts.tolist(), strict=True):
            found[tuple(row.tolist())] = found.get(tuple(row.tolist()), 0) + count
    assert found == expected


def expected_rules(kind, space, codes, most, max_error=0.0):
    rows, names = rows_of(codes, space.schema.names), space.schema.names
    if kind == "order":
        return naive.orders(rows, {c.name: c.kind.ordered for c in space.schema.columns}, space.nulls, most, max_error)
    comparisons = [(names[c.left], names[c.right], c.ordered) for c in space.comparisons]
    return naive.dcs(rows, comparisons, space.nulls, most, max_error)


@pytest.mark.parametrize("kind", ["dc", "order"])
@pytest.mark.parametrize("nulls", NULLS)
@given(data=st.data())
@settings(max_examples=cases(25))
def test_rules_follow_the_rows(nulls, kind, data):
    """From nothing, then as rows come and go; those that hold, by all pairs and by some (new rows are compared with
    all, or searched in sorted rows), and those that nearly hold, with their errors."""
    schema, codes, pairs = data.draw(spaces(2 if kind == "dc" else 3))
    most = data.draw(st.sampled_from([1, 2] if pairs else [None, 1, 2]))
    names = [(schema.names[a], schema.names[b]) for a, b in pairs] if kind == "dc" else False
    max_error = data.draw(st.sampled_from([0.0, 0.0, 0.1, 0.4]))
    evidence = "counted" if max_error else data.draw(st.sampled_from(["counted", "lean"]))
    wanted = SearchOptions((kind,), nulls, max_size=most, max_error=max_error, cross_columns=names, evidence=evidence)
    compared, memory = data.draw(st.sampled_from([(COMPARED, MEMORY), (0, MEMORY), (0, 0)]))
    rules = TableDcs(schema, wanted, most_compared=compared, memory=memory)
    rules.update(moved(codes[:, :0], codes))
    ids, next_id = np.arange(codes.shape[1]), codes.shape[1]
    for _ in range(data.draw(st.integers(1, 3))):
        space = PredicateSpace.of(schema, nulls, pairs if kind == "dc" else ())
        found = set(rules.rules)
        expected = expected_rules(kind, space, codes, most, max_error)
        assert found == expected
        rows = rows_of(codes, schema.names)
        assert all(e == naive.g1(rule, rows, nulls) for b in rules.rules.blocks for rule, _, e, _ in b.with_details())
        assert rules.rules == RuleSet.from_rules(expected, schema.names)  # in canonical form, each once
        leaves = np.array(
            data.draw(st.lists(st.booleans(), min_size=codes.shape[1], max_size=codes.shape[1])), np.bool_
        )
        values = st.sampled_from([0, 1, 2, NULL])
        new = data.draw(st.lists(st.tuples(*[values] * len(schema)), max_size=2))
        new = np.array(new, np.int64).reshape(len(new), len(schema)).T.copy()
        come, next_id = np.arange(next_id, next_id + new.shape[1]), next_id + new.shape[1]
        rules.update(RowChange(ids[leaves], codes[:, leaves], come, new, ids[~leaves], codes[:, ~leaves]))
        codes, ids = np.concatenate([codes[:, ~leaves], new], axis=1), np.concatenate([ids[~leaves], come])


@pytest.mark.parametrize("nulls", NULLS)
@given(data=st.data())
@settings(max_examples=cases(60))
def test_a_clash_is_a_pair_that_satisfies_a_conjunction(nulls, data):
    """Any conjunction of weak atoms: a pair is found that satisfies it, or no pair does."""
    schema, codes, pairs = data.draw(spaces())
    space = PredicateSpace.of(schema, nulls, pairs)
    rows = codes.shape[1]
    chosen = data.draw(st.sets(st.integers(0, len(space.atoms) - 1), min_size=1, max_size=6))
    atoms = mask_of(chosen, len(space.atoms))[0]
    places = np.array([(t, s) for t in range(rows) for s in range(rows) if t != s], np.int64).reshape(-1, 2)
    satisfied = ~(space.lacks(space.clues(codes, places)) & atoms).any(axis=1)
    new = data.draw(st.integers(0, rows)) if not satisfied.any() else 0
    whole = any(
        {i for i in chosen if space.group_of[i] == group} == set(np.flatnonzero(space.group_of == group))
        for group in space.group_of
    )
    if whole:
        return  # a contradiction, which is never asked
    found = Clashes(space, codes, new).pair(atoms, new=bool(new))
    assert (found is not None) == bool(satisfied.any())
    if found is not None:
        assert satisfied[(places == found).all(axis=1)].all() and found[0] != found[1]


@pytest.mark.parametrize("nulls", NULLS)
@given(told=spaces(2))
@settings(max_examples=cases(20))
def test_constraints_that_are_minimal_by_their_predicates(nulls, told):
    schema, codes, pairs = told
    names = [(schema.names[a], schema.names[b]) for a, b in pairs]
    rules = TableDcs(schema, SearchOptions(("dc",), nulls, max_size=2, cross_columns=names))
    rules.update(moved(codes[:, :0], codes))
    comparisons = [
        (schema.names[c.left], schema.names[c.right], c.ordered)
        for c in PredicateSpace.of(schema, nulls, pairs).comparisons
    ]
    assert set(plain_minimal(rules.rules, schema)) == naive.plain_dcs(
        rows_of(codes, schema.names), comparisons, nulls, 2
    )


@pytest.mark.parametrize("nulls", NULLS)
def test_clashes_of_many_conjunctions(nulls):
    """Conjunctions of several comparisons, on tables in which few pairs satisfy them."""
    rng = np.random.default_rng(1)
    schema = Schema(tuple(Column(f"c{i}", Kind.INTEGER) for i in range(4)))
    space = PredicateSpace.of(schema, nulls, [(0, 1)])
    found = []
    for _ in range(150):
        codes = rng.integers(0, 5, (4, 9))
        codes[rng.random((4, 9)) < 0.1] = NULL
        places = np.array([(t, s) for t in range(9) for s in range(9) if t != s], np.int64)
        lacks, clashes = space.lacks(space.clues(codes, places)), Clashes(space, codes)
        for _ in range(5):
            compared = rng.choice(len(space.comparisons), int(rng.integers(2, 6)), replace=False)
            ops = [WEAKEST[rng.integers(0, len(WEAKEST))] for _ in compared]
            wanted = {(i, op) for i, some in zip(compared.tolist(), ops, strict=True) for op in some}
            atoms = mask_of([n for n, atom in enumerate(space.atoms) if atom in wanted], len(space.atoms))[0]
            satisfied = ~(lacks & atoms).any(axis=1)
            pair = clashes.pair(atoms)
            assert (pair is not None) == satisfied.any()
            assert pair is None or satisfied[(places == pair).all(axis=1)].all()
            found.append(pair is not None)
    assert 100 < sum(found) < len(found) - 100


WEAKEST = [(Op.LE,), (Op.GE,), (Op.NE,), (Op.LE, Op.NE), (Op.GE, Op.NE), (Op.LE, Op.GE)]


def test_a_clash_with_the_second_least():
    """t.b <= s.a in rows of one c: row 1 has the least b and the only a above any, but is not its own partner."""
    codes = np.array([[5, 3, 9, 10], [0, 6, 0, 0], [0, 0, 0, 0]])
    space = PredicateSpace.of(schema_of([Kind.INTEGER] * 3), "equal", [(0, 1)])
    (crossed,) = (i for i, c in enumerate(space.comparisons) if (c.left, c.right) == (0, 1))
    atoms = [space.atoms.index((i, Op.LE)) for i in (2, crossed)]
    assert Clashes(space, codes).pair(mask_of(atoms, len(space.atoms))[0]) == (0, 1)


def test_a_clash_of_two_nulls():
    """Under `distinct` they differ."""
    space = PredicateSpace.of(schema_of([Kind.TEXT]), "distinct")
    atoms = mask_of([space.atoms.index((0, Op.NE))], len(space.atoms))[0]
    assert Clashes(space, np.array([[NULL, NULL]])).pair(atoms) is not None
    assert Clashes(space, np.array([[7, 7]])).pair(atoms) is None


def test_any_code_may_stand_beside_a_null():
    """Codes of floats reach far below zero: -2.0 is a code like any other."""
    table = pa.table({"a": pa.array([-2.0, None, -2.0, -2.0000000000000004], pa.float64()), "b": ["x", "y", "x", "y"]})
    for nulls in NULLS:
        found = [hf.discover(table, ("order", "dc"), nulls=nulls, evidence=how).texts() for how in ("counted", "lean")]
        assert found[0] == found[1]


@pytest.mark.parametrize("nulls", NULLS)
@given(told=tables(), max_error=st.sampled_from([0.0, 0.3]))
@settings(max_examples=cases(40))
def test_rules_about_single_rows(nulls, told, max_error):
    schema, codes = told
    rows = rows_of(codes, schema.names)
    ordered = [c.name for c in schema.columns if c.kind.ordered]
    found = row_rules(schema, codes, nulls, max_error)
    assert set(found) == naive.row_rules(rows, schema.names, list(combinations(ordered, 2)), nulls, max_error)
    for block in found.blocks:
        assert all(
            error == len(naive.violations(rule, rows, nulls)) / len(rows) for rule, _, error, _ in block.with_details()
        )


def test_ranges_on_request():
    table = pa.table(
        {"age": [17, None, 90], "day": [date(2026, 1, 31), date(2026, 2, 1), None], "word": ["a", "b", "c"]}
    )
    found = set(hf.row_rules(table, ranges=True).texts()) - set(hf.row_rules(table).texts())
    assert found == {
        "not(t.age < 17)", "not(t.age > 90)", "not(t.day < date '2026-01-31')", "not(t.day > date '2026-02-01')",
    }  # fmt: skip
    assert all(hf.check(table, [text]).count(text) == 0 for text in found)


def test_many_sets_of_one_word():
    """More sets than there is room for at first, each with its count."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (14, 400))
    schema = Schema(tuple(Column(f"c{i}", Kind.INTEGER) for i in range(14)))
    space = PredicateSpace.of(schema, "equal")
    evidence = Evidence(space)
    evidence.merge(evidence.delta(moved(codes[:, :0], codes)))
    assert len(evidence) > 20_000 and evidence.counts.sum() == 400 * 399 // 2
    places = np.array([(t, s) for t in range(400) for s in range(t)], np.int64)
    one = space.clues(codes, places)[:, 0]
    expected = np.unique(np.minimum(one, space.mirrored(one[:, None])[:, 0]), return_counts=True)
    order = np.argsort(evidence.sets[:, 0])
    assert (evidence.sets[order, 0] == expected[0]).all() and (evidence.counts[order] == expected[1]).all()


def test_lean_evidence_reopened(tmp_path):
    """What was proven is known again, so that rows that come are compared only with what they could violate."""
    rows = pa.table({"a": [1, 2, 3, 4], "b": [10, 20, 30, 40]})
    with hf.Rulebook.create(tmp_path / "book", rows, kinds=("order", "dc"), evidence="lean") as book:
        before = book.rules().texts()
    with hf.Rulebook.open(tmp_path / "book") as book:
        assert book.rules().texts() == before and any("with a pair each" in text for text in book.rules().how)
        (rules,) = book._engine.discovered.search().maintainers
        assert len(rules._kept.lean.proven) > 0
        book.apply(hf.Change(inserts=pa.table({"a": [5], "b": [5]})))
        assert book.rules() == hf.discover(book.table(), ("order", "dc"))


def test_what_is_too_much_to_count():
    """By pairs and by ways to compare, unless it was settled; rules that nearly hold need counts."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 50, (2, 3000))
    schema = schema_of([Kind.INTEGER, Kind.INTEGER])
    for options, lean in (({}, True), ({"evidence": "counted"}, False), ({"max_error": 0.1}, False)):
        rules = TableDcs(schema, SearchOptions(("dc",), **options), most_pairs=1000)
        rules.update(moved(codes[:, :0], codes))
        assert (rules.lean is not None) == lean
    assert expected_clues(PredicateSpace.of(schema, "equal"), codes) < 20
    wide = Schema(tuple(Column(f"c{i}", Kind.INTEGER) for i in range(30)))
    assert expected_clues(PredicateSpace.of(wide, "equal"), rng.integers(0, 50, (30, 3000))) > 4_000_000


@pytest.mark.parametrize(("pairs_per_claim", "lean"), [(1e9, False), (1e-3, True)])
@pytest.mark.parametrize("nulls", NULLS)
def test_rows_that_never_change_are_counted_if_claims_are_many(monkeypatch, nulls, pairs_per_claim, lean):
    """Whichever way is chosen after the first sample, the rules are those of all pairs."""
    monkeypatch.setattr("holdfast.discovery.dc.table_dcs._MANY_PAIRS", 1)
    monkeypatch.setattr("holdfast.discovery.dc.table_dcs._PAIRS_PER_CLAIM", pairs_per_claim)
    schema = Schema((*(Column(name, Kind.INTEGER) for name in "abc"), Column("d", Kind.TEXT)))
    codes = np.random.default_rng(0).integers(0, 9, (4, 300))
    codes[2] = codes[0] * 9 + codes[1]
    codes[0, ::20] = NULL
    wanted = {"nulls": nulls, "cross_columns": [("a", "b")], "max_size": {"order": 2, "dc": 3}}
    counted = TableDcs(schema, SearchOptions(("order", "dc"), evidence="counted", **wanted))
    chosen = TableDcs(schema, SearchOptions(("order", "dc"), **wanted), static=True)
    for rules in (counted, chosen):
        rules.update(moved(codes[:, :0], codes))
    assert set(chosen.rules) == set(counted.rules) and len(counted.rules) > 5
    assert (chosen.lean is not None) == lean


@pytest.mark.parametrize("nulls", NULLS)
@given(seed=st.integers(0, 10**6), share=st.floats(0.2, 1.0))
@settings(max_examples=cases(15))
def test_a_partial_search_has_all_rules_up_to_the_size_that_it_names(nulls, seed, share):
    """Rules of an unfinished kind are rules of all, and those of the sizes that it names are all there."""
    schema = Schema((*(Column(name, Kind.INTEGER) for name in "abc"), Column("d", Kind.TEXT)))
    codes = np.random.default_rng(seed).integers(0, 4, (4, 8))
    wanted = SearchOptions(("order", "dc"), nulls, cross_columns=[("a", "b")], max_size={"order": 3, "dc": 4})
    every, some = TableDcs(schema, wanted), TableDcs(schema, wanted)
    clock = Ticking()
    with small_slices(), suppress(Cancelled):
        every.update(moved(codes[:, :0], codes), Budget(10**9, divided=True, clock=clock))
        some.update(moved(codes[:, :0], codes), Budget(share * clock.looks, divided=True, clock=Ticking()))
    assert set(some.rules) <= set(every.rules) and {*some.complete_up_to} <= {*some.unfinished}
    for kind, size in some.complete_up_to.items():
        small = {rule for rule in every.rules.of(kind) if compared_columns(rule) <= size}
        assert small <= set(some.rules), (kind, size)


def compared_columns(rule):
    """The size of an order dependency or constraint that `max_size` limits."""
    if isinstance(rule, Order):
        return len(rule.left)
    return len({(p.left.column, p.right.column) for p in rule.predicates})


def test_evidence_on_a_far_executor():
    """Tiles elsewhere, base x base and change x base, against this process."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, (3, 400))
    codes[1, :40] = NULL
    space = PredicateSpace.of(schema_of([Kind.INTEGER, Kind.INTEGER, Kind.TEXT]), "sql", [(0, 1)])
    mine, theirs = Evidence(space), Evidence(space, FarThreads(2), few_pairs=0, pairs_per_tile=20_000)
    for change in (moved(codes[:, :0], codes[:, :350]), moved(codes[:, 50:350], codes[:, 350:], codes[:, :50])):
        for evidence in (mine, theirs):
            evidence.merge(evidence.delta(change))
        one, other = (dict(zip(e.sets[:, 0].tolist(), e.counts.tolist(), strict=True)) for e in (mine, theirs))
        assert one == other and sum(one.values()) == 350 * 349 // 2


@pytest.mark.parametrize("nulls", NULLS)
@pytest.mark.parametrize(("compared", "memory"), [(COMPARED, MEMORY), (0, MEMORY), (0, 0)])
def test_lean_evidence_of_many_rows(nulls, compared, memory):
    """As rows come, go and change: the rules are those of all pairs, counted. Where new rows are compared with all,
    the rules are stored and restored in between."""
    rng = np.random.default_rng(0)
    schema = Schema((*(Column(name, Kind.INTEGER) for name in "abc"), Column("d", Kind.TEXT)))
    wanted = {"nulls": nulls, "cross_columns": [("a", "b")], "max_size": {"order": 2, "dc": 3}}

    def table(how):
        options = SearchOptions(("order", "dc"), evidence=how, **wanted)
        return TableDcs(schema, options, most_compared=compared, memory=memory)

    counted, lean = table("counted"), table("lean")

    def some_rows(count):
        codes = rng.integers(0, 9, (4, count))
        codes[2] = codes[0] * 9 + codes[1] + (rng.random(count) < 0.02)
        codes[0, rng.random(count) < 0.05] = NULL
        return codes

    no_rows = np.arange(0), some_rows(0)
    ids, codes, found = np.arange(200), some_rows(200), []
    change = RowChange(*no_rows, ids, codes, *no_rows)
    for step in range(8):
        for rules in (counted, lean):
            rules.update(change)
        assert lean.rules.texts() == counted.rules.texts()
        found.append(tuple(lean.rules.texts()))
        if compared:
            facts, lean = lean.to_arrays(), table("lean")
            lean.merge(facts)
            lean.restore(len(ids))
            assert lean.rules.texts() == counted.rules.texts()
        gone = rng.random(len(ids)) < (0.5 if step == 4 else 0.1)
        updated, come = np.flatnonzero(gone)[:5], some_rows(12)
        added = np.concatenate([ids[updated], np.arange(7) + ids.max() + 1])
        change = RowChange(ids[gone], codes[:, gone], added, come, ids[~gone], codes[:, ~gone])
        ids, codes = np.concatenate([ids[~gone], added]), np.concatenate([codes[:, ~gone], come], axis=1)
    assert len(set(found)) > 3 and ("ways" in lean.strategy) == (compared == 0)


# --- through the front door ----------------------------------------------------------------------------------


def test_a_rulebook_says_which_pair_decided():
    rows = pa.table({"salary": [1, 2, 3], "tax": [10, 20, 30]})
    book = hf.Rulebook.create(None, rows, kinds=("order", "dc"))
    rule, constraint = hf.parse("{tax <=} -> salary <"), hf.parse("not(t.tax <= s.tax and t.salary >= s.salary)")
    assert rule in set(book.rules()) and constraint in set(book.rules())
    out = book.apply(hf.Change(inserts=pa.table({"salary": [4], "tax": [5]})))
    assert {rule, constraint} <= set(out.rules.removed)
    assert out.rules.why(rule) == (3, 0)
    assert set(out.rules.why(constraint)) == {3, 0}
    out = book.apply(hf.Change(deletes=pa.table({"salary": [4], "tax": [5]})))
    assert {rule, constraint} <= set(out.rules.added) and out.rules.why(rule) == (3, 0)


def test_columns_that_share_values_are_compared():
    """At least 0.3 of the rows, nulls left out; whole floats equal integers; text and numbers never meet."""
    table = pa.table(
        {"a": [1, 2, 3, None], "b": [1.0, 9.5, 9.5, None], "c": [1.0, 2.0, 7.5, 7.5], "x": ["1", "2", "3", "4"]}
    )
    rules = hf.discover(table, ("dc",), max_size=2)
    crossed = {p.operands for r in rules for p in r.predicates if p.left.column != p.right.column}
    assert {frozenset(c.column for c in pair) for pair in crossed} == {frozenset("ac")}
    assert not any(
        p.left.column != p.right.column
        for r in hf.discover(table, ("dc",), max_size=2, cross_columns=False)
        for p in r.predicates
    )


def test_what_could_never_be_violated_is_no_rule():
    """Rows that compare in every way there is: what no pair satisfies are contradictions, all of four comparisons, such
    as t.a = s.b and t.b = s.a and t.b = s.b and t.a != s.a."""
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.integers(0, 9, 400), "b": rng.integers(0, 9, 400)})
    rules = hf.discover(table, ("dc",), max_size=None, cross_columns=[("a", "b")])
    assert rules.complete and len(rules) == 0


def test_at_most_eight_pairs_are_compared():
    schema = Schema(tuple(Column(f"c{i}", Kind.INTEGER) for i in range(6)))
    assert len(cross_pairs(schema, np.ones((6, 4), np.int64), True)) == 8
    assert cross_pairs(schema, np.ones((6, 4), np.int64), [("c5", "c0")]) == [(0, 5)]


def test_many_comparisons_take_several_words():
    """40 ordered columns are 80 bits; the single-column constraints are known."""
    rng = np.random.default_rng(0)
    table = pa.table({f"c{i}": rng.permutation(30) if i % 2 else rng.integers(0, 3, 30) for i in range(40)})
    rules = hf.discover(table, ("dc",), max_size=1, cross_columns=False)
    assert rules.texts() == sorted(f"not(t.c{i} = s.c{i})" for i in range(1, 40, 2))


@pytest.mark.data
@pytest.mark.parametrize(("columns", "rows", "count"), [(12, 2000, 1312), (13, 1000, 9233)])
def test_the_constraints_of_adult(real_data, columns, rows, count):
    """As many as FastADC finds without comparisons of different columns."""
    table = hf.Rulebook.create(None, real_data / "uci" / "adult.csv").table().slice(0, rows)
    chosen = table.select(table.column_names[:columns])
    assert len(hf.discover(chosen, ("dc",), max_size=None, cross_columns=False)) == count


SQL = {  # under `equal`
    Op.EQ: '(t."{0}" is not distinct from s."{0}")',
    Op.NE: '(t."{0}" is distinct from s."{0}")',
    Op.LT: '(t."{0}" < s."{0}")',
    Op.GT: '(t."{0}" > s."{0}")',
    Op.LE: '(t."{0}" <= s."{0}" or (t."{0}" is null and s."{0}" is null))',
    Op.GE: '(t."{0}" >= s."{0}" or (t."{0}" is null and s."{0}" is null))',
}


@pytest.mark.data
def test_the_constraints_of_airports_are_valid_and_minimal(real_data):
    """Kept while 14,418 rows come to 30,000: by DuckDB where there is an equality, and the others by a check. Without
    any one of its weak atoms a constraint is violated."""
    first, more = (real_data / "papers" / f"airport_{name}.csv" for name in ("original", "incremental"))
    book = hf.Rulebook.create(None, first, kinds=("dc",), max_size=None, cross_columns=False)
    (name,) = book.tables
    book.apply(hf.Change(inserts=more, table=name))
    table, rules = book.table(), list(book.rules())
    assert table.num_rows == 44418 and len(rules) > 10
    table = table.append_column("row id", pa.array(range(table.num_rows)))
    connection = duckdb.connect()
    connection.register("airports", table)
    weaker = set()
    for rule in rules:
        tests = [SQL[p.op].format(p.left.column) for p in rule.predicates]
        if any(p.op is Op.EQ for p in rule.predicates):
            query = f"select count(*) from airports t join airports s on {' and '.join(tests)}"
            query += ' where t."row id" != s."row id"'
            assert connection.execute(query).fetchone() == (0,), rule
        else:
            assert hf.check(table, [rule], nulls="equal").count(rule) == 0
        weaker |= {str(hf.parse(text)) for text in without_an_atom(rule, {"elevation_ft"})}
    found = hf.check(table, sorted(weaker), nulls="equal")
    assert all(found.count(text) > 0 for text in weaker)


def without_an_atom(rule, ordered):
    """The constraints that have one weak atom less; without order `=` and `!=` are atoms themselves."""
    for p in rule.predicates:
        rest = [str(q) for q in rule.predicates if q != p]
        left = [p.op.atoms & ~atom for atom in p.op.atoms] if p.left.column in ordered else [Weak(0)]
        for atoms in left:
            texts = [*rest, str(replace(p, op=Op.of_atoms(atoms)))] if atoms else rest
            if texts:
                yield f"not({' and '.join(texts)})"
