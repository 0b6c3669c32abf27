"""Engines of new rulebooks, from tables; and of opened ones, from their stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.discovery.budget import Budget
from holdfast.discovery.width import require_narrow, within_memory
from holdfast.errors import StoreError
from holdfast.rulebook.batch import BatchInfo, make_step, plan
from holdfast.rulebook.discovered import RuleUpdate
from holdfast.rulebook.engine import Engine
from holdfast.rulebook.options import BookOptions, Creation, Resources, require_entries, require_mask
from holdfast.rulebook.state import BookState
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry, as_entry
from holdfast.store.log import Record
from holdfast.store.store import Store
from holdfast.table.change import Part
from holdfast.table.options import TableOptions
from holdfast.table.read import read_all
from holdfast.table.source import Source


def new_engine(
    tables: Any, asked: Creation, rules: Iterable[Rule | str | RuleEntry], rule_nulls: str
) -> tuple[Engine, Record]:
    """The engine of a new rulebook, with the first rows and the rules found in them; and the record of version 0."""
    settled = asked.choices.settle(read_all(tables, reading=asked.choices.reading))
    options = {name: table for name, (_, table) in settled.items()}
    search = asked.search
    if search.kinds:
        require_narrow({name: table.schema for name, table in options.items()})
    book_options = BookOptions(
        nulls=search.nulls,
        rule_nulls=rule_nulls,
        search=search if search.kinds else None,
        named=isinstance(tables, Mapping),
        only_inserts=search.only_inserts,
        order=tuple(options),
        **asked.stored | {"mask": require_mask(asked.stored.get("mask", ()), options)},
    )
    entries = require_entries([as_entry(rule, rule_nulls) for rule in rules], options)
    engine = Engine(BookState(options), entries, book_options, asked.resources)
    sources = {name: source for name, (source, _) in settled.items()}
    return engine, _load_rows(engine, sources, Budget(asked.time_budget, asked.resources.search_progress))


def _load_rows(engine: Engine, sources: dict[str, Source], budget: Budget) -> Record:
    """Loads the first rows, and searches the rules in them. Returns the record of version 0."""
    effects = plan(engine, {name: [Part.of(source, "insert")] for name, source in sources.items()}, quarantine=False)
    step = make_step(engine, effects, BatchInfo("base"), 0, deltas={}, violations=None, update=RuleUpdate())
    engine.state.merge(step)
    if engine.options.search is not None:
        with within_memory(engine.state.schemas):
            engine.discovered.search(budget)
    step.record["violations"] = engine.violation_record(dict.fromkeys(range(len(engine.entries)), (0, 0)))
    return step.record


def loaded_engine(store: Store, resources: Resources) -> tuple[Store, Engine]:
    """The engine of the version that a store is at; of a newer one, if a writer has removed that version meanwhile."""
    try:
        return store, _engine_of(store, resources)
    except StoreError:
        if not store.is_superseded():
            raise
    return loaded_engine(Store.open(store.directory), resources)


def _engine_of(store: Store, resources: Resources) -> Engine:
    loaded, meta = store.load(), store.manifest.meta
    options = BookOptions.from_json(meta["options"])
    tables = {name: TableOptions.from_json(meta["tables"][name]) for name in options.ordered(meta["tables"])}
    entries = [RuleEntry.model_validate(record) for record in meta["rules"]]
    has_facts = options.search is not None and options.search.has_facts
    state, facts = BookState.load(tables, loaded, has_facts=has_facts, uses_values=options.has_readable_values)
    return Engine(state, entries, options, resources, facts if has_facts else None)


def description(engine: Engine) -> Record:
    """What a manifest says about the states: tables, options and rules."""
    tables = {name: table.to_json() for name, table in engine.state.tables.items()}
    rules = [entry.model_dump() for entry in engine.entries]
    return {"tables": tables, "options": engine.options.to_json(), "rules": rules}
