"""Denial constraints and order dependencies: `python -m benchmarks.denial [part ...]`.

Parts: kernel fastadc adult airport orders words tall lean spark. CPU of one thread, on codes (reading and text output
excluded); the least of some runs, with kernels compiled before. FastADC runs in an environment of its own, in the same
run. The limits are those of the issue on denial constraints. Real tables come from HOLDFAST_DATA (../shared/data).
"""

from __future__ import annotations

import csv
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import peers
from benchmarks.measure import DATA, Rows, codes_of, least, machine, told
from holdfast.discovery.dc.evidence import Evidence
from holdfast.discovery.dc.table_dcs import TableDcs
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.executors.threads import ThreadExecutor
from holdfast.generate import tax
from holdfast.table.dictionary import Codes
from holdfast.table.kind import Kind
from holdfast.table.read import read, schema_of
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Column, Schema
from holdfast.warm import warm_discovery

TAX = ["first_name", "last_name", "area", "phone", "city", "state", "zip", "marital_status", "salary", "rate"]


def arrival(codes: Codes) -> RowChange:
    nobody = np.arange(0), codes[:, :0]
    return RowChange(*nobody, np.arange(codes.shape[1]), codes, *nobody)


def schema_from(path: Path) -> Schema:
    return schema_of(read(path))


def found(schema: Schema, change: RowChange, wanted: SearchOptions) -> TableDcs:
    rules = TableDcs(schema, wanted, ThreadExecutor(1))
    rules.update(change)
    return rules


def from_nothing(
    name: str, schema: Schema, codes: Codes, wanted: SearchOptions, limit: float | None, runs: int = 3
) -> None:
    made: list[TableDcs] = []
    seconds = least(lambda: made.append(found(schema, arrival(codes), wanted)), runs=runs)
    told(f"{name}: from nothing", seconds, limit, f"{len(made[-1].rules):,} rules, {made[-1].strategy}")


def kept(
    name: str, schema: Schema, codes: Codes, wanted: SearchOptions, limits: dict[int, tuple[float, float]]
) -> None:
    """Rules kept while so many rows come and go again."""
    for count, both in limits.items():
        base, come, go = Rows(codes).split(count)
        rules = found(schema, base, wanted)
        times = [float("inf")] * 2
        for _ in range(3):
            for i, change in enumerate((come, go)):
                times[i] = min(times[i], least(lambda rules=rules, change=change: rules.update(change), runs=1))
        for sign, seconds, limit in zip("+-", times, both, strict=True):
            told(f"{name}: kept, {sign}{count} rows", seconds, limit)


def kernel() -> None:
    """Pairs per second."""
    path = DATA / "uci" / "adult.csv"
    codes, space = codes_of(path), PredicateSpace.of(schema_from(path), "equal")
    pairs = codes.shape[1] * (codes.shape[1] - 1) / 2
    evidence = Evidence(space, ThreadExecutor(1))
    seconds = least(lambda: evidence.delta(arrival(codes)), runs=3)
    told(
        "adult (32k x 15): evidence of all pairs",
        seconds,
        pairs / 300e6,
        f"{pairs / seconds / 1e6:,.0f} M pairs a second",
    )


def fastadc() -> None:
    """The same tables by FastADC, in the same run."""
    path = DATA / "uci" / "adult.csv"
    schema, codes = schema_from(path), codes_of(path)
    wanted = SearchOptions(("dc",), max_size=None, cross_columns=False)
    for columns, rows in ((12, 2000), (13, 1000)):
        part, some = Schema(schema.columns[:columns]), np.ascontiguousarray(codes[:columns, :rows])
        made: list[TableDcs] = []
        seconds = least(lambda part=part, some=some, made=made: made.append(found(part, arrival(some), wanted)))
        limit, note = None, f"{len(made[-1].rules):,} DCs"
        if peers.available():
            with tempfile.TemporaryDirectory() as place:
                peer = peers.run(peers.FASTADC, str(_cut(path, columns, rows, Path(place))), seconds=300)
            if peer:
                theirs, count = peer.splitlines()[0].split()
                limit, note = float(theirs) / 20, f"{note}; FastADC {theirs} s, {count} DCs"
        told(f"adult {columns} x {rows}: from nothing", seconds, limit, note)


def _cut(path: Path, columns: int, rows: int, place: Path) -> Path:
    """The first columns and rows of a file, with a word for nulls, which FastADC refuses: a null of a text column is
    equal to another, and to nothing else, as a word is."""
    with path.open() as lines, (place / "part.csv").open("w", newline="") as out:
        writer = csv.writer(out)
        for number, line in enumerate(csv.reader(lines)):
            if number <= rows:
                writer.writerow([value or "none" for value in line[:columns]])
    return place / "part.csv"


def adult() -> None:
    path = DATA / "uci" / "adult.csv"
    schema, codes = schema_from(path), codes_of(path)
    every = SearchOptions(("dc",), max_size=None, cross_columns=False)
    from_nothing("adult (32k x 15), no limit", schema, codes, every, 6)
    from_nothing("adult (32k x 15), limits and cross columns", schema, codes, SearchOptions(("dc",)), 8)
    some = np.ascontiguousarray(codes[:, :20_000])
    kept("adult (20k x 15), no limit", schema, some, every, {20: (0.15, 0.1), 200: (0.8, 0.4)})


def airport() -> None:
    first, second = (read(DATA / "papers" / f"airport_{name}.csv").table for name in ("original", "incremental"))
    both = pa.concat_tables([first, second])
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "airport.csv"
        pa.csv.write_csv(both, path)
        schema, codes = schema_from(path), codes_of(path)
    rows, wanted = Rows(codes), SearchOptions(("dc",), max_size=None, cross_columns=False)
    nobody, base, more = np.arange(0), np.arange(len(first)), np.arange(len(first), codes.shape[1])
    rules = found(schema, rows.moved(nobody, base, nobody), wanted)
    seconds = least(lambda: rules.update(rows.moved(nobody, more, base)), runs=1)
    told("airport (30,000 x 11): +14,418 rows", seconds, 5, f"{len(rules.rules):,} rules, {rules.strategy}")


def orders() -> None:
    path = DATA / "uci" / "adult.csv"
    schema, codes = schema_from(path), codes_of(path)
    numeric = [i for i, column in enumerate(schema.columns) if column.kind.ordered]
    part, some = Schema(tuple(schema.columns[i] for i in numeric)), np.ascontiguousarray(codes[numeric])
    wanted = SearchOptions(("order",), max_size=None)
    from_nothing(f"adult (32k x {len(part)} numeric): PODs", part, some, wanted, 3)
    kept("adult: PODs", part, some, wanted, {200: (0.2, 0.2)})


def words() -> None:
    """Two words of comparisons."""
    rng = np.random.default_rng(0)
    codes = np.array([rng.integers(0, 10 ** rng.integers(1, 5), 5000) for _ in range(20)])
    schema = Schema(tuple(Column(f"c{i}", Kind.INTEGER) for i in range(20)))
    wanted = SearchOptions(("dc",), max_size=3, cross_columns=False)
    from_nothing("20 numeric columns x 5,000, at most 3", schema, codes, wanted, 30, runs=1)


def tall() -> None:
    (table,) = tax(1_000_000).tables.values()
    wanted = SearchOptions(("dc",), cross_columns=False, evidence="counted")
    _tall("tax (1M x 10), counted", table.select(TAX), wanted, (900, 2.5, 2.5))


def _tall(name: str, table: pa.Table, wanted: SearchOptions, limits: tuple[float, float, float]) -> None:
    schema, codes = schema_of(read(table)), codes_of(table)
    base, come, go = Rows(codes).split(1000)
    started = time.monotonic()
    made: list[TableDcs] = []
    seconds = least(lambda: made.append(found(schema, base, wanted)), runs=1)
    rules, wall = made[-1], time.monotonic() - started
    told(f"{name}: from nothing", seconds, limits[0], f"{len(rules.rules):,} rules, {rules.strategy}, {wall:.0f} s")
    times = [float("inf")] * 2
    for _ in range(3):
        for i, change in enumerate((come, go)):
            times[i] = min(times[i], least(lambda change=change: rules.update(change), runs=1))
    for what, taken, limit in zip(("+1000", "-1000"), times, limits[1:], strict=True):
        told(f"{name}: {what} rows", taken, limit)


def lean() -> None:
    """A table that is too tall for all pairs."""
    rows = int(os.environ.get("HOLDFAST_LEAN_ROWS", "5000000"))
    (table,) = tax(rows).tables.values()
    wanted = SearchOptions(("dc",), max_size=3, cross_columns=False, evidence="lean")
    _tall(f"tax ({rows // 1_000_000}M x 10), lean, at most 3", table.select(TAX), wanted, (900, 5, 10))
    print(f"  most memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


def spark() -> None:
    """On Spark, from a process of its own: tiles of evidence, and micro-batches with all kinds of rules kept."""
    subprocess.run([sys.executable, "-m", "benchmarks.spark", "evidence", "rules"], check=True)


PARTS = {
    "kernel": kernel,
    "fastadc": fastadc,
    "adult": adult,
    "airport": airport,
    "orders": orders,
    "words": words,
    "tall": tall,
    "lean": lean,
    "spark": spark,
}


def main() -> None:
    print(machine(), flush=True)
    warm_discovery()
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main()
