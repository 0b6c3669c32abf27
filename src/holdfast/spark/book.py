"""The rulebook on Spark: rows and states are tables of Spark; the driver keeps rules, numbers and history."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa
from pyspark.errors import PySparkException

from holdfast.errors import HoldfastError, NotAvailable, StoreError
from holdfast.rulebook.batch import NO_ROWS, BatchInfo, now, require_batch
from holdfast.rulebook.elsewhere import SPARK
from holdfast.rulebook.options import BookOptions, Creation, require_entries, require_mask
from holdfast.rulebook.outcome import Outcome
from holdfast.rulebook.state import BookState
from holdfast.rules.bind import table_of
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry, as_entry
from holdfast.rules.ruleset import RuleSet
from holdfast.spark.batch import compact, net_effect, write_changes
from holdfast.spark.batch_listing import SparkBatchViolations
from holdfast.spark.first_rows import write_first_rows
from holdfast.spark.frames import frames_of, named, settled
from holdfast.spark.kept_rules import KeptRules
from holdfast.spark.rows import rows_state
from holdfast.spark.session import current_session
from holdfast.spark.state_files import StateFiles
from holdfast.store.directory import Directory, LocalDirectory, directory_at
from holdfast.store.kept_versions import FILES, MANIFESTS
from holdfast.store.log import Log, Record
from holdfast.store.step import GROWING, Step
from holdfast.store.store import Store
from holdfast.table.change import Changes
from holdfast.table.effect import Bad
from holdfast.table.options import TableOptions
from holdfast.table.schema import Schema, unknown_name
from holdfast.violations.detect import CheckedRule
from holdfast.violations.listing import RuleNames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DATA, _PROBES = "data", "probes"  # folders of Spark, and of the attempts to see it


@dataclass(frozen=True)
class _Facts:
    """What the driver knows of one version: its rules, its numbers, and where its states are."""

    options: BookOptions
    tables: dict[str, TableOptions]
    entries: tuple[RuleEntry, ...]
    files: StateFiles
    rows: dict[str, int]
    next_ids: dict[str, int] = field(default_factory=dict)
    counts: tuple[int, ...] = ()

    @property
    def checked(self) -> list[CheckedRule]:
        return [CheckedRule(entry.value, entry.nulls, entry.predicates) for entry in self.entries]

    @property
    def names(self) -> RuleNames:
        return RuleNames(self.checked, [entry.id for entry in self.entries], self.tables)

    @property
    def rules(self) -> KeptRules:
        return KeptRules(self.checked, self.tables, self.files)

    def to_meta(self) -> Record:
        """For the manifest."""
        numbers = {"rows": self.rows, "next_ids": self.next_ids, "counts": list(self.counts)}
        return {
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "options": self.options.to_json(),
            "rules": [entry.model_dump() for entry in self.entries],
            SPARK: {"root": self.files.root, "states": self.files.to_json(), **numbers},
        }

    @classmethod
    def from_meta(cls, meta: Record, spark: SparkSession) -> _Facts:
        here = meta[SPARK]
        return cls(
            BookOptions.from_json(meta["options"]),
            {name: TableOptions.from_json(record) for name, record in meta["tables"].items()},
            tuple(RuleEntry.model_validate(record) for record in meta["rules"]),
            StateFiles.from_json(spark, here["root"], here["states"]),
            here["rows"],
            here["next_ids"],
            tuple(here["counts"]),
        )


class SparkRulebook:
    """Tables of any size, their rules, and the history of both. Made by `Rulebook.create(..., on="spark")`."""

    def __init__(self, facts: _Facts, state: BookState, store: Store) -> None:
        """For `create` and `open`."""
        self._facts, self._state, self._store = facts, state, store
        self._closed = self._read_only = False

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
        if state is not None and "://" not in state:
            state = Path(state).absolute().as_uri()
        if asked.search.kinds:
            raise NotAvailable(
                f"on Spark, this version checks given rules; it does not find rules yet (kinds={asked.search.kinds})"
            )
        frames = frames_of(data)
        spark = next(iter(frames.values())).sparkSession
        made = settled(frames, asked.choices)
        tables = {name: options for name, (_, options) in made.items()}
        entries = require_entries([as_entry(rule, rule_nulls) for rule in rules], tables)
        mask = require_mask(asked.stored.get("mask", ()), tables)
        options = BookOptions(rule_nulls=rule_nulls, named=isinstance(data, dict), **asked.stored | {"mask": mask})
        directory = directory_at(path, asked.disk)
        files = StateFiles(spark, state.rstrip("/") if state else _root(directory))
        _require_new(directory)
        _require_shared(directory, files, apart=state is not None)
        rows, next_ids = write_first_rows(files, {name: (frame, tables[name]) for name, (frame, _) in made.items()})
        facts = _Facts(options, tables, entries, files, rows, next_ids)
        facts.rules.write_states(0)
        facts = replace(facts, counts=tuple(facts.rules.counts()))
        book = BookState(tables)
        record = _record(facts, BatchInfo("base"), 0, {n: NO_ROWS | {"inserted": c} for n, c in rows.items()}, {})
        book.merge(Step({}, record))
        snapshot = book.snapshot(None, None, 0)
        store = Store.create(directory, snapshot.states, facts.to_meta(), record, (_DATA, _PROBES))
        book.filed = snapshot.filed
        return cls(facts, book, store)

    @classmethod
    def open(cls, store: Store, *, read_only: bool = False) -> Self:
        """Opens the version of a store, in the Spark session of this process."""
        spark = current_session()
        if spark is None:
            raise NotAvailable(f"the rows of {store.directory} are on Spark: start a Spark session first")
        facts = _Facts.from_meta(store.manifest.meta, spark)
        state, _ = BookState.load(facts.tables, store.load(), has_facts=False, uses_values=False)
        book = cls(facts, state, store)
        book._read_only = read_only
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
        """Applies one atomic batch, as `Rulebook.apply` does. Rows may be DataFrames of Spark."""
        require_batch(batch_id, source, on_error)
        self._require_writable()
        chronicle = self._state.chronicle
        number = chronicle.next_batch(source) if batch_id is None else batch_id
        batch = BatchInfo(number, source, on_error == "quarantine", offsets, bad)
        if chronicle.knows(source, number, offsets):
            return Outcome(self.version, number, skipped=True)
        before, version = self._facts, self.version + 1
        effect = net_effect(change, before.rules, before.next_ids, version, quarantine=batch.quarantine)
        files = before.files.copy()
        counted = write_changes(files, before.rules, effect, version)
        after = replace(before, files=files, next_ids=before.next_ids | effect.next_ids)
        rows = {n: before.rows[n] + c["inserted"] - c["deleted"] for n, c in effect.rows.items()}
        counts = [n + counted.get(i, (0, 0))[0] - counted.get(i, (0, 0))[1] for i, n in enumerate(before.counts)]
        after = replace(after, rows=before.rows | rows, counts=tuple(counts))
        compact(files, after.rules, version)
        quarantined = [*batch.bad, *effect.bad]
        record = _record(after, batch, version, effect.rows, counted)
        record |= {"quarantined": len(quarantined), "drift": len(effect.drift)}
        logged = [{"version": version, "batch": number} | vars(row) for row in quarantined]
        self._publish(after, Step({}, record, Log.delta(logged) if logged else None))
        moves = effect.moves
        told = SparkBatchViolations(before.names, counted, lambda rule, what: before.rules.changed(rule, what, moves))
        return Outcome(
            version,
            number,
            rows=effect.rows,
            drift=effect.drift,
            quarantined=quarantined,
            violations=cast(Any, told),
        )

    def alter(self, *, rules: Iterable[Rule | str | RuleEntry] = (), retire: Iterable[str] = (), **others: Any) -> int:
        """Adds rules, or retires rules by id, in a version of its own; returns that version. A rule with the id of a
        checked rule replaces it."""
        if others:
            raise NotAvailable(f"on Spark, rules can be altered, not {', '.join(sorted(others))}")
        self._require_writable()
        facts, version = self._facts, self.version + 1
        added = [as_entry(rule, facts.options.rule_nulls) for rule in rules]
        gone = {*retire, *(entry.id for entry in added)}
        entries = require_entries([*(e for e in facts.entries if e.id not in gone), *added], facts.tables)
        after = replace(facts, entries=entries, files=facts.files.copy())
        after.rules.write_states(version)
        needed = after.rules.state_names() | {*map(rows_state, facts.tables)}
        states = {name: state for name, state in after.files.states.items() if name in needed}
        after = replace(after, files=StateFiles(after.files.spark, after.files.root, states))
        after = replace(after, counts=tuple(after.rules.counts()))
        record = _record(after, BatchInfo("alter", "alter"), version, {next(iter(facts.tables)): NO_ROWS}, {})
        self._publish(after, Step({}, record | {"altered": True, "batch": None}))
        return version

    def compact(self) -> int:
        """Merges the files of each state into one, in a version of its own; returns that version. O(rows)."""
        self._require_writable()
        version = self.version + 1
        after = replace(self._facts, files=self._facts.files.copy())
        compact(after.files, after.rules, version, whole=True)
        record = _record(after, BatchInfo("compact", "compact"), version, {next(iter(after.tables)): NO_ROWS}, {})
        self._publish(after, Step({}, record | {"batch": None}))
        return version

    def _publish(self, facts: _Facts, step: Step) -> None:
        due = self._store.due(GROWING)
        snapshot = self._state.snapshot(due, None, 0) if due is not None else None
        states = snapshot.states if snapshot is not None else None
        change = step.to_states(self._state.dictionary.to_arrays(0))
        self._store.publish(change, step.record, snapshot=states, due=due, meta=facts.to_meta())
        if snapshot is not None:
            self._state.filed = snapshot.filed
        self._state.merge(step)
        self._facts = facts
        self._store.collect(facts.options.keep)

    # --- questions ------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        tables = ", ".join(f"{name} ({count:,} rows)" for name, count in self._facts.rows.items())
        rules = len(self._facts.entries)
        return (
            f"<Rulebook on Spark: {self._store.directory}, version {self.version}; {tables}; {rules:,} checked rules>"
        )

    @property
    def version(self) -> int:
        return self._state.chronicle.version

    @property
    def path(self) -> Path | None:
        """Its directory, if that is on a local disk."""
        directory = self._store.directory
        return directory.path if isinstance(directory, LocalDirectory) else None

    @property
    def tables(self) -> dict[str, TableOptions]:
        """The tables, with their columns and keys."""
        return dict(self._facts.tables)

    @property
    def schemas(self) -> dict[str, Schema]:
        return {name: table.schema for name, table in self._facts.tables.items()}

    @property
    def entries(self) -> tuple[RuleEntry, ...]:
        """The checked rules with id, severity, null policy and filter."""
        return self._facts.entries

    def entry(self, rule: str | Rule) -> RuleEntry:
        """A checked rule by its id, text or value."""
        return self.entries[self._facts.names.find(rule).number]

    def _table_name(self, name: str | None) -> str:
        if name is None and len(self._facts.tables) == 1:
            return next(iter(self._facts.tables))
        if name not in self._facts.tables:
            raise HoldfastError(unknown_name("table", str(name), list(self._facts.tables)))
        return name

    def table(self, name: str | None = None) -> DataFrame:
        """The current rows of a table."""
        name = self._table_name(name)
        return named(self._facts.rules.rows(name).current(), self.schemas[name])

    def count(self, name: str | None = None) -> int:
        """The number of rows."""
        return self._facts.rows[self._table_name(name)]

    def state(self, name: str | None = None) -> DataFrame | list[str]:
        """A state as a DataFrame; without a name, the names of all."""
        if name is None:
            return sorted(self._facts.files.states)
        if name not in self._facts.files.states:
            raise HoldfastError(unknown_name("state", name, sorted(self._facts.files.states)))
        return self._facts.files.read(name)

    def count_violations(self, rule: str | Rule) -> int:
        """The exact number of violating ordered pairs; of rows, for rules about single rows."""
        return self._facts.counts[self._facts.names.find(rule).number]

    def error(self, rule: str | Rule) -> float:
        """g1: violating pairs / n(n-1), 0 for fewer than two rows; or rows / n for rules about single rows."""
        checked = self._facts.checked[self._facts.names.find(rule).number]
        return checked.error(self.count_violations(rule), self._facts.rows[table_of(checked.rule, self.schemas)])

    def violations(self, rule: str | Rule, limit: int | None = None) -> DataFrame:
        """The violating pairs (t, s) of a rule as it is written; rows (t) for rules about single rows."""
        self._require_open()
        asked = self._facts.names.find(rule)
        found = self._facts.rules.violations(asked.number)
        if asked.mirrored:
            found = found.selectExpr("s as t", "t as s")
        return found if limit is None else found.limit(limit)

    def rules(self, kind: str | None = None) -> RuleSet:
        """The checked rules that hold now, all or of one kind."""
        holding = [e.value for e, n in zip(self.entries, self._facts.counts, strict=True) if not n]
        rules = RuleSet.from_rules(holding)
        return rules if kind is None else rules.of(kind)

    def given(self, kind: str | None = None) -> RuleSet:
        """The checked rules, all or of one kind, whether they hold or not."""
        rules = RuleSet.from_rules([entry.value for entry in self.entries])
        return rules if kind is None else rules.of(kind)

    def history(self) -> pa.Table:
        """What each batch did to each table, oldest first."""
        return self._state.chronicle.history()

    def records(self) -> list[Record]:
        """The log record of each version, oldest first."""
        return list(self._state.chronicle.log.records)

    def quarantined(self) -> pa.Table:
        """The quarantined rows with the reason; their values as JSON. Nothing is masked."""
        return self._state.chronicle.quarantined()

    def knows(self, source: str, batch: str | int, offsets: str | None = None) -> bool:
        """Whether this batch was applied already; an error if it was made of something else then."""
        return self._state.chronicle.knows(source, batch, offsets)

    def next_batch(self, source: str) -> int:
        """The number that follows the last batch of a source."""
        return self._state.chronicle.next_batch(source)

    def versions(self) -> list[int]:
        """The versions that can be opened."""
        return self._store.versions()

    # --- closing --------------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("the rulebook is closed")

    def _require_writable(self) -> None:
        self._require_open()
        if self._read_only:
            raise StoreError(f"version {self.version} was opened to be looked at; open the rulebook without a version")
        self._store.acquire()

    def close(self) -> None:
        """Refuses further use, and lets others write. Everything is durable already; the Spark session stays."""
        self._closed = True
        self._store.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _record(
    facts: _Facts, batch: BatchInfo, version: int, rows: dict[str, dict[str, int]], counted: dict[int, tuple[int, int]]
) -> Record:
    """What the log says of a version."""
    violations = {e.id: [*counted.get(i, (0, 0)), facts.counts[i]] for i, e in enumerate(facts.entries)}
    record: Record = {
        "version": version,
        "batch": batch.id,
        "source": batch.source,
        "time": now(),
        "tables": rows or {next(iter(facts.tables)): NO_ROWS},
        "quarantined": 0,
        "drift": 0,
        "violations": violations,
        "rules": {},
    }
    return record if batch.offsets is None else record | {"offsets": batch.offsets}


def _root(directory: Directory) -> str:
    """Where Spark writes, beside the manifests."""
    if isinstance(directory, LocalDirectory):
        return f"{directory.path.absolute().as_uri()}/{_DATA}"
    url = str(directory)
    return f"{url.replace('s3://', 's3a://', 1)}/{_DATA}"


def _require_new(directory: Directory) -> None:
    try:
        taken = bool(directory.names(MANIFESTS))
        directory.make(MANIFESTS, FILES, _DATA, _PROBES)
    except FileExistsError:
        taken = True
    if taken:
        raise StoreError(f"{directory} exists already; give a new directory, or open it")


def _require_shared(directory: Directory, files: StateFiles, *, apart: bool) -> None:
    """Tries that manifests are put only once, and that Spark sees what this process writes there."""
    name, text = f"probe-{secrets.token_hex(6)}", b"holdfast"
    directory.make_folder(_PROBES)
    try:
        directory.put(_PROBES, name, text)
        try:
            directory.put(_PROBES, name, text)
        except FileExistsError:
            pass
        else:
            raise StoreError(
                f"{directory}: a file can be written twice there, so two writers could overwrite each other"
            )
        if not apart:
            place = f"{files.root.removesuffix(_DATA)}probes/{name}"
            try:
                seen = [row[0] for row in files.spark.read.text(place).collect()]
            except PySparkException:
                seen = []
            if seen != [text.decode()]:
                raise StoreError(
                    f"{directory}: Spark does not see what this process writes there; give a place for the rows that "
                    f"Spark can write to (state=)"
                )
    finally:
        directory.remove(_PROBES, name)
