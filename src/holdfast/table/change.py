"""Changes as users give them: inserts, deletes and updates of one table, or an ordered feed of row changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.arrays import Positions, numpy_of
from holdfast.errors import HoldfastError, Location, ReadError, SchemaError, cell, shown
from holdfast.table.options import TableOptions, plain_change
from holdfast.table.read import read
from holdfast.table.read_json import read_json_texts
from holdfast.table.reading import Reading
from holdfast.table.schema import unknown_name
from holdfast.table.source import JSON_NAMES, LONE_NAME, RowsSource, Source

CHANGE_TYPE, BATCH, TABLE = "_change_type", "_batch", "_table"
_TIMES = ("_commit_timestamp", "_time")  # metadata: when a change was made
CHANGE_TYPES = ("insert", "delete", "update_preimage", "update_postimage")
INSERT, DELETE, BEFORE, AFTER, UPSERT = range(5)  # UPSERT: for sources that do not distinguish insert and update


@dataclass(frozen=True)
class Change:
    """Inserts, deletes and updates of one table, each in any form that `read` accepts.

    A delete names rows by key, or by full value if no key was declared. `updates` is (before, after), row by row.
    Deletes apply first, then updates, then inserts; an equal delete and insert cancel. Rows may also be a list of
    mappings, or of tuples in the order of the columns (in a delete by key, of the key columns).
    """

    inserts: Any = None
    deletes: Any = None
    updates: tuple[Any, Any] | None = None
    table: str | None = None

    def parts(self, options: TableOptions) -> list[Part]:
        """The parts of the change in the order in which they apply."""
        parts: list[Part] = []
        names = options.schema.names
        if self.deletes is not None:
            delete_names = options.key if _are_keys(self.deletes, options) else names
            parts.append(Part.of(read(self.deletes, self._label("deletes"), delete_names), "delete"))
        if self.updates is not None:
            before, after = (read(side, self._label("updates"), names) for side in self.updates)
            parts.append(Part.of_updates(before, after))
        if self.inserts is not None:
            parts.append(Part.of(read(self.inserts, self._label("inserts"), names), "insert"))
        return parts

    def _label(self, field: str) -> str:
        return f"{self.table or LONE_NAME}, {field}"


def _are_keys(rows: Any, options: TableOptions) -> bool:
    """Whether `rows` is a list of keys rather than of whole rows."""
    if not options.key or not isinstance(rows, list | tuple):
        return False
    return all(isinstance(row, tuple) and len(row) == len(options.key) for row in rows)


@dataclass(frozen=True)
class Part:
    """Rows in the order in which they apply, each with a change type.

    `types` are positions in CHANGE_TYPES; `all_of` is the common type of all rows, if there is one. `partner` is the
    row with the other half of the same update, or -1.
    """

    source: Source
    count: int
    given_types: npt.NDArray[np.int8] | None = None
    given_partner: Positions | None = None
    all_of: str | None = None
    by_key: bool = False  # only the key of a deleted row is reliable

    @property
    def types(self) -> npt.NDArray[np.int8]:
        if self.given_types is not None:
            return self.given_types
        assert self.all_of is not None
        return np.full(self.count, CHANGE_TYPES.index(self.all_of), dtype=np.int8)

    @property
    def partner(self) -> Positions:
        return np.full(self.count, -1) if self.given_partner is None else self.given_partner

    @classmethod
    def of(cls, source: Source, change_type: str) -> Part:
        count = len(source.rows) if isinstance(source, RowsSource) else source.table.num_rows
        return cls(source, count, all_of=change_type)

    @classmethod
    def by_keys(cls, source: Source, types: npt.NDArray[np.int8]) -> Part:
        """Deletes by key and upserts, in order."""
        return cls(source, len(types), types, by_key=True)

    @classmethod
    def in_order(cls, source: Source, types: npt.NDArray[np.int8]) -> Part:
        """A feed: an update's postimage directly follows its preimage."""
        steps = np.where(types == BEFORE, 1, np.where(types == AFTER, -1, 0))
        return cls(source, len(types), types, np.where(steps == 0, -1, np.arange(len(types)) + steps))

    @classmethod
    def of_updates(cls, before: Source, after: Source) -> Part:
        """All rows before, then all rows after, so that rows of one change may exchange their keys."""
        count = before.table.num_rows
        if after.table.num_rows != count:
            raise SchemaError(
                f"an update has {count} rows before and {after.table.num_rows} after; both must match row by row"
            )
        names = before.table.column_names
        if set(names) != set(after.table.column_names):
            unmatched = sorted(set(names) ^ set(after.table.column_names))[0]
            raise SchemaError(f"{before.place.source}: column {shown(unmatched)} stands on one side of the update only")
        columns = after.table.select(names)
        try:
            both = pa.concat_tables([before.table, columns], promote_options="permissive")
        except pa.ArrowTypeError:
            raise SchemaError(f"{before.place.source}: {_type_conflict(before.table.schema, columns.schema)}") from None
        place = _ChosenRows(before.place.source, np.tile(np.arange(count), 2))
        types = np.repeat(np.array([BEFORE, AFTER], dtype=np.int8), count)
        partner = np.roll(np.arange(2 * count), count)
        has_cells = before.has_cells and after.has_cells
        return cls(Source(before.name, both, place, before.textual, has_cells=has_cells), 2 * count, types, partner)


def _type_conflict(before: pa.Schema, after: pa.Schema) -> str:
    """Names the column whose types before and after an update have no common type."""
    for old, new in zip(before, after, strict=True):
        try:
            pa.unify_schemas([pa.schema([old]), pa.schema([new])], promote_options="permissive")
        except pa.ArrowTypeError:
            return f"column {shown(old.name)} is {old.type} before the update and {new.type} after it"
    return "the types before and after the update are incompatible"


@dataclass(frozen=True)
class _ChosenRows(Location):
    """The location of selected rows, by their number in the whole input."""

    rows: Positions

    def row(self, index: int) -> str:
        return super().row(int(self.rows[index]))


@dataclass(frozen=True)
class Feed:
    """An ordered list of row changes of one table: a change file, Delta's change data feed, Debezium events.

    Can be used wherever a `Change` can; only its net effect is applied. `happened`: when the newest of its changes was
    made, as an ISO text, if the feed says so.
    """

    part: Part
    table: str | None = None
    happened: str | None = None

    def parts(self, _: TableOptions) -> list[Part]:
        """The feed as signed rows in order."""
        return [self.part]


def read_feed(
    data: Any, *, batch: str | None = None, reading: Reading | None = None
) -> list[tuple[str | None, list[Feed]]]:
    """The batches of a change table, in order: (batch id, one feed per table). All batches are validated first.

    The table has a column `_change_type` and optionally `_batch` and `_table`. The newest `_commit_timestamp` or
    `_time` is when the batch happened. Other columns that begin with `_` are metadata and ignored. The rows of a batch
    must be adjacent. `reading`: how a text file is read; its cells are written as in the file that the table was made
    of.
    """
    is_json = isinstance(data, str | Path) and str(data).lower().endswith(JSON_NAMES)
    source = read_json_texts(Path(data)) if is_json else read(data, reading=reading)
    table = source.table
    if CHANGE_TYPE not in table.column_names:
        raise ReadError(
            f"{source.place.source}: a change table needs a column {CHANGE_TYPE} ({', '.join(CHANGE_TYPES)})"
        )
    return [
        (name, [_feed(source, target, rows[at]) for target, at in _rows_by_table(source.place, table, rows)])
        for name, rows in _rows_by_batch(source, table, batch)
    ]


def _rows_by_batch(source: Source, table: pa.Table, batch: str | None) -> Iterator[tuple[str | None, Positions]]:
    rows = np.arange(table.num_rows)
    if BATCH not in table.column_names:
        yield batch, rows
        return
    names = table.column(BATCH).cast(pa.string())
    codes = names.combine_chunks().dictionary_encode()
    if codes.null_count:
        raise ReadError(f"{source.place.row(int(pc.index(names.is_null(), True).as_py()))}: the {BATCH} is empty")
    indices = numpy_of(codes.indices)
    starts = np.flatnonzero(np.diff(indices, prepend=-1))
    if len(np.unique(indices[starts])) < len(starts):
        raise ReadError(f"{source.place.source}: the rows of a {BATCH} must stand together")
    for start, batch_rows in zip(starts, np.split(rows, starts[1:]), strict=True):
        yield codes.dictionary[int(indices[start])].as_py(), batch_rows


def _rows_by_table(place: Location, table: pa.Table, rows: Positions) -> Iterator[tuple[str | None, Positions]]:
    """The tables that `rows` are about, each with the positions of its rows within `rows`."""
    if TABLE not in table.column_names:
        yield None, np.arange(len(rows))
        return
    codes = table.column(TABLE).take(rows).combine_chunks().cast(pa.string()).dictionary_encode()
    if codes.null_count:
        raise ReadError(f"{place.row(int(rows[pc.index(codes.is_null(), True).as_py()]))}: the {TABLE} is empty")
    for i, name in enumerate(codes.dictionary.to_pylist()):
        yield name, np.flatnonzero(numpy_of(codes.indices) == i)


def _feed(source: Source, table: str | None, rows: Positions) -> Feed:
    chosen = source.table.take(rows)
    types = _types(source.place, chosen.column(CHANGE_TYPE), rows)
    _require_pairs(source.place, types, rows)
    names = [name for name in chosen.column_names if not name.startswith("_")]
    place, shared = _ChosenRows(source.place.source, rows), TABLE in source.table.column_names
    feed_source = Source(source.name, chosen.select(names), place, source.textual, shared, has_cells=source.has_cells)
    return Feed(Part.in_order(feed_source, types), table, _newest(chosen))


def _newest(rows: pa.Table) -> str | None:
    """The newest time in the metadata of changed rows, if there is one that can be read."""
    for name in _TIMES:
        if name in rows.column_names:
            return _newest_of(rows.column(name))
    return None


def _newest_of(times: pa.ChunkedArray) -> str | None:
    if pa.types.is_timestamp(times.type):
        zone = times.type.tz or "UTC"
        newest = pc.max(times.cast(pa.timestamp("us", zone), safe=False)).as_py()
        return None if newest is None else str(newest.astimezone(UTC).isoformat())
    if not pa.types.is_string(times.type) and not pa.types.is_large_string(times.type):
        return None
    try:
        return datetime.fromisoformat(str(pc.max(times).as_py())).isoformat()
    except ValueError:
        return None


def _types(place: Location, values: pa.ChunkedArray, rows: Positions) -> npt.NDArray[np.int8]:
    types = pc.index_in(values.cast(pa.string()), pa.array(CHANGE_TYPES))
    if types.null_count:
        at = int(pc.index(types.is_null(), True).as_py())
        raise ReadError(
            f"{place.row(int(rows[at]))}: {cell(values[at].as_py())} is not a {CHANGE_TYPE}; "
            f"one of {', '.join(CHANGE_TYPES)} is expected"
        )
    return np.asarray(numpy_of(types).astype(np.int8))


def _require_pairs(place: Location, types: npt.NDArray[np.int8], rows: Positions) -> None:
    """Raises an error unless each preimage is directly followed by a postimage, and each postimage follows one."""
    before = np.append(types == BEFORE, False)
    after = np.append(types == AFTER, False)
    lone_preimages = np.flatnonzero(before[:-1] & ~after[1:])
    lone_postimages = np.flatnonzero(after[:-1] & ~np.roll(before, 1)[:-1])
    partners = ("update_postimage after it", "update_preimage before it")
    for lone, partner in zip((lone_preimages, lone_postimages), partners, strict=True):
        if len(lone):
            raise ReadError(f"{place.row(int(rows[lone[0]]))}: there is no {partner}")


Changes = Change | Feed | Sequence[Change | Feed]


def happened_at(changes: Changes) -> str | None:
    """When the newest change of a batch was made, if its feeds say so."""
    listed = changes if isinstance(changes, Sequence) else [changes]
    return max((feed.happened for feed in listed if isinstance(feed, Feed) and feed.happened), default=None)


def by_table(changes: Changes, tables: Mapping[str, TableOptions]) -> dict[str, list[Part]]:
    """The parts of one batch by table. A change that names no table is for the only table."""
    parts: dict[str, list[Part]] = {}
    for name, change in require_changes(changes, tables):
        options = tables[name]
        plain = (replace(part, source=plain_change(part.source, options)) for part in change.parts(options))
        parts.setdefault(name, []).extend(plain)
    return parts


def require_changes(changes: Changes, tables: Mapping[str, TableOptions]) -> list[tuple[str, Change | Feed]]:
    """The changes of one batch, each with the table that it is for; an error if that is not clear."""
    listed = [changes] if isinstance(changes, Change | Feed) else changes
    if not isinstance(listed, Sequence) or not all(isinstance(change, Change | Feed) for change in listed):
        raise HoldfastError(f"a batch is a Change or a list of changes, not {shown(changes)}")
    for change in listed:
        if change.table is None and len(tables) > 1:
            raise SchemaError(
                f"say which table the change is for, in a column _table of a file; there are: {', '.join(tables)}"
            )
        if change.table is not None and change.table not in tables:
            raise SchemaError(unknown_name("table", change.table, list(tables)))
    only = next(iter(tables))
    return [(change.table or only, change) for change in listed]
