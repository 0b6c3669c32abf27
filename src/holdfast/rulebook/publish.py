"""Publishing: a step becomes the next version of the store; old versions go."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import pyarrow as pa

from holdfast.errors import StoreError
from holdfast.rulebook import outbox
from holdfast.rulebook.engine import Engine
from holdfast.rulebook.making import description
from holdfast.rulebook.state import BookState, FactsOf, StateSnapshot
from holdfast.store.directory import Directory
from holdfast.store.log import Log, Record
from holdfast.store.marks import Marks
from holdfast.store.step import GROWING, OUTBOX, QUARANTINE, RULES, VALUES, Step
from holdfast.store.store import Store


class VersionEvents(NamedTuple):
    """What sinks receive of one version: its record, violations added and removed, quarantined rows, and rules added
    and removed."""

    record: Record
    violations: pa.Table
    quarantined: list[Record]
    rules: list[Record]


def new_store(directory: Directory, engine: Engine, record: Record) -> Store:
    """Makes a store with version 0."""
    state = engine.state
    state.values = engine.discovered.file_values()
    snapshot = state.snapshot(None, _facts_of(engine), len(state.dictionary))
    store = Store.create(directory, snapshot.states, description(engine), record)
    state.filed = snapshot.filed
    _refile(store, state)
    return store


def snapshot_if_due(
    store: Store | None, engine: Engine, texts: int, altered: Collection[str] | None = None
) -> StateSnapshot | None:
    """The states as they are before a batch, if its version begins with new files. `texts`: the length of the
    dictionary before the batch."""
    due = None if store is None else store.due(GROWING, altered)
    return None if due is None else engine.state.snapshot(due, _facts_of(engine), texts)


def put_version(store: Store, engine: Engine, step: Step, snapshot: StateSnapshot | None, texts: int) -> None:
    """Makes a step durable. New files that a snapshot asked for are used at once."""
    state, values = engine.state, store.manifest.states.get(VALUES)
    change = step.to_states(state.dictionary.to_arrays(texts))
    if snapshot is None:
        store.publish(change, step.record)
    else:
        meta = description(engine) if "altered" in step.record else None
        store.publish(change, step.record, snapshot=snapshot.states, due=snapshot.due, meta=meta)
        state.filed = snapshot.filed
    if store.manifest.states.get(VALUES) != values:
        _refile(store, state)


def _facts_of(engine: Engine) -> FactsOf | None:
    return engine.discovered.facts if engine.discovered.has_facts else None


def _refile(store: Store, state: BookState) -> None:
    """Lets the values of inclusions be read from the files that were just made."""
    if state.values is not None:
        state.values.refile(store.state(VALUES))
        state.filed[VALUES] = len(state.values)


def oldest_needed(store: Store, engine: Engine, known: int | None) -> int | None:
    """The oldest version that some sink has yet to receive; also of a pipeline that does not run now."""
    if known is None and engine.options.outbox:
        return Marks(store.directory).needed_from()
    return known


def events_of(store: Store | None, version: int, *, has_outbox: bool) -> VersionEvents:
    """The events of a kept version."""
    if store is None or not has_outbox:
        raise StoreError("this rulebook has no outbox; let `holdfast watch` make it, or create it with outbox=True")
    change, bad, rules = store.change(version), Log(), Log()
    for name, log in ((QUARANTINE, bad), (RULES, rules)):
        if name in change:
            log.merge(change[name])
    violations = outbox.from_arrays(change[OUTBOX]) if OUTBOX in change else outbox.VIOLATIONS.empty_table()
    return VersionEvents(Step.from_states(change).record, violations, bad.records, rules.records)
