"""The violations that a batch added and removed, as DataFrames that are worked out when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.html_table import html_table
from holdfast.rules.rule import Rule
from holdfast.spark.agreement import Agreement
from holdfast.spark.frames import same
from holdfast.spark.inclusion import Inclusion
from holdfast.spark.listing import RowNames, named_t, with_violates
from holdfast.spark.rows import SparkRows
from holdfast.spark.state_files import union
from holdfast.spark.upkeep import touched
from holdfast.violations.detect import CheckedRule
from holdfast.violations.listing import RuleNames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ADDED, REMOVED = "added", "removed"
List = Callable[[int, str], "DataFrame"]  # the pairs of a rule that were added or removed


@dataclass(frozen=True)
class SparkBatchViolations:
    """Violations that one batch added and removed, for all checked rules. Numbers are exact, lists are DataFrames."""

    names: RuleNames
    by_rule: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # added, removed
    list_: List | None = None

    def added(self, rule: str | Rule) -> DataFrame:
        """The violating pairs (t, s), or rows (t), that the batch added."""
        return self._listed(rule, ADDED)

    def removed(self, rule: str | Rule) -> DataFrame:
        """The violating pairs (t, s), or rows (t), that the batch removed."""
        return self._listed(rule, REMOVED)

    def _listed(self, rule: str | Rule, what: str) -> DataFrame:
        asked = self.names.find(rule)
        assert self.list_ is not None
        found = self.list_(asked.number, what)
        return found.select(F.col("s").alias("t"), F.col("t").alias("s")) if asked.mirrored else found

    def count_added(self, rule: str | Rule | None = None) -> int:
        """How many violations of a rule, or of all rules, the batch added."""
        return self._count(rule, 0)

    def count_removed(self, rule: str | Rule | None = None) -> int:
        """How many violations of a rule, or of all rules, the batch removed."""
        return self._count(rule, 1)

    def _count(self, rule: str | Rule | None, end: int) -> int:
        if rule is None:
            return sum(change[end] for change in self.by_rule.values())
        return self.by_rule.get(self.names.find(rule).number, (0, 0))[end]

    def _repr_html_(self) -> str:
        rows = [(*change, str(self.names.checked[n].rule)) for n, change in self.by_rule.items() if any(change)]
        if not rows:
            return "<p>no violations added or removed</p>"
        return html_table(["added", "removed", "rule"], rows, len(rows))


def changed_pairs(rule: Agreement, rows: SparkRows, moves: DataFrame, what: str, many: bool) -> DataFrame:
    """The pairs of a key or dependency that a batch added or removed: moved rows join the rows of touched groups."""
    names = RowNames.of(rows.options)
    sides = {"old": rule.side("old_"), "new": rule.side("new_")}
    there = {"old": F.col("existed") & rule.is_member("old_"), "new": F.col("remains") & rule.is_member("new_")}
    ends = [F.when(there[end], F.struct(*sides[end] or [F.lit(0).alias("x")])).alias(end) for end in ("old", "new")]
    moved = moves.select(*names.parts("t"), *ends)
    groups = union(moves.where(there[end]).select(*sides[end]) for end in ("old", "new"))
    still = rows.without(moves, many).where(rule.is_member()).select(*rule.side(), *names.parts("t"))
    still = touched(still, groups, rule.x, many)
    same_end = F.struct(*rule.columns or [F.lit(0).alias("x")])
    unmoved = still.select(*names.numbered("t"), same_end.alias("old"), same_end.alias("new"))
    one, other = ("new", "old") if what == ADDED else ("old", "new")
    found = [_differing(rule, names, moved, union([moved, unmoved]), one, other)]
    found.append(_differing(rule, names, unmoved, moved, one, other))
    return names.pairs(union(found))


def _differing(rule: Agreement, names: RowNames, t: DataFrame, s: DataFrame, one: str, other: str) -> DataFrame:
    """The pairs that violate the rule at one end of the batch, and not at the other."""
    t = t.where(f"{one} is not null").select(
        *names.numbered("t"), F.col(one).alias("t_one"), F.col(other).alias("t_other")
    )
    s = s.where(f"{one} is not null").select(
        *(F.col(a).alias(b) for a, b in zip(names.numbered("t"), names.numbered("s"), strict=True)),
        F.col(one).alias("s_one"), F.col(other).alias("s_other"),
    )  # fmt: skip
    keys = same([f"t_one.{x}" for x in rule.x], [f"s_one.{x}" for x in rule.x])

    def disagree(end: str) -> object:
        if rule.right is None:
            return F.lit(True)
        a, b = F.col(f"t_{end}.{rule.right}"), F.col(f"s_{end}.{rule.right}")
        return ~(rule.agrees(a) & a.eqNullSafe(b))

    also = F.col("t_other").isNotNull() & F.col("s_other").isNotNull()
    also &= same([f"t_other.{x}" for x in rule.x], [f"s_other.{x}" for x in rule.x]) & disagree("other")
    different = ~same(names.numbered("t"), names.numbered("s"))
    joined = t.join(s, keys & disagree("one") & different & ~also)
    return joined.select(*names.numbered("t"), *names.numbered("s"))


def changed_missing(
    rule: Inclusion,
    state: DataFrame,
    tables: Mapping[str, SparkRows],
    moves: Mapping[str, DataFrame],
    what: str,
    many: bool,
) -> DataFrame:
    """The left rows that a batch made violate an inclusion, or not any more. `state`: (X, l, r) before the batch."""
    left, right = moves.get(rule.rule.left_table), moves.get(rule.rule.right_table)
    rows = tables[rule.rule.left_table]
    names, values = RowNames.of(rows.options), []
    for some, is_left in ((left, True), (right, False)):
        for prefix, there, n in (("old_", "existed", -1), ("new_", "remains", 1)):
            if some is not None:
                members = some.where(F.col(there) & rule.is_member(left=is_left, prefix=prefix))
                r = F.lit(0 if is_left else n).cast("bigint")
                values.append(members.select(*rule.values(left=is_left, prefix=prefix), r.alias("dr")))
    change = union(values)
    before = touched(state, change, rule.columns, many).select(*rule.columns, "r", F.lit(0).cast("bigint").alias("dr"))
    both = union([before, change.select(*rule.columns, F.lit(0).cast("bigint").alias("r"), "dr")])
    at = both.groupBy(rule.columns).agg(F.sum("r").alias("r"), F.sum("dr").alias("dr"))
    at = at.select(
        F.struct(*rule.columns).alias("at"),
        (F.col("r") == 0).alias("old"),
        (F.col("r") + F.col("dr") == 0).alias("new"),
    )
    one, other = ("new", "old") if what == ADDED else ("old", "new")
    still = rows.current() if left is None else rows.without(left, many)
    still = still.where(rule.is_member(left=True)).select(
        F.struct(*rule.values(left=True)).alias("value"), named_t(names)
    )
    found = [still.join(at.where(F.col(one) & ~F.col(other)), F.col("value") == F.col("at")).select("t")]
    if left is not None:
        ends = {
            end: rule.value(prefix, there)
            for end, prefix, there in (("old", "old_", "existed"), ("new", "new_", "remains"))
        }
        moved = left.select(named_t(names), ends["old"].alias("old_at"), ends["new"].alias("new_at"))
        for end in ("old", "new"):
            flag = at.select(F.col("at").alias("here"), F.col(end).alias(f"{end}_missing"))
            moved = moved.join(flag, F.col(f"{end}_at") == F.col("here"), "left").drop("here")
        is_, was = (F.coalesce(F.col(f"{end}_missing"), F.lit(False)) for end in (one, other))
        found.append(moved.where(is_ & ~was).select("t"))
    return union(found)


def changed_rows(item: CheckedRule, rows: SparkRows, moves: DataFrame, what: str) -> DataFrame:
    """The rows that a batch made violate a rule about single rows, or not any more."""
    tested = with_violates(item, rows.options.schema, moves, ("old_", "new_"))
    was, is_ = F.col("existed") & F.col("old_violates"), F.col("remains") & F.col("new_violates")
    chosen = tested.where(is_ & ~was if what == ADDED else was & ~is_)
    return chosen.select(named_t(RowNames.of(rows.options)))
