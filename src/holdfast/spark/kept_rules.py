"""The checked rules of a rulebook on Spark: their states in files, and what a batch does to their violations."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.rules.rule import conjunction_text
from holdfast.spark.agreement import Agreement
from holdfast.spark.batch_listing import changed_missing, changed_pairs, changed_rows
from holdfast.spark.check import count_all
from holdfast.spark.inclusion import Inclusion, summed
from holdfast.spark.listing import ID, violations_of
from holdfast.spark.pair_change import PairChange
from holdfast.spark.pair_tasks import PairSearch
from holdfast.spark.plan import PlannedRule, planned
from holdfast.spark.rows import SparkRows
from holdfast.spark.session import cores_of
from holdfast.spark.state_files import StateFiles, union
from holdfast.spark.upkeep import Change, change_of_agreement, change_of_inclusion, change_of_rows, total
from holdfast.table.options import TableOptions
from holdfast.violations.detect import CheckedRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Moves:
    """The net effect of a batch on a table, and how many rows it moves."""

    frame: DataFrame
    count: int
    many: bool


@dataclass(frozen=True)
class KeptRules:
    """The checked rules, over the states in some files."""

    checked: Sequence[CheckedRule]
    options: Mapping[str, TableOptions]
    files: StateFiles

    @cached_property
    def planned(self) -> list[PlannedRule]:
        return planned(self.checked, {name: table.schema for name, table in self.options.items()})

    @cached_property
    def _cores(self) -> int:
        return cores_of(self.files.spark)

    def rows(self, table: str) -> SparkRows:
        return SparkRows(self.files, table, self.options[table])

    def tables(self) -> dict[str, DataFrame]:
        """The current rows of each table, with an id."""
        made = {name: self.rows(name).current() for name in self.options}
        with_id = F.monotonically_increasing_id().alias(ID)
        return {name: f if ID in f.columns else f.select(with_id, "*") for name, f in made.items()}

    def state_name(self, rule: PlannedRule) -> str | None:
        """The name of a rule's state. Rules with the same groups share one."""
        if isinstance(rule.way, Agreement):
            parts = [rule.table, *rule.way.left, "->", str(rule.way.right), rule.way.nulls]
            return f"groups-{_digest(parts, rule)}"
        if isinstance(rule.way, Inclusion):
            return f"values-{_digest([str(rule.way.rule)], rule)}"
        return None

    # --- the first state ------------------------------------------------------------------------------------

    def write_states(self, version: int) -> None:
        """Writes the states of rules that have none yet, from the rows."""
        tables = {name: self.rows(name).current() for name in self.options}
        for rule in self.planned:
            name = self.state_name(rule)
            if name is None or name in self.files.states:
                continue
            if isinstance(rule.way, Agreement):
                self.files.append(name, rule.way.groups(tables[rule.table]), version)
            elif isinstance(rule.way, Inclusion):
                counts = rule.way.counts(tables[rule.table], tables[rule.way.rule.right_table])
                self.files.append(name, counts, version)

    def counts(self) -> list[int]:
        """The number of violations of each rule; from its state, if it has one."""
        filed = {}
        for rule in self.planned:
            if isinstance(rule.way, Agreement):
                filed[rule.number] = rule.way.violations(self._groups(rule))
            elif isinstance(rule.way, Inclusion):
                filed[rule.number] = rule.way.violations(self._values(rule))
        found = _by_rule({n: part.select("violations") for n, part in filed.items()})
        others = [rule for rule in self.planned if rule.number not in filed]
        counted = count_all(others, self.tables(), self.options, self._cores) if others else []
        found |= {rule.number: (count,) for rule, count in zip(others, counted, strict=True)}
        return [found[rule.number][0] for rule in self.planned]

    def _groups(self, rule: PlannedRule) -> DataFrame:
        assert isinstance(rule.way, Agreement)
        state = self.files.read(str(self.state_name(rule)))
        return total(state, rule.way.columns)

    def _values(self, rule: PlannedRule) -> DataFrame:
        assert isinstance(rule.way, Inclusion)
        return summed(self.files.read(str(self.state_name(rule))), rule.way.columns)

    # --- a batch --------------------------------------------------------------------------------------------

    def changes(self, moves: Mapping[str, Moves]) -> dict[int, Change]:
        """What a batch does to the rules that it touches."""
        made = {rule.number: self._change(rule, moves) for rule in self.planned}
        return {number: change for number, change in made.items() if change is not None}

    def _change(self, rule: PlannedRule, moves: Mapping[str, Moves]) -> Change | None:
        mine = moves.get(rule.table)
        if isinstance(rule.way, Inclusion):
            theirs = moves.get(rule.way.rule.right_table)
            sides = [side.frame if side is not None else None for side in (mine, theirs)]
            if mine is None and theirs is None:
                return None
            many = any(side.many for side in (mine, theirs) if side is not None)
            return change_of_inclusion(rule.way, self._state(rule), sides[0], sides[1], many)
        if mine is None:
            return None
        if isinstance(rule.way, Agreement):
            return change_of_agreement(rule.way, self._state(rule), mine.frame, mine.many)
        if isinstance(rule.way, PairSearch):
            return PairChange(rule.way, self.rows(rule.table), mine.frame, mine.count).counted()
        return change_of_rows(rule.item, self.options[rule.table].schema, mine.frame)

    def _state(self, rule: PlannedRule) -> DataFrame:
        return self.files.read(str(self.state_name(rule)))

    def added_and_removed(self, changes: Mapping[int, Change]) -> dict[int, tuple[int, int]]:
        """How many violations of each rule a batch adds and removes. One query for all rules."""
        found = _by_rule({n: change.counts.select("added", "removed") for n, change in changes.items()})
        return {number: (added, removed) for number, (added, removed) in found.items()}

    def merged(self, rule: PlannedRule, files: StateFiles, whole: bool) -> DataFrame:
        """The pieces of a rule's state as one, or those after the first."""
        name = str(self.state_name(rule))
        pieces = files.read(name, files.states[name].pieces[0 if whole else 1 :])
        if isinstance(rule.way, Agreement):
            return total(pieces, rule.way.columns)
        assert isinstance(rule.way, Inclusion)
        return summed(pieces, rule.way.columns).where("l != 0 or r != 0")

    # --- lists ----------------------------------------------------------------------------------------------

    def violations(self, number: int) -> DataFrame:
        """The current violations of a rule."""
        return violations_of(self.planned[number], self.tables(), dict(self.options), self._cores)

    def changed(self, number: int, what: str, moves: Mapping[str, Moves]) -> DataFrame:
        """The violations of a rule that a batch adds or removes; these are the states before it."""
        rule = self.planned[number]
        rows = {name: self.rows(name) for name in self.options}
        many = any(some.many for some in moves.values())
        frames = {name: some.frame for name, some in moves.items()}
        if isinstance(rule.way, Inclusion) and {rule.table, rule.way.rule.right_table} & frames.keys():
            return changed_missing(rule.way, self._values(rule), rows, frames, what, many)
        if rule.table not in moves:
            return self.violations(number).limit(0)
        mine = moves[rule.table]
        if isinstance(rule.way, Agreement):
            return changed_pairs(rule.way, rows[rule.table], mine.frame, what, many)
        if isinstance(rule.way, PairSearch):
            return PairChange(rule.way, rows[rule.table], mine.frame, mine.count).listed(what)
        return changed_rows(rule.item, rows[rule.table], mine.frame, what)


def _by_rule(parts: Mapping[int, DataFrame]) -> dict[int, tuple[int, ...]]:
    """The only row of each part, as whole numbers. One query."""
    if not parts:
        return {}
    labelled = union(part.select(F.lit(number).alias("rule"), *part.columns) for number, part in parts.items())
    return {row["rule"]: tuple(int(value) for value in row[1:]) for row in labelled.collect()}


def _digest(parts: Sequence[str], rule: PlannedRule) -> str:
    where = conjunction_text(rule.item.where) if rule.item.where else ""
    return hashlib.sha256("\0".join([*parts, where]).encode()).hexdigest()[:16]
