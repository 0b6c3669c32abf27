"""What a user says changed: inserts, deletes and updates of one table, or an ordered feed of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Place, ReadError, SchemaError, shown
from holdfast.table.read import LONE_NAME, Source, read
from holdfast.table.schema import unknown_name

CHANGE_TYPE, BATCH, TABLE = "_change_type", "_batch", "_table"
CHANGE_TYPES = ("insert", "delete", "update_preimage", "update_postimage")


@dataclass(frozen=True)
class Change:
    """Rows that come and rows that go, in any form that is a table.

    A delete names rows by key, or by full value where no key was declared. `updates` is (before, after), row by
    row. Deletes apply before updates before inserts; an equal delete and insert cancel.
    """

    inserts: Any = None
    deletes: Any = None
    updates: tuple[Any, Any] | None = None
    table: str | None = None

    def parts(self) -> list[Part]:
        """The change as signed rows in the order in which they apply."""
        made: list[Part] = []
        if self.deletes is not None:
            made.append(Part.of(read(self.deletes, self._label("deletes")), "delete"))
        if self.updates is not None:
            before, after = (read(side, self._label("updates")) for side in self.updates)
            made.append(_interleaved(before, after))
        if self.inserts is not None:
            made.append(Part.of(read(self.inserts, self._label("inserts")), "insert"))
        return made

    def _label(self, what: str) -> str:
        return f"{self.table or LONE_NAME}, {what}"


@dataclass(frozen=True)
class Part:
    """Rows with one change type each, in order; an update's postimage directly follows its preimage."""

    source: Source
    types: npt.NDArray[np.int8]  # positions in CHANGE_TYPES

    @classmethod
    def of(cls, source: Source, change_type: str) -> Part:
        return cls(source, np.full(source.table.num_rows, CHANGE_TYPES.index(change_type), dtype=np.int8))


def _interleaved(before: Source, after: Source) -> Part:
    count = before.table.num_rows
    if after.table.num_rows != count:
        raise SchemaError(f"an update has {count} rows before and {after.table.num_rows} after; they go by pairs")
    both = pa.concat_tables([before.table, after.table.select(before.table.column_names)], promote_options="permissive")
    order = np.arange(2 * count).reshape(2, count).T.ravel()
    types = np.tile(np.array([2, 3], dtype=np.int8), count)
    return Part(Source(before.name, both.take(order), before.place, before.textual), types)


@dataclass(frozen=True)
class Feed:
    """An ordered list of row changes of one table: a change file, Delta's change data feed, Debezium.

    Equal to a `Change` in use; it is first reduced to its net effect.
    """

    part: Part
    table: str | None = None

    def parts(self) -> list[Part]:
        return [self.part]


def read_feed(data: Any, *, batch: str | None = None) -> Iterator[tuple[str | None, list[Feed]]]:
    """The batches of a change table: (batch id, one feed per table), in order.

    The table has `_change_type` and optionally `_batch` and `_table`; other columns that begin with `_` are
    ignored metadata. A batch may not come back once another one has begun.
    """
    source = read(data)
    table = source.table
    if CHANGE_TYPE not in table.column_names:
        raise ReadError(
            f"{source.place.source}: a change table needs a column {CHANGE_TYPE} ({', '.join(CHANGE_TYPES)})"
        )
    for name, rows in _runs(source, table, batch):
        yield name, [_feed(source, target, rows[at]) for target, at in _by_table(table, rows)]


def _runs(source: Source, table: pa.Table, batch: str | None) -> Iterator[tuple[str | None, npt.NDArray[np.int64]]]:
    rows = np.arange(table.num_rows)
    if BATCH not in table.column_names:
        yield batch, rows
        return
    names = table.column(BATCH).cast(pa.string())
    codes = names.combine_chunks().dictionary_encode()
    if codes.null_count:
        raise ReadError(f"{source.place.row(int(pc.index(names.is_null(), True).as_py()))}: the {BATCH} is empty")
    at = codes.indices.to_numpy()
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    if len(np.unique(at[starts])) < len(starts):
        raise ReadError(f"{source.place.source}: the rows of a {BATCH} must stand together")
    for start, rows_of in zip(starts, np.split(rows, starts[1:]), strict=True):
        yield codes.dictionary[int(at[start])].as_py(), rows_of


def _by_table(table: pa.Table, rows: npt.NDArray[np.int64]) -> Iterator[tuple[str | None, npt.NDArray[np.int64]]]:
    if TABLE not in table.column_names:
        yield None, np.arange(len(rows))
        return
    codes = table.column(TABLE).take(rows).combine_chunks().cast(pa.string()).dictionary_encode()
    for i, name in enumerate(codes.dictionary.to_pylist()):
        yield name, np.flatnonzero(codes.indices.to_numpy(zero_copy_only=False) == i)


def _feed(source: Source, table: str | None, rows: npt.NDArray[np.int64]) -> Feed:
    chosen = source.table.take(rows)
    types = _types(source.place, chosen.column(CHANGE_TYPE), rows)
    _require_pairs(source.place, types, rows)
    names = [name for name in chosen.column_names if not name.startswith("_")]
    part = Source(source.name, chosen.select(names), _ShiftedPlace(source.place.source, rows), source.textual)
    return Feed(Part(part, types), table)


def _types(place: Place, values: pa.ChunkedArray, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    known = pc.index_in(values.cast(pa.string()), pa.array(CHANGE_TYPES))
    if known.null_count:
        at = int(pc.index(known.is_null(), True).as_py())
        raise ReadError(
            f"{place.row(int(rows[at]))}: {shown(values[at].as_py())} is not a {CHANGE_TYPE}; "
            f"one of {', '.join(CHANGE_TYPES)} is expected"
        )
    return np.asarray(known.to_numpy().astype(np.int8))


def _require_pairs(place: Place, types: npt.NDArray[np.int8], rows: npt.NDArray[np.int64]) -> None:
    """Every preimage is directly followed by its postimage, and every postimage has one."""
    before = np.append(types == 2, False)
    after = np.append(types == 3, False)
    alone = np.flatnonzero(before[:-1] & ~after[1:])
    orphan = np.flatnonzero(after[:-1] & ~np.roll(before, 1)[:-1])
    for places, missing in ((alone, "update_postimage after it"), (orphan, "update_preimage before it")):
        if len(places):
            raise ReadError(f"{place.row(int(rows[places[0]]))}: there is no {missing}")


@dataclass(frozen=True)
class _ShiftedPlace(Place):
    """Rows of a selection, named by where they stand in the whole file."""

    rows: npt.NDArray[np.int64] = None  # type: ignore[assignment]

    def row(self, index: int) -> str:
        return super().row(int(self.rows[index]))


Changes = Change | Feed | Sequence[Change | Feed]


def by_table(changes: Changes, tables: Mapping[str, object]) -> dict[str, list[Part]]:
    """The parts of one batch by table, each table once; a change without a name means the only table."""
    made: dict[str, list[Part]] = {}
    for change in [changes] if isinstance(changes, Change | Feed) else changes:
        name = change.table
        if name is None:
            if len(tables) > 1:
                raise SchemaError(f"say which table the change is for; there are: {', '.join(tables)}")
            name = next(iter(tables))
        if name not in tables:
            raise SchemaError(unknown_name("table", name, list(tables)))
        made.setdefault(name, []).extend(change.parts())
    return made
