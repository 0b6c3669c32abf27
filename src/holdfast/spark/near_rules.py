"""Rules that nearly hold, on Spark: candidates from a sample, their errors from all rows.

A candidate whose error is too large on all rows is dropped. One that is small enough is replaced by the more general
rules that nearly hold too, so every rule that is listed is valid and minimal. Some are missing: the sample may put a
rule on the wrong side of the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.discovery.budget import Budget
from holdfast.rules.general_forms import more_general
from holdfast.rules.limit import exceeds
from holdfast.rules.rule import Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.spark.agreement import Agreement
from holdfast.spark.check import count_all
from holdfast.spark.jobs import described
from holdfast.spark.listing import ID
from holdfast.spark.plan import PlannedRule, planned
from holdfast.spark.sampled_rules import SampledRules
from holdfast.spark.state_files import union
from holdfast.spark.table_search import SearchedTable
from holdfast.table.options import TableOptions
from holdfast.violations.detect import CheckedRule

_AT_ONCE = 16  # keys and dependencies that one query measures


@dataclass
class NearRules:
    """The rules of a table that nearly hold. `sample` has the rules of some of its rows."""

    table: SearchedTable
    sample: SampledRules
    _errors: dict[Rule, int] = field(default_factory=dict)  # pairs, or rows to remove

    @property
    def is_whole(self) -> bool:
        """Whether the sample has all rows, so that no rule is missing."""
        return len(self.sample.rows) == self.table.count

    def find(self, budget: Budget) -> tuple[RuleSet, bool]:
        """Rules with their exact errors; and whether all candidates were measured within the budget."""
        if self.is_whole:
            return self.sample.rules(), self.sample.is_finished
        waiting = list(self.sample.rules())
        first = len(waiting)
        while waiting and not budget.spent():
            budget.report("counting exceptions on Spark", min(1.0, len(self._errors) / first))
            self._measure(waiting[: self._most_at_once(waiting[0])])
            near = [rule for rule in self._errors if self._is_near(rule)]
            wanted = dict.fromkeys([*waiting, *(form for rule in near for form in self._more_general(rule))])
            waiting = [rule for rule in wanted if rule not in self._errors]
        return self._minimal(), self.sample.is_finished and not waiting

    def _more_general(self, rule: Rule) -> Iterator[Rule]:
        return more_general(rule, self.table.schema)

    def _minimal(self) -> RuleSet:
        """The rules that nearly hold, unless a more general one does or was not measured."""
        rules = [
            rule
            for rule in self._errors
            if self._is_near(rule)
            and all(form in self._errors and not self._is_near(form) for form in self._more_general(rule))
        ]
        found = RuleSet.from_rules(rules, self.table.schema.names)
        shares = {rule: self._errors[rule] / self._total(rule) for rule in rules}
        blocks = (replace(block, errors=np.array([shares[rule] for rule in block])) for block in found.blocks)
        return replace(found, blocks=tuple(blocks))

    def _is_near(self, rule: Rule) -> bool:
        return not exceeds(self._errors[rule], self._total(rule), self.table.options.max_error)

    def _total(self, rule: Rule) -> int:
        count = self.table.count
        return count if self._by_rows(rule) else count * (count - 1)

    def _by_rows(self, rule: Rule) -> bool:
        """Whether the error is the share of rows to remove."""
        return self.table.options.measure(rule.kind) == "g3"

    # --- measuring --------------------------------------------------------------------------------------------

    def _most_at_once(self, rule: Rule) -> int:
        return _AT_ONCE if rule.kind in ("key", "fd") else 1

    def _measure(self, rules: Sequence[Rule]) -> None:
        by_rows = [rule for rule in rules if self._by_rows(rule)]
        by_pairs = [rule for rule in rules if not self._by_rows(rule)]
        if by_rows:
            self._errors |= dict(zip(by_rows, self._rows_to_remove(by_rows), strict=True))
        if by_pairs:
            rows = self.table.rows.select(F.monotonically_increasing_id().alias(ID), "*")
            tables = {self.table.name: rows}
            counts = count_all(self._planned(by_pairs), tables, {self.table.name: TableOptions(self.table.schema)})
            self._errors |= dict(zip(by_pairs, counts, strict=True))

    def _planned(self, rules: Iterable[Rule]) -> list[PlannedRule]:
        checked = [CheckedRule(rule, self.table.options.nulls) for rule in rules]
        return planned(checked, {self.table.name: self.table.schema})

    def _rows_to_remove(self, rules: Sequence[Rule]) -> list[int]:
        """The fewest rows to remove, of keys and dependencies."""
        ways = [rule.way for rule in self._planned(rules)]
        parts = [
            _to_remove(way, self.table.rows).select(F.lit(number).alias("rule"), "removed")
            for number, way in enumerate(ways)
            if isinstance(way, Agreement)
        ]
        with described(self.table.rows.sparkSession, f"{self.table.name}: exceptions of {len(rules)} rules"):
            removed = {row["rule"]: row["removed"] for row in union(parts).collect()}
        return [int(removed[number] or 0) for number in range(len(rules))]


def _to_remove(way: Agreement, rows: DataFrame) -> DataFrame:
    """(removed): of each group of X, all rows but the most that agree on A; of a key, all but one."""
    groups = way.groups(rows)
    if way.right is None:
        return groups.agg(F.sum(F.col("n") - 1).alias("removed"))
    most = F.max(F.when(way.agrees(F.col(way.right)), F.col("n")).otherwise(F.lit(1)))
    by_x = groups.groupBy(*way.x).agg((F.sum("n") - most).alias("removed"))
    return by_x.agg(F.sum("removed").alias("removed"))
