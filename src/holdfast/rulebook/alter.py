"""Altering a rulebook: columns, types, rules, masks and the outbox, in a version of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from holdfast.rulebook.batch import NO_ROWS, now, rule_log
from holdfast.rulebook.discovered import RuleUpdate
from holdfast.rulebook.engine import Engine
from holdfast.rulebook.options import BookOptions, require_entries, require_mask
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry, as_entry
from holdfast.rules.ruleset import RuleSet
from holdfast.store.log import Record
from holdfast.store.step import VALUES, Step, facts_state, table_state
from holdfast.table.options import TableOptions

Types = Mapping[str, Mapping[str, str]]  # {table: {column: type}}


@dataclass(frozen=True)
class Alteration:
    """What `Rulebook.alter` was asked for."""

    columns: Types
    widen: Types
    declared: bool
    rules: tuple[Rule | str | RuleEntry, ...]
    retire: tuple[str, ...]
    mask: Iterable[str] | None
    outbox: bool | None

    @property
    def tables(self) -> list[str]:
        """The tables whose columns change."""
        return list(dict.fromkeys([*self.columns, *self.widen]))


class Altered(NamedTuple):
    """The engine after an alteration, the step that the store keeps, and the states that need new files."""

    engine: Engine
    step: Step
    states: set[str]


def alter(engine: Engine, asked: Alteration, version: int) -> Altered:
    """Works out an alteration without touching the engine. O(rows of tables whose columns change)."""
    tables, retired = _tables(engine, asked), {}
    for rule in asked.retire:
        entry = engine.entries[engine.names.find(rule).number]
        retired[entry.id] = entry.rule
    new = [as_entry(rule, engine.options.rule_nulls) for rule in asked.rules]
    replaced = {*retired, *(entry.id for entry in new)}
    entries = require_entries([*(e for e in engine.entries if e.id not in replaced), *new], tables)
    held = engine.discovered.rules() if asked.tables else RuleSet()
    after = _engine(engine, asked, tables, entries)
    types = {
        name: {c: [engine.state.tables[name].schema.column(c).type_text, text] for c, text in by_column.items()}
        for name, by_column in asked.widen.items()
    }
    columns = {name: dict(by_column) for name, by_column in asked.columns.items()}
    record = {"columns": columns, "types": types, "retired": retired}
    step = _step(after, record, len(new), after.discovered.since(held, asked.tables), version)
    states = {state(name) for name in asked.tables for state in (table_state, facts_state)}
    return Altered(after, step, states | ({VALUES} if asked.tables else set()))


def _tables(engine: Engine, asked: Alteration) -> dict[str, TableOptions]:
    tables = dict(engine.state.tables)
    for name, types in asked.columns.items():
        tables[name] = tables[name].with_columns(types, declared=asked.declared)
    for name, types in asked.widen.items():
        tables[name] = tables[name].with_wider(types)
    return tables


def _engine(
    engine: Engine, asked: Alteration, tables: dict[str, TableOptions], entries: tuple[RuleEntry, ...]
) -> Engine:
    options = _options(engine.options, asked, tables)
    if not asked.tables:
        after = Engine(engine.state, entries, options, engine.resources)
        after.discovered = engine.discovered
        return after
    state = engine.state.widened(tables, asked.tables)
    after = Engine(state, entries, options, engine.resources)
    if engine.state.values is not None:
        state.values = after.discovered.file_values()
    return after


def _options(options: BookOptions, asked: Alteration, tables: Mapping[str, TableOptions]) -> BookOptions:
    if asked.mask is not None:
        options = replace(options, mask=require_mask(asked.mask, tables))
    return options if asked.outbox is None else replace(options, outbox=asked.outbox)


def _step(engine: Engine, altered: Record, new_rules: int, update: RuleUpdate, version: int) -> Step:
    first = len(engine.entries) - new_rules
    record = {
        "version": version,
        "batch": None,
        "source": "holdfast",
        "time": now(),
        "tables": dict.fromkeys([*altered["columns"], *altered["types"]] or engine.state.tables, NO_ROWS),
        "quarantined": 0,
        "drift": 0,
        "violations": engine.violation_record(dict.fromkeys(range(first, len(engine.entries)), (0, 0))),
        "rules": update.counts(),
        "altered": altered | {"rules": [entry.id for entry in engine.entries[first:]]},
    }
    late = engine.discovered.late()
    if late:
        record["late"] = late
    return Step({}, record, rules=rule_log(update, record, lambda name, pairs: []))
