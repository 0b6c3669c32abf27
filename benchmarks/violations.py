"""Violations under inserts and deletes: `python -m benchmarks.violations [rows]`.

CPU of one thread, batches of 1,000 rows into the tax table (1M rows by default), for the index alone (encoded rows)
and end to end (Arrow in, outcome out, encoding and key map included). The same work as a SQL self-join for each batch
in DuckDB, and as a PostgreSQL trigger where PostgreSQL is installed, is timed in the same run. The limits are those of
the violations issue.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import duckdb
import numpy as np
import pyarrow as pa

import holdfast as hf
from benchmarks.measure import machine
from benchmarks.postgres import by_trigger
from holdfast.generate import tax
from holdfast.indexes.index import Index
from holdfast.indexes.plan import compile_rule, group_rules
from holdfast.table.dictionary import TextDictionary
from holdfast.table.encode import encode_table
from holdfast.table.read import read, schema_of
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Schema
from holdfast.violations.detect import CheckedRule, Detector
from tests.peers import INDEXES

BATCH, ROUNDS = 1000, 20
BY_SALARY = "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)"
RULES = {  # limits: microseconds for each row, index alone and end to end; bytes for each row; a batch of one row
    "key(area, phone)": (0.8, 2.0, 60, 6),
    "zip -> city": (1.2, 2.5, None, 6),
    "state, has_child -> child_exemption": (1.0, 2.5, None, 6),
    BY_SALARY: (3.0, 5.0, 90, 8),
}
TWENTY = [
    *RULES,
    "zip -> state",
    "area -> state",
    "state, marital_status -> single_exemption",
    "state, salary -> rate",
    "area, has_child -> child_exemption",
    "zip, has_child -> child_exemption",
    "area, salary -> rate",
    "zip, salary -> rate",
    "not(t.area = s.area and t.salary > s.salary and t.rate < s.rate)",
    "not(t.zip = s.zip and t.salary > s.salary and t.rate < s.rate)",
    "not(t.state = s.state and t.has_child = s.has_child and t.salary > s.salary and t.rate < s.rate)",
    "not(t.state = s.state and t.has_child != s.has_child and t.child_exemption = s.child_exemption)",
    "not(t.rate < 0)",
    "not(t.salary < t.child_exemption)",
    "not(t.has_child = 'N' and t.child_exemption > 0)",
    "not(t.marital_status = 'M' and t.single_exemption > 0)",
]
MANY, NONE = np.array([10**9]), np.array([-1])


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def shown(value: float, limit: float | None) -> str:
    return f"{value:7.2f}" + ("          " if limit is None else f" (<= {limit:4.1f})")


def index_for(text: str, schema: Schema, dictionary: TextDictionary, name: str = "box") -> Index:
    (group,) = group_rules([compile_rule(hf.parse(text), schema, "sql")], schema)
    return INDEXES[name](group, dictionary)


def shuffled(rows: int) -> tuple[pa.Table, Schema, TextDictionary, np.ndarray]:
    """The tax table in random order, and its codes."""
    table = tax(rows).tables["tax"]
    table = table.take(np.random.default_rng(0).permutation(rows))
    schema, dictionary = schema_of(read(table)), TextDictionary()
    return table, schema, dictionary, encode_table(schema, table, dictionary).codes


def timed(index: Index, codes: np.ndarray, rows: int) -> tuple[float, float, float]:
    """CPU microseconds for each row: inserted in batches, deleted in batches; seconds to load."""
    load = seconds(lambda: index.enter(np.arange(rows), np.ascontiguousarray(codes[:, :rows]), MANY))
    inserts, deletes = [], []
    rng = np.random.default_rng(1)
    for i in range(ROUNDS):
        ids = np.arange(rows + i * BATCH, rows + (i + 1) * BATCH)
        part = np.ascontiguousarray(codes[:, ids])
        inserts.append(seconds(lambda ids=ids, part=part: index.enter(ids, part, MANY)))
        gone = np.sort(rng.choice(np.arange(i * rows // ROUNDS, (i + 1) * rows // ROUNDS), BATCH, replace=False))
        part = np.ascontiguousarray(codes[:, gone])
        deletes.append(seconds(lambda gone=gone, part=part: index.leave(gone, part, MANY)))
    scale = 1e6 / BATCH
    return statistics.median(inserts) * scale, statistics.median(deletes) * scale, load


def median_of(work: Callable[[object], object], inputs: list) -> float:
    """Median microseconds of elapsed time for one input."""
    times = []
    for given in inputs:
        started = time.perf_counter()
        work(given)
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def single(index: Index, codes: np.ndarray, first: int) -> float:
    """Median microseconds for batches of one row, index only."""
    inputs = [(np.array([i]), np.ascontiguousarray(codes[:, [i]])) for i in range(first, first + 1000)]
    return median_of(lambda given: index.enter(*given, MANY), inputs)


def end_to_end(table: pa.Table, rules: list[str], rows: int) -> tuple[float, float, float]:
    """CPU microseconds for each row of a batch; elapsed for a batch of one row from Arrow, and from a tuple."""
    book = hf.Rulebook.create(None, table.slice(0, rows), key=["area", "phone"], rules=rules)
    book.count_violations(rules[0])
    parts = [hf.Change(inserts=table.slice(rows + i * BATCH, BATCH)) for i in range(ROUNDS)]
    batch = statistics.median(seconds(lambda part=part: book.apply(part)) for part in parts) * 1e6 / BATCH
    rest = table.slice(rows + ROUNDS * BATCH)
    arrow = median_of(book.apply, [hf.Change(inserts=rest.slice(i, 1)) for i in range(300)])
    tuples = [tuple(row.values()) for row in rest.slice(300, 300).to_pylist()]
    return batch, arrow, median_of(book.apply, [hf.Change(inserts=[row]) for row in tuples])


def by_sql(table: pa.Table, text: str, rows: int, schema: Schema) -> float:
    """The same by a self-join of the batch with everything, microseconds for each inserted row."""
    duck = duckdb.connect(config={"threads": 1})
    everything = table.slice(0, rows + BATCH).append_column("n", pa.array(range(rows + BATCH)))
    duck.register("arrow", everything)
    duck.execute("CREATE TABLE data AS SELECT * FROM arrow")
    query = hf.violations_sql(hf.parse(text), Schema((*schema.columns, hf.Schema.of(n="integer").columns[0])), key="n")
    query += f' AND ("t"."n" >= {rows} OR "s"."n" >= {rows})'
    return seconds(lambda: duck.execute(f"SELECT count(*) FROM ({query})").fetchall()) * 1e6 / BATCH


def tax_rules(rows: int) -> None:
    table, schema, dictionary, codes = shuffled(rows + (ROUNDS + 1) * BATCH)
    for text, (limit, whole_limit, bytes_limit, one_limit) in RULES.items():
        index = index_for(text, schema, dictionary)
        insert, delete, load = timed(index, codes, rows)
        memory, one = index.nbytes / rows, single(index, codes, rows + ROUNDS * BATCH)
        (whole, arrow, tuple_), sql = end_to_end(table, [text], rows), by_sql(table, text, rows, schema)
        trigger = by_trigger(table, hf.parse(text), schema, rows, BATCH if text != BY_SALARY else 100)
        print(text)
        most = 2.0 if limit < 3 else 2.5 * limit
        print(f"  index only, insert  {shown(insert, limit)} us/row   delete {shown(delete, most)} us/row")
        print(f"  end to end          {shown(whole, whole_limit)} us/row   load {load:.1f} s")
        ones = f"from Arrow {shown(arrow, 80)}, from a tuple {shown(tuple_, 40)}"
        print(f"  one row, index only {shown(one, one_limit)} us, {ones}")
        print(f"  memory of the index {shown(memory, bytes_limit)} bytes/row")
        print(f"  DuckDB self-join    {sql:9.1f} us/row, {sql / whole:,.0f}x the end-to-end time")
        if trigger is None:
            print("  PostgreSQL is not installed")
        else:
            print(f"  PostgreSQL trigger  {trigger:9.1f} us/row elapsed, {trigger / whole:,.0f}x")
    twenty_rules(table, schema, dictionary, codes, rows)


def twenty_rules(table: pa.Table, schema: Schema, dictionary: TextDictionary, codes: np.ndarray, rows: int) -> None:
    checked = [CheckedRule(hf.parse(text)) for text in TWENTY]
    detector = Detector(checked, {"data": schema}, dictionary)

    def enter(first: int, last: int) -> None:
        part = np.ascontiguousarray(codes[:, first:last])
        detector.apply({"data": RowChange.arrival(np.arange(first, last), part)})

    load = seconds(lambda: enter(0, rows))
    starts = range(rows, rows + ROUNDS * BATCH, BATCH)
    insert = statistics.median(seconds(lambda s=s: enter(s, s + BATCH)) for s in starts) * 1e6 / BATCH
    whole, _, _ = end_to_end(table, TWENTY, rows)
    print(f"{len(TWENTY)} mixed rules together, {sum(detector.counts):,} violations")
    print(
        f"  index only, insert  {shown(insert, 12)} us/row   end to end {shown(whole, 16)} us/row   load {load:.1f} s"
    )
    print(f"  memory of the index {detector.nbytes / rows:7.1f} bytes/row")


def two_inequalities(rows: int) -> None:
    rng = np.random.default_rng(2)
    total = rows + (ROUNDS + 2) * BATCH
    first = rng.integers(0, 100 * rows, total)
    second = 2 * first - np.where(rng.random(total) < 0.001, 200, 0)
    schema, rule = Schema.of(a="integer", b="integer"), "not(t.a > s.a and t.b < s.b)"
    index = index_for(rule, schema, TextDictionary())
    insert, delete, load = timed(index, np.array([first, second]), rows)
    one = single(index, np.array([first, second]), rows + ROUNDS * BATCH)
    table = pa.table({"a": first, "b": second, "id": np.arange(total)})
    book = hf.Rulebook.create(None, table.slice(0, rows), key="id", rules=[rule])
    parts = [hf.Change(inserts=table.slice(rows + i * BATCH, BATCH)) for i in range(ROUNDS)]
    whole = statistics.median(seconds(lambda part=part: book.apply(part)) for part in parts) * 1e6 / BATCH
    print("two inequalities without an equality, 0.1 % dirty")
    print(f"  index only, insert  {shown(insert, 6)} us/row   delete {shown(delete, 15)} us/row   load {load:.1f} s")
    print(f"  end to end          {shown(whole, 8)} us/row   one row, index only {shown(one, 8)} us")
    print(f"  memory of the index {shown(index.nbytes / rows, 90)} bytes/row; {index.counts[0]:,} violations")


def very_many(rows: int) -> None:
    """Emitting pairs, and counting them where there are too many."""
    schema, dictionary = Schema.of(a="integer", b="integer"), TextDictionary()
    codes = np.array([np.zeros(rows, np.int64), np.arange(rows) % 2])
    index = index_for("a -> b", schema, dictionary)
    index.enter(np.arange(rows), codes, NONE)
    few, part, pairs = np.arange(rows, rows + 20), np.array([np.zeros(20, np.int64), np.arange(20) % 2]), 20 * rows
    as_table = seconds(lambda: index.enter(few, part, MANY))
    streamed = seconds(lambda: sum(1 for _ in index._ask(few, part, 0, np.zeros(20, np.int64))))
    counting = seconds(lambda: index.enter(few + 20, part, NONE))
    print(f"one bucket of {rows:,} rows, half violating with half: {index.counts[0]:,} violations")
    print(
        f"  streamed            {streamed / (pairs / 2) * 1e9:7.1f} ns/pair (<= 3), kept {as_table / pairs * 1e9:.1f}"
    )
    print(f"  counting            {counting / 20 * 1e6:7.1f} us/row (<= 20)")
    points = np.random.default_rng(3).integers(0, 10**9, (2, rows + 100))
    index = index_for("not(t.a < s.a and t.b < s.b)", schema, dictionary)
    load = seconds(lambda: index.enter(np.arange(rows), np.ascontiguousarray(points[:, :rows]), NONE))
    index.enter(np.arange(rows, rows + 50), np.ascontiguousarray(points[:, rows : rows + 50]), NONE)
    last = np.ascontiguousarray(points[:, rows + 50 :])
    counting = seconds(lambda: index.enter(np.arange(rows + 50, rows + 100), last, NONE))
    print(f"two inequalities on {rows:,} random points: {index.counts[0]:,} violations, load {load:.1f} s")
    print(f"  counting            {counting / 50 * 1e6:7.1f} us/row, each asks twice (<= 20)")


def three_indexes(rows: int = 20_000) -> None:
    """The indexes of the papers beside the default one, on the rule with two inequalities."""
    _, schema, dictionary, codes = shuffled(rows + (ROUNDS + 1) * BATCH)
    print(f"{BY_SALARY}, {rows:,} rows")
    for name in INDEXES:
        index = index_for(BY_SALARY, schema, dictionary, name)
        insert, delete, load = timed(index, codes, rows)
        size = index.nbytes / rows
        print(
            f"  {name:10} insert {insert:8.1f} us/row, delete {delete:8.1f}; load {load:6.2f} s; {size:6.0f} bytes/row"
        )


def growth(small: int = 100_000, large: int = 10_000_000) -> None:
    """How the cost of a row grows with the table."""
    costs = {}
    for rows in (small, large):
        _, schema, dictionary, codes = shuffled(rows + (ROUNDS + 1) * BATCH)
        for text in RULES:
            costs[text, rows] = timed(index_for(text, schema, dictionary), codes, rows)[:2]
    print(f"cost of a row at {large:,} rows against {small:,} (<= 2.5)")
    for text in RULES:
        (insert, delete), (more, more_deletes) = costs[text, small], costs[text, large]
        ratios = f"insert {more / insert:4.1f}x ({insert:.2f} -> {more:.2f} us), delete {more_deletes / delete:4.1f}x"
        print(f"  {ratios}   {text}")


def a_billion(rows: int = 5_000_000) -> None:
    """A table with more violating pairs than memory could hold: loaded, changed and listed in part."""
    table = pa.table({"a": np.arange(rows) % (rows // 240), "b": np.arange(rows) % 7, "c": np.arange(rows)})
    started = time.process_time()
    book = hf.Rulebook.create(None, table, key="c", rules=["a -> b"])
    count = book.count_violations("a -> b")
    out = book.apply(hf.Change(inserts=table.slice(0, 1000).set_column(2, "c", pa.array(range(rows, rows + 1000)))))
    some = book.violations("a -> b", limit=1000)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{rows:,} rows with {count:,} violating pairs: {time.process_time() - started:.0f} s, peak {memory:.1f} GiB; "
        f"{out.violations.of('a -> b').count_added:,} came with 1,000 rows; {some.num_rows} listed"
    )


if __name__ == "__main__":
    if sys.argv[1:] in (["billion"], ["growth"]):
        {"billion": a_billion, "growth": growth}[sys.argv[1]]()
        sys.exit()
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print(machine())
    tax_rules(size)
    two_inequalities(size)
    very_many(200_000)
    three_indexes()
    for part in ("growth", "billion"):  # in processes of their own, for the memory
        subprocess.run([sys.executable, "-m", "benchmarks.violations", part], check=True)
