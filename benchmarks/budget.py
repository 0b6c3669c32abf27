"""How long `holdfast discover` takes beside its time budget: `python -m benchmarks.budget [seconds ...]`.

Generated tables as people have them: an id, codes of few values and what follows from them, prices, dates, counts,
flags, free text, nulls; all kinds of rule. The command runs in a process of its own; the time is elapsed time from its
first to its last line, without its start-up, which is the time for a table of two rows. The limit is the budget, 10 %,
and 2 s. Beside it: what was searched completely in that time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from benchmarks.measure import machine

BUDGETS = (5.0, 20.0, 60.0)
SHAPES = {  # rows, columns
    "a": (4_191, 34),
    "b": (11_475, 32),
    "c": (2_955, 48),
    "wide": (500, 120),
    "mid": (60_000, 25),
    "tall": (300_000, 20),
}
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "jetty", "knoll", "mesa")
_MAKERS = ("code", "code", "label", "price", "date", "number", "text", "flag", "same", "part", "count")


class Mixed:
    """Columns of one table; those that follow from others take them from what is there."""

    def __init__(self, rows: int, columns: int, seed: int) -> None:
        self._random, self._rows = np.random.default_rng(seed), rows
        self._codes: list[tuple[np.ndarray, int]] = []
        self.columns: dict[str, pa.Array] = {"id": pa.array(np.arange(rows) + 1000)}
        while len(self.columns) < columns:
            kind = str(self._random.choice(_MAKERS))
            make: Callable[[], object] = getattr(self, f"_{kind}")
            values = make()
            share = float(self._random.choice([0, 0, 0.02, 0.3])) if kind not in ("label", "same") else 0.0
            missing = self._random.random(rows) < share
            self.columns[f"{kind}_{len(self.columns)}"] = pa.array(values, mask=missing)

    def table(self) -> pa.Table:
        return pa.table(self.columns)

    def _code(self) -> list[str]:
        count = int(self._random.choice([2, 5, 12, 60, 400]))
        skewed = self._random.random() < 0.5
        values = self._random.zipf(1.5, self._rows) % count if skewed else self._random.integers(0, count, self._rows)
        self._codes.append((values, count))
        return [f"{'ABCDEFGH'[count % 8]}{value:03d}" for value in values]

    def _known(self) -> tuple[np.ndarray, int]:
        if not self._codes:
            self._code()
        return self._codes[int(self._random.integers(len(self._codes)))]

    def _label(self) -> list[str]:
        values, _ = self._known()
        return [f"{_WORDS[value % len(_WORDS)]} {value // len(_WORDS)}" for value in values]

    def _part(self) -> np.ndarray:
        values, count = self._known()
        parts = max(2, count // 3)
        return np.asarray(values % parts if self._random.random() < 0.5 else values * parts // count)

    def _price(self) -> np.ndarray:
        return np.round(self._random.lognormal(4, 1, self._rows), 2)

    def _number(self) -> np.ndarray:
        return np.round(self._random.normal(0, 10, self._rows), int(self._random.integers(1, 5)))

    def _count(self) -> np.ndarray:
        return np.asarray(self._random.poisson(int(self._random.choice([1, 10, 80])), self._rows))

    def _date(self) -> np.ndarray:
        days = self._random.integers(0, int(self._random.choice([40, 800, 4000])), self._rows)
        return np.asarray((np.datetime64("2015-01-01") + days).astype("datetime64[D]"))

    def _flag(self) -> list[str]:
        share = float(self._random.choice([0.02, 0.3]))
        return ["yes" if yes else "no" for yes in self._random.random(self._rows) < share]

    def _same(self) -> list[str]:
        return ["EUR"] * self._rows

    def _text(self) -> list[str]:
        lengths, words = self._random.integers(2, 6, self._rows), np.array(_WORDS)
        return [" ".join(words[self._random.integers(0, len(words), length)]) for length in lengths]


def took(path: Path, seconds: float) -> tuple[float, dict[str, object]]:
    """Elapsed seconds of the command, and what it printed."""
    command = [sys.executable, "-m", "holdfast.cli.main", "discover", str(path), "--time-budget", f"{seconds:g}"]
    started = time.monotonic()
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=True)
    return time.monotonic() - started, json.loads(done.stdout)


def main(budgets: list[float]) -> None:
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as place:
        small = Path(place) / "small.csv"
        small.write_text("a,b\n1,x\n2,y\n")
        start = min(took(small, 60.0)[0] for _ in range(3))
        print(f"start-up, taken off: {start:.1f} s", flush=True)
        for seed, (name, (rows, columns)) in enumerate(SHAPES.items(), start=1):
            path = Path(place) / f"{name}.csv"
            pc.write_csv(Mixed(rows, columns, seed).table(), path)
            for seconds in budgets:
                elapsed, found = took(path, seconds)
                report(f"{name} ({rows:,} x {columns})", seconds, elapsed - start, found)


def report(name: str, budget: float, elapsed: float, found: dict[str, object]) -> None:
    """A line of the result."""
    kept = "ok" if elapsed <= 1.1 * budget + 2 else "NOT MET"
    searched = [str(some["kind"]) for some in found["searched"]]  # type: ignore[attr-defined]
    said = f"searched: {', '.join(searched) or 'nothing'}; found: {found['counts']}"
    print(f"{name:<22} budget {budget:>3g} s: {elapsed:>6.1f} s  {kept:<8} {said}", flush=True)


if __name__ == "__main__":
    main([float(text) for text in sys.argv[1:]] or [*BUDGETS])
