"""The violations of a rule as a DataFrame: t and s of each violating pair, or t of each violating row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.rules.nulls import Nulls
from holdfast.rules.rule import as_dc
from holdfast.spark.agreement import Agreement
from holdfast.spark.frames import places, same, spark_type
from holdfast.spark.inclusion import Inclusion
from holdfast.spark.pair_tasks import PairSearch, RowTask
from holdfast.spark.pair_tiles import TiledSearch
from holdfast.spark.plan import PlannedRule
from holdfast.spark.predicates import are_exact, in_own_columns, satisfies
from holdfast.table.options import TableOptions
from holdfast.table.schema import Schema
from holdfast.violations.detect import CheckedRule

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

ID = "id"  # of rows in tables without a key


@dataclass(frozen=True)
class RowNames:
    """What rows of a table are called: by their key (a struct if it is composite), or by their id."""

    cells: tuple[str, ...]
    types: tuple[str, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, table: TableOptions) -> RowNames:
        if not table.key:
            return cls((ID,), ("bigint",), (ID,))
        columns = [table.schema.column(name) for name in table.key]
        return cls(tuple(places(table.schema, table.key)), tuple(map(spark_type, columns)), table.key)

    def numbered(self, side: str) -> list[str]:
        return [f"{side}{i}" for i in range(len(self.cells))]

    def parts(self, side: str, prefix: str = "") -> list[Expr]:
        """The parts of a row's name, as t0, t1, ..."""
        return [F.col(prefix + c).alias(n) for c, n in zip(self.cells, self.numbered(side), strict=True)]

    def joined(self, side: str) -> Expr:
        """The name of a row from its parts."""
        parts = self.numbered(side)
        if len(parts) == 1:
            return F.col(parts[0]).alias(side)
        return F.struct(*(F.col(p).alias(n) for p, n in zip(parts, self.names, strict=True))).alias(side)

    def pairs(self, frame: DataFrame) -> DataFrame:
        """t and s, from a frame with the parts of both."""
        return frame.select(self.joined("t"), self.joined("s"))


def violations_of(rule: PlannedRule, tables: dict[str, DataFrame], options: dict[str, TableOptions]) -> DataFrame:
    """t and s of each violating pair of a rule as it is written; only t for rules about single rows."""
    rows, names = tables[rule.table], RowNames.of(options[rule.table])
    if isinstance(rule.way, Agreement):
        return names.pairs(_disagreeing(rule.way, rows, names))
    if isinstance(rule.way, Inclusion):
        return without_partner(rule.way, rows, tables[rule.way.rule.right_table], names)
    if isinstance(rule.way, PairSearch):
        return names.pairs(TiledSearch(rule.way, rows).pairs(list(names.cells), list(names.types)))
    return with_violates(rule.item, options[rule.table].schema, rows).where("violates").select(named_t(names))


def named_t(names: RowNames, prefix: str = "") -> Expr:
    """The name of a row, as t."""
    if len(names.cells) == 1:
        return F.col(prefix + names.cells[0]).alias("t")
    return F.struct(*(F.col(prefix + c).alias(n) for c, n in zip(names.cells, names.names, strict=True))).alias("t")


def _disagreeing(rule: Agreement, rows: DataFrame, names: RowNames) -> DataFrame:
    """The pairs of rows that agree on X and not on A: a join of the rows of violated groups."""
    members = rows.where(rule.is_member())
    violated = rule.violated(rule.groups(rows)).select(rule.x)
    violated = violated.toDF(*(f"v{i}" for i in range(len(rule.x))))
    t = members.select(*rule.side(), *names.parts("t"))
    t = t.join(violated, same(rule.x, violated.columns), "left_semi")
    y = [f"y{i}" for i in range(len(rule.x))]
    s = members.select(*rule.side(), *names.parts("s")).toDF(*y, *(["b"] if rule.right else []), *names.numbered("s"))
    different = ~same(names.numbered("t"), names.numbered("s"))
    if rule.right is not None:
        a = F.col(rule.right)
        agree = rule.agrees(a) & a.eqNullSafe(F.col("b"))
        different &= ~agree
    return t.join(s, same(rule.x, y) & different)


def without_partner(rule: Inclusion, left: DataFrame, right: DataFrame, names: RowNames) -> DataFrame:
    """The left rows whose values no right row has."""
    mine = left.where(rule.is_member(left=True)).select(*rule.values(left=True), *names.parts("t"))
    theirs = right.where(rule.is_member(left=False)).select(*rule.values(left=False))
    theirs = theirs.toDF(*(f"y{i}" for i in range(len(rule.columns))))
    equal = [F.col(a) == F.col(b) for a, b in zip(rule.columns, theirs.columns, strict=True)]
    return mine.join(theirs, equal, "left_anti").select(names.joined("t"))


def violates(item: CheckedRule, schema: Schema, prefix: str = "") -> Expr | None:
    """Whether a row violates a rule about single rows; None if Spark cannot compare the cells exactly."""
    predicates = as_dc(item.rule).predicates  # type: ignore[arg-type]
    if not are_exact((*predicates, *item.where), schema):
        return None
    cell_of = in_own_columns(schema, prefix)
    return satisfies(predicates, schema, item.nulls, cell_of) & satisfies(item.where, schema, Nulls.SQL, cell_of)


def with_violates(item: CheckedRule, schema: Schema, rows: DataFrame, prefixes: tuple[str, ...] = ("",)) -> DataFrame:
    """The rows, and in the column `violates` whether each violates a rule about single rows.

    `prefixes`: of the cells, and of the new columns, for frames that have several rows side by side.
    """
    tests = {prefix: violates(item, schema, prefix) for prefix in prefixes}
    exact = [test.alias(f"{prefix}violates") for prefix, test in tests.items() if test is not None]
    if len(exact) == len(prefixes):
        return rows.select("*", *exact)
    fields = [f"`{f.name}` {f.dataType.simpleString()}" for f in rows.schema.fields]
    fields += [f"{prefix}violates boolean" for prefix in prefixes]
    return rows.mapInArrow(RowTask(item, schema, prefixes), ", ".join(fields))
