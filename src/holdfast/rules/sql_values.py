"""SQL expressions for the cells and literals of a rule, and exact comparisons of them under each null policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

import sqlglot.expressions as e

from holdfast.rules.nulls import Nulls
from holdfast.rules.operator import Op
from holdfast.table.kind import Kind
from holdfast.table.schema import Column


@dataclass(frozen=True)
class SqlValue:
    """The expression of a cell or literal, with the column whose type it has."""

    cell: e.Expr
    column: Column

    def as_timestamp(self, dialect: str) -> e.Expr:
        if self.column.kind is Kind.TIMESTAMP:
            return self.cell
        type_ = "TIMESTAMPTZ" if dialect in ("duckdb", "postgres", "bigquery") else "TIMESTAMP"
        return e.cast(self.cell, type_)

    def as_wide_decimal(self, other: SqlValue, dialect: str) -> e.Expr:
        """With the larger scale of both sides and room for every 64-bit integer. Dialects choose different types."""
        if dialect == "bigquery":
            return e.cast(self.cell.copy(), "BIGDECIMAL")
        return e.cast(self.cell.copy(), f"DECIMAL(38, {max(self.column.scale, other.column.scale)})")

    def on_integer_grid(self, dialect: str) -> e.Expr:
        """2i for an integer i; 2 floor(f) + [f is not whole] for a float (table/compare.py).

        The result is a decimal, because 2i may not fit the column's own type.
        """
        if self.column.kind is Kind.INTEGER:
            return _doubled(self.cell.copy())
        floor = e.Floor(this=self.cell.copy())
        fraction = (
            e.Case()
            .when(e.EQ(this=self.cell.copy(), expression=floor.copy()), e.Literal.number(0))
            .else_(e.Literal.number(1))
        )
        limit = e.cast(e.Literal.string(repr(2.0**63)), "DOUBLE")
        is_nan = [e.IsNan(this=self.cell.copy())] if dialect == "bigquery" else []
        case = e.Case().when(is_null(self.cell, negated=False), e.null())
        for condition in [*is_nan, e.GTE(this=self.cell.copy(), expression=limit)]:
            case = case.when(condition, _wide(e.Literal.string(str(2**64 + 2))))
        case = case.when(
            e.LT(this=self.cell.copy(), expression=e.Neg(this=limit.copy())),
            _wide(e.Literal.string(str(-(2**64) - 2))),
        )
        whole = _doubled(e.cast(floor, "BIGINT"))
        return case.else_(e.Paren(this=e.Add(this=whole, expression=e.Paren(this=fraction))))


def _doubled(number: e.Expr) -> e.Expr:
    return e.Mul(this=e.Literal.number(2), expression=_wide(number))


def _wide(number: e.Expr) -> e.Expr:
    """The number as a decimal type that can hold twice any 64-bit integer."""
    return e.cast(number, "DECIMAL(20, 0)")


def null_aware(op: Op, plain: e.Expr, a: e.Expr, b: e.Expr, nulls: Nulls) -> e.Expr:
    """The comparison `plain` of the cells a and b, extended for a null policy."""
    if nulls is Nulls.SQL or (nulls is Nulls.DISTINCT and op is not Op.NE) or op in (Op.LT, Op.GT):
        return plain
    if nulls is Nulls.EQUAL and op in (Op.EQ, Op.NE) and (plain.this, plain.expression) == (a, b):
        if isinstance(b, e.Boolean) and op is Op.NE:  # in SQLite `a IS NOT TRUE`, which sqlglot reads as this
            return e.not_(e.NullSafeEQ(this=a, expression=b))
        safe = e.NullSafeEQ if op is Op.EQ else e.NullSafeNEQ  # engines can use these for a join
        return safe(this=a, expression=b)
    a_null, b_null = is_null(a, negated=False), is_null(b, negated=False)
    if op is not Op.NE:
        return e.paren(e.or_(plain, e.and_(a_null, b_null)))
    if nulls is Nulls.DISTINCT:
        return e.paren(e.or_(plain, a_null, b_null))
    return e.paren(e.or_(plain, e.and_(a_null, e.not_(b_null)), e.and_(e.not_(a_null.copy()), b_null.copy())))


def nan_aware(op: Op, a: e.Expr, b: e.Expr) -> e.Expr:
    """A comparison in which NaN equals NaN and is above all numbers, for dialects in which NaN is unequal to itself."""
    left, right = e.IsNan(this=a.copy()), e.IsNan(this=b.copy())
    plain, both = OPERATORS[op](this=a.copy(), expression=b.copy()), e.and_(left, right)
    if op is Op.NE:
        return e.paren(e.and_(plain, e.not_(both)))
    higher = (
        e.and_(left.copy(), e.not_(right.copy())) if op in (Op.GT, Op.GE) else e.and_(e.not_(left.copy()), right.copy())
    )
    alternatives = {Op.EQ: [both], Op.LT: [higher], Op.GT: [higher], Op.LE: [higher, both], Op.GE: [higher, both]}[op]
    return e.paren(e.or_(plain, *alternatives))


OPERATORS: dict[Op, type[e.Binary]] = {
    Op.EQ: e.EQ,
    Op.NE: e.NEQ,
    Op.LT: e.LT,
    Op.LE: e.LTE,
    Op.GT: e.GT,
    Op.GE: e.GTE,
}


def literal_sql(column: Column, value: object, dialect: str) -> e.Expr:
    """A literal of the column's own type, so that the dialect converts nothing."""
    if isinstance(value, bool):
        return e.Boolean(this=value)
    if isinstance(value, str):
        return e.Literal.string(value)
    if isinstance(value, Decimal):
        return _number(column, value)
    assert isinstance(value, date)
    if column.kind is Kind.DATE:
        return _moment(value.isoformat()[:10], "DATE", dialect)
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
    return _moment(text if dialect == "sqlite" else f"{text}+00:00", "TIMESTAMPTZ", dialect)


def _number(column: Column, value: Decimal) -> e.Expr:
    if column.kind is Kind.FLOAT:
        return e.cast(e.Literal.string(repr(float(value))), "DOUBLE")
    number = e.Literal.number(f"{abs(value):f}")
    return e.Neg(this=number) if value < 0 else number


def _moment(text: str, type_: str, dialect: str) -> e.Expr:
    """A date or timestamp literal. SQLite has no such types and compares ISO texts."""
    return e.Literal.string(text) if dialect == "sqlite" else e.cast(e.Literal.string(text), type_)


def value_of_code(column: Column, code: int) -> object:
    """The Python value of a code of an integer, decimal or date column."""
    if column.kind is Kind.DATE:
        return datetime.fromordinal(code + datetime(1970, 1, 1).toordinal()).date()
    return Decimal(code).scaleb(-column.scale)


def cell_sql(row: str, name: str) -> e.Expr:
    return e.column(name, table=row, quoted=True)


def table_sql(name: str, alias: str) -> e.Expr:
    return e.alias_(e.Table(this=e.to_identifier(name, quoted=True)), alias, table=True)


def is_null(cell: e.Expr, *, negated: bool) -> e.Expr:
    test = e.Is(this=cell.copy(), expression=e.null())
    return e.not_(test) if negated else test
