"""Violations under inserts and deletes: `python -m benchmarks.violations [rows]`.

CPU of one thread, batches of 1,000 rows into the tax table (1M rows by default), for the index alone (encoded rows)
and end to end (Arrow in, outcome out, encoding and key map included). The same work as a SQL self-join for each batch
in DuckDB is timed in the same run. The limits are those of the violations issue.
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
from holdfast.generate import tax
from holdfast.indexes.box import BoxIndex
from holdfast.indexes.plan import compile_rule, group_rules
from holdfast.table.dictionary import TextDictionary
from holdfast.table.encode import encode_table
from holdfast.table.read import read, schema_of
from holdfast.table.schema import Schema

BATCH, ROUNDS = 1000, 10
RULES = {
    "key(area, phone)": (0.8, 2.0, 60),
    "zip -> city": (1.2, 2.5, None),
    "state, has_child -> child_exemption": (1.0, 2.5, None),
    "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)": (3.0, 5.0, 90),
}
MANY, NONE = np.array([10**9]), np.array([-1])


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def shown(value: float, limit: float | None) -> str:
    return f"{value:7.2f}" + ("          " if limit is None else f" (<= {limit:4.1f})")


def index_for(text: str, schema: Schema, words: TextDictionary) -> BoxIndex:
    (group,) = group_rules([compile_rule(hf.parse(text), schema, "sql")], schema)
    return BoxIndex(group, words)


def timed(index: BoxIndex, codes: np.ndarray, rows: int) -> tuple[float, float, float]:
    """CPU microseconds for each row: inserted in batches, deleted in batches; seconds to load."""
    load = seconds(lambda: index.enter(np.arange(rows), codes[:, :rows], MANY))
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


def single(index: BoxIndex, codes: np.ndarray, first: int) -> float:
    """Median microseconds for batches of one row, index only."""
    times = []
    for i in range(first, first + 300):
        part, ids = np.ascontiguousarray(codes[:, [i]]), np.array([i])
        started = time.perf_counter()
        index.enter(ids, part, MANY)
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def end_to_end(table: pa.Table, text: str, rows: int) -> float:
    book = hf.Rulebook.create(None, table.slice(0, rows), key=["area", "phone"], rules=[text])
    book.count_violations(text)
    parts = [hf.Change(inserts=table.slice(rows + i * BATCH, BATCH)) for i in range(ROUNDS)]
    return statistics.median(seconds(lambda part=part: book.apply(part)) for part in parts) * 1e6 / BATCH


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
    table = tax(rows + (ROUNDS + 1) * BATCH).tables["tax"]
    table = table.take(np.random.default_rng(0).permutation(table.num_rows))
    schema, words = schema_of(read(table)), TextDictionary()
    codes = encode_table(schema, table, words).codes
    for text, (limit, whole_limit, bytes_limit) in RULES.items():
        index = index_for(text, schema, words)
        insert, delete, load = timed(index, codes, rows)
        memory = index.nbytes / rows
        one = single(index, codes, rows + ROUNDS * BATCH)
        whole, sql = end_to_end(table, text, rows), by_sql(table, text, rows, schema)
        print(text)
        print(f"  index only, insert  {shown(insert, limit)} us/row   delete {shown(delete, 2.5 * limit)} us/row")
        print(f"  end to end          {shown(whole, whole_limit)} us/row   one-row batch, index only {one:.1f} us")
        print(f"  DuckDB self-join    {sql:7.1f} us/row, {sql / whole:,.0f}x the end-to-end time; load {load:.1f} s")
        print(f"  memory of the index {shown(memory, bytes_limit)} bytes/row")


def two_inequalities(rows: int) -> None:
    rng = np.random.default_rng(2)
    total = rows + (ROUNDS + 1) * BATCH
    first = rng.integers(0, 100 * rows, total)
    second = 2 * first - np.where(rng.random(total) < 0.001, 200, 0)
    schema = Schema.of(a="integer", b="integer")
    index = index_for("not(t.a > s.a and t.b < s.b)", schema, TextDictionary())
    insert, delete, load = timed(index, np.array([first, second]), rows)
    print("two inequalities without an equality, 0.1 % dirty")
    print(f"  index only, insert  {shown(insert, 6)} us/row   delete {shown(delete, 15)} us/row   load {load:.1f} s")
    print(f"  memory of the index {shown(index.nbytes / rows, None)} bytes/row; {index.counts[0]:,} violations")


def very_many(rows: int) -> None:
    """Emitting pairs, and counting them where there are too many."""
    schema, words = Schema.of(a="integer", b="integer"), TextDictionary()
    codes = np.array([np.zeros(rows, np.int64), np.arange(rows) % 2])
    index = index_for("a -> b", schema, words)
    index.enter(np.arange(rows), codes, NONE)
    few = np.arange(rows, rows + 20)
    part = np.array([np.zeros(20, np.int64), np.arange(20) % 2])
    pairs = int(20 * rows)
    as_table = seconds(lambda: index.enter(few, part, MANY))
    streamed = seconds(lambda: sum(1 for _ in index._ask(few, part, 0, np.zeros(20, np.int64))))
    counting = seconds(lambda: index.enter(few + 20, part, NONE))
    print(f"one bucket of {rows:,} rows, half violating with half: {index.counts[0]:,} violations")
    print(
        f"  streamed            {streamed / (pairs / 2) * 1e9:7.1f} ns/pair (<= 3), kept {as_table / pairs * 1e9:.1f}"
    )
    print(f"  counting            {counting / 20 * 1e6:7.1f} us/row (<= 20)")


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
    if sys.argv[1:] == ["billion"]:
        a_billion()
        sys.exit()
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print(machine())
    tax_rules(size)
    two_inequalities(size)
    very_many(200_000)
    subprocess.run([sys.executable, "-m", "benchmarks.violations", "billion"], check=True)
