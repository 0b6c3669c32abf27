"""Finds the columns that need more decimal places to hold the numbers of a change exactly.

An integer column widens to decimals, a decimal column to more places. A number that does not fit 64 bits at a scale
that also fits the other numbers of the change widens nothing; the encoder then refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.arrays import numpy_of
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.encode import plain
from holdfast.table.kind import Kind
from holdfast.table.parse import DECIMAL_PATTERN
from holdfast.table.schema import MAX_SCALE, Column, Schema, is_string
from holdfast.table.source import RowsSource, Source

_MAX_CODE = 2**63 - 1


def widened(schema: Schema, source: Source, declared: Collection[str]) -> dict[str, str]:
    """The wider types that columns need, by name. Columns with a declared type never widen.

    O(cells); columns that fit are not copied.

    >>> from holdfast.errors import Location
    >>> prices = Source("t", pa.table({"price": ["1.255", "7"]}), Location("t"), textual=True)
    >>> widened(Schema.of(price="decimal(2)"), prices, ())
    {'price': 'decimal(3)'}
    """
    candidates = [c for c in schema.columns if c.kind in (Kind.INTEGER, Kind.DECIMAL) and c.name not in declared]
    types = {}
    for column, numbers in _too_narrow(source, candidates):
        scale = _scale(column, numbers)
        if scale is not None:
            types[column.name] = f"decimal({scale})"
    return types


def rescaled(codes: Codes, places: int) -> Codes | None:
    """The codes of the same values with `places` more decimal places; None if one does not fit 64 bits.

    >>> rescaled(np.array([12, NULL]), 2).tolist() == [1200, NULL]
    True
    """
    null = codes == NULL
    filled = np.where(null, 0, codes)
    if (np.abs(filled) > _MAX_CODE // 10**places).any():
        return None
    return np.where(null, NULL, filled * 10**places)


def _too_narrow(source: Source, columns: Iterable[Column]) -> Iterator[tuple[Column, set[Fraction]]]:
    """The columns with a number of more decimal places than the column has, and all numbers of these columns."""
    if isinstance(source, RowsSource):
        yield from _too_narrow_for_rows(source, columns)
        return
    for column in columns:
        if column.name in source.table.column_names:
            values = plain(source.table.column(column.name))
            numbers = _numbers_in(values, source.textual)(values, column.scale)
            if numbers is not None:
                yield column, numbers


def _too_narrow_for_rows(source: RowsSource, columns: Iterable[Column]) -> Iterator[tuple[Column, set[Fraction]]]:
    places = {name: place for place, name in enumerate(source.names)}
    for column in columns:
        values = [_cell(row, column.name, places) for row in source.rows]
        numbers = {
            Fraction(v) for v in values if isinstance(v, int) or (isinstance(v, float | Decimal) and _can_fit(v))
        }
        if any(number.denominator != 1 and (number * 10**column.scale).denominator != 1 for number in numbers):
            yield column, numbers


def _cell(row: Any, name: str, places: Mapping[str, int]) -> Any:
    if isinstance(row, Mapping):
        return row.get(name)
    place = places.get(name, len(places))
    return row[place] if isinstance(row, tuple | list) and place < len(row) else None


def _can_fit(value: float | Decimal) -> bool:
    """Whether a number is finite, and neither too large nor too small for every column."""
    if isinstance(value, Decimal):
        return value.is_finite() and abs(value.adjusted()) < 40
    return value == 0 or (math.isfinite(value) and 1e-40 < abs(value) < 1e40)


Numbers = Callable[[pa.ChunkedArray, int], set[Fraction] | None]  # None: all values fit the scale


def _numbers_in(values: pa.ChunkedArray, textual: bool) -> Numbers:
    """The function that extracts the numbers from values of this type."""
    if textual and is_string(values.type):
        return _in_text
    if pa.types.is_decimal(values.type):
        return _in_decimals
    return _in_floats if pa.types.is_floating(values.type) else _in_others


def _in_text(values: pa.ChunkedArray, scale: int) -> set[Fraction] | None:
    more_places = rf"\.[0-9]{{{scale}}}[0-9]*[1-9]"
    if not pc.any(pc.match_substring_regex(values, more_places)).as_py():
        return None
    texts = pc.unique(values).drop_null()
    texts = texts.filter(pc.match_substring_regex(texts, f"^({DECIMAL_PATTERN})$"))
    return {Fraction(text) for text in texts.to_pylist() if len(text) < 100}


def _in_decimals(values: pa.ChunkedArray, scale: int) -> set[Fraction] | None:
    if values.type.scale <= scale:
        return None
    try:
        for chunk in values.chunks:
            chunk.cast(pa.decimal256(76, scale))
    except pa.ArrowInvalid:
        return {Fraction(value) for value in pc.unique(values).drop_null().to_pylist()}
    return None


def _in_floats(values: pa.ChunkedArray, scale: int) -> set[Fraction] | None:
    """A float m / 2^k in lowest terms has k decimal places."""
    has_more_places = False
    for chunk in values.chunks:
        floats = numpy_of(chunk.drop_null()).astype(np.float64)
        floats = floats[np.abs(floats) < 2.0**64]
        has_more_places |= bool((np.ldexp(floats, scale) != np.floor(np.ldexp(floats, scale))).any())
    if not has_more_places:
        return None
    numbers: set[Fraction] = set()
    for chunk in values.chunks:
        floats = np.unique(numpy_of(chunk.drop_null()).astype(np.float64))
        numbers.update(map(Fraction, floats[np.abs(floats) < 2.0**64].tolist()))
    return numbers


def _in_others(_: pa.ChunkedArray, __: int) -> set[Fraction] | None:
    return None


def _scale(column: Column, numbers: set[Fraction]) -> int | None:
    """The largest scale that a number needs, and at which all numbers with no more places fit 64 bits; or None."""
    largest: dict[int, Fraction] = {}  # by the scale that a number needs
    for number in numbers:
        places = _places(number)
        if places is not None and abs(number) * 10 ** max(places, column.scale) <= _MAX_CODE:
            scale = max(places, column.scale)
            largest[scale] = max(largest.get(scale, Fraction(0)), abs(number))
    for scale in sorted((places for places in largest if places > column.scale), reverse=True):
        if max(size for places, size in largest.items() if places <= scale) * 10**scale <= _MAX_CODE:
            return scale
    return None


def _places(number: Fraction) -> int | None:
    """The number of decimal places of a number; None if no column has that many."""
    return next((n for n in range(MAX_SCALE + 1) if 10**n % number.denominator == 0), None)
