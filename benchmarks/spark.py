"""`python -m benchmarks.spark`: rules on Spark against plain Spark SQL, in the same run.

    python -m benchmarks.spark check          20 rules at once, each alone, and two inequality rules; 2M rows
    python -m benchmarks.spark batch 10000000 a batch of 10,000 rows, half of them updates by key, on this many rows
    python -m benchmarks.spark pairs 10000000 the same for one DC with an equality and one order rule
    python -m benchmarks.spark size 30000000  create, check, change and compact; memory of the driver, bytes of state
    python -m benchmarks.spark workers        the same check with one and with two workers of a standalone cluster

CPU is that of executors: task time of the JVM and of Python workers. The driver has 2 GB. All tables are generated.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import holdfast as hf
from benchmarks import spark_tables as tables
from benchmarks.measure import machine
from holdfast.spark.session import local_session

DRIVER = {"spark.driver.memory": "2g", "spark.driver.maxResultSize": "256m"}
EXECUTORS = {"spark.executor.memory": "2g", "spark.executor.cores": "1", "spark.sql.shuffle.partitions": "16"}
BATCH = 10_000


class Meter:
    """CPU of a Spark session's executors, bytes that they have shuffled, and elapsed time."""

    def __init__(self, spark: Any) -> None:
        self._spark, self._tasks, self._last, self.shuffled = spark, 0.0, -1, 0

    def cpu(self) -> float:
        """Seconds of tasks in the JVM, and of Python workers."""
        context = self._spark.sparkContext
        no_quantiles = context._gateway.new_array(context._jvm.double, 0)
        stages = context._jsc.sc().statusStore().stageList(None, False, False, no_quantiles, None)
        newest = self._last
        for i in range(stages.size()):
            stage = stages.apply(i)
            if stage.stageId() <= self._last:
                continue
            self._tasks += stage.executorCpuTime() / 1e9
            self.shuffled += stage.shuffleWriteBytes()
            newest = max(newest, stage.stageId())
        self._last = newest
        return self._tasks + _python_workers()

    def __call__(self, work: Callable[[], Any]) -> tuple[float, float, Any]:
        """CPU seconds, elapsed seconds, and the answer."""
        cpu, started = self.cpu(), time.perf_counter()
        answer = work()
        return self.cpu() - cpu, time.perf_counter() - started, answer


def _python_workers() -> float:
    """The CPU seconds of the processes `pyspark.daemon`, with the workers that they have ended."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if b"pyspark.daemon" in (stat.parent / "cmdline").read_bytes():
                ticks += sum(map(int, stat.read_text().rsplit(")", 1)[1].split()[11:15]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def session(home: Path, rows: int, master: str = "local[2]") -> Iterator[tuple[Any, dict[str, Any], Meter]]:
    """A session with the generated tables, as views too."""
    spark = local_session(master, DRIVER if master.startswith("local") else DRIVER | EXECUTORS)
    tables.write_tables(spark, str(home), rows)
    frames = tables.read_tables(spark, str(home))
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    yield spark, frames, Meter(spark)
    spark.stop()


def check(home: Path, rows: int = 2_000_000) -> None:
    """All rules at once against the sum of plain queries; then each alone."""
    with session(home, rows) as (spark, frames, meter):
        ratios, plain = [], {}
        for _ in range(2):  # the first run warms up
            plain = {r: meter(lambda r=r: spark.sql(tables.plain_query(r)).collect()[0][0]) for r in tables.GROUPED}
            ours, seconds, found = meter(lambda: hf.check(frames, tables.GROUPED, on="spark"))
            total = sum(cpu for cpu, _, _ in plain.values())
            ratios.append((ours / total, ours, total, seconds))
        assert all(found.count(rule) == (answer or 0) for rule, (_, _, answer) in plain.items())
        ratio, ours, total, seconds = ratios[-1]
        print(f"20 rules, {rows:,} rows: {ours:.1f} s CPU ({seconds:.1f} s), plain queries {total:.1f} s CPU")
        print(f"  ratio {ratio:.2f} (<= 0.6)", flush=True)
        for rule in (*tables.GROUPED, *tables.SEARCHED):
            _one_rule(spark, frames, meter, rule)


def _one_rule(spark: Any, frames: dict[str, Any], meter: Meter, rule: str) -> None:
    """The least of five runs each, alternating."""
    ours, plain = [], []
    for _ in range(5 if rule in tables.GROUPED else 1):
        ours.append(meter(lambda: hf.check(frames, [rule], on="spark").count(rule)))
        plain.append(meter(lambda: _limited(spark, tables.plain_query(rule), 60)))
    if plain[0][2] is None:
        print(f"  {ours[0][0]:7.2f} s   (plain SQL was stopped after 60 s)  {rule}", flush=True)
        return
    assert ours[0][2] == plain[0][2], (rule, ours[0][2], plain[0][2])
    mine, theirs = min(x[0] for x in ours), min(x[0] for x in plain)
    print(f"  {mine:7.2f} s {theirs:7.2f} s  {mine / theirs:5.2f}  {rule}", flush=True)


def _limited(spark: Any, query: str, seconds: float) -> int | None:
    """The answer of a query; None if it takes longer."""
    timer = threading.Timer(seconds, spark.interruptAll)
    timer.start()
    try:
        return spark.sql(query).collect()[0][0] or 0
    except Exception:
        return None
    finally:
        timer.cancel()


def batch(home: Path, rows: int, rules: list[str] | None = None) -> None:
    """Three batches: the first warms up."""
    chosen = rules or tables.KEPT
    with session(home, rows) as (spark, frames, meter):
        book = _made(home, frames, chosen, meter)
        for number in range(3):
            change = a_batch(spark, number, rows)
            shuffled = meter.shuffled
            cpu, seconds, out = meter(lambda change=change: book.apply(change))
            megabytes = (meter.shuffled - shuffled) / 1e6
            counts = [(out.violations.count_added(r), out.violations.count_removed(r)) for r in chosen]
            limit = "" if number == 0 else " (limit 18 s at 10M, 7 s at 1M; 40 s for one searched rule)"
            print(f"  batch {number}: {seconds:.1f} s, {cpu:.1f} s CPU, {megabytes:.1f} MB shuffled{limit}")
            print(f"    added and removed {counts}", flush=True)
        for name in book.tables:
            book.table(name).createOrReplaceTempView(name)
        for rule in set(chosen) & set(tables.GROUPED):  # plain SQL does not end for the others
            expected = int(spark.sql(tables.plain_query(rule)).collect()[0][0] or 0)
            assert book.count_violations(rule) == expected, (rule, book.count_violations(rule), expected)
            print(f"  {expected:,} violations after the batches, as plain SQL counts them: {rule}")


def _made(home: Path, frames: dict[str, Any], rules: list[str], meter: Meter) -> Any:
    chosen = {name: frames[name] for name in ("sales", "customers")}
    keys = {"sales": "id", "customers": "id"}
    cpu, seconds, book = meter(lambda: hf.Rulebook.create(home / "book", chosen, key=keys, rules=rules, on="spark"))
    print(f"{book.count('sales'):,} rows, {len(rules)} rules: made in {seconds:.0f} s, {cpu:.0f} s CPU", flush=True)
    for name in book.state():
        folder = home / "book" / "data" / name
        size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
        print(f"  state {name}: {size / 1e6:,.1f} MB, {size / max(1, book.count('sales')):.1f} bytes a row")
    return book


def a_batch(spark: Any, number: int, rows: int) -> hf.Change:
    """5,000 updates by key and 5,000 inserts."""
    half, customers = BATCH // 2, max(10, int(rows * tables.CUSTOMERS_PER_ROW))
    first = 1000 + number * half
    dirty = tables.DIRTY_IN_BATCHES
    updated = tables.sales(spark, first, half, customers, seed=number + 1, dirty=dirty)
    inserted = tables.sales(spark, rows + number * half, half, customers, dirty=dirty)
    return hf.Change(inserts=updated.union(inserted), deletes=spark.range(first, first + half), table="sales")


def pairs(home: Path, rows: int) -> None:
    for rule in tables.SEARCHED:
        with tempfile.TemporaryDirectory(dir=home) as place:
            batch(Path(place), rows, [rule])


def size(home: Path, rows: int) -> None:
    """The life of a large rulebook with a small driver, on a standalone cluster of two workers."""
    from tests.cluster import cluster

    with cluster(2) as running, session(home, rows, running.address) as (spark, frames, meter):
        cpu, seconds, found = meter(lambda: hf.check(frames, tables.KEPT, on="spark"))
        counts = [found.count(rule) for rule in tables.KEPT]
        print(f"{rows:,} rows checked in {seconds:.0f} s, {cpu:.0f} s CPU: {counts}", flush=True)
        book = _made(home, frames, tables.KEPT, meter)
        assert [book.count_violations(rule) for rule in tables.KEPT] == counts
        for number in range(3):
            change, shuffled = a_batch(spark, number, rows), meter.shuffled
            cpu, seconds, _ = meter(lambda change=change: book.apply(change))
            megabytes = (meter.shuffled - shuffled) / 1e6
            print(f"  batch {number}: {seconds:.1f} s, {cpu:.1f} s CPU, {megabytes:.1f} MB shuffled", flush=True)
        _, seconds, _ = meter(book.compact)
        print(f"  compacted in {seconds:.1f} s")
        jvm = spark.sparkContext._jvm
        jvm.System.gc()
        runtime = jvm.java.lang.Runtime.getRuntime()
        heap = (runtime.totalMemory() - runtime.freeMemory()) / 1e6
        print(f"  driver: heap after GC {heap:.0f} MB, Python {_resident():.0f} MB", flush=True)


def _resident() -> float:
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1000


def workers(home: Path) -> None:
    """Each cluster from a process of its own: a JVM has one context."""
    times = []
    for number in (1, 2):
        command = [sys.executable, "-m", "benchmarks.spark", "_cluster", str(number)]
        times.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]))
    print(f"standalone cluster, 20 rules on 2M rows: one worker {times[0]:.1f} s, two {times[1]:.1f} s")
    print(f"  {times[0] / times[1]:.2f}x")


def _on_cluster(home: Path, number: int) -> None:
    from tests.cluster import cluster, session_on

    with cluster(number) as running:
        spark = session_on(running.address)
        tables.write_tables(spark, str(home), 2_000_000)
        frames = tables.read_tables(spark, str(home))
        times = [_elapsed(lambda: hf.check(frames, tables.GROUPED, on="spark")) for _ in range(3)]
        spark.stop()
    print(min(times))


def _elapsed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    what, *numbers = sys.argv[1:] or ["all"]
    rows = int(numbers[0]) if numbers else 2_000_000
    if what != "_cluster":
        print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        if what == "_cluster":
            _on_cluster(home, rows)
        elif what == "all":
            for command in (["check"], ["batch", "1000000"], ["batch", "10000000"], ["pairs", "10000000"], ["workers"]):
                subprocess.run([sys.executable, "-m", "benchmarks.spark", *command], check=True)
        elif what == "workers":
            workers(home)
        else:
            {"check": check, "batch": batch, "pairs": pairs, "size": size}[what](home, rows)


if __name__ == "__main__":
    main()
