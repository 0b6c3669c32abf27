"""The SQL of each rule, run by another engine, finds exactly what the definition finds."""

from __future__ import annotations

import math
import sqlite3
from datetime import UTC, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import RuleError
from holdfast.rules.grammar import parse
from holdfast.rules.sql import DIALECTS, violations_sql
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema
from tests import naive
from tests import strategies as hs
from tests.conftest import cases

ID = "row id"


def with_id(schema: Schema) -> Schema:
    return Schema((*schema.columns, Column(ID, Kind.INTEGER)))


def numbered(schema: Schema, rows: list[dict[str, object]]) -> pa.Table:
    return hs.to_arrow(schema, rows, **{ID: list(range(len(rows)))})


def sql_or_none(rule, schemas, key=ID, **options):
    """None where SQL refuses a decimal against a float."""
    try:
        return violations_sql(rule, schemas, key=key, **options)
    except RuleError as error:
        assert "which SQL cannot compare exactly" in str(error) or "rounds this formula" in str(error)
        return None


@pytest.fixture(scope="module")
def duck():
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def found(rows) -> list[object]:
    return sorted(tuple(r) if len(r) > 1 else r[0] for r in rows)


@given(data=st.data(), nulls=st.sampled_from(hs.POLICIES))
@settings(max_examples=cases(400))
def test_duckdb_finds_what_the_definition_finds(duck, data, nulls):
    schema, rows = data.draw(hs.tables(rows=7))
    rule = data.draw(hs.one_table_rules(schema))
    where = data.draw(st.one_of(st.just(frozenset()), hs.one_row_filters(schema)))
    query = sql_or_none(rule, with_id(schema), nulls=nulls, where=where)
    if query is not None:
        duck.register("data", numbered(schema, rows))
        assert found(duck.execute(query).fetchall()) == naive.violations(rule, rows, nulls, where)


@given(data=st.data())
@settings(max_examples=cases(200))
def test_duckdb_finds_missing_partners(duck, data):
    (left, left_rows), (right, right_rows) = data.draw(hs.tables()), data.draw(hs.tables())
    rule = data.draw(hs.inclusions(left, right))
    if rule is None:
        return
    query = sql_or_none(rule, {"left": with_id(left), "right": right})
    if query is not None:
        duck.register("left", numbered(left, left_rows))
        duck.register("right", hs.to_arrow(right, right_rows))
        expected = naive.violations(rule, {"left": left_rows, "right": right_rows}, "sql")
        assert found(duck.execute(query).fetchall()) == expected


def sqlite_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")
    return value.isoformat() if hasattr(value, "isoformat") else value


SQLITE_KINDS = (Kind.INTEGER, Kind.FLOAT, Kind.DATE, Kind.BOOLEAN, Kind.TEXT)


@given(data=st.data(), nulls=st.sampled_from(hs.POLICIES))
@settings(max_examples=cases(200))
def test_sqlite_finds_what_the_definition_finds(data, nulls):
    """SQLite has no decimals and no NaN; dates are ISO text there."""
    schema = data.draw(hs.schemas(kinds=SQLITE_KINDS))
    rows = [
        {k: None if v != v else v for k, v in row.items()}  # NaN is null in SQLite
        for row in data.draw(hs.rows_of(schema, 6))
    ]
    rule = data.draw(hs.one_table_rules(schema))
    query = violations_sql(rule, with_id(schema), key=ID, nulls=nulls, dialect="sqlite")
    connection = sqlite3.connect(":memory:")
    names = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in (*schema.names, ID)]
    connection.execute(f"CREATE TABLE data ({', '.join(names)})")
    values = [[*(sqlite_value(row[n]) for n in schema.names), i] for i, row in enumerate(rows)]
    connection.executemany(f"INSERT INTO data VALUES ({', '.join('?' * len(names))})", values)
    assert found(connection.execute(query).fetchall()) == naive.violations(rule, rows, nulls)
    connection.close()


@pytest.mark.spark
def test_spark_finds_what_the_definition_finds(spark):
    """Few cases, since a Spark query costs a tenth of a second; all run in one session."""

    @given(data=st.data(), nulls=st.sampled_from(hs.POLICIES))
    @settings(max_examples=40, database=None)
    def law(data, nulls):
        schema, rows = data.draw(hs.tables(rows=6))
        rules = [data.draw(hs.one_table_rules(schema)) for _ in range(2)]
        frame = spark.createDataFrame(numbered(schema, rows))
        frame.createOrReplaceTempView("data")
        for rule in rules:
            query = sql_or_none(rule, with_id(schema), nulls=nulls, dialect="spark")
            if query is not None:
                assert found(spark.sql(query).collect()) == naive.violations(rule, rows, nulls)

    law()


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data(), nulls=st.sampled_from(hs.POLICIES))
@settings(max_examples=cases(40))
def test_every_dialect_reads_its_own_sql(dialect, data, nulls):
    schema = data.draw(hs.schemas())
    query = sql_or_none(data.draw(hs.one_table_rules(schema)), with_id(schema), nulls=nulls, dialect=dialect)
    if query is not None:
        assert sqlglot.parse_one(query, dialect=dialect).sql(dialect=dialect, identify=True) == query


def test_a_decimal_against_a_float_is_refused():
    schema = Schema.of(id="integer", price="decimal(2)", paid="float")
    with pytest.raises(RuleError, match="cannot compare exactly"):
        violations_sql(parse("not(t.price = t.paid)"), schema, key="id")


def test_sql_needs_a_key():
    with pytest.raises(RuleError, match="key="):
        violations_sql(parse("key(a)"), Schema.of(a="integer"))


def test_large_integers_against_floats(duck):
    schema = Schema.of(id="integer", a="integer", b="float")
    rows = [{"a": 2**53 + 1, "b": float(2**53)}]
    duck.register("data", pa.table({"id": [0], "a": [2**53 + 1], "b": [float(2**53)]}))
    for text, expected in (("not(t.a = t.b)", []), ("not(t.a > t.b)", [0])):
        query = violations_sql(parse(text), schema, key="id")
        assert found(duck.execute(query).fetchall()) == expected == naive.violations(parse(text), rows, "sql")


WIDTHS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}
NUMBERS = {
    "DOUBLE": ("float", [1.5, 127.0, 2.0**31, 2.0**62, 2.0**63, -(2.0**63), 1e300, math.inf, -math.inf, math.nan]),
    "DECIMAL(18, 2)": ("decimal(2)", [Decimal("1.5"), Decimal(127), Decimal("9999999999999999.99")]),
    "DECIMAL(38, 18)": ("decimal(18)", [Decimal(1), Decimal("9.000000000000000001"), Decimal("-9.2")]),
    "DECIMAL(38, 0)": ("decimal(0)", [Decimal(127), Decimal(2**63 - 1), Decimal(1 - 2**63)]),
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("width", [*WIDTHS, "DECIMAL(38, 0)"])
def test_narrow_and_large_numbers_do_not_overflow(duck, width, number):
    """Integers of each width, at their bounds, against floats and decimals of each size, in both directions."""
    most = 2 ** WIDTHS.get(width, 63) - 1
    kind, others = NUMBERS[number]
    schema = Schema.of(id="integer", a="integer" if width in WIDTHS else "decimal(0)", b=kind)
    rows = [{"a": a, "b": b} for a in (most, -most, 9, 1, None) for b in (*others, None)]
    if schema.columns[1].kind is Kind.DECIMAL and kind == "float":
        return
    duck.execute(f"CREATE OR REPLACE TABLE narrow (id INTEGER, a {width}, b {number})")
    duck.executemany("INSERT INTO narrow VALUES (?, ?, ?)", [[i, *row.values()] for i, row in enumerate(rows)])
    for op in ("=", "!=", "<", "<=", ">", ">="):
        for text in (f"not(t.a {op} t.b)", f"not(t.b {op} t.a)"):
            query = violations_sql(parse(text), {"narrow": schema}, key="id")
            assert found(duck.execute(query).fetchall()) == naive.violations(parse(text), rows, "sql")
    duck.execute("DROP TABLE narrow")


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("column", "literal"), [("a", "1.5"), ("a", "1"), ("c", "-1.255"), ("c", "1e30"), ("c", "-1e30"), ("b", "0.1")]
)
def test_literals_between_and_beyond_the_values(duck, op, column, literal):
    schema = Schema.of(id="integer", a="integer", b="float", c="decimal(2)")
    rows = [
        {"a": a, "b": b, "c": c}
        for a, b, c in zip((1, 2, None), (0.1, 0.2, None), (Decimal("-1.26"), Decimal("-1.25"), None), strict=True)
    ]
    types = schema.arrow().set(3, pa.field("c", pa.decimal128(9, 2)))
    duck.register("data", pa.Table.from_pylist([row | {"id": i} for i, row in enumerate(rows)], schema=types))
    rule = parse(f"not(t.{column} {op} {literal})")
    for nulls in hs.POLICIES:
        query = violations_sql(rule, schema, key="id", nulls=nulls)
        assert found(duck.execute(query).fetchall()) == naive.violations(rule, rows, nulls)


@pytest.mark.parametrize(
    ("dialect", "scales", "is_exact"),
    [
        ("sqlite", (2, 2, 2), False), ("sqlite", (0, 0, 0), True), ("spark", (8, 4, 4), False),
        ("spark", (2, 2, 2), True),
        ("duckdb", (2, 18, 18), False), ("duckdb", (2, 2, 4), True), ("bigquery", (2, 6, 6), False),
        ("snowflake", (2, 6, 8), False), ("postgres", (2, 18, 18), True),
    ],
)  # fmt: skip
def test_a_formula_that_a_dialect_would_round_is_refused(dialect, scales, is_exact):
    types = {name: f"decimal({scale})" if scale else "integer" for name, scale in zip("abc", scales, strict=True)}
    schema = Schema.of(id="integer", **types)

    def write():
        return violations_sql(parse("a = b * c"), schema, key=["id"], dialect=dialect)

    if is_exact:
        assert "*" in write()
    else:
        with pytest.raises(RuleError, match="rounds this formula"):
            write()
