"""Columns to int64 codes whose order is the order of the values, and back.

Integers are their own codes, decimals are scaled, floats go by order-preserving bits, dates by days,
timestamps by microseconds UTC, booleans by 0 and 1, text by the dictionary (equality only). Null is INT64_MIN.
A value without a code is a `Problem`; nothing is rounded, clipped or dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Location, SchemaError, ValueRefused, shown
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.floats import float_codes, float_values
from holdfast.table.kind import Kind
from holdfast.table.parse import parse_strings
from holdfast.table.schema import Column, Schema, as_float, is_string, more_places, text_or_float, value_type

Mask = npt.NDArray[np.bool_]
_LARGEST = np.int64(0x7FFFFFFFFFFFFFFF)
MICROSECONDS_PER_DAY = 86_400_000_000


@dataclass(frozen=True)
class Problem:
    """A value that cannot stand in its column."""

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
    """Rows as codes[column, row], with the problems that were met (their cells hold null)."""

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
    most_problems: int | None = 1000,
) -> Encoded:
    """The codes of `table`, column by column in the order of `schema`. O(rows x columns).

    `textual` sources (CSV), or columns, hold every value as text, which is read by the column's kind. The kind of
    `declared` columns is what the user asked for: their text may become the nearest float.
    """
    codes = np.empty((len(schema), table.num_rows), dtype=np.int64)
    made = Encoded(schema, codes)
    for i, column in enumerate(schema.columns):
        as_text = textual if isinstance(textual, bool) else column.name in textual
        values = table.column(column.name)
        if as_text and column.kind is not Kind.TEXT and is_string(value_type(values.type)):
            _parse_column(column, values, codes[i], made.problems, column.name in declared)
        else:
            _encode_column(column, values, dictionary, codes[i], made.problems)
        if most_problems is not None and len(made.problems) >= most_problems:
            break
    made.problems.sort(key=lambda problem: problem.row)
    return made


def _parse_column(column: Column, values: pa.ChunkedArray, out: Codes, problems: list[Problem], rounding: bool) -> None:
    """All chunks at once: whether a number may become a float depends on the others."""
    values = plain(values)
    out[:], reasons = parse_strings(column, values, rounding=rounding)
    problems += [Problem(row, column.name, values[row].as_py(), reason) for row, reason in reasons.items()]


def _encode_column(
    column: Column,
    values: pa.ChunkedArray,
    dictionary: TextDictionary,
    out: Codes,
    problems: list[Problem],
) -> None:
    encoder = _encoder(column, values.type)
    values = without_runs(values) if encoder in (_text, _only_nulls) else plain(values)
    start = 0
    for chunk in values.chunks:
        codes, reasons = encoder(column, chunk, dictionary)
        out[start : start + len(chunk)] = codes
        for row, reason in reasons.items():
            problems.append(Problem(start + row, column.name, _value(chunk, row), reason))
        start += len(chunk)


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values without dictionary (categories) or run-end encoding."""
    values = without_runs(values)
    return values.cast(value_type(values.type)) if pa.types.is_dictionary(values.type) else values


def without_runs(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values without run-end encoding, which few of Arrow's functions know. O(n log runs)."""
    if not pa.types.is_run_end_encoded(values.type):
        return values
    chunks = []
    for chunk in values.chunks:
        rows = np.arange(chunk.offset, chunk.offset + len(chunk))
        ends = np.asarray(chunk.run_ends.to_numpy(zero_copy_only=False))
        chunks.append(chunk.values.take(pa.array(np.searchsorted(ends, rows, side="right"))))
    return pa.chunked_array(chunks, values.type.value_type)


def _value(values: pa.Array, row: int) -> object:
    """The value for a message; a time that Python has no word for, as the number it is."""
    try:
        return values[row].as_py()
    except (OverflowError, ValueError):
        return values.view(pa.int64())[row].as_py()


Reasons = dict[int, str]
Encoder = Callable[[Column, pa.Array, TextDictionary], tuple[Codes, Reasons]]


def _encoder(column: Column, type_: pa.DataType) -> Encoder:
    """The function that encodes this type into this column's kind; a change of type is an error."""
    type_ = value_type(type_)
    if pa.types.is_null(type_):
        return _only_nulls
    for test, encoder in _ENCODERS[column.kind]:
        if test(type_):
            return encoder
    raise SchemaError(f"column {shown(column.name)} is {column.type_text}, but the input has the type {type_}")


def _only_nulls(_: Column, values: pa.Array, __: TextDictionary) -> tuple[Codes, Reasons]:
    return np.full(len(values), NULL, dtype=np.int64), {}


def _text(_: Column, values: pa.Array, dictionary: TextDictionary) -> tuple[Codes, Reasons]:
    return _categories(values, dictionary) if pa.types.is_dictionary(values.type) else dictionary.encode(values), {}


def _categories(values: pa.DictionaryArray, dictionary: TextDictionary) -> Codes:
    """Each text that occurs is encoded once, in order of appearance. O(rows + categories)."""
    null, places = _nulls(values.indices), _filled(values.indices, 0).astype(np.int64, copy=False)
    used = places[~null][::-1] if null.any() else places[::-1]
    first = np.full(len(values.dictionary), -1, dtype=np.int64)
    first[used] = np.arange(len(used) - 1, -1, -1)
    met = np.flatnonzero(first >= 0)
    met = met[np.argsort(first[met])]
    codes = np.full(len(first) + 1, NULL, dtype=np.int64)
    codes[met] = dictionary.encode(values.dictionary.take(pa.array(met)))
    return codes[np.where(null, len(first), places)]


def _integers(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Reasons]:
    null = _nulls(values)
    if pa.types.is_uint64(values.type):
        raw = _filled(values, 0)
        reason = f"does not fit a 64-bit integer; {text_or_float(column.name)}"
        return _refusing(raw.view(np.int64), null, raw > np.uint64(_LARGEST), reason)
    codes = _filled(values, 0).astype(np.int64, copy=False)
    reason = f"is the one 64-bit integer that stands for null here; {text_or_float(column.name)}"
    return _refusing(codes, null, codes == NULL, reason)


def _whole_floats(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Reasons]:
    null, raw = _nulls(values), _filled(values, 0.0).astype(np.float64)
    bad = ~(np.floor(raw) == raw) | ~(np.abs(raw) < 2.0**63)
    reason = f"is not a 64-bit integer; {as_float(column.name)}"
    return _refusing(np.where(bad, 0.0, raw).astype(np.int64), null, bad, reason)


def _decimal_floats(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Reasons]:
    """Floats that are decimals of the column's scale: x 10^s is x 2^s, which must be whole, times 5^s."""
    null, raw = _nulls(values), _filled(values, 0.0).astype(np.float64)
    binary = np.ldexp(raw, column.scale)
    bad = ~(np.floor(binary) == binary) | ~(np.abs(binary) < 2.0**63)
    whole = np.where(bad, 0.0, binary).astype(np.int64)
    bad |= np.abs(whole) > _LARGEST // 5**column.scale
    reason = f"is not exactly a decimal with {column.scale} places and 64 bits; {as_float(column.name)}"
    return _refusing(np.where(bad, 0, whole) * 5**column.scale, null, bad, reason)


def _decimals(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Reasons]:
    """Decimals (and whole decimals into an integer column) at the column's scale, exactly."""
    null = _nulls(values)
    try:
        fits = pa.types.is_decimal128(values.type) and values.type.scale == column.scale
        scaled = values if fits else values.cast(pa.decimal256(76, column.scale))
    except pa.ArrowInvalid:
        reason = f"has more than {column.scale} decimal places; {more_places(column.name, values.type.scale)}"
        return _one_by_one(values, lambda v: _scaled(v, column.scale), reason)
    width = 2 if fits else 4
    words = np.frombuffer(scaled.buffers()[1], dtype=np.int64).reshape(-1, width)
    words = words[scaled.offset : scaled.offset + len(scaled)]
    low = np.ascontiguousarray(words[:, 0])
    sign, bad = low >> 63, low == NULL
    for i in range(1, width):
        bad |= words[:, i] != sign
    return _refusing(low, null, bad & ~null, _too_large(column))


def _scaled_integers(column: Column, values: pa.Array, dictionary: TextDictionary) -> tuple[Codes, Reasons]:
    codes, reasons = _integers(column, values, dictionary)
    factor = 10**column.scale
    bad = (codes != NULL) & (np.abs(codes) > _LARGEST // factor)
    scaled, more = _refusing(
        np.where(bad | (codes == NULL), 0, codes) * factor,
        codes == NULL,
        bad,
        _too_large(column),
    )
    return scaled, reasons | more


def _too_large(column: Column) -> str:
    return f"does not fit 64 bits with {column.scale} decimal places; {text_or_float(column.name)}"


def _floats(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Reasons]:
    codes = float_codes(_filled(values, 0.0).astype(np.float64))
    codes[_nulls(values)] = NULL
    return codes, {}


def _integral_floats(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Reasons]:
    null, raw = _nulls(values), _filled(values, 0)
    floats = raw.astype(np.float64)
    big = np.abs(floats) >= 2.0**53
    bad = big.copy()
    bad[big] = [int(f) != int(i) for f, i in zip(floats[big], raw[big], strict=True)]
    return _refusing(float_codes(floats), null, bad, "has no exact 64-bit float")


def _dates(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Reasons]:
    null = _nulls(values)
    if pa.types.is_date64(values.type):
        raw = _filled(values.view(pa.int64()), 0)
        return _refusing(raw // 86_400_000, null, raw % 86_400_000 != 0, "is not a whole day")
    codes = _filled(values.view(pa.int32()), 0).astype(np.int64)
    codes[null] = NULL
    return codes, {}


def _timestamps(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Reasons]:
    null = _nulls(values)
    raw = _filled(values.view(pa.int64()), 0)
    unit = values.type.unit
    if unit == "us":
        return _refusing(raw, null, raw == NULL, "is out of range")
    if unit == "ns":
        return _refusing(raw // 1000, null, raw % 1000 != 0, "is finer than a microsecond")
    factor = 1_000_000 if unit == "s" else 1000
    bad = np.abs(raw) > _LARGEST // factor
    return _refusing(np.where(bad, 0, raw) * factor, null, bad, "is out of range")


def _midnights(column: Column, values: pa.Array, dictionary: TextDictionary) -> tuple[Codes, Reasons]:
    days, _ = _dates(column, values, dictionary)
    null, bad = days == NULL, np.abs(days) > _LARGEST // MICROSECONDS_PER_DAY
    return _refusing(np.where(bad, 0, days) * MICROSECONDS_PER_DAY, null, bad & ~null, "is out of range")


def _booleans(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Reasons]:
    codes = _filled(values, False).astype(np.int64)
    codes[_nulls(values)] = NULL
    return codes, {}


_ENCODERS: dict[Kind, tuple[tuple[Callable[[pa.DataType], bool], Encoder], ...]] = {
    Kind.INTEGER: (
        (pa.types.is_integer, _integers),
        (pa.types.is_floating, _whole_floats),
        (pa.types.is_decimal, _decimals),
    ),
    Kind.DECIMAL: (
        (pa.types.is_decimal, _decimals),
        (pa.types.is_integer, _scaled_integers),
        (pa.types.is_floating, _decimal_floats),
    ),
    Kind.FLOAT: ((pa.types.is_floating, _floats), (pa.types.is_integer, _integral_floats)),
    Kind.DATE: ((pa.types.is_date, _dates),),
    Kind.TIMESTAMP: ((pa.types.is_timestamp, _timestamps), (pa.types.is_date, _midnights)),
    Kind.BOOLEAN: ((pa.types.is_boolean, _booleans),),
    Kind.TEXT: ((is_string, _text),),
}


def decode_column(column: Column, codes: Codes, dictionary: TextDictionary) -> pa.Array:
    """The values of the codes, as Arrow."""
    null = codes == NULL
    if column.kind is Kind.TEXT:
        return dictionary.decode(codes)
    filled = np.where(null, 0, codes)
    if column.kind is Kind.FLOAT:
        return pa.array(float_values(filled), mask=null)
    if column.kind is Kind.BOOLEAN:
        return pa.array(filled.astype(bool), mask=null)
    if column.kind is Kind.DECIMAL:
        halves = np.stack([filled, filled >> 63], axis=1)
        whole = pa.Array.from_buffers(column.arrow_type, len(codes), [None, pa.py_buffer(halves)])
        return pc.if_else(pa.array(null), pa.scalar(None, column.arrow_type), whole)
    if column.kind is Kind.DATE:
        return pa.array(filled.astype(np.int32), mask=null).view(pa.date32())
    return pa.array(filled, mask=null).view(column.arrow_type)


def decode_table(schema: Schema, codes: Codes, dictionary: TextDictionary) -> pa.Table:
    """The rows of codes[column, row], as an Arrow table."""
    arrays = [decode_column(column, codes[i], dictionary) for i, column in enumerate(schema.columns)]
    return pa.Table.from_arrays(arrays, names=list(schema.names))


def _nulls(values: pa.Array) -> Mask:
    return values.is_null().to_numpy(zero_copy_only=False) if values.null_count else np.zeros(len(values), dtype=bool)


def _filled(values: pa.Array, with_: object) -> npt.NDArray[Any]:
    full = values.fill_null(with_) if values.null_count else values
    return np.asarray(full.to_numpy(zero_copy_only=False))


def _refusing(codes: Codes, null: Mask, bad: Mask, reason: str) -> tuple[Codes, Reasons]:
    """Codes with null where the value is null or bad; the reason for each bad one."""
    bad = bad & ~null
    if null.any() or bad.any():
        codes = np.where(null | bad, NULL, codes)
    return codes, dict.fromkeys(np.flatnonzero(bad).tolist(), reason)


def _one_by_one(values: pa.Array, code_of: Callable[[object], int | None], reason: str) -> tuple[Codes, Reasons]:
    codes = [NULL if v is None else code_of(v) for v in values.to_pylist()]
    null = np.array([v is None for v in values.to_pylist()], dtype=bool)
    bad = np.array([c is None for c in codes], dtype=bool)
    return _refusing(np.array([c or 0 for c in codes], dtype=np.int64), null, bad, reason)


def _scaled(value: object, scale: int) -> int | None:
    exact = Fraction(str(value)) * 10**scale
    return int(exact) if exact.denominator == 1 and abs(exact) <= int(_LARGEST) else None
