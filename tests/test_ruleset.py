"""Columnar rule sets behave as sets of rule values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast import RuleSet, parse
from holdfast.rules.rule import as_dc
from tests import strategies as hs
from tests.conftest import cases

TEXTS = [
    "key(a)",
    "a -> b",
    "a, b -> c",
    "() -> c",
    "x.a in y.b",
    "x(a, b) in y(c, d)",
    "{a <} -> b <=",
    "{a =, c >} -> b =",
    "not(t.a < s.a and t.b = s.b)",
    "not(t.a is null and t.b > 5)",
    "orders: a -> b",
    "orders: key(a, c)",
]


@st.composite
def rule_lists(draw: st.DrawFn):
    schema = hs.Schema.of(a="integer", b="integer", c="text")
    mixed = st.one_of(hs.one_table_rules(schema), st.sampled_from([parse(t) for t in TEXTS]))
    return draw(st.lists(mixed, max_size=12))


@given(left=rule_lists(), right=rule_lists())
@settings(max_examples=cases(300))
def test_a_rule_set_is_a_set(left, right):
    a, b = RuleSet.from_rules(left), RuleSet.from_rules(right)
    assert set(a) == set(left) and len(a) == len(set(left))
    assert set(a | b) == set(left) | set(right) and len(a | b) == len(set(left) | set(right))
    assert set(a - b) == set(left) - set(right)
    assert set(a & b) == set(left) & set(right)
    assert (a == b) == (set(left) == set(right))
    assert all(rule in a for rule in left)
    assert a.texts() == sorted(str(rule) for rule in set(left))
    for kind in ("key", "fd", "ind", "order", "dc"):
        assert set(a.of(kind)) == {rule for rule in left if rule.kind == kind}


@given(rules=rule_lists())
@settings(max_examples=cases(100))
def test_mentioning_a_column(rules):
    found = RuleSet.from_rules(rules).mentioning("b")
    assert set(found) == {rule for rule in rules if "b" in words(rule)}


def words(rule) -> set[str]:
    if rule.kind == "ind":
        return {*rule.left, *rule.right}
    return {cell.column for p in as_dc(rule).predicates for cell in p.cells}


def test_built_from_masks():
    columns = [f"c{i}" for i in range(130)]
    left = np.zeros((2, 3), dtype=np.uint64)
    left[0, 2] = 2  # column 129
    left[1, 0] = 5  # columns 0 and 2
    rules = RuleSet.fds(columns, left, np.array([1, 129]), table="wide")
    assert rules.texts() == ["wide: c0, c2 -> c129", "wide: c129 -> c1"]
    assert rules.where(lambda block: block.sizes() > 1).texts() == ["wide: c0, c2 -> c129"]
    assert RuleSet.keys(columns, left).texts() == ["key(c0, c2)", "key(c129)"]


def test_texts_go_by_the_schema():
    rules = RuleSet.from_rules([parse("a, b -> c"), parse("not(t.a > s.a and t.b < s.b)")], names=["b", "a", "c"])
    assert rules.texts() == ["b, a -> c", "not(t.b < s.b and t.a > s.a)"]


def test_it_can_be_shown_and_exported():
    rules = RuleSet.from_rules([parse("key(`<b>`)"), parse("a -> b")])
    assert rules.to_arrow().column("kind").to_pylist() == ["key", "fd"]
    assert "&lt;b&gt;" in rules._repr_html_() and "<b>" not in rules._repr_html_()
    assert repr(rules) == "<RuleSet: 1 key, 1 fd>"
    assert list(rules.to_pandas()["text"]) == ["key(`<b>`)", "a -> b"]
    assert RuleSet().texts() == [] and RuleSet().complete


def test_tables_in_notebooks_are_bounded_and_escaped():
    many = hf.discover(pa.table({f"<c{i}>": [1, 2, 3] for i in range(12)}), ("fd", "key"))
    shown = RuleSet(many.blocks)._repr_html_()
    assert shown.count("<tr>") == 51 and "more</p>" in shown and "<c1>" not in shown and "onclick" in shown
    assert "<c1>" not in many._repr_html_() and "worth reading" in many._repr_html_()
    book = hf.Rulebook.create(None, pa.table({"a": ["<x>", "y"], "b": [1, 2]}), rules=["a -> b"], kinds=("fd",))
    out = book.apply(hf.Change(inserts=pa.table({"a": ["<x>"], "b": [3]})))
    assert "1 inserted" in out._repr_html_() and "a -&gt; b" in out._repr_html_()
    assert "<x>" not in book.explain("a -> b")._repr_html_()
