"""The checked rules of a rulebook on Spark: their states in files, and what a batch does to their violations."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.rules.change import RuleChange
from holdfast.rules.predicate import conjunction_text
from holdfast.spark.agreement import Agreement
from holdfast.spark.batch_listing import changed_missing, changed_pairs, changed_rows
from holdfast.spark.cells import CELL, CELLS
from holdfast.spark.check import count_all
from holdfast.spark.found_inclusions import FoundInclusions
from holdfast.spark.groups import GROUPS, SharedGroups, shared_groups, violations_of_groups
from holdfast.spark.inclusion import Inclusion, summed
from holdfast.spark.listing import ID, violations_of
from holdfast.spark.pair_change import PairChange
from holdfast.spark.pair_tasks import PairSearch
from holdfast.spark.plan import PlannedRule, planned
from holdfast.spark.rows import SparkRows, moves_state, rows_state
from holdfast.spark.state_files import Piece, StateFiles, union
from holdfast.spark.upkeep import (
    both_ends,
    change_of_groups,
    change_of_values,
    count_pairs,
    count_rows,
    count_values,
    ends_of,
    partners,
    total,
    value_changes,
)
from holdfast.table.options import TableOptions
from holdfast.violations.detect import CheckedRule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FoundAndChange = tuple[FoundInclusions | None, RuleChange]


@dataclass(frozen=True)
class TableMoves:
    """The net effect of a batch on a table: its moves in a file, and how many rows move."""

    frame: DataFrame
    piece: Piece
    count: int
    many: bool


@dataclass(frozen=True)
class KeptRules:
    """The checked rules, over the states in some files."""

    checked: Sequence[CheckedRule]
    options: Mapping[str, TableOptions]
    files: StateFiles
    found: FoundInclusions | None = None

    @cached_property
    def _waiting(self) -> dict[str, DataFrame]:
        return {}

    @cached_property
    def planned(self) -> list[PlannedRule]:
        return planned(self.checked, {name: table.schema for name, table in self.options.items()})

    def rows(self, table: str) -> SparkRows:
        return SparkRows(self.files, table, self.options[table])

    def waiting(self, table: str) -> DataFrame:
        """The moves of a table that are not added to the states yet, read once."""
        if table not in self._waiting:
            self._waiting[table] = self.rows(table).waiting()
        return self._waiting[table]

    def tables(self) -> dict[str, DataFrame]:
        """The current rows of each table, with an id."""
        made = self._current()
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
        cells = {CELLS} if self.found is not None else set()
        return {groups.name for groups in self.groups} | self.inclusions.keys() | cells

    def write_states(self, version: int) -> None:
        """Writes the states of rules that have none yet, from the rows. No moves may be waiting."""
        made = {groups.name: groups.of_rows(self.rows(groups.left_side.table).current()) for groups in self.groups}
        for name, (_, way) in self.inclusions.items():
            made[name] = way.counts(*(self.rows(t).current() for t in (way.rule.left_table, way.rule.right_table)))
        if self.found is not None:
            made[CELLS] = self.found.cells(self._current())
        for name, frame in made.items():
            if name not in self.files.states:
                self.files.append(name, frame, version)

    def begin_found(self) -> None:
        """Finds the inclusions of the first rows."""
        if self.found is not None:
            self.found.begin(self.of_cells(), self._current())

    def of_groups(self, groups: SharedGroups, first: int = 0) -> DataFrame:
        """The groups from the piece `first` on, with the moves that wait: signed, and not summed."""
        moves = self.waiting(groups.left_side.table)
        return union([*self._pieces(groups.name, first), change_of_groups(ends_of(groups, moves))])

    def of_values(self, name: str, way: Inclusion, first: int = 0) -> DataFrame:
        """The values of a foreign key, likewise."""
        left, right = (self.waiting(table) for table in _tables(way))
        return union([*self._pieces(name, first), change_of_values(way, left, right)])

    def of_cells(self, first: int = 0) -> DataFrame:
        """The cells of the inclusions that are found, likewise."""
        assert self.found is not None
        waiting = {name: self.waiting(name) for name in self.options}
        return union([*self._pieces(CELLS, first), self.found.change(waiting)])

    def _current(self) -> dict[str, DataFrame]:
        return {name: self.rows(name).current() for name in self.options}

    def _pieces(self, name: str, first: int) -> list[DataFrame]:
        pieces = self.files.states[name].pieces[first:]
        return [self.files.read(name, pieces)] if pieces else []

    def state(self, name: str) -> DataFrame:
        """The value of a state now."""
        for groups in self.groups:
            if groups.name == name:
                return total(self.of_groups(groups), groups.columns)
        if name in self.inclusions:
            _, way = self.inclusions[name]
            return _present(summed(self.of_values(name, way), way.columns))
        if name == CELLS:
            return total(self.of_cells(), CELL)
        for table in self.options:
            if rows_state(table) == name:
                return self.rows(table).current()
        return self.files.read(name)

    def counts(self) -> list[int]:
        """The number of violations of each rule; from its state, if it has one."""
        grouped = [(g, total(self.of_groups(g), g.columns)) for g in self.groups]
        missing = []
        for name, (numbers, way) in self.inclusions.items():
            found = way.violations(summed(self.of_values(name, way), way.columns))
            missing += [found.select(F.lit(number).alias("rule"), "violations") for number in numbers]
        counted = violations_of_groups(grouped, missing)
        others = [rule for rule in self.planned if rule.number not in counted]
        if others:
            found_others = count_all(others, self.tables(), self.options)
            counted |= {rule.number: n for rule, n in zip(others, found_others, strict=True)}
        return [counted[rule.number] for rule in self.planned]

    # --- compaction -----------------------------------------------------------------------------------------

    def merged(self, whole: Collection[str]) -> dict[str, tuple[int, DataFrame]]:
        """For each state with pieces or moves to merge, how many pieces stay and what becomes one piece: everything
        that follows the first piece, or everything, if a table of the state is among `whole`."""
        made = {}
        for groups in self.groups:
            first = self._first_to_merge(groups.name, [groups.left_side.table], whole)
            if first is not None:
                made[groups.name] = first, total(self.of_groups(groups, first), groups.columns)
        for name, (_, way) in self.inclusions.items():
            first = self._first_to_merge(name, _tables(way), whole)
            if first is not None:
                made[name] = first, _present(summed(self.of_values(name, way, first), way.columns))
        if self.found is not None:
            first = self._first_to_merge(CELLS, [*self.options], whole)
            if first is not None:
                made[CELLS] = first, total(self.of_cells(first), CELL)
        for table in self.options:
            first = self._first_to_merge(rows_state(table), [table], whole)
            if first is not None:
                made[rows_state(table)] = first, self.rows(table).merged(whole=first == 0)
        return made

    def _first_to_merge(self, name: str, tables: Sequence[str], whole: Collection[str]) -> int | None:
        """The first piece of a state that is merged; None if there is nothing to do."""
        pieces, waits = len(self.files.states[name].pieces), any(self.files.all_rows(moves_state(t)) for t in tables)
        if any(table in whole for table in tables):
            return 0 if waits or pieces > 1 else None
        return 1 if waits or pieces > 2 else None

    # --- a batch --------------------------------------------------------------------------------------------

    def added_and_removed(
        self, moves: Mapping[str, TableMoves], groups: DataFrame | None = None
    ) -> dict[int, tuple[int, int]]:
        """How many violations of each rule a batch adds and removes. One query for all rules; these are the states
        before the batch. `groups`: what `changed_groups` gave, if it is in a file already."""
        groups = self.changed_groups(moves) if groups is None else groups
        parts = [] if groups is None else [groups.drop("X")]
        parts += [*self._of_inclusions(moves), *self._of_others(moves)]
        totals = (F.sum(name).alias(name) for name in ("added", "removed"))
        rows = union(parts).groupBy("rule").agg(*totals).collect() if parts else []
        told = {row["rule"]: (int(row["added"]), int(row["removed"])) for row in rows}
        for numbers, _ in self.inclusions.values():
            told |= {number: told[numbers[0]] for number in numbers if numbers[0] in told}
        return told

    def changed_groups(self, moves: Mapping[str, TableMoves]) -> DataFrame | None:
        """(rule, X, added, removed), not summed: what a batch does to the groups of keys and dependencies. None if it
        can do nothing to them."""
        given, ends = [], []
        for groups in self.groups:
            mine = moves.get(groups.left_side.table)
            if mine is not None:
                moved = ends_of(groups, mine.frame)
                given.append(partners(groups, self.of_groups(groups), moved, mine.many))
                ends.append(both_ends(groups, moved))
        return count_pairs(union(given), union(ends)) if given else None

    def _of_inclusions(self, moves: Mapping[str, TableMoves]) -> Iterator[DataFrame]:
        parts = []
        for name, (numbers, way) in self.inclusions.items():
            sides = [moves.get(table) for table in _tables(way)]
            given = [side for side in sides if side is not None]
            if given:
                left, right = (side.frame if side is not None else None for side in sides)
                many = any(side.many for side in given)
                parts.append(value_changes(numbers[0], way, self.of_values(name, way), left, right, many))
        if parts:
            yield count_values(union(parts))

    def _of_others(self, moves: Mapping[str, TableMoves]) -> Iterator[DataFrame]:
        for table, mine in moves.items():
            rules = [rule for rule in self.planned if rule.table == table]
            single = {rule.number: rule.item for rule in rules if rule.way is None}
            yield from count_rows(single, self.options[table].schema, mine.frame)
            for rule in rules:
                if isinstance(rule.way, PairSearch):
                    counted = PairChange(rule.way, self.rows(table), mine.frame, mine.count).counted()
                    yield counted.select(F.lit(rule.number).alias("rule"), "added", "removed")

    def found_inclusions(self, moves: Mapping[str, TableMoves], before: KeptRules) -> FoundAndChange:
        """The found inclusions after a batch, and what it did to them. These are the states after it."""
        if before.found is None or not moves:
            return before.found, RuleChange()
        frames, many = {name: moved.frame for name, moved in moves.items()}, any(m.many for m in moves.values())
        return before.found.updated(before.of_cells(), frames, self._current(), many=many)

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
            state = summed(self.of_values(_values_state(rule.way), rule.way), rule.way.columns)
            return changed_missing(rule.way, state, rows, frames, what, many)
        if rule.table not in moves:
            return self.violations(number).limit(0)
        mine = moves[rule.table]
        if isinstance(rule.way, Agreement):
            return changed_pairs(rule.way, rows[rule.table], mine.frame, what, many)
        if isinstance(rule.way, PairSearch):
            return PairChange(rule.way, rows[rule.table], mine.frame, mine.count).listed(what)
        return changed_rows(rule.item, rows[rule.table], mine.frame, what)


def _tables(way: Inclusion) -> tuple[str, str]:
    return way.rule.left_table, way.rule.right_table


def _present(values: DataFrame) -> DataFrame:
    """(X, l, r) without the values that no row has."""
    return values.where("l != 0 or r != 0")


def _values_state(way: Inclusion) -> str:
    """The name of the state of a foreign key."""
    text = "\0".join([str(way.rule), conjunction_text(way.where) if way.where else ""])
    return f"values-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
