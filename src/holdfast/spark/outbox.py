"""The events of a batch on Spark for sinks: written once, by executors; sinks read that copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from holdfast.rulebook.outbox import ADDED, REMOVED
from holdfast.rules.rulefile import RuleEntry
from holdfast.spark.agreement import Agreement
from holdfast.spark.frames import frame_of
from holdfast.spark.kept_rules import KeptRules, TableMoves
from holdfast.spark.plan import PlannedRule
from holdfast.spark.state_files import FiledState, StateFiles, union

if TYPE_CHECKING:
    from pyspark.sql import Column as Expr
    from pyspark.sql import DataFrame

_OUTBOX = "outbox-"  # before the names of the states
VIOLATIONS, GROUPS = "violations", "groups"  # tables that sinks get
MOST_LISTED = 100_000  # violations of a rule that are listed; of more, a batch tells the number

Hides = Callable[[str, str], bool]  # whether a column of a table is masked


class Outbox:
    """The events of one version, in files."""

    def __init__(self, files: StateFiles, version: int) -> None:
        self._files, self._version = StateFiles(files.session, files.root), version

    @property
    def states(self) -> dict[str, FiledState]:
        return {name.removeprefix(_OUTBOX): state for name, state in self._files.states.items()}

    def keep_groups(self, groups: DataFrame) -> DataFrame:
        """Writes what a batch does to the groups of keys and dependencies, and returns it from the files."""
        summed = groups.groupBy("rule", "X").agg(*(F.sum(n).alias(n) for n in (ADDED, REMOVED)))
        self._files.append(_OUTBOX + GROUPS, summed.where("added != 0 or removed != 0"), self._version)
        return self._files.read(_OUTBOX + GROUPS)

    def keep_violations(
        self,
        rules: KeptRules,
        entries: Sequence[RuleEntry],
        moves: Mapping[str, TableMoves],
        counted: Mapping[int, tuple[int, int]],
    ) -> None:
        """Writes the violations that a batch adds and removes, if there are any."""
        events = violation_events(rules, entries, moves, counted)
        if events is not None:
            self._files.append(_OUTBOX + VIOLATIONS, events, self._version)


def kept_events(files: StateFiles, states: Mapping[str, FiledState], name: str) -> DataFrame | None:
    """The events of a version from its files; None if there are none."""
    return StateFiles(files.session, files.root, {name: states[name]}).read(name) if name in states else None


def group_events(groups: DataFrame, rules: KeptRules, entries: Sequence[RuleEntry], hides: Hides) -> DataFrame:
    """A row for each group of a key or dependency in which violations were added or removed: the group as JSON, and how
    many. Groups of rules with a masked column on the left are left out."""
    agreements = [rule for rule in rules.planned if isinstance(rule.way, Agreement)]
    chosen = [rule for rule in agreements if not any(hides(rule.table, name) for name in _left_names(rule))]
    about = pa.table(
        {
            "rule": pa.array([r.number for r in chosen], pa.int32()),
            "rule_id": pa.array([entries[r.number].id for r in chosen], pa.string()),
            "text": pa.array([entries[r.number].rule for r in chosen], pa.string()),
            "severity": pa.array([entries[r.number].severity for r in chosen], pa.string()),
            "names": pa.array([_left_names(r) for r in chosen], pa.list_(pa.string())),
        }
    )
    told = groups.join(F.broadcast(frame_of(groups.sparkSession, about)), "rule")
    as_json = "case when size(names) = 0 then '{}' else to_json(map_from_arrays(names, X)) end as `group`"
    sides = (f"struct('{change}' as change, cast({change} as bigint) as count)" for change in (REMOVED, ADDED))
    events = told.selectExpr("rule_id", "text as rule", "severity", as_json, f"inline(array({', '.join(sides)}))")
    return events.where("count > 0").select("rule_id", "rule", "severity", "change", "group", "count")


def _left_names(rule: PlannedRule) -> list[str]:
    assert isinstance(rule.way, Agreement)
    return [rule.way.left_side.schema.names[int(cell[1:])] for cell in rule.way.x]


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
