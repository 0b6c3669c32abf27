"""Exact comparison of columns of different kinds, and of columns with literals.

Two numeric columns meet on the coarser of their grids (integers, or decimals of the smaller scale; floats are the
finest): a value m of the coarse grid becomes 2m, a value v of the fine one 2 floor(v) + [v is between two grid
points]. Beyond 2^61, where 2m would not fit, floats are the coarser grid, and both sides take their places among them.
These derived codes have the order of the values and are made for one comparison. A date meets a timestamp as its
midnight UTC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from holdfast.errors import RuleError, SchemaError, shown
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.encode import MICROSECONDS_PER_DAY
from holdfast.table.floats import float_codes, float_values
from holdfast.table.kind import Kind
from holdfast.table.parse import parse_one
from holdfast.table.schema import Column

LIMIT = 2**61
_OUTSIDE = 2**63 - 1
_FARTHEST = 2.0**64  # above all integers and decimals
Floats = npt.NDArray[np.float64]
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
    floats = [c.kind is Kind.FLOAT for c in (left, right)]
    if left.kind is not right.kind and left.kind.group == "dates":
        return MICROSECONDS, MICROSECONDS
    if floats[0] == floats[1] and left.scale == right.scale:
        return None, None
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
    """2 floor(v) + [v is between grid points], in units of the grid; or, beyond the limit, the place among floats."""
    null = codes == NULL
    known = np.where(null, 0, codes)
    if column.kind is Kind.FLOAT:
        doubled = _floats_on_grid(float_values(known), scale)
    elif column.scale == scale:
        doubled = _grid_points(known, scale)
    else:
        step = 10 ** (column.scale - scale)
        doubled = 2 * (known // step) + (known % step != 0)
    return np.where(null, NULL, doubled)


def _grid_points(codes: Codes, scale: int) -> Codes:
    far = np.flatnonzero(np.abs(codes) > LIMIT)
    doubled: Codes = 2 * codes
    if len(far):
        below, between = _floats_below(np.abs(codes[far]), scale)
        doubled[far] = np.sign(codes[far]) * _far(below, between, scale)
    return doubled


def _floats_on_grid(values: Floats, scale: int) -> Codes:
    """O(n); value by value where the grid has decimals."""
    exact = [Fraction(v) * 10**scale if abs(v) < _FARTHEST else None for v in values.tolist()] if scale else []
    near = np.array([e is not None and abs(e) <= LIMIT for e in exact], bool) if scale else np.abs(values) <= LIMIT
    floor = np.floor(np.where(near, values, 0.0))
    doubled: Codes = 2 * floor.astype(np.int64) + (floor != values)
    if scale:
        doubled[near] = [2 * math.floor(e) + (e.denominator != 1) for e in exact if e is not None and abs(e) <= LIMIT]
    far = values[~near]
    doubled[~near] = np.where(far < 0, -1, 1) * _far(np.abs(far), np.zeros(len(far), bool), scale)
    return doubled


def _far(below: Floats, between: npt.NDArray[np.bool_], scale: int) -> Codes:
    """The places of sizes beyond the limit, by the largest float that is not above each, and whether it is below it."""
    last = float_codes(_floats_below(np.array([LIMIT]), scale)[0])[0]
    inside = below < _FARTHEST
    away = float_codes(np.where(inside, below, _FARTHEST)) - last
    return np.asarray(np.where(inside, 2 * LIMIT + 2 + 2 * away + between, _OUTSIDE), np.int64)


def _floats_below(codes: Codes, scale: int) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """For positive codes of a scale: the largest float that is not above the value, and whether it is not the value."""
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
    """Days that no timestamp reaches are beyond all of them: the first and last timestamps move to make room."""
    null, known = codes == NULL, np.where(codes == NULL, 0, codes)
    if column.kind is Kind.TIMESTAMP:
        return np.where(null, NULL, np.clip(known, 1 - _OUTSIDE, _OUTSIDE - 1))
    beyond = np.abs(known) > _OUTSIDE // MICROSECONDS_PER_DAY
    microseconds = np.where(beyond, 0, known) * MICROSECONDS_PER_DAY
    return np.where(null, NULL, np.where(beyond, np.sign(known) * _OUTSIDE, microseconds))


@dataclass(frozen=True)
class Mark:
    """Where a literal stands among a column's codes: at `code`, or, if not `exact`, just above it."""

    code: int
    exact: bool


def mark(column: Column, literal: Literal, dictionary: TextDictionary | None = None) -> Mark:
    """The place of a literal in the column's order. A number meets a float column as the nearest float.

    >>> mark(Column("age", Kind.INTEGER), Decimal("1.5"))
    Mark(code=1, exact=False)
    """
    if isinstance(literal, str):
        return _text_mark(column, literal, dictionary)
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


def _misfit(column: Column, literal: Literal) -> RuleError:
    return RuleError(f"column {shown(column.name)} is {column.type_text}: it cannot be compared with {shown(literal)}")
