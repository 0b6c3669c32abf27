"""Whole tables on Spark: the same counts and lists as in the process, for every kind of rule, skewed or not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import holdfast as hf
from holdfast.generate import orders, tax
from holdfast.pipeline.whole import tiles as layout
from holdfast.pipeline.whole.check import check_on_spark
from holdfast.pipeline.whole.tiles import SLOTS, HashTiles

spark_test = pytest.mark.spark
RULES = [
    "key(a)",
    "a, w -> b",
    "not(t.a = s.b and t.c < s.d)",
    "not(t.b < s.b and t.c > s.c)",
    "not(t.a = s.a and t.b <= s.b and t.w != s.w)",
    "not(t.w = s.v and t.b != s.b)",
    "not(t.a = s.a and t.w = 'w1' and s.b > 2)",
    "not(t.b < 1)",
    "{c <} -> d <=",
    "not(t.f = s.a and t.b < s.b)",
    "not(t.a > 5 and s.b < 2)",
]


def random_table(rng, count: int) -> pa.Table:
    def some(values, share=0.1):
        return pa.array(values, mask=rng.random(count) < share)

    words = np.array(["w0", "w1", "w2", ""])
    return pa.table(
        {
            "id": pa.array(rng.permutation(count)),
            "a": some(rng.integers(0, 8, count)),
            "b": some(rng.integers(0, 4, count)),
            "c": some(rng.integers(0, 1000, count)),
            "d": some(rng.integers(0, 1000, count)),
            "f": some(rng.integers(0, 16, count) / 2),
            "w": some(words[rng.integers(0, 4, count)]),
            "v": some(words[rng.integers(0, 4, count)]),
        }
    )


def same(found, expected, rules) -> None:
    for i, rule in enumerate(rules):
        assert found.count(rule) == expected.count(rule), rule
        assert found.error(rule) == expected.error(rule)
        limit = 7 if i % 2 else None
        assert found.pairs(rule, limit).to_pylist() == expected.pairs(rule, limit).to_pylist(), (rule, limit)


@spark_test
@pytest.mark.parametrize(("seed", "nulls", "key"), [(0, "sql", None), (1, "equal", "id"), (2, "distinct", ("id", "w"))])
def test_spark_equals_the_process(spark, tmp_path, monkeypatch, seed, nulls, key):
    """Random tables; tiles so small that most key ranges are cut and blocks are many."""
    monkeypatch.setattr(layout, "ROWS_PER_TILE", 40)
    rng = np.random.default_rng(seed)
    table = random_table(rng, 90)
    if isinstance(key, tuple):
        table = table.set_column(6, "w", pa.array([f"w{i % 3}" for i in range(90)]))
    chosen = RULES[seed::3]
    expected = hf.check(table, chosen, nulls=nulls, key=key)
    frame = spark.createDataFrame(table).coalesce(1)
    with check_on_spark(frame, chosen, nulls=nulls, key=key, spark=spark, directory=tmp_path) as found:
        same(found, expected, chosen)
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


@spark_test
def test_several_tables_and_foreign_keys(spark, tmp_path):
    stream = orders(200, 3)
    tables = dict(stream.tables)
    tables["customers"] = tables["customers"].slice(3)
    expected = hf.check(tables, stream.rules, key=stream.keys)
    frames = {name: spark.createDataFrame(table).coalesce(1) for name, table in tables.items()}
    with check_on_spark(frames, stream.rules, key=stream.keys, spark=spark, directory=tmp_path) as found:
        same(found, expected, [rule for rule in stream.rules if expected.count(rule)])
        assert all(found.count(rule) == expected.count(rule) for rule in stream.rules)
        assert expected.count("orders.customer in customers.id") > 0


@spark_test
def test_a_key_that_half_the_rows_have_is_cut(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "ROWS_PER_TILE", 300)
    table = tax(2000, 0).tables["tax"]
    state = pa.array(["XX" if i % 2 else s for i, s in enumerate(table["state"].to_pylist())])
    table = table.set_column(table.column_names.index("state"), "state", state)
    rules = ["not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)", "state -> zip"]
    rules.append("not(t.state = s.state and t.salary <= s.salary)")  # a row would violate it with itself
    expected = hf.check(table, rules)
    with check_on_spark(spark.createDataFrame(table).coalesce(1), rules, spark=spark, directory=tmp_path) as found:
        assert [found.count(rule) for rule in rules] == [expected.count(rule) for rule in rules]
        assert expected.count(rules[0]) > 0


def test_ranges_of_keys_become_tiles_of_bounded_size():
    rows = np.ones(SLOTS, np.int64)
    rows[7] = 100_000
    tiles = HashTiles.of(rows, 2)
    assert tiles.chunks[7] > 1 and (np.delete(tiles.chunks, 7) == 1).all()
    sent: dict[int, set] = {}
    for role in (1, 2):
        row, tile = tiles.send(np.full(100, 7), np.arange(100), role)
        for r, place in zip(row.tolist(), tile.tolist(), strict=True):
            sent.setdefault(place, set()).add((role, r))
    meetings = [(t, s) for who in sent.values() for role, t in who if role == 1 for other, s in who if other == 2]
    assert len(meetings) == len(set(meetings)) == 100 * 100  # every pair meets once
    assert tiles.count > max(sent) >= 0


@spark_test
def test_names_that_spark_must_be_told_carefully(spark, tmp_path):
    table = pa.table({"a.b": [1, 1], "x`y": ["p", "q"], "two words": [1, 2]})
    rules = ["`a.b` -> `x``y`", "key(`two words`)"]
    with check_on_spark(spark.createDataFrame(table), rules, key="two words", spark=spark, directory=tmp_path) as found:
        assert [found.count(rule) for rule in rules] == [2, 0]
        assert found.pairs(rules[0]).to_pylist() == [{"t": 1, "s": 2}, {"t": 2, "s": 1}]


@spark_test
def test_values_without_a_code_are_refused(spark, tmp_path):
    table = pa.table({"a": pa.array([1, -(2**63)])})
    with pytest.raises(hf.ValueRefused, match="column 'a': -9223372036854775808 is the one"):
        check_on_spark(spark.createDataFrame(table), ["key(a)"], spark=spark, directory=tmp_path)
    assert not list(tmp_path.iterdir())
