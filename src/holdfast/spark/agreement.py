"""Keys and functional dependencies on Spark: violating pairs are counted from groups, not enumerated.

Both say that rows which agree on X (the left side) agree on A (the right side; of a key, nothing agrees). Of a group
of N rows with the same X, of which m have the value a, N(N-1) - sum of m(m-1) ordered pairs violate it. Nulls:

    equal      a null is a value like any other, on both sides
    distinct   a row with a null in X is in no group; nulls in A agree with nothing
    sql        a row with a null in X or in A is in no group
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.rules.nulls import Nulls
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Compare, Predicate, conjunction_text
from holdfast.rules.rule import Ind, as_dc
from holdfast.spark.frames import all_of, places
from holdfast.spark.predicates import are_exact, in_own_columns, satisfies
from holdfast.table.schema import Schema
from holdfast.violations.detect import CheckedRule

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class LeftSide:
    """X of some rules: its cells, and which rows of the table are in a group."""

    table: str
    schema: Schema
    cells: tuple[str, ...]
    equal_nulls: bool
    where: frozenset[Predicate] = frozenset()

    def is_member(self, prefix: str = "") -> Expr:
        """Whether a row is in a group."""
        conditions = [F.expr(" and ".join(f"{prefix}{cell} is not null" for cell in self.cells))] * (
            not self.equal_nulls and bool(self.cells)
        )
        if self.where:
            conditions.append(satisfies(self.where, self.schema, Nulls.SQL, in_own_columns(self.schema, prefix)))
        return all_of(conditions)

    @property
    def digest(self) -> str:
        """Names the left side in files."""
        parts = [self.table, *self.cells, str(self.equal_nulls), conjunction_text(self.where) if self.where else ""]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Agreement:
    """A key or functional dependency of one table. `right` is a cell; a key has none."""

    left_side: LeftSide
    right: str | None
    nulls: Nulls

    @property
    def x(self) -> list[str]:
        return list(self.left_side.cells)

    @property
    def columns(self) -> list[str]:
        """The cells of X and A."""
        return [*self.x, *([self.right] if self.right else [])]

    def is_member(self, prefix: str = "") -> Expr:
        """Whether a row can violate the rule."""
        return self.left_side.is_member(prefix) & self.counts(prefix)

    def counts(self, prefix: str = "") -> Expr:
        """Whether a row of a group can violate the rule."""
        ignores = self.nulls is Nulls.SQL and self.right
        return F.col(f"{prefix}{self.right}").isNotNull() if ignores else F.lit(True)

    def side(self, prefix: str = "") -> list[Expr]:
        """X and A of a row."""
        return [F.col(prefix + cell).alias(cell) for cell in self.columns]

    def agrees(self, a: Expr) -> Expr:
        """Whether two rows with this value of A agree."""
        return a.isNotNull() if self.nulls is Nulls.DISTINCT else F.lit(True)

    def groups(self, rows: DataFrame) -> DataFrame:
        """(X, A, n): how many rows that can violate the rule have these values. One shuffle."""
        members = rows.where(self.is_member()).select(self.side())
        return members.groupBy(self.columns).agg(F.count("*").alias("n"))

    def violated(self, groups: DataFrame) -> DataFrame:
        """(X, n, violations) of the groups with a violation, from (X, A, n). One more shuffle, of groups."""
        if self.right is None:
            return groups.select(*self.x, "n", pairs_of("n").alias("violations")).where("n > 1")
        agreeing = F.sum(F.when(self.agrees(F.col(self.right)), pairs_of("n")))
        by_x = groups.groupBy(self.x).agg(F.sum("n").alias("n"), agreeing.alias("agreeing"))
        different = pairs_of("n") - F.coalesce(F.col("agreeing"), F.lit(0))
        return by_x.select(*self.x, "n", different.alias("violations")).where("violations > 0")


def agreement_of(item: CheckedRule, table: str, schema: Schema) -> Agreement | None:
    """The rule as an agreement; None if it says something else."""
    if isinstance(item.rule, Ind):
        return None
    predicates = as_dc(item.rule).written
    if not all(isinstance(p, Compare) and p.is_pair and p.cells[0].column == p.cells[1].column for p in predicates):
        return None
    by_op = {op: [p.cells[0].column for p in predicates if p.op is op] for op in (Op.EQ, Op.NE)}  # type: ignore[union-attr]
    left, right = sorted(by_op[Op.EQ], key=schema.position), by_op[Op.NE]
    if len(left) + len(right) < len(predicates) or len(right) > 1 or not are_exact(item.where, schema):
        return None
    nulls, cells = Nulls(item.nulls), places(schema, right)
    left_side = LeftSide(table, schema, tuple(places(schema, left)), nulls is Nulls.EQUAL, item.where)
    return Agreement(left_side, cells[0] if cells else None, nulls)


def pairs_of(column: str) -> Expr:
    """n(n-1), exact for any n; null for n < 2, which sums ignore."""
    n = F.col(column).cast("decimal(18,0)")
    return F.when(F.col(column) > 1, n * (n - F.lit(1).cast("decimal(1,0)")))
