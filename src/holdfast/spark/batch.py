"""One batch on Spark: its events are written once, and then the moves that are their net effect.

That is all that a batch writes. A state is its own pieces and what the moves that wait do to it; after some batches,
compaction adds the moves to the states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from holdfast.spark.events import Events, SparkChanges, events_by_table
from holdfast.spark.jobs import described, together
from holdfast.spark.kept_rules import KeptRules, TableMoves
from holdfast.spark.moves import Net, good_events
from holdfast.spark.rows import MANY, SparkRows, moves_state, rows_state
from holdfast.spark.state_files import StateFiles
from holdfast.table.effect import Bad, Drift

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_WAITING = 12  # batches of a table, before their moves are added to the other states


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

    def add(self, events: Events, first_id: int, *, quarantine: bool) -> None:
        given = events.frame if events.fixed else self._filed("events", events.frame)
        with described(self.scratch.spark, f"{self.rows.name}: count the changes"):
            many = given.count() > MANY
        net, name = Net(self.rows), self.rows.name
        while True:
            settled = net.settled(given, many)
            piece = self.scratch.write(moves_state(name), net.moves(settled, first_id, self.version), self.version)
            moves = self.scratch.read(moves_state(name), [piece])
            with described(self.scratch.spark, f"{name}: count the moved rows"):
                summary = net.summary(moves)
            if not summary.bad:
                break
            settled = self._filed("settled", settled)
            if not quarantine:
                net.refuse(settled)
            self.effect.bad += net.bad_rows(events, given, settled)
            given = good_events(given, settled)
        if summary.drift:
            self.effect.drift += net.drift(settled)
        count = sum(summary.rows.values())
        self.effect.rows[name] = summary.rows
        self.effect.moves[name] = TableMoves(moves, replace(piece, rows=count), count, many)
        self.effect.next_ids[name] = max(first_id, -1 if summary.last is None else summary.last + 1)


def add_moves(files: StateFiles, effect: NetEffect) -> None:
    """Adds the moves of a batch, which are in files already, to the states."""
    for table, moves in effect.moves.items():
        if moves.count:
            files.add(moves_state(table), moves.piece, moves.frame)


def is_due(files: StateFiles, tables: Iterable[str]) -> bool:
    """Whether so many moves wait that they should be added to the other states."""
    waiting = [moves_state(table) for table in tables]
    return any(len(files.states[name].pieces) > MOST_WAITING or files.all_rows(name) > MANY for name in waiting)


def compact(files: StateFiles, rules: KeptRules, version: int, rows: Mapping[str, int], *, whole: bool = False) -> None:
    """Adds the moves that wait to the other states. Each then has two pieces at most; one with `whole`, or if a fifth
    of its table has changed since the first piece was written. `rows`: how many each table has."""
    changed = {table: files.added_rows(rows_state(table)) + files.all_rows(moves_state(table)) for table in rows}
    merged = rules.merged({table for table, n in rows.items() if whole or changed[table] > max(MANY, n // 5)})
    counts = {rows_state(table): count for table, count in changed.items()}

    def write(name: str, keep: int, frame: DataFrame) -> None:
        files.replace(name, frame, version, keep=keep, rows=counts.get(name, -1) if keep else -1)

    together(files.spark, [partial(write, name, keep, frame) for name, (keep, frame) in merged.items()])
    for name in map(moves_state, rows):
        files.states[name] = replace(files.states[name], pieces=files.states[name].pieces[:1])
