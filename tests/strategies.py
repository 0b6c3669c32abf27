"""Hypothesis strategies: schemas, tables, rules and change sequences that are small, dense and nasty.

Strategies that depend on a column or a schema are made once for each (`cache`): Hypothesis takes longer to make and
validate a strategy than to draw from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache

import pyarrow as pa
from hypothesis import strategies as st

from holdfast.errors import RuleError
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, Constant, Formula, IsNull
from holdfast.rules.rule import Calculation, Dc, Fd, Ind, Key, Marked, Order
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema

cache = lru_cache(maxsize=256)  # a run of many cases sees very many schemas

POLICIES = ("equal", "distinct", "sql")

# Few values, so that ties, duplicates and near misses are common; extremes among them.
POOLS = {
    Kind.INTEGER: [0, 1, 2, -1, 2**53, 2**53 + 1, 2**61, -(2**61), 2**62 + 1, 2**63 - 1, -(2**63) + 1],
    Kind.FLOAT: [0.0, -0.0, 1.0, 1.5, -1.0, float(2**53), 0.1, math.inf, -math.inf, math.nan, 1e300, 2.0**62, 2.0**63],
    Kind.DATE: [date(2020, 1, 1), date(2020, 1, 2), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31)],
    Kind.TIMESTAMP: [
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        datetime(2020, 1, 2, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ],
    Kind.BOOLEAN: [True, False],
    Kind.TEXT: ["a", "b", "", "A", "it's", "`", "ß", "a\nb", "null"],
}
DECIMALS = {
    0: ["0", "1", "2", "-1"],
    1: ["0.0", "1.5", "1.0", "-1.0"],
    2: ["0.00", "1.50", "1.55", "1.00", "-0.01"],
}
NAMES = ["a", "b", "zip code", "key", "x`y", 'q"q', "größe", "select", "c"]


def pool(column: Column) -> list[object]:
    if column.kind is Kind.DECIMAL:
        return [Decimal(text) for text in DECIMALS[column.scale]]
    return POOLS[column.kind]


@cache
def columns(name: str, kinds: tuple[Kind, ...] = tuple(Kind)) -> st.SearchStrategy[Column]:
    def build(kind: Kind, scale: int) -> Column:
        return Column(name, kind, scale if kind is Kind.DECIMAL else 0)

    return st.builds(build, st.sampled_from(kinds), st.sampled_from((0, 1, 2)))


@cache
def _names(least: int, most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(NAMES), min_size=least, max_size=most, unique=True)


@cache
@st.composite
def schemas(draw: st.DrawFn, least: int = 1, most: int = 4, kinds: tuple[Kind, ...] = tuple(Kind)) -> Schema:
    names = draw(_names(least, most))
    return Schema(tuple(draw(columns(name, kinds)) for name in names))


@cache
def values(column: Column) -> st.SearchStrategy[object]:
    few = st.sampled_from(pool(column)[:3])
    return st.one_of(few, st.none(), st.sampled_from(pool(column)))


@cache
def _row(schema: Schema) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({c.name: values(c) for c in schema.columns})


@cache
def rows_of(schema: Schema, most: int = 8) -> st.SearchStrategy[list[dict[str, object]]]:
    return st.lists(_row(schema), max_size=most)


@cache
@st.composite
def tables(draw: st.DrawFn, **limits: int) -> tuple[Schema, list[dict[str, object]]]:
    schema = draw(schemas(**{k: v for k, v in limits.items() if k in ("least", "most")}))
    return schema, draw(rows_of(schema, limits.get("rows", 8)))


def to_arrow(schema: Schema, rows: list[dict[str, object]], **more: list[object]) -> pa.Table:
    arrays = {c.name: pa.array([row[c.name] for row in rows], narrow_type(c)) for c in schema.columns}
    return pa.table(arrays | {name: pa.array(list_, pa.int64()) for name, list_ in more.items()})


def narrow_type(column: Column) -> pa.DataType:
    """The Arrow type a user would have: decimals no wider than they need be."""
    return pa.decimal128(18, column.scale) if column.kind is Kind.DECIMAL else column.arrow_type


# --- rules ---------------------------------------------------------------------------------------------------


@cache
def _one_of(things: tuple[Column | Op | str, ...]) -> st.SearchStrategy[Column | Op | str]:
    return st.sampled_from(things)


@cache
def _some_of(names: tuple[str, ...], least: int = 0) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), min_size=least, unique=True)


@cache
def _ops(column: Column) -> st.SearchStrategy[Op]:
    return st.sampled_from(tuple(Op) if column.kind.ordered else (Op.EQ, Op.NE))


@cache
@st.composite
def keys(draw: st.DrawFn, schema: Schema) -> Key:
    return Key(frozenset(draw(_some_of(tuple(schema.names), 1))))


@cache
@st.composite
def fds(draw: st.DrawFn, schema: Schema) -> Fd:
    right = draw(_one_of(tuple(schema.names)))
    left = draw(_some_of(tuple(schema.names)))
    return Fd(frozenset(left) - {right}, right)


@cache
@st.composite
def orders(draw: st.DrawFn, schema: Schema) -> Order:
    names = draw(st.permutations(schema.names))
    count = draw(st.integers(1, len(names)))

    def marked(name: str) -> Marked:
        ordered = schema.column(name).kind.ordered
        return Marked(name, draw(_one_of((Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE) if ordered else (Op.EQ,))))

    return Order(frozenset(marked(n) for n in names[1:count]), marked(names[0]))


@cache
@st.composite
def predicates(draw: st.DrawFn, schema: Schema, rows: tuple[str, ...] = ("t", "s")) -> Compare | IsNull:
    column = draw(_one_of(schema.columns))
    cell = Cell(draw(_one_of(rows)), column.name)
    choice = draw(
        _one_of(("pair", "pair", "cross", "literal", "null") if "s" in rows else ("cross", "literal", "null"))
    )
    if choice == "null":
        return IsNull(cell, draw(st.booleans()))
    if choice == "literal":
        return Compare(cell, draw(_ops(column)), Constant.of(draw(literals(column))))
    others = tuple(c for c in schema.columns if c.kind.group == column.kind.group)
    other = column if choice == "pair" else draw(_one_of(others))
    right = Cell({"t": "s", "s": "t"}[cell.row] if choice == "pair" else draw(_one_of(rows)), other.name)
    return Compare(cell, draw(_ops(column)), right)


@cache
def literals(column: Column) -> st.SearchStrategy[object]:
    if column.kind.group == "numbers":
        return st.sampled_from(
            [Decimal(text) for text in ("0", "1", "1.5", "-1", "0.1", "1.55", "1.555", "9007199254740993")]
        )
    if column.kind.group == "dates":
        return st.sampled_from(POOLS[Kind.DATE][:3] + POOLS[Kind.TIMESTAMP])
    return st.sampled_from(pool(column))


@cache
def _conjunctions(schema: Schema, rows: tuple[str, ...], most: int) -> st.SearchStrategy[list[Compare | IsNull]]:
    return st.lists(predicates(schema, rows), min_size=1, max_size=most)


@cache
@st.composite
def dcs(draw: st.DrawFn, schema: Schema) -> Dc:
    found = draw(_conjunctions(schema, ("t", "s"), 4))
    try:
        return Dc(frozenset(found))
    except RuleError:  # a contradiction, or a cell compared with itself
        name = schema.names[0]
        return Dc(frozenset({Compare(Cell("t", name), Op.EQ, Cell("s", name))}))


@cache
@st.composite
def one_row_filters(draw: st.DrawFn, schema: Schema) -> frozenset[Compare | IsNull]:
    try:
        return Dc(frozenset(draw(_conjunctions(schema, ("t",), 2)))).predicates
    except RuleError:
        return frozenset()


@cache
def pair_rules(schema: Schema) -> st.SearchStrategy[Key | Fd | Order | Dc]:
    return st.one_of(keys(schema), fds(schema), orders(schema), dcs(schema))


@cache
def calculations(schema: Schema) -> st.SearchStrategy[Calculation] | None:
    """Sums and products; None if the schema has too few integers and decimals."""
    names = [column.name for column in schema.columns if column.kind in (Kind.INTEGER, Kind.DECIMAL)]
    if len(names) < 2:
        return None

    def build(chosen: tuple[str, str, str], op: str) -> Calculation:
        result, left, right = chosen
        return Calculation(result, Formula(op, left, right))

    parts = st.tuples(*[st.sampled_from(names)] * 3).filter(lambda chosen: chosen[0] not in chosen[1:])
    return st.builds(build, parts, st.sampled_from("+*"))


@cache
def one_table_rules(schema: Schema) -> st.SearchStrategy[Key | Fd | Order | Dc | Calculation]:
    """Rules of all kinds but inclusions."""
    formulas = calculations(schema)
    return pair_rules(schema) if formulas is None else st.one_of(pair_rules(schema), formulas)


@st.composite
def inclusions(draw: st.DrawFn, left: Schema, right: Schema) -> Ind | None:
    pairs = [(a.name, b.name) for a in left.columns for b in right.columns if a.kind.group == b.kind.group]
    if not pairs:
        return None
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2, unique_by=(lambda p: p[0], lambda p: p[1])))
    return Ind("left", tuple(a for a, _ in chosen), "right", tuple(b for _, b in chosen))


# --- change sequences ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One change: indexes (modulo the live rows) of rows to delete and to update, rows to insert."""

    deletes: list[int]
    updates: list[tuple[int, dict[str, object]]]
    inserts: list[dict[str, object]]


@cache
def steps(schema: Schema, most: int = 4) -> st.SearchStrategy[Step]:
    row = _row(schema)
    return st.builds(
        Step,
        st.lists(st.integers(0, 20), max_size=most),
        st.lists(st.tuples(st.integers(0, 20), row), max_size=most),
        st.lists(row, max_size=most),
    )


@cache
def histories(schema: Schema, length: int = 5) -> st.SearchStrategy[list[Step]]:
    return st.lists(steps(schema), min_size=1, max_size=length)
