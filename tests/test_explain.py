"""Explanations: what to remove, by brute force, and what may be said from a part of the violations."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.report.facts import causes_of
from holdfast.violations.explain import greedy_cover, smallest_cover
from holdfast.workflow.decisions import look_at
from holdfast.workflow.masking import Mask
from tests import naive
from tests import strategies as hs
from tests.conftest import cases

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda e: e[0] != e[1]), max_size=14)


def smallest_of_all(edges) -> set[int]:
    """By definition: of the fewest rows that touch every edge, the latest by arrival."""
    rows = {row for edge in edges for row in edge}
    covers = [set(x) for x in naive.subsets(sorted(rows)) if all(a in x or b in x for a, b in edges)]
    fewest = min(map(len, covers))
    return max((c for c in covers if len(c) == fewest), key=lambda c: sorted(c, reverse=True))


def greedy_by_definition(edges) -> set[int]:
    cover: set[int] = set()
    while left := {frozenset(e) for e in edges if not cover & set(e)}:
        degree = Counter(row for edge in left for row in edge)
        cover.add(max(degree, key=lambda row: (degree[row], row)))
    return cover


@given(edges=EDGES)
@settings(max_examples=cases(200))
def test_the_smallest_repair_is_the_smallest_and_blames_the_latest_rows(edges):
    assert smallest_cover(edges) == smallest_of_all(edges)
    assert greedy_cover(edges) == greedy_by_definition(edges)


def test_large_covers_are_exact_and_quick():
    """24 rows in the shapes that branch most: a cycle, a grid, pairs, and all with all."""
    ring = [(i, (i + 1) % 24) for i in range(24)]
    grid = [(i, i + step) for i in range(24) for step in (1, 6) if i + step < 24 and (step == 6 or (i + 1) % 6)]
    pairs = [(i, i + 12) for i in range(12)]
    every = [(i, j) for i in range(24) for j in range(i)]
    assert smallest_cover(ring) == set(range(1, 24, 2)) and len(smallest_cover(grid)) == 12
    assert smallest_cover(pairs) == set(range(12, 24)) and smallest_cover(every) == set(range(1, 24))
    star_of_many = [(0, i) for i in range(1, 50_000)]
    assert greedy_cover(star_of_many) == {0} and len(greedy_cover([(i, i + 1) for i in range(50_000)])) >= 25_000


def components(edges) -> list[set[int]]:
    found: list[set[int]] = []
    for edge in edges:
        touched = [part for part in found if part & set(edge)]
        found = [part for part in found if part not in touched] + [set(edge).union(*touched)]
    return found


@given(data=st.data(), nulls=st.sampled_from(hs.POLICIES))
@settings(max_examples=cases(150))
def test_what_is_called_exact_is_so_for_the_whole_group(data, nulls):
    """However few violations are looked at: an exact cause has all rows and pairs of its group, and the fewest to
    remove. One that is not is part of a group, and the sentence does not call it the fewest."""
    schema, rows = data.draw(hs.tables(rows=12))
    rule = data.draw(hs.pair_rules(schema))
    small = data.draw(st.sampled_from([2, 4, 24]))
    first = data.draw(st.integers(1, 12))
    edges = {(min(p), max(p)) for p in naive.violations(rule, rows, nulls) if isinstance(p, tuple) and len(p) == 2}
    groups = components(edges)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.violations.explain.EXACT_UP_TO", small)
        book = hf.Rulebook.create(None, hs.to_arrow(schema, rows), rules=[rule], rule_nulls=nulls)
        told = book.explain(str(rule), limit=100, look_at=first)
    seen: list[set[int]] = []
    for (cause, pairs, remove, exact), size in zip(told.causes, told.sizes, strict=True):
        group = next(part for part in groups if set(cause) <= part)
        mine = [edge for edge in edges if set(edge) <= group]
        assert all(group != other for other in seen) or not exact
        seen.append(group)
        if exact:
            assert (set(cause), size, pairs) == (group, len(group), len(mine))
            assert set(remove) == smallest_of_all(mine)
        else:
            assert len(group) > small and pairs <= len(mine)
    if told.causes and not any(exact for *_, exact in told.causes):
        assert "fewest" not in str(told)
    if told.looked_at == told.count:
        assert len(seen) == len(groups)


def test_a_part_of_a_large_group_is_not_called_the_fewest(tmp_path, capsys):
    """30 rows of one zip: the first violations alone do not say what to remove."""
    table = pa.table({"id": list(range(40)), "zip": ["1"] * 30 + ["2"] * 10, "city": [f"c{i % 3}" for i in range(40)]})
    with hf.Rulebook.create(tmp_path / "book", table, key="id", rules=["zip -> city"]) as book:
        told = book.explain("zip -> city", look_at=50)
        assert [exact for *_, exact in told.causes] == [False]
        assert "at least" in str(told) and "fewest" not in str(told) and "for the first 50 violations" in str(told)
        words = causes_of(look_at(book, "zip -> city"), Mask.of(book), look_at=50)
        assert "fewest" not in words[0] and "for the first 50 violations" in words[0]
        whole = book.explain("zip -> city")
        assert [exact for *_, exact in whole.causes] == [False, True] and whole.causes[1][2] == [31, 32, 34, 35, 37, 38]
    assert status_of(["explain", str(tmp_path / "book"), "zip -> city", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["looked_at"] == told["count"] and [cause["exact"] for cause in told["causes"]] == [False, True]


def test_parts_of_one_group_are_one_finding():
    """The first two violations share no row; the third, which is not looked at, joins them."""
    table = pa.table({"a": [10, 20, 20, 5], "b": [0, 1, 10, 20]})
    book = hf.Rulebook.create(None, table, rules=["not(t.a = s.b)"])
    told = book.explain("not(t.a = s.b)", look_at=2)
    assert (told.looked_at, told.count) == (2, 3) and told.causes == [([0, 1, 2, 3], 3, [2, 3], True)]
