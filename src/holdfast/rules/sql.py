"""SQL that finds the violations of a rule, under each null policy, for six dialects.

The query is built as a sqlglot tree and printed for a dialect. It is correct in any session whose time zone is UTC and
whose text collation distinguishes unequal strings (the default of every dialect). Comparisons across numeric kinds get
casts that make them exact. A decimal cannot be compared exactly with a float in SQL; such rules are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlglot.expressions as e

from holdfast.errors import RuleError, shown
from holdfast.rules.bind import Schemas, require_fits, require_policy, require_predicates_fit, table_of
from holdfast.rules.exact_formulas import DIGITS, rounds
from holdfast.rules.grammar import parse
from holdfast.rules.nulls import Nulls
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, Constant, IsNull, Miscalculated, Predicate
from holdfast.rules.rule import Dc, Ind, Key, Rule, as_dc
from holdfast.rules.sql_values import (
    OPERATORS,
    SqlValue,
    cell_sql,
    is_null,
    literal_sql,
    nan_aware,
    null_aware,
    table_sql,
    value_of_code,
)
from holdfast.table.compare import mark
from holdfast.table.dictionary import NULL
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema

DIALECTS = ("spark", "duckdb", "postgres", "sqlite", "snowflake", "bigquery")


@dataclass(frozen=True)
class SqlOptions:
    """How a query is written.

    `key` names the columns that identify a row: SQL has no other way to say "a different row". `where` limits the rule
    to the rows that satisfy all predicates (in an inclusion, to left rows).
    """

    key: Sequence[str] | str = ()
    nulls: str = Nulls.SQL
    dialect: str = "duckdb"
    where: frozenset[Predicate] = frozenset()


def violations_sql(
    rule: Rule | str,
    schemas: Schema | Schemas,
    *,
    key: Sequence[str] | str = (),
    nulls: str = Nulls.SQL,
    dialect: str = "duckdb",
    where: frozenset[Predicate] = frozenset(),
) -> str:
    """A query for the violations of a rule. `SqlOptions` explains the options.

    It returns each violating ordered pair as t_<key>, s_<key>. For rules about single rows and for inclusions, it
    returns each violating row as t_<key>.
    """
    writer = _writer(rule, schemas, SqlOptions(key, nulls, dialect, where))
    return writer.violations().sql(dialect=dialect, identify=True)


def failing_rows_sql(rule: Rule | str, schemas: Schema | Schemas, options: SqlOptions) -> str:
    """A query for the rows that violate a rule alone or as t of a pair, each whole and once, as data quality tools
    expect. The table needs no key for a key rule, nor if no row can violate the rule with itself.
    """
    return failing_rows(rule, schemas, options).sql(dialect=options.dialect, identify=True)


def failing_rows(rule: Rule | str, schemas: Schema | Schemas, options: SqlOptions) -> e.Select:
    """The query of `failing_rows_sql` as a tree, for callers that replace its tables."""
    return _writer(rule, schemas, options).failing()


def _writer(rule: Rule | str, schemas: Schema | Schemas, options: SqlOptions) -> _Writer:
    """The writer of a query, after all options are validated."""
    if options.dialect not in DIALECTS:
        raise RuleError(f"{shown(options.dialect)} is not one of the dialects {', '.join(DIALECTS)}")
    nulls = require_policy(options.nulls)
    rule = parse(rule) if isinstance(rule, str) else rule
    tables = {"data": schemas} if isinstance(schemas, Schema) else dict(schemas)
    require_fits(rule, tables)
    require_predicates_fit(options.where, tables[table_of(rule, tables)])
    key = (options.key,) if isinstance(options.key, str) else tuple(options.key)
    return _Writer(rule, tables, key, nulls, options.dialect, options.where)


@dataclass(frozen=True)
class _Writer:
    """Writes the queries of one rule."""

    rule: Rule
    tables: Mapping[str, Schema]
    key: tuple[str, ...]
    nulls: Nulls
    dialect: str
    where: frozenset[Predicate]

    @property
    def table(self) -> str:
        return table_of(self.rule, self.tables)

    @property
    def schema(self) -> Schema:
        return self.tables[self.table]

    def violations(self) -> e.Select:
        """The query of `violations_sql`."""
        self.schema.positions(self.key)
        if not self.key:
            raise RuleError(f"`{self.rule}`: name the key columns that identify a row (key=)")
        if isinstance(self.rule, Ind):
            return self.with_key("t").where(*self.without_partner(self.rule))
        dc = as_dc(self.rule)
        conditions = [self.predicate(p, self.nulls) for p in sorted(dc.written, key=str)]
        if dc.is_one_row:
            return self.with_key("t").where(*conditions)
        same = self.same_row()
        return self.with_key("t", "s").join(self.rows("s"), on=e.and_(*conditions, e.not_(same)))

    def with_key(self, *aliases: str) -> e.Select:
        """Selects the key of these rows as `t_<key>`, `s_<key>`, from the table as t."""
        names = [(alias, name) for alias in aliases for name in self.key]
        columns = [e.alias_(cell_sql(alias, name), f"{alias}_{name}") for alias, name in names]
        return e.Select().select(*columns).from_(self.rows("t"))

    def same_row(self) -> e.Expr:
        return e.and_(*[e.EQ(this=cell_sql("t", n), expression=cell_sql("s", n)) for n in self.key])

    def failing(self) -> e.Select:
        """The query of `failing_rows_sql`."""
        every = e.Column(this=e.Star(), table=e.to_identifier("t"))
        select = e.Select().select(every).from_(self.rows("t"))
        if isinstance(self.rule, Ind):
            return select.where(*self.without_partner(self.rule))
        dc = as_dc(self.rule)
        conditions = [self.predicate(p, self.nulls) for p in sorted(dc.written, key=str)]
        if dc.is_one_row:
            return select.where(*conditions)
        if isinstance(self.rule, Key):
            count = e.Select().select(e.Count(this=e.Star())).from_(self.rows("s")).where(*conditions)
            return select.where(e.GT(this=count.subquery(), expression=e.Literal.number(1)))
        if not _excludes_itself(dc, self.nulls):
            if not self.key:
                raise RuleError("SQL cannot tell a row from itself in a table without a key")
            conditions.append(e.not_(self.same_row()))
        partners = e.Select().select(e.Literal.number(1)).from_(self.rows("s")).where(*conditions)
        return select.where(e.Exists(this=partners))

    def without_partner(self, rule: Ind) -> list[e.Expr]:
        """The conditions for a left row that violates an inclusion: no null, and no equal right row."""
        columns = list(zip(rule.left, rule.right, strict=True))
        right = self.tables[rule.right_table]
        equal = [
            self.compare(Op.EQ, self.value("t", self.schema.column(a)), self.value("s", right.column(b)), Nulls.SQL)
            for a, b in columns
        ]
        partners = e.Select().select(e.Literal.number(1)).from_(table_sql(rule.right_table, "s")).where(*equal)
        return [*(is_null(cell_sql("t", a), negated=True) for a, _ in columns), e.not_(e.Exists(this=partners))]

    def rows(self, alias: str) -> e.Expr:
        """The table, or its rows that pass the filter. A null never passes."""
        if not self.where:
            return table_sql(self.table, alias)
        conditions = [self.predicate(p, Nulls.SQL) for p in sorted(self.where, key=str)]
        filtered = e.Select().select(e.Star()).from_(table_sql(self.table, "t")).where(*conditions)
        return filtered.subquery(alias)

    def predicate(self, predicate: Predicate, nulls: Nulls) -> e.Expr:
        if isinstance(predicate, IsNull):
            return is_null(cell_sql(predicate.cell.row, predicate.cell.column), negated=predicate.negated)
        if isinstance(predicate, Miscalculated):
            return self.miscalculated(predicate)
        left = self.value(predicate.left.row, self.schema.column(predicate.left.column))
        if isinstance(predicate.right, Constant):
            return self.with_constant(predicate.op, left, predicate.right, nulls)
        right = self.value(predicate.right.row, self.schema.column(predicate.right.column))
        return self.compare(predicate.op, left, right, nulls)

    def miscalculated(self, predicate: Miscalculated) -> e.Expr:
        """A comparison with a formula, in decimals that are wide enough; SQL makes it unknown if a cell is null."""
        if rounds(predicate, self.schema, self.dialect):
            raise RuleError(f"`{self.rule}`: {self.dialect} rounds this formula, so that SQL cannot say it exactly")
        result, left, right = (self.exact_number(cell) for cell in predicate.cells)
        formula: e.Expr = e.Add(this=left, expression=right)
        if predicate.formula.op == "*":
            formula = e.Mul(this=left, expression=right)
        return e.NEQ(this=result, expression=e.paren(formula))

    def exact_number(self, cell: Cell) -> e.Expr:
        """A cell in a type in which a sum or product does not overflow: 19 digits hold every value."""
        column, plain = self.schema.column(cell.column), cell_sql(cell.row, cell.column)
        if self.dialect == "sqlite":
            return plain
        return e.cast(plain, e.DataType.build(f"DECIMAL({DIGITS}, {column.scale})"))

    def value(self, row: str, column: Column) -> SqlValue:
        return SqlValue(cell_sql(row, column.name), column)

    def compare(self, op: Op, left: SqlValue, right: SqlValue, nulls: Nulls) -> e.Expr:
        a, b = self.common(left, right)
        if self.dialect == "bigquery" and left.column.kind is right.column.kind is Kind.FLOAT:
            plain = nan_aware(op, a, b)
        else:
            plain = OPERATORS[op](this=a, expression=b)
        return null_aware(op, plain, left.cell, right.cell, nulls)

    def common(self, left: SqlValue, right: SqlValue) -> tuple[e.Expr, e.Expr]:
        """Both sides cast to a type in which the dialect compares them exactly."""
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
        is_exact = self.dialect == "postgres"  # its decimals have any number of digits
        if Kind.DECIMAL in kinds and left.column.scale != right.column.scale and not is_exact:
            return left.as_wide_decimal(right, self.dialect), right.as_wide_decimal(left, self.dialect)
        return left.cell, right.cell

    def with_constant(self, op: Op, left: SqlValue, constant: Constant, nulls: Nulls) -> e.Expr:
        place = mark(left.column, constant.value)
        if place.exact:
            literal = literal_sql(left.column, constant.value, self.dialect)
            return self.compare(op, left, SqlValue(literal, left.column), nulls)
        return self.between_codes(op, left, place.code, nulls)

    def between_codes(self, op: Op, left: SqlValue, floor: int, nulls: Nulls) -> e.Expr:
        """A comparison with a literal between the values with the codes `floor` and `floor + 1`."""
        if op is Op.EQ:
            return e.false()
        if op is Op.NE:
            return e.true() if nulls is not Nulls.SQL else is_null(left.cell, negated=True)
        if floor == NULL:  # below every value
            return e.false() if op in (Op.LT, Op.LE) else is_null(left.cell, negated=True)
        below = op in (Op.LT, Op.LE)
        literal = literal_sql(left.column, value_of_code(left.column, floor), self.dialect)
        return (e.LTE if below else e.GT)(this=left.cell, expression=literal)


def _excludes_itself(dc: Dc, nulls: Nulls) -> bool:
    """Whether no row can violate a constraint with itself.

    That is so if it compares a column with itself by <, by > or, unless nulls are distinct, by !=.
    """
    same_column = [
        p for p in dc.predicates if isinstance(p, Compare) and p.is_pair and len({c.column for c in p.cells}) == 1
    ]
    return any(p.op in (Op.LT, Op.GT) or (p.op is Op.NE and nulls is not Nulls.DISTINCT) for p in same_column)
