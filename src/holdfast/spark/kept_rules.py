"""The checked rules of a rulebook on Spark: their states in files, and what a batch does to their violations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.rules.rule import conjunction_text
from holdfast.spark.agreement import Agreement
from holdfast.spark.batch_listing import changed_missing, changed_pairs, changed_rows
from holdfast.spark.check import count_all
from holdfast.spark.groups import GROUPS, SharedGroups, shared_groups, violations_of_groups
from holdfast.spark.inclusion import Inclusion, summed
from holdfast.spark.listing import ID, violations_of
from holdfast.spark.pair_change import PairChange
from holdfast.spark.pair_tasks import PairSearch
from holdfast.spark.plan import PlannedRule, planned
from holdfast.spark.rows import SparkRows, rows_state
from holdfast.spark.state_files import StateFiles, union
from holdfast.spark.upkeep import StateChange, change_of_groups, change_of_inclusion, change_of_rows, total
from holdfast.table.options import TableOptions
from holdfast.violations.detect import CheckedRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class TableMoves:
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

    def rows(self, table: str) -> SparkRows:
        return SparkRows(self.files, table, self.options[table])

    def tables(self) -> dict[str, DataFrame]:
        """The current rows of each table, with an id."""
        made = {name: self.rows(name).current() for name in self.options}
        with_id = F.monotonically_increasing_id().alias(ID)
        return {name: f if ID in f.columns else f.select(with_id, "*") for name, f in made.items()}

    # --- states ---------------------------------------------------------------------------------------------

    @property
    def groups(self) -> list[SharedGroups]:
        """The groups of the keys and dependencies, as they are in files; new ones for rules without any."""
        rules = {rule.number: rule.way for rule in self.planned if isinstance(rule.way, Agreement)}
        left_sides = {rule.left_side.digest: rule.left_side for rule in rules.values()}
        given = []
        for name, state in self.files.states.items():
            digest = name.removeprefix(GROUPS).partition("-")[0]
            if name.startswith(GROUPS) and digest in left_sides:
                cells = left_sides[digest].cells
                rights = tuple(column for column in state.names if column not in (*cells, "n"))
                given.append(SharedGroups(left_sides[digest], rights, {}))
        return shared_groups(rules, lambda table: self.rows(table).current(), given)

    @property
    def inclusions(self) -> dict[str, tuple[list[int], Inclusion]]:
        """The foreign keys by the name of their state, with the numbers of the rules that read it."""
        made: dict[str, tuple[list[int], Inclusion]] = {}
        for rule in self.planned:
            if isinstance(rule.way, Inclusion):
                made.setdefault(_values_state(rule.way), ([], rule.way))[0].append(rule.number)
        return made

    def state_names(self) -> set[str]:
        """The names of the states that the rules need."""
        return {groups.name for groups in self.groups} | self.inclusions.keys()

    def write_states(self, version: int) -> None:
        """Writes the states of rules that have none yet, from the rows."""
        made = {groups.name: groups.of_rows(self.rows(groups.left_side.table).current()) for groups in self.groups}
        for name, (_, way) in self.inclusions.items():
            made[name] = way.counts(*(self.rows(t).current() for t in (way.rule.left_table, way.rule.right_table)))
        for name, frame in made.items():
            if name not in self.files.states:
                self.files.append(name, frame, version)

    def counts(self) -> list[int]:
        """The number of violations of each rule; from its state, if it has one."""
        grouped = [(g, total(self.files.read(g.name), g.columns)) for g in self.groups]
        missing = []
        for name, (numbers, way) in self.inclusions.items():
            found = way.violations(summed(self.files.read(name), way.columns))
            missing += [found.select(F.lit(number).alias("rule"), "violations") for number in numbers]
        counted = violations_of_groups(grouped, missing)
        others = [rule for rule in self.planned if rule.number not in counted]
        if others:
            found_others = count_all(others, self.tables(), self.options)
            counted |= {rule.number: n for rule, n in zip(others, found_others, strict=True)}
        return [counted[rule.number] for rule in self.planned]

    def merged(self, files: StateFiles, *, whole: bool) -> dict[str, Callable[[], DataFrame]]:
        """For each state, how its pieces are made one; or, unless `whole`, those after the first."""

        def pieces(name: str) -> DataFrame:
            return files.read(name, files.states[name].pieces[0 if whole else 1 :])

        def groups(name: str, columns: list[str]) -> DataFrame:
            return total(pieces(name), columns)

        def values(name: str, columns: list[str]) -> DataFrame:
            return summed(pieces(name), columns).where("l != 0 or r != 0")

        made: dict[str, Callable[[], DataFrame]] = {g.name: partial(groups, g.name, g.columns) for g in self.groups}
        made |= {name: partial(values, name, way.columns) for name, (_, way) in self.inclusions.items()}
        for table, options in self.options.items():
            made[rows_state(table)] = partial(SparkRows(files, table, options).merged, whole)
        return made

    # --- a batch --------------------------------------------------------------------------------------------

    def changes(self, moves: Mapping[str, TableMoves]) -> dict[str, StateChange]:
        """What a batch does to the states that it touches, and to the violations of their rules. Rules without a state
        are under the empty name."""
        made = {}
        for groups in self.groups:
            mine = moves.get(groups.left_side.table)
            if mine is not None:
                made[groups.name] = change_of_groups(groups, self.files.read(groups.name), mine.frame, mine.many)
        for name, (numbers, way) in self.inclusions.items():
            sides = [moves.get(table) for table in (way.rule.left_table, way.rule.right_table)]
            given = [side for side in sides if side is not None]
            if given:
                left, right = (side.frame if side is not None else None for side in sides)
                many = any(side.many for side in given)
                made[name] = change_of_inclusion(numbers, way, self.files.read(name), left, right, many)
        return made | {"": StateChange(None, self._changes_without_state(moves))}

    def _changes_without_state(self, moves: Mapping[str, TableMoves]) -> dict[int, DataFrame]:
        made = {}
        for rule in self.planned:
            mine = moves.get(rule.table)
            if mine is None:
                continue
            if isinstance(rule.way, PairSearch):
                made[rule.number] = PairChange(rule.way, self.rows(rule.table), mine.frame, mine.count).counted()
            elif rule.way is None:
                made[rule.number] = change_of_rows(rule.item, self.options[rule.table].schema, mine.frame)
        return made

    def added_and_removed(self, changes: Iterable[StateChange]) -> dict[int, tuple[int, int]]:
        """How many violations of each rule a batch adds and removes. One query for all rules."""
        parts = [
            part.select(F.lit(number).alias("rule"), "added", "removed")
            for change in changes
            for number, part in change.counts.items()
        ]
        rows = union(parts).collect() if parts else []
        return {row["rule"]: (int(row["added"]), int(row["removed"])) for row in rows}

    # --- lists ----------------------------------------------------------------------------------------------

    def violations(self, number: int) -> DataFrame:
        """The current violations of a rule."""
        return violations_of(self.planned[number], self.tables(), dict(self.options))

    def changed(self, number: int, what: str, moves: Mapping[str, TableMoves]) -> DataFrame:
        """The violations of a rule that a batch adds or removes; these are the states before it."""
        rule = self.planned[number]
        rows = {name: self.rows(name) for name in self.options}
        many = any(some.many for some in moves.values())
        frames = {name: some.frame for name, some in moves.items()}
        if isinstance(rule.way, Inclusion) and {rule.table, rule.way.rule.right_table} & frames.keys():
            state = summed(self.files.read(_values_state(rule.way)), rule.way.columns)
            return changed_missing(rule.way, state, rows, frames, what, many)
        if rule.table not in moves:
            return self.violations(number).limit(0)
        mine = moves[rule.table]
        if isinstance(rule.way, Agreement):
            return changed_pairs(rule.way, rows[rule.table], mine.frame, what, many)
        if isinstance(rule.way, PairSearch):
            return PairChange(rule.way, rows[rule.table], mine.frame, mine.count).listed(what)
        return changed_rows(rule.item, rows[rule.table], mine.frame, what)


def _values_state(way: Inclusion) -> str:
    """The name of the state of a foreign key."""
    text = "\0".join([str(way.rule), conjunction_text(way.where) if way.where else ""])
    return f"values-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
