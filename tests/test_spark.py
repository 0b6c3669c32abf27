"""On Spark: the executor, violations in parts, encoding; the same answers as in the process.

Run with HOLDFAST_SPARK=connect, the same tests go through Spark Connect (`make test-long`; one of them in `make test`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from holdfast.arrays import to_buffer
from holdfast.executors.executor import Block, Bucket, load
from holdfast.executors.spark import SparkExecutor
from tests.conftest import CASES, CONNECT
from tests.test_executors import add_up, broken, count_pairs
from tests.test_violations import checked_stories, tells_what_it_changed

pytestmark = pytest.mark.spark
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


def show(block, shared):
    return {"x": np.concatenate([block["0/x"], block["1/x"], block["y"]])}


def test_an_error_in_a_task_says_what_it_was(executor):
    with pytest.raises(Exception, match="block three"):
        executor.map(broken, [Block({"x": np.array([i])}) for i in range(6)], {})


@given(case=checked_stories())
@settings(max_examples=CASES // 200 if CASES else 3, suppress_health_check=[*HealthCheck], derandomize=not CASES)
def test_every_change_tells_what_it_changed_on_spark(executor, case):
    tells_what_it_changed(case, executor=executor)


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
