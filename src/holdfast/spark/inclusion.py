"""Inclusion dependencies on Spark: how many left and right rows have a value.

A left row without nulls violates the inclusion if no right row has its values. Values of different kinds are compared
exactly, in a common type.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.rules.bind import Schemas
from holdfast.rules.nulls import Nulls
from holdfast.rules.predicate import Predicate
from holdfast.rules.rule import Ind
from holdfast.spark.frames import all_of
from holdfast.spark.identity import identity
from holdfast.spark.predicates import common, in_own_columns, satisfies
from holdfast.table.kind import Kind
from holdfast.table.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Inclusion:
    """An inclusion of one or more columns; `where` restricts the left rows."""

    rule: Ind
    schemas: Schemas
    where: frozenset[Predicate]

    @cached_property
    def _columns(self) -> list[tuple[Column, Column]]:
        left, right = self.schemas[self.rule.left_table], self.schemas[self.rule.right_table]
        return [(left.column(a), right.column(b)) for a, b in zip(self.rule.left, self.rule.right, strict=True)]

    @cached_property
    def columns(self) -> list[str]:
        """x0, x1, ...: the columns of a value."""
        return [f"x{i}" for i in range(len(self._columns))]

    @cached_property
    def texts(self) -> list[str]:
        """The columns of a value as SQL for texts, such that only equal values have equal texts."""
        timestamps = [{left.kind, right.kind} == {Kind.TIMESTAMP} for left, right in self._columns]
        micros = [f"unix_micros({x})" if is_ else x for x, is_ in zip(self.columns, timestamps, strict=True)]
        return [f"cast({x} as string)" for x in micros]

    def _table(self, *, left: bool) -> str:
        return self.rule.left_table if left else self.rule.right_table

    def values(self, *, left: bool, prefix: str = "") -> list[Expr]:
        """The value of a left or a right row."""
        schema, made = self.schemas[self._table(left=left)], []
        for name, (a, b) in zip(self.columns, self._columns, strict=True):
            column = a if left else b
            cell = f"{prefix}c{schema.position(column.name)}"
            if {a.kind, b.kind} == {Kind.DECIMAL, Kind.FLOAT}:  # which have no common type
                made.append(F.expr(identity(column, cell)).alias(name))
            else:
                made.append(common(a, F.col(cell), b, F.col(cell))[0 if left else 1].alias(name))
        return made

    def is_member(self, *, left: bool, prefix: str = "") -> Expr:
        """Whether a row counts: it has no null in these columns, and a left row passes the filter."""
        schema = self.schemas[self._table(left=left)]
        names = [(a if left else b).name for a, b in self._columns]
        conditions = [F.col(f"{prefix}c{schema.position(name)}").isNotNull() for name in names]
        if left:
            conditions.append(satisfies(self.where, schema, Nulls.SQL, in_own_columns(schema, prefix)))
        return all_of(conditions)

    def value(self, prefix: str, there: str) -> Expr:
        """The value of a left row as a struct, or null if it does not count; `there` says whether there is a row."""
        member = F.col(there) & self.is_member(left=True, prefix=prefix)
        return F.when(member, F.struct(*self.values(left=True, prefix=prefix)))

    def counts(self, left: DataFrame, right: DataFrame) -> DataFrame:
        """(X, l, r): how many left rows and how many right rows have this value. One shuffle of both."""
        sides = []
        for frame, is_left in ((left, True), (right, False)):
            members = frame.where(self.is_member(left=is_left))
            numbers = [F.lit(int(is_left)).alias("l"), F.lit(int(not is_left)).alias("r")]
            sides.append(members.select(*self.values(left=is_left), *numbers))
        return summed(sides[0].unionByName(sides[1]), self.columns)

    def violations(self, counts: DataFrame) -> DataFrame:
        """One row with the number of violating left rows, from (X, l, r)."""
        total = F.sum(F.when(F.col("r") == 0, F.col("l")))
        return counts.agg(F.coalesce(total, F.lit(0)).cast("decimal(38,0)").alias("violations"))


def summed(counts: DataFrame, columns: list[str]) -> DataFrame:
    """The sums of l and r by value."""
    return counts.groupBy(columns).agg(*(F.sum(name).cast("bigint").alias(name) for name in ("l", "r")))
