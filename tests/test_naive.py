"""The definitions themselves, on cases that were worked out by hand or are known from the literature."""

from __future__ import annotations

import pytest

from holdfast import parse
from holdfast.rules.operator import Op
from tests import naive


def rows(names: str, *values: tuple) -> list[dict]:
    return [dict(zip(names.split(), row, strict=True)) for row in values]


def texts(rules) -> list[str]:
    return sorted(map(str, rules))


@pytest.mark.parametrize(
    ("nulls", "both", "one"),
    [("equal", {"=", "<=", ">="}, {"!="}), ("distinct", {"!="}, {"!="}), ("sql", set(), set())],
)
def test_the_three_null_policies(nulls, both, one):
    assert {str(op) for op in Op if naive.holds(op, None, None, nulls)} == both
    assert {str(op) for op in Op if naive.holds(op, None, 1, nulls)} == one
    assert {str(op) for op in Op if naive.holds(op, 1, None, nulls)} == one


def test_what_holds_with_equal_or_distinct_nulls_holds_in_sql():
    table = rows("a b", (1, 1), (1, None), (None, 2), (None, 3))
    rule = parse("a -> b")
    found = {nulls: set(naive.violations(rule, table, nulls)) for nulls in ("equal", "distinct", "sql")}
    assert found["sql"] <= found["equal"] & found["distinct"]
    assert found["equal"] == {(0, 1), (1, 0), (2, 3), (3, 2)} and found["distinct"] == {(0, 1), (1, 0)}


def test_violations_are_ordered_pairs_of_different_rows():
    table = rows("zip city", ("1", "x"), ("1", "y"), ("1", "x"), ("2", "x"))
    assert naive.violations(parse("zip -> city"), table, "sql") == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert naive.violations(parse("key(zip, city)"), table, "sql") == [(0, 2), (2, 0)]
    assert naive.violations(parse("not(t.zip < '2')"), [], "sql") == []


def test_order_dependencies_use_the_inverse_of_the_conclusion():
    table = rows("salary tax", (1, 1), (2, 1), (3, 5))
    assert naive.violations(parse("{salary <} -> tax <"), table, "sql") == [(0, 1)]
    assert naive.violations(parse("{salary <} -> tax <="), table, "sql") == []


def test_missing_partners():
    database = {"orders": rows("c", (1,), (2,), (None,), (2,)), "customers": rows("id", (1,), (None,))}
    rule = parse("orders.c in customers.id")
    assert naive.violations(rule, database, "equal") == [1, 3]
    assert naive.missing_share(rule, database) == 0.5
    assert (
        naive.missing_share(parse("orders.c in customers.id"), {"orders": rows("c", (None,)), "customers": []}) is None
    )


def test_errors():
    table = rows("a b", (1, 1), (1, 1), (1, 2), (2, 2))
    assert naive.g1(parse("a -> b"), table, "sql") == pytest.approx(4 / 12)
    assert naive.g3(parse("a -> b"), table, "sql") == 1 / 4
    assert naive.g1(parse("a -> b"), table[:1], "sql") == 0.0
    assert naive.g3(parse("key(a)"), table, "sql") == 2 / 4
    nulls = rows("a b", (1, None), (1, None), (1, 2))
    assert naive.g3(parse("a -> b"), nulls, "sql") == 0
    assert naive.g3(parse("a -> b"), nulls, "equal") == pytest.approx(1 / 3)
    assert naive.g3(parse("a -> b"), nulls, "distinct") == pytest.approx(2 / 3)


def test_minimal_keys_and_dependencies():
    table = rows("a b c d", (1, 1, 1, 0), (1, 2, 1, 0), (2, 1, 2, 0))
    assert texts(naive.keys(table, "abcd", "equal")) == ["key(a, b)", "key(b, c)"]
    assert texts(naive.fds(table, "abcd", "equal")) == ["() -> d", "a -> c", "c -> a"]
    assert naive.fds(table[:1], "abcd", "equal") == set()
    assert texts(naive.keys(table, "abcd", "equal", max_error=0.4, error="g3")) == ["key(a)", "key(b)", "key(c)"]


def test_minimal_order_dependencies():
    table = rows("a b", (1, 1), (2, 2), (3, 2))
    found = texts(naive.orders(table, {"a": True, "b": True}, "equal"))
    assert found == ["{a <=} -> b <=", "{a =} -> b <", "{a =} -> b =", "{b <} -> a <"]


def test_minimal_denial_constraints_are_minimal_in_weak_atoms():
    table = rows("a b", (1, 1), (2, 2), (3, 2))
    found = texts(naive.dcs(table, [("a", "a", True), ("b", "b", True)], "equal"))
    assert found == ["not(t.a <= s.a and t.b > s.b)", "not(t.a = s.a)"]


def test_trivial_by_trying():
    assert naive.trivial(parse("not(t.a = s.a and t.b = s.b and t.a = s.b and t.b != s.a)"))
    assert not naive.trivial(parse("not(t.a < s.a and t.b < s.b)"))
