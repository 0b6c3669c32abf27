"""Parses text to codes, for sources that hold every value as text (CSV), and infers the kind of a text column.

`parse_one` defines each kind, one value at a time. A faster path through Arrow casts parses whole columns; it is used
if it succeeds for all values. Only distinct values are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.arrays import numpy_of
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.exact_floats import rounded
from holdfast.table.floats import float_codes
from holdfast.table.kind import Kind
from holdfast.table.schema import MAX_SCALE, Column, Refusals, more_places, text_or_float

_INTEGER = r"-?(0|[1-9][0-9]*)"
DECIMAL_PATTERN = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?"
_FLOAT = r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?|[Nn]a[Nn]|-?([Ii]nf|[Ii]nfinity)"
_BOOLEAN = r"true|false|True|False|TRUE|FALSE"
_YEAR = r"([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"  # year 0 does not exist
_DATE = _YEAR + r"-[0-9]{2}-[0-9]{2}"
_TIMESTAMP = _DATE + r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[-+][0-9]{2}:?[0-9]{2})?)?"
_MAX_CODE = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAFE_DIGITS = 18  # fit 64 bits
_MAX_PARSED_DIGITS = 40  # with a sign, more than any 64-bit number has


class Unreadable(ValueError):
    """Text that is not a value of the column's kind. The message continues the quoted text: "'12x' ..."."""


def parse_strings(
    column: Column, strings: pa.Array | pa.ChunkedArray, *, rounding: bool = False
) -> tuple[Codes, Refusals]:
    """The codes of the strings parsed as the column's kind, and the refusals of unreadable strings.

    With `rounding`, a number that is not exactly a 64-bit float becomes the nearest one.
    """
    chunks = strings.chunks if isinstance(strings, pa.ChunkedArray) else [strings]
    encoded = pa.chunked_array(chunks, strings.type).dictionary_encode()
    distinct = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], strings.type)
    codes, refusals = _parse_distinct(column, distinct, rounding)
    codes = np.append(codes, NULL)
    indices = [numpy_of(chunk.indices.fill_null(len(distinct))) for chunk in encoded.chunks]
    places = np.concatenate([*indices, np.zeros(0, np.int32)])
    refused_rows = np.flatnonzero(np.isin(places, list(refusals))) if refusals else ()
    return codes[places], {int(row): refusals[int(places[row])] for row in refused_rows}


def _parse_distinct(column: Column, texts: pa.Array, rounding: bool) -> tuple[Codes, Refusals]:
    codes = _fast(column, texts)
    refusals: Refusals = {}
    if codes is None:
        codes, refusals = _one_by_one(column, texts)
    if column.kind is Kind.FLOAT and not rounding:
        inexact = rounded(texts, codes)
        codes[list(inexact)] = NULL
        refusals |= {place: f"{reason}; {text_or_float(column.name)}" for place, reason in inexact.items()}
    return codes, refusals


def _one_by_one(column: Column, texts: pa.Array) -> tuple[Codes, Refusals]:
    codes, refusals = np.full(len(texts), NULL, dtype=np.int64), {}
    for i, text in enumerate(texts.to_pylist()):
        try:
            codes[i] = parse_one(column, text)
        except Unreadable as error:
            refusals[i] = str(error)
    return codes, refusals


def parse_one(column: Column, text: str) -> int:
    """The code of one text; raises Unreadable. A number in a float column becomes the nearest float.

    >>> parse_one(Column("price", Kind.DECIMAL, 2), "-1.5")
    -150
    """
    return _PARSERS[column.kind](column, text)


def _integer(column: Column, text: str) -> int:
    """An integer, also written as a decimal such as `1.0`."""
    _require(DECIMAL_PATTERN, text, "is not an integer")
    places = len(text.partition(".")[2].rstrip("0"))
    if places:
        raise Unreadable(f"is not an integer; {more_places(column.name, places)}")
    return _fitting(column, text, 0, "does not fit a 64-bit integer")


def _decimal(column: Column, text: str) -> int:
    _require(DECIMAL_PATTERN, text, "is not a decimal number")
    places = len(text.partition(".")[2].rstrip("0"))
    if places > column.scale:
        raise Unreadable(f"has more than {column.scale} decimal places; {more_places(column.name, places)}")
    return _fitting(column, text, places, f"does not fit 64 bits with {column.scale} decimal places")


def _float(_: Column, text: str) -> int:
    _require(_FLOAT, text, "is not a number")
    value = float(text)
    if abs(value) in (0.0, float("inf")) and _has_nonzero_digit(text):
        raise Unreadable("is too large or too small for a 64-bit float")
    return int(float_codes(np.array([value]))[0])


def _has_nonzero_digit(text: str) -> bool:
    """Whether a text that a float rounds to zero or infinity is another number."""
    mantissa = re.split("[eE]", text)[0]
    return any(digit in "123456789" for digit in mantissa)


def _boolean(_: Column, text: str) -> int:
    _require(_BOOLEAN, text, "is not true or false")
    return int(text.lower() == "true")


def _date(_: Column, text: str) -> int:
    _require(_DATE, text, "is not a date (YYYY-MM-DD)")
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH.toordinal()
    except ValueError:
        raise Unreadable("is not a date of the calendar") from None


def _timestamp(_: Column, text: str) -> int:
    _require(_TIMESTAMP, text, "is not an ISO timestamp (YYYY-MM-DDTHH:MM:SS, at most microseconds)")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Unreadable("is not a time of the calendar") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


_PARSERS: dict[Kind, Callable[[Column, str], int]] = {
    Kind.INTEGER: _integer,
    Kind.DECIMAL: _decimal,
    Kind.FLOAT: _float,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
}


def _require(pattern: str, text: str, reason: str) -> None:
    if not re.fullmatch(pattern, text):
        raise Unreadable(reason)


def _fitting(column: Column, text: str, places: int, reason: str) -> int:
    """The number times 10^scale. Digits are counted first, because Python refuses to parse very long integers."""
    whole, _, fraction = text.partition(".")
    digits = whole + fraction[:places] + "0" * (column.scale - places)
    if len(digits) > _MAX_PARSED_DIGITS or abs(int(digits)) > _MAX_CODE:
        raise Unreadable(f"{reason}; {text_or_float(column.name)}")
    return int(digits)


def _fast(column: Column, texts: pa.Array) -> Codes | None:
    """The codes of all texts by Arrow casts; None if a text must be parsed by definition."""
    pattern = _PATTERNS[column.kind]
    if not _all_match(pattern, texts):
        return None
    try:
        return _FAST[column.kind](column, texts)
    except pa.ArrowInvalid:
        return None


def _fast_integers(_: Column, texts: pa.Array) -> Codes | None:
    if _longest(texts) > _SAFE_DIGITS:
        return None
    return numpy_of(texts.cast(pa.int64()))


def _fast_decimals(column: Column, texts: pa.Array) -> Codes | None:
    if _longest(texts) > _SAFE_DIGITS:
        return None
    scaled = texts.cast(pa.decimal128(38, column.scale))
    words = np.frombuffer(scaled.buffers()[1], dtype=np.int64).reshape(-1, 2)[: len(texts)]
    fits = (words[:, 1] == words[:, 0] >> 63).all() and (words[:, 0] != NULL).all()
    return words[:, 0].copy() if fits else None


def _fast_floats(_: Column, texts: pa.Array) -> Codes | None:
    values = numpy_of(texts.cast(pa.float64()))
    extreme = texts.filter(pa.array((values == 0) | np.isinf(values)))
    return None if any(_has_nonzero_digit(text) for text in extreme.to_pylist()) else float_codes(values)


def _fast_booleans(_: Column, texts: pa.Array) -> Codes | None:
    return numpy_of(pc.equal(pc.utf8_lower(texts), "true")).astype(np.int64)


def _fast_dates(_: Column, texts: pa.Array) -> Codes | None:
    return numpy_of(texts.cast(pa.date32()).view(pa.int32())).astype(np.int64)


def _fast_timestamps(_: Column, texts: pa.Array) -> Codes | None:
    for type_ in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            return numpy_of(texts.cast(type_).view(pa.int64()))
        except pa.ArrowInvalid:
            continue
    return None


_FAST: dict[Kind, Callable[[Column, pa.Array], Codes | None]] = {
    Kind.INTEGER: _fast_integers,
    Kind.DECIMAL: _fast_decimals,
    Kind.FLOAT: _fast_floats,
    Kind.BOOLEAN: _fast_booleans,
    Kind.DATE: _fast_dates,
    Kind.TIMESTAMP: _fast_timestamps,
}
_PATTERNS = {
    Kind.INTEGER: _INTEGER,
    Kind.DECIMAL: DECIMAL_PATTERN,
    Kind.FLOAT: _FLOAT,
    Kind.BOOLEAN: _BOOLEAN,
    Kind.DATE: _DATE,
    Kind.TIMESTAMP: _TIMESTAMP,
}


def infer_column(name: str, strings: pa.ChunkedArray) -> Column:
    """The column with the kind that all its values have: the first that fits of integer, decimal, float, date,
    timestamp, boolean; else text. Numbers with leading zeros are text; so is a column of nulls.

    Decimals that do not fit 64 bits at their scale are floats. Encoding then refuses values that no float represents
    exactly.

    >>> infer_column("zip", pa.chunked_array([["01234", "99999"]])).kind
    <Kind.TEXT: 'text'>
    >>> infer_column("rate", pa.chunked_array([["1.5", "2", "0.25"]])).type_text
    'decimal(2)'
    """
    texts = pc.unique(strings).drop_null()
    if len(texts) == 0:
        return Column(name, Kind.TEXT)
    if _all_match(_INTEGER, texts):
        return Column(name, Kind.INTEGER)
    if _all_match(DECIMAL_PATTERN, texts):
        return _decimal_or_float(name, texts)
    for kind in (Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP, Kind.BOOLEAN):
        column = Column(name, kind)
        if _all_match(_PATTERNS[kind], texts) and not _parse_distinct(column, texts, rounding=True)[1]:
            return column
    return Column(name, Kind.TEXT)


def decimal_scale(texts: pa.Array) -> int:
    """The largest number of decimal places among the texts, without trailing zeros."""
    places = pc.utf8_length(pc.replace_substring_regex(texts, r"^[^.]*\.?|0+$", ""))
    return int(pc.max(pc.if_else(pc.match_substring(texts, "."), places, 0)).as_py() or 0)


def _decimal_or_float(name: str, texts: pa.Array) -> Column:
    """A decimal column if its values fit 64 bits at their scale, else a float column."""
    scale = decimal_scale(texts)
    column = Column(name, Kind.DECIMAL, min(scale, MAX_SCALE))
    fits = scale <= MAX_SCALE and not _parse_distinct(column, texts, rounding=True)[1]
    return column if fits else Column(name, Kind.FLOAT)


def _all_match(pattern: str, texts: pa.Array) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, f"^({pattern})$"), min_count=0).as_py())


def _longest(texts: pa.Array) -> int:
    return int(pc.max(pc.utf8_length(texts)).as_py() or 0)
