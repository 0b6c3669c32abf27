"""Exact comparison of columns of different kinds, and of columns with literals.

Two numeric columns are compared on the coarser of their grids: integers, or decimals of the smaller scale; floats are
the finest grid. A value m of the coarse grid becomes 2m; a value v of the fine grid becomes
2 floor(v) + [v is between two grid points]. Beyond 2^61, where 2m does not fit 64 bits, floats are the coarser grid,
and both sides become positions among the floats. The derived codes have the order of the values and serve one
comparison only. A date is compared with a timestamp as its midnight UTC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from holdfast.arrays import Flags, Floats
from holdfast.errors import RuleError, SchemaError, shown
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.encoders import MICROSECONDS_PER_DAY
from holdfast.table.floats import float_codes, float_values
from holdfast.table.kind import Kind, LiteralValue
from holdfast.table.parse import parse_one
from holdfast.table.schema import Column

LIMIT = 2**61  # the largest value whose double is a code
_OUTSIDE = 2**63 - 1  # the code of values beyond all codes
_FARTHEST = 2.0**64  # above all integers and decimals


def comparable(left: Column, right: Column) -> bool:
    """Whether values of the two columns can be compared."""
    return left.kind.group == right.kind.group


Form = int | str | None  # of derived codes: None (unchanged), a scale, or MICROSECONDS
MICROSECONDS = "us"


def meeting(left: Column, right: Column) -> tuple[Form, Form]:
    """The forms in which the codes of two columns compare as their values do."""
    if not comparable(left, right):
        sides = [f"{shown(c.name)} ({c.type_text})" for c in (left, right)]
        raise SchemaError(f"column {sides[0]} cannot be compared with {sides[1]}")
    floats = [c.kind is Kind.FLOAT for c in (left, right)]
    if left.kind is not right.kind and left.kind.group == "dates":
        return MICROSECONDS, MICROSECONDS
    if floats[0] == floats[1] and left.scale == right.scale:
        return None, None
    scale = min(c.scale for c in (left, right) if c.kind is not Kind.FLOAT)
    return scale, scale


def derived(column: Column, codes: Codes, form: Form) -> Codes:
    """The codes of a column in a form of `meeting`. O(n); floats compared with decimals are converted one by one."""
    if form is None:
        return codes
    return _microseconds(column, codes) if isinstance(form, str) else _on_grid(column, codes, form)


def common_codes(left: Column, left_codes: Codes, right: Column, right_codes: Codes) -> tuple[Codes, Codes]:
    """Derived codes of two columns that compare as their values do.

    >>> whole, half = Column("a", Kind.INTEGER), Column("b", Kind.FLOAT)
    >>> a, b = common_codes(whole, np.array([2, 3]), half, float_codes(np.array([2.0, 2.5])))
    >>> a.tolist(), b.tolist()
    ([4, 6], [4, 5])
    """
    forms = meeting(left, right)
    return derived(left, left_codes, forms[0]), derived(right, right_codes, forms[1])


def _on_grid(column: Column, codes: Codes, scale: int) -> Codes:
    """2 floor(v) + [v is between grid points], in units of the grid; beyond the limit, the position among floats."""
    null = codes == NULL
    filled = np.where(null, 0, codes)
    if column.kind is Kind.FLOAT:
        doubled = _floats_on_grid(float_values(filled), scale)
    elif column.scale == scale:
        doubled = _grid_points(filled, scale)
    else:
        step = 10 ** (column.scale - scale)
        doubled = 2 * (filled // step) + (filled % step != 0)
    return np.where(null, NULL, doubled)


def _grid_points(codes: Codes, scale: int) -> Codes:
    """2m for each m; beyond the limit, the position among floats."""
    far = np.flatnonzero(np.abs(codes) > LIMIT)
    doubled: Codes = 2 * codes
    if len(far):
        below, between = _floats_below(np.abs(codes[far]), scale)
        doubled[far] = np.sign(codes[far]) * _far(below, between, scale)
    return doubled


def _floats_on_grid(values: Floats, scale: int) -> Codes:
    """2 floor(v) + [v is between grid points]. O(n); one value at a time if the grid has decimals."""
    exact = [Fraction(v) * 10**scale if abs(v) < _FARTHEST else None for v in values.tolist()] if scale else []
    near = np.array([e is not None and abs(e) <= LIMIT for e in exact], bool) if scale else np.abs(values) <= LIMIT
    floor = np.floor(np.where(near, values, 0.0))
    doubled: Codes = 2 * floor.astype(np.int64) + (floor != values)
    if scale:
        doubled[near] = [2 * math.floor(e) + (e.denominator != 1) for e in exact if e is not None and abs(e) <= LIMIT]
    far = values[~near]
    doubled[~near] = np.where(far < 0, -1, 1) * _far(np.abs(far), np.zeros(len(far), bool), scale)
    return doubled


def _far(below: Floats, between: Flags, scale: int) -> Codes:
    """The codes of absolute values beyond the limit.

    `below` is the largest float not above the value; `between` says whether the value lies above that float.
    """
    last = float_codes(_floats_below(np.array([LIMIT]), scale)[0])[0]
    inside = below < _FARTHEST
    away = float_codes(np.where(inside, below, _FARTHEST)) - last
    return np.asarray(np.where(inside, 2 * LIMIT + 2 + 2 * away + between, _OUTSIDE), np.int64)


def _floats_below(codes: Codes, scale: int) -> tuple[Floats, Flags]:
    """For positive codes: the largest float not above the value, and whether the value lies above that float."""
    if scale:
        distinct, inverse = np.unique(codes, return_inverse=True)
        values = [Fraction(code, 10**scale) for code in distinct.tolist()]
        below = [_float_below(value) for value in values]
        between = [value != float_ for value, float_ in zip(values, below, strict=True)]
        return np.array(below)[inverse], np.array(between, bool)[inverse]
    nearest = codes.astype(np.float64)
    above = nearest >= 2.0**63
    above[~above] = nearest[~above].astype(np.int64) > codes[~above]
    whole = np.where(above, np.nextafter(nearest, 0.0), nearest)
    return whole, whole.astype(np.int64) != codes


def _float_below(value: Fraction) -> float:
    nearest = value.numerator / value.denominator
    return nearest if nearest <= value else math.nextafter(nearest, 0.0)


def _microseconds(column: Column, codes: Codes) -> Codes:
    """Dates and timestamps as microseconds.

    A date beyond all timestamps gets the outermost code; the outermost timestamps move inward to make room for it.
    """
    null = codes == NULL
    filled = np.where(null, 0, codes)
    if column.kind is Kind.TIMESTAMP:
        return np.where(null, NULL, np.clip(filled, 1 - _OUTSIDE, _OUTSIDE - 1))
    beyond = np.abs(filled) > _OUTSIDE // MICROSECONDS_PER_DAY
    microseconds = np.where(beyond, 0, filled) * MICROSECONDS_PER_DAY
    return np.where(null, NULL, np.where(beyond, np.sign(filled) * _OUTSIDE, microseconds))


@dataclass(frozen=True)
class Mark:
    """The position of a literal among a column's codes: at `code`, or just above it if not `exact`."""

    code: int
    exact: bool


def mark(column: Column, literal: LiteralValue, dictionary: TextDictionary | None = None) -> Mark:
    """The position of a literal in the column's order. In a float column, a number becomes the nearest float.

    >>> mark(Column("age", Kind.INTEGER), Decimal("1.5"))
    Mark(code=1, exact=False)
    """
    if isinstance(literal, str):
        return _text_mark(column, literal, dictionary)
    return _fixed_mark(column, literal, isinstance(literal, bool))


@lru_cache
def _fixed_mark(column: Column, literal: LiteralValue, _: bool) -> Mark:
    """The position of a literal other than text. The third argument makes true and 1 different cache keys."""
    if isinstance(literal, bool):
        if column.kind is not Kind.BOOLEAN:
            raise _misfit(column, literal)
        return Mark(int(literal), True)
    if isinstance(literal, Decimal):
        return _number_mark(column, literal)
    assert not isinstance(literal, str)
    return _moment_mark(column, literal)


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


def _text_mark(column: Column, literal: str, dictionary: TextDictionary | None) -> Mark:
    if column.kind is not Kind.TEXT:
        raise _misfit(column, literal)
    if dictionary is None:
        return Mark(0, True)
    code = dictionary.find(literal)
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


def _misfit(column: Column, literal: LiteralValue) -> RuleError:
    return RuleError(f"column {shown(column.name)} is {column.type_text}: it cannot be compared with {shown(literal)}")
