"""The changes of a batch as signed row events in a DataFrame: `seq`, `sign`, `full`, `upsert`, and cells.

`seq` is the order of the events: the part of the batch, an order within it, deletes first where that does not decide,
and the event's number `uid`. Its last field, `unit`, is the same for both halves of an update, which are applied or
refused together. `full`: all cells are given, not only the key. `upsert`: the row may be there already. An update is
two events, the row before (-1) and after (+1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from holdfast.errors import Location, NotAvailable, SchemaError, shown
from holdfast.places import are_spark_frames
from holdfast.spark.frames import canonical, frame_of, places, quoted, schema_of, spark_type
from holdfast.spark.state_files import union
from holdfast.table.change import (
    BEFORE,
    CHANGE_TYPE,
    CHANGE_TYPES,
    DELETE,
    UPSERT,
    Change,
    Changes,
    Feed,
    Part,
    require_changes,
)
from holdfast.table.dictionary import TextDictionary
from holdfast.table.effect import Bad
from holdfast.table.encode import decode_table, encode_table
from holdfast.table.kind import Kind
from holdfast.table.options import TableOptions
from holdfast.table.read import conform
from holdfast.table.schema import Schema, unknown_name

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame, SparkSession

_ORDER = ("at", "uid", "unit")  # columns that become `seq`


@dataclass(frozen=True)
class FrameFeed:
    """Changes of one table in a Spark DataFrame with the column `_change_type`. `order`: a column of whole numbers in
    whose order they apply; at the same number, deletes come first. `upserts`: an inserted row may be there already."""

    frame: DataFrame
    table: str | None = None
    order: str | None = None
    upserts: bool = False


@dataclass(frozen=True)
class Events:
    """The events of one table. `fixed`: they are in the memory of this process, so that reading them twice gives the
    same rows. `places`: where the rows of each part are, for messages, if that is known. `bad`: rows with unreadable
    values, which are left out."""

    frame: DataFrame
    fixed: bool
    places: tuple[Location | None, ...] = (None,)
    bad: list[Bad] = field(default_factory=list)

    def place(self, part: int, row: int) -> str:
        known = self.places[part]
        return "a row of the change" if known is None else known.row(row)


SparkChanges = Changes | FrameFeed | Sequence[FrameFeed]


def events_by_table(
    changes: SparkChanges,
    tables: dict[str, TableOptions],
    spark: SparkSession,
    *,
    quarantine: bool,
) -> dict[str, Events]:
    """The events of a batch by table, in the order in which they apply."""
    made: dict[str, list[Events]] = {}
    for name, change in _by_table(changes, tables):
        for part in _parts(name, change, tables[name], spark, quarantine=quarantine):
            made.setdefault(name, []).append(part)
    return {name: _joined(parts) for name, parts in made.items()}


def _joined(parts: list[Events]) -> Events:
    frames = []
    for number, part in enumerate(parts):
        fields = f"'part', {number}, 'at', at, 'phase', sign, 'uid', uid, 'unit', unit"
        others = [column for column in part.frame.columns if column not in _ORDER]
        frames.append(part.frame.select(F.expr(f"named_struct({fields})").alias("seq"), *others))
    places_of = tuple(part.places[0] for part in parts)
    return Events(union(frames), all(p.fixed for p in parts), places_of, [bad for p in parts for bad in p.bad])


def _by_table(changes: Any, tables: dict[str, TableOptions]) -> list[tuple[str, Change | Feed | FrameFeed]]:
    listed: Any = [changes] if isinstance(changes, FrameFeed) else changes
    if not isinstance(listed, Sequence) or not any(isinstance(change, FrameFeed) for change in listed):
        return [*require_changes(listed, tables)]
    given: list[tuple[str, Change | Feed | FrameFeed]] = []
    for change in listed:
        if not isinstance(change, FrameFeed):
            given += require_changes(change, tables)
            continue
        name = change.table or next(iter(tables))
        if name not in tables:
            raise SchemaError(unknown_name("table", name, list(tables)))
        given.append((name, change))
    return given


def _parts(
    name: str, change: Change | Feed | FrameFeed, options: TableOptions, spark: SparkSession, *, quarantine: bool
) -> list[Events]:
    if isinstance(change, FrameFeed):
        return [_of_feed(change, options)]
    if isinstance(change, Change) and any(map(are_spark_frames, _given(change))):
        return _of_frames(change, options)
    return [_of_part(name, part, options, spark, quarantine=quarantine) for part in change.parts(options)]


# --- rows on Spark --------------------------------------------------------------------------------------------


def _given(change: Change) -> list[Any]:
    return [given for given in (change.deletes, *(change.updates or ()), change.inserts) if given is not None]


def _of_frames(change: Change, options: TableOptions) -> list[Events]:
    """Of a change whose rows are DataFrames of Spark."""
    if not all(map(are_spark_frames, _given(change))):
        raise SchemaError("the parts of a change are all Spark DataFrames, or none of them is")
    if change.updates is not None:
        raise NotAvailable(
            "rows of two Spark DataFrames have no order in which they match: give the rows before as deletes and the "
            "rows after as inserts; a row that keeps its key is updated"
        )
    made = []
    for frame, sign in ((change.deletes, -1), (change.inserts, 1)):
        if frame is not None:
            columns = _columns(frame.columns, options, "deletes" if sign < 0 else "inserts", deletes=sign < 0)
            order = {"sign": F.lit(sign), "at": F.lit(0).cast("bigint")}
            made.append(_numbered(_fitted(frame, columns, options.schema, order), columns, options, upserts=False))
    return made


def _of_feed(feed: FrameFeed, options: TableOptions) -> Events:
    """Of a DataFrame of changes. An unknown change type is an error that Spark raises when it reads it."""
    frame = feed.frame
    if CHANGE_TYPE not in frame.columns:
        raise SchemaError(f"a change has a column {CHANGE_TYPE}")
    data = [name for name in frame.columns if not name.startswith("_") or name in options.schema]
    columns = _columns(data, options, "the change", deletes=False)
    listed = ", ".join(f"'{name}'" for name in CHANGE_TYPES)
    sign = F.expr(
        f"case when {CHANGE_TYPE} in ('delete', 'update_preimage') then -1 when {CHANGE_TYPE} in ({listed}) then 1 "
        f"else raise_error(concat('{CHANGE_TYPE} is none of {', '.join(CHANGE_TYPES)}: ', {CHANGE_TYPE})) end"
    )
    at = F.lit(0) if feed.order is None else F.col(quoted(feed.order))
    fitted = _fitted(frame, columns, options.schema, {"sign": sign, "at": at.cast("bigint")})
    return _numbered(fitted, columns, options, upserts=feed.upserts)


def _numbered(frame: DataFrame, columns: list[str], options: TableOptions, *, upserts: bool) -> Events:
    number = F.monotonically_increasing_id()
    numbered = frame.select("*", number.alias("uid"), number.alias("unit"), F.lit(upserts).alias("upsert"))
    return Events(_with_all_cells(numbered, columns, options), fixed=False)


def _columns(present: Sequence[str], options: TableOptions, place: str, *, deletes: bool) -> list[str]:
    """The columns of a table that a part gives: all, or the key for deletes."""
    names = [n for n in options.schema.names if n in present]
    required = options.key if deletes and options.key else options.schema.names
    for name in required:
        if name not in names:
            raise SchemaError(f"{place}: column {shown(name)} is missing")
    for name in present:
        if name not in names and name not in options.ignored:
            raise SchemaError(f"{place}: {unknown_name('column', name, options.schema.names)}")
    return names if len(names) == len(options.schema) or not deletes else list(options.key)


def _fitted(frame: DataFrame, columns: list[str], schema: Schema, order: dict[str, Expr]) -> DataFrame:
    """The chosen columns as cells of the table, and those of the order; a column of another kind is an error."""
    given = schema_of(frame.select([quoted(name) for name in columns]))
    types = {field.name: field.dataType for field in frame.schema.fields}
    for column in given.columns:
        _require_kind(column.name, given, schema, only_nulls=types[column.name].typeName() == "void")
    positions = [f"g{frame.columns.index(name)}" for name in columns]
    names = [*(f"g{i}" for i in range(len(frame.columns))), *order]
    numbered = frame.select("*", *(expr.alias(f"order {name}") for name, expr in order.items())).toDF(*names)
    cells = []
    for position, column in zip(positions, given.columns, strict=True):
        wanted = schema.column(column.name)
        cell = canonical(F.col(position), column, types[column.name]).cast(spark_type(wanted))
        cells.append(cell.alias(f"c{schema.position(column.name)}"))
    return numbered.select(*cells, *order)


def _require_kind(name: str, given: Schema, schema: Schema, *, only_nulls: bool) -> None:
    column, wanted = given.column(name), schema.column(name)
    widens = column.kind in (Kind.INTEGER, Kind.DECIMAL) and wanted.kind is Kind.DECIMAL
    if column.kind is not wanted.kind and not widens and not only_nulls:
        raise SchemaError(f"column {shown(name)} is {wanted.type_text}, but {column.type_text} in the change; cast it")
    if wanted.kind is Kind.DECIMAL and column.scale > wanted.scale:
        places_text = f"{wanted.scale} decimal places, but {column.scale} in the change"
        raise SchemaError(f"column {shown(name)} has {places_text}; cast it")


def _with_all_cells(frame: DataFrame, columns: list[str], options: TableOptions) -> DataFrame:
    """Events with a cell for every column: null, where a delete gives only the key."""
    schema = options.schema
    given = set(schema.positions(columns))
    cells = [f"c{i}" if i in given else f"cast(null as {spark_type(c)}) as c{i}" for i, c in enumerate(schema.columns)]
    others = sorted(given - set(schema.positions(options.key)))
    full = str(len(given) == len(schema)).lower()
    if others:
        full += f" and not ({' and '.join(f'c{i} is null' for i in others)})"
    sign = "cast(sign as int)"
    return frame.selectExpr(*_ORDER, f"{sign} as sign", f"{sign} > 0 or ({full}) as full", "upsert", *cells)


# --- rows in this process -------------------------------------------------------------------------------------


def _of_part(name: str, part: Part, options: TableOptions, spark: SparkSession, *, quarantine: bool) -> Events:
    """Of rows in the memory of this process, read as a rulebook in the process reads them."""
    types, source = part.types, part.source
    if (types == UPSERT).any() and not options.key:
        raise NotAvailable(f"table {shown(name)} has no key: its source must say whether it inserts or updates a row")
    present = source.table.column_names
    if source.shared:  # it has the columns of other tables too, which are null here
        own = [n in options.schema or source.table.column(n).null_count < part.count for n in present]
        present = [n for n, mine in zip(present, own, strict=True) if mine]
    columns = _columns(present, options, source.place.source, deletes=bool((types == DELETE).all()))
    schema = Schema(tuple(options.schema.column(column) for column in columns))
    source, dictionary = conform(source, schema, options.declared), TextDictionary()
    encoded = encode_table(
        schema, source.table, dictionary, textual=source.textual or options.declared, declared=options.declared,
        max_problems=None,
    )  # fmt: skip
    if not quarantine:
        encoded.require_clean(source.place)
    uid = np.arange(part.count)
    unit = np.where(part.partner < 0, uid, np.minimum(uid, part.partner))
    reasons = {problem.row: (str(problem), problem.without_value()) for problem in reversed(encoded.problems)}
    left_out = np.isin(unit, unit[[*reasons]]) if reasons else np.zeros(part.count, bool)
    values = decode_table(schema, encoded.codes, dictionary)
    cells = {c: _short(values.column(n)) for c, n in zip(places(options.schema, columns), columns, strict=True)}
    signs = np.where((types == DELETE) | (types == BEFORE), -1, 1).astype(np.int32)
    order = {"at": uid, "uid": uid, "unit": unit, "sign": signs, "upsert": types == UPSERT}
    events = pa.table({column: pa.array(numbers) for column, numbers in order.items()} | cells)
    frame = frame_of(spark, events.filter(pa.array(~left_out)))
    bad = [_bad(name, part, int(row), reasons) for row in np.flatnonzero(left_out)]
    return Events(_with_all_cells(frame, columns, options), fixed=True, places=(source.place,), bad=bad)


def _bad(name: str, part: Part, row: int, reasons: dict[int, tuple[str, str]]) -> Bad:
    """An unreadable row, or the other half of its update, for the quarantine."""
    values = part.source.table.slice(row, 1).to_pylist()[0]
    full, plain = reasons.get(row) or (f"its other half: {text}" for text in reasons[int(part.partner[row])])
    kind = int(part.types[row])
    change_type = CHANGE_TYPES[kind] if kind < len(CHANGE_TYPES) else "upsert"
    return Bad(name, part.source.place.row(row), change_type, values, full, plain)


def _short(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Large strings as strings, which Spark expects."""
    return values.cast(pa.string()) if pa.types.is_large_string(values.type) else values
