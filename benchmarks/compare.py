"""`python -m benchmarks.compare OLD`: two versions of the source on the same work, alternating, least CPU time of five.

OLD is the directory `src` of another checkout. The work goes through names that both versions have. Each version runs
in a process of its own, which stays for all runs; the first run of each piece of work is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RUNS = 5
NEW = Path(__file__).resolve().parent.parent / "src"


def work() -> dict[str, Callable[[], object]]:
    """The pieces of work, by name. Data is made once."""
    import holdfast as hf
    from holdfast.generate import orders, tax

    large, small, tiny = tax(100_000), tax(5_000), tax(1_500)
    (name,) = large.tables
    shop = orders(30_000)
    rules = [f"{name}: {text}" for text in ("zip -> city", "zip -> state", "key(area, phone)")]
    by_salary = f"{name}: not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)"

    def kept(path: str | None, kinds: tuple[str, ...], checked: list[str], batches: int, size: int) -> int:
        with hf.Rulebook.create(path, small.tables, key=small.keys, kinds=kinds, rules=checked) as book:
            for batch in tax(5_000).batches(batches, size):
                book.apply(batch.changes)
            return book.version

    def durable() -> int:
        with tempfile.TemporaryDirectory() as home:
            version = kept(f"{home}/book", ("key", "fd"), rules, 20, 50)
            return version + hf.Rulebook.open(f"{home}/book").count()

    return {
        "check four rules on 100,000 rows": lambda: hf.check(large.tables, [*rules, by_salary]).count(by_salary),
        "keys and FDs of 5,000 rows": lambda: hf.discover(small.tables, ("key", "fd")),
        "keys and FDs of 100,000 rows": lambda: hf.discover(large.tables, ("key", "fd"), max_size=2),
        "FDs with exceptions of 1,500 rows": lambda: hf.discover(tiny.tables, ("fd",), max_error=0.01, max_size=3),
        "orders and DCs of 1,500 rows": lambda: hf.discover(tiny.tables, ("order", "dc"), max_size=2),
        "DCs with exceptions of 1,500 rows": lambda: hf.discover(tiny.tables, ("dc",), max_error=0.01, max_size=2),
        "inclusions of 30,000 orders": lambda: hf.discover(shop.tables, ("ind",)),
        "20 batches, keys and FDs kept": lambda: kept(None, ("key", "fd"), [], 20, 50),
        "10 batches, orders and DCs kept": lambda: kept(None, ("order",), [], 10, 20),
        "200 batches of one row, four rules": lambda: kept(None, (), [*rules, by_salary], 200, 10),
        "20 batches, durable, then opened": durable,
    }


def serve() -> None:
    """A version: reads names of work, writes CPU seconds."""
    pieces = work()
    print("\n".join(pieces), end="\n\n", flush=True)
    for line in sys.stdin:
        started = time.process_time()
        pieces[line.strip()]()
        print(time.process_time() - started, flush=True)


def version(source: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
    environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def seconds(running: subprocess.Popen[str], name: str) -> float:
    assert running.stdin is not None
    assert running.stdout is not None
    print(name, file=running.stdin, flush=True)
    return float(running.stdout.readline())


def _first_lines(running: subprocess.Popen[str]) -> list[str]:
    """What a version can do: its lines up to an empty one."""
    assert running.stdout is not None
    lines = []
    while line := running.stdout.readline().strip():
        lines.append(line)
    return lines


def main(old: Path) -> None:
    versions = [version(source.resolve()) for source in (old, NEW)]
    names = [_first_lines(running) for running in versions][-1]
    print(f"{'CPU seconds, least of ' + str(RUNS):40} {'old':>8} {'new':>8}  new / old")
    for name in names:
        for running in versions:
            seconds(running, name)
        times = [[seconds(running, name) for running in versions] for _ in range(RUNS)]
        before, after = (min(column) for column in zip(*times, strict=True))
        print(f"{name:40} {before:8.3f} {after:8.3f}  {after / before:5.2f}", flush=True)
    for running in versions:
        running.terminate()


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main(Path(sys.argv[1]))
