"""Executors: the same answer whoever computes it, in order, with progress, cancellation and purity."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.arrays import to_buffer
from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.errors import HoldfastError
from holdfast.executors.executor import Block, Bucket, Cancellation, Cancelled, load, parts_of
from holdfast.executors.threads import _AHEAD, ThreadExecutor
from tests.conftest import cases


class FarThreads(ThreadExecutor):
    """Threads that count as far away, so that all work is sent to them."""

    @property
    def elsewhere(self) -> bool:
        return True


EXECUTORS = {"one thread": ThreadExecutor(workers=1), "four threads": ThreadExecutor(workers=4)}


@pytest.fixture(params=sorted(EXECUTORS), scope="module")
def executor(request):
    return EXECUTORS[request.param]


def count_pairs(block, shared):
    """A tile: how many pairs of the block's and the shared numbers are equal."""
    return {"count": np.array([(block["x"][:, None] == shared["y"][None, :]).sum()])}


def add_up(bucket, delta, _):
    """A step: a running sum for each bucket."""
    total = int(bucket["sum"][0]) if bucket else 0
    return {"sum": np.array([total + delta["x"].sum()])}, {"added": np.array([delta["x"].sum()])}


def slow(block, shared):
    time.sleep(0.02)
    return {"x": block["x"]}


def broken(block, shared):
    if block["x"][0] == 3:
        raise ValueError("block three")
    return {"x": block["x"]}


@given(xs=st.lists(st.integers(0, 5), max_size=40), ys=st.lists(st.integers(0, 5), max_size=10), cut=st.integers(1, 9))
@settings(max_examples=cases(60))
def test_tiles_add_up_however_they_are_cut(executor, xs, ys, cut):
    x, y = np.array(xs, dtype=np.int64), np.array(ys, dtype=np.int64)
    blocks = [Block({"x": x[i : i + cut]}, cost=len(x[i : i + cut])) for i in range(0, len(x), cut)]
    results = executor.map(count_pairs, blocks, {"y": y})
    assert sum(int(r["count"][0]) for r in results) == sum(a == b for a in xs for b in ys)


@given(rows=st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), max_size=30), split=st.integers(0, 30))
@settings(max_examples=cases(60))
def test_buckets_in_one_update_or_two(executor, rows, split):
    def run(*pieces):
        buckets = [Bucket(n) for n in range(4)]
        for piece in pieces:
            delta = {
                "bucket": np.array([b for b, _ in piece], np.int64),
                "x": np.array([v for _, v in piece], np.int64),
            }
            buckets, summaries = executor.update(add_up, buckets, delta)
            assert sum(int(s["added"][0]) for s in summaries) == sum(v for _, v in piece)
        return [int(load(b)["sum"][0]) if load(b) else 0 for b in buckets]

    expected = [sum(v for b, v in rows if b == n) for n in range(4)]
    assert run(rows) == run(rows[:split], rows[split:]) == expected


def test_untouched_buckets_are_carried_by_reference_and_files_are_read(executor, tmp_path):
    (tmp_path / "b").write_bytes(to_buffer({"sum": np.array([40])}))
    buckets = [Bucket(0, file=tmp_path / "b"), Bucket(1, file=tmp_path / "b")]
    after, _ = executor.update(add_up, buckets, {"bucket": np.array([1]), "x": np.array([2])})
    assert after[0] is buckets[0] and load(after[1])["sum"].tolist() == [42]
    with pytest.raises(IndexError, match="bucket 7"):
        executor.update(add_up, buckets, {"bucket": np.array([7]), "x": np.array([2])})


def test_results_come_in_the_order_of_the_blocks(executor):
    blocks = [Block({"x": np.array([i])}) for i in range(50)]
    assert [int(r["x"][0]) for r in executor.map(slow, blocks[:8], {})] == list(range(8))


def test_progress_grows_to_one():
    told: list[float] = []
    blocks = [Block({"x": np.array([i])}, cost=i) for i in range(1, 10)]
    ThreadExecutor(workers=3, progress=told.append).map(slow, blocks, {})
    assert told == sorted(told) and told[-1] == pytest.approx(1.0) and len(told) == 9


def test_cancellation_takes_effect_between_blocks():
    cancellation, done = Cancellation(), []

    def progress(share):
        done.append(share)
        if len(done) == 3:
            cancellation.cancel()

    with pytest.raises(Cancelled):
        ThreadExecutor(2, progress, cancellation).map(slow, [Block({"x": np.array([i])}) for i in range(500)], {})
    assert 3 <= len(done) <= 3 + 2 * _AHEAD


def test_an_error_in_a_block_is_raised(executor):
    with pytest.raises(ValueError, match="block three"):
        executor.map(broken, [Block({"x": np.array([i])}) for i in range(6)], {})


def test_only_pure_functions_run(executor):
    def inner(block, shared):
        return block

    for function in (inner, lambda b, s: b, "x".join):
        with pytest.raises(HoldfastError, match="module-level"):
            executor.map(function, [], {})


@pytest.mark.parametrize(("rows", "tile"), [(0, 5), (1, 5), (37, 5), (200, 64), (3000, 700)])
def test_agreements_of_all_pairs(executor, rows, tile):
    codes = np.random.default_rng(rows).integers(0, 4, (5, rows))
    everything = AgreeSets(5, executor=executor, few_pairs=0, pairs_per_tile=tile * tile)
    tally = everything.pairs(np.arange(rows), codes)
    counts = np.zeros(32, np.int64)
    counts[tally.sets[:, 0].astype(np.int64)] = tally.counts
    equal = (codes[:, :, None] == codes[:, None, :]).astype(np.int64)
    masks = (equal << np.arange(5)[:, None, None]).sum(axis=0)[np.triu_indices(rows, 1)]
    assert counts.tolist() == np.bincount(masks, minlength=32).tolist()


def test_parts_keep_the_order_of_rows():
    parts = parts_of({"bucket": np.array([2, 0, 2, 2]), "x": np.array([1, 2, 3, 4])})
    assert {n: p["x"].tolist() for n, p in parts.items()} == {0: [2], 2: [1, 3, 4]}
