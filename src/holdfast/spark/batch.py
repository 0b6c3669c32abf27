"""One batch on Spark: its events are written once, their net effect is worked out, and the states get new pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.spark.events import Events, SparkChanges, events_by_table
from holdfast.spark.jobs import described, together
from holdfast.spark.kept_rules import KeptRules, TableMoves
from holdfast.spark.moves import Net, counts, good_events
from holdfast.spark.rows import MANY, SparkRows, rows_state
from holdfast.spark.state_files import StateFiles
from holdfast.table.effect import Bad, Drift

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_PIECES = 12  # of a state, before those after the first are merged


@dataclass
class NetEffect:
    """The moves of a batch by table, how many rows it inserted, deleted and updated, and what was wrong with it."""

    moves: dict[str, TableMoves] = field(default_factory=dict)
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    next_ids: dict[str, int] = field(default_factory=dict)
    drift: list[Drift] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)


def net_effect(
    changes: SparkChanges,
    rules: KeptRules,
    next_ids: Mapping[str, int],
    version: int,
    *,
    quarantine: bool,
) -> NetEffect:
    """The net effect of a batch. A contradiction is an error, or its rows are left out, as in the process."""
    effect = NetEffect()
    events_of = events_by_table(changes, dict(rules.options), rules.files.spark, quarantine=quarantine)
    for name in (table for table in rules.options if table in events_of):  # history lists them in this order
        events = events_of[name]
        effect.bad += events.bad
        table = _TableEffect(rules.rows(name), StateFiles(rules.files.spark, rules.files.root), version, effect)
        table.add(events, next_ids.get(name, 0), quarantine=quarantine)
    return effect


@dataclass(frozen=True)
class _TableEffect:
    """The effect on one table; what is worked out on the way goes to scratch files."""

    rows: SparkRows
    scratch: StateFiles
    version: int
    effect: NetEffect

    def _filed(self, name: str, frame: DataFrame) -> DataFrame:
        """The frame from a file, so that it is worked out once."""
        state = f"{name}-{rows_state(self.rows.name)}"
        piece = self.scratch.write(state, frame, self.version)
        return self.scratch.read(state, [piece])

    def _judged(self, net: Net, settled: DataFrame, first_id: int) -> tuple[tuple[bool, bool], DataFrame]:
        """Whether there are bad events and drift; and the moves, which count if no event is bad."""
        problems: list[tuple[bool, bool]] = []
        moves: list[DataFrame] = []
        together(
            self.scratch.spark,
            [
                lambda: problems.append(net.problems(settled)),
                lambda: moves.append(self._filed("moves", net.moves(settled, first_id))),
            ],
        )
        return problems[0], moves[0]

    def add(self, events: Events, first_id: int, *, quarantine: bool) -> None:
        given = events.frame if events.fixed else self._filed("events", events.frame)
        many = given.count() > MANY
        net, name = Net(self.rows), self.rows.name
        while True:
            settled = self._filed("settled", net.settled(given, many))
            (has_bad, has_drift), moves = self._judged(net, settled, first_id)
            if not has_bad:
                break
            if not quarantine:
                net.refuse(settled)
            self.effect.bad += net.bad_rows(events, given, settled)
            given = good_events(given, settled)
        if has_drift:
            self.effect.drift += net.drift(settled)
        last = F.max("id") if not self.rows.options.key else F.lit(None)
        row = moves.agg(*counts(), last.alias("last")).collect()[0]
        self.effect.rows[name] = {what: int(row[what]) for what in ("inserted", "deleted", "updated")}
        self.effect.moves[name] = TableMoves(moves, sum(self.effect.rows[name].values()), many)
        self.effect.next_ids[name] = max(first_id, -1 if row["last"] is None else row["last"] + 1)


def write_changes(files: StateFiles, rules: KeptRules, effect: NetEffect, version: int) -> dict[int, tuple[int, int]]:
    """Adds the pieces of a batch to the states. Returns how many violations of each rule it added and removed."""
    changes = rules.changes(effect.moves)
    pieces = {name: (change.state, -1) for name, change in changes.items() if change.state is not None}
    for table, moves in effect.moves.items():
        if moves.count:
            pieces[rows_state(table)] = rules.rows(table).changed(moves.frame, version), 2 * moves.count
    counted: dict[int, tuple[int, int]] = {}

    def count() -> None:
        with described(files.spark, "violations added and removed"):
            counted.update(rules.added_and_removed(changes.values()))

    writes: list[Callable[[], None]] = [
        partial(files.append, name, frame, version, rows) for name, (frame, rows) in pieces.items()
    ]
    together(files.spark, [count, *writes])
    return counted


def compact(files: StateFiles, rules: KeptRules, version: int, rows: Mapping[str, int], *, whole: bool = False) -> None:
    """Merges the pieces of states that have many: those after the first. All of them with `whole`, and of a table of
    which a fifth of the rows has changed since then. `rows`: how many each table has."""
    changed = {
        rows_state(table)
        for table, count in rows.items()
        if files.added_rows(rows_state(table)) > max(MANY, count // 5)
    }
    for wholly in (True, False):
        for name, merged in rules.merged(files, whole=wholly).items():
            is_whole = whole or name in changed
            if is_whole == wholly and len(files.states[name].pieces) > (1 if wholly else _MOST_PIECES):
                files.replace(name, merged(), version, keep=0 if wholly else 1)
