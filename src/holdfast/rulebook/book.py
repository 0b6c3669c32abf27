"""The rulebook: tables, their rules, and the history of both, under a stream of changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, Unpack

from holdfast.discovery.search_options import SearchOptions
from holdfast.errors import StoreError, discreet
from holdfast.executors.executor import Executor
from holdfast.places import is_for_spark
from holdfast.rulebook.alter import Alteration, alter
from holdfast.rulebook.batch import BatchInfo, Effects, WiderTypes, caught_up, plan_or_widen, require_batch, work_out
from holdfast.rulebook.elsewhere import is_on_spark, on_spark, require_place
from holdfast.rulebook.engine import Engine
from holdfast.rulebook.follow import catch_up, changes_after
from holdfast.rulebook.lifecycle import Lifecycle
from holdfast.rulebook.making import loaded_engine, new_engine
from holdfast.rulebook.options import BookKeywords, Creation, OpenKeywords, Resources
from holdfast.rulebook.outcome import Outcome
from holdfast.rulebook.publish import (
    new_store,
    oldest_needed,
    put_version,
    snapshot_if_due,
)
from holdfast.rulebook.rule_reader import RuleReader
from holdfast.rulebook.state import StateSnapshot
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry
from holdfast.store.directory import directory_at
from holdfast.store.disk import Disk
from holdfast.store.interrupt import uninterrupted
from holdfast.store.step import Step
from holdfast.store.store import Store
from holdfast.table.change import Changes, by_table, happened_at
from holdfast.table.effect import Bad
from holdfast.table.options import Names
from holdfast.table.row_change import RowChange


class Rulebook(RuleReader):
    """Tables, their rules, and the history of both, under a stream of changes.

    >>> import pyarrow as pa
    >>> people = pa.table({"id": [1, 2], "zip": ["10115", "20095"]})
    >>> book = Rulebook.create(None, people, key="id")
    >>> from holdfast.table.change import Change
    >>> out = book.apply(Change(inserts=pa.table({"id": [3], "zip": ["80331"]}), deletes=pa.table({"id": [1]})))
    >>> out.rows, book.table().column("id").to_pylist()
    ({'data': {'inserted': 1, 'deleted': 1, 'updated': 0}}, [2, 3])
    """

    def __init__(self, engine: Engine, store: Store | None = None) -> None:
        """For `create` and `open`."""
        self._engine, self._store = engine, store
        self._lifecycle = Lifecycle.CURRENT
        self.needed_from: int | None = None  # the oldest version not yet delivered to every sink

    # --- making and opening ---------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: str | Path | None,
        tables: Any,
        *,
        key: Names | Mapping[str, Names] | None = None,
        rules: Iterable[Rule | str | RuleEntry] = (),
        rule_nulls: str = "sql",
        search: SearchOptions | None = None,
        on: str = "auto",
        state: str | None = None,
        **options: Unpack[BookKeywords],
    ) -> Any:
        """Makes a rulebook over these tables: durable in the directory `path`, or in memory if that is None.

        `key`: the columns that identify the rows of a table ({table: key} for several). `rules` are checked, under
        the null policy `rule_nulls` unless they name another. `search`: the rules that are found and kept true to the
        rows; its fields may be given one by one instead (`kinds=("key", "fd"), max_size=3`). A first search that
        `time_budget` seconds end is refused: a rulebook is never partial.

        `on`: where the rows are kept, `process` or `spark` (for Spark DataFrames); `auto` decides by their number. On
        Spark, `state` is where Spark writes rows and states, if not beside the manifests at `path`; answers are the
        same, but violations are DataFrames.

        Further options. `types` overrides column kinds ({column: type}, or {table: {column: type}}); `columns` and
        `exclude` choose columns. `reading`: how text files are read. `keep`: how many versions stay open to readers.
        `outbox`: each of them keeps its events for sinks. `mask`: columns (`ssn`, or `people.ssn`) whose values
        messages, reports, pages and alerts do not show. `progress`, `executor` and `memory_budget` are explained at
        `Resources`; `disk` is where files are written.
        """
        asked = Creation.of(key, search, options)
        if is_for_spark(tables, on):
            return on_spark().create(path, tables, asked, rules, rule_nulls, state)
        engine, record = new_engine(tables, asked, rules, rule_nulls)
        store = None if path is None else new_store(directory_at(path, asked.disk), engine, record)
        return cls(engine, store)

    @classmethod
    def open(
        cls,
        path: str | Path,
        disk: Disk | None = None,
        *,
        version: int | None = None,
        on: str = "auto",
        **resources: Unpack[OpenKeywords],
    ) -> Any:
        """Opens the rulebook in a directory at its newest version; or an older version, to be looked at only. `on`
        must be where its rows are; lists of a rulebook on Spark need a Spark session that runs. `progress`,
        `executor` and `memory_budget` are explained at `Resources`."""
        store = Store.open(directory_at(path, disk), version)
        require_place(store, on)
        if is_on_spark(store):
            return on_spark().open(store, read_only=version is not None)
        store, engine = loaded_engine(store, Resources(**resources))
        book = cls(engine, store)
        if version is not None:
            book._lifecycle = Lifecycle.READ_ONLY
        return book

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

        A batch that this `source` sent before is skipped; integer ids must grow. `offsets` says what the batch was
        made of: a known batch with other offsets is an error. A batch that contradicts the tables is refused whole;
        with `on_error="quarantine"` it is applied without its bad rows, which are quarantined together with `bad`,
        the rows that the caller could not read. A number that does not fit its integer or decimal column first widens
        the column, exactly, in a version of its own, unless the user declared the column's type.
        """
        require_batch(batch_id, source, on_error)
        self._require_writable()
        number = self.next_batch(source) if batch_id is None else batch_id
        batch = BatchInfo(number, source, on_error == "quarantine", offsets, bad, happened_at(change))
        if self.knows(source, batch.id, offsets):
            return Outcome(self.version, batch.id, skipped=True)
        texts = len(self._engine.state.dictionary)
        with self._all_or_nothing(texts):
            effects = self._plan(change, batch, texts)
            snapshot = snapshot_if_due(self._store, self._engine, texts)
            step, outcome = work_out(self._engine, effects, batch, self.version + 1)
        self._publish(step, snapshot, texts)
        self._collect()
        return outcome

    @contextmanager
    def _all_or_nothing(self, texts: int) -> Iterator[None]:
        """If the work fails, takes the texts that it added out of the dictionary again. Changes that wait for late
        rules are read again from the store."""
        late = self.late()
        try:
            yield
        except BaseException:
            self._engine.state.dictionary.truncate(texts)
            if late:
                self._mark_stale()
            raise

    def _plan(self, change: Changes, batch: BatchInfo, texts: int) -> Effects:
        with discreet(bool(self.masked)):
            parts = by_table(change, self._engine.state.tables)
            return plan_or_widen(self._engine, parts, self._widen, texts, quarantine=batch.quarantine)

    def _widen(self, types: WiderTypes) -> Engine:
        self.alter(widen=types)
        return self._engine

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
        """Alters the rulebook in a version of its own, and returns that version.

        `columns` adds columns ({table: {column: type}}), null in the current rows; `declared`: a user said their
        types, which then never widen. `rules` adds rules; one with the id of a checked rule replaces it. `retire`:
        ids of rules that are no longer checked. `widen`: columns whose type becomes a wider decimal. `mask`: the
        columns that are masked from now on. `outbox`: whether versions keep their events for sinks.
        """
        self._require_writable()
        if (columns or widen) and self.late():
            self.catch_up()
        added, wider = ({self._table_name(n): types for n, types in (some or {}).items()} for some in (columns, widen))
        asked = Alteration(added, wider, declared, tuple(rules), tuple(retire), mask, outbox)
        before, texts = self._engine, len(self._engine.state.dictionary)
        with self._all_or_nothing(texts):
            after, step, states = alter(before, asked, self.version + 1)
            snapshot = snapshot_if_due(self._store, after, texts, states)
        self._engine = after
        try:
            self._publish(step, snapshot, texts)
        except BaseException:
            self._engine = before
            raise
        return self.version

    def catch_up(self) -> int:
        """Updates found rules that are late to the current rows, in a version of its own; returns that version, or the
        current one if no rule is late. `rule_budget` does not count."""
        self._require_writable()
        if not self.late():
            return self.version
        texts = len(self._engine.state.dictionary)
        with self._all_or_nothing(texts):
            snapshot = snapshot_if_due(self._store, self._engine, texts)
            step = caught_up(self._engine, self.version + 1)
        self._publish(step, snapshot, texts)
        self._collect()
        return self.version

    def run_on(self, executor: Executor | None) -> None:
        """Lets violations and rules be searched on an executor, or in this process again."""
        self._engine.run_on(executor)

    # --- publishing -----------------------------------------------------------------------------------------

    def _publish(self, step: Step, snapshot: StateSnapshot | None, texts: int) -> None:
        """Makes a step durable, then part of the states. If anything stops it, the store decides what counts."""
        try:
            if self._store is not None:
                put_version(self._store, self._engine, step, snapshot, texts)
            with uninterrupted():
                self._engine.state.merge(step)
        except BaseException:
            self._mark_stale()
            self._engine.forget()
            raise

    def forget(self) -> None:
        """Removes versions that need not be kept and are delivered to every sink."""
        if self._store is not None:
            self._store.acquire()
            self._collect()

    def _collect(self) -> None:
        if self._store is not None:
            self.needed_from = oldest_needed(self._store, self._engine, self.needed_from)
            self._store.collect(self._engine.options.keep, self.needed_from)

    # --- following, holding, closing ------------------------------------------------------------------------

    def refresh(self) -> list[dict[str, RowChange]] | None:
        """Brings a rulebook that is only read to the newest version. Returns what each version since then did to the
        rows; None if everything was read again, because rules or columns changed, or a version in between is not kept
        any more. O(size of the changes) otherwise."""
        self._ready()
        assert self._store is not None
        newest = Store.open(self._store.directory)
        changes = changes_after(self.version, self._store, newest)
        self._store.release()
        if changes is None:
            self._store, self._engine = loaded_engine(newest, self._engine.resources)
            return None
        merged = [catch_up(self._engine, change) for change in changes]
        self._store = newest
        if merged and self._lifecycle is Lifecycle.CURRENT:
            self._lifecycle = Lifecycle.FOLLOWING
        return merged

    def hold(self) -> None:
        """Takes the right to write at once, so that no other process writes meanwhile."""
        self._require_writable()
        if self._store is not None:
            self._store.acquire()

    def _ready(self) -> Engine:
        if self._lifecycle is Lifecycle.CLOSED:
            raise StoreError("the rulebook is closed")
        if self._lifecycle is Lifecycle.STALE:
            self._read_again()
        return self._engine

    def _read_again(self) -> None:
        assert self._store is not None
        self._store.release()
        self._store, self._engine = loaded_engine(Store.open(self._store.directory), self._engine.resources)
        self._lifecycle = Lifecycle.CURRENT

    def _mark_stale(self) -> None:
        if self._store is not None:
            self._lifecycle = Lifecycle.STALE

    def _require_writable(self) -> None:
        self._ready()
        if self._lifecycle is Lifecycle.READ_ONLY:
            raise StoreError(f"version {self.version} was opened to be looked at; open the rulebook without a version")
        if self._lifecycle is Lifecycle.FOLLOWING:  # which part of the states is in which files is not known
            self._read_again()

    def close(self) -> None:
        """Refuses further use, and lets others write. Everything is durable already."""
        self._lifecycle = Lifecycle.CLOSED
        if self._store is not None:
            self._store.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
