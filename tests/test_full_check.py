"""Whole tables on Spark: the same counts and lists as in the process, for every kind of rule, skewed or not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import holdfast as hf
from holdfast.generate import orders, tax
from holdfast.spark import pair_tiles, tiles
from holdfast.spark.tiles import SLOTS, HashTiles

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
    """Equal counts, errors and pairs. Spark names rows of tables without a key by ids of its own."""
    for i, rule in enumerate(rules):
        assert found.count(rule) == expected.count(rule), rule
        assert found.error(rule) == expected.error(rule)
        if expected.book.tables[expected.book._engine.detector().table_of(i)].key:
            assert in_any_order(found.pairs(rule)) == in_any_order(expected.pairs(rule)), rule
            assert found.pairs(rule, 7).num_rows == expected.pairs(rule, 7).num_rows
        else:
            assert found.violations(rule).count() == expected.count(rule)


def in_any_order(pairs: pa.Table) -> list[str]:
    return sorted(map(repr, pairs.to_pylist()))


def frame_of(spark, table: pa.Table, partitions: int):
    return spark.createDataFrame(table).repartition(partitions)


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles so small that most key ranges are cut and blocks are many."""
    for module in (tiles, pair_tiles):
        monkeypatch.setattr(module, "ROWS_PER_TILE", 64)


@spark_test
@pytest.mark.parametrize(
    ("seed", "nulls", "key", "partitions"),
    [
        pytest.param(0, "sql", None, 3, marks=pytest.mark.long),
        (1, "equal", "id", 1),
        (2, "distinct", ("id", "w"), 8),
    ],
)
@pytest.mark.usefixtures("small_tiles")
def test_spark_equals_the_process(spark, seed, nulls, key, partitions):
    rng = np.random.default_rng(seed)
    table = random_table(rng, 90)
    if isinstance(key, tuple):
        table = table.set_column(6, "w", pa.array([f"w{i % 3}" for i in range(90)]))
    chosen = RULES[seed % 2 :: 2]
    expected = hf.check(table, chosen, nulls=nulls, key=key)
    found = hf.check(frame_of(spark, table, partitions), chosen, nulls=nulls, key=key, on="spark")
    same(found, expected, chosen)


@spark_test
def test_several_tables_and_foreign_keys(spark):
    stream = orders(200, 3)
    tables = dict(stream.tables)
    tables["customers"] = tables["customers"].slice(3)
    expected = hf.check(tables, stream.rules, key=stream.keys)
    frames = {name: frame_of(spark, table, 2) for name, table in tables.items()}
    found = hf.check(frames, stream.rules, key=stream.keys, on="spark")
    same(found, expected, stream.rules)
    assert expected.count("orders.customer in customers.id") > 0


@spark_test
def test_a_key_that_half_the_rows_have_is_cut(spark, monkeypatch):
    monkeypatch.setattr(tiles, "ROWS_PER_TILE", 300)
    table = tax(2000, 0).tables["tax"]
    state = pa.array(["XX" if i % 2 else s for i, s in enumerate(table["state"].to_pylist())])
    table = table.set_column(table.column_names.index("state"), "state", state)
    rules = ["not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)", "state -> zip"]
    rules.append("not(t.state = s.state and t.salary <= s.salary)")  # a row would violate it with itself
    expected = hf.check(table, rules)
    found = hf.check(frame_of(spark, table, 4), rules, on="spark")
    assert [found.count(rule) for rule in rules] == [expected.count(rule) for rule in rules]
    assert expected.count(rules[0]) > 0


def test_ranges_of_keys_become_tiles_of_bounded_size():
    rows = dict.fromkeys(range(SLOTS), 1) | {7: 100_000}
    laid = HashTiles.of(rows, 2)
    assert laid.is_split and laid.chunks[7] > 1 and {*laid.chunks[:7], *laid.chunks[8:]} == {1}
    own = set(range(laid.first[7], laid.first[7] + laid.chunks[7] ** 2))
    assert max(own) < laid.count and not own & {*laid.first[:7], *laid.first[8:]}


@spark_test
def test_names_that_spark_must_be_told_carefully(spark):
    table = pa.table({"a.b": [1, 1], "x`y": ["p", "q"], "two words": [1, 2], "TWO words": [1, 2]})
    rules = ["`a.b` -> `x``y`", "key(`two words`)", "not(t.`TWO words` < s.`TWO words` and t.`a.b` = s.`a.b`)"]
    found = hf.check(spark.createDataFrame(table), rules, key="two words", on="spark")
    assert [found.count(rule) for rule in rules] == [2, 0, 1]
    assert found.pairs(rules[0]).to_pylist() == [{"t": 1, "s": 2}, {"t": 2, "s": 1}]


@spark_test
def test_values_without_a_code(spark):
    """Groups need no codes; a search of pairs does, and says which value has none."""
    frame = spark.createDataFrame(pa.table({"a": pa.array([1, -(2**63)])}))
    assert hf.check(frame, ["key(a)"], on="spark").ok
    with pytest.raises(Exception, match="column 'a': -9223372036854775808 is the one"):
        hf.check(frame, ["not(t.a < s.a)"], on="spark")
