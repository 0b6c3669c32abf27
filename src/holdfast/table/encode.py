"""Tables as int64 codes whose order is the order of the values, and back.

| kind | code |
|---|---|
| integer | the integer |
| decimal | the value times 10^scale |
| float | order-preserving bits (`floats.py`) |
| date, timestamp | days, microseconds since 1970 UTC |
| boolean | 0 or 1 |
| text | the code of the dictionary; equality only |

Null is INT64_MIN. A value without an exact code is a `Problem`; nothing is rounded, clipped or dropped.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.arrays import numpy_of
from holdfast.errors import Location, ValueRefused, shown
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.encoders import encode_nulls, encode_text, encoder_of
from holdfast.table.floats import float_values
from holdfast.table.kind import Kind
from holdfast.table.parse import parse_strings
from holdfast.table.schema import Column, Schema, is_string, value_type


@dataclass(frozen=True)
class Problem:
    """A value that does not fit its column."""

    row: int
    column: str
    value: object
    reason: str

    def __str__(self) -> str:
        return f"column {shown(self.column)}: {shown(self.value)} {self.reason}"

    def without_value(self) -> str:
        return f"column {shown(self.column)}: a value {self.reason}"

    def message(self, place: Location) -> str:
        return f"{place.row(self.row)}, {self}"


@dataclass
class Encoded:
    """Rows as codes[column, row]. The code of a problem is null."""

    schema: Schema
    codes: Codes
    problems: list[Problem] = field(default_factory=list)

    def __len__(self) -> int:
        return int(self.codes.shape[1])

    def require_clean(self, place: Location) -> None:
        if self.problems:
            first, more = self.problems[0], len(self.problems) - 1
            raise ValueRefused(first.message(place) + (f" (and {more} more such values)" if more else ""))


def encode_table(
    schema: Schema,
    table: pa.Table,
    dictionary: TextDictionary,
    *,
    textual: bool | Collection[str] = False,
    declared: Collection[str] = (),
    max_problems: int | None = 1000,
) -> Encoded:
    """The codes of `table`, column by column in the order of `schema`. O(rows x columns).

    `textual` tables (CSV) or columns hold their values as text, which is parsed by the column's kind. The user chose
    the kind of `declared` columns, so their text may become the nearest float.
    """
    codes = np.empty((len(schema), table.num_rows), dtype=np.int64)
    encoded = Encoded(schema, codes)
    for i, column in enumerate(schema.columns):
        as_text = textual if isinstance(textual, bool) else column.name in textual
        values = table.column(column.name)
        if as_text and column.kind is not Kind.TEXT and is_string(value_type(values.type)):
            _parse_column(column, values, codes[i], encoded.problems, column.name in declared)
        else:
            _encode_column(column, values, dictionary, codes[i], encoded.problems)
        if max_problems is not None and len(encoded.problems) >= max_problems:
            break
    encoded.problems.sort(key=lambda problem: problem.row)
    return encoded


def _parse_column(column: Column, values: pa.ChunkedArray, out: Codes, problems: list[Problem], rounding: bool) -> None:
    """Parses all chunks at once, because whether a number may become a float depends on the other numbers."""
    values = plain(values)
    out[:], refusals = parse_strings(column, values, rounding=rounding)
    problems += [Problem(row, column.name, values[row].as_py(), reason) for row, reason in refusals.items()]


def _encode_column(
    column: Column,
    values: pa.ChunkedArray,
    dictionary: TextDictionary,
    out: Codes,
    problems: list[Problem],
) -> None:
    encoder = encoder_of(column, values.type)
    values = without_runs(values) if encoder in (encode_text, encode_nulls) else plain(values)
    start = 0
    for chunk in values.chunks:
        codes, refusals = encoder(column, chunk, dictionary)
        out[start : start + len(chunk)] = codes
        for row, reason in refusals.items():
            problems.append(Problem(start + row, column.name, _value(chunk, row), reason))
        start += len(chunk)


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values without dictionary (categorical) or run-end encoding."""
    values = without_runs(values)
    return values.cast(value_type(values.type)) if pa.types.is_dictionary(values.type) else values


def without_runs(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values without run-end encoding, which few Arrow functions support. O(n log runs)."""
    if not pa.types.is_run_end_encoded(values.type):
        return values
    chunks = []
    for chunk in values.chunks:
        rows = np.arange(chunk.offset, chunk.offset + len(chunk))
        ends = numpy_of(chunk.run_ends)
        chunks.append(chunk.values.take(pa.array(np.searchsorted(ends, rows, side="right"))))
    return pa.chunked_array(chunks, values.type.value_type)


def _value(values: pa.Array, row: int) -> object:
    """The value for a message; a time beyond Python's range as its number."""
    try:
        return values[row].as_py()
    except (OverflowError, ValueError):
        return values.view(pa.int64())[row].as_py()


def decode_column(column: Column, codes: Codes, dictionary: TextDictionary) -> pa.Array:
    """The values of the codes, as an Arrow array."""
    null = codes == NULL
    if column.kind is Kind.TEXT:
        return dictionary.decode(codes)
    filled = np.where(null, 0, codes)
    if column.kind is Kind.FLOAT:
        return pa.array(float_values(filled), mask=null)
    if column.kind is Kind.BOOLEAN:
        return pa.array(filled.astype(bool), mask=null)
    if column.kind is Kind.DECIMAL:
        words = np.stack([filled, filled >> 63], axis=1)  # a decimal128 is two 64-bit words
        decimals = pa.Array.from_buffers(column.arrow_type, len(codes), [None, pa.py_buffer(words)])
        return pc.if_else(pa.array(null), pa.scalar(None, column.arrow_type), decimals)
    if column.kind is Kind.DATE:
        return pa.array(filled.astype(np.int32), mask=null).view(pa.date32())
    return pa.array(filled, mask=null).view(column.arrow_type)


def decode_table(schema: Schema, codes: Codes, dictionary: TextDictionary) -> pa.Table:
    """The rows of codes[column, row], as an Arrow table."""
    arrays = [decode_column(column, codes[i], dictionary) for i, column in enumerate(schema.columns)]
    return pa.Table.from_arrays(arrays, names=list(schema.names))
