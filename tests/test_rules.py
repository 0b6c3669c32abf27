"""Grammar, canonical form, operator tables, implication, triviality, JSON, and fitting a schema."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import HoldfastError, ParseError, RuleError, parse
from holdfast.rules.bind import is_symmetric, require_fits
from holdfast.rules.grammar import parse_filter
from holdfast.rules.implication import implies, is_trivial
from holdfast.rules.jsonform import from_json, to_json
from holdfast.rules.names import by_position
from holdfast.rules.operator import Op, Weak
from holdfast.rules.predicate import Cell, Compare
from holdfast.rules.rule import Dc, Ind, as_dc
from holdfast.table.schema import Schema
from tests import naive
from tests import strategies as hs
from tests.conftest import cases


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("key(ssn)", "key(ssn)"),
        ("key( phone ,area )", "key(area, phone)"),
        ("zip->city", "zip -> city"),
        ("()->country", "() -> country"),
        ("state, has_child -> exemption", "has_child, state -> exemption"),
        ("orders.customer in customers.id", "orders.customer in customers.id"),
        ("orders(b, a) in items(y, x)", "orders(a, b) in items(x, y)"),
        ("orders(a) in items(x)", "orders.a in items.x"),
        ("{salary >, exemption <} -> rate <=", "{exemption <, salary >} -> rate <="),
        ("{a <} -> b >", "{a >} -> b <"),
        ("{a >} -> b =", "{a <} -> b ="),
        ("{} -> b =", "{} -> b ="),
        ("not(s.zip = t.zip and t.city != s.city)", "not(t.city != s.city and t.zip = s.zip)"),
        ("not(t.a <= s.a and t.a != s.a)", "not(t.a < s.a)"),
        ("not(t.a >= s.a and s.a >= t.a)", "not(t.a = s.a)"),
        ("not(t.a > s.a)", "not(t.a < s.a)"),
        ("not(t.low > t.high)", "not(t.high < t.low)"),
        ("not(s.age < 0)", "not(t.age < 0)"),
        ("not(0 > t.age)", "not(t.age < 0)"),
        ("not(t.a = 5.00 and t.b = s.b)", "not(s.a = 5 and t.b = s.b)"),
        ("not(t.a = -0 or_more)", None),
        ("not(t.a = 'it''s')", "not(t.a = 'it''s')"),
        ("not(t.a = true and t.b is null)", "not(t.a = true and t.b is null)"),
        ("not(t.d < date '2026-01-31')", "not(t.d < date '2026-01-31')"),
        ("not(t.d < timestamp '2026-01-31T12:00:00+02:00')", "not(t.d < timestamp '2026-01-31T10:00:00Z')"),
        ("key(`zip code`, `key`, `a``b`)", "key(`a``b`, `key`, `zip code`)"),
        ("orders: zip -> city", "orders: zip -> city"),
        ("`my orders`: key(id)", "`my orders`: key(id)"),
        ("t -> s", "t -> s"),
        ("not(t.t = s.t and t.s != s.s)", "not(t.s != s.s and t.t = s.t)"),
        ("größe -> 数", "größe -> 数"),
    ],
)
def test_text_is_canonical(text, canonical):
    if canonical is None:
        with pytest.raises(ParseError):
            parse(text)
        return
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text) and hash(parse(canonical)) == hash(parse(text))


@pytest.mark.parametrize(
    ("text", "expected", "position"),
    [
        ("zip > city", "`->`", 4),
        ("zip city", "`->`", 4),
        ("", "a rule", 0),
        ("key()", "a column", 4),
        ("not()", "t.column", 4),
        ("not(t.a == s.a)", "equality is written =", 8),
        ("not(t.a <> s.a)", "inequality is written !=", 8),
        ("not(t.a = s.a", "`)`", 13),
        ("not(t.a = 'x)", "a closing quote", 10),
        ("key(`x)", "a closing backtick", 4),
        ("key(in)", "reserved word", 4),
        ("zip -> city, state", "one column on the right", 11),
        ("key(a) key(b)", "the end of the rule", 7),
        ("not(1 = 2)", "a cell", 8),
        ("not(t.a is 5)", "`null`", 11),
        ("orders.a in", "a table", 11),
        ("not(t.d < date '2026-02-30')", "an ISO date", 15),
        ("not(t.d < timestamp '2026-01-31T10:00:00.1234567Z')", "at most microseconds", 20),
        ("not(t.d = timestamp '0001-01-01T00:00:00+14:00')", "an ISO timestamp", 20),
        ("a -> b ; c", "a name, a literal or an operator", 7),
        ("not(x.a = s.a)", "t.column", 4),
    ],
)
def test_parse_errors_say_what_and_where(text, expected, position):
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert expected in caught.value.expected
    assert caught.value.position == position
    assert str(caught.value).splitlines()[-1] == f"  {' ' * position}^"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not(t.a < s.a and t.a > s.a)", "contradiction"),
        ("not(t.a = s.a and s.a != t.a)", "contradiction"),
        ("not(t.a is null and t.a is not null)", "contradiction"),
        ("not(t.a = t.a)", "itself"),
        ("a, b -> a", "both sides"),
        ("{a <} -> a <", "both sides"),
        ("{a <, a >=} -> b <", "twice"),
        ("{a <} -> b !=", "not !="),
        ("{a !=} -> b <", "not !="),
        ("orders.a in orders.a", "included in itself"),
        ("orders(a, b) in items(x)", "2 columns on the left"),
        ("orders(a, a) in items(x, y)", "twice"),
    ],
)
def test_rules_that_say_nothing_are_refused(text, reason):
    with pytest.raises(RuleError, match=reason):
        parse(text)


@given(data=st.data())
@settings(max_examples=cases(500))
def test_parse_inverts_print(data):
    schema = data.draw(hs.schemas())
    rule = data.draw(hs.one_table_rules(schema))
    assert parse(str(rule)) == rule
    assert parse(rule.text(by_position(schema.names))) == rule
    assert from_json(to_json(rule)) == rule
    assert parse(str(rule)).id == rule.id


@given(data=st.data())
@settings(max_examples=cases(300))
def test_the_canonical_text_is_the_smaller_mirror_image(data):
    schema = data.draw(hs.schemas())
    rule = data.draw(hs.dcs(schema))
    images = [Dc(rule.predicates), Dc(rule.mirrored())]
    assert images[0] == images[1] == rule
    assert Dc(rule.written).flipped == rule.flipped or is_symmetric(rule)


@given(data=st.data(), nulls=st.sampled_from(hs.POLICIES))
@settings(max_examples=cases(400))
def test_a_rule_and_its_denial_constraint_have_the_same_violations(data, nulls):
    schema, rows = data.draw(hs.tables(rows=5))
    rule = data.draw(hs.one_table_rules(schema))
    assert naive.violations(rule, rows, nulls) == naive.violations(as_dc(rule), rows, nulls)
    assert naive.violations(rule, rows, nulls) == naive.violations(parse(str(rule)), rows, nulls) or rule.flipped


@given(data=st.data(), nulls=st.sampled_from(hs.POLICIES))
@settings(max_examples=cases(300))
def test_what_is_valid_stays_valid_for_implied_rules(data, nulls):
    schema, rows = data.draw(hs.tables(rows=5))
    strong, weak = (data.draw(hs.one_table_rules(schema)) for _ in range(2))
    if implies(strong, weak) and not naive.violations(strong, rows, nulls):
        assert not naive.violations(weak, rows, nulls)


@given(data=st.data())
@settings(max_examples=cases(500))
def test_implication_is_the_definition(data):
    schema = data.draw(hs.schemas(least=2, most=3))
    kind = data.draw(st.sampled_from([hs.keys, hs.fds, hs.orders]))
    strong, weak = data.draw(kind(schema)), data.draw(kind(schema))
    assert implies(strong, weak) == naive.implies(strong, weak)


@st.composite
def comparisons(draw: st.DrawFn) -> Dc:
    cells = [Cell(row, column) for row in "ts" for column in "ab"]
    found = []
    for _ in range(draw(st.integers(1, 4))):
        left, right = draw(st.lists(st.sampled_from(cells), min_size=2, max_size=2, unique=True))
        found.append(Compare(left, draw(st.sampled_from(list(Op))), right))
    try:
        return Dc(frozenset(found))
    except RuleError:
        return Dc(frozenset(found[:1]))


@given(strong=comparisons(), weak=comparisons())
@settings(max_examples=cases(500))
def test_denial_constraints_imply_by_weak_atoms_in_both_orientations(strong, weak):
    assert implies(strong, weak) == naive.implies(strong, weak)


@given(rule=comparisons())
@settings(max_examples=cases(500))
def test_trivial_by_closure_is_trivial_by_trying(rule):
    assert is_trivial(rule) == naive.trivial(rule)


@pytest.mark.parametrize(
    ("text", "trivial"),
    [
        ("not(t.a = s.a and t.b = s.b and t.a = s.b and t.b != s.a)", True),
        ("not(t.a < 5 and t.a > 7)", True),
        ("not(t.a = 'x' and t.a = 'y')", True),
        ("not(t.a > 5 and t.a < 7)", False),
        ("not(t.a is null and t.a < 5)", True),
        ("not(t.a is null and t.a = s.a)", False),
        ("not(t.a is null and t.a = s.a and s.a is not null)", True),
        ("zip -> city", False),
    ],
)
def test_triviality_with_constants_and_nulls(text, trivial):
    assert is_trivial(parse(text)) == trivial


def test_inclusion_implies_its_projections():
    wide, narrow = parse("a(x, y) in b(u, v)"), parse("a.x in b.u")
    assert implies(wide, narrow) and not implies(narrow, wide)
    assert not implies(wide, Ind("a", ("x",), "b", ("v",)))


def test_operator_tables():
    """IncDC, Tables 4 and 5, by trying all ways to compare."""
    ways = ((0, 0), (0, 1), (1, 0))
    for op in Op:
        for a, b in ways:
            assert naive.holds(op, a, b, "sql") != naive.holds(op.inverse, a, b, "sql")
            assert naive.holds(op, a, b, "sql") == naive.holds(op.mirror, b, a, "sql")
        for other in Op:
            assert op.implies(other) == naive.op_implies(op, other)
    assert Op.of_atoms(Weak.LE | Weak.GE | Weak.NE) is None


SCHEMAS = {"data": Schema.of(id="integer", name="text", price="decimal(2)", day="date", ok="boolean")}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nam -> id", "unknown column 'nam'; did you mean 'name'"),
        ("{name <} -> id <", "'name' is text, which has no order"),
        ("not(t.ok < s.ok)", "'ok' is boolean, which has no order"),
        ("not(t.name = s.id)", "cannot be compared"),
        ("not(t.day = t.id)", "cannot be compared"),
        ("not(t.id = 'x')", "cannot be compared with 'x'"),
        ("not(t.name = 5)", "cannot be compared"),
        ("other: key(id)", "unknown table 'other'"),
        ("data.id in other.id", "unknown table 'other'"),
        ("data.id in data.name", "cannot be compared"),
    ],
)
def test_rules_that_do_not_fit_are_refused_by_name(text, reason):
    with pytest.raises(RuleError, match=reason) as caught:
        require_fits(parse(text), SCHEMAS)
    assert str(caught.value).startswith(f"`{parse(text)}`")


def test_rules_that_fit():
    for text in (
        "key(id, name)",
        "name -> ok",
        "{day <, price >=} -> id <",
        "not(t.price = s.id and t.day < timestamp '2020-01-01T00:00:00Z')",
        "data.id in data.price",
    ):
        require_fits(parse(text), SCHEMAS)
    with pytest.raises(RuleError, match="say which table"):
        require_fits(parse("key(id)"), {"a": SCHEMAS["data"], "b": SCHEMAS["data"]})


def test_filters_are_about_one_row():
    assert len(parse_filter("t.a = 5 and t.b is null")) == 2
    for text in ("t.a = s.a", "s.a = 5", "t.a", "t.a = 5 and"):
        with pytest.raises(HoldfastError):
            parse_filter(text)
