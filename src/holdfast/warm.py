"""Compiles every kernel once, into the cache: `python -m holdfast.warm`. Does a little of everything."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdfast.discovery.agree_tile import agree_counts
from holdfast.executors.threads import ThreadExecutor
from holdfast.indexes.box_arrays import empty_box, renumbered
from holdfast.kernels.box_entries import fill
from holdfast.kernels.compiled import is_cached
from holdfast.kernels.handle import Handle
from holdfast.rulebook import Rulebook
from holdfast.table.change import Change

RULES = ["key(a)", "a -> b", "not(t.n > s.n and t.m < s.m)", "not(t.a = s.b and t.n < s.m)", "data.n in data.m"]
NUMBERS = list(range(100, 400))  # enough for hash tables to grow
TEXTS = [str(i) for i in NUMBERS]


def warm() -> None:
    """Calls each kernel with the types that the program uses."""
    for text in (pa.string(), pa.large_string()):
        rows = pa.table({"a": pa.array(["x", None], text), "b": pa.array(["y", "z"], text), "n": [1, 2], "m": [2, 1]})
        for key in (None, "n"):
            book = Rulebook.create(None, rows, rules=RULES, key=key)
            book.apply(Change(inserts=rows.slice(0, 1), deletes=rows.slice(0, 1)))
            book.apply(Change(deletes=rows))
            for rule in RULES:
                book.violations(rule)
            book.apply(Change(inserts=[("x", "y", 5, 6)]))
            book.apply(Change(inserts=pa.table({"a": TEXTS, "b": TEXTS, "n": NUMBERS, "m": NUMBERS})))
    agree_counts(np.array([[1, 1, 2], [1, 2, 3]]), ThreadExecutor(1))
    box = empty_box(1, 1)
    Handle(box).call(fill, np.array([[1], [2]]), np.zeros(1, np.int32), np.array([0]), np.array([1]), 0)
    renumbered(box, np.zeros(1, np.int32), 1)


def is_warm() -> bool:
    """Whether the largest kernel is in the cache already."""
    return is_cached("box_batch.process")


if __name__ == "__main__":
    warm()
