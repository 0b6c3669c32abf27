"""Discovery and upkeep of rules on Spark, beside the process on the same rows: `python -m benchmarks.tall spark`.

Tax of ten columns: keys, FDs, inclusions and denial constraints from nothing, then kept under batches that insert and
delete. CPU is that of this process, the JVM and its Python workers together. The driver has 2 GB.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

import holdfast as hf
from benchmarks.denial import TAX
from benchmarks.spark import DRIVER
from holdfast.generate import tax
from holdfast.spark.session import local_session

KINDS = ("key", "fd", "ind", "dc")
KEY = ("area", "phone")
_FILES = 16
_TICKS = os.sysconf("SC_CLK_TCK")
Answer = TypeVar("Answer")


def on_spark(rows: int = 10_000_000, changed: int = 100_000, *, beside_process: bool = True) -> None:
    """Prints what discovery and two batches cost. `changed`: rows that a batch inserts, and as many that it deletes."""
    meter = CpuMeter()
    with tempfile.TemporaryDirectory() as home:
        batches = _write(Path(home) / "tax", rows, changed)
        in_process = _in_process(meter, Path(home) / "tax", batches) if beside_process else 0.0
        spark = local_session("local[2]", DRIVER)
        frame = spark.read.parquet(f"{home}/tax")
        frame.selectExpr("max(xxhash64(*))").collect()
        scan, _ = _timed(meter, "one scan of all columns", lambda: frame.selectExpr("max(xxhash64(*))").collect())
        took, book = _timed(
            meter,
            f"first version on Spark, {rows:,} rows",
            lambda: hf.Rulebook.create(f"{home}/book", frame, kinds=KINDS, key=KEY, on="spark", time_budget=None),
        )
        ratio = f", {took / in_process:.1f}x the process (<= 10)" if in_process else ""
        print(f"  {len(book.found()):,} rules{ratio}", flush=True)
        for number, change in enumerate(batches):
            frames = hf.Change(*(spark.createDataFrame(side) for side in (change.inserts, change.deletes)))
            took, out = _timed(
                meter, f"batch {number + 1} of +-{changed:,} rows", lambda frames=frames: book.apply(frames)
            )
            gone, came = len(out.rules.removed), len(out.rules.added)
            print(f"  {took / scan:.1f} scans; {came:,} rules added, {gone:,} removed", flush=True)
        book.close()
        spark.stop()


def _write(place: Path, rows: int, changed: int) -> list[hf.Change]:
    """Writes the rows in some files; returns two batches of changes."""
    make = tax(rows).make
    place.mkdir()
    step = -(-rows // _FILES)
    for number, first in enumerate(range(0, rows, step)):
        part = _narrow(make(first, min(step, rows - first)))
        pq.write_table(part, place / f"{number:02}.parquet")
    inserts = [_narrow(make(rows + i * changed, changed)) for i in range(2)]
    deletes = [_narrow(make(rows // 3 * i, changed)).select(KEY) for i in range(2)]
    return [hf.Change(inserts=some, deletes=gone) for some, gone in zip(inserts, deletes, strict=True)]


def _narrow(table: pa.Table) -> pa.Table:
    return table.select(TAX)


def _in_process(meter: CpuMeter, place: Path, batches: list[hf.Change]) -> float:
    """The CPU of the first version in this process, on all rows."""
    table = pq.read_table(place)
    took, book = _timed(
        meter,
        "first version in the process",
        lambda: hf.Rulebook.create(None, table, kinds=KINDS, key=KEY, time_budget=None),
    )
    for number, change in enumerate(batches):
        _timed(meter, f"batch {number + 1} in the process", lambda change=change: book.apply(change))
    return took


class CpuMeter:
    """CPU seconds of this process and of all below it. It looks once a second, so that a process which ends is missed
    for a second at most: workers that outlive their parent are added up nowhere else."""

    def __init__(self) -> None:
        self._ticks: dict[tuple[int, int], int] = {}  # by process and its start
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.seconds()
            time.sleep(1)

    def seconds(self) -> float:
        parents: dict[int, int] = {}
        ticks: dict[int, tuple[int, int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            number = int(stat.parent.name)
            parents[number], ticks[number] = int(fields[1]), (int(fields[19]), int(fields[11]) + int(fields[12]))
        for number, (start, used) in ticks.items():
            if (number, start) in self._ticks or _is_below(number, parents):
                self._ticks[number, start] = used
        return sum(self._ticks.values()) / _TICKS


def _is_below(process: int, parents: dict[int, int]) -> bool:
    while process > 1 and process != os.getpid():
        process = parents.get(process, 0)
    return process == os.getpid()


def _timed(meter: CpuMeter, what: str, work: Callable[[], Answer]) -> tuple[float, Answer]:
    """Prints and returns CPU seconds of this process and those that it has started."""
    before, started = meter.seconds(), time.perf_counter()
    answer = work()
    cpu, seconds = meter.seconds() - before, time.perf_counter() - started
    print(f"{what:<50} {cpu:8.1f} s CPU  {seconds:8.1f} s elapsed", flush=True)
    return cpu, answer
