"""From start to first answer, on tables of any shape: `python -m benchmarks.first_second [part ...]`.

Parts: start check wide keys fds near inds plain row screen. CPU time; a command's is that of its whole process. In the
same run, DuckDB and Desbordante 2.5 (HyFD, HPIValid, Pyro, Spider; C++, one thread, in an environment of their own).
The limits are those of the issue on the first second. Real tables come from HOLDFAST_DATA (../shared/data); shapes that
are not there are generated. `start` fails if a command imports a library that it does not need.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import holdfast as hf
from benchmarks import peers
from benchmarks.inclusion import generated, loaded
from benchmarks.measure import DATA, codes_of, least, run_parts, told
from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.table_fds import TableFds
from holdfast.discovery.search_options import SearchOptions
from holdfast.executors.threads import ThreadExecutor
from holdfast.finding import discover
from holdfast.generate import tax
from holdfast.rules.plain import plain_minimal
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Schema

UNNEEDED = ("pandas", "pyspark", "altair", "fastapi", "uvicorn", "apprise", "duckdb", "polars")
_COMMAND = "import sys; from holdfast.cli.main import run; sys.argv = ['holdfast', *sys.argv[1:]]; run()"
_AT_THE_END = """import atexit, sys
def tell():
    with open({!r}, "w") as place:
        print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0], *sys.modules, file=place)
atexit.register(tell)
"""


def command(*arguments: str, code: str = _COMMAND, runs: int = 3) -> float:
    """CPU seconds of a process of its own, the least of some."""
    best = float("inf")
    for _ in range(runs):
        program = [sys.executable, "-c", code, *arguments]
        process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(process.pid, 0)
        best = min(best, usage.ru_utime + usage.ru_stime)
    return best


def memory_and_modules(*arguments: str, code: str = _COMMAND) -> tuple[float, set[str]]:
    """The most memory that a process took, in MB, and the modules that it imported."""
    with tempfile.NamedTemporaryFile("r") as place:
        command(*arguments, code=_AT_THE_END.format(place.name) + code, runs=1)
        memory, *modules = place.read().split()
        return int(memory) / 1024, {*modules}


def at_most(what: str, measured: float, limit: float, unit: str, note: str = "") -> None:
    verdict = "ok" if measured <= limit else "NOT MET"
    print(f"{what:<58} {measured:>10,.2f} {unit}  <= {limit:g}  {verdict}  {note}".rstrip(), flush=True)


def start() -> None:
    """Commands on small tables, and what they import."""
    base, cpu = (command(code=f"import {names}", runs=5) for names in ("numpy, pyarrow", "holdfast"))
    at_most("import holdfast, beside import numpy, pyarrow", cpu / base, 1.6, "x", f"{1000 * base:.0f} ms")
    floor, _ = memory_and_modules(code="import holdfast")
    first, _ = memory_and_modules(code="import holdfast; holdfast.check([{'a': 1}], ['key(a)'])")
    at_most("memory after import", floor, 80, "MB", f"{first:.0f} MB after a check of one row")
    told("holdfast --version", command("--version"), 0.2)
    iris, adult = str(DATA / "uci" / "iris.csv"), str(DATA / "uci" / "adult.csv")
    check = ("check", iris, "--rule", "species -> sepal_length")
    told("holdfast check of iris, one FD", command(*check), 0.6)
    told("holdfast discover iris", command("discover", iris), None)
    told("holdfast discover adult", command("discover", adult), 2.0)
    for arguments in (("--version",), check, ("discover", iris)):
        _, modules = memory_and_modules(*arguments)
        unneeded = sorted(modules.intersection(UNNEEDED))
        print(f"  holdfast {arguments[0]}: {len(modules)} modules, {', '.join(unneeded) or 'none'} unneeded")
        if unneeded or not modules:
            sys.exit(f"holdfast {arguments[0]} imports what it does not need")


DUCK = """
import sys, duckdb
duck = duckdb.connect(config={"threads": 1})
print(duck.execute(sys.argv[1]).fetchall())
"""
FD_SQL = """SELECT sum(n * n - m) FROM (SELECT sum(c) n, sum(c * c) m FROM
(SELECT {left}, {right}, count(*) c FROM {table} GROUP BY ALL) GROUP BY {left})"""
KEY_SQL = "SELECT sum(c * (c - 1)) FROM (SELECT count(*) c FROM {table} GROUP BY {columns})"


def check(rows: int = 1_000_000) -> None:
    """One FD and one key of a million rows, beside DuckDB on the same file."""
    table = tax(rows).tables["tax"]
    with tempfile.TemporaryDirectory() as home:
        csv, parquet = f"{home}/tax.csv", f"{home}/tax.parquet"
        pa.csv.write_csv(table, csv)
        pq.write_table(table, parquet)
        for rule, sql in (
            ("zip -> city", FD_SQL.format(left="zip", right="city", table="'{}'")),
            ("key(area, phone)", KEY_SQL.format(columns="area, phone", table="'{}'")),
        ):
            peer = command(sql.format(csv), code=DUCK)
            ours = command("check", csv, "--rule", rule)
            at_most(f"{rows:,} rows of CSV, {rule}", ours / peer, 2.0, "x DuckDB", f"{ours:.2f} s, {peer:.2f} s")
            duck = duckdb.connect(config={"threads": 1})
            peer = least(lambda duck=duck, sql=sql: duck.execute(sql.format(parquet)).fetchall(), runs=3)
            ours = least(lambda rule=rule: hf.check(parquet, [rule]), runs=3)
            note = f"{1000 * ours:.0f} ms, {1000 * peer:.0f} ms"
            at_most(f"{rows:,} rows of Parquet, warm, {rule}", ours / peer, 1.0, "x DuckDB", note)
        rules = ["zip -> city", "key(area, phone)", "zip -> state"]
        code = f"import holdfast as hf, sys; hf.check({parquet!r}, {rules!r})"
        peak, _ = memory_and_modules(code=code)
        size = table.nbytes / 2**20
        at_most(f"memory of a check, {rows:,} x {table.num_columns}", peak / size, 3.0, "x Arrow", f"{peak:.0f} MB")


def random_columns(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Codes of columns as wide tables have them: few values or many, with copies and columns that follow."""
    rng, made = np.random.default_rng(seed), list[np.ndarray]()
    while len(made) < columns:
        count = int(rng.choice([2, 3, 8, 40, 200, rows]))
        values = rng.integers(0, count, rows)
        made += [values, values % 7, values // 3][: int(rng.integers(1, 4))]
    return np.array(made[:columns], np.int64)


def searched(
    codes: np.ndarray,
    kinds: tuple[str, ...],
    most: int | None,
    budget: float | None = None,
    wanted: SearchOptions | None = None,
) -> TableFds:
    """Keys and FDs of rows that never change, as `discover` does it."""
    wanted = wanted or SearchOptions(kinds, max_size=most)
    rules = TableFds(len(codes), wanted, ThreadExecutor(1), most_pairs=2e7, static=True)
    nobody = np.arange(0), codes[:, :0]
    change = RowChange(*nobody, np.arange(codes.shape[1]), codes, *nobody)
    rules.update(change, Budget(budget, divided=True))
    return rules


def wide() -> None:
    """Keys and FDs of wide tables by size."""
    for rows, columns, limits in ((1615, 98, {1: 3.0, 2: 3.0}), (452, 280, {1: 0.5, 2: 20.0})):
        codes = random_columns(rows, columns)
        for most, limit in limits.items():
            seconds = least(lambda codes=codes, most=most: searched(codes, ("key", "fd"), most), runs=1)
            told(f"{rows:,} x {columns}: keys and FDs, max_size={most}", seconds, limit)
        found = searched(codes, ("key", "fd"), None, 20)
        print(f"  no limit, 20 s: complete up to {found.complete_up_to or 'the end'}")


def letters() -> np.ndarray:
    """20,000 rows of 17 columns of small numbers, as the table of letters."""
    rng = np.random.default_rng(1)
    return np.array([rng.integers(0, 26, 20_000), *rng.normal(7, 2.3, (16, 20_000)).clip(0, 15)], np.int64)


def _beside_peer(code: str, kind: str, tables: dict[str, Path | np.ndarray], limit: float) -> None:
    if not peers.available():
        return
    with tempfile.TemporaryDirectory() as home:
        for name, source in tables.items():
            codes = codes_of(source) if isinstance(source, Path) else source
            path = source if isinstance(source, Path) else Path(home) / f"{name}.csv"
            if not isinstance(source, Path):
                pa.csv.write_csv(pa.table({f"c{i}": column for i, column in enumerate(source)}), path)
            ours = least(lambda codes=codes: searched(codes, (kind,), None), runs=3)
            answers = [peers.run(code, str(path)) for _ in range(3)]
            times = [float(text.split()[0]) for text in answers if text]
            if not times:
                print(f"{name}: {1000 * ours:.1f} ms; the peer did not end in time")
                continue
            note = f"{1000 * ours:.1f} ms, {1000 * min(times):.1f} ms"
            at_most(f"all {kind}s of {name}, no size limit", ours / min(times), limit, "x", note)


def keys() -> None:
    """Keys beside HPIValid."""
    tables = {"adult": DATA / "uci" / "adult.csv", "letter (generated)": letters()}
    tables["flight"] = DATA / "papers" / "flight_1k_109c_encoded.csv"
    _beside_peer(peers.HPIVALID, "key", tables, 3.0)


def fds() -> None:
    """FDs beside HyFD."""
    rng = np.random.default_rng(2)
    person = rng.integers(0, 1000, 1000)
    voters = [np.arange(1000), person, person % 300, *(rng.integers(0, k, 1000) for k in (2, 3, 5, 40, 90, 200, 12))]
    tables = {name: DATA / "uci" / f"{name}.csv" for name in ("abalone", "chess_krk", "adult")}
    _beside_peer(peers.HYFD, "fd", {**tables, "voters (generated, 1,000 x 10)": np.array(voters)}, 1.0)


def near() -> None:
    """FDs with up to three columns on the left that 1 % of the pairs of rows violate, beside Pyro."""
    wanted = SearchOptions(("fd",), max_size=3, max_error=0.01, error="g1")
    for name in ("adult", "abalone") if peers.available() else ():
        path = DATA / "uci" / f"{name}.csv"
        codes = codes_of(path)
        ours = least(lambda codes=codes: searched(codes, ("fd",), 3, wanted=wanted), runs=2)
        count = len(searched(codes, ("fd",), 3, wanted=wanted).collapsed().expanded())
        seconds, theirs = str(peers.run(peers.PYRO, str(path))).split()
        note = f"{1000 * ours:.0f} ms, {1000 * float(seconds):.0f} ms; {count} FDs, {theirs} of Pyro"
        at_most(f"FDs that nearly hold (g1 0.01) of {name}", ours / float(seconds), 1.0, "x", note)


def inds() -> None:
    """Unary inclusions of TPC-H at scale 0.1 from Parquet, beside Spider from CSV."""
    if not peers.available():
        return
    with tempfile.TemporaryDirectory() as home:
        files = generated("0.1", Path(home))
        ours = min(loaded(files)[2] for _ in range(3))
        texts = []
        for file in files:
            table = pq.read_table(file)
            plain = [pa.string() if "string" in str(field.type) else field.type for field in table.schema]
            pa.csv.write_csv(
                table.cast(pa.schema(zip(table.column_names, plain, strict=True))), file.with_suffix(".csv")
            )
            texts.append(str(file.with_suffix(".csv")))
        peer = float(str(peers.run(peers.SPIDER, *texts)).split()[0])
        at_most("unary inclusions of TPC-H 0.1", ours / peer, 1.0, "x Spider", f"{ours:.2f} s, {peer:.2f} s")


def plain() -> None:
    """Constraints as the papers list them; evidence of rows that never change."""
    adult = pa.csv.read_csv(DATA / "uci" / "adult.csv")
    narrow = adult.slice(0, 2000).select(adult.column_names[:12])
    rules = discover(narrow, ("dc",), cross_columns=False, max_size=None, time_budget=None)
    schema: Schema = rules.data.schemas["data"]
    told(f"as in the papers, from {len(rules):,} DCs", least(lambda: plain_minimal(rules, schema), runs=1), 1.0)
    for evidence, limit in (("auto", 1.8), ("counted", None), ("lean", None)):

        def work(evidence: str = evidence) -> None:
            discover(adult, ("dc",), evidence=evidence, time_budget=None)

        told(f"adult, DCs with the default limits, evidence={evidence}", least(work, runs=1), limit)


def row(rows: int = 1_000_000) -> None:
    """A row, and a batch of a thousand, through a rulebook in memory."""
    table = tax(rows + 20_000).tables["tax"]
    table = table.take(np.random.default_rng(0).permutation(rows + 20_000))
    inequality = "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)"
    for rule, limit in (("key(area, phone)", 1.2), (inequality, 2.5)):
        book = hf.Rulebook.create(None, table.slice(0, rows), key=["area", "phone"], rules=[rule])
        book.count_violations(rule)
        batches = [hf.Change(inserts=table.slice(rows + 1000 * i, 1000)) for i in range(8)]
        each = statistics.median(_seconds(lambda b=b, book=book: book.apply(b)) for b in batches)  # type: ignore[misc]
        at_most(f"batches of 1,000 rows, {rule[:22]}", each * 1e3, limit, "us a row")
        rest = table.slice(rows + 8000)
        arrow = _median(book, [hf.Change(inserts=rest.slice(i, 1)) for i in range(500)])
        tuples = [tuple(record.values()) for record in rest.slice(500, 500).to_pylist()]
        at_most(f"one row from Arrow, {rule[:22]}", arrow, 25, "us")
        at_most(f"one row from a tuple, {rule[:22]}", _median(book, [hf.Change(inserts=[t]) for t in tuples]), 15, "us")
    print(
        "  Weever, published (Java, one row of a million): a key 2.4 us, an FD 5.5 us, two inequalities 400 us and more"
    )


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _median(book: hf.Rulebook, changes: list[hf.Change]) -> float:
    """Median CPU microseconds of a change."""
    return statistics.median(_seconds(lambda change=change: book.apply(change)) for change in changes) * 1e6


def screen() -> None:
    """The first screen of each real table: the whole command, and when its first lines of rules come."""
    for path in sorted(DATA.glob("*/*.csv")):
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, "discover", str(path)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        first = process.stdout.readline()
        seconds = time.perf_counter() - started
        process.stdout.read()
        _, _, usage = os.wait4(process.pid, 0)
        note = f"{usage.ru_utime + usage.ru_stime:.1f} s CPU for the whole; {first.strip()[:40]}"
        told(f"discover {path.parent.name}/{path.name}: first line, elapsed", seconds, 2.0, note)


PARTS = {
    "start": start, "check": check, "wide": wide, "keys": keys, "fds": fds, "near": near, "inds": inds,
    "plain": plain, "row": row, "screen": screen,
}  # fmt: skip


def main() -> None:
    run_parts(PARTS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  the benchmark itself took {peak:.1f} GiB at most")


if __name__ == "__main__":
    main()
