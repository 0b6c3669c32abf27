"""Agree-sets, keys and FDs against their definitions: from nothing, as rows come and go, exact and approximate."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.discovery.fd.agree_tree import AgreeTree
from holdfast.discovery.fd.maintainer import DecidingPair
from holdfast.discovery.fd.table_fds import TableFds
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.witness.partitions import Partitions
from holdfast.rules.rule import Fd, Key
from holdfast.table.dictionary import NULL
from holdfast.table.kind import Kind
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Column, Schema
from tests import naive
from tests.conftest import cases
from tests.peers.value_vectors import ValueVectors
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
        return RowChange(*(np.asarray(x, np.int64) for pair in parts for x in pair))

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
    columns, few = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([0, 10**6]))
    table, counted = Table(columns), AgreeSets(columns, nulls, few_pairs=few)
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


def wanted(nulls, most, **error):
    return SearchOptions(("key", "fd"), nulls, most, **error)


def expected(table, nulls, most, **error):
    rows = table.dicts()
    return naive.keys(rows, table.names, nulls, most, **error) | naive.fds(rows, table.names, nulls, most, **error)


@pytest.mark.parametrize("strategy", ["counted", "compared", "sorted", "validated"])
@pytest.mark.parametrize("nulls", POLICIES)
@given(data=st.data())
@settings(max_examples=cases(30))
def test_exact_rules_follow_the_rows(nulls, strategy, data):
    columns, most = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([None, 0, 1, 2]))
    table = Table(columns)
    found = TableFds(columns, wanted(nulls, most), most_pairs=1e9 if strategy == "counted" else -1)
    copy = TableFds(columns, wanted(nulls, most), most_pairs=1e9 if strategy == "counted" else -1)
    for deletes, inserts in data.draw(changes(columns)):
        moved = table.change(deletes, inserts)
        if found.witnessed is not None and strategy == "validated":
            found.witnessed.most_claims = -1
        if found.witnessed is not None and strategy == "sorted":
            found.witnessed.most_compared = -1
        copy.merge(found.update(moved))
        assert rules_of(found, table) == expected(table, nulls, most)
        copy.restore(table.codes(sorted(table.rows)))
        assert rules_of(copy, table) == rules_of(found, table)


def test_columns_that_were_equivalent_are_validated_again_when_no_left_side_is_allowed():
    """With `max_size=0` no rule says that a and b determine each other, so nothing compares new rows for it."""
    table, tall = Table(4), TableFds(4, wanted("equal", 0), most_pairs=-1)
    tall.update(table.change([], [(0, 0, 0, 0), (1, 1, 0, 0), (1, 1, 0, 0)]))
    tall.update(table.change([0], [(1, 0, 0, 0)]))
    assert rules_of(tall, table) == expected(table, "equal", 0)


@pytest.mark.parametrize("strategy", ["counted", "grouped"])
@pytest.mark.parametrize("error", ["g1", "g3"])
@pytest.mark.parametrize("nulls", POLICIES)
@given(data=st.data())
@settings(max_examples=cases(20))
def test_approximate_rules_follow_the_rows(nulls, error, strategy, data):
    columns, most = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([None, 0, 1, 2]))
    allowed = {"max_error": data.draw(st.sampled_from([0.01, 0.1, 0.25, 0.5])), "error": error}
    table = Table(columns)
    found = TableFds(columns, wanted(nulls, most, **allowed), most_pairs=1e9 if strategy == "counted" else -1)
    for deletes, inserts in data.draw(changes(columns))[:3]:
        if len(table.rows) + len(inserts) > 7:
            inserts = inserts[:1]
        found.update(table.change(deletes, inserts))
        assert rules_of(found, table) == expected(table, nulls, most, **allowed)
        collapsed = found.collapsed()
        for block in collapsed.ruleset(table.names, None, found.errors(collapsed)).blocks:
            for rule, _, share, _ in block.with_details():
                assert share == pytest.approx(getattr(naive, error)(rule, table.dicts(), nulls))


# --- the example of the DynASt paper -------------------------------------------------------------------------

EMPLOYEES = [  # Table 1; P of t3 is written Employer there, of t5 Employee, and Table 2 gives both the same number
    ("John", "Bond", "Manager", 2500),
    ("Marie", "Miller", "Manager", 3000),
    ("Marie", "Bond", "Employee", 2000),
    ("Tom", "Gray", "Manager", 3000),
    ("John", "Miller", "Employee", 2000),
    ("Anna", "Scott", "Manager", 3000),
]
COLUMNS = ("FN", "LN", "P", "S")


def employees(*numbers):
    values = {v: i for i, v in enumerate(dict.fromkeys(v for row in EMPLOYEES for v in row))}
    rows = [[values[v] for v in EMPLOYEES[n - 1]] for n in numbers]
    return np.ascontiguousarray(np.array(rows, np.int64).reshape(len(rows), 4).T)


def bits(tally):
    """{"0010": count}, columns from the left as the paper writes them."""
    texts = [f"{row:04b}"[::-1] for row in tally.sets[:, 0].tolist()]
    return dict(zip(texts, tally.counts.tolist(), strict=True))


def moved(gone, new, stay):
    return RowChange(*(x for some in (gone, new, stay) for x in (np.array(some, np.int64), employees(*some))))


def test_the_evidence_multisets_of_the_paper():
    table = AgreeSets(4)
    table.merge(table.delta(moved([], [1, 2, 3, 4], [])))
    assert bits(table) == {"0010": 2, "0100": 1, "1000": 1, "0011": 1, "0000": 1}
    went = table.delta(moved([4], [], [1, 2, 3]))
    assert bits(went) == {"0010": -1, "0011": -1, "0000": -1}
    table.merge(went)
    came = table.delta(moved([], [5, 6], [1, 2, 3]))
    assert bits(came) == {"1000": 1, "0100": 1, "0011": 2, "0000": 2, "0010": 1}
    table.merge(came)
    assert bits(table) == {"0100": 2, "0010": 2, "1000": 2, "0011": 2, "0000": 2}


def test_the_example_in_one_change():
    table = AgreeSets(4)
    table.merge(table.delta(moved([], [1, 2, 3, 4], [])))
    _, went = table.merge(table.delta(moved([4], [5, 6], [1, 2, 3])))
    assert bits(table) == {"0100": 2, "0010": 2, "1000": 2, "0011": 2, "0000": 2}
    assert len(went) == 0


def test_the_value_vectors_of_table_3():
    vectors, first = ValueVectors(employees(1, 2, 3, 4)), employees(1)
    managers = vectors.vector(2, int(first[2, 0]))
    assert (managers[:, 0] != 0).tolist() == [True, True, False, True]
    evidence = vectors.evidence(first)[0]
    assert [f"{row:04b}"[::-1] for row in evidence[:, 0].tolist()] == ["1111", "0010", "0100", "0010"]  # figure 2


def test_products_are_shared_as_in_section_5_3():
    batch = np.array([[11, 21, 31, 41], [12, 12, 32, 42], [13, 13, 13, 13], [14, 14, 14, 14]])
    vectors = ValueVectors(batch)
    evidence = vectors.evidence(batch)
    assert vectors.products == 8  # instead of 12
    for t, found in enumerate(evidence):
        agree = (batch == batch[:, [t]]).astype(np.uint64) << np.arange(4, dtype=np.uint64)[:, None]
        assert (found[:, 0] == agree.sum(axis=0)).all()


@given(data=st.data())
@settings(max_examples=cases(60))
def test_value_vectors_say_what_comparing_says(data):
    columns = data.draw(st.integers(1, 4))
    table, counted = Table(columns), AgreeSets(columns)
    vectors = ValueVectors(np.zeros((columns, 0), np.int64))
    for deletes, inserts in data.draw(changes(columns)):
        before = sorted(table.rows)
        change = table.change(deletes, inserts)
        places = [before.index(i) for i in change.removed.tolist()]
        went, came = vectors.deleted(places), vectors.inserted(change.added_codes)
        counted.merge(came - went)
        assert sets_of(counted, table.names) == naive_sets(table, "equal")


def test_the_tree_of_figure_3():
    table = AgreeSets(4)
    table.merge(table.delta(moved([], [1, 2, 3, 5, 6], [])))
    tree = AgreeTree(table)
    assert sorted(tree.paths()) == [[0], [1], [2], [2, 3]]  # FN, LN, P and P S
    assert tree.violations([1], 2) == 2 * 2  # LN -> P: the two pairs with agree-set 0100, either way round
    assert tree.violations([2], 3) == 2 * 2  # P -> S
    assert tree.violations([3], 2) == 0
    assert tree.violations([], None) == 20  # all ordered pairs


def test_the_rules_of_the_introduction():
    """X -> FN of the first four rows: from LN, P and LN, S; the paper leaves out the empty agree-set and finds no more
    than these two."""
    found = TableFds(4, SearchOptions(("fd",)))
    found.update(moved([], [1, 2, 3, 4], []))
    texts = found.collapsed().ruleset(COLUMNS, None).texts()
    assert [text for text in texts if text.endswith("-> FN")] == ["LN, P -> FN", "LN, S -> FN"]


# --- the tree ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nulls", POLICIES)
@given(data=st.data())
@settings(max_examples=cases(60))
def test_the_tree_counts_violations(nulls, data):
    columns = data.draw(st.integers(1, 4))
    table, counted = Table(columns), AgreeSets(columns, nulls)
    tree = AgreeTree(counted)
    for deletes, inserts in data.draw(changes(columns)):
        counted.merge(counted.delta(table.change(deletes, inserts)))
        left = data.draw(st.sets(st.integers(0, columns - 1)))
        right = data.draw(st.sampled_from([None, *(c for c in range(columns) if c not in left)]))
        names = frozenset(table.names[c] for c in left)
        if right is not None:
            rule = Fd(names, table.names[right])
        elif names:
            rule = Key(names)
        else:
            continue
        assert tree.violations(sorted(left), right) == len(naive.violations(rule, table.dicts(), nulls))


@pytest.mark.parametrize("distinct", [255, 256, 257, 300, 65_536, 65_537])
def test_values_as_short_numbers(distinct):
    """Columns of few, some and many values are compared in different ways: in each of them by value."""
    rng = np.random.default_rng(distinct)
    values = np.concatenate([np.arange(distinct), rng.integers(0, distinct, 1000)])
    codes = np.ascontiguousarray(np.array([values, values % 7])) * 1_000_003
    rows, lead = codes.shape[1], 250
    tally = AgreeSets(2).pairs(np.arange(lead), codes[:, :lead], np.arange(lead, rows), codes[:, lead:])
    first, second = (sum(int((c[i] == c[i + 1 :]).sum()) for i in range(lead)) for c in codes)
    counts = dict(zip(tally.sets[:, 0].tolist(), tally.counts.tolist(), strict=True))
    assert counts.get(3, 0) == first and counts.get(2, 0) + counts.get(3, 0) == second and 1 not in counts
    assert sum(counts.values()) == lead * (rows - lead) + lead * (lead - 1) // 2


@given(data=st.data())
@settings(max_examples=cases(60))
def test_columns_that_stand_for_each_other_come_apart(data):
    """Copies of two columns, some of which are changed in some rows: what came and went is the difference."""
    table = Table(5)
    found = TableFds(5, wanted("equal", None))
    before, held = found.collapsed(), set()
    for _ in range(data.draw(st.integers(2, 4))):
        rows = []
        for a, b in data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=3)):
            row = [a, a, a, b, b]
            if data.draw(st.integers(0, 3)) == 0:
                row[data.draw(st.integers(0, 4))] = 9
            rows.append(tuple(row))
        found.update(table.change(data.draw(st.lists(st.integers(0, 9), max_size=2)), rows))
        after, holds = found.collapsed(), expected(table, "equal", None)
        assert set(after.ruleset(table.names, None)) == holds
        assert set(after.minus(before).ruleset(table.names, None)) == holds - held
        assert set(before.minus(after).ruleset(table.names, None)) == held - holds
        before, held = after, holds


@pytest.mark.parametrize("nulls", POLICIES)
@given(data=st.data())
@settings(max_examples=cases(50))
def test_errors_by_grouping(nulls, data):
    """Violating pairs and fewest rows of any FD and key; dense in nulls and in equal left sides."""
    columns = data.draw(st.integers(2, 3))
    cells = st.tuples(*[st.sampled_from([0, 0, 1, None])] * columns)
    table = Table(columns)
    table.change([], data.draw(st.lists(cells, min_size=2, max_size=7)))
    groups, dicts = Partitions.of_codes(table.codes(sorted(table.rows)), nulls), table.dicts()
    for right in (None, *range(columns)):
        for left in naive.subsets([c for c in range(columns) if c != right]):
            names = frozenset(table.names[c] for c in left)
            if right is not None or names:
                rule = Key(names) if right is None else Fd(names, table.names[right])
                pairs, removed = groups.errors(left, right)
                assert pairs == len(naive.violations(rule, dicts, nulls))
                assert removed == round(naive.g3(rule, dicts, nulls) * len(dicts))
                clashes = groups.clashes(left, right, 3).tolist()
                assert bool(clashes) == bool(pairs)
                assert all(naive.violates(rule, dicts[t], dicts[s], nulls) for t, s in clashes)


# --- wide tables ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nulls", POLICIES)
@pytest.mark.parametrize("columns", [65, 130, 260])
def test_many_words(columns, nulls):
    """A few interesting columns among copies of a constant and of each other: any rule over them can be checked."""
    rng = np.random.default_rng(columns)
    interesting = [0, 63, 64, columns // 2, columns - 1]
    table, found = Table(columns), TableFds(columns, wanted(nulls, None))
    tall = TableFds(columns, wanted(nulls, None), most_pairs=-1)
    for step in range(4):
        rows = []
        for _ in range(6):
            row = [7] * columns
            for c in interesting:
                row[c] = [0, 1, None][rng.integers(0, 3)] if c != 63 else int(rng.integers(0, 9))
            row[columns - 2] = row[63]  # the same column twice
            rows.append(tuple(row))
        change = table.change([step, 3 * step] if step else [], rows)
        found.update(change)
        tall.update(change)
        some = [table.names[c] for c in sorted({*interesting, columns - 2, 1})]
        dicts = [{name: row[name] for name in some} for row in table.dicts()]
        expected = naive.keys(dicts, some, nulls) | naive.fds(dicts, some, nulls)
        constants = {Fd(frozenset(), name) for name in table.names if name not in some}
        assert rules_of(found, table) == expected | constants
        assert rules_of(tall, table) == rules_of(found, table)


# --- budgets and witnesses -----------------------------------------------------------------------------------


def random_table(rows, columns, most, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, most, (columns, rows))
    nobody = np.arange(0), codes[:, :0]
    return RowChange(*nobody, np.arange(rows), codes, *nobody)


@pytest.mark.parametrize("error", [{}, {"max_error": 0.05, "error": "g1"}, {"max_error": 0.05, "error": "g3"}])
@pytest.mark.parametrize("most_pairs", [1e12, -1])
def test_a_partial_result_is_true(most_pairs, error):
    change = random_table(40, 12, 3)
    whole = TableFds(12, wanted("equal", 4, **error), most_pairs=most_pairs)
    whole.update(change)
    everything = set(whole.collapsed().ruleset([*"abcdefghijkl"], None))

    class Ending(Budget):
        looks = 0

        def spent(self):
            self.looks += 1
            if self.looks > 7:
                self.ended = "test"
            return super().spent()

    some = TableFds(12, wanted("equal", 4, **error), most_pairs=most_pairs)
    some.update(change, Ending())
    assert set(some.collapsed().ruleset([*"abcdefghijkl"], None)) < everything


@pytest.mark.parametrize("most_pairs", [1e12, -1])
@pytest.mark.parametrize("nulls", POLICIES)
@given(data=st.data())
@settings(max_examples=cases(30))
def test_the_pair_that_decided(nulls, most_pairs, data):
    """A rule that went is violated by its pair, one that came was; unless it only gave way to a smaller one, or is what
    is left of one that broke."""
    columns = data.draw(st.integers(2, 4))
    table = Table(columns)
    found = TableFds(columns, wanted(nulls, None), most_pairs=most_pairs)
    schema = Schema(tuple(Column(name, Kind.INTEGER) for name in table.names))
    for deletes, inserts in data.draw(changes(columns)):
        before, old = rules_of(found, table), dict(table.rows)
        found.update(table.change(deletes, inserts))
        why, after = DecidingPair(schema, found.added, found.removed), rules_of(found, table)
        for rules, rows in ((before - after, table.rows), (after - before, old)):
            for rule in rules:
                ids, dicts = [*rows], [dict(zip(table.names, row, strict=True)) for row in rows.values()]
                known = {(ids[t], ids[s]) for t, s in naive.violations(rule, dicts, nulls)}
                assert why(rule) in known if known else why(rule) is None
