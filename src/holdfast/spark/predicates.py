"""Predicates of rules as Spark expressions that are true or false, never null, under each null policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from holdfast.errors import NotAvailable
from holdfast.rules.exact_formulas import DIGITS, rounds
from holdfast.rules.nulls import Nulls
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Constant, IsNull, Miscalculated, Predicate
from holdfast.spark.frames import all_of, spark_type
from holdfast.table.compare import mark
from holdfast.table.dictionary import NULL
from holdfast.table.encoders import MICROSECONDS_PER_DAY
from holdfast.table.floats import float_values
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr

CellOf = Callable[[Cell], "Expr"]
_BEYOND = 2**64 + 2  # above the grid position of every 64-bit integer


def in_own_columns(schema: Schema, prefix: str = "") -> CellOf:
    """Cells by the position of their column, as in `c3`, whatever their row."""
    return lambda cell: F.col(f"{prefix}c{schema.position(cell.column)}")


def are_exact(predicates: Iterable[Predicate], schema: Schema) -> bool:
    """Whether Spark can compare these cells exactly. It cannot compare a decimal with a float."""
    pairs = [[schema.column(cell.column).kind for cell in p.cells] for p in predicates]
    return not any({Kind.DECIMAL, Kind.FLOAT} <= set(kinds) for kinds in pairs)


def satisfies(predicates: Iterable[Predicate], schema: Schema, nulls: str, cell_of: CellOf) -> Expr:
    """Whether all predicates are satisfied."""
    return all_of(_holds(p, schema, Nulls(nulls), cell_of) for p in sorted(predicates, key=str))


def _holds(predicate: Predicate, schema: Schema, nulls: Nulls, cell_of: CellOf) -> Expr:
    if isinstance(predicate, IsNull):
        cell = cell_of(predicate.cell)
        return cell.isNotNull() if predicate.negated else cell.isNull()
    if isinstance(predicate, Miscalculated):
        return _miscalculated(predicate, schema, cell_of)
    left = schema.column(predicate.left.column)
    if isinstance(predicate.right, Constant):
        return _holds_for_constant(predicate.op, cell_of(predicate.left), left, predicate.right, nulls)
    right = schema.column(predicate.right.column)
    return compared(predicate.op, *common(left, cell_of(predicate.left), right, cell_of(predicate.right)), nulls)


def _miscalculated(predicate: Miscalculated, schema: Schema, cell_of: CellOf) -> Expr:
    """Where a number is not what a formula gives. Values have at most 19 digits, so that sums and products have 38."""
    columns = [schema.column(cell.column) for cell in predicate.cells]
    result, left, right = (
        cell_of(cell).cast(f"decimal({DIGITS},{column.scale})")
        for cell, column in zip(predicate.cells, columns, strict=True)
    )
    if rounds(predicate, schema, "spark"):
        raise NotAvailable(f"Spark rounds numbers of so many decimal places, so that it cannot test `{predicate}`")
    value = left + right if predicate.formula.op == "+" else left * right
    return F.coalesce(result != value, F.lit(False))


def compared(op: Op, a: Expr, b: Expr, nulls: Nulls) -> Expr:
    """a op b of two cells in the same type, under a null policy."""
    if nulls is Nulls.EQUAL and op in (Op.EQ, Op.NE):
        return a.eqNullSafe(b) if op is Op.EQ else ~a.eqNullSafe(b)
    if nulls is Nulls.EQUAL and op in (Op.LE, Op.GE):
        return F.coalesce(_plain(op, a, b), a.isNull() & b.isNull())
    if op is Op.NE and nulls is not Nulls.SQL:
        return F.coalesce(_plain(op, a, b), F.lit(True))
    return a.isNotNull() & b.isNotNull() & _plain(op, a, b)  # which Spark pushes down to files, unlike a coalesce


def _plain(op: Op, a: Expr, b: Expr) -> Expr:
    made: dict[Op, Expr] = {Op.EQ: a == b, Op.NE: a != b, Op.LT: a < b, Op.LE: a <= b, Op.GT: a > b, Op.GE: a >= b}
    return made[op]


def _holds_for_constant(op: Op, cell: Expr, column: Column, constant: Constant, nulls: Nulls) -> Expr:
    if isinstance(constant.value, str):
        return compared(op, cell, F.lit(constant.value), nulls)
    place = mark(column, constant.value)
    if place.exact:
        return compared(op, cell, _value(column, place.code), nulls)
    if op is Op.EQ:
        return F.lit(False)
    if op is Op.NE:
        return F.lit(True) if nulls is not Nulls.SQL else cell.isNotNull()
    if place.code == NULL:  # below every value
        return F.lit(False) if op in (Op.LT, Op.LE) else cell.isNotNull()
    return compared(Op.LE if op in (Op.LT, Op.LE) else Op.GT, cell, _value(column, place.code), Nulls.SQL)


def _value(column: Column, code: int) -> Expr:
    """The value that a code of a column stands for."""
    if column.kind is Kind.DATE:
        return F.date_from_unix_date(F.lit(code).cast("int"))
    if column.kind is Kind.TIMESTAMP:
        return F.timestamp_micros(F.lit(code))
    if column.kind is Kind.FLOAT:
        return F.lit(float(float_values(np.array([code], np.int64))[0]))
    if column.kind is Kind.DECIMAL:
        digits = f"{abs(code):0{column.scale + 1}d}"
        whole = f"{digits[: len(digits) - column.scale]}.{digits[len(digits) - column.scale :]}"
        return F.lit(("-" if code < 0 else "") + whole.rstrip(".")).cast(spark_type(column))
    return F.lit(bool(code)) if column.kind is Kind.BOOLEAN else F.lit(code)


def common(left: Column, a: Expr, right: Column, b: Expr) -> tuple[Expr, Expr]:
    """Two cells in a type in which Spark compares them exactly (see table/compare.py)."""
    kinds = {left.kind, right.kind}
    if kinds == {Kind.DATE, Kind.TIMESTAMP}:
        return _microseconds(left, a), _microseconds(right, b)
    if kinds == {Kind.FLOAT, Kind.INTEGER}:
        return _on_integer_grid(left, a), _on_integer_grid(right, b)
    if Kind.DECIMAL in kinds and (len(kinds) > 1 or left.scale != right.scale):
        type_ = f"decimal(38,{max(left.scale, right.scale)})"
        return a.cast(type_), b.cast(type_)
    return a, b


def _microseconds(column: Column, cell: Expr) -> Expr:
    if column.kind is Kind.TIMESTAMP:
        return F.unix_micros(cell)
    return F.unix_date(cell).cast("bigint") * F.lit(MICROSECONDS_PER_DAY)


def _on_integer_grid(column: Column, cell: Expr) -> Expr:
    """2i for an integer i; 2 floor(f) + [f is not whole] for a float."""
    if column.kind is Kind.INTEGER:
        return cell.cast("decimal(20,0)") * F.lit(2)
    whole = F.floor(cell)
    between = F.when(whole.cast("double") == cell, F.lit(0)).otherwise(F.lit(1))
    inside = whole.cast("decimal(20,0)") * F.lit(2) + between
    beyond = F.lit(str(_BEYOND)).cast("decimal(20,0)")
    above = F.isnan(cell) | (cell >= F.lit(2.0**63))
    return F.when(above, beyond).when(cell < F.lit(-(2.0**63)), -beyond).when(cell.isNotNull(), inside)
