"""The events of a batch on Spark for sinks: written once, by executors; sinks read that copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.rulebook.outbox import ADDED, REMOVED
from holdfast.rules.rulefile import RuleEntry
from holdfast.spark.kept_rules import KeptRules, TableMoves
from holdfast.spark.state_files import union

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

EVENTS = "outbox"  # the name of their state
MOST_LISTED = 100_000  # violations of a rule that are listed; of more, a batch tells the number


def violation_events(
    rules: KeptRules,
    entries: Sequence[RuleEntry],
    moves: Mapping[str, TableMoves],
    counted: Mapping[int, tuple[int, int]],
) -> DataFrame | None:
    """A row for each violation added or removed, with row names as JSON; None if there is none. If there are too many
    to list, one row has their number and no names."""
    parts = []
    for number, (added, removed) in counted.items():
        for change, count in ((REMOVED, removed), (ADDED, added)):
            if count:
                told = entries[number], change, count
                listed = rules.changed(number, change, moves) if count <= MOST_LISTED else None
                parts.append(_events(rules, *told, listed))
    if not parts:
        return None
    return union(parts).select(F.monotonically_increasing_id().alias("sequence"), "*")


def _events(rules: KeptRules, entry: RuleEntry, change: str, count: int, listed: DataFrame | None) -> DataFrame:
    texts = {"rule_id": entry.id, "rule": entry.rule, "severity": entry.severity, "change": change}
    told = [F.lit(text).alias(name) for name, text in texts.items()]
    nobody = F.lit(None).cast("string")
    if listed is None:
        one = rules.files.spark.range(1)
        return one.select(*told, nobody.alias("t"), nobody.alias("s"), F.lit(count).cast("bigint").alias("count"))
    s = _as_json("s") if "s" in listed.columns else nobody
    return listed.select(*told, _as_json("t").alias("t"), s.alias("s"), F.lit(1).cast("bigint").alias("count"))


def _as_json(name: str) -> Expr:
    """The name of a row as JSON."""
    return F.expr(f"trim(both ']' from trim(both '[' from to_json(array({name}))))")
