"""Values as canonical text, so that columns of different kinds can be compared as text.

Equal numbers have equal texts, whatever the kinds and scales of their columns: without exponent and without trailing
zeros. The text in the input is not kept, so `1.50` becomes `1.5`.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.table.encode import decode_column
from holdfast.table.floats import float_values
from holdfast.table.kind import Kind
from holdfast.table.schema import MAX_SCALE, Column


def text_form(column: Column, codes: Codes, dictionary: TextDictionary) -> pa.Array:
    """The texts of codes without nulls. O(n).

    >>> text_form(Column("d", Kind.DECIMAL, 2), np.array([150, -5, 200]), TextDictionary()).to_pylist()
    ['1.5', '-0.05', '2']
    """
    if column.kind is Kind.DECIMAL:
        return _decimals(codes, column.scale)
    if column.kind is Kind.FLOAT:
        return pa.array([_float(value) for value in float_values(codes).tolist()], pa.string())
    texts = decode_column(column, codes, dictionary).cast(pa.string())
    return _timestamps(texts) if column.kind is Kind.TIMESTAMP else texts


def _decimals(codes: Codes, scale: int) -> pa.Array:
    sizes = np.abs(codes)
    whole, fraction = (pa.array(part).cast(pa.string()) for part in np.divmod(sizes, 10**scale))
    digits = pc.utf8_rtrim(pc.utf8_lpad(fraction, scale, "0"), "0")
    point = pc.if_else(pc.equal(digits, ""), "", ".")
    sign = pa.array(np.where(codes < 0, "-", "").tolist(), pa.string())
    return pc.binary_join_element_wise(sign, whole, point, digits, "")


def _float(value: float) -> str:
    """All digits if an integer or decimal could equal the float; else the shortest text of the float."""
    if not math.isfinite(value):
        return repr(value)
    if (value * 2.0**MAX_SCALE).is_integer():
        exact = Decimal(value)
        places = max(0, -int(exact.as_tuple().exponent))
        if abs(exact) * 10**places < 2**63:
            return f"{exact:f}"
    return f"{Decimal(repr(value)):f}"


def _timestamps(texts: pa.Array) -> pa.Array:
    """`2020-01-31 10:00:00.500000Z` as `2020-01-31T10:00:00.5Z`."""
    texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    return pc.replace_substring_regex(texts, r"\.?0*Z$", "Z")
