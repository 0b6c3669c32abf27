"""On Spark: the executor, violations in parts, encoding; the same answers as in the process.

Run with HOLDFAST_SPARK=connect, the same tests go through Spark Connect (`make test-long`; one of them in `make test`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings

import holdfast as hf
from holdfast.arrays import to_buffer
from holdfast.check import Found
from holdfast.cli.main import status_of
from holdfast.executors.executor import Block, Bucket, Cancellation, Cancelled, load
from holdfast.executors.spark import SparkExecutor
from holdfast.table.change import read_feed
from tests.conftest import CASES, CONNECT
from tests.test_executors import add_up, broken, count_pairs, slow
from tests.test_violations import checked_stories, tells_what_it_changed

pytestmark = pytest.mark.spark
HISTORIES = [
    ("oa_regions", ["key(name)", "iso_country -> continent", "not(t.iso_country = s.iso_country and t.name = s.name)"]),
    ("oa_frequencies", ["airport_ref -> airport_ident", "not(t.airport_ref = s.airport_ref and t.type = s.type)"]),
]
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def executor(spark, tmp_path) -> SparkExecutor:
    return SparkExecutor(spark, tmp_path, tasks=3)


def test_tiles_and_buckets(executor, tmp_path):
    x, y = np.arange(40) % 7, np.arange(10)
    told: list[float] = []
    blocks = [Block({"x": x[i : i + 7]}, cost=7) for i in range(0, 40, 7)]
    results = SparkExecutor(executor.spark, tmp_path, progress=told.append).map(count_pairs, blocks, {"y": y})
    assert [int(r["count"][0]) for r in results] == [(x[i : i + 7][:, None] == y).sum() for i in range(0, 40, 7)]
    assert told[-1] == 1.0 and executor.map(count_pairs, [], {}) == []
    buckets = [Bucket(n) for n in range(4)]
    first, _ = executor.update(add_up, buckets, {"bucket": np.array([0, 2, 0]), "x": np.array([1, 2, 3])})
    assert first[1] is buckets[1] and first[3] is buckets[3]
    second, summaries = executor.update(add_up, first, {"bucket": np.array([2]), "x": np.array([40])})
    assert second[0] is first[0] and load(second[2])["sum"].tolist() == [42] == load(second[2])["sum"].tolist()
    assert [s["added"].tolist() for s in summaries] == [[40]]
    executor.forget([first[2]])
    assert not first[2].file.exists() and second[2].file.exists()
    (tmp_path / "b").write_bytes(to_buffer({"x": np.array([5, 5])}))
    block = Block({"y": np.array([1])}, buckets=(Bucket(0, tmp_path / "b"), Bucket(1, arrays={"x": np.array([7])})))
    assert executor.map(show, [block], {})[0]["x"].tolist() == [5, 5, 7, 1]
    assert not list(tmp_path.glob("job-*"))


def test_cancelling_ends_a_job_between_blocks(executor, tmp_path):
    """The first block that is done cancels the others: 20 s on two cores."""
    cancellation = Cancellation()
    blocks = [Block({"x": np.array([i])}) for i in range(2000)]
    (tmp_path / "done").mkdir()

    def progress(share):
        if share:
            cancellation.cancel()

    shared = {"directory": np.frombuffer(os.fsencode(tmp_path / "done"), np.uint8)}
    with pytest.raises(Cancelled):
        SparkExecutor(executor.spark, tmp_path, None, progress, cancellation).map(leaves_a_file, blocks, shared)
    assert 0 < len(list((tmp_path / "done").iterdir())) < len(blocks) and not list(tmp_path.glob("job-*"))


def leaves_a_file(block, shared):
    (Path(os.fsdecode(shared["directory"].tobytes())) / str(block["x"][0])).touch()
    return slow(block, shared)


def show(block, shared):
    return {"x": np.concatenate([block["0/x"], block["1/x"], block["y"]])}


def test_an_error_in_a_task_says_what_it_was(executor):
    with pytest.raises(Exception, match="block three"):
        executor.map(broken, [Block({"x": np.array([i])}) for i in range(6)], {})


@given(case=checked_stories())
@settings(max_examples=CASES // 200 if CASES else 3, suppress_health_check=[*HealthCheck], derandomize=not CASES)
def test_every_change_tells_what_it_changed_on_spark(executor, case):
    tells_what_it_changed(case, executor=executor)


@pytest.mark.data
@pytest.mark.parametrize(("name", "rules"), HISTORIES)
def test_real_histories_on_spark(executor, real_data, name, rules):
    """The first batches of real histories: counts, and what came and went, as in the process."""
    folder = real_data / "history" / name
    here = hf.Rulebook.create(None, folder / "base.csv", rules=rules)
    there = hf.Rulebook.create(None, folder / "base.csv", rules=rules, executor=executor)
    for batch, feeds in read_feed(folder / "changes.csv")[: 4 if not CASES else None]:
        some = [type(f)(f.part, None) for f in feeds]
        first, second = here.apply(some, batch_id=batch), there.apply(some, batch_id=batch)
        for rule in rules:
            assert here.count_violations(rule) == there.count_violations(rule)
            one, other = first.violations.of(rule), second.violations.of(rule)
            assert (one.count_added, one.count_removed) == (other.count_added, other.count_removed)
            if one.added is not None:
                assert first.violations.added(rule).equals(second.violations.added(rule))
                assert first.violations.removed(rule).equals(second.violations.removed(rule))


def test_check_decides_where(spark, tmp_path, monkeypatch):
    table = pa.table({"a": [1, 1, 2], "b": ["x", "y", "z"]})
    frame = spark.createDataFrame(table)
    assert isinstance(hf.check(frame, ["a -> b"]), Found)
    with hf.check(frame, ["a -> b"], on="spark") as found:
        assert found.count("a -> b") == 2 and bool(found) and "a -> b" in repr(found)
        with pytest.raises(hf.NotAvailable, match="explanations"):
            found.explain("a -> b")
    monkeypatch.setattr(sys.modules["holdfast.check"], "SPARK_CHECKS_ABOVE", 2)
    with hf.check(frame, ["a -> b"]) as found:
        assert not isinstance(found, Found)
    with pytest.raises(hf.HoldfastError, match="read the data with Spark first"):
        hf.check(table, ["a -> b"], on="spark")
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    assert status_of(["check", str(tmp_path / "t.parquet"), "--rule", "a -> b", "--on", "spark"]) == 1
    assert status_of(["check", "x.csv", "--rule", "a -> b", "--on", "spark"]) == 2


@pytest.mark.skipif(CONNECT, reason="this is that")
def test_the_same_through_spark_connect():
    """One smoke test; all of them run in `make test-long`."""
    chosen = ["tests/test_spark.py", "-k", "tiles_and_buckets", "-q", "-p", "no:cacheprovider"]
    environment = os.environ | {"HOLDFAST_SPARK": "connect"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
