"""Violations of keys and FDs as groups of rows, against the definition."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.encoded_tables import EncodedTables
from holdfast.rules.operator import Op
from holdfast.rules.rule import Key
from holdfast.table.options import Choices
from holdfast.violations.clashing_groups import clashing_groups
from holdfast.violations.detect import CheckedRule
from tests import naive
from tests import strategies as hs
from tests.conftest import cases

NULLS = ("equal", "distinct", "sql")


@pytest.mark.parametrize("nulls", NULLS)
@given(data=st.data())
@settings(max_examples=cases(60))
def test_groups_have_the_rows_of_all_violating_pairs(nulls, data):
    schema, rows = data.draw(hs.tables(rows=8))
    rule = data.draw(st.one_of(hs.keys(schema), hs.fds(schema)))
    where = data.draw(hs.one_row_filters(schema))
    expected = naive.violations(rule, rows, nulls, where)
    applies = [row for row in rows if all(naive.satisfies(p, row, row, "sql") for p in where)]
    loaded = EncodedTables.of(hs.to_arrow(schema, rows), Choices())
    found = clashing_groups(CheckedRule(rule, nulls, where), loaded.rows["data"], loaded.dictionary)
    assert found.count == len(found.groups) and found.rows == sum(group.count for group in found.groups)
    assert [group.count for group in found.groups] == sorted((g.count for g in found.groups), reverse=True)
    named = [row for group in found.groups for value in group.values for row in value.rows]
    assert len(named) == len(set(named))
    concerned = {i for pair in expected for i in pair}
    assert found.fewest == naive.rows_to_remove(rule, applies, nulls)
    assert len(concerned) == found.rows and {*named} <= concerned <= {*named} | _of_large(found, rows, rule)


@given(data=st.data())
@settings(max_examples=cases(60))
def test_groups_of_newcomers_are_those_that_have_one(data):
    schema, rows = data.draw(hs.tables(rows=8))
    rule = data.draw(st.one_of(hs.keys(schema), hs.fds(schema)))
    loaded = EncodedTables.of(hs.to_arrow(schema, rows), Choices())
    item, table = CheckedRule(rule, "sql", frozenset()), loaded.rows["data"]
    newcomers = np.array(data.draw(st.lists(st.integers(0, max(len(rows) - 1, 0)), max_size=3)), np.int64)
    every = clashing_groups(item, table, loaded.dictionary).groups
    found = clashing_groups(item, table, loaded.dictionary, None, newcomers).groups
    wanted = [g for g in every if {row for v in g.values for row in v.ids} & {*newcomers.tolist()}]
    assert [g.left for g in found] == [g.left for g in wanted] and [g.count for g in found] == [g.count for g in wanted]
    for group in found:
        for value in group.values:
            is_new = [row in newcomers for row in value.ids]
            assert is_new == sorted(is_new, reverse=True)
        has_new = [any(row in newcomers for row in value.ids) for value in group.values[1:]]
        assert has_new == sorted(has_new, reverse=True)


def _of_large(found, rows, rule):
    """Rows of groups of which not all rows are named."""
    left = rule.columns if isinstance(rule, Key) else rule.left
    large = [group.left for group in found.groups if group.count > sum(len(v.rows) for v in group.values)]

    def is_in(row, group):
        return all(naive.holds(Op.EQ, row[c], group[c], "equal") for c in left)

    return {i for i, row in enumerate(rows) if any(is_in(row, group) for group in large)}


CITIES = pa.table(
    {"id": range(100, 107), "zip": [1, 1, 1, 2, 2, 3, None], "city": ["B", "B", "C", "D", None, "E", "F"]}
)


def test_what_a_group_says():
    found = hf.check(CITIES, ["zip -> city", "key(zip)", "not(t.id < 0)"], key="id")
    (group,) = found.groups("zip -> city").groups
    assert group.left == {"zip": 1} and group.right == "city" and group.count == 3
    assert [(v.value, v.count, v.rows) for v in group.values] == [("B", 2, (101, 100)), ("C", 1, (102,))]
    assert str(group) == "1: B 2 rows, C 1 row (102)"
    keys = found.groups("key(zip)")
    assert [str(g) for g in keys.groups] == ["1: 3 rows (102, 101, 100)", "2: 2 rows (104, 103)"]
    assert (keys.count, keys.rows) == (2, 5) and found.groups("not(t.id < 0)") is None
    assert len(found.groups("key(zip)", limit=1).groups) == 1
    equal = hf.check(CITIES, ["zip -> city"], key="id", nulls="equal")
    assert [str(g) for g in equal.groups("zip -> city").groups][1] == "2: empty 1 row, D 1 row (103)"


def test_on_the_command_line(tmp_path, capsys):
    pc.write_csv(CITIES, tmp_path / "cities.csv")
    asked = ["check", str(tmp_path / "cities.csv"), "--rule", "zip -> city", "--key", "id"]
    assert status_of(asked) == 1
    out = capsys.readouterr().out
    first, second = out.splitlines()[-2:]
    assert first == "zip -> city: 1 group of rows that clash, 3 rows in all; fewest rows to change or remove: 1"
    assert second == "  1: B 2 rows, C 1 row (102)"
    assert status_of([*asked, "--pairs"]) == 1
    assert "the first 4 of 4 violations" in capsys.readouterr().out
    assert status_of([*asked, "--format", "json"]) == 1
    (record,) = json.loads(capsys.readouterr().out)["violations"]
    assert len(record["pairs"]) == 4 and record["groups"] == [
        {
            "left": {"zip": 1},
            "right": "city",
            "rows": 3,
            "values": [{"value": "B", "count": 2, "rows": [101, 100]}, {"value": "C", "count": 1, "rows": [102]}],
        }
    ]


def test_masked_values_are_in_no_group(tmp_path, capsys):
    with hf.Rulebook.create(tmp_path / "book", CITIES, key="id", rules=["zip -> city"], mask=["city"]):
        pass
    assert status_of(["violations", str(tmp_path / "book"), "--format", "json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["violations"]
    assert record["groups"] == [] and len(record["pairs"]) == 4
