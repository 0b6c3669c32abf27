"""The three indexes: against all pairs, their invariants, and the examples of the papers they come from."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.indexes.box import BoxIndex
from holdfast.indexes.box_arrays import check as check_box
from holdfast.indexes.plan import compile_rule, group_rules
from holdfast.indexes.rowtest import holds
from holdfast.kernels import compiled
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell
from holdfast.rules.rule import as_dc
from holdfast.table.dictionary import NULL, TextDictionary
from holdfast.table.schema import Schema
from tests import strategies as hs
from tests.conftest import cases
from tests.peers import INDEXES
from tests.peers.chain import Chain, ChainIndex, Chains, ranges
from tests.peers.less_than import LtTree

WIDE = Schema.of(a="integer", b="integer", c="integer", d="integer")
RULES = [
    "key(a)",
    "a -> b",
    "not(t.a = s.a and t.b < s.b and t.c > s.c)",
    "not(t.b < s.b and t.c > s.c)",
    "not(t.b <= s.b and t.c >= s.c and t.d != s.d)",
    "not(t.a = s.b and t.c < s.d)",
    "not(t.b != s.b and t.c != s.c and t.d < s.d)",
    "{b <} -> c <",
    "not(t.a = s.a and t.b < s.b and t.c > 3 and s.c < 5)",
]


def check_index(index) -> None:
    """The invariants of whatever it is made of."""
    for rows in (index._s_rows, index._t_rows):
        if isinstance(index, BoxIndex):
            check_box(rows)
        elif isinstance(index, ChainIndex):
            for bucket in rows._buckets.values():
                bucket._check()
        else:
            for column in rows._dims:
                if isinstance(column._index, LtTree):
                    column._index._check()


def violating(rule, codes: np.ndarray, nulls: str) -> np.ndarray:
    """The definition, all pairs at once: violates[t, s]."""
    count = codes.shape[1]
    found = ~np.eye(count, dtype=bool)

    def side(operand) -> np.ndarray:
        if not isinstance(operand, Cell):
            return np.full((count, count), int(operand.value))
        values = codes[WIDE.position(operand.column)]
        return np.broadcast_to(values[:, None] if operand.row == "t" else values[None, :], (count, count))

    for p in as_dc(rule).written:
        found &= holds(p.op, side(p.left), side(p.right), nulls)
    return found


@pytest.mark.parametrize(("index", "seed"), [(name, s) for name in INDEXES for s in range(54 if name == "box" else 18)])
def test_large_buckets(index, seed):
    """Hundreds of rows in few buckets come and go; every answer is compared with all pairs."""
    rng = np.random.default_rng(seed)
    rule, nulls = hf.parse(RULES[seed % len(RULES)]), hs.POLICIES[seed % 3]
    count = int(rng.integers(100, 700))
    spread = [int(rng.choice([1, 3, 20, 500])), *(int(rng.choice([2, 5, 50, 10**6])) for _ in range(3))]
    codes = np.array([rng.integers(0, k, count) for k in spread]).astype(np.int64)
    if seed % 2:
        codes[rng.random(codes.shape) < 0.05] = NULL
    (group,) = group_rules([compile_rule(rule, WIDE, nulls)], WIDE)
    index, truth = INDEXES[index](group, TextDictionary()), violating(rule, codes, nulls)
    live, state, limit = np.zeros(count, bool), set(), -1 if seed % 7 == 0 else 10**9
    order = rng.permutation(count)
    for part in np.array_split(order, rng.integers(2, 9)):
        (added,), (listed,) = index.enter(part, codes[:, part], np.array([limit]))
        live[part] = True
        assert listed == (limit > 0) and len(added) == len(added.to_set()) and not added.to_set() & state
        state |= added.to_set()
        gone = rng.permutation(np.flatnonzero(live & (rng.random(count) < rng.choice([0, 0.05, 0.6]))))
        (removed,), _ = index.leave(gone, codes[:, gone], np.array([limit]))
        live[gone] = False
        assert removed.to_set() <= state
        state -= removed.to_set()
        now = truth & live[:, None] & live[None, :]
        assert index.counts[0] == now.sum()
        if listed:
            assert state == set(zip(*(a.tolist() for a in np.nonzero(now)), strict=True))
        check_index(index)
    ids = np.flatnonzero(live)
    pairs, counts = index.partners(ids, codes[:, ids], 0)
    assert pairs.to_set() == set(zip(*(a.tolist() for a in np.nonzero(now)), strict=True))
    assert counts.tolist() == now.sum(axis=1)[ids].tolist()
    assert index.partners(ids, codes[:, ids], 0, emit=False)[1].tolist() == counts.tolist()


def test_what_came_and_went_takes_no_room():
    """A table of constant size under an endless stream: the index stays as large as it was."""
    (group,) = group_rules([compile_rule(hf.parse("not(t.a = s.a and t.b < s.b and t.c > s.c)"), WIDE, "sql")], WIDE)
    index, rng, sizes, limits = BoxIndex(group, TextDictionary()), np.random.default_rng(0), [], np.array([10**9])
    codes = np.array([np.arange(60_000), *rng.integers(0, 50, (3, 60_000))])
    codes[0, 30_000:] %= 500
    for start in range(0, 58_000, 1000):
        come = np.arange(start, start + 2000 if start == 0 else start + 1000) + (0 if start == 0 else 1000)
        index.enter(come, codes[:, come], limits)
        gone = np.arange(start, start + 1000)
        index.leave(gone, codes[:, gone], limits)
        sizes.append(index.nbytes - index._lines.versions.nbytes)
        if start % 10_000 == 0:
            check_index(index)
    assert max(sizes[29:]) < 4 * max(sizes[:5])
    live = np.arange(58_000, 59_000)
    pairs, counts = index.partners(live, codes[:, live], 0)
    truth = violating(hf.parse("not(t.a = s.a and t.b < s.b and t.c > s.c)"), codes[:, live], "sql")
    assert counts.tolist() == truth.sum(axis=1).tolist() and index.counts[0] == truth.sum() == len(pairs)


def test_numbering_the_live_rows_anew():
    rule = "not(t.a = s.a and t.b < s.b and t.c > s.c)"
    (group,) = group_rules([compile_rule(hf.parse(rule), WIDE, "sql")], WIDE)
    index, ids = BoxIndex(group, TextDictionary()), np.arange(1100)
    codes = np.random.default_rng(0).integers(0, 50, (4, 1100))
    index.enter(ids, codes, np.array([-1]))
    index.leave(ids[:980], codes[:, :980], np.array([-1]))
    index._forget_the_dead()
    check_index(index)
    assert index.counts[0] == violating(hf.parse(rule), codes[:, 980:], "sql").sum()


def test_runs_that_shrank_are_merged():
    """Runs that lost many entries can hold fewer than those below them: the scratch must have room for all of these."""
    (group,) = group_rules([compile_rule(hf.parse("not(t.a = s.a and t.b < s.b)"), WIDE, "sql")], WIDE)
    index, seen = BoxIndex(group, TextDictionary()), 3000

    def enter(count: int) -> None:
        nonlocal seen
        ids = np.arange(seen, seen + count)
        index.enter(ids, np.array([np.zeros(count, np.int64), ids, ids, ids]), np.array([-1]))
        seen += count

    def leave(levels: list[int], count: int) -> None:
        box, ids = index._s_rows, []
        for start, length, _ in box.runs[0, levels]:
            versions = box.versions[start : start + length]
            ids += index._lines.row_ids[versions[box.dead[versions] == 0]].tolist()
        gone = np.array(ids[:count])
        index.leave(gone, np.array([np.zeros(count, np.int64), gone, gone, gone]), np.array([-1]))

    others = np.arange(3000)
    index.enter(others, np.array([others + 1, others, others, others]), np.array([-1]))
    for levels, count in (([0, 1, 2], 288), ([3, 0, 1, 2], 400), ([0, 1, 2], 448)):
        enter(512 if levels == [0, 1, 2] and count == 288 else 511)
        leave(levels, count)
        enter(1)
    enter(511)
    assert index._s_rows.runs[0, :5, 1].tolist() == [64, 128, 256, 64, 336]
    enter(1)
    check_index(index)
    assert index.counts[0] == 913 * 912 // 2


def test_kernels_are_compiled_anew_when_any_kernel_file_changes(tmp_path):
    """A kernel calls kernels of other files: their machine code must not outlive their text."""
    package = tmp_path / "holdfast" / "kernels"
    package.mkdir(parents=True)
    (tmp_path / "holdfast" / "__init__.py").touch()
    (package / "__init__.py").touch()
    shutil.copy(inspect.getfile(compiled), package / "compiled.py")
    imports = "from holdfast.kernels.compiled import kernel\nfrom holdfast.kernels.b import two\n"
    (package / "a.py").write_text(imports + "@kernel\ndef one():\n    return two()\n")
    answers = []
    for answer in (1, 22):
        (package / "b.py").write_text(
            f"from holdfast.kernels.compiled import part\n\n\n@part\ndef two():\n    return {answer}\n"
        )
        command = [sys.executable, "-c", "from holdfast.kernels.a import one; print(one())"]
        answers.append(subprocess.check_output(command, text=True, env={"PYTHONPATH": str(tmp_path)}).strip())
    assert answers == ["1", "22"]


def test_the_dead_leave_the_box_when_they_are_half_of_a_bucket():
    (group,) = group_rules([compile_rule(hf.parse("not(t.a = s.a and t.b < s.b)"), WIDE, "sql")], WIDE)
    index, limits = BoxIndex(group, TextDictionary()), np.array([-1])
    codes = np.zeros((4, 1000), np.int64)
    index.enter(np.arange(1000), codes, limits)
    index.leave(np.arange(900), codes[:, :900], limits)
    entries, dead = index._s_rows.totals[0]
    assert entries - dead == 100 and 2 * dead <= entries + 64
    check_index(index)


COUNTED = [
    "not(t.b < s.b and t.c > s.c)",
    "not(t.b != s.b and t.c != s.c)",
    "not(t.b <= s.b and t.c >= s.c and t.d != s.d)",
]


@pytest.mark.parametrize("text", COUNTED)
def test_very_many_violations_are_counted_by_sorted_blocks(text):
    """One bucket of 40,000 rows, nulls and ties among them; then some leave, and counting goes entry by entry."""
    rng, count = np.random.default_rng(3), 40_000
    codes = np.array([np.zeros(count, np.int64), *rng.integers(0, [[10**6], [300], [2]], (3, count))])
    codes[1:3][rng.random((2, count)) < 0.01] = NULL
    rule = hf.parse(text)
    (group,) = group_rules([compile_rule(rule, WIDE, "distinct")], WIDE)
    index, only_count = BoxIndex(group, TextDictionary()), np.array([-1])
    index.enter(np.arange(count), codes, only_count)
    check_index(index)
    assert index._s_rows.runs[:, :, 2].any() == ("t.d" not in text)
    some, live = rng.integers(0, count, 30), np.ones(count, bool)
    for everybody in ("t.d" not in text, False):
        asked = np.arange(count) if everybody else some[live[some]]
        _, per_row = index.partners(asked, codes[:, asked], 0, emit=False)
        assert not everybody or per_row.sum() == index.counts[0] > 10**8
        for row in some[live[some]]:
            satisfied = live.copy()
            satisfied[row] = False
            for p in as_dc(rule).written:
                column = codes[WIDE.position(p.left.column)]
                satisfied &= holds(p.op, np.full(count, column[row]), column, "distinct")
            assert (per_row[asked == row] == satisfied.sum()).all()
        gone = rng.choice(count, 20, replace=False)
        index.leave(gone, codes[:, gone], only_count)
        live[gone] = False


# --- IncDC, sections 5 and 6 ----------------------------------------------------------------------------------

TAX = {  # Table 1 and Table 2: Date, NUM, SAL, TXA
    0: (20140410, 1448, 32000, 3000),
    1: (20140224, 1401, 50000, 1500),
    2: (20140413, 1486, 30000, 3400),
    3: (20130403, 1386, 55000, 1300),
    4: (20140329, 1427, 7500, 0),
    5: (20130404, 1386, 6500, 900),
    6: (20150324, 1547, 95000, 1100),
    7: (20130322, 1368, 40000, 3300),
    8: (20140218, 1478, 33000, 1400),
    9: (20150213, 1533, 32000, 3200),
}
DATE, NUM, SAL, TXA = range(4)
R2 = {  # Table 8 and Table 9: A, B, C, D
    0: (7, 5, 7, 9), 1: (8, 6, 3, 25), 2: (30, 8, 9, 11), 3: (40, 0, 2, 15), 4: (15, 7, 17, 22), 5: (25, 2, 15, 30),
    6: (3, 22, 20, 10),
}  # fmt: skip
A, B, C, D = range(4)


def index_of(table: dict, rows: range, first: int, op1: Op, second: int, op2: Op) -> Chains:
    made = Chains(op1, op2)
    made.build({(table[i][first], table[i][second]): [(i, (), ())] for i in rows})
    made._check()
    return made


def shape(index: Chains) -> list[list[int]]:
    return [[row for entries in chain.rows for row, _, _ in entries] for chain in index.chains]


def fetch(index: Chains, point: tuple[int, int], op1: Op, op2: Op) -> set[int]:
    """The rows t with `point op1 t` in the first and `point op2 t` in the second dimension."""
    found: set[int] = set()
    for first in ranges(op1, point[0], "sql"):
        for second in ranges(op2, point[1], "sql"):
            found |= {row for row, _, _ in index.search(first, second)}
    return found


def p_and_q(chain: Chain, point: tuple[int, int]) -> tuple[int, int]:
    """The last places that are not behind the point, in each dimension."""
    return sum(x <= point[0] for x in chain.first) - 1, sum(x <= point[1] for x in chain.second) - 1


def test_example_6_the_index_on_exemption_and_salary():
    index = index_of(TAX, range(7), TXA, Op.GT, SAL, Op.LT)
    assert sorted(shape(index), key=len, reverse=True) == [[6, 3, 1, 0, 2], [4, 5]]


def test_example_7_fetch():
    index = index_of(TAX, range(7), TXA, Op.GT, SAL, Op.LT)
    long, short = sorted(index.chains, key=len, reverse=True)
    asked = TAX[8][TXA], TAX[8][SAL]
    assert p_and_q(long, index._turned(asked)) == (1, 2) and p_and_q(short, index._turned(asked)) == (1, -1)
    assert fetch(index, asked, Op.GT, Op.LT) == {3, 6}
    assert fetch(index, asked, Op.LT, Op.GT) == {0, 2}


def test_example_8_fetch_across_attributes():
    """t.A > s.B and t.C < s.D, by a pair of indexes. The figure's are not what OptIndex makes, but have its rank."""
    t6 = R2[6]
    drawn = ((A, Op.GT, C, Op.LT), [[4, 5, 2, 3], [0, 1]]), ((B, Op.LT, D, Op.GT), [[2, 4, 1, 5], [0, 3]])
    for make in ("as drawn", "OptIndex"):
        on_t, on_s = (index_of(R2, range(6), *marks) for marks, _ in drawn)
        assert on_t.rank == on_s.rank == 2
        if make == "as drawn":
            on_t, on_s = (by_adding(chains, *marks) for marks, chains in drawn)
            assert shape(on_t) == drawn[0][1] and shape(on_s) == drawn[1][1]
        assert fetch(on_t, (t6[B], t6[D]), Op.LT, Op.GT) == {2, 3}  # t' with t'.A > t6.B and t'.C < t6.D
        assert fetch(on_s, (t6[A], t6[C]), Op.GT, Op.LT) == {5}  # s' with t6.A > s'.B and t6.C < s'.D


def by_adding(chains: list[list[int]], first: int, op1: Op, second: int, op2: Op) -> Chains:
    made = Chains(op1, op2)
    for row in (row for chain in chains for row in chain):
        made.add((R2[row][first], R2[row][second]), (row, (), ()))
    made._check()
    return made


def test_example_9_the_optimal_index():
    index = index_of(TAX, range(7), DATE, Op.LT, NUM, Op.LT)
    assert shape(index) == [[6, 2, 0, 4, 1, 5], [3]] and index.rank == 2


def test_example_10_reversed_use():
    index = index_of(TAX, range(7), DATE, Op.LT, NUM, Op.LT)
    asked = TAX[8][DATE], TAX[8][NUM]
    assert p_and_q(index.chains[0], index._turned(asked)) == (4, 1)
    assert fetch(index, asked, Op.LT, Op.GT) == {0, 1, 4}
    assert fetch(index, asked, Op.GT, Op.LT) == set()


def test_examples_11_and_12_updating():
    """t9 goes between t6 and t2, where both dimensions agree."""
    index = index_of(TAX, range(7), DATE, Op.LT, NUM, Op.LT)
    asked = TAX[9][DATE], TAX[9][NUM]
    assert p_and_q(index.chains[0], index._turned(asked)) == (0, 0)
    index.add(asked, (9, (), ()))
    index._check()
    assert shape(index) == [[6, 9, 2, 0, 4, 1, 5], [3]]
    index.add((TAX[8][DATE], TAX[8][NUM]), (8, (), ()))
    assert shape(index) == [[6, 9, 2, 0, 4, 1, 5], [8, 3]]  # t8 does not fit into the first chain
    index.add((20140219, 1479), (10, (), ()))
    assert shape(index)[1] == [10, 8, 3]
    index.add((20140101, 1500), (11, (), ()))
    assert index.rank == 3


def fewest_chains(points: list[tuple[int, int]], before) -> int:
    """Dilworth by matching: n points less the largest matching of the comparable pairs."""
    follows = [[j for j, q in enumerate(points) if i != j and before(p, q)] for i, p in enumerate(points)]
    matched: dict[int, int] = {}

    def augment(i: int, seen: set[int]) -> bool:
        for j in follows[i]:
            if j not in seen:
                seen.add(j)
                if j not in matched or augment(matched[j], seen):
                    matched[j] = i
                    return True
        return False

    return len(points) - sum(augment(i, set()) for i in range(len(points)))


OPERATORS = (Op.LT, Op.LE, Op.GT, Op.GE)
COMPARE = {Op.LT: int.__lt__, Op.LE: int.__le__, Op.GT: int.__gt__, Op.GE: int.__ge__}


@given(
    points=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25),
    op1=st.sampled_from(OPERATORS),
    op2=st.sampled_from(OPERATORS),
)
@settings(max_examples=cases(300))
def test_the_rank_is_the_least_possible(points, op1, op2):
    """With ties, the first attribute is non-strict within a chain."""
    loose = {Op.LT: Op.LE, Op.GT: Op.GE}.get(op1, op1)
    index = Chains(op1, op2)
    index.build({point: [(i, (), ())] for i, point in enumerate(sorted(points))})
    index._check()
    behind = lambda p, q: COMPARE[loose](q[0], p[0]) and COMPARE[op2](q[1], p[1])  # noqa: E731
    assert index.rank == fewest_chains(sorted(points), behind)


@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 5)), max_size=40),
    op1=st.sampled_from(OPERATORS),
    op2=st.sampled_from(OPERATORS),
)
@settings(max_examples=cases(300))
def test_chains_under_changes(steps, op1, op2):
    index, live = Chains(op1, op2), {}
    for row, (comes, a, b) in enumerate(steps):
        gone = next((r for r, point in live.items() if point == (a, b)), None)
        if comes or gone is None:
            index.add((a, b), (row, (), ()))
            live[row] = (a, b)
        else:
            index.remove((a, b), (gone, (), ()))
            del live[gone]
        index._check()
    for asked in ((2, 3), (0, 0), (5, 1)):
        for first in OPERATORS:
            for second in OPERATORS:
                expected = {
                    r for r, p in live.items() if COMPARE[first](asked[0], p[0]) and COMPARE[second](asked[1], p[1])
                }
                assert fetch(index, asked, first, second) == expected


# --- Weever, section 4 ----------------------------------------------------------------------------------------


def test_the_lt_tree_of_figure_1():
    """Postages of Table 1 and the inserted t5: all that cost less than 50."""
    tree = LtTree()
    for row, postage in enumerate([100, 50, 25, 200, 50, 10]):
        tree.add(postage, row)
        tree._check()
    assert set(tree.smaller(50)) == {2, 5} and set(tree.equal(50)) == {1, 4} and set(tree.smaller(60)) == {1, 2, 4, 5}
    assert not tree.smaller(10) and set(tree.smaller(1000)) == {0, 1, 2, 3, 4, 5}


@given(steps=st.lists(st.tuples(st.booleans(), st.integers(-20, 20)), max_size=120))
@settings(max_examples=cases(200))
def test_lt_trees_under_changes(steps):
    tree, live = LtTree(), {}
    for row, (comes, value) in enumerate(steps):
        gone = next((r for r, v in live.items() if v == value), None)
        if comes or gone is None:
            tree.add(value, row)
            live[row] = value
        else:
            tree.remove(value, gone)
            del live[gone]
    tree._check()
    for asked in range(-21, 22):
        assert set(tree.smaller(asked)) == {r for r, v in live.items() if v < asked}
        assert set(tree.equal(asked)) == {r for r, v in live.items() if v == asked}
