"""Identities of values: pairs of integers that are equal exactly if the values are, whatever their columns' kinds.

An identity is (number, space). Whole numbers of all kinds share a space. A fraction is the float that equals it; if
no float does, its decimal digits at the smallest scale. A date is its midnight UTC. Text, booleans, moments and
numbers have separate spaces, so columns of different groups never share a value.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Flags
from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.table.encoders import MICROSECONDS_PER_DAY
from holdfast.table.floats import float_codes, float_values
from holdfast.table.kind import Kind
from holdfast.table.schema import Column

Spaces = npt.NDArray[np.int16]
WHOLE, FLOAT, TEXT, BOOLEAN, MOMENT, DAY, DECIMAL = 0, 1, 2, 3, 4, 5, 100  # a decimal of scale s: DECIMAL + s
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def identities(column: Column, codes: Codes) -> tuple[Codes, Spaces]:
    """The identities (numbers, spaces) of codes without nulls. O(n x scale).

    >>> half = Column("h", Kind.DECIMAL, 2)
    >>> numbers, spaces = identities(half, np.array([200, 250, 201]))
    >>> numbers[0].item(), spaces.tolist()
    (2, [0, 1, 102])
    """
    if column.kind is Kind.DECIMAL:
        return _decimals(codes, column.scale)
    if column.kind is Kind.FLOAT:
        return _floats(codes)
    if column.kind is Kind.DATE:
        fits = np.abs(codes) <= (2**63 - 1) // MICROSECONDS_PER_DAY
        return np.where(fits, np.where(fits, codes, 0) * MICROSECONDS_PER_DAY, codes), _spaces(fits, MOMENT, DAY)
    return codes, np.full(len(codes), _PLAIN[column.kind], np.int16)


_PLAIN = {Kind.INTEGER: WHOLE, Kind.TEXT: TEXT, Kind.BOOLEAN: BOOLEAN, Kind.TIMESTAMP: MOMENT}


def _spaces(condition: Flags, if_true: int, if_false: int) -> Spaces:
    return np.where(condition, if_true, if_false).astype(np.int16)


def _floats(codes: Codes) -> tuple[Codes, Spaces]:
    values = float_values(codes)
    whole = np.isfinite(values) & (np.floor(values) == values) & (values >= -(2.0**63)) & (values < 2.0**63)
    whole &= values != -(2.0**63)  # would be the code of null
    return np.where(whole, np.where(whole, values, 0.0).astype(np.int64), codes), _spaces(whole, WHOLE, FLOAT)


def _decimals(codes: Codes, scale: int) -> tuple[Codes, Spaces]:
    digits, scales = codes.copy(), np.full(len(codes), scale, np.int64)
    for _ in range(scale):
        shorter = (scales > 0) & (digits % 10 == 0)
        digits[shorter] //= 10
        scales[shorter] -= 1
    spaces = np.where(scales == 0, WHOLE, DECIMAL + scales).astype(np.int16)
    for s in range(1, scale + 1):  # c / 10^s is a float iff 5^s divides c and the quotient fits 53 bits
        fives = 5**s
        divisible = np.flatnonzero((scales == s) & (digits % fives == 0)) if fives < 2**63 else np.zeros(0, np.int64)
        quotient = digits[divisible] // fives
        fits = np.abs(quotient) < 2**53
        digits[divisible[fits]] = float_codes(quotient[fits].astype(np.float64) / 2.0**s)
        spaces[divisible[fits]] = FLOAT
    return digits, spaces


def shown_value(number: int, space: int, dictionary: TextDictionary) -> object:
    """The value of an identity, for people."""
    if space == TEXT:
        return dictionary.decode(np.array([number]))[0].as_py()
    if space == FLOAT:
        return float(float_values(np.array([number]))[0])
    if space == BOOLEAN:
        return bool(number)
    if space == MOMENT:
        moment = _EPOCH + timedelta(microseconds=number)
        return moment.date().isoformat() if number % MICROSECONDS_PER_DAY == 0 else moment.isoformat()
    if space >= DECIMAL:
        return str(Decimal(number).scaleb(DECIMAL - space))
    return number
