"""`python -m benchmarks.spark`: what Spark adds, and what it saves. Elapsed time, 2 cores; ratios within one run.

HOLDFAST_BENCH_ROWS (10,000,000) is the size of the table that is checked whole.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from holdfast.pipeline.whole.check import check_on_spark

from benchmarks.measure import machine
from holdfast.discovery.dc.evidence import Evidence
from holdfast.discovery.dc.predicate_space import PredicateSpace
from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.discovery.pair_sets import Tally
from holdfast.executors.spark import SparkExecutor
from holdfast.executors.threads import ThreadExecutor
from holdfast.generate.tax import MAX_ZIPS, RULES, STATES, _People
from holdfast.pipeline.config import Pipeline
from holdfast.pipeline.stream import make_book, watch
from holdfast.rulebook import Rulebook
from holdfast.rules.rule import KINDS
from holdfast.spark.session import local_session
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema
from tests.cluster import cluster, session_on

WHOLE = int(os.environ.get("HOLDFAST_BENCH_ROWS", "10000000"))
STREAMED = 1_000_000


def elapsed(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def write_tax(path: Path, rows: int) -> None:
    make = _People(0, min(MAX_ZIPS, max(1, rows // 1000) * STATES))
    writer = None
    for first in range(0, rows, 500_000):
        part = make(first, min(500_000, rows - first))
        writer = writer or pq.ParquetWriter(path, part.schema)
        writer.write_table(part)
    writer.close()


def codes_of(rows: int, columns: int = 15) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 50, (columns, rows))


def all_pairs(codes: np.ndarray, executor) -> Tally:
    return AgreeSets(len(codes), executor=executor, few_pairs=0).pairs(np.arange(codes.shape[1]), codes)


def all_evidence(codes: np.ndarray, executor) -> Tally:
    """Six of the columns have an order."""
    kinds = [Kind.INTEGER] * 6 + [Kind.TEXT] * (len(codes) - 6)
    space = PredicateSpace.of(Schema(tuple(Column(f"c{i}", kind) for i, kind in enumerate(kinds))), "equal")
    return Evidence(space, executor, few_pairs=0).pairs(np.arange(codes.shape[1]), codes)


def tiles(spark, home: Path, what: str = "pair", work=all_pairs) -> None:
    codes, threads, on_spark = codes_of(100_000), ThreadExecutor(2), SparkExecutor(spark, home)
    work(codes[:, :4000], on_spark)  # Python workers are there
    runs = [(elapsed(lambda: work(codes, threads)), elapsed(lambda: work(codes, on_spark))) for _ in "ab"]
    first, second = (min(times) for times in zip(*runs, strict=True))
    pairs = 100_000 * 99_999 / 2 / second / 1e9
    print(
        f"{what} tiles, 100,000 rows x 15 columns: threads {first:.1f} s, Spark {second:.1f} s ({pairs:.2f} G pairs/s)"
    )
    print(f"  ratio {second / first:.2f} (<= 1.35)", flush=True)


def micro_batches(spark, home: Path, place: str, limit: float, kinds: tuple[str, ...] = ()) -> None:
    """The median time from one version to the next, files of 1,000 rows."""
    write_tax(home / "tax.parquet", STREAMED)
    tables = {"tax": {"base": "tax.parquet", "key": ["area", "phone"]}}
    record = {"name": place, "book": place, "tables": tables, "rules": RULES, "executor": place, "kinds": list(kinds)}
    source = {"kind": "files", "path": f"landing-{place}", "files_per_batch": 1}
    pipeline = Pipeline.model_validate(record | {"source": source}).resolved(home)
    make_book(pipeline, spark)
    make = _People(0, MAX_ZIPS)
    (home / f"landing-{place}").mkdir()
    for i in range(8):
        rows = make(STREAMED + 1000 * i, 1000)
        rows = rows.add_column(0, "_change_type", pa.array(["insert"] * 1000))
        pq.write_table(rows, home / f"landing-{place}" / f"{i}.parquet")
        os.utime(home / f"landing-{place}" / f"{i}.parquet", (1_700_000_000 + i,) * 2)
    times: list[datetime] = []
    watch(pipeline, spark, lambda record, _: times.append(datetime.fromisoformat(record["time"])))
    steps = [(b - a).total_seconds() for a, b in pairwise(times[2:])]
    with Rulebook.open(pipeline.book) as book:
        assert book.count() == STREAMED + 8000
        found = f", {len(book.found()):,} found rules kept" if kinds else ""
    print(
        f"micro-batch of 1,000 rows on {STREAMED:,}, 5 rules{found}, {place}: {statistics.median(steps):.2f} s "
        f"(<= {limit})",
        flush=True,
    )


def self_join(rule: str) -> str:
    """The violating pairs of a tax rule, counted by a self-join."""
    conditions = {
        RULES[0]: "t.area = s.area and t.phone = s.phone and t.id <> s.id",
        RULES[1]: "t.zip = s.zip and t.city <> s.city",
        RULES[2]: "t.zip = s.zip and t.state <> s.state",
        RULES[3]: "t.state = s.state and t.has_child = s.has_child and t.child_exemption <> s.child_exemption",
        RULES[4]: "t.state = s.state and t.salary > s.salary and t.rate < s.rate",
    }
    return f"select count(*) from tax t join tax s on {conditions[rule]}"


def whole_table(spark, home: Path) -> None:
    write_tax(home / "whole.parquet", WHOLE)
    frame = spark.read.parquet(str(home / "whole.parquet"))
    started = time.perf_counter()
    with check_on_spark(frame, RULES, spark=spark, directory=home) as found:
        counts = [found.count(rule) for rule in RULES]
    ours = time.perf_counter() - started
    print(f"tax, {WHOLE:,} rows from Parquet, 5 rules, driver 2 GB: {ours:.0f} s, violations {counts}", flush=True)
    frame.selectExpr("*", "monotonically_increasing_id() as id").createOrReplaceTempView("tax")
    left, done, joined = 3 * ours, 0, 0.0
    for rule in RULES:
        seconds = timed_sql(spark, self_join(rule), left - joined)
        if seconds is None:
            print(
                f"  five self-joins in Spark SQL: stopped in rule {done + 1} of 5 after {3 * ours:.0f} s (more than 3x)"
            )
            return
        joined, done = joined + seconds, done + 1
    print(f"  five self-joins in Spark SQL: {joined:.0f} s, {joined / ours:.1f}x (>= 3)")


def timed_sql(spark, query: str, limit: float) -> float | None:
    """How long a query takes, or None where it was stopped."""
    timer = threading.Timer(max(limit, 0.1), spark.interruptAll)
    timer.start()
    try:
        return elapsed(lambda: spark.sql(query).collect())
    except Exception:
        return None
    finally:
        timer.cancel()


def on_clusters() -> None:
    """Each cluster from a process of its own: a JVM has one context."""
    times = []
    for workers in (1, 2):
        command = [sys.executable, "-m", "benchmarks.spark", "--cluster", str(workers)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        times.append(float(told.split()[-1]))
    print(f"standalone cluster, tiles of 100,000 rows x 15 columns: one worker {times[0]:.1f} s, two {times[1]:.1f} s")
    print(f"  throughput {times[0] / times[1]:.2f}x (>= 1.6)")


def on_cluster(workers: int) -> None:
    with cluster(workers) as (address, _), tempfile.TemporaryDirectory() as shared:
        spark = session_on(address)
        executor = SparkExecutor(spark, Path(shared), tasks=4 * workers)
        all_pairs(codes_of(4000), executor)
        codes = codes_of(100_000)
        print(min(elapsed(lambda: all_pairs(codes, executor)) for _ in range(2)))
        spark.stop()


def main() -> None:
    if sys.argv[1:2] == ["--cluster"]:
        on_cluster(int(sys.argv[2]))
        return
    print(machine(), flush=True)
    wanted = sys.argv[1:] or ["tiles", "batches", "whole", "cluster"]  # and `evidence`, `rules`: see benchmarks.denial
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        spark = local_session("local[2]", {"spark.driver.memory": "2g", "spark.driver.maxResultSize": "1g"})
        if "tiles" in wanted:
            tiles(spark, home)
        if "evidence" in wanted:
            tiles(spark, home, "evidence", all_evidence)
        if "rules" in wanted:
            micro_batches(spark, home, "process", 6.0, KINDS)
        if "batches" in wanted:
            micro_batches(spark, home, "process", 0.7)
            micro_batches(spark, home, "spark", 5.0)
        if "whole" in wanted:
            whole_table(spark, home)
        spark.stop()
    if "cluster" in wanted:
        on_clusters()


if __name__ == "__main__":
    main()
