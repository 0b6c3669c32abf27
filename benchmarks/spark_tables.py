"""Sales of any number of rows, made by Spark itself; and how an expert checks them in plain Spark SQL."""

from __future__ import annotations

from holdfast.rules.grammar import parse
from holdfast.rules.rule import Fd, Ind, Key

CUSTOMERS_PER_ROW, PRODUCTS, ZIPS = 0.1, 5_000, 40_000
DIRTY, DIRTY_IN_BATCHES = 1_000_003, 499  # one row in so many is wrong in some column

GROUPED = [
    "sales: key(id)",
    "sales: id -> code",
    "sales: key(code)",
    "sales: code -> customer",
    "sales: zip -> city",
    "sales: zip -> state",
    "sales: zip -> country",
    "sales: city -> state",
    "sales: city -> country",
    "sales: product -> price",
    "sales: product -> category",
    "sales: product -> brand",
    "sales: customer -> segment",
    "sales: customer -> zip",
    "sales: state -> country",
    "sales: brand -> category",
    "sales.customer in customers.id",
    "sales.product in products.id",
    "sales: not(t.shipped < t.ordered)",
    "sales: not(t.quantity < 1)",
]
SEARCHED = [
    "sales: not(t.product = s.product and t.quantity < s.quantity and t.amount > s.amount)",
    "sales: {price_rank <} -> price <=",
]
KEPT = [
    "sales: key(code)",
    "sales: zip -> city",
    "sales: product -> price",
    "sales: customer -> segment",
    "sales.customer in customers.id",
]


def sales(spark, first: int, count: int, customers: int, seed: int = 0, dirty: int = DIRTY):
    """Rows `first` to `first + count`, each a function of its number: a row made twice is the same. With another seed,
    the attributes of a row change, but not those that other attributes determine."""
    rows = spark.range(first, first + count).withColumnRenamed("id", "number")
    rows = rows.selectExpr(
        "number",
        f"pmod(xxhash64(number, {seed}, 1), {customers}) as c",
        f"pmod(xxhash64(number, {seed}, 2), {PRODUCTS}) as p",
        f"cast(1 + pmod(xxhash64(number, {seed}, 3), 9) as int) as quantity",
        f"cast(pmod(xxhash64(number, {seed}, 4), 1500) as int) as day",
        f"cast(pmod(xxhash64(number, {seed}, 5), 10) as int) as days",
        f"pmod(xxhash64(number, {seed}, 6), {dirty}) as dirt",
    )
    rows = rows.selectExpr("*", f"pmod(xxhash64(c, 7), {ZIPS}) as z")
    return rows.selectExpr(
        "number as id",
        "concat('S-', lpad(cast(number as string), 10, '0')) as code",
        "c + 1 as customer",
        "case when dirt = 0 then 'none' else element_at(array('private', 'shop', 'club'), cast(1 + c % 3 as int)) end"
        " as segment",
        "lpad(cast(z + 1 as string), 5, '0') as zip",
        "case when dirt = 1 then 'Nowhere' else concat('city ', cast(z div 3 as string)) end as city",
        "concat('state ', cast(z div 900 as string)) as state",
        "concat('country ', cast(z div 9000 as string)) as country",
        "p + 1 as product",
        "p as price_rank",
        "cast((100 + p * 7 + case when dirt = 2 then 1 else 0 end) / 100.0 as decimal(12,2)) as price",
        "concat('category ', cast(p div 250 as string)) as category",
        "concat('brand ', cast(p div 10 as string)) as brand",
        "quantity",
        "cast((100 + p * 7) * quantity / 100.0 as decimal(14,2)) as amount",
        "date_add(date '2022-01-01', day) as ordered",
        "date_add(date '2022-01-01', day + days) as shipped",
    )


def write_tables(spark, home: str, rows: int) -> int:
    """Writes sales, customers and products as Parquet; returns the number of customers."""
    customers = max(10, int(rows * CUSTOMERS_PER_ROW))
    sales(spark, 0, rows, customers).write.parquet(f"{home}/sales")
    spark.range(customers).selectExpr("id + 1 as id").write.parquet(f"{home}/customers")
    spark.range(PRODUCTS).selectExpr("id + 1 as id").write.parquet(f"{home}/products")
    return customers


def read_tables(spark, home: str) -> dict:
    return {name: spark.read.parquet(f"{home}/{name}") for name in ("sales", "customers", "products")}


def plain_query(text: str) -> str:
    """The number of violations, as an expert counts them; nulls as in SQL."""
    rule = parse(text)
    if isinstance(rule, Key):
        columns = ", ".join(sorted(rule.columns))
        return f"select sum(n * (n - 1)) from (select count(*) n from sales group by {columns} having count(*) > 1)"
    if isinstance(rule, Fd):
        x, a = ", ".join(sorted(rule.left)), rule.right
        groups = f"select {x}, {a}, count(*) n from sales where {a} is not null group by {x}, {a}"
        return (
            f"select sum(m * m - s) from (select sum(n) m, sum(n * n) s from ({groups}) "
            f"group by {x} having count(*) > 1)"
        )
    if isinstance(rule, Ind):
        left, right = rule.left[0], rule.right[0]
        return f"select count(*) from sales left anti join {rule.right_table} r on sales.{left} = r.{right}"
    if "quantity <" in text and "product" not in text:
        return "select count(*) from sales where quantity < 1"
    if "shipped" in text:
        return "select count(*) from sales where shipped < ordered"
    if "price_rank" in text:
        return "select count(*) from sales t join sales s on t.price_rank < s.price_rank and t.price > s.price"
    join = "t.product = s.product and t.quantity < s.quantity and t.amount > s.amount"
    return f"select count(*) from sales t join sales s on {join}"
