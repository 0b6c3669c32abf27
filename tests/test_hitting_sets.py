"""Minimal hitting sets against their definition, from nothing and as edges are added and removed."""

from __future__ import annotations

from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.discovery.budget import Budget
from holdfast.discovery.hitting_sets import minimal
from holdfast.discovery.hitting_sets.minimal import Groups, hitting_sets_after, minimal_edges, minimal_hitting_sets
from holdfast.rules.masks import mask_of, none
from tests.conftest import cases


def naive(edges, vertices, most=None):
    found = []
    for size in range((len(vertices) if most is None else min(most, len(vertices))) + 1):
        for candidate in map(frozenset, combinations(vertices, size)):
            if all(candidate & edge for edge in edges) and not any(smaller < candidate for smaller in found):
                found.append(candidate)
    return set(found)


def masks(edges, bits):
    return np.concatenate([none(bits), *(mask_of(edge, bits) for edge in edges)])


def sets(found, bits):
    return {frozenset(i for i in range(bits) if int(row[i // 64]) >> i % 64 & 1) for row in found}


def antichain(edges):
    return {e for e in edges if not any(f < e for f in edges)}


@st.composite
def families(draw, places):
    edges = draw(st.sets(st.frozensets(st.sampled_from(places), min_size=0, max_size=4), max_size=8))
    return antichain(edges)


@pytest.mark.parametrize("spread", [1, 30, 60])
@given(data=st.data())
@settings(max_examples=cases(100))
def test_all_minimal_hitting_sets(spread, data):
    places = [spread * i for i in range(7)]
    edges, bits = data.draw(families(places)), places[-1] + 1
    most = data.draw(st.sampled_from([None, 0, 1, 2, 3]))
    found = minimal_hitting_sets(masks(edges, bits), bits, most)
    assert len(found) == len(sets(found, bits))
    assert sets(found, bits) == naive(edges, places, most)


@pytest.mark.parametrize("spread", [1, 30])
@given(data=st.data())
@settings(max_examples=cases(100))
def test_hitting_sets_follow_their_edges(spread, data):
    places = [spread * i for i in range(7)]
    bits, most = places[-1] + 1, data.draw(st.sampled_from([None, 1, 2, 3]))
    before, after = data.draw(families(places)), data.draw(families(places))
    hitting_sets = minimal_hitting_sets(masks(before, bits), bits, most)
    removed, added = masks(before - after, bits), masks(after - before, bits)
    found = hitting_sets_after(hitting_sets, removed, added, masks(after, bits), bits, most)
    assert len(found) == len(sets(found, bits))
    assert sets(found, bits) == naive(after, places, most)


@given(edges=st.sets(st.frozensets(st.integers(0, 70), max_size=4), max_size=8))
def test_the_minimal_edges(edges):
    assert sets(minimal_edges(masks(edges, 71)), 71) == antichain(edges)


@given(data=st.data())
@settings(max_examples=cases(50))
def test_hitting_sets_within_some_vertices(data):
    places = list(range(7))
    edges, some = data.draw(families(places)), data.draw(st.sets(st.sampled_from(places)))
    found = minimal_hitting_sets(masks(edges, 7), 7, within=mask_of(some, 7))
    assert sets(found, 7) == naive({e & some for e in edges}, sorted(some))


def test_a_spent_budget_ends_the_search_with_what_was_found():
    edges = masks([{2 * i, 2 * i + 1} for i in range(18)], 36)  # 2^18 hitting sets
    some = minimal_hitting_sets(edges, 36, budget=Budget(0.0))
    assert 0 < len(some) < 2**18
    assert all((some & edge).any(axis=1).all() for edge in edges)
    assert len(minimal_hitting_sets(edges, 36)) == 2**18


@given(data=st.data())
@settings(max_examples=cases(60))
def test_hitting_sets_of_few_groups_from_some_edges(data):
    """With many edges, the hitting sets of a sample are tested on all."""
    bits, groups = 9, Groups(np.arange(9) // 3, data.draw(st.sampled_from([1, 2, 3])))
    edges = minimal_edges(
        masks(data.draw(st.sets(st.frozensets(st.integers(0, bits - 1), min_size=1), max_size=40)), bits)
    )
    expected = sets(minimal_hitting_sets(edges, bits, groups=groups), bits)
    with patch.object(minimal, "_MANY", 2), patch.object(minimal, "_SAMPLE", 1):
        assert sets(minimal_hitting_sets(edges, bits, groups=groups), bits) == expected
