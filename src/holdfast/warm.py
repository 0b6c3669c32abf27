"""Compiles every kernel into the cache, by using every part of the program once: `python -m holdfast.warm`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdfast.discovery.dc.table_dcs import TableDcs
from holdfast.discovery.fd.table_fds import TableFds
from holdfast.discovery.hitting_sets.minimal import hitting_sets_after, minimal_hitting_sets
from holdfast.discovery.ind.cells import Cells
from holdfast.discovery.ind.filed_generator import FiledGenerator
from holdfast.discovery.ind.generator import Generator
from holdfast.discovery.ind.runs import Runs
from holdfast.discovery.ind.spread_generator import SpreadGenerator
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.witness.sorted_search import COMPARED
from holdfast.executors.threads import ThreadExecutor
from holdfast.indexes.box_arrays import empty_box, renumbered
from holdfast.kernels.box_entries import fill
from holdfast.kernels.handle import Handle
from holdfast.rulebook import Rulebook
from holdfast.table.change import Change
from holdfast.table.dictionary import NULL
from holdfast.table.kind import Kind
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Column, Schema

RULES = ["key(a)", "a -> b", "not(t.n > s.n and t.m < s.m)", "not(t.a = s.b and t.n < s.m)", "data.n in data.m"]
NUMBERS = list(range(100, 400))  # enough for hash tables to grow
TEXTS = [str(i) for i in NUMBERS]


def warm() -> None:
    """Calls each kernel with the types that the program uses."""
    for text in (pa.string(), pa.large_string()):
        rows = pa.table({"a": pa.array(["x", None], text), "b": pa.array(["y", "z"], text), "n": [1, 2], "m": [2, 1]})
        for key in (None, "n"):
            book = Rulebook.create(None, rows, rules=RULES, key=key, kinds=("ind",))
            book.apply(Change(inserts=rows.slice(0, 1), deletes=rows.slice(0, 1)))
            book.apply(Change(deletes=rows))
            for rule in RULES:
                book.violations(rule)
            book.apply(Change(inserts=[("x", "y", 5, 6)]))
            book.apply(Change(inserts=pa.table({"a": TEXTS, "b": TEXTS, "n": NUMBERS, "m": NUMBERS})))
    warm_discovery()
    warm_inclusions()
    box = empty_box(1, 1)
    Handle(box).call(fill, np.array([[1], [2]]), np.zeros(1, np.int32), np.array([0]), np.array([1]), 0)
    renumbered(box, np.zeros(1, np.int32), 1)


def warm_discovery() -> None:
    """Updates the rules of a few rows with each strategy, under inserts and deletes."""
    rows = np.array([[1, 1, 2, NULL], [1, 2, 3, 1], [1, 1, 2, 2]])
    ids, no_rows = np.arange(4), (np.arange(0), rows[:, :0])
    for nulls in ("equal", "sql"):
        for max_error, error in ((0.0, None), (0.1, "g1"), (0.1, "g3")):
            options = SearchOptions(("key", "fd"), nulls, max_error=max_error, error=error)
            for most_pairs in (1e9, -1):
                table = TableFds(len(rows), options, most_pairs=most_pairs)
                table.update(RowChange(*no_rows, ids, rows, *no_rows))
                table.update(RowChange(ids[:1], rows[:, :1], ids[:1] + 4, rows[:, :1], ids[1:], rows[:, 1:]))
                table.update(RowChange(ids[1:2], rows[:, 1:2], *no_rows, ids[2:], rows[:, 2:]))

    many = np.arange(COMPARED + 3000)  # so many rows come that rows are sorted for them
    many_rows = np.stack([many, many // 2, many % 7])
    table = TableFds(len(many_rows), SearchOptions(("key", "fd")), most_pairs=-1)
    table.update(RowChange(*no_rows, many[:2900], many_rows[:, :2900], *no_rows))
    table.update(RowChange(*no_rows, many[2900:], many_rows[:, 2900:], many[:2900], many_rows[:, :2900]))

    static = TableFds(len(rows), SearchOptions(("key", "fd"), max_size=2), static=True)
    static.update(RowChange(*no_rows, ids, rows, *no_rows))

    for columns in (2, 12, 40):  # sets counted by index, and sets of one and of two words
        schema = Schema(tuple(Column(f"c{i}", Kind.INTEGER) for i in range(columns)))
        codes = np.repeat(rows[:2], columns // 2, axis=0)
        no_rows = np.arange(0), codes[:, :0]
        for kind in ("counted", "lean"):
            for max_error in (0.0, 0.1) if kind == "counted" else (0.0,):
                options = SearchOptions(
                    ("order", "dc"), max_size=1, max_error=max_error, cross_columns=[("c0", "c1")], evidence=kind
                )
                evidence = TableDcs(schema, options)
                evidence.update(RowChange(*no_rows, ids, codes, *no_rows))
                evidence.update(RowChange(ids[:1], codes[:, :1], *no_rows, ids[1:], codes[:, 1:]))
    edges = np.array([[0b011], [0b110]], np.uint64)
    hitting_sets_after(minimal_hitting_sets(edges, 3), edges[:1], edges[1:], edges[1:], 3)


def warm_inclusions() -> None:
    """Keeps the values of inclusions in memory, in files and in buckets."""
    cells = Cells.of(NUMBERS, 0 * np.array(NUMBERS), np.array(NUMBERS) % 2, 0 * np.array(NUMBERS) + 1)
    memory, runs = Generator(2), Runs()
    memory.load(cells)
    for part in memory.ranges():
        runs.merge(part.to_arrays())
    filed = FiledGenerator(runs, Generator(2))
    filed.change(cells)
    runs.merge(cells.summed().to_arrays())
    runs.refile([runs.to_arrays(), runs.to_arrays()])
    for part in runs.ranges(100):
        part.clusters(2)
    SpreadGenerator(ThreadExecutor(1), 2).change(cells)


if __name__ == "__main__":
    warm()
