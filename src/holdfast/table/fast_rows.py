"""Encodes a few rows of plain Python values without Arrow, whose overhead dominates changes of a single row.

Only values of exactly the column's Python type are encoded. Anything else is left to `encode_table`, which supports
all types and explains refusals. Both give the same codes (tested).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np

from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema

MAX_FAST_ROWS = 16

_MAX_CODE = (1 << 63) - 1
_NAN_CODE = 0x7FF8000000000000
_EPOCH, _EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1).toordinal()

Encode = Callable[[object], int | None]  # None: not a plain value


class FewRows:
    """Encodes rows of one schema.

    >>> few = FewRows(Schema.of(id="integer", price="decimal(2)", name="text"), TextDictionary())
    >>> few.encode([(7, Decimal("1.5"), "x")]).T.tolist()
    [[7, 150, 0]]
    >>> few.encode([("7", None, "x")]) is None
    True
    """

    def __init__(self, schema: Schema, dictionary: TextDictionary) -> None:
        self._dictionary, self._width = dictionary, len(schema)
        self._encoders = [None if c.kind is Kind.TEXT else _encoder(c) for c in schema.columns]

    def encode(self, rows: Sequence[tuple[object, ...]]) -> Codes | None:
        """codes[column, row]; None if a value is not plain. Then no text is added to the dictionary."""
        codes: list[int] = []
        texts: list[str] = []
        places: list[int] = []
        for row in rows:
            for encode, value in zip(self._encoders, row, strict=True):
                if value is None:
                    codes.append(NULL)
                elif encode is not None:
                    code = encode(value)
                    if code is None:
                        return None
                    codes.append(code)
                elif type(value) is str:
                    places.append(len(codes))
                    texts.append(value)
                    codes.append(0)
                else:
                    return None
        flat = np.array(codes, np.int64)
        if texts:
            text_codes = self._dictionary.encode_texts(texts)
            if text_codes is None:
                return None
            flat[places] = text_codes
        return np.ascontiguousarray(flat.reshape(len(rows), self._width).T)


def _encoder(column: Column) -> Encode:
    if column.kind is Kind.DECIMAL:
        return _decimals(10**column.scale)
    return _ENCODERS[column.kind]


def _integer(value: object) -> int | None:
    return value if type(value) is int and -_MAX_CODE <= value <= _MAX_CODE else None


def _float(value: object) -> int | None:
    if type(value) is not float:
        return None
    if value != value:
        return _NAN_CODE
    (bits,) = struct.unpack("<q", struct.pack("<d", value + 0.0))
    return bits ^ _MAX_CODE if bits < 0 else int(bits)


def _boolean(value: object) -> int | None:
    return int(value) if type(value) is bool else None


def _date(value: object) -> int | None:
    return value.toordinal() - _EPOCH_DAY if type(value) is date else None


def _timestamp(value: object) -> int | None:
    if type(value) is not datetime:
        return None
    since = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _decimals(factor: int) -> Encode:
    def encode(value: object) -> int | None:
        if type(value) is not Decimal or not value.is_finite() or abs(value.adjusted()) > 40:
            return None
        numerator, denominator = value.as_integer_ratio()
        scaled, rest = divmod(numerator * factor, denominator)
        return scaled if rest == 0 and abs(scaled) <= _MAX_CODE else None

    return encode


_ENCODERS: dict[Kind, Encode] = {
    Kind.INTEGER: _integer,
    Kind.FLOAT: _float,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
}
