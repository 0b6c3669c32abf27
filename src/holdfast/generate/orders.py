"""Generated orders and customers: two tables with a foreign key and rules of every kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.generate.stream import GeneratedStream, Spoiler
from holdfast.generate.values import cents, chosen, made_up, pick, replaced

MAX_ZIPS, PRODUCTS = 2_000, 500
COUNTRIES = ["AT", "BE", "CH", "DE", "DK", "ES", "FR", "IT", "NL", "PL"]
RULES = [
    "customers: key(id)",
    "customers: key(email)",
    "customers: zip -> city",
    "customers: zip -> country",
    "orders: key(id)",
    "orders: product -> price",
    "orders: not(t.shipped < t.ordered)",
    "orders: not(t.quantity < 1)",
    "orders: not(t.product = s.product and t.quantity < s.quantity and t.amount > s.amount)",
    "orders.customer in customers.id",
]
_FIRST_DAY = 19_000  # 2022-01-08


@dataclass(frozen=True)
class _Customers:
    """Makes customers by number."""

    seed: int
    zips: int

    def __call__(self, first: int, count: int) -> pa.Table:
        numbers = np.arange(first, first + count)
        zip_ = pick(self.seed, 21, numbers, self.zips)
        return pa.table(
            {
                "id": pa.array(numbers + 1),
                "name": chosen(made_up(700, 5), pick(self.seed, 22, numbers, 700)),
                "email": pa.array([f"c{i + 1}@example.com" for i in range(first, first + count)]),
                "zip": chosen([f"{z + 1:05d}" for z in range(self.zips)], zip_),
                "city": chosen(made_up(self.zips // 3 + 1, 17), zip_ // 3),
                "country": chosen(COUNTRIES, zip_ * len(COUNTRIES) // self.zips),
                "since": pa.array((_FIRST_DAY - pick(self.seed, 23, numbers, 2000)).astype(np.int32)).view(pa.date32()),
            }
        )


@dataclass(frozen=True)
class _Orders:
    """Makes orders by number."""

    seed: int
    customers: int

    def __call__(self, first: int, count: int) -> pa.Table:
        numbers = np.arange(first, first + count)
        product, quantity = pick(self.seed, 31, numbers, PRODUCTS), 1 + pick(self.seed, 32, numbers, 9)
        price = 100 + (product * 7_919) % 20_000
        ordered = _FIRST_DAY + numbers // 10 % 1500
        days = pick(self.seed, 34, numbers, 12)
        shipped = pa.array((ordered + days % 10).astype(np.int32), mask=days >= 10)
        return pa.table(
            {
                "id": pa.array(numbers + 1),
                "customer": pa.array(1 + pick(self.seed, 33, numbers, self.customers)),
                "product": chosen([f"P{p:04d}" for p in range(PRODUCTS)], product),
                "quantity": pa.array(quantity),
                "price": cents(price),
                "amount": cents(price * quantity),
                "ordered": pa.array(ordered.astype(np.int32)).view(pa.date32()),
                "shipped": shipped.view(pa.date32()),
                "status": chosen(["new", "paid", "sent"], np.minimum(days // 4, 2)),
            }
        )


def orders(rows: int = 10_000, seed: int = 0) -> GeneratedStream:
    """A stream of changes to orders, with a fifth as many customers.

    >>> sorted(orders(1000).tables)
    ['customers', 'orders']
    """
    customers = max(1, rows // 5)
    zips = min(MAX_ZIPS, max(10, customers // 20))
    make = _Orders(seed, customers)
    unknown_customer = pa.array([customers * 1000 + 7])
    return GeneratedStream(
        tables={"customers": _Customers(seed, zips)(0, customers), "orders": make(0, rows)},
        keys={"customers": ("id",), "orders": ("id",)},
        rules=RULES,
        moving="orders",
        make=make,
        touch=lambda rows: replaced(rows, status=chosen(["sent"], np.zeros(rows.num_rows, np.int64))),
        spoilers=[
            Spoiler("orders.customer in customers.id", "orders", lambda row: replaced(row, customer=unknown_customer)),
            Spoiler("customers: zip -> city", "customers", lambda row: replaced(row, city=pa.array(["Nowhere"]))),
            Spoiler(
                "orders: not(t.shipped < t.ordered)", "orders",
                lambda row: replaced(row, shipped=pa.array([_FIRST_DAY - 5], pa.int32()).view(pa.date32())),
            ),
            Spoiler("orders: product -> price", "orders", lambda row: replaced(row, price=cents(np.array([1])))),
        ],
        seed=seed,
    )  # fmt: skip
