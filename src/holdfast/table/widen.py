"""Which columns need more decimal places to hold the numbers of a change exactly.

An integer column widens to decimals, a decimal column to more of them. A number that no decimal of 64 bits holds beside
the others of the change widens nothing: it is left to the encoder, which refuses it by name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.table.dictionary import NULL, Codes
from holdfast.table.encode import plain
from holdfast.table.kind import Kind
from holdfast.table.parse import DECIMAL_PATTERN
from holdfast.table.read import RowsSource, Source
from holdfast.table.schema import LARGEST_SCALE, Column, Schema, is_string

_LARGEST = 2**63 - 1


def widened(schema: Schema, source: Source, declared: Collection[str]) -> dict[str, str]:
    """The types that columns need, by name; nothing for those that fit, or whose type was declared. O(cells), and no
    copy of columns that fit.

    >>> from holdfast.errors import Location
    >>> prices = Source("t", pa.table({"price": ["1.255", "7"]}), Location("t"), textual=True)
    >>> widened(Schema.of(price="decimal(2)"), prices, ())
    {'price': 'decimal(3)'}
    """
    chosen = [c for c in schema.columns if c.kind in (Kind.INTEGER, Kind.DECIMAL) and c.name not in declared]
    made = {}
    for column, numbers in _longer(source, chosen):
        scale = _scale(column, numbers)
        if scale is not None:
            made[column.name] = f"decimal({scale})"
    return made


def rescaled(codes: Codes, places: int) -> Codes | None:
    """The codes of the same values with more decimal places; None where one would not fit 64 bits.

    >>> rescaled(np.array([12, NULL]), 2).tolist() == [1200, NULL]
    True
    """
    null = codes == NULL
    known = np.where(null, 0, codes)
    if (np.abs(known) > _LARGEST // 10**places).any():
        return None
    return np.where(null, NULL, known * 10**places)


def _longer(source: Source, columns: Iterable[Column]) -> Iterator[tuple[Column, set[Fraction]]]:
    """The columns of which some number has more places than fit, with all their numbers."""
    if isinstance(source, RowsSource):
        yield from _longer_rows(source, columns)
        return
    for column in columns:
        if column.name in source.table.column_names:
            values = plain(source.table.column(column.name))
            numbers = _NUMBERS[_form(values.type, source.textual)](values, column.scale)
            if numbers is not None:
                yield column, numbers


def _longer_rows(source: RowsSource, columns: Iterable[Column]) -> Iterator[tuple[Column, set[Fraction]]]:
    places = {name: place for place, name in enumerate(source.names)}
    for column in columns:
        values = [_cell(row, column.name, places) for row in source.rows]
        numbers = {
            Fraction(v) for v in values if isinstance(v, int) or (isinstance(v, float | Decimal) and _is_finite(v))
        }
        if any(number.denominator != 1 and (number * 10**column.scale).denominator != 1 for number in numbers):
            yield column, numbers


def _cell(row: Any, name: str, places: Mapping[str, int]) -> Any:
    if isinstance(row, Mapping):
        return row.get(name)
    place = places.get(name, len(places))
    return row[place] if isinstance(row, tuple | list) and place < len(row) else None


def _is_finite(value: float | Decimal) -> bool:
    """And not so large or small that no column could hold it."""
    if isinstance(value, Decimal):
        return value.is_finite() and abs(value.adjusted()) < 40
    return value == 0 or (math.isfinite(value) and 1e-40 < abs(value) < 1e40)


def _form(type_: pa.DataType, textual: bool) -> str:
    if textual and is_string(type_):
        return "text"
    return "decimal" if pa.types.is_decimal(type_) else "float" if pa.types.is_floating(type_) else "other"


def _in_text(values: pa.ChunkedArray, scale: int) -> set[Fraction] | None:
    longer = rf"\.[0-9]{{{scale}}}[0-9]*[1-9]"
    if not pc.any(pc.match_substring_regex(values, longer)).as_py():
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
    numbers: set[Fraction] = set()
    longer = False
    for chunk in values.chunks:
        floats = chunk.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
        floats = floats[np.abs(floats) < 2.0**64]
        longer |= bool((np.ldexp(floats, scale) != np.floor(np.ldexp(floats, scale))).any())
    if not longer:
        return None
    for chunk in values.chunks:
        floats = np.unique(chunk.drop_null().to_numpy(zero_copy_only=False).astype(np.float64))
        numbers.update(map(Fraction, floats[np.abs(floats) < 2.0**64].tolist()))
    return numbers


def _in_others(_: pa.ChunkedArray, __: int) -> set[Fraction] | None:
    return None


_NUMBERS = {"text": _in_text, "decimal": _in_decimals, "float": _in_floats, "other": _in_others}


def _scale(column: Column, numbers: set[Fraction]) -> int | None:
    """The most places that some number needs and at which every number fits that has no more of them."""
    largest: dict[int, Fraction] = {}
    for number in numbers:
        places = _places(number)
        if places is not None and abs(number) * 10 ** max(places, column.scale) <= _LARGEST:
            least = max(places, column.scale)
            largest[least] = max(largest.get(least, Fraction(0)), abs(number))
    for scale in sorted((places for places in largest if places > column.scale), reverse=True):
        if max(size for places, size in largest.items() if places <= scale) * 10**scale <= _LARGEST:
            return scale
    return None


def _places(number: Fraction) -> int | None:
    """How many decimal places a number has; None if they are more than a column can have."""
    return next((n for n in range(LARGEST_SCALE + 1) if 10**n % number.denominator == 0), None)
