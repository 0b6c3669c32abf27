"""The engine: rows change, and the rulebook says what that changed. Durable after every `apply`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from holdfast import outbox
from holdfast.arrays import Arrays
from holdfast.chronicle import Chronicle
from holdfast.discovered import Discovered, Followed, rule_events
from holdfast.discovery.budget import Budget
from holdfast.discovery.ind.filed_generator import MEMORY_BUDGET
from holdfast.discovery.ind.runs import Runs
from holdfast.discovery.search_options import CrossColumns, SearchOptions, Sizes
from holdfast.discovery.width import require_narrow, within_memory
from holdfast.encoded_tables import EncodedTables
from holdfast.errors import HoldfastError, RuleError, SchemaError, StoreError, ValueRefused, discreet, shown
from holdfast.executors.executor import Executor
from holdfast.indexes.pairs import Pairs
from holdfast.indexes.partitioned import partitioned
from holdfast.outcome import Outcome
from holdfast.ranking.interest import Weights
from holdfast.ranking.rank import DEFAULT_MOST, Ranked
from holdfast.rules.bind import forms, require_fits, require_policy, require_predicates_fit, resolved, table_of
from holdfast.rules.grammar import parse
from holdfast.rules.names import by_position
from holdfast.rules.predicate import Predicate
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry, as_entry, require_distinct
from holdfast.rules.ruleset import RuleSet
from holdfast.store.directory import LocalDirectory, directory_at
from holdfast.store.disk import Disk
from holdfast.store.interrupt import uninterrupted
from holdfast.store.log import Log, Record
from holdfast.store.marks import Marks
from holdfast.store.step import GROWING, LOG, OUTBOX, QUARANTINE, RULES, VALUES, WORDS, Step, facts_state, table_state
from holdfast.store.store import Store
from holdfast.table.change import Changes, Part, by_table
from holdfast.table.dictionary import TextDictionary
from holdfast.table.encode import decode_table
from holdfast.table.net import Bad, Effect, Planner
from holdfast.table.options import Choices, Names, TableOptions, maskable
from holdfast.table.read import Source, read_all
from holdfast.table.rows import RowChange, RowDelta, Rows
from holdfast.table.schema import Schema, column_of_type_text, unknown_name
from holdfast.table.widen import widened
from holdfast.violations.delta import ViolationDelta
from holdfast.violations.detect import CheckedRule, Detector, Progress
from holdfast.violations.explain import Explanation
from holdfast.violations.listing import (
    Asked,
    BatchViolations,
    Listed,
    RuleNames,
    RuleViolations,
    id_table,
    pair_table,
    row_named,
)
from holdfast.violations.look import LOOK_AT, Look, Violation, of_row
from holdfast.violations.look import shown as shown_violations

DEFAULT_KEEP = 10
TEXT_FORM = 2  # of values that inclusions compare as text; 1 wrote decimals at their column's scale


class Rulebook:
    """Tables, their rules, and the history of both, under a stream of changes.

    >>> people = pa.table({"id": [1, 2], "zip": ["10115", "20095"]})
    >>> book = Rulebook.create(None, people, key="id")
    >>> from holdfast.table.change import Change
    >>> out = book.apply(Change(inserts=pa.table({"id": [3], "zip": ["80331"]}), deletes=pa.table({"id": [1]})))
    >>> out.rows, book.table().column("id").to_pylist()
    ({'data': {'inserted': 1, 'deleted': 1, 'updated': 0}}, [2, 3])
    """

    def __init__(
        self,
        tables: dict[str, TableOptions],
        options: Record,
        entries: tuple[RuleEntry, ...],
        store: Store | None,
        progress: Progress | None,
        executor: Executor | None,
        memory_budget: int,
    ) -> None:
        """For `create` and `open`."""
        self._options, self._store, self._memory_budget = options, store, memory_budget
        self._progress, self._executor = progress, executor
        self._closed = self._stale = self._read_only = False
        self._caught_up = False  # with versions of another process
        self.needed_from: int | None = None  # the oldest version not yet delivered to every sink
        self._reset(tables, entries)

    def _reset(
        self, tables: dict[str, TableOptions], entries: tuple[RuleEntry, ...], values: Runs | None = None
    ) -> None:
        """Empty tables."""
        self._values = values  # of inclusions, where they are durable
        self._dictionary = TextDictionary()
        self._rows = {name: Rows(t.schema, t.key) for name, t in tables.items()}
        self._chronicle = Chronicle()
        self._filed = dict.fromkeys(GROWING, 0)  # how much of each growing state is in its files
        self._describe(tables, entries)

    def _describe(self, tables: dict[str, TableOptions], entries: tuple[RuleEntry, ...]) -> None:
        """Sets what follows from the tables' columns and the rules."""
        self._tables, self._entries = tables, entries
        self._planners = {name: self._planner(name, self._rows[name], options) for name, options in tables.items()}
        checked = [CheckedRule(entry.value, entry.nulls, entry.predicates) for entry in entries]
        self._names = RuleNames(checked, [entry.id for entry in entries], tables)
        self._nothing: dict[int, Listed] = {}
        self._detector: Detector | None = None
        asked = self._options.get("wanted")
        wanted = SearchOptions.from_json(asked) if asked is not None else None
        named = self._options.get("named", False)
        self._found = Discovered(
            wanted,
            self.schemas,
            self._dictionary,
            self._executor,
            named=named,
            memory_budget=self._memory_budget,
            runs=self._values,
        )

    def _planner(self, name: str, rows: Rows, options: TableOptions) -> Planner:
        masked = any({column, f"{name}.{column}"} & self.masked for column in rows.schema.names)
        only_inserts = self._options.get("only_inserts", False)
        return Planner(
            name, rows, self._dictionary, options.declared, options.ignored, only_inserts=only_inserts, masked=masked
        )

    # --- making and opening ---------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | Path | None,
        tables: Any,
        *,
        kinds: Sequence[str] = (),
        rules: Iterable[Rule | str | RuleEntry] = (),
        key: Names | Mapping[str, Names] | None = None,
        nulls: str = "equal",
        rule_nulls: str = "sql",
        max_error: float = 0.0,
        error: str | None = None,
        max_size: Sizes = "default",
        compare: str = "typed",
        cross_columns: CrossColumns = True,
        evidence: str = "auto",
        only_inserts: bool = False,
        time_budget: float | None = None,
        types: Mapping[str, Any] | None = None,
        columns: Names | Mapping[str, Names] | None = None,
        exclude: Names | Mapping[str, Names] | None = None,
        progress: Progress | None = None,
        executor: Executor | None = None,
        memory_budget: int = MEMORY_BUDGET,
        keep: int = DEFAULT_KEEP,
        outbox: bool = False,
        mask: Iterable[str] = (),
        disk: Disk | None = None,
    ) -> Rulebook:
        """A rulebook over these tables: durable in the directory `path`, or in memory where that is None.

        `key` says which columns tell the rows of a table apart ({table: key} for several); `types` overrides
        column kinds ({column: type}, or {table: {column: type}}); `columns` and `exclude` choose columns. The minimal
        rules of these `kinds` are found and kept true to the rows, under `nulls`, up to `max_error` and `max_size` (see
        `discover`); a first search that `time_budget` seconds end is refused, for a rulebook is never partial.

        `progress` is told, while rows are checked, how many of how many are done. On an `executor` (threads,
        Spark) each index is in parts,
        which are searched side by side; without one it is in this process. `only_inserts`: a promise that makes
        inclusions cheaper to follow; what deletes or updates rows is refused. `memory_budget`: the most bytes for the
        values of inclusions in memory, of a durable rulebook; the rest stays in its files. `keep` is how many versions
        stay open to readers; with `outbox` each of them has what sinks are to be told of it. `mask`: columns (`ssn`, or
        `people.ssn`) whose values messages, reports, pages and alerts do not show.
        """
        wanted = SearchOptions.of(
            kinds,
            nulls,
            max_size,
            max_error,
            error,
            compare,
            cross_columns=cross_columns,
            evidence=evidence,
            only_inserts=only_inserts,
        )
        options: Record = {"nulls": wanted.nulls, "rule_nulls": require_policy(rule_nulls)}
        options |= {"wanted": wanted.to_json() if kinds else None, "named": isinstance(tables, Mapping)}
        options |= {"keep": require_keep(keep), "outbox": outbox, "only_inserts": only_inserts}
        settled = Choices(key, types, columns, exclude).settle(read_all(tables))
        made = {name: table for name, (_, table) in settled.items()}
        options |= {"mask": require_mask(mask, made), "text_form": TEXT_FORM}
        if kinds:
            require_narrow({name: table.schema for name, table in made.items()})
        entries = require_entries([as_entry(rule, rule_nulls) for rule in rules], made)
        book = cls(made, options, entries, None, progress, executor, memory_budget)
        record = book._load_base({name: source for name, (source, _) in settled.items()}, Budget(time_budget))
        if path is not None:
            book._values = book._found.file_values(book._rows)
            states, filed = book._states(len(book._dictionary))
            book._store, book._filed = Store.create(directory_at(path, disk), states, book._meta(), record), filed
            book._refile()
        return book

    @classmethod
    def open(
        cls,
        path: str | Path,
        disk: Disk | None = None,
        *,
        version: int | None = None,
        progress: Progress | None = None,
        executor: Executor | None = None,
        memory_budget: int = MEMORY_BUDGET,
    ) -> Rulebook:
        """The rulebook in a directory, at its newest version; or an older version, to look at only."""
        store = Store.open(directory_at(path, disk), version)
        book = cls({}, store.manifest.meta["options"], (), store, progress, executor, memory_budget)
        book._load()
        book._read_only = version is not None
        return book

    def _meta(self) -> Record:
        tables = {name: table.to_json() for name, table in self._tables.items()}
        return {"tables": tables, "options": self._options, "rules": [entry.model_dump() for entry in self._entries]}

    def _load_base(self, sources: dict[str, Source], budget: Budget) -> Record:
        parts = {name: [Part.of(source, "insert")] for name, source in sources.items()}
        step = self._step(self._plan(parts, quarantine=False), {}, None, Followed({}, {}), 0, "base", "default")
        self._merge(step)
        if self._found:
            with within_memory({name: rows.schema for name, rows in self._rows.items()}):
                self._found.make(self._rows, budget)
        step.record["violations"] = self._violation_record(dict.fromkeys(range(len(self._entries)), (0, 0)))
        return step.record

    def _load(self) -> None:
        """Brings the states to the store's version; to a newer one, where a writer has removed that meanwhile."""
        assert self._store is not None
        try:
            states, changes = self._store.load()
        except StoreError:
            if not self._store.is_superseded():
                raise
            self._store = Store.open(self._store.directory)
            return self._load()
        meta = self._store.manifest.meta
        self._options = meta["options"]
        tables = {name: TableOptions.from_json(record) for name, record in meta["tables"].items()}
        values = Runs(states.pop(VALUES)) if VALUES in states else None
        values = values if self._reads_values else None
        self._reset(tables, tuple(RuleEntry.model_validate(record) for record in meta["rules"]), values)
        for name, rows in self._rows.items():
            rows.load(states[table_state(name)][0])
            if self._found.has_facts:
                self._found.remember({name: states[facts_state(name)][0]})
        for name, state in self._growing.items():
            for part in states.get(name, ()):
                state.merge(part)
        self._filed |= self._lengths()
        self._chronicle.note_all()
        for change in changes:
            if WORDS in change:
                self._dictionary.merge(change[WORDS])
            step = Step.from_states(change)
            self._merge(step)
            if step.facts:
                self._found.remember(step.facts)
        self._stale = self._caught_up = False
        return None

    @property
    def _reads_values(self) -> bool:
        """Whether the values of inclusions in the files count: not where they are texts in the form of an earlier
        release; they are then taken from the rows each time."""
        wanted = self._options.get("wanted")
        as_text = wanted is not None and wanted["compare"] == "text"
        return not as_text or self._options.get("text_form") == TEXT_FORM

    @property
    def _growing(self) -> dict[str, TextDictionary | Log | Runs]:
        made: dict[str, TextDictionary | Log | Runs] = {WORDS: self._dictionary, LOG: self._chronicle.log}
        made |= {QUARANTINE: self._chronicle.apart, RULES: self._chronicle.rules}
        return made if self._values is None else made | {VALUES: self._values}

    def _lengths(self) -> dict[str, int]:
        return {name: len(state) for name, state in self._growing.items()}

    # --- changing -------------------------------------------------------------------------------------------

    def apply(
        self,
        change: Changes,
        batch_id: str | int | None = None,
        *,
        source: str = "default",
        on_error: str = "refuse",
        offsets: str | None = None,
        bad: Sequence[Bad] = (),
    ) -> Outcome:
        """Applies one atomic batch: a `Change`, or a list of them over several tables.

        A batch that this `source` sent before is skipped; integers must grow. `offsets` says what the batch was made
        of: a known batch with other offsets is an error. A batch that contradicts the tables is refused whole, or, with
        `on_error="quarantine"`, applied without its bad rows, which are quarantined; with them `bad`, which whoever
        read the batch could not read. A number that does not fit its integer or decimal column widens the column
        first, exactly, in a version of its own, unless the user declared the column's type.
        """
        if on_error not in ("refuse", "quarantine"):
            raise HoldfastError(f"on_error is 'refuse' or 'quarantine', not {shown(on_error)}")
        if isinstance(batch_id, bool) or not isinstance(batch_id, str | int | None):
            raise HoldfastError(f"a batch id is a text or an integer, not {shown(batch_id)}")
        if not isinstance(source, str):
            raise HoldfastError(f"a source is a text, not {shown(source)}")
        self._require_usable()
        self._require_writable()
        batch = self.next_batch(source) if batch_id is None else batch_id
        if self.knows(source, batch, offsets):
            return Outcome(self.version, batch, skipped=True)
        known = len(self._dictionary)
        try:
            with discreet(bool(self.masked)):
                parts = by_table(change, self._tables)
                effects = self._plan_widening(parts, known, quarantine=on_error == "quarantine")
            version = self.version + 1
            with self._detecting():
                changes = {name: self._row_change(name, effect.delta) for name, effect in effects.items()}
                found = self._detect().apply(changes) if self._entries else {}
                violations = self._batch_violations(found, effects)
                rules = self._found.follow(changes, self._rows)
                step = self._step(effects, found, violations, rules, version, batch, source, offsets, bad)
        except BaseException:
            self._dictionary.truncate(known)
            raise
        self._publish(step, known)
        return Outcome(
            version,
            batch,
            rules=rules.change,
            rows=step.record["tables"],
            drift=[d for effect in effects.values() for d in effect.drift],
            quarantined=[*bad, *(b for effect in effects.values() for b in effect.quarantined)],
            violations=violations,
        )

    def alter(
        self,
        *,
        columns: Mapping[str, Mapping[str, str]] | None = None,
        declared: bool = True,
        rules: Iterable[Rule | str | RuleEntry] = (),
        retire: Iterable[str] = (),
        widen: Mapping[str, Mapping[str, str]] | None = None,
        mask: Iterable[str] | None = None,
        outbox: bool | None = None,
    ) -> int:
        """Adds columns ({table: {column: type}}), null in the rows that are there, and rules; a rule with the id of one
        that is there takes its place. `declared`: whether people said the columns' types, which then never widen.
        `retire`: rules that are no longer checked, by id. `widen`: columns whose type becomes a wider decimal. `mask`:
        the columns that are masked from now on; `outbox`: whether versions keep what sinks are told. Returns the
        version from which on all this counts."""
        self._require_usable()
        self._require_writable()
        added = {**(columns or {}), **{name: {} for name in widen or {} if name not in (columns or {})}}
        tables = dict(self._tables)
        for name, types in (columns or {}).items():
            tables[self._name(name)] = tables[self._name(name)].with_columns(types, declared=declared)
        for name, types in (widen or {}).items():
            tables[self._name(name)] = tables[self._name(name)].with_wider(types)
        new = [as_entry(rule, self._options["rule_nulls"]) for rule in rules]
        gone = {self.entry(rule).id: self.entry(rule).rule for rule in retire}
        stay = [entry for entry in self._entries if entry.id not in {*gone, *(entry.id for entry in new)}]
        entries = require_entries([*stay, *new], tables)
        before, found, values = (self._rows, self._tables, self._entries), self._found, self._values
        options = self._options
        held = found.rules(self._rows) if added else RuleSet()
        try:
            self._options = options | ({} if mask is None else {"mask": require_mask(mask, tables)})
            self._options |= {} if outbox is None else {"outbox": outbox}
            self._rows = self._rows | {name: self._rows[name].widened(tables[name].schema) for name in added}
            self._values = None if added else values  # columns have new numbers
            self._describe(tables, entries)
            if not added:
                self._found = found
            elif values is not None:
                self._values = self._found.file_values(self._rows)
            altered = {
                "columns": {name: dict(types) for name, types in (columns or {}).items()},
                "types": _type_changes(before[1], widen or {}),
                "retired": dict(gone),
            }
            step = self._alteration(altered, len(new), self._found.since(held, self._rows, added))
            if self._store is not None:
                touched = {state(name) for name in added for state in (table_state, facts_state)}
                touched |= {VALUES} if added else set()
                self._put(self._store, step, len(self._dictionary), self._meta(), touched)
            self._merge(step)
        except BaseException:
            self._rows, self._values, self._options = before[0], values, options
            self._describe(*before[1:])
            self._stale = self._store is not None
            raise
        return self.version

    def _alteration(self, altered: Record, rules: int, followed: Followed) -> Step:
        first = len(self._entries) - rules
        fresh = dict.fromkeys(range(first, len(self._entries)), (0, 0))
        zero = {"inserted": 0, "deleted": 0, "updated": 0}
        record = {
            "version": self.version + 1,
            "batch": None,
            "source": "holdfast",
            "time": _now(),
            "tables": dict.fromkeys([*altered["columns"], *altered["types"]] or self._tables, zero),
            "quarantined": 0,
            "drift": 0,
            "violations": self._violation_record(fresh),
            "rules": followed.counts(),
            "altered": altered | {"rules": [entry.id for entry in self._entries[first:]]},
        }
        events = rule_events(followed, lambda name, pairs: [])
        events = [{"version": record["version"], "batch": None} | event for event in events]
        return Step({}, record, rules=Log.delta(events) if events else None)

    def _plan_widening(self, parts: dict[str, list[Part]], known: int, *, quarantine: bool) -> dict[str, Effect]:
        """The effects of a batch. Columns that its numbers do not fit are widened first, in a version of their own,
        provided that the batch can be applied then; that is O(rows). `known`: how many texts there were before it."""
        try:
            effects = self._plan(parts, quarantine=quarantine)
            wider = self._wider(parts) if any(effect.quarantined for effect in effects.values()) else {}
        except ValueRefused:
            wider = self._wider(parts)
            if not wider:
                raise
        if not wider:
            return effects
        for name, types in wider.items():
            options = self._tables[name].with_wider(types)
            planner = self._planner(name, self._rows[name].widened(options.schema), options)
            planner.plan(parts[name], quarantine=quarantine)
        self._dictionary.truncate(known)
        self.alter(widen=wider)
        return self._plan(parts, quarantine=quarantine)

    def _wider(self, parts: dict[str, list[Part]]) -> dict[str, dict[str, str]]:
        """{table: {column: type}} that the numbers of a batch need, where the rows that are there fit it, too. Keys do
        not widen: rows go by them."""
        made: dict[str, dict[str, str]] = {}
        for name, some in parts.items():
            options = self._tables[name]
            for part in some:
                types = widened(options.schema, part.source, (*options.declared, *options.key))
                fitting = {c: t for c, t in types.items() if self._rows[name].fits(column_of_type_text(c, t))}
                options = options.with_wider(fitting)
            types = _wider_types(self._tables[name].schema, options.schema)
            made |= {name: types} if types else {}
        return made

    def _row_change(self, name: str, delta: RowDelta) -> RowChange:
        """The delta with what was there before, for those who follow the rows."""
        rows = self._rows[name]
        inserted = np.arange(rows.next_id, rows.next_id + delta.inserted_codes.shape[1])
        old = rows.codes_of(delta.deleted), rows.codes_of(delta.updated)
        return RowChange(
            delta.deleted, old[0], delta.updated, old[1], delta.updated_codes, inserted, delta.inserted_codes
        )

    def _detect(self) -> Detector:
        """The detector of the checked rules, loaded with the rows as they are; built when first needed."""
        if self._detector is None:
            make_index = None if self._executor is None else partitioned(self._executor)
            detector = Detector(self._names.checked, self.schemas, self._dictionary, make_index=make_index)
            detector.load(self._rows, self._progress)
            self._detector = detector
        return self._detector

    @contextmanager
    def _detecting(self) -> Iterator[None]:
        """While the detector works: it is built anew after an interruption, which may leave it ahead of the rows."""
        try:
            yield
        except GeneratorExit:  # nobody wants the rest of a listing
            raise
        except BaseException:
            self._detector = None
            self._found.forget()
            raise

    def _listed(self, number: int, pairs: Pairs, effects: Mapping[str, Effect] | None = None) -> Listed:
        """The pairs for people, before the effects are part of the rows; no pairs are the same for every batch."""
        if not len(pairs) and number in self._nothing:
            return self._nothing[number]
        name = self._detect().table_of(number)
        coming = effects[name].delta.inserted_codes if effects is not None and name in effects else None
        listed = Listed.of(pairs, self._rows[name], self._dictionary, coming)
        if not len(pairs):
            self._nothing[number] = listed
        return listed

    def _batch_violations(self, found: dict[int, ViolationDelta], effects: dict[str, Effect]) -> BatchViolations:
        counts = self._detect().counts if self._entries else []
        made = {}
        for i, count in enumerate(counts):
            delta = found.get(i)
            if delta is None:
                nothing = self._listed(i, Pairs.none(single=self._names.checked[i].is_single))
                made[i] = RuleViolations(count, added=nothing, removed=nothing)
            else:
                both = [self._listed(i, pairs, effects) if delta.listed else None for pairs in delta[:2]]
                made[i] = RuleViolations(count, delta.count_added, delta.count_removed, *both)
        return BatchViolations(self._names, made)

    def _violation_record(self, changes: dict[int, tuple[int, int]]) -> Record:
        """{rule id: [added, removed, total]} for the history."""
        counts = self._detect().counts if changes else []
        return {self._entries[i].id: [*change, counts[i]] for i, change in changes.items()}

    def _plan(self, parts: dict[str, list[Part]], *, quarantine: bool) -> dict[str, Effect]:
        return {
            name: planner.plan(parts[name], quarantine=quarantine)
            for name, planner in self._planners.items()
            if name in parts
        }

    def _step(
        self,
        effects: dict[str, Effect],
        found: dict[int, ViolationDelta],
        violations: BatchViolations | None,
        rules: Followed,
        version: int,
        batch: str | int,
        source: str,
        offsets: str | None = None,
        unread: Sequence[Bad] = (),
    ) -> Step:
        quarantined = [*unread, *(b for effect in effects.values() for b in effect.quarantined)]
        nothing = {"inserted": 0, "deleted": 0, "updated": 0}
        record = {
            "version": version,
            "batch": batch,
            "source": source,
            "time": _now(),
            "tables": {n: _counts(e.delta) for n, e in effects.items()} or {next(iter(self._tables)): nothing},
            "quarantined": len(quarantined),
            "drift": sum(len(effect.drift) for effect in effects.values()),
            "violations": self._violation_record({i: (d.count_added, d.count_removed) for i, d in found.items()}),
            "rules": rules.counts(),
        }
        if offsets is not None:
            record["offsets"] = offsets
        bad = [{"version": version, "batch": batch} | vars(b) for b in quarantined]
        told = None
        if violations is not None and self._options["outbox"]:
            told = outbox.to_arrays(outbox.violation_events(violations, self._entries))
        rows = {name: effect.delta for name, effect in effects.items()}
        events = rule_events(rules, lambda name, pairs: self._named(name, pairs, effects))
        events = [{"version": version, "batch": batch} | event for event in events]
        apart, listed = (Log.delta(some) if some else None for some in (bad, events))
        return Step(rows, record, apart, listed, told, rules.facts, rules.values)

    def _named(self, name: str, pairs: Pairs, effects: Mapping[str, Effect]) -> list[Record]:
        """What the rows of a table are called, while the effects are not part of the rows yet."""
        coming = effects[name].delta.inserted_codes
        named: list[Record] = pair_table(pairs, self._rows[name], self._dictionary, coming).to_pylist()
        return named

    def _publish(self, step: Step, known: int) -> None:
        """Makes a step durable, then part of the states. Whatever stops it, memory and disk agree afterwards."""
        try:
            if self._store is not None:
                self._put(self._store, step, known)
            with uninterrupted():
                self._merge(step)
        except BaseException:
            self._stale, self._detector = self._store is not None, None
            self._found.forget()
            raise
        self._collect()

    def forget(self) -> None:
        """Lets go of versions that are not to be kept, and that are delivered to every sink."""
        if self._store is not None:
            self._store.acquire()
            self._collect()

    def _collect(self) -> None:
        if self._store is None:
            return
        if self.needed_from is None and self._options["outbox"]:  # sinks of a pipeline that does not run now
            self.needed_from = Marks(self._store.directory).needed_from()
        self._store.collect(self._options["keep"], self.needed_from)

    def _put(
        self, store: Store, step: Step, known: int, meta: Record | None = None, altered: Collection[str] = ()
    ) -> None:
        filed = self._filed

        def snapshot(names: Collection[str], growing: Collection[str]) -> dict[str, Arrays]:
            nonlocal filed
            states, filed = self._states(known, {*names, *altered}, growing, step.facts)
            return states

        change = step.to_states(self._dictionary.to_arrays(known))
        growing = [name for name in GROWING if name not in altered]
        files = store.manifest.states.get(VALUES)
        store.publish(change, snapshot, step.record, growing=growing, meta=meta)
        self._filed = filed
        if store.manifest.states.get(VALUES) != files:
            self._refile()

    def _refile(self) -> None:
        """Lets values be read from the files that were just made."""
        if self._store is not None and self._values is not None:
            self._values.refile(self._store.state(VALUES))
            self._filed[VALUES] = len(self._values)

    def _merge(self, step: Step) -> None:
        """Adds a step to the states; its texts are in the dictionary already."""
        for name, delta in step.rows.items():
            self._rows[name].merge(delta)
        self._chronicle.add(step)
        if step.values is not None and self._values is not None:
            self._values.merge(step.values)

    def _states(
        self,
        dictionary: int,
        names: Collection[str] | None = None,
        growing: Collection[str] = (),
        coming: Mapping[str, Arrays] | None = None,
    ) -> tuple[dict[str, Arrays], dict[str, int]]:
        """These states or all, of growing ones what is not in files yet, and how long they are then. A change being
        applied has added its texts already, of which only the first `dictionary` count, and its facts, `coming`."""
        start = {name: self._filed[name] if name in growing else 0 for name in GROWING}
        make: dict[str, Callable[[], Arrays]] = {table_state(name): rows.to_arrays for name, rows in self._rows.items()}
        for name in self._rows if self._found.has_facts else ():
            make[facts_state(name)] = partial(self._found.facts, name, self._rows, (coming or {}).get(name))
        make[WORDS] = lambda: self._dictionary.to_arrays(start[WORDS], dictionary)
        make[LOG] = lambda: self._chronicle.log.to_arrays(start[LOG])
        make[QUARANTINE] = lambda: self._chronicle.apart.to_arrays(start[QUARANTINE])
        make[RULES] = lambda: self._chronicle.rules.to_arrays(start[RULES])
        if self._values is not None:
            make[VALUES] = partial(self._values.to_arrays, start[VALUES])
        chosen = {name: state() for name, state in make.items() if names is None or name in names}
        lengths = self._filed | self._lengths() | {WORDS: dictionary}
        return chosen, {name: lengths[name] if name in chosen else self._filed[name] for name in GROWING}

    # --- batches --------------------------------------------------------------------------------------------

    def next_batch(self, source: str) -> int:
        """The number that follows the last one of a source."""
        return self._chronicle.next_batch(source)

    def last_offsets(self, source: str) -> str | None:
        """What the last batch of a source was made of."""
        return self._chronicle.last_offsets(source)

    def knows(self, source: str, batch: str | int, offsets: str | None = None) -> bool:
        """Whether this batch was applied already; an error where it was made of something else then."""
        return self._chronicle.knows(source, batch, offsets)

    # --- looking --------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        return self._chronicle.version

    @property
    def path(self) -> Path | None:
        """Its directory, where that is on a local disk."""
        place = self._store.directory if self._store is not None else None
        return place.path if isinstance(place, LocalDirectory) else None

    @property
    def masked(self) -> frozenset[str]:
        """Columns whose values are not shown: `ssn`, or `people.ssn` for one table."""
        return frozenset(self._options.get("mask", ()))

    @property
    def tables(self) -> dict[str, TableOptions]:
        """The tables, with their columns and keys."""
        return dict(self._tables)

    def run_on(self, executor: Executor | None) -> None:
        """Lets violations and rules be searched on an executor, or in this process again."""
        self._executor, self._detector = executor, None
        self._found.run_on(executor)

    @property
    def schemas(self) -> dict[str, Schema]:
        return {name: table.schema for name, table in self._tables.items()}

    def versions(self) -> list[int]:
        """The versions that can be opened."""
        return self._store.versions() if self._store is not None else [self.version]

    @property
    def oldest_told(self) -> int:
        """The oldest version, after that of the base rows, of which sinks can still be told."""
        return max(1, self._store.versions_with_change()[0]) if self._store is not None else self.version + 1

    def events_of(self, version: int) -> tuple[Record, pa.Table, list[Record], list[Record]]:
        """What sinks are to be told of a kept version: its record, the violations that came and went, the rows that
        were kept apart, and the rules that came and went. For rulebooks that were made with an outbox."""
        if self._store is None or not self._options["outbox"]:
            raise StoreError("this rulebook has no outbox; let `holdfast watch` make it, or create it with outbox=True")
        change, bad, rules = self._store.change(version), Log(), Log()
        for name, log in ((QUARANTINE, bad), (RULES, rules)):
            if name in change:
                log.merge(change[name])
        told = outbox.from_arrays(change[OUTBOX]) if OUTBOX in change else outbox.VIOLATIONS.empty_table()
        return Step.from_states(change).record, told, bad.records, rules.records

    def _name(self, table: str | None) -> str:
        if table is None and len(self._tables) == 1:
            return next(iter(self._tables))
        if table not in self._tables:
            raise SchemaError(unknown_name("table", str(table), list(self._tables)))
        return table

    def table(self, name: str | None = None) -> pa.Table:
        """The rows of a table as they are now, in order of arrival."""
        self._require_usable()
        name = self._name(name)
        return decode_table(self._tables[name].schema, self._rows[name].codes(), self._dictionary)

    def row_ids(self, name: str | None = None) -> pa.Array:
        """The ids of those rows."""
        self._require_usable()
        return pa.array(self._rows[self._name(name)].ids())

    def count(self, name: str | None = None) -> int:
        self._require_usable()
        return len(self._rows[self._name(name)])

    def rules(self, kind: str | None = None) -> RuleSet:
        """The rules that hold now, all or of one kind: those that were found, and given ones without violations.
        `found` and `given` are the two apart; the latter whether they hold or not."""
        found, given = self.found(kind), self.given(kind)
        written = RuleSet.from_rules([form for rule in given for form in forms(rule, self.schemas)])
        twice = {resolved(rule, self.schemas) for rule in written - (written - found)}  # found, in whichever form

        def holds(rule: Rule) -> bool:
            return resolved(rule, self.schemas) not in twice and not self.count_violations(rule)

        checked = given.where(lambda block: np.array([holds(rule) for rule in block], bool))
        return checked | found if len(checked) else found

    def given(self, kind: str | None = None) -> RuleSet:
        """The rules that are checked, all or of one kind, whether they hold or not; `entries` has more about each."""
        names = next(iter(self._tables.values())).schema.names if len(self._tables) == 1 else ()
        rules = RuleSet.from_rules([entry.value for entry in self._entries], names)
        return rules if kind is None else rules.of(kind)

    @property
    def has_outbox(self) -> bool:
        """Whether versions keep what sinks are to be told."""
        return bool(self._options["outbox"])

    @property
    def discovery_nulls(self) -> str:
        """How nulls compare in rules that are found."""
        return str(self._options["nulls"])

    @property
    def rule_nulls(self) -> str:
        """How nulls compare in given rules that say nothing else."""
        return str(self._options["rule_nulls"])

    def found(self, kind: str | None = None) -> RuleSet:
        """The rules that were found to hold, all or of one kind: the minimal ones of the kinds that are followed."""
        self._require_usable()
        rules = self._found.rules(self._rows)
        return rules if kind is None else rules.of(kind)

    def text_of(self, rule: Rule) -> str:
        """A rule's text, columns by their place in the schema of the only table."""
        names = next(iter(self._tables.values())).schema.names if len(self._tables) == 1 else ()
        return rule.text(by_position(names)) if names else rule.text()

    def entry(self, rule: str | Rule) -> RuleEntry:
        """A checked rule by its id, text or value."""
        return self._entries[self._names.find(rule).number]

    @property
    def entries(self) -> tuple[RuleEntry, ...]:
        """The checked rules with id, severity, null policy and filter."""
        return self._entries

    def count_violations(self, rule: str | Rule) -> int:
        """The exact number of violating ordered pairs (rows, for rules about rows)."""
        self._require_usable()
        asked = self._names.find(rule)
        if self._detector is None:
            for record in reversed(self._chronicle.log.records):
                if self._entries[asked.number].id in record.get("violations", {}):
                    return int(record["violations"][self._entries[asked.number].id][2])
        return self._detect().counts[asked.number]

    def violations(self, rule: str | Rule, limit: int | None = None) -> pa.Table:
        """The violating pairs (t, s) of a rule as it is written, by t then s; rows (t) for rules about rows."""
        return pa.concat_tables(self.violation_parts(rule, limit))

    def violation_parts(self, rule: str | Rule, limit: int | None = None) -> Iterator[pa.Table]:
        """The same in parts, one behind the other: for more violations than memory can hold."""
        return (listed.as_asked(asked) for asked, listed in self._listed_parts(rule, limit))

    def violation_ids(self, rule: str | Rule, limit: int | None = None) -> Iterator[pa.Table]:
        """The same by row ids, whatever the key."""
        return (id_table(asked.turned(listed.pairs)) for asked, listed in self._listed_parts(rule, limit))

    def _listed_parts(self, rule: str | Rule, limit: int | None) -> Iterator[tuple[Asked, Listed]]:
        self._require_usable()
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise HoldfastError(f"a limit is a number from 0 on, or None, not {shown(limit)}")
        asked = self._names.find(rule)
        with self._detecting():
            detector = self._detect()
            rows = self._rows[detector.table_of(asked.number)]
            yield asked, self._listed(asked.number, Pairs.none(single=self._names.checked[asked.number].is_single))
            if asked.mirrored:  # another order: all of them are needed
                pairs = asked.turned(detector.pairs(asked.number, rows)).first(limit)
                yield Asked(asked.number, mirrored=False), self._listed(asked.number, pairs)
                return
            for pairs in detector.parts(asked.number, rows, limit):
                if len(pairs):
                    yield asked, self._listed(asked.number, pairs)

    def error(self, rule: str | Rule) -> float:
        """g1: violating pairs / n(n-1), 0 for fewer than two rows; or rows / n for rules about rows."""
        checked = self._names.checked[self._names.find(rule).number]
        return checked.error(self.count_violations(rule), self.count(table_of(checked.rule, self.schemas)))

    def row(self, table: str, row: int) -> Record | None:
        """One row by its id; None where there is none."""
        self._require_usable()
        rows = self._rows[self._name(table)]
        if not np.isin(row, rows.ids()):
            return None
        (cells,) = decode_table(rows.schema, rows.codes_of(np.array([row], np.int64)), self._dictionary).to_pylist()
        return dict(cells)

    def row_violations(self, table: str, row: int, most: int = 100) -> list[tuple[RuleEntry, int, list[Violation]]]:
        """The checked rules that a row violates, with how many partners, and the first of them. O(rows) each."""
        self._require_usable()
        made = []
        for entry, item in zip(self._entries, self._names.checked, strict=True):
            if table_of(item.rule, self.schemas) == table:
                pairs = of_row(item, row, self._rows, self._dictionary)
                if len(pairs):
                    made.append(
                        (
                            entry,
                            len(pairs),
                            shown_violations(item, pairs.first(most), self._rows[table], self._dictionary),
                        )
                    )
        return made

    def hold(self) -> None:
        """Takes the right to write at once, so that no other process writes meanwhile."""
        self._require_usable()
        self._require_writable()
        if self._store is not None:
            self._store.acquire()

    def row_named(self, text: str, table: str | None = None) -> int:
        """The id of the row with a key given as text (`17`, or `a,b` for two columns), or the id itself where the table
        has no key."""
        self._require_usable()
        return row_named(self._name(table), self._rows[self._name(table)], self._dictionary, text)

    @property
    def loaded(self) -> EncodedTables:
        """The rows as codes, for who wants to say more about them."""
        self._require_usable()
        return EncodedTables(self._rows, self._dictionary, self._options.get("named", False))

    def best(self, most: int | None = DEFAULT_MOST, weights: Weights | None = None) -> list[Ranked]:
        """Of the rules that were found, those worth reading, the best first, each with its reasons."""
        return self.loaded.best(self.found(), self.discovery_nulls, most, weights)

    def look(self, rule: str | Rule, nulls: str | None = None) -> Look:
        """The violations of any rule on the rows as they are; of one that is not checked they are sought now, under
        the null policy of given rules unless told."""
        self._require_usable()
        value = self._names.known(rule)
        if value is not None and nulls is None:
            with self._detecting():
                return Look(self._detect(), value, self._rows, self._dictionary)
        return self.look_alone(rule, nulls or self.rule_nulls)

    def look_alone(self, rule: str | Rule, nulls: str, where: frozenset[Predicate] = frozenset()) -> Look:
        """The same of any rule, always sought now, without the rules that are checked."""
        self._require_usable()
        item = CheckedRule(parse(rule) if isinstance(rule, str) else rule, nulls, where)
        return Look.at(item, self.schemas, self._rows, self._dictionary)

    def explain(self, rule: str | Rule, limit: int = 10, look_at: int = LOOK_AT) -> Explanation:
        """The worst rows, their clashes and causes, from the first `look_at` violations."""
        self._require_usable()
        asked = self._names.find(rule)
        text = None if isinstance(rule, str) and rule in self._names.ids else str(rule)
        with self._detecting():
            look = Look(self._detect(), asked.number, self._rows, self._dictionary)
            return look.explain(limit, look_at, text, mirrored=asked.mirrored)

    def plan(self) -> str:
        """How the rules are checked, in words."""
        return self._detect().describe()

    def history(self) -> pa.Table:
        """What each batch did to each table, oldest first."""
        self._require_usable()
        return self._chronicle.history()

    def records(self) -> list[Record]:
        """What each version did, as it was written down, oldest first."""
        self._require_usable()
        return list(self._chronicle.log.records)

    def rule_history(self) -> pa.Table:
        """The rules that came and went, oldest first, with the two rows that decided: of a rule that went a pair that
        violates it, of one that came a pair that did, until a row of it was deleted. Rows by name, as JSON. At most
        a thousand for each table and version; `history` counts all."""
        self._require_usable()
        return self._chronicle.rule_history()

    def quarantined(self) -> pa.Table:
        """The rows that were quarantined, with the reason; their values as JSON. Nothing of it is masked."""
        self._require_usable()
        return self._chronicle.quarantined()

    def quarantine_records(self) -> list[Record]:
        """The same as it was written down."""
        self._require_usable()
        return list(self._chronicle.apart.records)

    # --- following another process that writes ---------------------------------------------------------------

    def refresh(self) -> list[dict[str, RowChange]] | None:
        """Brings a book that is only looked at to the newest version: what each version since then did to the rows;
        None where all was loaded anew, because rules or columns changed or a version in between is not kept any more.
        O(size of the changes), but for that."""
        self._require_usable()
        assert self._store is not None
        newest = Store.open(self._store.directory)
        changes = self._changes_until(newest)
        if changes is None:
            self._store.release()
            self._store, self._detector = newest, None
            self._load()
            return None
        made = [self._catch_up(change) for change in changes]
        self._store.release()
        self._store, self._caught_up = newest, self._caught_up or bool(made)
        return made

    def _changes_until(self, newest: Store) -> list[Mapping[str, Arrays]] | None:
        """What the versions after this one changed."""
        assert self._store is not None
        try:
            later = [newest.manifest_of(version) for version in range(self.version + 1, newest.version + 1)]
            if any(manifest.meta != self._store.manifest.meta for manifest in later):
                return None
            return [newest.change(manifest.version) for manifest in later]
        except (FileNotFoundError, StoreError):
            return None

    def _catch_up(self, change: Mapping[str, Arrays]) -> dict[str, RowChange]:
        """Adds a version that another process made, to the rows and to all that follows from them."""
        if WORDS in change:
            self._dictionary.merge(change[WORDS])
        step = Step.from_states(change)
        with self._detecting():
            changes = {name: self._row_change(name, delta) for name, delta in step.rows.items()}
            if self._detector is not None:
                self._detector.apply(changes)
            if self._found.is_made:
                self._found.follow(changes, self._rows)
            elif step.facts:
                self._found.remember(step.facts)
        self._merge(step)
        return changes

    # --- closing --------------------------------------------------------------------------------------------

    def _require_usable(self) -> None:
        if self._closed:
            raise StoreError("the rulebook is closed")
        if self._stale:
            assert self._store is not None
            self._store.release()
            self._store = Store.open(self._store.directory)
            self._load()

    def _require_writable(self) -> None:
        if self._caught_up:  # what is in which files is not known: all is read again before the first own version
            self._stale = True
            self._require_usable()
        if self._read_only:
            raise StoreError(f"version {self.version} was opened to be looked at; open the rulebook without a version")

    def close(self) -> None:
        """Everything is durable already; a closed rulebook refuses further use, and lets others write."""
        self._closed = True
        if self._store is not None:
            self._store.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_keep(keep: int) -> int:
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise HoldfastError(f"keep is how many versions stay, 1 or more, not {shown(keep)}")
    return keep


def require_entries(entries: Sequence[RuleEntry], tables: Mapping[str, TableOptions]) -> tuple[RuleEntry, ...]:
    """The rules, each with its own id and about columns that are there."""
    schemas = {name: table.schema for name, table in tables.items()}
    times = Counter(entry.id for entry in entries)
    for entry in entries:
        if times[entry.id] > 1:
            raise RuleError(f"`{entry.rule}`: the id {shown(entry.id)} is given twice")
        require_fits(entry.value, schemas)
        require_predicates_fit(entry.predicates, schemas[table_of(entry.value, schemas)])
    require_distinct(entries, schemas)
    return tuple(entries)


def require_mask(columns: Iterable[str], tables: Mapping[str, TableOptions]) -> list[str]:
    """The masked columns, sorted; a name that no column has would hide nothing, and is an error."""
    known = maskable(tables)
    for column in columns:
        if column not in known:
            raise SchemaError(f"mask: {unknown_name('column', str(column), sorted(known))}; nothing would be hidden")
    return sorted(set(columns))


def _wider_types(before: Schema, after: Schema) -> dict[str, str]:
    pairs = zip(before.columns, after.columns, strict=True)
    return {new.name: new.type_text for old, new in pairs if old != new}


def _type_changes(tables: Mapping[str, TableOptions], widen: Mapping[str, Mapping[str, str]]) -> Record:
    """{table: {column: [type before, type after]}}"""
    return {
        name: {column: [tables[name].schema.column(column).type_text, text] for column, text in types.items()}
        for name, types in widen.items()
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _counts(delta: RowDelta) -> dict[str, int]:
    inserted = int(delta.inserted_codes.shape[1])
    return {"inserted": inserted, "deleted": len(delta.deleted), "updated": len(delta.updated)}
