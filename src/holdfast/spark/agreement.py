"""Keys and functional dependencies on Spark: violating pairs are counted from groups, not enumerated.

Both say that rows which agree on X (the left side) agree on A (the right side; of a key, nothing agrees). Of a group
of N rows with the same X, of which m have the value a, N(N-1) - sum of m(m-1) ordered pairs violate it. Nulls:

    equal      a null is a value like any other, on both sides
    distinct   a row with a null in X is in no group; nulls in A agree with nothing
    sql        a row with a null in X or in A is in no group
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.rules.nulls import Nulls
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Compare, Predicate
from holdfast.rules.rule import Ind, as_dc
from holdfast.spark.frames import all_of, places
from holdfast.spark.predicates import are_exact, in_own_columns, satisfies
from holdfast.table.schema import Schema
from holdfast.violations.detect import CheckedRule

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Agreement:
    """A key or functional dependency of one table. `left` and `right` are cells; a key has no right side."""

    schema: Schema
    left: tuple[str, ...]
    right: str | None
    nulls: Nulls
    where: frozenset[Predicate] = frozenset()

    @property
    def left_side(self) -> tuple[object, ...]:
        """Agreements with equal left sides have the same groups, up to nulls in A under `sql`."""
        return self.left, self.nulls is Nulls.EQUAL, self.where

    @cached_property
    def columns(self) -> list[str]:
        """x0, x1, ..., and a: the columns of the groups."""
        return [*self.x, *(["a"] if self.right else [])]

    @cached_property
    def x(self) -> list[str]:
        return [f"x{i}" for i in range(len(self.left))]

    def is_member(self, prefix: str = "") -> Expr:
        """Whether a row is in a group."""
        conditions = [satisfies(self.where, self.schema, Nulls.SQL, in_own_columns(self.schema, prefix))]
        if self.nulls is not Nulls.EQUAL:
            conditions += [F.col(prefix + cell).isNotNull() for cell in self.left]
        if self.nulls is Nulls.SQL and self.right:
            conditions.append(F.col(prefix + self.right).isNotNull())
        return all_of(conditions)

    def side(self, prefix: str = "") -> list[Expr]:
        """The columns of the groups, of a row."""
        cells = [*self.left, *([self.right] if self.right else [])]
        return [F.col(prefix + cell).alias(name) for cell, name in zip(cells, self.columns, strict=True)]

    def agrees(self, a: Expr) -> Expr:
        """Whether two rows with this value of A agree."""
        return a.isNotNull() if self.nulls is Nulls.DISTINCT else F.lit(True)

    def groups(self, rows: DataFrame) -> DataFrame:
        """(X, A, n): how many rows have these values. One shuffle."""
        members = rows.where(self.is_member()).select(self.side())
        return members.groupBy(self.columns).agg(F.count("*").alias("n"))

    def violations(self, groups: DataFrame) -> DataFrame:
        """One row with the number of violating ordered pairs, from (X, A, n). One more shuffle, of groups."""
        if self.right is None:
            return groups.agg(_zero_if_none(F.sum(pairs_of("n"))).alias("violations"))
        agreeing = F.sum(F.when(self.agrees(F.col("a")), pairs_of("n")))
        by_x = groups.groupBy(self.x).agg(F.sum("n").alias("n"), agreeing.alias("agreeing"))
        different = pairs_of("n") - F.coalesce(F.col("agreeing"), F.lit(0))
        return by_x.agg(_zero_if_none(F.sum(different)).alias("violations"))


def agreement_of(item: CheckedRule, schema: Schema) -> Agreement | None:
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
    cells = places(schema, right)
    return Agreement(schema, tuple(places(schema, left)), cells[0] if cells else None, Nulls(item.nulls), item.where)


def pairs_of(column: str) -> Expr:
    """n(n-1), exact for any n; null for n < 2, which sums ignore."""
    n = F.col(column).cast("decimal(18,0)")
    return F.when(F.col(column) > 1, n * (n - F.lit(1).cast("decimal(1,0)")))


def _zero_if_none(total: Expr) -> Expr:
    return F.coalesce(total, F.lit(0)).cast("decimal(38,0)")
