"""A table as files on shared storage: texts as text, which needs no common dictionary, other values as codes."""

from __future__ import annotations

import functools
import pickle
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import ValueRefused, shown
from holdfast.executors.spark import numbered
from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.table.encode import encode_table
from holdfast.table.kind import Kind
from holdfast.table.schema import Schema
from holdfast.violations.listing import keys_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_FILE = 250_000

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """A table in parts: one file each. `starts` holds the id of the first row of each file."""

    name: str
    schema: Schema
    key: tuple[str, ...]
    files: tuple[str, ...]
    starts: tuple[int, ...]
    rows: int


def write_parts(frame: DataFrame, name: str, schema: Schema, key: tuple[str, ...], home: Path) -> Table:
    """Evaluates the frame once and writes its rows to files."""
    task = functools.partial(_write_task, str(home / name), pickle.dumps(schema))
    told = numbered(frame, schema.names).mapInArrow(task, "part long, file string, rows long, problem string").toArrow()
    parts = sorted(told.to_pylist(), key=lambda row: row["part"])  # stable: files of a partition keep their order
    for part in parts:
        if part["problem"] is not None:
            raise ValueRefused(f"table {shown(name)}: {part['problem']}")
    counts = [part["rows"] for part in parts]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(int).tolist() if counts else []
    return Table(name, schema, key, tuple(p["file"] for p in parts), tuple(starts), sum(counts))


def _write_task(place: str, pickled: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Writes the rows of a Spark partition to files of bounded size, so that work can be balanced."""
    from pyspark import TaskContext

    schema: Schema = pickle.loads(pickled)
    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= ROWS_PER_FILE:
            yield _write_file(place, schema, number, waiting)
            waiting = []
    if waiting:
        yield _write_file(place, schema, number, waiting)


def _write_file(place: str, schema: Schema, number: int, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches).rename_columns(list(schema.names))
    texts = {c.name for c in schema.columns if c.kind is Kind.TEXT}
    coded = tuple(c for c in schema.columns if c.name not in texts)
    encoded = encode_table(Schema(coded), table, TextDictionary()) if coded else None
    problem = str(encoded.problems[0]) if encoded is not None and encoded.problems else None
    codes = iter(encoded.codes if encoded is not None else ())
    columns = {c.name: table.column(c.name) if c.name in texts else pa.array(next(codes)) for c in schema.columns}
    path = f"{place}-{number}-{secrets.token_hex(6)}.arrow"
    made = pa.table(columns)
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, made.schema) as writer:
        writer.write_table(made.combine_chunks())
    told = {"part": [number], "file": [path], "rows": [table.num_rows], "problem": pa.array([problem], pa.string())}
    return pa.record_batch(told)


def read_part(table: Table, number: int) -> Iterator[tuple[Places, pa.Table]]:
    """The rows of a part and their ids, batch by batch."""
    first = table.starts[number]
    with pa.memory_map(table.files[number]) as file:
        for batch in pa.ipc.open_stream(file):
            yield np.arange(first, first + batch.num_rows), pa.Table.from_batches([batch])
            first += batch.num_rows


def codes_of(schema: Schema, rows: pa.Table, dictionary: TextDictionary) -> Codes:
    """codes[column, row]; zeros for columns that `rows` does not have. Codes of texts refer to this dictionary."""
    codes = np.zeros((len(schema), rows.num_rows), np.int64)
    for i, column in enumerate(schema.columns):
        if column.name in rows.column_names:
            values = one_array(rows.column(column.name))
            codes[i] = dictionary.encode(values) if column.kind is Kind.TEXT else values.to_numpy()
    return codes


def one_array(values: pa.ChunkedArray) -> pa.Array:
    """The values as one array, large strings as strings, which Spark expects."""
    values = values.combine_chunks()
    values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    return values.cast(pa.string()) if pa.types.is_large_string(values.type) else values


def names_of(table: Table, rows: pa.Table, ids: Places, wanted: Places, dictionary: TextDictionary) -> pa.Array:
    """The names of the wanted rows: their keys, or their ids without a key."""
    if not table.key:
        return pa.array(wanted)
    order = np.argsort(ids)
    places = order[np.searchsorted(ids[order], wanted)]
    codes = codes_of(table.schema, rows.select(list(table.key)).take(pa.array(places)), dictionary)
    return keys_of(table.schema, table.key, codes, dictionary)


def name_type(table: Table) -> pa.DataType:
    """The Arrow type of row names."""
    types = [
        (n, pa.large_string() if (c := table.schema.column(n)).kind is Kind.TEXT else c.arrow_type) for n in table.key
    ]
    return pa.int64() if not types else types[0][1] if len(types) == 1 else pa.struct(types)


def listed_rows(table: Table, rows: pa.Table, ids: Places, chosen: Places, dictionary: TextDictionary) -> pa.Table:
    """A table with the ids and names of the chosen rows."""
    return pa.table({"t_id": pa.array(chosen), "t": names_of(table, rows, ids, chosen, dictionary)})
