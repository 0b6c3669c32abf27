"""CPU time, the machine it was measured on, and rows that come and go."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.table.encode import encode_table
from holdfast.table.read import read, schema_of
from holdfast.table.row_change import RowChange
from holdfast.warm import warm

DATA = Path(os.environ.get("HOLDFAST_DATA", "../shared/data"))
RUNS = 5


def cpu(work: Callable[[], object], repeat: int = 3) -> float:
    """The least CPU time of the process, in seconds, over some runs."""
    best = float("inf")
    for _ in range(repeat):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def machine() -> str:
    """`AMD EPYC 7B13, 2 cores, Python 3.11.7, 2026-11-15`."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}"


def codes_of(data: pa.Table | Path) -> Codes:
    source = read(data)
    return encode_table(schema_of(source), source.table, TextDictionary(), textual=source.textual).codes


def told(what: str, seconds: float, limit: float | None, note: str = "") -> None:
    """A line of the result: milliseconds, the limit, and whether it is kept."""
    kept = "" if limit is None else f"<= {1000 * limit:,.10g} ms  {'ok' if seconds <= limit else 'NOT MET'}"
    print(f"{what:<58} {1000 * seconds:>10,.2f} ms  {kept}  {note}".rstrip(), flush=True)


def run_parts(parts: Mapping[str, Callable[[], None]]) -> None:
    """Runs the parts of a benchmark that the command names, or all, with kernels compiled before."""
    print(machine())
    warm()
    for part in sys.argv[1:] or parts:
        parts[part]()


class Rows:
    """Rows of a table that come and go, as the maintainers are told of them."""

    def __init__(self, codes: Codes) -> None:
        self.codes, self.count = codes, codes.shape[1]

    def some(self, ids: np.ndarray) -> tuple[np.ndarray, Codes]:
        return ids, np.ascontiguousarray(self.codes[:, ids])

    def moved(self, gone: np.ndarray, new: np.ndarray, stay: np.ndarray) -> RowChange:
        return RowChange(*self.some(gone), *self.some(new), *self.some(stay))

    def split(self, last: int, seed: int = 0) -> tuple[RowChange, RowChange, RowChange]:
        """All but some random rows come; then these; then they go again."""
        order = np.random.default_rng(seed).permutation(self.count)
        some, most, nobody = np.sort(order[:last]), np.sort(order[last:]), np.arange(0)
        return self.moved(nobody, most, nobody), self.moved(nobody, some, most), self.moved(some, nobody, most)


def least(work: Callable[[], object], before: Callable[[], object] | None = None, runs: int = RUNS) -> float:
    """The least CPU time of some runs, each after what comes before it."""
    best = float("inf")
    for _ in range(runs):
        if before is not None:
            before()
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best
