"""Keys and FDs by size: rules of rows that do not change, small ones first."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.discovery.budget import Budget
from holdfast.discovery.fd import levels, table_fds
from holdfast.discovery.fd.levels import RulesBySize
from holdfast.discovery.fd.table_fds import TableFds
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.witness.partitions import Partitions
from holdfast.executors.executor import Cancelled
from holdfast.rules.masks import sizes
from holdfast.rules.rule import Key
from tests import naive
from tests.clock import Ticking
from tests.conftest import cases
from tests.strategies import POLICIES
from tests.test_agree import Table, expected, rules_of, values

LIMITS = {"key": st.sampled_from([None, 0, 1, 2, 3]), "fd": st.sampled_from([None, 0, 1, 2, 3])}


def size_of(rule):
    return len(rule.columns if isinstance(rule, Key) else rule.left)


def arrived(rows, columns):
    table = Table(columns)
    return table, table.change([], rows)


def random_rows(rows, columns, seed=0):
    """Some columns have two values, others nearly as many as rows, some depend on others."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, rng.integers(2, 2 + rows), rows) for _ in range(columns)])
    for c in range(2, columns, 5):
        codes[c] = codes[c - 1] // 2 + codes[c - 2] % 2
    return codes


def everywhere(*, small=2, most_rules=None):
    """However small the table: rules by size come first, in the smallest slices."""
    stack = ExitStack()
    stack.enter_context(patch.multiple(table_fds, _SMALL=small, _NARROW=0, _FEW_CELLS=0))
    limits = {"_LISTED": 1, "_PREFIXES": 2} | ({} if most_rules is None else {"MOST_RULES": most_rules})
    stack.enter_context(patch.multiple(levels, **limits))
    return stack


@pytest.mark.parametrize("nulls", POLICIES)
@given(data=st.data())
@settings(max_examples=cases(60))
def test_rules_by_size_follow_the_definition(nulls, data):
    columns = data.draw(st.integers(1, 5))
    most = {kind: data.draw(limit) for kind, limit in LIMITS.items()}
    kinds = data.draw(st.sampled_from([("key", "fd"), ("key",), ("fd",)]))
    table, change = arrived(data.draw(values(columns).filter(lambda rows: len(rows) > 1)), columns)
    by_size = RulesBySize(Partitions.of_codes(change.added_codes, nulls), {kind: most[kind] for kind in kinds})
    rules = naive.keys(table.dicts(), table.names, nulls, most["key"]) if "key" in kinds else set()
    rules |= naive.fds(table.dicts(), table.names, nulls, most["fd"]) if "fd" in kinds else set()
    for size in range(columns + 1):
        by_size.search(size)
        found = set(by_size.rules().ruleset(table.names, None))
        assert found == {rule for rule in rules if size_of(rule) <= size}
    assert by_size.is_done and not by_size.unfinished


@pytest.mark.parametrize("nulls", POLICIES)
@given(data=st.data())
@settings(max_examples=cases(40))
def test_rows_that_do_not_change(nulls, data):
    columns, most = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([None, 0, 1, 2, 3]))
    table, change = arrived(data.draw(values(columns)), columns)
    wanted, pairs = SearchOptions(("key", "fd"), nulls, most), data.draw(st.sampled_from([1e9, -1]))
    with everywhere(small=data.draw(st.integers(0, 3))):
        found = TableFds(columns, wanted, most_pairs=pairs, static=True)
        found.update(change)
    assert rules_of(found, table) == expected(table, nulls, most)
    assert not found.unfinished and not found.complete_up_to


@pytest.mark.parametrize("nulls", POLICIES)
@given(data=st.data())
@settings(max_examples=cases(40))
def test_a_partial_result_has_all_rules_up_to_the_size_that_it_names(nulls, data):
    columns, seconds = data.draw(st.integers(3, 5)), data.draw(st.integers(0, 120))
    table, change = arrived(data.draw(values(columns)), columns)
    found = TableFds(columns, SearchOptions(("key", "fd"), nulls, None), static=True)
    with everywhere(small=data.draw(st.integers(0, 3))):
        found.update(change, Budget(seconds, divided=True, clock=Ticking()))
    rules, every = rules_of(found, table), expected(table, nulls, None)
    assert rules <= every
    for kind in ("key", "fd"):
        of_kind = {rule for rule in every if isinstance(rule, Key) == (kind == "key")}
        known = found.complete_up_to.get(kind, columns) if kind in found.unfinished else columns
        assert {rule for rule in of_kind if size_of(rule) <= known} <= rules


def rows_of(rules):
    """Rules as rows that can be compared, those up to each size."""
    rules = rules.expanded()
    rows = np.unique(np.concatenate([rules.lefts, rules.rights[:, None].astype(np.uint64)], axis=1), axis=0)
    return [rows[sizes(rows[:, :-1]) <= size] for size in range(4)]


@pytest.mark.parametrize("columns", [30, 63, 64, 70])
def test_a_limit_leaves_out_larger_rules(columns):
    """By size with a limit == by agree-sets without one, and filtered."""
    codes = random_rows(12, columns, columns)
    change = arrived([tuple(row) for row in codes.T.tolist()], columns)[1]
    counted = TableFds(columns, SearchOptions(("key", "fd"), max_size=3))
    counted.update(change)
    for most, rows in enumerate(rows_of(counted.collapsed())):
        capped = TableFds(columns, SearchOptions(("key", "fd"), max_size=most), static=True)
        with patch.multiple(table_fds, _SMALL=3):
            capped.update(change)
        assert np.array_equal(rows_of(capped.collapsed())[3], rows)


def test_too_many_rules_are_left_out_whole():
    """As far as the search is limited in time."""
    partitions = Partitions.of_codes(random_rows(12, 30), "equal")
    names = [f"c{i}" for i in range(30)]
    whole, some = (RulesBySize(partitions, {"key": 3, "fd": 3}) for _ in range(2))
    whole.search(3)
    every = whole.rules().ruleset(names, None)
    up_to_one = {rule for rule in every if size_of(rule) <= 1}
    one = RulesBySize(partitions, {"key": 1, "fd": 1})
    one.search(1)
    with everywhere(most_rules=len(one.rules())):
        some.search(3, Budget(1000))
    assert (some.done, some.unfinished) == (1, ["key", "fd"]) and "rules for a search" in some.ended
    assert set(some.rules().ruleset(names, None)) == up_to_one
    with everywhere(most_rules=0):
        assert set(some.with_larger(whole.rules()).ruleset(names, None)) == up_to_one
    assert set(some.with_larger(whole.rules()).ruleset(names, None)) == set(every)


def test_wide_tables_say_what_is_known():
    codes = random_rows(400, 60, 3)
    table = pa.table(dict(zip([f"c{i}" for i in range(60)], codes, strict=True)))
    too_many = patch.object(TableFds, "_update", side_effect=Cancelled("too many agree-sets"))
    with patch.multiple(levels, MOST_RULES=100_000), too_many:
        rules = hf.discover(table, ("key", "fd"), time_budget=60)
    assert not rules.complete and len(rules)
    assert "all rules with up to 2 columns on the left are found: key, fd of data" in rules.limits
