"""Base tables and batches of changes that break rules at known batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from holdfast.table.change import BATCH, CHANGE_TYPE, TABLE, Change


@dataclass(frozen=True)
class Break:
    """A rule that a batch breaks, the key of the row that breaks it, and the batch that repairs it."""

    batch: int
    rule: str
    table: str
    key: tuple[object, ...]
    repaired_in: int


@dataclass(frozen=True)
class GeneratedBatch:
    """An atomic batch, with the breaks that it plants and repairs."""

    number: int
    changes: list[Change]
    breaks: list[Break] = field(default_factory=list)
    repairs: list[Break] = field(default_factory=list)

    def feed(self) -> pa.Table:
        """The batch as a change table: `_change_type`, `_batch`, `_table` and the columns of all tables."""
        parts = [part for change in self.changes for part in _labelled(change, self.number)]
        return pa.concat_tables(parts, promote_options="default")


def _labelled(change: Change, batch: int) -> Iterator[pa.Table]:
    before, after = change.updates if change.updates is not None else (None, None)
    if before is not None and after is not None:
        both = pa.concat_tables([before, after])
        order = np.arange(2 * before.num_rows).reshape(2, -1).T.ravel()
        kinds = ["update_preimage", "update_postimage"] * before.num_rows
        yield _with_labels(both.take(order), kinds, batch, change.table)
    for rows, kind in ((change.deletes, "delete"), (change.inserts, "insert")):
        if rows is not None:
            yield _with_labels(rows, [kind] * rows.num_rows, batch, change.table)


def _with_labels(rows: pa.Table, kinds: list[str], batch: int, table: str | None) -> pa.Table:
    labels = {CHANGE_TYPE: kinds, BATCH: [batch] * len(kinds), TABLE: [table] * len(kinds)}
    types = {CHANGE_TYPE: pa.string(), BATCH: pa.int64(), TABLE: pa.string()}
    for name, values in reversed(labels.items()):
        rows = rows.add_column(0, name, pa.array(values, types[name]))
    return rows


class Maker(Protocol):
    """Makes rows of one table. The same number always gives the same row."""

    def __call__(self, first: int, count: int) -> pa.Table: ...


@dataclass(frozen=True)
class Spoiler:
    """Breaks a rule: turns a good row (a one-row table) into a bad one."""

    rule: str
    table: str
    spoil: Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class GeneratedStream:
    """Tables, the rules that hold on them, and batches of changes.

    Each batch changes the table `moving`: it inserts `size` rows, and deletes and updates a tenth as many. Every third
    batch breaks a rule, which is repaired two batches later.
    """

    tables: dict[str, pa.Table]
    keys: dict[str, tuple[str, ...]]
    rules: list[str]
    moving: str
    make: Maker
    touch: Callable[[pa.Table], pa.Table]
    spoilers: list[Spoiler]
    seed: int

    def batches(self, count: int, size: int = 1000) -> Iterator[GeneratedBatch]:
        """Yields `count` batches, numbered from 1. The same seed gives the same batches."""
        base = self.tables[self.moving]
        order = np.random.default_rng([self.seed, 1]).permutation(base.num_rows)
        changed = max(1, min(size // 10, base.num_rows // (3 * count + 1)))
        open_breaks: list[tuple[Break, pa.Table, pa.Table]] = []
        for number in range(1, count + 1):
            chosen = order[(number - 1) * 3 * changed : number * 3 * changed]
            planted = self._plant(number, base, chosen[2 * changed :]) if number % 3 == 0 else []
            repaired = [entry for entry in open_breaks if entry[0].repaired_in == number]
            open_breaks = [entry for entry in open_breaks if entry not in repaired] + planted
            deleted, updated = base.take(chosen[:changed]), base.take(chosen[changed : 2 * changed])
            yield GeneratedBatch(
                number,
                self._changes(number, size, deleted, updated, planted, repaired),
                [entry[0] for entry in planted],
                [entry[0] for entry in repaired],
            )

    def _plant(self, number: int, base: pa.Table, chosen: np.ndarray) -> list[tuple[Break, pa.Table, pa.Table]]:
        """A break with its good and bad row."""
        spoiler = self.spoilers[(number // 3 - 1) % len(self.spoilers)]
        good = base.take(chosen[:1]) if spoiler.table == self.moving else self.tables[spoiler.table].slice(number, 1)
        if not good.num_rows:
            return []
        key = tuple(good.column(name)[0].as_py() for name in self.keys[spoiler.table])
        return [(Break(number, spoiler.rule, spoiler.table, key, number + 2), good, spoiler.spoil(good))]

    def _changes(
        self, number: int, size: int, deleted: pa.Table, updated: pa.Table,
        planted: list[tuple[Break, pa.Table, pa.Table]], repaired: list[tuple[Break, pa.Table, pa.Table]],
    ) -> list[Change]:  # fmt: skip
        first = self.tables[self.moving].num_rows + (number - 1) * size
        updates = [(self.moving, updated, self.touch(updated))]
        updates += [(b.table, good, bad) for b, good, bad in planted] + [
            (b.table, bad, good) for b, good, bad in repaired
        ]
        changes = [Change(self.make(first, size), deleted.select(list(self.keys[self.moving])), table=self.moving)]
        return changes + [Change(updates=(before, after), table=table) for table, before, after in updates]
