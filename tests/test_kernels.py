"""Every kernel that Python calls, against a few lines that say what it computes."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from holdfast import kernels
from holdfast.discovery.hitting_sets.minimal import edges_by_vertex
from holdfast.kernels import agree, agree_match, grouping, hitting_sets, key_map, near_hitting_sets, partition, sets
from holdfast.rules.masks import pack, sizes, unpack
from holdfast.table.dictionary import NULL
from holdfast.table.keys import table_for

# compared with a definition elsewhere
ELSEWHERE = {
    "agree_tree.build_tree": "test_agree.py::test_the_tree_counts_violations",
    "agree_tree.count_among": "test_agree.py::test_the_tree_counts_violations",
    "agree_tree.count_specialisations": "test_agree.py::test_the_tree_counts_violations",
    "agreement.inversions": "test_rank.py::test_inversions",
    "agreement.right_sides": "test_rank.py::test_what_a_left_side_says_follows_the_definition",
    "bounds.bound": "test_witness.py::test_every_search_answers_as_brute_force_does",
    "bounds.find_pairs": "test_witness.py::test_every_search_answers_as_brute_force_does",
    "bounds.find_partners": "test_witness.py::test_every_search_answers_as_brute_force_does",
    "box_batch.process": "test_indexes.py::test_large_buckets",
    "box_entries.fill": "test_indexes.py::test_numbering_the_live_rows_anew",
    "box_entries.list_entries": "test_indexes.py::test_numbering_the_live_rows_anew",
    "generator.change_cells": "test_inclusion.py::test_clusters_follow_the_cells",
    "generator.list_cells": "test_kernels_values.py::test_cells_of_a_generator",
    "levels.test_left_sides": "test_levels.py::test_rules_by_size_follow_the_definition",
    "hitting_sets.search": "test_hitting_sets.py::test_all_minimal_hitting_sets",
    "text_dictionary.encode_strings": "test_encode.py::test_the_dictionary_is_a_dictionary",
}
HERE = Path(__file__).parent
SHAPES = [(0, 1), (1, 7), (30, 7), (30, 64), (30, 65), (30, 130)]  # how many sets, and bits of each
of_shapes = pytest.mark.parametrize(("count", "width"), SHAPES)
of_rows = pytest.mark.parametrize("rows", [0, 1, 2, 40, 300])


def random_bits(count, width, share=0.4, seed=0):
    return np.random.default_rng(seed + 1000 * count + width).random((count, width)) < share


def as_sets(bits):
    return [frozenset(np.flatnonzero(row).tolist()) for row in bits]


def random_codes(columns, rows, values=4, seed=0):
    rng = np.random.default_rng(seed + rows)
    return np.where(rng.random((columns, rows)) < 0.2, NULL, rng.integers(-values, values, (columns, rows)))


def test_every_kernel_is_compared_with_a_definition():
    found = set()
    for module in pkgutil.iter_modules(kernels.__path__):
        names = vars(importlib.import_module(f"holdfast.kernels.{module.name}"))
        own = {n: f for n, f in names.items() if getattr(f, "__module__", "") == f"holdfast.kernels.{module.name}"}
        compiled = {n: f for n, f in own.items() if hasattr(f, "targetoptions")}
        found |= {f"{module.name}.{n}" for n, f in compiled.items() if not f.targetoptions.get("no_cpython_wrapper")}
    texts = [file.read_text() for file in HERE.glob("test_kernels*.py")]
    here = {f"{a}.{b}" for text in texts for a, b in re.findall(r"\b(\w+)\.(\w+)\(", text)}
    assert len(found) > 40
    assert found <= here | ELSEWHERE.keys() and ELSEWHERE.keys() <= found, sorted(found - here - ELSEWHERE.keys())
    for place in ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert f"def {name}(" in (HERE / file).read_text()


# --- sets ------------------------------------------------------------------------------------------------------------


@of_shapes
def test_enter_sets(count, width):
    bits = random_bits(count, width, 0.1)
    wanted, out = pack(bits), np.empty(count, np.int64)
    known = np.empty((count + 1, wanted.shape[1]), np.uint64)
    used = sets.enter_sets(table_for(count), known, 0, wanted, out)
    numbers: dict[bytes, int] = {}
    assert out.tolist() == [numbers.setdefault(row.tobytes(), len(numbers)) for row in wanted]
    assert [row.tobytes() for row in known[:used]] == list(numbers)


@of_shapes
def test_derive(count, width):
    rng, bits = np.random.default_rng(width), random_bits(count, width)
    first, second = rng.integers(-1, width, (2, width + 3))
    truth = rng.integers(0, 16, width + 3).astype(np.uint64)
    out = np.empty((count, (width + 3 + 63) // 64), np.uint64)
    sets.derive(pack(bits), first, second, truth, out)
    x, y = (np.where(places >= 0, bits[:, places], False).astype(int) for places in (first, second))
    assert (unpack(out, width + 3) == (truth.astype(int) >> (x + 2 * y) & 1)).all()


@of_shapes
def test_antichain_and_refutations(count, width):
    bits = np.unique(random_bits(count, width, 0.2), axis=0)
    masks = pack(bits)
    order = np.argsort(sizes(masks), kind="stable")
    ascending, named = np.ascontiguousarray(masks[order]), [as_sets(bits)[i] for i in order]
    keep, half = np.empty(len(masks), np.int64), len(masks) // 2
    state = sets.antichain(ascending, sizes(ascending).astype(np.uint16), 0, half, 0, 0, keep)
    kept, _ = sets.antichain(ascending, sizes(ascending).astype(np.uint16), half, len(masks), *state, keep)
    assert keep[:kept].tolist() == [i for i, s in enumerate(named) if not any(other < s for other in named)]

    larger_first, named = np.ascontiguousarray(ascending[::-1]), named[::-1]
    refuted = random_bits(len(masks), 70, 0.3, seed=1)
    rights, useful = pack(refuted), np.empty((len(masks), 2), np.uint64)
    kept = sets.refutations(larger_first, rights, 0, half, 0, keep, useful)
    kept = sets.refutations(larger_first, rights, half, len(masks), kept, keep, useful)
    above = [[k for k in range(i) if named[i] < named[k]] for i in range(len(named))]
    left = [refuted[i] & ~refuted[above[i]].any(axis=0) for i in range(len(named))]
    assert keep[:kept].tolist() == [i for i, row in enumerate(left) if row.any()]
    assert all((unpack(useful[i : i + 1], 70)[0] == left[i]).all() for i in keep[:kept])


# --- hitting sets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edges", [0, 1, 40, 64, 5000])
@of_shapes
def test_covers_and_edges(count, width, edges):
    covers, family = random_bits(count, width, 0.3), random_bits(edges, width, 3 / width)
    columns, masks = edges_by_vertex(pack(family), width), pack(covers)
    missed, critical = np.empty(count, np.int64), np.empty(count, np.bool_)
    hitting_sets.first_missed(columns, edges, masks, missed)
    hitting_sets.all_critical(columns, masks, critical)
    met = covers.astype(int) @ family.T.astype(int)
    assert missed.tolist() == [int(row.argmin()) if (row == 0).any() else -1 for row in met]
    assert critical.tolist() == [all((family[:, v] & (m == 1)).any() for v in np.flatnonzero(c))
                                 for c, m in zip(covers, met, strict=True)]  # fmt: skip

    weights, order = np.arange(edges) % 5 + 1, np.random.default_rng(1).permutation(width)
    most, out, weight = int(weights.sum()) // 3, np.zeros_like(masks), np.empty(count, np.int64)
    near_hitting_sets.weigh(columns, pack(family), weights, masks, order, most, out, weight)
    assert weight.tolist() == [int(weights[row == 0].sum()) for row in met]
    for cover, found in zip(covers, unpack(out, width), strict=True):
        grown, outside = cover.copy(), np.zeros(width, np.bool_)
        if weights[~(family & grown).any(axis=1)].sum() > most:
            for v in order[~cover[order]]:
                heavy = weights[~(family & grown).any(axis=1) & ~family[:, v]].sum() > most
                grown[v], outside[v] = heavy, not heavy
        assert (found == outside).all()


# --- pairs of rows ---------------------------------------------------------------------------------------------------

OPS = {agree.EQUAL: np.equal, agree.LESS: np.less, agree.GREATER: np.greater, agree.DIFFERENT: np.not_equal}


@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize(("rows", "tests"), [(0, 3), (1, 3), (90, 10), (90, 40), (2500, 12), (90, 130)])
def test_sets_of_a_tile(rows, tests, one):
    rng = np.random.default_rng(tests)
    small, kind = rng.integers(0, 4, (6, rows)).astype(np.uint8), np.repeat([agree.BYTES, agree.HALVES, agree.WORDS], 2)
    said = np.stack([rng.integers(0, 6, tests), np.zeros(tests, np.int64), rng.integers(0, 5, tests)], axis=1)
    said[:, 1] = said[:, 0] ^ rng.integers(0, 2, tests)
    known, lifted = random_bits(rows, tests, 0.9), np.stack([random_bits(rows, tests, 0.1, seed=s) for s in (2, 3)])
    lifts = np.stack([pack(side) for side in lifted])
    given = agree.PairRows(small.astype(np.int64), small.astype(np.uint16), small, kind, said, pack(known), lifts, one)
    span = np.array([rows // 9, rows // 3, rows // 5, rows])
    expected, sql = Counter(), Counter()
    for i in range(span[0], span[1]):
        j = np.arange(max(i + 1, span[2]), span[3])
        never = np.zeros(len(j), np.bool_)
        passed = [OPS[o](small[a, i], small[b, j]) if o in OPS else never for a, b, o in said.tolist()]
        passes = np.array(passed, np.bool_).reshape(tests, -1).T
        lift = np.logical_xor(lifted[0, i], lifted[1, j]) if one else lifted[0, i] | lifted[1, j]
        whole = passes & known[i] | lift
        expected.update(row.tobytes() for row in pack(whole))
        sql.update(row.tobytes() for row in np.hstack([pack(whole), pack(known[i] & known[j] & ~passes)]))

    def counted(found):
        masks, counts, pairs = found
        assert (pairs[:, 0] < pairs[:, 1]).all() and (pairs[:, 0] < span[1]).all() and (pairs[:, 1] >= span[2]).all()
        return dict(zip([row.tobytes() for row in masks], counts.tolist(), strict=True))

    assert counted(agree.count_hashed(given, span, False)) == expected
    assert counted(agree.count_hashed(given, span, True)) == sql
    if tests <= 64:
        assert counted(agree.count_single(given, span)) == expected
    if tests <= 12:
        counts, pairs = np.zeros(1 << tests, np.int32), np.zeros((1 << tests, 2), np.int64)
        agree.count_direct(given, span, counts, pairs)
        there = np.flatnonzero(counts)
        assert counted((there.astype(np.uint64)[:, None], counts[there], pairs[there])) == expected


@pytest.mark.parametrize("sql", [False, True])
@pytest.mark.parametrize("columns", [3, 70])
@of_rows
def test_sets_of_pairs(rows, columns, sql):
    codes, lead = random_codes(columns, rows), rows // 2
    valid = (codes != NULL).T
    known = pack(valid)
    chosen = [(i, j) for i in range(lead) for j in range(i + 1, rows)][:2000]
    agrees = {p: (codes[:, p[0]] == codes[:, p[1]]) & valid[p[0]] for p in chosen}
    listed = np.array(chosen, np.int64).reshape(-1, 2)
    out = np.empty((len(listed), known.shape[1] * (2 if sql else 1)), np.uint64)
    agree_match.sets_of_pairs(codes, known, listed, sql, out)
    for p, row in zip(chosen, out, strict=True):
        differ = valid[p[0]] & valid[p[1]] & (codes[:, p[0]] != codes[:, p[1]])
        assert row.tolist() == np.hstack([pack(half[None])[0] for half in (agrees[p], differ)[: 1 + sql]]).tolist()


# --- numbers and groups ----------------------------------------------------------------------------------------------


@of_rows
@pytest.mark.parametrize("values", [2, 5000])
def test_numbers_of_values(rows, values):
    codes = random_codes(2, rows, values)
    numbers, few, small = np.empty(rows, np.int32), np.empty(2, np.bool_), np.empty(codes.shape, np.uint8)
    first: dict[int, int] = {}
    assert grouping.number_values(codes[0], table_for(rows), numbers) == len(set(codes[0].tolist()))
    assert numbers.tolist() == [first.setdefault(v, len(first)) for v in codes[0].tolist()]
    grouping.number_few(codes, small, few)
    for c in range(2):
        assert few[c] == (len(set(codes[c].tolist())) <= 256)
        pairs = set(zip(codes[c].tolist(), small[c].tolist(), strict=True))
        assert not few[c] or len(pairs) == len({v for v, _ in pairs}) == len({n for _, n in pairs})


@of_rows
@pytest.mark.parametrize("differ", [False, True])
def test_partitions(rows, differ):
    first, second = np.random.default_rng(rows).integers(-1, 5, (2, rows)).astype(np.int32)
    groups = [np.flatnonzero(first == v) for v in range(5)]
    groups = [g for g in groups if len(g) > 1]
    ends = np.cumsum([0, *map(len, groups)])[1:].astype(np.int32)
    together = np.concatenate([np.zeros(0, np.int32), *groups]).astype(np.int32)
    count, out = np.zeros(5, np.int64), np.empty((9, 2), np.int64)
    to_rows, to_ends = np.empty(len(together), np.int32), np.empty(len(together), np.int32)
    filled, number = partition.refine(together, ends, second, count, to_rows, to_ends)
    finer = [g[second[g] == v].tolist() for g in groups for v in range(5)]
    made = [part.tolist() for part in np.split(to_rows[:filled], to_ends[:number])[:-1]]
    assert sorted(made) == sorted(g for g in finer if len(g) > 1)

    def clash(a, b):
        null = second[a] < 0 or second[b] < 0
        return a != b and (differ if null else second[a] != second[b])

    clashing = [{(a, b) for a in g.tolist() for b in g.tolist() if clash(a, b)} for g in groups]
    found = partition.find_clashes(together, ends, second, differ, out)
    assert found == sum(map(bool, clashing)) and set(map(tuple, out[:found].tolist())) <= set().union(*clashing)
    largest = [max(Counter(second[g][second[g] >= 0].tolist()).values(), default=int(differ)) for g in groups]
    valued = [len(g) if differ else int((second[g] >= 0).sum()) for g in groups]
    errors = sum(map(len, clashing)), sum(valued) - sum(largest)
    assert partition.error_counts(together, ends, second, differ, count) == errors
    assert not count.any()


@of_rows
def test_rows_by_key(rows):
    codes, on = random_codes(3, rows), np.array([0, 2])
    table, older, slots = table_for(rows), np.zeros(rows, np.int32), np.random.default_rng(rows).permutation(rows)
    chains: dict[tuple, list[int]] = {}
    for slot in range(rows):
        chains.setdefault(tuple(codes[on, slot].tolist()), []).insert(0, slot)
    assert key_map.add_rows(table, older, codes, on, slots) == len(chains)
    gone = slots[: rows // 3]
    key_map.remove_rows(table, older, codes, on, gone)
    for slot in gone.tolist():
        chains[tuple(codes[on, slot].tolist())].remove(slot)
    wanted = random_codes(3, 50, seed=7)
    keys = [tuple(key) for key in wanted[on].T.tolist()]
    out, group = np.empty(50, np.int64), np.empty(50, np.int64)
    key_map.find_rows(table, codes, wanted, on, out)
    assert out.tolist() == [(chains.get(key) or [-1])[0] for key in keys]
    for some in (wanted[:, :0], wanted[:, :2].copy(), *(wanted[:, i : i + 1].copy() for i in range(50))):
        mine = [tuple(key) for key in some[on].T.tolist()]
        new = len(set(mine)) == len(mine) and not any(NULL in key or chains.get(key) for key in mine)
        assert key_map.are_new(table, codes, some, on) == new
    key_map.group_rows(wanted, on, table_for(50), group)
    assert group.tolist() == [keys.index(key) for key in keys]
    key_map.take_youngest(table, older, codes, wanted, on, group, np.zeros(50, np.int32), out)
    left = {key: list(chain) for key, chain in chains.items()}
    assert out.tolist() == [left[key].pop(0) if left.get(key) else -1 for key in keys]
