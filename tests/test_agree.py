"""Agree-sets, keys and FDs against their definitions: from nothing, as rows come and go, exact and approximate."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.discovery.agree_set import AgreeSets, Moved
from holdfast.discovery.table_rules import TableRules
from holdfast.discovery.wanted import Wanted
from holdfast.table.dictionary import NULL
from tests import naive
from tests.conftest import cases
from tests.strategies import POLICIES


class Table:
    """Rows of small integers and nulls by id, and their changes as the maintainers are told of them."""

    def __init__(self, columns):
        self.names = [f"c{i}" for i in range(columns)]
        self.rows = {}
        self.next = 0

    def codes(self, ids):
        rows = [[NULL if v is None else v for v in self.rows[i]] for i in ids]
        return np.ascontiguousarray(np.array(rows, np.int64).reshape(len(rows), len(self.names)).T)

    def change(self, deletes, inserts):
        """Deletes rows by their place, inserts others."""
        ids = sorted(self.rows)
        gone = sorted({ids[d % len(ids)] for d in deletes}) if ids else []
        gone_codes = self.codes(gone)
        stay = [i for i in ids if i not in gone]
        for i in gone:
            del self.rows[i]
        new = list(range(self.next, self.next + len(inserts)))
        self.rows |= dict(zip(new, inserts, strict=True))
        self.next += len(inserts)
        parts = (np.array(gone, np.int64), gone_codes), (new, self.codes(new)), (stay, self.codes(stay))
        return Moved(*(np.asarray(x, np.int64) for pair in parts for x in pair))

    def dicts(self):
        return [dict(zip(self.names, self.rows[i], strict=True)) for i in sorted(self.rows)]


def naive_sets(table, nulls):
    """{(columns in which a pair agrees, columns in which it differs): pairs}"""
    found = Counter()
    for t, s in combinations(table.dicts(), 2):
        agree = frozenset(c for c in table.names if naive.holds(naive.Op.EQ, t[c], s[c], nulls))
        differ = frozenset(c for c in table.names if naive.holds(naive.Op.NE, t[c], s[c], nulls))
        found[agree, differ] += 1
    return found


def sets_of(counted, names):
    def named(row):
        return frozenset(n for i, n in enumerate(names) if int(row[i // 64]) >> i % 64 & 1)

    agree, differ = counted.split(counted.sets)
    return {(named(a), named(d)): count for a, d, count in zip(agree, differ, counted.counts.tolist(), strict=True)}


def rules_of(found, table):
    return set(found.collapsed().ruleset(table.names, None))


def values(columns, nulls=True):
    pool = [0, 1, 2, None] if nulls else [0, 1, 2]
    return st.lists(st.tuples(*[st.sampled_from(pool)] * columns), max_size=5)


def changes(columns):
    return st.lists(st.tuples(st.lists(st.integers(0, 20), max_size=3), values(columns)), min_size=1, max_size=5)


@pytest.mark.parametrize("nulls", POLICIES)
@given(data=st.data())
@settings(max_examples=cases(60))
def test_agree_sets_follow_the_rows(nulls, data):
    columns = data.draw(st.integers(1, 4))
    table, counted = Table(columns), AgreeSets(columns, nulls)
    for deletes, inserts in data.draw(changes(columns)):
        before = naive_sets(table, nulls)
        delta = counted.delta(table.change(deletes, inserts))
        came, went = counted.merge(delta)
        after = naive_sets(table, nulls)
        assert sets_of(counted, table.names) == after
        assert len(counted) == len(after)
        assert len(came) == len(after.keys() - before.keys())
        assert len(went) == len(before.keys() - after.keys())
        copy = AgreeSets(columns, nulls)
        copy.load(counted.to_arrays())
        assert sets_of(copy, table.names) == after


EXACT = Wanted.of(("key", "fd"))


def wanted(nulls, most, **error):
    return Wanted.of(("key", "fd"), nulls, most, **error)


def expected(table, nulls, most, **error):
    rows = table.dicts()
    return naive.keys(rows, table.names, nulls, most, **error) | naive.fds(rows, table.names, nulls, most, **error)


@pytest.mark.parametrize("strategy", ["counted", "witnessed", "validated"])
@pytest.mark.parametrize("nulls", POLICIES)
@given(data=st.data())
@settings(max_examples=cases(60))
def test_exact_rules_follow_the_rows(nulls, strategy, data):
    columns, most = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([None, 0, 1, 2]))
    table = Table(columns)
    found = TableRules(columns, wanted(nulls, most), most_pairs=1e9 if strategy == "counted" else -1)
    copy = TableRules(columns, wanted(nulls, most), most_pairs=1e9 if strategy == "counted" else -1)
    for deletes, inserts in data.draw(changes(columns)):
        moved = table.change(deletes, inserts)
        if found.witnessed is not None and strategy == "validated":
            found.witnessed.most_pairs = -1
        copy.merge(found.follow(moved))
        assert rules_of(found, table) == expected(table, nulls, most)
        copy.settle(table.codes(sorted(table.rows)))
        assert rules_of(copy, table) == rules_of(found, table)


@pytest.mark.parametrize("strategy", ["counted", "grouped"])
@pytest.mark.parametrize("error", ["g1", "g3"])
@pytest.mark.parametrize("nulls", POLICIES)
@given(data=st.data())
@settings(max_examples=cases(40))
def test_approximate_rules_follow_the_rows(nulls, error, strategy, data):
    columns, most = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([None, 0, 1, 2]))
    allowed = {"max_error": data.draw(st.sampled_from([0.01, 0.1, 0.25, 0.5])), "error": error}
    table = Table(columns)
    found = TableRules(columns, wanted(nulls, most, **allowed), most_pairs=1e9 if strategy == "counted" else -1)
    for deletes, inserts in data.draw(changes(columns))[:3]:
        if len(table.rows) + len(inserts) > 7:
            inserts = inserts[:1]
        found.follow(table.change(deletes, inserts))
        assert rules_of(found, table) == expected(table, nulls, most, **allowed)
        collapsed = found.collapsed()
        for block in collapsed.ruleset(table.names, None, found.errors(collapsed)).blocks:
            for rule, _, share, _ in block.with_details():
                assert share == pytest.approx(getattr(naive, error)(rule, table.dicts(), nulls))
