"""`check` on Spark: all keys, dependencies, inclusions and row rules in one query, other pair rules in tiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from pyspark.sql import functions as F

from holdfast.errors import HoldfastError, shown
from holdfast.html_table import html_table
from holdfast.rules.bind import require_fits, require_policy, require_predicates_fit, table_of
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry, Rules, as_entry, entries_of
from holdfast.rules.sentence import standing
from holdfast.spark.agreement import Agreement
from holdfast.spark.explain import explained
from holdfast.spark.frames import frames_of, settled
from holdfast.spark.groups import shared_groups, violations_of_groups
from holdfast.spark.inclusion import Inclusion
from holdfast.spark.jobs import described, rules_in_words
from holdfast.spark.listing import ID, RowNames, violates, violations_of, with_violates, without_partner
from holdfast.spark.pair_tasks import PairSearch
from holdfast.spark.pair_tiles import TiledSearch
from holdfast.spark.plan import PlannedRule, planned
from holdfast.table.options import Choices, TableOptions
from holdfast.table.schema import Schema
from holdfast.violations.detect import CheckedRule
from holdfast.violations.explain import Explanation
from holdfast.violations.listing import RuleNames

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

Tables = dict[str, "DataFrame"]


def count_all(rules: list[PlannedRule], tables: Tables, options: Mapping[str, TableOptions]) -> list[int]:
    """The number of violations of each rule. One query for all but those that are searched in tiles."""
    agreements = {rule.number: rule.way for rule in rules if isinstance(rule.way, Agreement)}
    shared = shared_groups(agreements, tables.__getitem__)
    grouped = [(groups, groups.that_repeat(tables[groups.left_side.table])) for groups in shared]
    spark = next(iter(tables.values())).sparkSession
    with described(spark, f"check {rules_in_words([str(rule.item.rule) for rule in rules])}"):
        counts = violations_of_groups(grouped, _aggregates(rules, tables, options))
    for rule in rules:
        if isinstance(rule.way, PairSearch):
            with described(spark, f"check {rule.item.rule}, pairs of rows"):
                found = TiledSearch(rule.way, tables[rule.table]).counts().agg(F.sum("violations")).collect()
            counts[rule.number] = int(found[0][0] or 0)
    return [counts[rule.number] for rule in rules]


def _aggregates(rules: list[PlannedRule], tables: Tables, options: Mapping[str, TableOptions]) -> Iterator[DataFrame]:
    """(rule, violations) of foreign keys and rules about single rows."""
    for rule in rules:
        if isinstance(rule.way, Inclusion):
            sides = tables[rule.table], tables[rule.way.rule.right_table]
            missing = without_partner(rule.way, *sides, RowNames.of(options[rule.table]))
            yield missing.agg(F.lit(rule.number).alias("rule"), _count(F.count("*")).alias("violations"))
    for table, rows in tables.items():
        tests = {r.number: r.item for r in rules if r.way is None and r.table == table}
        yield from _row_rules(tests, options[table].schema, rows)


def _row_rules(items: Mapping[int, CheckedRule], schema: Schema, rows: DataFrame) -> Iterator[DataFrame]:
    """(rule, violations) of rules about single rows: one scan for all that Spark can test."""
    tests = {number: violates(item, schema) for number, item in items.items()}
    exact = {number: test for number, test in tests.items() if test is not None}
    if exact:
        violating = rows.where(reduce(or_, exact.values()))  # which Spark may push down to the files
        counts = [_count(F.count_if(test)).alias(f"v{number}") for number, test in exact.items()]
        told = [F.struct(F.lit(n).alias("rule"), F.col(f"v{n}").alias("violations")) for n in exact]
        yield violating.agg(*counts).select(F.inline(F.array(*told)))
    for number, test in tests.items():
        if test is None:
            found = with_violates(items[number], schema, rows).where("violates")
            yield found.agg(F.lit(number).alias("rule"), _count(F.count("*")).alias("violations"))


def _count(number: Expr) -> Expr:
    return number.cast("decimal(38,0)")


def check_on_spark(data: Any, rules: Rules, *, nulls: str, choices: Choices) -> SparkFound:
    """Checks rules on Spark DataFrames of any size. Only numbers come to the driver."""
    entries = tuple(as_entry(rule, require_policy(nulls)) for rule in entries_of(rules))
    frames = frames_of(data)
    made = settled(frames, choices)
    options = {name: table for name, (_, table) in made.items()}
    schemas = {name: table.schema for name, table in options.items()}
    for entry in entries:
        require_fits(entry.value, schemas)
        require_predicates_fit(entry.predicates, schemas[table_of(entry.value, schemas)])
    tables = {name: frame.select(F.monotonically_increasing_id().alias(ID), "*") for name, (frame, _) in made.items()}
    return SparkFound(entries, tables, options)


class SparkFound:
    """The violations of some rules on some DataFrames, with the interface of `Found`."""

    def __init__(self, entries: tuple[RuleEntry, ...], tables: Tables, options: dict[str, TableOptions]) -> None:
        self.entries, self._tables, self._options = entries, tables, options
        checked = [CheckedRule(entry.value, entry.nulls, entry.predicates) for entry in entries]
        self._names = RuleNames(checked, [entry.id for entry in entries], options)
        self._rules = planned(checked, {name: table.schema for name, table in options.items()})
        self._counts = count_all(self._rules, tables, options)
        self._rows: dict[str, int] = {}

    def count(self, rule: str | Rule) -> int:
        """The exact number of violating ordered pairs; rows, for one-row rules and inclusions."""
        return self._counts[self._names.find(rule).number]

    def violations(self, rule: str | Rule) -> DataFrame:
        """t and s of the violating pairs, by key, or by row id; only t for rules about rows. Row ids are those of one
        reading of the DataFrame: give a key, if its rows may come in another order next time."""
        asked = self._names.find(rule)
        found = violations_of(self._rules[asked.number], self._tables, self._options)
        return found.select(F.col("s").alias("t"), F.col("t").alias("s")) if asked.mirrored else found

    def pairs(self, rule: str | Rule, limit: int | None = None) -> pa.Table:
        """The same as an Arrow table, sorted by t, then s; the first `limit` of them."""
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise HoldfastError(f"a limit is a number from 0 on, or None, not {shown(limit)}")
        found = self.violations(rule)
        found = found.orderBy(*found.columns)
        return (found if limit is None else found.limit(limit)).toArrow()

    def error(self, rule: str | Rule) -> float:
        """Violating pairs / n(n-1); rows / n for rules about rows."""
        planned_rule = self._rules[self._names.find(rule).number]
        return planned_rule.item.error(self.count(rule), self.rows(planned_rule.table))

    def rows(self, table: str) -> int:
        """The number of rows of a table."""
        if table not in self._rows:
            self._rows[table] = self._tables[table].count()
        return self._rows[table]

    def explain(self, rule: str | Rule, limit: int = 10) -> Explanation:
        """Which rows are worst, what they clash about, and which rows to remove, from the first violations."""
        entry = self.entries[self._names.find(rule).number]
        return explained(entry, self.count(rule), self.violations(rule), self._tables, self._options, limit)

    @property
    def schemas(self) -> dict[str, Schema]:
        return {name: table.schema for name, table in self._options.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to do: only numbers are kept."""

    @property
    def ok(self) -> bool:
        """Whether no rule is violated."""
        return not any(self._counts)

    def __bool__(self) -> bool:
        """Whether some rule is violated."""
        return not self.ok

    def __iter__(self) -> Iterator[RuleEntry]:
        return iter(self.entries)

    def __repr__(self) -> str:
        lines = [f"{self.count(entry.id):>12,}  {entry.rule}" for entry in self.entries]
        return "\n".join(["  violations  rule", *lines])

    def _repr_html_(self) -> str:
        rows = [(self.count(e.id), e.rule, standing(e.value, self.count(e.id))) for e in self.entries]
        return html_table(["violations", "rule", "sentence"], rows, len(rows))
