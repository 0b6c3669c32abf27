"""One batch: plan its net effect, detect violations, update the found rules, and make the step that the store keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from holdfast.arrays import Arrays
from holdfast.errors import HoldfastError, ValueRefused, shown
from holdfast.rulebook import outbox
from holdfast.rulebook.discovered import RuleUpdate, rule_events
from holdfast.rulebook.engine import Engine
from holdfast.rulebook.outcome import Outcome
from holdfast.store.log import Log, Record
from holdfast.store.step import Step
from holdfast.table.change import Part
from holdfast.table.effect import Bad, Effect
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Schema, column_of_type_text
from holdfast.table.widen import widened
from holdfast.violations.delta import ViolationDelta
from holdfast.violations.listing import BatchViolations

Parts = dict[str, list[Part]]
Effects = dict[str, Effect]
WiderTypes = dict[str, dict[str, str]]  # {table: {column: type}}
NO_ROWS = {"inserted": 0, "deleted": 0, "updated": 0}


@dataclass(frozen=True)
class BatchInfo:
    """What the caller says about a batch beside its changes. `bad`: rows that the caller could not read; `happened`:
    when its newest change was made, if the feed says so."""

    id: str | int
    source: str = "default"
    quarantine: bool = False
    offsets: str | None = None
    bad: Sequence[Bad] = ()
    happened: str | None = None


def require_batch(batch_id: object, source: object, on_error: object) -> None:
    """Raises an error that says what a batch id, a source and `on_error` may be."""
    if on_error not in ("refuse", "quarantine"):
        raise HoldfastError(f"on_error is 'refuse' or 'quarantine', not {shown(on_error)}")
    if isinstance(batch_id, bool) or not isinstance(batch_id, str | int | None):
        raise HoldfastError(f"a batch id is a text or an integer, not {shown(batch_id)}")
    if not isinstance(source, str):
        raise HoldfastError(f"a source is a text, not {shown(source)}")


class BatchResult(NamedTuple):
    """The step that the store keeps, and what the caller is told once it is durable."""

    step: Step
    outcome: Outcome


def plan(engine: Engine, parts: Parts, *, quarantine: bool) -> Effects:
    """The net effect on each table, or an error that names the first bad row."""
    planners = engine.planners.items()
    return {name: planner.plan(parts[name], quarantine=quarantine) for name, planner in planners if name in parts}


def plan_or_widen(
    engine: Engine, parts: Parts, widen: Callable[[WiderTypes], Engine], texts: int, *, quarantine: bool
) -> Effects:
    """The same. If numbers do not fit their columns, the columns are widened first, in a version of their own, provided
    that the batch can be applied then; O(rows). `texts`: the length of the dictionary before the batch."""
    try:
        effects = plan(engine, parts, quarantine=quarantine)
        types = wider_types(engine, parts) if any(effect.quarantined for effect in effects.values()) else {}
    except ValueRefused:
        types = wider_types(engine, parts)
        if not types:
            raise
    if not types:
        return effects
    for name, by_column in types.items():
        schema = engine.state.tables[name].with_wider(by_column).schema
        planner = engine.planner(name, engine.state.rows[name].widened(schema))
        planner.plan(parts[name], quarantine=quarantine)
    engine.state.dictionary.truncate(texts)
    return plan(widen(types), parts, quarantine=quarantine)


def wider_types(engine: Engine, parts: Parts) -> WiderTypes:
    """The column types that the numbers of a batch need, if the current rows fit them. Keys do not widen, since they
    identify rows."""
    wider: WiderTypes = {}
    for name, parts_of_table in parts.items():
        before = options = engine.state.tables[name]
        rows = engine.state.rows[name]
        for part in parts_of_table:
            types = widened(options.schema, part.source, (*options.declared, *options.key))
            fitting = {c: text for c, text in types.items() if rows.fits(column_of_type_text(c, text))}
            options = options.with_wider(fitting)
        if changed := _changed_types(before.schema, options.schema):
            wider[name] = changed
    return wider


def _changed_types(before: Schema, after: Schema) -> dict[str, str]:
    pairs = zip(before.columns, after.columns, strict=True)
    return {new.name: new.type_text for old, new in pairs if old != new}


def work_out(engine: Engine, effects: Effects, batch: BatchInfo, version: int) -> BatchResult:
    """What the effects do to violations and found rules, and the step that says so."""
    with engine.guarded():
        changes = {name: RowChange.of(engine.state.rows[name], effect.delta) for name, effect in effects.items()}
        deltas = engine.detect(changes)
        violations = engine.batch_violations(deltas, effects)
        update = engine.discovered.update(changes)
        step = make_step(engine, effects, batch, version, deltas=deltas, violations=violations, update=update)
    outcome = Outcome(
        version,
        batch.id,
        rules=update.change,
        rows=step.record["tables"],
        drift=[drift for effect in effects.values() for drift in effect.drift],
        quarantined=_quarantined(effects, batch),
        violations=violations,
        late={name: tuple(kinds) for name, kinds in engine.discovered.late().items()},
    )
    return BatchResult(step, outcome)


def caught_up(engine: Engine, version: int) -> Step:
    """The step that updates late rules to the current rows."""
    with engine.guarded():
        update = engine.discovered.catch_up()
    record = {
        "version": version,
        "batch": None,
        "source": "holdfast",
        "time": now(),
        "tables": dict.fromkeys(update.changes, NO_ROWS),
        "quarantined": 0,
        "drift": 0,
        "violations": {},
        "rules": update.counts(),
    }
    log = rule_log(update, record, partial(engine.row_names, effects={}))
    return Step({}, record, rules=log, facts=dict(update.facts))


def make_step(
    engine: Engine,
    effects: Effects,
    batch: BatchInfo,
    version: int,
    *,
    deltas: Mapping[int, ViolationDelta],
    violations: BatchViolations | None,
    update: RuleUpdate,
) -> Step:
    """What the batch adds to the states."""
    counts = {name: effect.delta.counts() for name, effect in effects.items()}
    quarantined = _quarantined(effects, batch)
    changes = {number: (delta.count_added, delta.count_removed) for number, delta in deltas.items()}
    record = {
        "version": version,
        "batch": batch.id,
        "source": batch.source,
        "time": now(),
        "tables": counts or {next(iter(engine.state.tables)): NO_ROWS},
        "quarantined": len(quarantined),
        "drift": sum(len(effect.drift) for effect in effects.values()),
        "violations": engine.violation_record(changes),
        "rules": update.counts(),
    }
    if batch.offsets is not None:
        record["offsets"] = batch.offsets
    if batch.happened is not None:
        record["happened"] = batch.happened
    late = engine.discovered.late()
    if late:
        record["late"] = late
    events = None
    if violations is not None and engine.options.outbox:
        events = outbox.to_arrays(outbox.violation_events(violations, engine.entries))
    bad = [{"version": version, "batch": batch.id} | vars(row) for row in quarantined]
    return Step(
        {name: effect.delta for name, effect in effects.items()},
        record,
        Log.delta(bad) if bad else None,
        rule_log(update, record, lambda name, pairs: engine.row_names(name, pairs, effects)),
        events,
        dict(update.facts),
        update.values,
    )


def rule_log(update: RuleUpdate, record: Record, name_rows: Callable[..., list[Record]]) -> Arrays | None:
    """The added and removed rules, for the log of rules."""
    signature = {"version": record["version"], "batch": record["batch"]}
    events = [signature | event for event in rule_events(update, name_rows)]
    return Log.delta(events) if events else None


def _quarantined(effects: Effects, batch: BatchInfo) -> list[Bad]:
    return [*batch.bad, *(row for effect in effects.values() for row in effect.quarantined)]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
