"""Kernels of values, runs, sweeps and hash tables, against a few lines that say what they compute."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from holdfast.discovery.ind.cells import Cells, merged
from holdfast.discovery.ind.generator import Generator
from holdfast.kernels import box, generator, runs, sweep, text_dictionary
from holdfast.rules.masks import pack, unpack
from holdfast.table.keys import table_for

sizes = pytest.mark.parametrize("size", [0, 1, 2, 50, 700])
_WORD = (1 << 64) - 1


def random_cells(size, attributes=70, seed=0):
    rng = np.random.default_rng(seed + size)
    numbers, spaces = rng.integers(-9, 9, size) * (1 << 40), rng.integers(-3, 3, size)
    return Cells.of(numbers, spaces, rng.integers(0, attributes, size), rng.integers(-2, 3, size))


def hashed(number, space):
    """SplitMix64 of a value."""
    word = (number ^ (space * 0x9E3779B97F4A7C15)) & _WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
    return word ^ word >> 31


def summed(*parts):
    """{(number, space, attribute): amount}, without zeros."""
    total = Counter()
    for part in parts:
        for number, space, attribute, amount in zip(*(a.tolist() for a in part), strict=True):
            total[number, space, attribute] += amount
    return {cell: amount for cell, amount in total.items() if amount}


def listed(cells):
    return [tuple(cell) for cell in zip(*(a.tolist() for a in cells), strict=True)]


@sizes
def test_runs_of_cells(size):
    a, b = random_cells(size), random_cells(size // 2, seed=9)
    hashes = np.empty(size, np.uint64)
    runs.hash_values(a.sealed().numbers, a.sealed().spaces, hashes)
    values = list(zip(a.numbers.tolist(), a.spaces.tolist(), strict=True))
    assert hashes.tolist() == [hashed(*value) for value in values]

    def in_order(total):
        return sorted(((*cell, n) for cell, n in total.items()), key=lambda c: (hashed(*c[:2]), c[0], c[2]))

    order, out = np.lexsort((a.attributes, a.numbers, hashes)), Cells.empty(size)
    used = runs.sum_cells(order, a.sealed(), out)
    run = out.at(slice(0, used)).sealed()
    assert listed(run) == in_order(summed(a))
    other, both = b.summed(), Cells.empty(size + b.size)
    assert listed(both.at(slice(0, runs.merge_runs(run, other, both)))) == in_order(summed(a, b))
    assert listed(merged([run, other])) == in_order(summed(a, b))

    of_run = [hashed(*cell[:2]) for cell in listed(run)]
    for wanted in (0, 1 << 63, _WORD, *of_run[:20], *(h + 1 for h in of_run[:20] if h < _WORD)):
        place = sum(h < wanted for h in of_run)
        assert runs.place_in_run(*run.values, np.uint64(wanted)) == place
    sought = a.values.distinct()
    sought = sought.at(np.argsort(sought.hashes(), kind="stable"))
    starts, stops = np.empty((2, len(sought.numbers)), np.int64)
    runs.find_values(*run.values, *sought, starts, stops)
    for number, space, start, stop in zip(*(x.tolist() for x in (*sought, starts, stops)), strict=True):
        places = [i for i, cell in enumerate(listed(run)) if cell[:2] == (number, space)]
        assert list(range(start, stop)) == places
    masks, firsts = np.empty((run.size, 2), np.uint64), np.empty(run.size, np.int64)
    used = runs.value_masks(*run, masks, firsts)
    clusters: dict[tuple, set] = {}
    for number, space, attribute, amount in listed(run):
        if amount > 0:
            clusters.setdefault((number, space), set()).add(attribute)
    assert [listed(run)[first][:2] for first in firsts[:used]] == list(clusters)
    assert [set(np.flatnonzero(row)) for row in unpack(masks[:used], 70)] == list(clusters.values())


@pytest.mark.parametrize("only_inserts", [False, True])
@sizes
def test_cells_of_a_generator(size, only_inserts):
    """As counts by a dictionary, however they are listed and however tables grow."""
    values = Generator(70, only_inserts=only_inserts)
    cells = random_cells(size)._replace(amounts=np.ones(size, np.int32))
    values.change(cells)
    expected = summed(cells)
    if not only_inserts:
        values.change(cells.at(slice(0, size // 2))._replace(amounts=np.full(size // 2, -1, np.int32)))
        expected = summed(cells.at(slice(size // 2, size)))
    found = [cell for part in values.ranges() for cell in listed(part)]
    assert len({cell[:3] for cell in found}) == len(found)
    assert {cell[:3]: cell[3] for cell in found} == {c: 1 if only_inserts else n for c, n in expected.items()}


@sizes
def test_tables_of_values_and_pairs(size):
    cells = random_cells(size).values.distinct()
    table, out, count = table_for(size), np.empty(len(cells.numbers) + 1, np.bool_), len(cells.numbers)
    generator.enter_values(table, cells.numbers, cells.spaces, count)
    assert sorted(table[table > 0].tolist()) == list(range(1, count + 1))
    numbers, spaces = np.append(cells.numbers, 77), np.append(cells.spaces, 0).astype(np.int16)
    generator.are_known(numbers, spaces, table, cells.numbers, cells.spaces, out)
    assert out.tolist() == [True] * count + [False]
    keys = np.random.default_rng(size).permutation(4 * size + 4)[: 2 * size].astype(np.int64)
    keys[::3] = generator.GONE
    counts, larger = np.arange(len(keys), dtype=np.int32), 1 << (4 * size + 4).bit_length()
    new_keys, new_counts = np.full(larger, generator.FREE), np.zeros(larger, np.int32)
    live = keys >= 0
    assert generator.enter_pairs(keys, counts, new_keys, new_counts) == live.sum()
    there = new_keys != generator.FREE
    moved = dict(zip(new_keys[there].tolist(), new_counts[there].tolist(), strict=True))
    assert moved == dict(zip(keys[live].tolist(), counts[live].tolist(), strict=True))


@pytest.mark.parametrize("attributes", [1, 63, 64, 65, 130])
@pytest.mark.parametrize("moves", [0, 1, 60])
def test_count_moves(attributes, moves):
    rng = np.random.default_rng(attributes)
    clusters = rng.random((9, attributes)) < 0.3
    before, after = rng.integers(0, 9, (2, moves))
    missing, distinct = np.zeros((attributes, attributes), np.int64), np.zeros(attributes, np.int64)
    generator.count_moves(pack(clusters), before, after, attributes, missing, distinct)
    old, new = clusters[before].astype(int), clusters[after].astype(int)
    assert (distinct == new.sum(axis=0) - old.sum(axis=0)).all()
    assert (missing == new.T @ (1 - new) - old.T @ (1 - old)).all()


OPS = [np.less, np.less_equal, np.greater, np.greater_equal, np.not_equal]


@pytest.mark.parametrize("ranked", [False, True])
@sizes
def test_pairs_by_one_pass(size, ranked):
    size = min(size, 60)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        values = int(rng.integers(1, 60))
        group, first, last = rng.integers(0, 3, (2, size)), *rng.integers(0, values, (2, 2, size))
        rank = rng.integers(1, 6, (2, size)) if ranked else np.zeros((2, 0), np.int64)
        may = rng.random((2, size)) < 0.8
        sides = []
        for k in range(2):
            rows = np.flatnonzero(may[k])
            rows = rows[np.argsort(first[k][rows], kind="stable")]
            starts, out = np.searchsorted(np.sort(group[k][rows]), np.arange(3)), np.empty_like(rows)
            sweep.by_group(rows, group[k], starts, out)
            assert out.tolist() == sorted(
                rows.tolist(), key=lambda row, k=k, rows=rows: (group[k][row], first[k][row], rows.tolist().index(row))
            )
            sides.append(sweep.SweptSide(out, group[k], first[k], rank[k], last[k]))
        strict, strict_rank = bool(seed & 1), bool(seed & 2)
        extremes = np.full((7 if ranked else 2, 4), -1, np.int64)
        op = seed % len(OPS)
        if ranked:
            found = sweep.find_in_three(*sides, strict, strict_rank, op, extremes)
        else:
            found = sweep.find_pair(*sides, strict, op)
        pairs = may[0][:, None] & may[1] & (group[0][:, None] == group[1]) & OPS[op](last[0][:, None], last[1])
        pairs &= OPS[0 if strict else 1](first[0][:, None], first[1])
        if ranked:
            pairs &= OPS[0 if strict_rank else 1](rank[0][:, None], rank[1])
        np.fill_diagonal(pairs, False)
        assert bool(found[0] >= 0) == bool(pairs.any())
        assert pairs[found] if found[0] >= 0 else (extremes == -1).all()


def test_a_row_is_no_partner_of_itself():
    """Columns compared with themselves: the least row may be s itself, and then the second least decides."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        size, op, strict, strict_rank = int(rng.integers(2, 7)), seed % len(OPS), bool(seed & 1), bool(seed & 2)
        group, last, first = np.zeros(size, np.int64), rng.integers(0, 4, size), rng.integers(0, 4, size)
        rank = rng.integers(1, 4, size)
        rows = np.argsort(first, kind="stable")
        ranked = sweep.SweptSide(rows, group, first, rank, last)
        pairs = OPS[0 if strict else 1](first[:, None], first) & OPS[op](last[:, None], last)
        np.fill_diagonal(pairs, False)
        found = sweep.find_pair(*[sweep.SweptSide(rows, group, first, rank[:0], last)] * 2, strict, op)
        assert bool(found[0] >= 0) == bool(pairs.any())
        pairs &= OPS[0 if strict_rank else 1](rank[:, None], rank)
        found = sweep.find_in_three(ranked, ranked, strict, strict_rank, op, np.full((5, 4), -1, np.int64))
        assert bool(found[0] >= 0) == bool(pairs.any())


@sizes
def test_larger_hash_tables(size):
    rng = np.random.default_rng(size)
    slots, larger = np.zeros(2 * size + 1, np.uint64), np.zeros(3 * size + 5, np.uint64)
    words = rng.integers(1, 1 << 63, size).astype(np.uint64)
    slots[:size] = words
    box.refill_slots(np.sort(slots), larger)
    assert sorted(larger[larger > 0].tolist()) == sorted(words.tolist())
    for word in words.tolist():  # each is reached from its place without passing a free slot
        at = (word >> 32) * len(larger) >> 32
        while larger[at] != word:
            assert larger[at] != 0
            at = (at + 1) % len(larger)


@sizes
def test_slots_of_strings(size):
    """Slots made from the strings, or moved from smaller ones, find every string."""
    texts = [f"{i * 7919 % 1009} text".encode()[: i % 13] + bytes([i % 256, i // 256]) for i in range(size)]
    data = np.frombuffer(b"".join(texts), np.uint8)
    ends = np.cumsum([0, *map(len, texts)])[1:].astype(np.int64)
    small = np.zeros(1 << (2 * size + 2).bit_length(), np.uint64)
    large = np.zeros(4 * len(small), np.uint64)
    text_dictionary.rebuild_slots(small, data.copy(), ends, size)
    text_dictionary.move_slots(small, large)
    for slots in (small, large):
        out, offsets = np.empty(size, np.int64), np.append(0, ends)
        done, used = text_dictionary.encode_strings(
            data, offsets, np.zeros(0, np.bool_), -1, slots, data.copy(), ends.copy(), size, out
        )
        assert (done, used, out.tolist()) == (size, size, list(range(size)))
