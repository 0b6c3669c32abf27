"""Inclusion dependencies: `python -m benchmarks.inclusion [part ...]` (0.1 1 wide durable spark; all by default).

CPU of one thread on TPC-H (61 attributes; tpchgen-cli in the environment of the peers): everything from the Parquet
files, then changes of lineitem; a durable rulebook (elapsed time, published); buckets on Spark (elapsed time). The SQL
way, an anti-join for each pair of comparable columns in DuckDB (one thread), is timed on a sample of the pairs in the
same run. The limits are those of the inclusion issue.
"""

from __future__ import annotations

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

from benchmarks import peers
from benchmarks.agree import told
from benchmarks.measure import machine
from holdfast.discovery.ind.generator import Generator
from holdfast.discovery.ind.inclusions import Inclusions
from holdfast.rulebook import Rulebook
from holdfast.table.change import Change
from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.table.encode import encode_table
from holdfast.table.kind import Kind
from holdfast.table.read import read, schema_of
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Column, Schema
from holdfast.warm import warm

LIMITS = {"0.1": (2.0, None, None, None), "1": (25.0, 0.0003, 0.03, 1.2)}
RUNS = {"0.1": 3, "1": 2}  # the least counts: a third is the system's, for memory that is touched first, and varies
SAMPLED = 40


def generated(scale: str, home: Path) -> list[Path]:
    command = [str(peers.PYTHON.parent / "tpchgen-cli"), "parquet", "-s", scale, f"--output-dir={home}"]
    subprocess.run(command, check=True, capture_output=True)
    return sorted(home.glob("*.parquet"))


def by_name(files: list[Path]) -> dict[str, Path]:
    return {file.stem: file for file in files}


def loaded(files: list[Path]) -> tuple[Inclusions, dict[str, Codes], float]:
    """The inclusions of some files, and what finding them took, reading included."""
    read(min(files, key=lambda file: file.stat().st_size))  # what the first file needs is there
    started = time.process_time()
    dictionary, codes, schemas = TextDictionary(), {}, {}
    for file in files:
        source = read(file)
        schemas[file.stem] = schema_of(source)
        codes[file.stem] = encode_table(schemas[file.stem], source.table, dictionary).codes
    found = Inclusions(schemas, dictionary)
    found.load(codes)
    return found, codes, time.process_time() - started


def timed_change(
    found: Inclusions,
    table: str,
    codes: Codes,
    rows: int,
    runs: int = 5,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """The least time for some rows to go, to come again, and to be changed in three columns and back."""
    ids = np.arange(rows)
    some = np.ascontiguousarray(codes[:, :rows])
    other = some.copy()
    other[:3] = np.roll(some[:3], 1, axis=1) + (rows == 1)
    changes = {
        "deleted": RowChange(ids, some, ids[:0], some[:, :0]),
        "inserted": RowChange.arrival(ids, some),
        "updated": RowChange(ids, some, ids, other, updated=rows),
        "updated back": RowChange(ids, other, ids, some, updated=rows),
    }
    least = dict.fromkeys(changes, float("inf"))
    for _ in range(runs):
        for what, change in changes.items():
            started = clock()
            found.update({table: change})
            least[what] = min(least[what], clock() - started)
    return least


def by_sql(found: Inclusions, files: list[Path]) -> float:
    """What an anti-join for each pair of comparable columns takes, from a sample of the pairs."""
    pairs = np.argwhere(found.comparable)
    chosen = pairs[np.random.default_rng(0).permutation(len(pairs))[:SAMPLED]]
    with duckdb.connect(config={"threads": 1}) as engine:
        for file in files:
            engine.execute(f"create table {file.stem} as select * from '{file}'")
        started = time.process_time()
        for a, b in chosen.tolist():
            left, right = found.attributes[a], found.attributes[b]
            engine.execute(
                f"select count(distinct {left.column.name}) from {left.table} where {left.column.name} not in "
                f"(select {right.column.name} from {right.table} where {right.column.name} is not null)"
            ).fetchall()
        return (time.process_time() - started) * len(pairs) / len(chosen)


def tpch(scale: str) -> float:
    static, one, thousand, many = LIMITS[scale]
    with tempfile.TemporaryDirectory() as place:
        files = generated(scale, Path(place))
        others = [loaded(files)[2] for _ in range(RUNS[scale] - 1)]
        found, codes, seconds = loaded(files)
        seconds = min(seconds, *others)
        rows = sum(some.shape[1] for some in codes.values())
        pairs = int(found.distinct.sum())
        note = f"{rows:,} rows, {int(found.valid().sum())} INDs, {found.values.nbytes / pairs:.0f} bytes a pair (40)"
        told(f"TPC-H {scale}: from nothing", seconds, static, note)
        schemas = {name: Schema(tuple(a.column for a in found.attributes if a.table == name)) for name in codes}
        only = Inclusions(schemas, TextDictionary(), only_inserts=True)
        started = time.process_time()
        only.load(codes)
        note = f"{only.values.nbytes / pairs:.0f} bytes a pair"
        told(f"TPC-H {scale}: the generator alone, only inserts", time.process_time() - started, None, note)
        del only
        seconds = 0.0
        for rows, limit in ((1, one), (1000, thousand), (100_000, many)):
            for what, seconds in timed_change(found, "lineitem", codes["lineitem"], rows).items():
                told(f"TPC-H {scale}: {rows:,} lineitem rows {what}", seconds, limit)
                if rows == 1000 and what == "inserted":
                    kept = seconds
        if scale == "1":
            peer = by_sql(found, files)
            print(f"  by SQL, an anti-join for each pair: {peer:,.0f} s, {peer / kept:,.0f}x (>= 100x)")
    return kept


def wide() -> None:
    """20 tables of 20 attributes, a million values, a hundred thousand clusters."""
    rng = np.random.default_rng(0)
    tables = {f"t{i}": Schema(tuple(Column(f"c{j}", Kind.INTEGER) for j in range(20))) for i in range(20)}
    found, codes, common = Inclusions(tables, TextDictionary()), {}, 60_000
    for i, name in enumerate(tables):
        own = 1_000_000 + 60_000 * i + rng.integers(0, 60_000, (20, 20_000))
        shared = rng.integers(0, common, (20, 20_000))
        codes[name] = np.where(rng.random((20, 20_000)) < 0.1, shared, own)
    found.load(codes)
    generator = found.values
    assert isinstance(generator, Generator)
    clusters = int((generator.members > 0).sum())
    note = f"{generator.used:,} values, {clusters:,} clusters"
    times = timed_change(found, "t0", codes["t0"], 1000)
    told("400 attributes: 1,000 rows inserted", times["inserted"], 0.1, note)
    started = time.process_time()
    rules = found.ruleset(found.valid())
    told("400 attributes: listing all INDs", time.process_time() - started, 0.05, f"{len(rules):,}")


def durable(scale: str = "1") -> None:
    """One row of lineitem through a durable rulebook: published, so by the clock."""
    with tempfile.TemporaryDirectory() as place:
        files = by_name(generated(scale, Path(place) / "tpch"))
        started = time.perf_counter()
        book = Rulebook.create(
            Path(place) / "book", files, kinds=("ind",), key={"lineitem": ["l_orderkey", "l_linenumber"]}
        )
        print(f"  durable rulebook of TPC-H {scale}: made in {time.perf_counter() - started:.1f} s")
        one = read(files["lineitem"]).table.slice(1000, 1)
        place_of = one.schema.get_field_index("l_comment")
        other = one.set_column(place_of, one.schema.field(place_of), [pa.array(["x"], one.schema.field(place_of).type)])
        changes = {
            "deleted": Change(deletes=one, table="lineitem"),
            "inserted": Change(inserts=one, table="lineitem"),
            "updated": Change(updates=(one, other), table="lineitem"),
            "updated back": Change(updates=(other, one), table="lineitem"),
        }
        for state in ("", ", reopened"):
            if state:
                book.close()
                started = time.perf_counter()
                book = Rulebook.open(Path(place) / "book")
                opened = time.perf_counter() - started
                book.rules()
                print(f"  opened in {opened:.1f} s, its inclusions in {time.perf_counter() - started - opened:.2f} s")
            times: dict[str, list[float]] = {what: [] for what in changes}
            for _ in range(5):
                for what, change in changes.items():
                    started = time.perf_counter()
                    book.apply(change)
                    times[what].append(time.perf_counter() - started)
            for what, some in times.items():
                told(
                    f"TPC-H {scale}: one durable row {what}{state}",
                    statistics.median(some),
                    0.02,
                    f"first {1000 * some[0]:.0f} ms",
                )
        print(f"  {book.rules().how[-1]}")
        book.close()


def main() -> None:
    print(machine(), pa.__version__, flush=True)
    warm()
    if not peers.available():
        sys.exit("TPC-H cannot be generated here")
    chosen = sys.argv[1:] or ["0.1", "1", "wide", "durable"]
    times = {scale: tpch(scale) for scale in chosen if scale in LIMITS}
    if len(times) == 2:
        print(f"  1,000 rows at SF 1 against SF 0.1: {times['1'] / times['0.1']:.2f}x (<= 1.5x)")
    if "wide" in chosen:
        wide()
    if "durable" in chosen:
        durable()


if __name__ == "__main__":
    main()
