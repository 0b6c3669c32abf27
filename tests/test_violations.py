"""Violations under change: index == definition, for all rules, null policies and change sequences."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.indexes.box import BoxIndex
from holdfast.rules.grammar import parse
from holdfast.rules.predicate import conjunction_text
from holdfast.rules.rule import Calculation, Dc, as_dc
from holdfast.rules.rulefile import RuleEntry
from holdfast.table.schema import Schema
from holdfast.violations.detect import Detector
from holdfast.violations.explain import greedy_cover, smallest_cover
from tests import laws, naive
from tests import strategies as hs
from tests.conftest import cases
from tests.peers import INDEXES, searching_with
from tests.test_sql import sql_or_none

ID = laws.ID
DUCK = duckdb.connect()
DUCK.execute("SET TimeZone = 'UTC'")


def pairs_of(table: pa.Table) -> set:
    columns = [c.to_pylist() for c in table.columns]
    return set(zip(*columns, strict=True))


def expected(rule, rows: list[dict], nulls: str, where=frozenset()) -> set:
    """The violations by the rows' keys."""
    name = [row[ID] for row in rows]
    found = naive.violations(rule, rows, nulls, where)
    return {(name[p[0]], name[p[1]]) if isinstance(p, tuple) else (name[p],) for p in found}


@st.composite
def extended(draw: st.DrawFn, rule, schema: Schema) -> Dc:
    try:
        return Dc(as_dc(rule).written | {draw(hs.predicates(schema))})
    except hf.RuleError:  # a contradiction
        return as_dc(rule)


@st.composite
def checked_stories(draw: st.DrawFn):
    """A keyed story with a few rules on it, each under its own policy and filter."""
    schema, base = draw(hs.tables(rows=7, most=3))
    told = laws.story(schema, base, draw(hs.histories(schema, 4)), keyed=True)
    entries, rules = [], []
    for i in range(draw(st.integers(1, 3))):
        rule = draw(hs.one_table_rules(schema))
        nulls = draw(st.sampled_from(hs.POLICIES))
        where = draw(st.one_of(st.just(frozenset()), st.just(frozenset()), hs.one_row_filters(schema)))
        if (
            rules and not isinstance(rules[-1][1], Calculation) and draw(st.booleans())
        ):  # more comparisons than a rule that is there
            rule, (_, _, nulls, where) = draw(extended(rules[-1][1], schema)), rules[-1]
        rules.append((f"r{i}", rule, nulls, where))
        fields = {"id": f"r{i}", "rule": rule.as_written, "nulls": nulls}
        if where:
            fields["filter"] = conjunction_text(where)
        entries.append(RuleEntry.model_validate(fields))
    return told, rules, entries


@pytest.mark.parametrize("index", INDEXES)
@given(case=checked_stories())
@settings(max_examples=cases(130))
def test_every_change_tells_what_it_changed(index, case):
    """naive == box == chain == less_than == SQL in DuckDB, after every change."""
    with searching_with(index):
        tells_what_it_changed(case)


def tells_what_it_changed(case, **options) -> None:
    """The law: whatever finds the violations, they are those of the definition, after every change."""
    told, rules, entries = case
    types = {c.name: c.type_text for c in told.schema.columns}
    base = laws.to_table(told.schema, told.base)
    book, unlisted = (hf.Rulebook.create(None, base, key=ID, types=types, rules=entries, **options) for _ in range(2))
    before = {name: expected(rule, told.base, nulls, where) for name, rule, nulls, where in rules}
    for name, found in before.items():
        assert book.count_violations(name) == len(found) and pairs_of(book.violations(name)) == found
    for change in told.changes[:1]:  # keys and FDs were counted by groups; now they are indexed, then changed
        out, rows = unlisted.apply(change), told.states[0]
        for name, rule, nulls, where in rules:
            now = expected(rule, rows, nulls, where)
            assert pairs_of(out.violations.added(name)) == now - before[name]
            assert pairs_of(out.violations.removed(name)) == before[name] - now
            assert unlisted.count_violations(name) == len(now)
    for change, rows in zip(told.changes, told.states, strict=True):
        out = book.apply(change)
        for name, rule, nulls, where in rules:
            now = expected(rule, rows, nulls, where)
            assert pairs_of(out.violations.added(name)) == now - before[name]
            assert pairs_of(out.violations.removed(name)) == before[name] - now
            assert book.count_violations(name) == len(now) == out.violations.of(name).count
            assert pairs_of(book.violations(name)) == now
            ids, counts = book._engine.detector().per_row(
                book._engine.names.find(name).number, book._engine.state.rows["data"]
            )
            as_t = [pair[0] for pair in now]
            assert counts.tolist() == [as_t.count(key) for key in book.table()[ID].to_pylist()] and len(ids) == len(
                rows
            )
            before[name] = now
    for name, rule, nulls, where in rules:
        query = sql_or_none(rule, told.schema, nulls=nulls, where=where, key=ID)
        if query is not None:
            DUCK.register("data", laws.to_table(told.schema, told.states[-1] if told.states else told.base))
            assert set(DUCK.execute(query).fetchall()) == before[name]


@given(data=st.data())
@settings(max_examples=cases(100))
def test_foreign_keys_under_changes_of_both_sides(data):
    left, right = data.draw(hs.schemas(most=2)), data.draw(hs.schemas(most=2))
    rule = data.draw(hs.inclusions(left, right))
    if rule is None:
        return
    stories = [
        laws.story(s, data.draw(hs.rows_of(s, 5)), data.draw(hs.histories(s, 3)), keyed=True) for s in (left, right)
    ]
    tables = {n: laws.to_table(t.schema, t.base) for n, t in zip(("left", "right"), stories, strict=True)}
    types = {
        n: {c.name: c.type_text for c in t.schema.columns} for n, t in zip(("left", "right"), stories, strict=True)
    }
    book = hf.Rulebook.create(None, tables, key=ID, types=types, rules=[rule])
    states = {"left": stories[0].base, "right": stories[1].base}
    before = expected_missing(rule, states)
    assert pairs_of(book.violations(rule)) == before
    for step in range(max(len(s.changes) for s in stories)):
        batch = []
        for name, told in zip(("left", "right"), stories, strict=True):
            if step < len(told.changes):
                change = told.changes[step]
                batch.append(hf.Change(change.inserts, change.deletes, change.updates, name))
                states[name] = told.states[step]
        out = book.apply(batch)
        now = expected_missing(rule, states)
        assert pairs_of(out.violations.added(rule)) == now - before
        assert pairs_of(out.violations.removed(rule)) == before - now
        assert pairs_of(book.violations(rule)) == now and book.count_violations(rule) == len(now)
        before = now


def expected_missing(rule, states) -> set:
    return {(states["left"][i][ID],) for i in naive.violations(rule, states, "sql")}


def test_too_many_violations_are_counted_not_listed(monkeypatch):
    monkeypatch.setattr("holdfast.violations.detect.DEFAULT_CAP", 100)
    book = hf.Rulebook.create(None, pa.table({"a": [1, 2]}), rules=["key(a)"])
    assert book.apply(hf.Change(inserts=pa.table({"a": [1] * 5}))).violations.added("key(a)").num_rows == 30
    out = book.apply(hf.Change(inserts=pa.table({"a": [1] * 30})))
    assert out.violations.of("key(a)").count == 36 * 35 and out.violations.of("key(a)").count_added == 36 * 35 - 30
    with pytest.raises(hf.RuleError, match="too many to list"):
        out.violations.added("key(a)")
    assert book.violations("key(a)", limit=50).num_rows == 50
    out = book.apply(hf.Change(deletes=pa.table({"a": [1] * 36})))
    assert out.violations.of("key(a)").count == 0


# --- the examples of the paper --------------------------------------------------------------------------------

PACKAGES = pa.table({
    "package code": [0, 1, 2, 3, 4],
    "origin": ["London", "Cape Town", "London", "Cape Town", "New Delhi"],
    "destination": ["Cape Town", "Lima", "New Delhi", "London", "London"],
    "distance": [9700, 9700, 6600, 9700, 6700],
    "volume": [8, 18, 30, 45, 45],
    "postage": [100, 50, 25, 200, 50],
})  # fmt: skip
T5 = {"package code": [5], "origin": ["Mexico City"], "destination": ["Monaco"]}
T5 |= {"distance": [9700], "volume": [18], "postage": [10]}


@pytest.mark.parametrize("index", INDEXES)
def test_the_refinement_of_section_3_1(index):
    """Weever's Table 1 under phi_2, one predicate after the other."""
    steps = {
        "t.origin = s.destination": {(0, 3), (0, 4), (1, 0), (2, 3), (2, 4), (3, 0), (4, 2)},
        "t.destination = s.origin": {(0, 3), (2, 4), (3, 0), (4, 2)},
        "t.distance != s.distance": {(2, 4), (4, 2)},
    }
    for count in range(1, 4):
        rule = f"not({' and '.join(list(steps)[:count])})"
        with searching_with(index):
            found = hf.check(PACKAGES, [rule], key="package code").pairs(rule)
        assert pairs_of(found) == list(steps.values())[count - 1]


@pytest.mark.parametrize("index", INDEXES)
def test_the_refinement_of_section_3_2(index):
    """Inserting t5 under phi_3: the intermediates I (t5 as t) and I' (t5 as s) after each predicate."""
    steps = {
        "t.distance = s.distance": ({0, 1, 3}, {0, 1, 3}),
        "t.volume < s.volume": ({3}, {0}),
        "t.postage > s.postage": (set(), {0}),
    }
    for count in range(1, 4):
        rule = f"not({' and '.join(list(steps)[:count])})"
        with searching_with(index):
            book = hf.Rulebook.create(None, PACKAGES, key="package code", rules=[rule])
            added = pairs_of(book.apply(hf.Change(inserts=pa.table(T5))).violations.added(rule))
        as_t, as_s = list(steps.values())[count - 1]
        assert added == {(5, x) for x in as_t} | {(x, 5) for x in as_s}


@pytest.mark.parametrize("index", INDEXES)
def test_deleting_t4_removes_its_violations(index):
    """Section 3.2: the key phi_1, phi_2 and phi_3 before and after the changes marked in Table 1."""
    rules = {
        "key(`package code`)": set(),
        "not(t.origin = s.destination and t.destination = s.origin and t.distance != s.distance)": {(2, 4), (4, 2)},
        "not(t.distance = s.distance and t.volume < s.volume and t.postage > s.postage)": {(0, 1)},
    }
    with searching_with(index):
        book = hf.Rulebook.create(None, PACKAGES, key="package code", rules=list(rules))
        for rule, expected_now in rules.items():
            assert pairs_of(book.violations(rule)) == expected_now
        out = book.apply(hf.Change(deletes=pa.table({"package code": [4]})))
    for rule, before in rules.items():
        assert pairs_of(out.violations.removed(rule)) == {pair for pair in before if 4 in pair}


# --- hf.check -------------------------------------------------------------------------------------------------


def test_check_by_key_and_by_row():
    people = pa.table({"id": [7, 8, 9], "zip": ["1", "1", "2"], "city": ["x", "y", "z"], "age": [3, -1, None]})
    found = hf.check(people, ["zip -> city", "key(id)", "not(t.age < 0)"], key="id")
    assert found.count("zip -> city") == 2 and found.count("key(id)") == 0 and found.count("not(t.age < 0)") == 1
    assert found.pairs("zip -> city").to_pylist() == [{"t": 7, "s": 8}, {"t": 8, "s": 7}]
    assert found.pairs("not(t.age < 0)").to_pylist() == [{"t": 8}]
    assert found.pairs("zip -> city", limit=1).num_rows == 1
    assert found.error("zip -> city") == pytest.approx(2 / 6) and found.error("not(t.age < 0)") == pytest.approx(1 / 3)
    assert bool(found) and "zip -> city" in repr(found) and "<table>" in found._repr_html_()


def test_composite_keys_are_structs():
    table = pa.table({"a": [1, 1, 2], "b": [1, 2, 1], "c": [5, 5, 6]})
    assert hf.check(table, ["key(c)"], key=["a", "b"]).pairs("key(c)")["t"].to_pylist()[0] == {"a": 1, "b": 1}


def test_pairs_follow_the_text_that_asks():
    table = pa.table({"a": [1, 2]})
    found = hf.check(table, ["not(t.a > s.a)"])
    assert found.pairs("not(t.a > s.a)").to_pylist() == [{"t": 1, "s": 0}]
    assert found.pairs("not(t.a < s.a)").to_pylist() == [{"t": 0, "s": 1}]
    assert str(found.entries[0].value) == "not(t.a < s.a)"


def test_check_several_tables_and_rule_files(tmp_path):
    tables = {"orders": pa.table({"c": [1, 2, None, 9]}), "customers": pa.table({"id": [1.0, 2.0]})}
    found = hf.check(tables, ["orders.c in customers.id", "customers: key(id)"])
    assert found.count("orders.c in customers.id") == 1 and found.pairs("orders.c in customers.id")[
        "t"
    ].to_pylist() == [3]
    (tmp_path / "rules.yml").write_text(
        "rules:\n  - {id: one, rule: 'orders: key(c)', nulls: equal}\n"
        "  - {rule: 'customers: key(id)', status: rejected}\n"
    )
    found = hf.check(tables, tmp_path / "rules.yml")
    assert [e.id for e in found.entries] == ["one"] and found.count("one") == 0
    with pytest.raises(hf.RuleError, match="not among the rules"):
        found.count("customers: key(id)")


def test_decimals_against_floats_are_exact():
    table = pa.table({"a": pa.array([Decimal("0.1"), Decimal("0.5")], pa.decimal128(9, 1)), "b": [0.1, 0.5]})
    assert hf.check(table, ["not(t.a = t.b)"]).pairs("not(t.a = t.b)")["t"].to_pylist() == [1]


def test_the_plan_says_what_is_shared():
    table = pa.table({"a": [1], "b": [1], "c": [1]})
    book = hf.Rulebook.create(
        None, table, rules=["a -> b", "not(t.a = s.a and t.b < s.b)", "not(t.a = s.b)", "not(t.c > 5)"]
    )
    plan = book.plan()
    assert plan.count("index ") == 3 and "key a; dimensions b" in plan and "a test of each row" in plan
    assert "one question" in plan and "two questions" in plan


def test_a_rule_that_adds_comparisons_asks_after_the_other():
    rules = ["not(t.a = s.a and t.b < s.b)", "not(t.a = s.a and t.b < s.b and t.c != s.c)", "key(a)"]
    table = pa.table({"a": [1, 1, 1, 2], "b": [1, 2, 3, 1], "c": [5, 5, 6, 5]})
    book = hf.Rulebook.create(None, table, rules=rules)
    assert (
        book.plan().count("index ") == 1 and f"{rules[1]}: two questions, where {rules[0]} is violated" in book.plan()
    )
    assert [book.count_violations(rule) for rule in rules] == [3, 2, 6]
    out = book.apply(hf.Change(updates=(table.slice(2, 1), pa.table({"a": [1], "b": [3], "c": [5]}))))
    assert (
        pairs_of(out.violations.removed(rules[1])) == {(0, 2), (1, 2)}
        and out.violations.of(rules[0]).count_removed == 0
    )
    more = ["key(a)", "a, b -> c", "not(t.a < s.a and t.b < s.b)", "not(t.a < s.a and t.b < s.b and t.c = s.c)"]
    assert hf.Rulebook.create(None, table, rules=more).plan().count("index ") == 3  # `a, b -> c` has smaller buckets
    apart = hf.check(pa.table({"a": [1, 1], "b": [2, 2], "c": [3, 4]}), ["a -> b", "a -> c"])
    assert apart.count("a -> b") == 0 and apart.count("a -> c") == 2  # neither says less than the other


def test_loading_and_listing_in_parts(monkeypatch):
    """However the rows are cut, counts and lists are the same; progress is told."""
    table = pa.table({"a": [i % 7 for i in range(60)], "b": [i % 5 for i in range(60)]})
    rules, told = ["a -> b", "not(t.a > s.b and t.b < s.a)", "data.a in data.b", "not(t.a > 5)"], []
    whole = hf.check(table, rules)
    monkeypatch.setattr("holdfast.violations.detect.LOADED_AT_ONCE", 7)
    monkeypatch.setattr(BoxIndex, "asked_at_once", 16)
    parts = hf.check(table, rules, progress=lambda done, total: told.append((done, total)))
    for rule in rules:
        assert parts.count(rule) == whole.count(rule) > 0 and parts.pairs(rule).equals(whole.pairs(rule))
        assert parts.pairs(rule, limit=20).equals(whole.pairs(rule).slice(0, 20))
    assert told[-1] == (120, 120) and len(told) == 10  # one index in parts; the FD is counted by groups
    assert len(list(parts.book.violation_parts("a -> b"))) == 5


# --- durability -----------------------------------------------------------------------------------------------


def test_violations_survive_reopening(tmp_path):
    rule = "not(t.a > s.a and t.b < s.b)"
    book = hf.Rulebook.create(tmp_path / "book", pa.table({"a": [1, 2, 3], "b": [3, 1, 2]}), rules=[rule])
    assert book.count_violations(rule) == 2
    book.apply(hf.Change(inserts=pa.table({"a": [0], "b": [9]})))
    again = hf.Rulebook.open(tmp_path / "book")
    assert not again._engine.is_indexed and again.count_violations(rule) == 5
    assert again.violations(rule).equals(book.violations(rule))
    out = again.apply(hf.Change(deletes=pa.table({"a": [0], "b": [9]})))
    assert out.violations.removed(rule).to_pylist() == [{"t": 0, "s": 3}, {"t": 1, "s": 3}, {"t": 2, "s": 3}]


def test_a_refused_change_leaves_the_violations_as_they_are(tmp_path):
    book = hf.Rulebook.create(None, pa.table({"id": [1, 2], "a": [5, 6]}), key="id", rules=["key(a)"])
    with pytest.raises(hf.ChangeRefused):
        book.apply(hf.Change(inserts=pa.table({"id": [3, 1], "a": [5, 5]})))
    assert book.count_violations("key(a)") == 0
    assert book.apply(hf.Change(inserts=pa.table({"id": [3], "a": [5]}))).violations.of("key(a)").count == 2


@pytest.mark.parametrize("step", ["violation_record", "listed"])
def test_an_interrupted_change_leaves_the_violations_as_they_are(step, monkeypatch):
    book = hf.Rulebook.create(None, pa.table({"id": [1], "z": [1], "c": [1]}), key="id", rules=["z -> c"])
    with monkeypatch.context() as patch:
        patch.setattr(book._engine, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            book.apply(hf.Change(inserts=[(2, 1, 2)]))
    assert book.count() == 1 and book.count_violations("z -> c") == 0
    book.apply(hf.Change(inserts=[(2, 1, 1)]))
    assert book.count_violations("z -> c") == 0 == book.violations("z -> c").num_rows


def test_an_interrupted_listing_leaves_the_violations_as_they_are(monkeypatch):
    rows = pa.table({"id": range(60), "z": [i % 3 for i in range(60)], "c": range(60)})
    book = hf.Rulebook.create(None, rows, key="id", rules=["z -> c"])
    truth = book.violations("z -> c")
    with monkeypatch.context() as patch:
        patch.setattr(BoxIndex, "_make_room", interrupt)
        patch.setattr("holdfast.indexes.box._FIRST_ROOM", 4)
        book._engine.forget()
        with pytest.raises(KeyboardInterrupt):
            book.violations("z -> c")
    parts = book.violation_parts("z -> c")
    next(parts), next(parts)
    parts.close()
    added = book.apply(hf.Change(inserts=[(60, 7, 1)])).violations.added("z -> c")
    assert added.num_rows == 0 and book.violations("z -> c").equals(truth)


def interrupt(*_, **__) -> None:
    raise KeyboardInterrupt


def test_a_change_that_fails_at_the_rules_leaves_nothing_behind(tmp_path, monkeypatch):
    """Broken off while the rules look at it, after its words were read: they must not be missing later."""
    rows = pa.table({"n": [1], "x": [1.0], "word": ["one"]})
    book = hf.Rulebook.create(tmp_path / "book", rows, rules=["not(t.n = s.x)"])
    with monkeypatch.context() as patch:
        patch.setattr(Detector, "apply", interrupt)
        with pytest.raises(KeyboardInterrupt):
            book.apply(hf.Change(inserts=pa.table({"n": [2], "x": [1.0], "word": ["two"]})))
    book.apply(hf.Change(inserts=pa.table({"n": [1], "x": [2.0], "word": ["two"]})))
    again = hf.Rulebook.open(tmp_path / "book")
    assert again.table()["word"].to_pylist() == ["one", "two"] == book.table()["word"].to_pylist()
    assert again.count_violations("not(t.n = s.x)") == 1 == book.count_violations("not(t.n = s.x)")


LARGE = [2**63 - 1, 2**62, 2**62 + 1, 2**61 + 1, -(2**62) - 1, 5]


@pytest.mark.parametrize("type_", [pa.float64(), pa.decimal128(19, 1)], ids=str)
def test_large_integers_meet_other_kinds(type_):
    """In what was there, in a later batch, and in what `discover` compares unasked."""
    others = [float(n) for n in LARGE] if type_ == pa.float64() else [Decimal(n // 32) for n in LARGE]
    table = pa.table({"n": LARGE, "x": pa.array(others, type_)})
    rules = ["not(t.n = s.x)", "not(t.n < s.x)", "not(t.n >= t.x)", "data.n in data.x"]
    book = hf.Rulebook.create(None, table.slice(0, 3), rules=rules)
    book.apply(hf.Change(inserts=table.slice(3)))
    for text in rules:
        rule = parse(text)
        database = {"data": table.to_pylist()} if text == rules[-1] else table.to_pylist()
        expected = naive.violations(rule, database, "sql")
        assert book.count_violations(text) == len(expected) == hf.check(table, [text]).count(text)
    crossed = pa.table({"n": [2**62, 2**62 + 1, 7], "x": [2.0**62, 7.0, 1.5], "k": [1, 2, 3]})
    found = hf.discover(crossed, ("dc",), max_size=2)
    assert any("n" in text and "x" in text for text in found.texts())


# --- explanations ---------------------------------------------------------------------------------------------


@given(edges=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda e: e[0] != e[1]), max_size=14))
@settings(max_examples=cases(100))
def test_the_smallest_repair_is_the_smallest(edges):
    def covers(rows) -> bool:
        return all(a in rows or b in rows for a, b in edges)

    exact, greedy = smallest_cover(edges), greedy_cover(edges)
    assert covers(exact) and covers(greedy)
    assert len(exact) == min(len(x) for x in naive.subsets(range(8)) if covers(set(x)))


def test_one_wrong_row_is_one_finding():
    table = pa.table({"id": list(range(20)), "zip": ["1"] * 12 + ["2"] * 8, "city": ["x"] * 11 + ["wrong"] + ["y"] * 8})
    told = hf.check(table, ["zip -> city"], key="id").explain("zip -> city")
    assert told.count == 22 and told.worst[0] == (11, 11)
    ((rows, pairs, remove, exact),) = told.causes
    assert (pairs, remove, exact) == (11, [11], True) and len(rows) == 10
    assert told.clashes[0].values == {"city": ("x", "wrong"), "zip": ("1", "1")}
    assert "fewest rows to remove: [11]" in str(told)


# --- another engine on real data ------------------------------------------------------------------------------

NAMES = {
    "Condition": "condition", "MeasureName": "measure_name", "MeasureCode": "measure_code", "HospitalType": "type",
    "HospitalName": "name", "ZipCode": "zip", "PhoneNumber": "phone", "Stateavg": "state_average",
    "ProviderNumber": "provider_number", "Address1": "address_1", "HospitalOwner": "owner", "State": "state",
    "City": "city", "CountyName": "county", "EmergencyService": "emergency_service",
}  # fmt: skip


def hospital_rules(path) -> list[str]:
    import re

    made = []
    for line in path.read_text().splitlines():
        if line.strip():
            parts = re.findall(r"(EQ|IQ)\(t1\.(\w+),t2\.(\w+)\)", line)
            ops = {"EQ": "=", "IQ": "!="}
            made.append(f"not({' and '.join(f't.{NAMES[a]} {ops[o]} s.{NAMES[b]}' for o, a, b in parts)})")
    return made


@pytest.mark.data
def test_hospital_equals_duckdb(real_data):
    rules = hospital_rules(real_data / "dirtyclean/hospital_constraints.txt")
    assert len(rules) == 15
    folder = real_data / "dirtyclean/hospital"
    found = hf.check(folder / "dirty.csv", rules)
    table = found.book.table().append_column("row id", pa.array(range(found.book.count())))
    schema = hf.Schema((*found.book.schemas["dirty"].columns, hf.Schema.of(**{"row id": "integer"}).columns[0]))
    with duckdb.connect() as duck:
        duck.register("data", table)
        for rule in rules:
            query = hf.violations_sql(hf.parse(rule), schema, key="row id")
            expected = sorted(tuple(r) for r in duck.execute(query).fetchall())
            pairs = found.pairs(rule)
            assert list(zip(pairs["t"].to_pylist(), pairs["s"].to_pylist(), strict=True)) == expected
            assert found.count(rule) == len(expected)


def test_explanations_speak_as_they_are_asked():
    told = hf.check(pa.table({"a": [1, 2]}), ["not(t.a > s.a)"]).explain("not(t.a > s.a)")
    assert told.rule == "not(t.a > s.a)" and told.clashes[0].values == {"a": (2, 1)}
    one = hf.check(pa.table({"n": [1]}), ["not(t.n > 0)", "key(n)"])
    assert one.error("not(t.n > 0)") == 1.0 and one.error("key(n)") == 0.0


@pytest.mark.parametrize("rules", [None, [5], ["key(a)", "key(a)"]])
def test_rules_that_are_none(rules):
    with pytest.raises(hf.RuleError):
        hf.check(pa.table({"a": [1]}), rules)
    assert hf.check(pa.table({"a": [1]}), hf.parse("key(a)")).count("key(a)") == 0


def test_null_policies_of_files_give_way_to_those_that_are_asked_for(tmp_path):
    (tmp_path / "r.yml").write_text("rules:\n  - rule: key(a)\n  - {id: own, rule: 'not(t.a is null)', nulls: sql}\n")
    table = pa.table({"a": pa.array([None, None], pa.int64())})
    assert hf.check(table, tmp_path / "r.yml", nulls="equal").count("key(a)") == 2
    assert hf.check(table, tmp_path / "r.yml").count("key(a)") == 0


def test_one_row_denials_are_single():
    assert hf.parse("not(t.a < 5)").is_one_row and isinstance(hf.parse("not(t.a < 5)"), Dc)


@pytest.mark.parametrize("nulls", hs.POLICIES)
@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("literal", ["1", "1.5"])
def test_constants_and_nulls(nulls, op, literal):
    rows = [{"a": value} for value in (None, 0, 1, 2)]
    for rule in (f"not(t.a {op} {literal})", f"not(t.a {op} {literal} and t.a != s.a)"):
        found = hf.check(pa.table({"a": [row["a"] for row in rows]}), [rule], nulls=nulls).pairs(rule)
        expected = naive.violations(hf.parse(rule), rows, nulls)
        assert pairs_of(found) == {p if isinstance(p, tuple) else (p,) for p in expected}
