"""The rulebook on Spark: rows and states are tables of Spark; the driver keeps rules, numbers and history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast.discovery.budget import Budget
from holdfast.discovery.search_options import SearchOptions
from holdfast.errors import HoldfastError, NotAvailable, StoreError, discreet
from holdfast.rulebook.batch import NO_ROWS, BatchInfo, require_batch
from holdfast.rulebook.options import BookOptions, Creation, require_entries, require_mask
from holdfast.rulebook.outcome import Outcome
from holdfast.rulebook.state import BookState, StateSnapshot
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry, as_entry
from holdfast.spark.batch import compact, net_effect
from holdfast.spark.events import SparkChanges
from holdfast.spark.facts import BookFacts, folders_in
from holdfast.spark.first_rows import write_first_rows
from holdfast.spark.found_inclusions import FoundInclusions, require_typed
from holdfast.spark.found_rules import FoundRules, require_exact
from holdfast.spark.frames import frames_of, settled
from holdfast.spark.next_version import next_version
from holdfast.spark.place import DATA, PROBES, remove_unlisted, require_new, require_shared, root_of
from holdfast.spark.reader import SparkReader
from holdfast.spark.rows import moves_state, rows_state
from holdfast.spark.session import current_session
from holdfast.spark.state_files import StateFiles
from holdfast.store.directory import directory_at
from holdfast.store.marks import Marks
from holdfast.store.step import GROWING, Step
from holdfast.store.store import Store
from holdfast.table.effect import Bad

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRulebook(SparkReader):
    """Tables of any size, their rules, and the history of both. Made by `Rulebook.create(..., on="spark")`."""

    def __init__(self, facts: BookFacts, state: BookState, store: Store, found_rules: FoundRules | None = None) -> None:
        """For `create` and `open`."""
        self._facts, self._state, self._store = facts, state, store
        self._found_rules = _found_rules(facts, state) if found_rules is None else found_rules
        self._closed = self._read_only = self._stale = False
        self.needed_from: int | None = None  # the oldest version not yet delivered to every sink
        self._folders: dict[int, set[str]] = {}  # that kept versions list

    # --- making and opening ---------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | Path | None,
        data: Any,
        asked: Creation,
        rules: Iterable[Rule | str | RuleEntry],
        rule_nulls: str,
        state: str | None = None,
    ) -> Self:
        """Makes a rulebook over Spark DataFrames. `path` is where its manifests are; `state` is where Spark writes the
        rows and states, by default in the same place."""
        if path is None:
            raise HoldfastError("a rulebook on Spark is durable: give the path of a new directory")
        require_typed(asked.search)
        require_exact(asked.search)
        if asked.resources.rule_budget is not None:
            raise NotAvailable("a rulebook on Spark has no rule_budget: it updates its rules in each batch")
        frames = frames_of(data)
        spark = next(iter(frames.values())).sparkSession
        made = settled(frames, asked.choices)
        tables = {name: options for name, (_, options) in made.items()}
        entries = require_entries([as_entry(rule, rule_nulls) for rule in rules], tables)
        mask = require_mask(asked.stored.get("mask", ()), tables)
        options = BookOptions(
            rule_nulls=rule_nulls,
            search=asked.search if asked.search.kinds else None,
            named=isinstance(data, dict),
            order=tuple(tables),
            **asked.stored | {"mask": mask},
        )
        directory = directory_at(path, asked.disk)
        files = StateFiles(spark, root_of(directory, state))
        try:
            require_new(directory)
            require_shared(directory, files, apart=state is not None)
        except OSError as error:
            raise StoreError(f"{directory} cannot be written to: {error}") from error
        rows, next_ids = write_first_rows(files, {name: (frame, tables[name]) for name, (frame, _) in made.items()})
        schemas = {name: table.schema for name, table in tables.items()}
        found = FoundInclusions.empty(asked.search, schemas) if "ind" in asked.search.kinds else None
        facts = BookFacts(options, tables, entries, files, rows, next_ids, found=found)
        facts.rules.write_states(0)
        facts.rules.begin_found()
        book = BookState(tables)
        found_rules = _found_rules(facts, book)
        found_rules.begin(facts.rules, rows, Budget(asked.time_budget, asked.resources.search_progress))
        facts = replace(facts, counts=tuple(facts.rules.counts()), crossed=found_rules.crossed)
        record = facts.record(BatchInfo("base"), 0, {n: NO_ROWS | {"inserted": c} for n, c in rows.items()}, {})
        book.merge(Step({}, record))
        snapshot = book.snapshot(None, None, len(book.dictionary))
        store = Store.create(directory, snapshot.states, facts.to_meta(), record, (DATA, PROBES))
        book.filed = snapshot.filed
        return cls(facts, book, store, found_rules)

    @classmethod
    def open(cls, store: Store, *, read_only: bool = False) -> Self:
        """Opens the version of a store, in the Spark session of this process. Numbers, rules and history can be asked
        for without a session."""
        facts = BookFacts.from_meta(store.manifest.meta, current_session())
        state, _ = BookState.load(facts.tables, store.load(), has_facts=False, uses_values=False)
        book = cls(facts, state, store)
        book._read_only = read_only
        return book

    # --- changing -------------------------------------------------------------------------------------------

    def apply(
        self,
        change: SparkChanges,
        batch_id: str | int | None = None,
        *,
        source: str = "default",
        on_error: str = "refuse",
        offsets: str | None = None,
        bad: Sequence[Bad] = (),
    ) -> Outcome:
        """Applies one atomic batch, as `Rulebook.apply` does. Rows may be DataFrames of Spark."""
        require_batch(batch_id, source, on_error)
        self._require_writable()
        chronicle = self._state.chronicle
        number = chronicle.next_batch(source) if batch_id is None else batch_id
        batch = BatchInfo(number, source, on_error == "quarantine", offsets, bad)
        if chronicle.knows(source, number, offsets):
            return Outcome(self.version, number, skipped=True)
        before, version = self._facts, self.version + 1
        with discreet(bool(self.masked)):
            effect = net_effect(change, before.rules, before.next_ids, version, quarantine=batch.quarantine)
        texts, snapshot = len(self._state.dictionary), self._snapshot_if_due()
        with self._or_stale():
            facts, step, outcome = next_version(before, effect, batch, version, self._found_rules)
            self._publish(facts, step, snapshot, texts)
        return outcome

    def alter(
        self,
        *,
        rules: Iterable[Rule | str | RuleEntry] = (),
        retire: Iterable[str] = (),
        mask: Iterable[str] | None = None,
        outbox: bool | None = None,
        **others: Any,
    ) -> int:
        """Adds rules, or retires rules by id, in a version of its own; returns that version. A rule with the id of a
        checked rule replaces it. `mask` and `outbox` are those of `Rulebook.alter`."""
        if any(others.values()):
            raise NotAvailable(f"on Spark, rules can be altered, not {', '.join(sorted(others))}")
        self._require_writable()
        facts, version = self._facts, self.version + 1
        added = [as_entry(rule, facts.options.rule_nulls) for rule in rules]
        gone = {*retire, *(entry.id for entry in added)}
        entries = require_entries([*(e for e in facts.entries if e.id not in gone), *added], facts.tables)
        options = facts.options
        if mask is not None:
            options = replace(options, mask=require_mask(mask, facts.tables))
        if outbox is not None:
            options = replace(options, outbox=outbox)
        files = facts.files.copy()
        compact(files, replace(facts, files=files).rules, version, facts.rows)
        after = replace(facts, entries=entries, files=files, options=options, events={})
        after.rules.write_states(version)
        needed = after.rules.state_names() | {*map(rows_state, facts.tables), *map(moves_state, facts.tables)}
        states = {name: state for name, state in after.files.states.items() if name in needed}
        after = replace(after, files=StateFiles(after.files.spark, after.files.root, states))
        after = replace(after, counts=tuple(after.rules.counts()))
        retired = {e.id: e.rule for e in facts.entries if e.id not in {entry.id for entry in entries}}
        altered = {"columns": {}, "types": {}, "retired": retired, "rules": [entry.id for entry in added]}
        record = after.record(BatchInfo("", "holdfast"), version, {}, {}) | {"batch": None}
        self._publish(after, Step({}, record | {"altered": altered}), self._snapshot_if_due())
        return version

    def compact(self) -> int:
        """Merges the files of each state into one, in a version of its own; returns that version. O(rows)."""
        self._require_writable()
        version = self.version + 1
        after = replace(self._facts, files=self._facts.files.copy(), events={})
        compact(after.files, after.rules, version, after.rows, whole=True)
        record = after.record(BatchInfo("", "holdfast"), version, {}, {}) | {"batch": None}
        self._publish(after, Step({}, record), self._snapshot_if_due())
        return version

    def _snapshot_if_due(self) -> StateSnapshot | None:
        """The states as they are before a batch, if its version begins with new files."""
        due = self._store.due(GROWING)
        return None if due is None else self._state.snapshot(due, None, len(self._state.dictionary))

    @contextmanager
    def _or_stale(self) -> Iterator[None]:
        """If the work fails, everything is read again from the store, which decides what counts."""
        try:
            yield
        except BaseException:
            self._stale = True
            raise

    def _publish(self, facts: BookFacts, step: Step, snapshot: StateSnapshot | None, texts: int | None = None) -> None:
        """Makes a step durable. The samples have changed already. `texts`: the length of the dictionary before it."""
        dictionary = self._state.dictionary
        change = step.to_states(dictionary.to_arrays(len(dictionary) if texts is None else texts))
        states, due = (None, None) if snapshot is None else (snapshot.states, snapshot.due)
        with self._or_stale():
            self._store.publish(change, step.record, snapshot=states, due=due, meta=facts.to_meta())
        if snapshot is not None:
            self._state.filed = snapshot.filed
        self._state.merge(replace(step, rows={}))
        self._facts = facts
        self.forget()

    def forget(self) -> None:
        """Removes versions that need not be kept and are delivered to every sink, and the files that only they list."""
        self._store.acquire()
        if self.needed_from is None and self._facts.options.outbox:
            self.needed_from = Marks(self._store.directory).needed_from()
        self._store.collect(self._facts.options.keep, self.needed_from)
        kept = self._store.versions_with_change()
        for version in kept:
            if version not in self._folders:
                self._folders[version] = folders_in(self._store.manifest_of(version).meta)
        self._folders = {version: self._folders[version] for version in kept}
        remove_unlisted(self._facts.files.root, set().union(*self._folders.values()), self.version)

    # --- closing --------------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("the rulebook is closed")
        if self._stale:
            self._read_again()

    def _read_again(self) -> None:
        self._store.release()
        again = type(self).open(Store.open(self._store.directory))
        self._store, self._state, self._facts, self._stale = again._store, again._state, again._facts, False
        self._found_rules = again._found_rules

    def _require_writable(self) -> None:
        self._require_open()
        if self._read_only:
            raise StoreError(f"version {self.version} was opened to be looked at; open the rulebook without a version")
        self._store.acquire()

    def run_in(self, spark: SparkSession | None) -> None:
        """Uses this Spark session from now on."""
        self._facts = replace(self._facts, files=replace(self._facts.files, session=spark))

    def require_shared(self) -> None:
        """Raises an error unless Spark sees what this process writes, and a second put of a file fails."""
        apart = self._facts.files.root != root_of(self._store.directory, None)
        require_shared(self._store.directory, self._facts.files, apart=apart)

    def hold(self) -> None:
        """Takes the right to write at once, so that no other process writes meanwhile."""
        self._require_writable()

    def close(self) -> None:
        """Refuses further use, and lets others write. Everything is durable already; the Spark session stays."""
        self._closed = True
        self._store.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _found_rules(facts: BookFacts, state: BookState) -> FoundRules:
    return FoundRules(facts.options.search or SearchOptions(()), state, facts.crossed)
