"""`python -m benchmarks.web`: how long pages take against a rulebook with 100,000 rules and 10 million violations.

The server is the command itself; times are those of a client on this machine, of the first call and of later ones. The
baseline opens the same rulebook and lists all violations of the rule, as a page without an index would have to.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow as pa

import holdfast as hf
from benchmarks.measure import machine

RULE = "many: key(a)"
ROWS, VALUES = 100_000, 1_000  # 100 rows of each value: 9.9 million ordered pairs
COLUMNS, SAMPLED = 34, 60


def make(place: Path) -> None:
    """A narrow table with millions of violations, and a wide one with 100,000 rules."""
    rng = np.random.default_rng(0)
    many = pa.table({"id": np.arange(ROWS), "a": np.arange(ROWS) % VALUES, "b": rng.integers(0, 50, ROWS)})
    wide = pa.table({f"c{i:02}": rng.integers(0, 5, SAMPLED) for i in range(COLUMNS)})
    with hf.Rulebook.create(
        place, {"many": many, "wide": wide}, key={"many": "id"}, rules=[RULE, "many: b -> a"], kinds=("fd",), max_size=4
    ) as book:
        print(f"{len(book.found()):,} rules found, {book.count_violations(RULE):,} violations of {RULE}")


def ask(address: str) -> tuple[float, int]:
    started = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        size = len(answer.read())
    return time.perf_counter() - started, size


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "book"
        make(place)
        command = [sys.executable, "-m", "holdfast.cli.main", "serve", str(place), "--port", "0"]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"(http://\S+)\?token", process.stdout.readline())
            assert found is not None
            print(f"ready after {time.perf_counter() - started:.1f} s")
            rule = hf.parse(RULE).id
            pages = {
                "overview": "", "rules": "rules", "rules, page 1,000": "rules?page=1000", "search": "rules?search=c07",
                "filter by column": "rules?column=c07&kind=fd", "rule": f"rules/{rule}", "rule, page 500,000":
                f"rules/{rule}?page=500000", "violations (API)": f"api/rules/{rule}/violations?page=1000&size=100",
                "row": "tables/many/rows/5000", "history": "history",
            }  # fmt: skip
            for what, path in pages.items():
                times = [ask(found[1] + path) for _ in range(6)]
                first, later = times[0][0], min(t for t, _ in times[1:])
                print(f"{what:<22} first {1000 * first:7.0f} ms   later {1000 * later:6.0f} ms   {times[0][1]:,} bytes")
        finally:
            process.terminate()
            process.wait()
        started = time.perf_counter()
        with hf.Rulebook.open(place) as book:
            count = len(book.violations(RULE))
        print(f"baseline: open and list all {count:,} {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
