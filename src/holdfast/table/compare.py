"""Exact comparison of columns of different kinds, and of columns with literals.

Two numeric columns meet on the coarser of their grids (integers, or decimals of the smaller scale; floats are the
finest): a value m of the coarse grid becomes 2m, a value v of the fine one 2 floor(v) + [v is between two grid
points]. These derived codes have the order of the values and are made for one comparison. A date meets a timestamp
as its midnight UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from holdfast.errors import RuleError, SchemaError, shown
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.encode import MICROSECONDS_PER_DAY
from holdfast.table.floats import float_codes, float_values
from holdfast.table.kind import Kind
from holdfast.table.parse import parse_one
from holdfast.table.schema import Column

LIMIT = 2**61
Literal = bool | Decimal | str | date | datetime


def comparable(left: Column, right: Column) -> bool:
    return left.kind.group == right.kind.group


Form = int | str | None  # how a column's codes are derived: None as they are, a scale, or microseconds
MICROSECONDS = "us"


def meeting(left: Column, right: Column) -> tuple[Form, Form]:
    """In which form the codes of two columns compare as their values do."""
    if not comparable(left, right):
        sides = [f"{shown(c.name)} ({c.type_text})" for c in (left, right)]
        raise SchemaError(f"column {sides[0]} cannot be compared with {sides[1]}")
    if (left.kind, left.scale) == (right.kind, right.scale):
        return None, None
    if left.kind.group == "dates":
        return MICROSECONDS, MICROSECONDS
    scale = min(c.scale for c in (left, right) if c.kind is not Kind.FLOAT)
    return scale, scale


def derived(column: Column, codes: Codes, form: Form) -> Codes:
    """The codes of a column in a form of `meeting`. O(n); decimal against float goes value by value."""
    if form is None:
        return codes
    return _microseconds(column, codes) if isinstance(form, str) else _on_grid(column, codes, form)


def common_codes(left: Column, left_codes: Codes, right: Column, right_codes: Codes) -> tuple[Codes, Codes]:
    """Codes of both columns that compare as the values do.

    >>> whole, half = Column("a", Kind.INTEGER), Column("b", Kind.FLOAT)
    >>> a, b = common_codes(whole, np.array([2, 3]), half, float_codes(np.array([2.0, 2.5])))
    >>> a.tolist(), b.tolist()
    ([4, 6], [4, 5])
    """
    forms = meeting(left, right)
    return derived(left, left_codes, forms[0]), derived(right, right_codes, forms[1])


def _on_grid(column: Column, codes: Codes, scale: int) -> Codes:
    null = codes == NULL
    known = np.where(null, 0, codes)
    if column.kind is Kind.FLOAT:
        doubled = _floats_on_grid(float_values(known), scale)
    elif column.scale == scale:
        doubled = 2 * _limited(column, known)
    else:
        step = 10 ** (column.scale - scale)
        doubled = 2 * (known // step) + (known % step != 0)
    return np.where(null, NULL, doubled)


def _limited(column: Column, codes: Codes) -> Codes:
    beyond = np.flatnonzero(np.abs(codes) > LIMIT)
    if len(beyond):
        value = Decimal(int(codes[beyond[0]])).scaleb(-column.scale)
        raise SchemaError(
            f"column {shown(column.name)}: {value} is too large to be compared exactly with a column of another kind"
        )
    return codes


def _floats_on_grid(values: np.ndarray, scale: int) -> Codes:
    """2 floor(v 10^scale) + [not whole]; beyond the limit of the other side, and NaN, just outside of it."""
    if scale:
        return np.array([_float_on_grid(v, scale) for v in values.tolist()], dtype=np.int64)
    inside = np.abs(values) <= LIMIT
    floor = np.floor(np.where(inside, values, 0.0))
    doubled = 2 * floor.astype(np.int64) + (floor != values)
    outside = np.where(values < 0, -2 * LIMIT - 2, 2 * LIMIT + 2)
    return np.where(inside, doubled, outside)


def _float_on_grid(value: float, scale: int) -> int:
    if not abs(value) <= LIMIT:
        return -2 * LIMIT - 2 if value < 0 else 2 * LIMIT + 2
    exact = Fraction(value) * 10**scale
    floor = exact.numerator // exact.denominator
    doubled: int = 2 * floor + int(exact.denominator != 1)
    return max(-2 * LIMIT - 2, min(2 * LIMIT + 2, doubled))


def _microseconds(column: Column, codes: Codes) -> Codes:
    if column.kind is Kind.TIMESTAMP:
        return codes
    beyond = (codes != NULL) & (np.abs(codes) > (2**63 - 1) // MICROSECONDS_PER_DAY)
    if beyond.any():
        raise SchemaError(f"column {shown(column.name)} has a date that is out of the range of timestamps")
    return np.where(codes == NULL, NULL, codes * MICROSECONDS_PER_DAY)


@dataclass(frozen=True)
class Mark:
    """Where a literal stands among a column's codes: at `code`, or, if not `exact`, just above it."""

    code: int
    exact: bool


def mark(column: Column, literal: Literal, words: TextDictionary | None = None) -> Mark:
    """The place of a literal in the column's order. A number meets a float column as the nearest float.

    >>> mark(Column("age", Kind.INTEGER), Decimal("1.5"))
    Mark(code=1, exact=False)
    """
    if isinstance(literal, str):
        return _text_mark(column, literal, words)
    return _fixed_mark(column, literal, isinstance(literal, bool))


@lru_cache
def _fixed_mark(column: Column, literal: Literal, _: bool) -> Mark:
    """For literals whose place never moves; the third argument tells true from 1."""
    if isinstance(literal, bool):
        return _only(Kind.BOOLEAN, column, literal, int(literal))
    if isinstance(literal, Decimal):
        return _number_mark(column, literal)
    assert not isinstance(literal, str)
    return _moment_mark(column, literal)


def _only(kind: Kind, column: Column, literal: Literal, code: int) -> Mark:
    if column.kind is not kind:
        raise _misfit(column, literal)
    return Mark(code, True)


def _number_mark(column: Column, literal: Decimal) -> Mark:
    if column.kind is Kind.FLOAT:
        return Mark(int(float_codes(np.array([float(literal)]))[0]), True)
    if column.kind not in (Kind.INTEGER, Kind.DECIMAL):
        raise _misfit(column, literal)
    exact = Fraction(literal) * 10**column.scale
    floor = exact.numerator // exact.denominator
    if floor >= 2**63:
        return Mark(2**63 - 1, False)
    if floor <= NULL:
        return Mark(NULL, False)
    return Mark(floor, exact.denominator == 1)


def _text_mark(column: Column, literal: str, words: TextDictionary | None) -> Mark:
    if column.kind is not Kind.TEXT:
        raise _misfit(column, literal)
    if words is None:
        return Mark(0, True)
    code = words.find(literal)
    return Mark(code, True) if code is not None else Mark(NULL, False)


def _moment_mark(column: Column, literal: date | datetime) -> Mark:
    if column.kind is Kind.TIMESTAMP:
        return Mark(parse_one(column, literal.isoformat()), True)
    if column.kind is not Kind.DATE:
        raise _misfit(column, literal)
    if not isinstance(literal, datetime):
        return Mark(parse_one(column, literal.isoformat()), True)
    microseconds = parse_one(Column("", Kind.TIMESTAMP), literal.isoformat())
    return Mark(microseconds // MICROSECONDS_PER_DAY, microseconds % MICROSECONDS_PER_DAY == 0)


def _misfit(column: Column, literal: Literal) -> RuleError:
    return RuleError(f"column {shown(column.name)} is {column.type_text}: it cannot be compared with {shown(literal)}")
