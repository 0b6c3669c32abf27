"""SQL that finds the violations of a rule, under each null policy, for six dialects.

The query is built as a sqlglot tree and printed per dialect. It runs in any session whose time zone is UTC and
whose text collation tells unequal strings apart (every dialect's default). Comparisons across numeric kinds get the
casts that make them exact; a decimal against a float has no exact form in SQL and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

import sqlglot.expressions as e

from holdfast.errors import RuleError, shown
from holdfast.rules.bind import require_fits, require_policy, require_predicates_fit, table_of
from holdfast.rules.grammar import parse
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, Constant, IsNull, Predicate
from holdfast.rules.rule import Dc, Ind, Key, Rule, as_dc
from holdfast.table.compare import mark
from holdfast.table.dictionary import NULL
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema

DIALECTS = ("spark", "duckdb", "postgres", "sqlite", "snowflake", "bigquery")


def violations_sql(
    rule: Rule | str,
    schemas: Schema | Mapping[str, Schema],
    *,
    key: Sequence[str] | str = (),
    nulls: str = "sql",
    dialect: str = "duckdb",
    where: frozenset[Predicate] = frozenset(),
) -> str:
    """A query that returns each violating ordered pair as t_<key>, s_<key>; each violating row, for rules about
    single rows and inclusion dependencies, as t_<key>.

    `key` names the columns that tell rows apart; SQL has no other way to say "a different row". `where` limits
    the rule to some rows (the left ones of an inclusion).
    """
    return _writer(rule, schemas, key, nulls, dialect).query(where).sql(dialect=dialect, identify=True)


def failing_rows_sql(
    rule: Rule | str,
    schemas: Schema | Mapping[str, Schema],
    *,
    key: Sequence[str] | str = (),
    nulls: str = "sql",
    dialect: str = "duckdb",
    where: frozenset[Predicate] = frozenset(),
) -> str:
    """A query that returns each row that violates the rule, alone or as t of a pair, whole and once: what tools for
    data quality want. A table needs no key where no row can violate the rule with itself, nor for a key rule.
    """
    return failing_rows(rule, schemas, key=key, nulls=nulls, dialect=dialect, where=where).sql(
        dialect=dialect, identify=True
    )


def failing_rows(
    rule: Rule | str,
    schemas: Schema | Mapping[str, Schema],
    *,
    key: Sequence[str] | str = (),
    nulls: str = "sql",
    dialect: str = "duckdb",
    where: frozenset[Predicate] = frozenset(),
) -> e.Select:
    """The same as a tree, for who puts something else where its tables stand."""
    return _writer(rule, schemas, key, nulls, dialect).failing(where)


def _writer(
    rule: Rule | str, schemas: Schema | Mapping[str, Schema], key: Sequence[str] | str, nulls: str, dialect: str
) -> _Writer:
    if dialect not in DIALECTS:
        raise RuleError(f"{shown(dialect)} is not one of the dialects {', '.join(DIALECTS)}")
    require_policy(nulls)
    rule = parse(rule) if isinstance(rule, str) else rule
    tables = {"data": schemas} if isinstance(schemas, Schema) else dict(schemas)
    require_fits(rule, tables)
    return _Writer(rule, tables, (key,) if isinstance(key, str) else tuple(key), nulls, dialect)


@dataclass(frozen=True)
class _Writer:
    rule: Rule
    tables: Mapping[str, Schema]
    key: tuple[str, ...]
    nulls: str
    dialect: str

    @property
    def table(self) -> str:
        return table_of(self.rule, self.tables)

    @property
    def schema(self) -> Schema:
        return self.tables[self.table]

    def query(self, where: frozenset[Predicate]) -> e.Select:
        require_predicates_fit(where, self.schema)
        self.schema.positions(self.key)
        if not self.key:
            raise RuleError(f"`{self.rule}`: name the key columns that tell rows apart (key=)")
        if isinstance(self.rule, Ind):
            return self.inclusion(self.rule, where)
        dc = as_dc(self.rule)
        conditions = [self.predicate(p, self.nulls) for p in sorted(dc.written, key=str)]
        select = e.Select().from_(self.rows("t", where))
        for name in self.key:
            select = select.select(e.alias_(_cell("t", name), f"t_{name}"))
        if dc.is_one_row:
            return select.where(*conditions)
        for name in self.key:
            select = select.select(e.alias_(_cell("s", name), f"s_{name}"))
        same = e.and_(*[e.EQ(this=_cell("t", n), expression=_cell("s", n)) for n in self.key])
        return select.join(self.rows("s", where), on=e.and_(*conditions, e.not_(same)))

    def failing(self, where: frozenset[Predicate]) -> e.Select:
        require_predicates_fit(where, self.schema)
        every = e.Column(this=e.Star(), table=e.to_identifier("t"))
        select = e.Select().select(every).from_(self.rows("t", where))
        if isinstance(self.rule, Ind):
            return select.where(*self.without_partner(self.rule))
        dc = as_dc(self.rule)
        conditions = [self.predicate(p, self.nulls) for p in sorted(dc.written, key=str)]
        if dc.is_one_row:
            return select.where(*conditions)
        if isinstance(self.rule, Key):
            count = e.Select().select(e.Count(this=e.Star())).from_(self.rows("s", where)).where(*conditions)
            return select.where(e.GT(this=count.subquery(), expression=e.Literal.number(1)))
        if not _excludes_itself(dc, self.nulls):
            if not self.key:
                raise RuleError("SQL cannot tell a row from itself in a table without a key")
            conditions.append(e.not_(e.and_(*[e.EQ(this=_cell("t", n), expression=_cell("s", n)) for n in self.key])))
        inner = e.Select().select(e.Literal.number(1)).from_(self.rows("s", where)).where(*conditions)
        return select.where(e.Exists(this=inner))

    def without_partner(self, rule: Ind) -> list[e.Expr]:
        columns = list(zip(rule.left, rule.right, strict=True))
        right = self.tables[rule.right_table]
        partner = [
            self.compare(Op.EQ, self.value("t", self.schema.column(a)), self.value("s", right.column(b)), "sql")
            for a, b in columns
        ]
        inner = e.Select().select(e.Literal.number(1)).from_(_table(rule.right_table, "s")).where(*partner)
        return [*(_is_null(_cell("t", a), negated=True) for a, _ in columns), e.not_(e.Exists(this=inner))]

    def inclusion(self, rule: Ind, where: frozenset[Predicate]) -> e.Select:
        select = e.Select().from_(self.rows("t", where))
        for name in self.key:
            select = select.select(e.alias_(_cell("t", name), f"t_{name}"))
        return select.where(*self.without_partner(rule))

    def rows(self, alias: str, where: frozenset[Predicate]) -> e.Expr:
        """The table, or those of its rows that the filter leaves. A null never passes a filter."""
        if not where:
            return _table(self.table, alias)
        conditions = [self.predicate(p, "sql") for p in sorted(where, key=str)]
        inner = e.Select().select(e.Star()).from_(_table(self.table, "t")).where(*conditions)
        return inner.subquery(alias)

    def predicate(self, predicate: Predicate, nulls: str) -> e.Expr:
        if isinstance(predicate, IsNull):
            return _is_null(_of(predicate.cell), negated=predicate.negated)
        left = self.value(predicate.left.row, self.schema.column(predicate.left.column))
        if isinstance(predicate.right, Constant):
            return self.with_constant(predicate.op, left, predicate.right, nulls)
        right = self.value(predicate.right.row, self.schema.column(predicate.right.column))
        return self.compare(predicate.op, left, right, nulls)

    def value(self, row: str, column: Column) -> _Value:
        return _Value(_cell(row, column.name), column)

    def compare(self, op: Op, left: _Value, right: _Value, nulls: str) -> e.Expr:
        a, b = self.common(left, right)
        if self.dialect == "bigquery" and left.column.kind is right.column.kind is Kind.FLOAT:
            plain = _nan_aware(op, a, b)
        else:
            plain = _OPERATORS[op](this=a, expression=b)
        return _null_aware(op, plain, left.cell, right.cell, nulls)

    def common(self, left: _Value, right: _Value) -> tuple[e.Expr, e.Expr]:
        """Both sides in a type in which the dialect compares them exactly."""
        kinds = {left.column.kind, right.column.kind}
        if kinds == {Kind.DATE, Kind.TIMESTAMP}:
            return left.as_timestamp(self.dialect), right.as_timestamp(self.dialect)
        if Kind.FLOAT in kinds and Kind.DECIMAL in kinds:
            raise RuleError(
                f"`{self.rule}`: {shown(left.column.name)} and {shown(right.column.name)} are a decimal and a float, "
                f"which SQL cannot compare exactly; cast one of them"
            )
        if self.dialect == "sqlite":  # it compares integers and floats exactly
            return left.cell, right.cell
        if Kind.FLOAT in kinds and Kind.INTEGER in kinds:
            return left.on_integer_grid(self.dialect), right.on_integer_grid(self.dialect)
        exact = self.dialect == "postgres"  # its decimals have any number of digits
        if Kind.DECIMAL in kinds and left.column.scale != right.column.scale and not exact:
            return left.as_wide_decimal(right, self.dialect), right.as_wide_decimal(left, self.dialect)
        return left.cell, right.cell

    def with_constant(self, op: Op, left: _Value, constant: Constant, nulls: str) -> e.Expr:
        place = mark(left.column, constant.value)
        if place.exact:
            return self.compare(
                op, left, _Value(_literal(left.column, constant.value, self.dialect), left.column), nulls
            )
        return self.between_codes(op, left, place.code, nulls)

    def between_codes(self, op: Op, left: _Value, floor: int, nulls: str) -> e.Expr:
        """A comparison with a literal that lies just above `floor` and is itself no value of the column."""
        if op is Op.EQ:
            return e.false()
        if op is Op.NE:
            return e.true() if nulls != "sql" else _is_null(left.cell, negated=True)
        if floor == NULL:  # below every value
            return e.false() if op in (Op.LT, Op.LE) else _is_null(left.cell, negated=True)
        below = op in (Op.LT, Op.LE)
        literal = _literal(left.column, _value_of_code(left.column, floor), self.dialect)
        return (e.LTE if below else e.GT)(this=left.cell, expression=literal)


@dataclass(frozen=True)
class _Value:
    """A cell with its column."""

    cell: e.Expr
    column: Column

    def as_timestamp(self, dialect: str) -> e.Expr:
        if self.column.kind is Kind.TIMESTAMP:
            return self.cell
        type_ = "TIMESTAMPTZ" if dialect in ("duckdb", "postgres", "bigquery") else "TIMESTAMP"
        return e.cast(self.cell, type_)

    def as_wide_decimal(self, other: _Value, dialect: str) -> e.Expr:
        """With the decimals of both, and room for every 64-bit integer: dialects differ in what they would choose."""
        if dialect == "bigquery":
            return e.cast(self.cell.copy(), "BIGDECIMAL")
        return e.cast(self.cell.copy(), f"DECIMAL(38, {max(self.column.scale, other.column.scale)})")

    def on_integer_grid(self, dialect: str) -> e.Expr:
        """2i for an integer i; 2 floor(f) + [f is not whole] for a float (table/compare.py). As decimals, because 2i
        may not fit the column's own type."""
        if self.column.kind is Kind.INTEGER:
            return _doubled(self.cell.copy())
        floor = e.Floor(this=self.cell.copy())
        part = (
            e.Case()
            .when(e.EQ(this=self.cell.copy(), expression=floor.copy()), e.Literal.number(0))
            .else_(e.Literal.number(1))
        )
        limit = e.cast(e.Literal.string(repr(2.0**63)), "DOUBLE")
        is_nan = [e.IsNan(this=self.cell.copy())] if dialect == "bigquery" else []
        case = e.Case().when(_is_null(self.cell, negated=False), e.null())
        for condition in [*is_nan, e.GTE(this=self.cell.copy(), expression=limit)]:
            case = case.when(condition, _wide(e.Literal.string(str(2**64 + 2))))
        case = case.when(
            e.LT(this=self.cell.copy(), expression=e.Neg(this=limit.copy())),
            _wide(e.Literal.string(str(-(2**64) - 2))),
        )
        whole = _doubled(e.cast(floor, "BIGINT"))
        return case.else_(e.Paren(this=e.Add(this=whole, expression=e.Paren(this=part))))


def _doubled(number: e.Expr) -> e.Expr:
    return e.Mul(this=e.Literal.number(2), expression=_wide(number))


def _wide(number: e.Expr) -> e.Expr:
    """As a decimal that holds twice every 64-bit integer."""
    return e.cast(number, "DECIMAL(20, 0)")


def _excludes_itself(dc: Dc, nulls: str) -> bool:
    """Whether no row violates it with itself: it compares a column with itself by <, > or, unless nulls differ, !=."""
    beside = [
        p for p in dc.predicates if isinstance(p, Compare) and p.is_pair and len({c.column for c in p.cells}) == 1
    ]
    return any(p.op in (Op.LT, Op.GT) or (p.op is Op.NE and nulls != "distinct") for p in beside)


def _null_aware(op: Op, plain: e.Expr, a: e.Expr, b: e.Expr, nulls: str) -> e.Expr:
    """The comparison `plain` of the cells a and b under a null policy (design section 2)."""
    if nulls == "sql" or (nulls == "distinct" and op is not Op.NE) or op in (Op.LT, Op.GT):
        return plain
    if nulls == "equal" and op in (Op.EQ, Op.NE) and (plain.this, plain.expression) == (a, b):
        safe = e.NullSafeEQ if op is Op.EQ else e.NullSafeNEQ  # which engines can join on
        return safe(this=a, expression=b)
    one, other = _is_null(a, negated=False), _is_null(b, negated=False)
    if op is not Op.NE:
        return e.paren(e.or_(plain, e.and_(one, other)))
    if nulls == "distinct":
        return e.paren(e.or_(plain, one, other))
    return e.paren(e.or_(plain, e.and_(one, e.not_(other)), e.and_(e.not_(one.copy()), other.copy())))


def _nan_aware(op: Op, a: e.Expr, b: e.Expr) -> e.Expr:
    """For a dialect in which NaN is unequal to itself: NaN equals NaN and is above everything."""
    left, right = e.IsNan(this=a.copy()), e.IsNan(this=b.copy())
    plain, both = _OPERATORS[op](this=a.copy(), expression=b.copy()), e.and_(left, right)
    if op is Op.NE:
        return e.paren(e.and_(plain, e.not_(both)))
    higher = (
        e.and_(left.copy(), e.not_(right.copy())) if op in (Op.GT, Op.GE) else e.and_(e.not_(left.copy()), right.copy())
    )
    more = {Op.EQ: [both], Op.LT: [higher], Op.GT: [higher], Op.LE: [higher, both], Op.GE: [higher, both]}[op]
    return e.paren(e.or_(plain, *more))


_OPERATORS: dict[Op, type[e.Binary]] = {
    Op.EQ: e.EQ,
    Op.NE: e.NEQ,
    Op.LT: e.LT,
    Op.LE: e.LTE,
    Op.GT: e.GT,
    Op.GE: e.GTE,
}


def _literal(column: Column, value: object, dialect: str) -> e.Expr:
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
    """SQLite has no type for dates and times: they are ISO text there, and so are the literals."""
    return e.Literal.string(text) if dialect == "sqlite" else e.cast(e.Literal.string(text), type_)


def _value_of_code(column: Column, code: int) -> object:
    if column.kind is Kind.DATE:
        return datetime.fromordinal(code + datetime(1970, 1, 1).toordinal()).date()
    return Decimal(code).scaleb(-column.scale)


def _of(cell: Cell) -> e.Expr:
    return _cell(cell.row, cell.column)


def _cell(row: str, name: str) -> e.Expr:
    return e.column(name, table=row, quoted=True)


def _table(name: str, alias: str) -> e.Expr:
    return e.alias_(e.Table(this=e.to_identifier(name, quoted=True)), alias, table=True)


def _is_null(cell: e.Expr, *, negated: bool) -> e.Expr:
    test = e.Is(this=cell.copy(), expression=e.null())
    return e.not_(test) if negated else test
