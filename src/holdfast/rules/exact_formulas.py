"""Which formulas a database or Spark computes exactly, in decimals that hold every value of 64 bits."""

from __future__ import annotations

from holdfast.rules.predicate import Miscalculated
from holdfast.table.schema import Schema

DIGITS = 19  # of the largest 64-bit number
_MAX_DIGITS = 38  # of decimals of most dialects
_EXACT_PLACES = {"spark": 6, "snowflake": 12, "bigquery": 9}  # of a product; more would be rounded


def rounds(predicate: Miscalculated, schema: Schema, dialect: str) -> bool:
    """Whether a dialect of SQL may round the formula, or the number that it is compared with.

    >>> from holdfast.rules.grammar import parse
    >>> from holdfast.rules.rule import as_dc
    >>> (predicate,) = as_dc(parse("a = b * c")).predicates
    >>> rounds(predicate, Schema.of(a="decimal(2)", b="decimal(4)", c="decimal(4)"), "spark")
    True
    """
    of_result, *of_operands = (schema.column(cell.column).scale for cell in predicate.cells)
    is_product = predicate.formula.op == "*"
    if is_product:
        places, digits = sum(of_operands), 2 * DIGITS
    else:
        places, digits = max(of_operands), DIGITS + 1 + max(of_operands) - min(of_operands)
    if dialect == "sqlite":  # it has integers and floats
        return max(of_result, places) > 0
    if is_product and places > _EXACT_PLACES.get(dialect, places):
        return True
    whole = max(DIGITS - of_result, digits - places)
    return dialect != "postgres" and whole + max(of_result, places) > _MAX_DIGITS
