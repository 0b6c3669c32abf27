"""Encoders of Arrow arrays: for each column kind, the Arrow types that fit it and how their values become codes.

An encoder returns codes and refusals. Nothing is rounded, clipped or dropped: a value without an exact code is
refused, and its code is null.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.arrays import Flags, numpy_of
from holdfast.errors import SchemaError, shown
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.floats import float_codes
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Refusals, as_float, is_string, more_places, text_or_float, value_type

MAX_CODE = np.int64(0x7FFFFFFFFFFFFFFF)
MICROSECONDS_PER_DAY = 86_400_000_000
_MILLISECONDS_PER_DAY = 86_400_000

Encoder = Callable[[Column, pa.Array, TextDictionary], tuple[Codes, Refusals]]


def encoder_of(column: Column, type_: pa.DataType) -> Encoder:
    """The encoder of an Arrow type into a column; SchemaError if the type does not fit the column's kind."""
    type_ = value_type(type_)
    if pa.types.is_null(type_):
        return encode_nulls
    for test, encoder in _ENCODERS[column.kind]:
        if test(type_):
            return encoder
    raise SchemaError(f"column {shown(column.name)} is {column.type_text}, but the input has the type {type_}")


def encode_nulls(_: Column, values: pa.Array, __: TextDictionary) -> tuple[Codes, Refusals]:
    return np.full(len(values), NULL, dtype=np.int64), {}


def encode_text(_: Column, values: pa.Array, dictionary: TextDictionary) -> tuple[Codes, Refusals]:
    return _categories(values, dictionary) if pa.types.is_dictionary(values.type) else dictionary.encode(values), {}


def _categories(values: pa.DictionaryArray, dictionary: TextDictionary) -> Codes:
    """The codes of categorical text. Each category that occurs is encoded once. O(rows + categories)."""
    null, places = _nulls(values.indices), _filled(values.indices, 0).astype(np.int64, copy=False)
    used = places[~null][::-1] if null.any() else places[::-1]
    first = np.full(len(values.dictionary), -1, dtype=np.int64)
    first[used] = np.arange(len(used) - 1, -1, -1)
    occurring = np.flatnonzero(first >= 0)
    occurring = occurring[np.argsort(first[occurring])]
    codes = np.full(len(first) + 1, NULL, dtype=np.int64)
    codes[occurring] = dictionary.encode(values.dictionary.take(pa.array(occurring)))
    return codes[np.where(null, len(first), places)]


def _integers(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Refusals]:
    null = _nulls(values)
    if pa.types.is_uint64(values.type):
        raw = _filled(values, 0)
        reason = f"does not fit a 64-bit integer; {text_or_float(column.name)}"
        return _refusing(raw.view(np.int64), null, raw > np.uint64(MAX_CODE), reason)
    codes = _filled(values, 0).astype(np.int64, copy=False)
    reason = f"is the one 64-bit integer that stands for null here; {text_or_float(column.name)}"
    return _refusing(codes, null, codes == NULL, reason)


def _whole_floats(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Refusals]:
    null, raw = _nulls(values), _filled(values, 0.0).astype(np.float64)
    bad = ~(np.floor(raw) == raw) | ~(np.abs(raw) < 2.0**63)
    reason = f"is not a 64-bit integer; {as_float(column.name)}"
    return _refusing(np.where(bad, 0.0, raw).astype(np.int64), null, bad, reason)


def _decimal_floats(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Refusals]:
    """Floats in a decimal column: x 10^s is x 2^s, which must be whole, times 5^s."""
    null, raw = _nulls(values), _filled(values, 0.0).astype(np.float64)
    with np.errstate(over="ignore"):  # to infinity, which is refused as too large
        binary = np.ldexp(raw, column.scale)
    bad = ~(np.floor(binary) == binary) | ~(np.abs(binary) < 2.0**63)
    whole = np.where(bad, 0.0, binary).astype(np.int64)
    bad |= np.abs(whole) > MAX_CODE // 5**column.scale
    reason = f"is not exactly a decimal with {column.scale} places and 64 bits; {as_float(column.name)}"
    return _refusing(np.where(bad, 0, whole) * 5**column.scale, null, bad, reason)


def _decimals(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Refusals]:
    """Decimals at the column's scale; in an integer column, whole decimals."""
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


def _scaled_integers(column: Column, values: pa.Array, dictionary: TextDictionary) -> tuple[Codes, Refusals]:
    codes, refusals = _integers(column, values, dictionary)
    factor = 10**column.scale
    null = codes == NULL
    bad = ~null & (np.abs(codes) > MAX_CODE // factor)
    scaled, too_large = _refusing(np.where(bad | null, 0, codes) * factor, null, bad, _too_large(column))
    return scaled, refusals | too_large


def _too_large(column: Column) -> str:
    return f"does not fit 64 bits with {column.scale} decimal places; {text_or_float(column.name)}"


def _floats(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Refusals]:
    codes = float_codes(_filled(values, 0.0).astype(np.float64))
    codes[_nulls(values)] = NULL
    return codes, {}


def _integral_floats(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Refusals]:
    null, raw = _nulls(values), _filled(values, 0)
    floats = raw.astype(np.float64)
    big = np.abs(floats) >= 2.0**53
    bad = big.copy()
    bad[big] = [int(f) != int(i) for f, i in zip(floats[big], raw[big], strict=True)]
    return _refusing(float_codes(floats), null, bad, "has no exact 64-bit float")


def _dates(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Refusals]:
    null = _nulls(values)
    if pa.types.is_date64(values.type):
        raw = _filled(values.view(pa.int64()), 0)
        is_part = raw % _MILLISECONDS_PER_DAY != 0
        return _refusing(raw // _MILLISECONDS_PER_DAY, null, is_part, "is not a whole day")
    codes = _filled(values.view(pa.int32()), 0).astype(np.int64)
    codes[null] = NULL
    return codes, {}


def _timestamps(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Refusals]:
    null = _nulls(values)
    raw = _filled(values.view(pa.int64()), 0)
    unit = values.type.unit
    if unit == "us":
        return _refusing(raw, null, raw == NULL, "is out of range")
    if unit == "ns":
        return _refusing(raw // 1000, null, raw % 1000 != 0, "is finer than a microsecond")
    factor = 1_000_000 if unit == "s" else 1000
    bad = np.abs(raw) > MAX_CODE // factor
    return _refusing(np.where(bad, 0, raw) * factor, null, bad, "is out of range")


def _midnights(column: Column, values: pa.Array, dictionary: TextDictionary) -> tuple[Codes, Refusals]:
    days, _ = _dates(column, values, dictionary)
    null, bad = days == NULL, np.abs(days) > MAX_CODE // MICROSECONDS_PER_DAY
    return _refusing(np.where(bad, 0, days) * MICROSECONDS_PER_DAY, null, bad & ~null, "is out of range")


def _booleans(column: Column, values: pa.Array, _: TextDictionary) -> tuple[Codes, Refusals]:
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
    Kind.TEXT: ((is_string, encode_text),),
}


def _nulls(values: pa.Array) -> Flags:
    return numpy_of(values.is_null()) if values.null_count else np.zeros(len(values), dtype=bool)


def _filled(values: pa.Array, default: object) -> npt.NDArray[Any]:
    """The values with nulls replaced."""
    filled = values.fill_null(default) if values.null_count else values
    return numpy_of(filled)


def _refusing(codes: Codes, null: Flags, bad: Flags, reason: str) -> tuple[Codes, Refusals]:
    """Codes with null for null and bad values, and a refusal for each bad value."""
    bad = bad & ~null
    if null.any() or bad.any():
        codes = np.where(null | bad, NULL, codes)
    return codes, dict.fromkeys(np.flatnonzero(bad).tolist(), reason)


def _one_by_one(values: pa.Array, code_of: Callable[[object], int | None], reason: str) -> tuple[Codes, Refusals]:
    python_values = values.to_pylist()
    codes = [NULL if v is None else code_of(v) for v in python_values]
    null = np.array([v is None for v in python_values], dtype=bool)
    bad = np.array([c is None for c in codes], dtype=bool)
    return _refusing(np.array([c or 0 for c in codes], dtype=np.int64), null, bad, reason)


def _scaled(value: object, scale: int) -> int | None:
    exact = Fraction(str(value)) * 10**scale
    return int(exact) if exact.denominator == 1 and abs(exact) <= int(MAX_CODE) else None
