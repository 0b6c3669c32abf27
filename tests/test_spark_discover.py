"""Discovery on Spark finds what discovery in the process finds, which follows the definition.

Samples are tiny here, so that most of what holds on them is refuted on Spark; and tasks are small, so that every way of
bringing rows together is taken.
"""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.spark import claim_tiles, claims, row_sample
from tests import laws, naive
from tests import strategies as hs
from tests.conftest import CASES
from tests.test_spark_book import in_spark

pytestmark = pytest.mark.spark
KINDS = ("key", "fd", "ind", "order", "dc")
FEW = settings(
    max_examples=CASES // 100 if CASES else 5,
    suppress_health_check=[*HealthCheck],
    deadline=None,
    derandomize=not CASES,
)


def on_spark(frames, sample: int, task: int, **options) -> hf.Profile:
    """Discovery with a sample of so many rows, and tasks of so many."""
    with (
        patch.object(row_sample, "MOST_ROWS", sample),
        patch.object(claims, "MOST_OF_VALUE", task),
        patch.object(claims, "ROWS_OF_TASK", task),
        patch.object(claim_tiles, "ROWS_OF_BLOCK", task),
    ):
        return hf.discover(frames, on="spark", time_budget=None, **options)


@given(
    table=hs.tables(least=1, most=3, rows=10),
    kinds=st.sampled_from([("key", "fd"), ("key", "fd"), ("order",), ("dc",), ("ind", "fd")]),
    nulls=st.sampled_from(hs.POLICIES),
    sizes=st.tuples(st.integers(1, 4), st.sampled_from([1, 3, 1000])),
    partitions=st.integers(1, 8),
)
@FEW
def test_spark_finds_what_the_process_finds(spark, table, kinds, nulls, sizes, partitions):
    schema, rows = table
    data = laws.to_table(schema, rows)
    options = {"kinds": kinds, "nulls": nulls, "max_size": 2}
    expected = hf.discover(data, **options)
    found = on_spark(in_spark(spark, data, partitions), *sizes, **options)
    assert found.texts() == expected.texts() and found.complete
    assert found.vacuous == expected.vacuous


def test_several_tables(spark):
    """Each has its own sample; inclusions are between them."""
    orders = pa.table({"id": range(40), "customer": [i % 7 for i in range(40)], "zip": [i % 7 // 2 for i in range(40)]})
    customers = pa.table({"id": range(9)})
    tables = {"orders": orders, "customers": customers}
    frames = {name: in_spark(spark, table, 3) for name, table in tables.items()}
    found = on_spark(frames, 3, 5, kinds=KINDS[:3])
    assert found.texts() == hf.discover(tables, kinds=KINDS[:3]).texts()
    assert "orders: customer -> zip" in found.texts() and "orders.customer in customers.id" in found.texts()
    assert found.best() and not len(found.row_rules) and not found.foreign_keys


def test_equal_rows_refute_a_key(spark):
    """The sample gets a row twice only if the table has it twice."""
    rows = pa.table({"a": [*range(20), 3], "b": [None, *range(1, 20), 3]})
    for nulls in hs.POLICIES:
        assert on_spark(in_spark(spark, rows, 4), 2, 4, kinds=("key",), nulls=nulls).texts() == []
        once = in_spark(spark, rows.slice(0, 20), 4)
        assert "key(a)" in on_spark(once, 2, 4, kinds=("key",), nulls=nulls).texts()
    assert naive.violations(hf.parse("key(a)"), rows.to_pylist(), "equal")


@given(
    table=hs.tables(least=1, most=3, rows=7),
    kind=st.sampled_from(["key", "fd", "order", "dc"]),
    nulls=st.sampled_from(hs.POLICIES),
    max_error=st.sampled_from([0.05, 0.2, 0.3]),
    error=st.sampled_from(["g1", "g3"]),
    sample=st.sampled_from([2, 3, 1000]),
    partitions=st.integers(1, 8),
)
@FEW
def test_rules_that_nearly_hold(spark, table, kind, nulls, max_error, error, sample, partitions):
    """Valid, minimal, with their exact errors; and all of them if the sample is the whole table."""
    schema, rows = table
    data = laws.to_table(schema, rows)
    options = {"nulls": nulls, "max_size": 2 if kind in ("key", "fd") else 1, "max_error": max_error, "error": error}
    found = on_spark(in_spark(spark, data, partitions), sample, 1000, kinds=(kind,), cross_columns=False, **options)
    expected = hf.discover(data, (kind,), cross_columns=False, **options)
    assert set(found.texts()) <= set(expected.texts())
    assert found.complete == (sample > 3 or len(rows) <= sample)
    if found.complete:
        assert found.texts() == expected.texts()
    else:
        assert any("sample" in limit for limit in found.limits)
    measure = naive.g3 if error == "g3" and kind in ("key", "fd") else naive.g1
    for rule, _, share, _ in (row for block in found.blocks for row in block.with_details()):
        assert share == measure(replace(rule, table=None), rows, nulls)


def test_exceptions_are_counted_on_all_rows(spark):
    """The sample does not see all exceptions, and sees others that all rows make up for."""
    rows = pa.table({"zip": [i % 50 for i in range(3000)], "city": [i % 50 // 5 + (i % 700 == 0) for i in range(3000)]})
    found = on_spark(in_spark(spark, rows, 4), 200, 500, kinds=("key", "fd"), max_error=0.01)
    (share,) = found.to_arrow().filter(pc.field("text") == "zip -> city").column("error").to_pylist()
    assert share == hf.discover(rows, ("fd",), max_error=0.01).to_arrow().column("error").to_pylist()[0] > 0
    assert not found.complete


def test_what_spark_does_not_find_is_refused(spark):
    frame = in_spark(spark, pa.table({"a": [1, 2]}), 2)
    with pytest.raises(hf.NotAvailable, match="by kind"):
        hf.discover(frame, on="spark", kinds=["ind"], compare="text")
    with pytest.raises(hf.HoldfastError, match="Spark DataFrames"):
        hf.discover(pa.table({"a": [1]}), on="spark")
