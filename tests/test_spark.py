"""On Spark: where a check runs, real histories, Connect; the same answers as in the process.

Run with HOLDFAST_SPARK=connect, the same tests go through Spark Connect (`make test-long`; one of them in `make test`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import holdfast as hf
from holdfast.checking import Found
from holdfast.cli.main import status_of
from holdfast.table.change import read_feed
from tests.conftest import CASES, CONNECT

pytestmark = pytest.mark.spark
HISTORIES = [
    ("oa_regions", ["key(name)", "iso_country -> continent", "not(t.iso_country = s.iso_country and t.name = s.name)"]),
    ("oa_frequencies", ["airport_ref -> airport_ident", "not(t.airport_ref = s.airport_ref and t.type = s.type)"]),
]
ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.data
@pytest.mark.parametrize(("name", "rules"), HISTORIES)
def test_real_histories_on_spark(spark, tmp_path, real_data, name, rules):
    """The first batches of real histories: counts, and what came and went, as in the process. They have no key."""
    folder = real_data / "history" / name
    here = hf.Rulebook.create(None, folder / "base.csv", rules=rules)
    there = hf.Rulebook.create(
        tmp_path / "book", spark.createDataFrame(here.table()).repartition(3), rules=rules, on="spark"
    )
    for batch, feeds in read_feed(folder / "changes.csv")[: 1 if not CASES else None]:
        some = [type(f)(f.part, None) for f in feeds]
        first, second = here.apply(some, batch_id=batch), there.apply(some, batch_id=batch)
        for rule in rules:
            assert here.count_violations(rule) == there.count_violations(rule)
            one, other = first.violations.of(rule), second.violations
            grown = other.count_added(rule) - other.count_removed(rule)
            assert one.count_added - one.count_removed == grown
        assert here.count() == there.count() == there.table().count()


def test_check_decides_where(spark, tmp_path, monkeypatch):
    table = pa.table({"a": [1, 1, 2], "b": ["x", "y", "z"]})
    frame = spark.createDataFrame(table)
    assert isinstance(hf.check(frame, ["a -> b"]), Found)
    with hf.check(frame, ["a -> b"], on="spark") as found:
        assert found.count("a -> b") == 2 and bool(found) and "a -> b" in repr(found)
    monkeypatch.setattr(sys.modules["holdfast.places"], "FRAMES_STAY_ABOVE", 2)
    assert not isinstance(hf.check(frame, ["a -> b"]), Found)
    with pytest.raises(hf.HoldfastError, match="read the data with Spark first"):
        hf.check(table, ["a -> b"], on="spark")
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    assert status_of(["check", str(tmp_path / "t.parquet"), "--rule", "a -> b", "--on", "spark"]) == 1
    assert status_of(["check", "x.csv", "--rule", "a -> b", "--on", "spark"]) == 2


def test_an_explanation_names_the_rows(spark):
    """As in the process: worst rows, clashes, and the fewest rows to remove."""
    table = pa.table({"id": [1, 2, 3, 4, 5], "zip": ["a", "a", "a", "b", "b"], "city": ["x", "x", "y", "z", "z"]})
    frame = spark.createDataFrame(table).repartition(3)
    here, there = (hf.check(data, ["zip -> city"], key="id", on=on) for data, on in ((table, "auto"), (frame, "spark")))
    one, other = here.explain("zip -> city"), there.explain("zip -> city")
    assert (one.count, one.worst, one.causes) == (other.count, other.worst, other.causes)
    no_key = hf.check(frame, ["zip -> city"], on="spark")
    assert no_key.explain("zip -> city").count == 4


@pytest.mark.skipif(CONNECT, reason="this is that")
def test_the_same_through_spark_connect():
    """One smoke test; all of them run in `make test-long`."""
    chosen = ["tests/test_full_check.py", "-k", "several_tables", "-q", "-p", "no:cacheprovider"]
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
