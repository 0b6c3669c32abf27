"""The rules that a rulebook on Spark finds, and keeps, are those of the definition.

Samples, tasks and chunks of changes are tiny here, so that most of what holds on a sample is refuted on Spark, and
every way of bringing rows together is taken.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.rules.ruleset import RuleSet
from holdfast.spark import batch, claim_tiles, claims, found_rules, row_sample
from tests import laws, naive
from tests import strategies as hs
from tests.conftest import CASES
from tests.test_spark_book import as_frames, in_spark

pytestmark = pytest.mark.spark
ID = laws.ID
KINDS = [("key", "fd"), ("order",), ("dc",), ("key", "fd", "ind", "dc")]


@st.composite
def stories(draw: st.DrawFn):
    """A table under change, with or without a key."""
    schema, keyed = draw(hs.schemas(most=3)), draw(st.booleans())
    return laws.story(schema, draw(hs.rows_of(schema, 8)), draw(hs.histories(schema, 2)), keyed=keyed)


def tiny(sample: int, task: int, moves: int) -> ExitStack:
    stack = ExitStack()
    for module, name, value in (
        (row_sample, "MOST_ROWS", sample),
        (claims, "MOST_OF_VALUE", task),
        (claims, "ROWS_OF_TASK", task),
        (claim_tiles, "ROWS_OF_BLOCK", task),
        (found_rules, "MOVES_AT_ONCE", moves),
    ):
        stack.enter_context(patch.object(module, name, value))
    return stack


@given(
    told=stories(),
    kinds=st.sampled_from(KINDS),
    nulls=st.sampled_from(hs.POLICIES),
    sizes=st.tuples(st.integers(1, 5), st.sampled_from([1, 3, 1000]), st.sampled_from([2, 1000])),
    partitions=st.integers(1, 8),
    waiting=st.sampled_from([0, 12]),
)
@settings(
    max_examples=CASES // 100 if CASES else 3,
    suppress_health_check=[*HealthCheck],
    deadline=None,
    derandomize=not CASES,
)
def test_found_rules_follow_the_definition(spark, told, kinds, nulls, sizes, partitions, waiting):
    """Under inserts, updates and deletes, and after it was opened again."""
    options = {"kinds": kinds, "nulls": nulls, "max_size": 2, "cross_columns": False}
    with tempfile.TemporaryDirectory() as place, tiny(*sizes), patch.object(batch, "MOST_WAITING", waiting):
        frame = in_spark(spark, laws.to_table(told.schema, told.base), partitions)
        path = Path(place) / "book"
        book = hf.Rulebook.create(path, frame, key=told.key, on="spark", **options)
        known = rules_of(told.schema, told.base, options)
        assert book.found().texts() == known
        for number, (change, rows) in enumerate(zip(told.changes, told.states, strict=True)):
            out = book.apply(as_frames(spark, change, partitions))
            now = rules_of(told.schema, rows, options)
            assert book.found().texts() == now
            assert out.rules.added.texts() == sorted({*now} - {*known})
            assert out.rules.removed.texts() == sorted({*known} - {*now})
            known = now
            if number % 2:
                book.close()
                book = hf.Rulebook.open(path)
                assert book.found().texts() == now
        assert book.version == len(told.changes)
        changed = sum(r["rules_added"] + r["rules_removed"] for r in book.history().to_pylist())
        assert book.rule_history().num_rows == changed
        book.close()


def rules_of(schema, rows, options) -> list[str]:
    """The rules of some rows by the definition; inclusions as the process finds them."""
    nulls, most, names = options["nulls"], options["max_size"], schema.names
    by_kind = {
        "key": lambda: naive.keys(rows, names, nulls, most),
        "fd": lambda: naive.fds(rows, names, nulls, most),
        "ind": lambda: hf.discover(laws.to_table(schema, rows), ("ind",)),
        "order": lambda: naive.orders(rows, {c.name: c.kind.ordered for c in schema.columns}, nulls, most),
        "dc": lambda: naive.dcs(rows, [(c.name, c.name, c.kind.ordered) for c in schema.columns], nulls, most),
    }
    found = [rule for kind in options["kinds"] for rule in by_kind[kind]()]
    return sorted(RuleSet.from_rules(found, names).texts())


def test_history_names_the_rows_that_refuted_a_rule(spark, tmp_path):
    rows = pa.table({"id": range(50), "zip": [i % 10 for i in range(50)], "city": [i % 10 // 2 for i in range(50)]})
    with tiny(10, 20, 1000):
        book = hf.Rulebook.create(tmp_path / "book", in_spark(spark, rows, 3), key="id", kinds=["fd"], on="spark")
        assert "zip -> city" in book.found().texts()
        book.apply(hf.Change(inserts=pa.table({"id": [77], "zip": [4], "city": [9]})))
        (event,) = [r for r in book.rule_history().to_pylist() if r["rule"] == "zip -> city"]
        assert event["change"] == "removed" and {event["t"], event["s"]} & {"77"} and event["t"] != event["s"]
        assert "zip -> city" not in book.found().texts()
        book.apply(hf.Change(deletes=pa.table({"id": [77]})))
        assert "zip -> city" in book.found().texts()
    book.close()


def test_texts_of_a_batch_do_not_stay_with_the_driver(spark, tmp_path):
    """A rulebook of any height has megabytes in the driver: the sample, and not what passes by."""
    rows = pa.table({"id": range(40), "name": [f"n{i}" for i in range(40)]})
    with tiny(5, 20, 7):
        book = hf.Rulebook.create(tmp_path / "book", in_spark(spark, rows, 3), key="id", kinds=["key"], on="spark")
        before = len(book._state.dictionary), len(book._state.rows["data"])
        book.apply(hf.Change(deletes=rows.slice(0, 30).select(["id"])))
        book.apply(hf.Change(inserts=pa.table({"id": range(100, 130), "name": [f"m{i}" for i in range(30)]})))
        assert len(book._state.dictionary) <= before[0] + 5
        assert len(book._state.rows["data"]) <= before[1] + 5
        assert book.found().texts() == ["key(id)", "key(name)"]
    book.close()


def test_an_interrupted_batch_leaves_rules_and_sample_as_they_were(spark, tmp_path):
    rows = pa.table({"id": range(30), "a": [i % 6 for i in range(30)], "b": [i % 3 for i in range(30)]})
    with tiny(6, 10, 1000):
        book = hf.Rulebook.create(tmp_path / "book", in_spark(spark, rows, 2), key="id", kinds=["fd"], on="spark")
        known = book.found().texts()
        change = hf.Change(inserts=pa.table({"id": [90], "a": [4], "b": [0]}))
        with patch.object(book._store, "publish", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            book.apply(change)
        assert book.found().texts() == known and "a -> b" in known
        book.apply(change)
        assert "a -> b" not in book.found().texts() and book.version == 1
    book.close()


def test_what_is_not_kept_is_refused(spark, tmp_path):
    frame = in_spark(spark, pa.table({"id": [1, 2]}), 1)
    with pytest.raises(hf.NotAvailable, match="that hold exactly"):
        hf.Rulebook.create(tmp_path / "book", frame, key="id", kinds=["fd"], max_error=0.1, on="spark")
