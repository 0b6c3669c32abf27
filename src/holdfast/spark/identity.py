"""Identities of values in Spark SQL: texts that are equal exactly if the values are, whatever their columns' kinds.

They follow `table/identity.py`: a whole number of any kind is its digits; a fraction has no zeros at its end; a float
equals a decimal only if it is that number exactly, so 0.1 does not. A date is its midnight UTC. Only values of one kind
group can be equal, so columns of different groups must be kept apart. Nothing depends on the configuration of the
session: in some, the text of a decimal has an exponent.
"""

from __future__ import annotations

from decimal import Decimal

from holdfast.table.dictionary import TextDictionary
from holdfast.table.encoders import MICROSECONDS_PER_DAY
from holdfast.table.identity import MOMENT, shown_value
from holdfast.table.kind import Kind
from holdfast.table.schema import MAX_SCALE, Column

_HALVINGS, _FIVES = 2**MAX_SCALE, 5**MAX_SCALE  # a float with n decimal places is a multiple of 1 / 2^n
_BEYOND = "float "  # before floats that no integer or decimal equals


def identity(column: Column, cell: str) -> str:
    """SQL for the identity of a cell; null for null."""
    if column.kind is Kind.DECIMAL:
        return _decimal(cell)
    if column.kind is Kind.FLOAT:
        return _float(cell)
    if column.kind is Kind.DATE:
        return f"cast(cast(unix_date({cell}) as decimal(12,0)) * {MICROSECONDS_PER_DAY} as string)"
    return f"cast({f'unix_micros({cell})' if column.kind is Kind.TIMESTAMP else cell} as string)"


def shown_identity(column: Column, text: str) -> object:
    """The value of an identity, for people."""
    if column.kind is Kind.TEXT:
        return text
    if column.kind is Kind.BOOLEAN:
        return text == "true"
    if column.kind in (Kind.DATE, Kind.TIMESTAMP):
        return shown_value(int(text), MOMENT, TextDictionary())
    if text.startswith(_BEYOND):
        return float(text.removeprefix(_BEYOND))
    number = Decimal(text)
    if number == number.to_integral_value():
        return int(number)
    return float(number) if Decimal(float(number)) == number else text


def _decimal(cell: str) -> str:
    """The fraction is taken from a number between 1 and 2, whose text has no exponent."""
    return _number(cell, f"cast(floor(abs({cell})) as string)", f"substring(cast(1 + abs({cell}) % 1 as string), 2)")


def _float(cell: str) -> str:
    """All arithmetic is exact: the fraction is below 1, and scaled by a power of two."""
    scaled = f"((abs({cell}) - floor(abs({cell}))) * {_HALVINGS}D)"
    places = f"lpad(cast(floor({scaled}) * {_FIVES} as string), {MAX_SCALE}, '0')"
    number = _number(cell, f"cast(floor(abs({cell})) as string)", f"concat('.', {places})")
    is_decimal = f"abs({cell}) < {2.0**63!r}D and {scaled} = floor({scaled})"
    return f"case when {is_decimal} then {number} else concat('{_BEYOND}', cast({cell} as string)) end"


def _number(cell: str, whole: str, fraction: str) -> str:
    """Sign, digits and fraction (with its point) as one text."""
    return f"concat(if({cell} < 0, '-', ''), {whole}, rtrim('.', rtrim('0', {fraction})))"
