"""Questions about a rulebook on Spark. Numbers, rules and history come from the manifest; lists are DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.errors import HoldfastError, NotAvailable
from holdfast.rulebook import Rulebook
from holdfast.rulebook.outbox import VIOLATIONS
from holdfast.rulebook.publish import VersionEvents, events_of
from holdfast.rulebook.rule_reader import holding_rules
from holdfast.rulebook.state import BookState
from holdfast.rules.bind import table_of
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.ruleset import RuleSet
from holdfast.spark.explain import explained
from holdfast.spark.facts import BookFacts
from holdfast.spark.found_rules import FoundRules
from holdfast.spark.frames import named
from holdfast.spark.outbox import GROUPS, Hides, group_events, kept_events
from holdfast.spark.outbox import VIOLATIONS as LISTED
from holdfast.spark.state_files import StateFiles
from holdfast.store.directory import LocalDirectory
from holdfast.store.log import Record
from holdfast.store.store import Store
from holdfast.table.options import TableOptions
from holdfast.table.schema import Schema, unknown_name
from holdfast.violations.explain import Explanation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_IN_MESSAGES = 1000


class SparkReader:
    """What a rulebook on Spark tells: the facts of its version."""

    _facts: BookFacts
    _state: BookState
    _store: Store
    _found_rules: FoundRules

    def __repr__(self) -> str:
        tables = ", ".join(f"{name} ({count:,} rows)" for name, count in self._facts.rows.items())
        rules = len(self._facts.entries)
        return (
            f"<Rulebook on Spark: {self._store.directory}, version {self.version}; {tables}; {rules:,} checked rules>"
        )

    @property
    def files(self) -> StateFiles:
        """Where Spark keeps rows and states, and in which session."""
        return self._facts.files

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

    @property
    def masked(self) -> frozenset[str]:
        """Columns whose values are not shown: `ssn`, or `people.ssn` for one table."""
        return frozenset(self._facts.options.mask)

    @property
    def rule_nulls(self) -> str:
        """The null policy of given rules that name none."""
        return self._facts.options.rule_nulls

    @property
    def discovery_nulls(self) -> str:
        """How nulls compare in rules that discovery finds."""
        return self._facts.options.nulls

    @property
    def has_outbox(self) -> bool:
        """Whether versions keep the events for sinks."""
        return self._facts.options.outbox

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
        return self._facts.rules.state(name)

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
        """The rules that hold now, all or of one kind: found rules, and given rules without violations."""
        return holding_rules(self, kind)

    def given(self, kind: str | None = None) -> RuleSet:
        """The checked rules, all or of one kind, whether they hold or not."""
        rules = RuleSet.from_rules([entry.value for entry in self.entries])
        return rules if kind is None else rules.of(kind)

    def history(self) -> pa.Table:
        """What each batch did to each table, oldest first."""
        return self._state.chronicle.history()

    def rule_history(self) -> pa.Table:
        """The found rules that batches added and removed, with the rows or the value that decided."""
        return self._state.chronicle.rule_history()

    def best(self, most: int = 0) -> list[Any]:
        """The best rules that discovery found: none on Spark."""
        return []

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

    def last_offsets(self, source: str) -> str | None:
        """What the last batch of a source was made of."""
        return self._state.chronicle.last_offsets(source)

    def found(self, kind: str | None = None) -> RuleSet:
        """The rules that were found and hold, all or of one kind."""
        self._require_open()
        inclusions = self._facts.found.rules() if self._facts.found is not None else RuleSet()
        found = RuleSet.joined([inclusions, self._found_rules.rules()])
        found = found if kind is None else found.of(kind)
        return found if self._facts.options.named else found.of_lone_table()

    def explain(self, rule: str | Rule, limit: int = 10) -> Explanation:
        """Which rows are worst, what they clash about, and which rows to remove, from the first violations."""
        asked = self._facts.names.find(rule)
        tables, options = self._facts.rules.tables(), dict(self._facts.tables)
        entry, count = self.entries[asked.number], self.count_violations(rule)
        return explained(entry, count, self.violations(rule), tables, options, limit)

    @property
    def oldest_with_events(self) -> int:
        """The oldest version, after that of the first rows, whose events are still kept."""
        return max(1, self._store.versions_with_change()[0])

    def events_of(self, version: int) -> VersionEvents:
        """The events of a kept version for messages: at most a thousand violations. `table_events` has all."""
        events = events_of(self._store, version, has_outbox=self.has_outbox)
        frame = self.table_events(version).get(LISTED)
        if frame is None:
            return events
        listed = frame.orderBy("sequence").limit(_MOST_IN_MESSAGES).toArrow()
        return events._replace(violations=listed.select(VIOLATIONS.names).cast(VIOLATIONS))

    def table_events(self, version: int, hides: Hides = lambda *_: False) -> dict[str, DataFrame]:
        """What sinks get of a kept version: the violations that it added and removed, and the groups that they are in.
        `hides` says which columns are masked: groups by these are left out."""
        facts = BookFacts.from_meta(self._store.manifest_of(version).meta, self._facts.files.session)
        made = {name: kept_events(facts.files, facts.events, name) for name in (LISTED, GROUPS)}
        if made[GROUPS] is not None:
            made[GROUPS] = group_events(made[GROUPS], facts.rules, facts.entries, hides)
        return {name: frame for name, frame in made.items() if frame is not None}

    def versions(self) -> list[int]:
        """The versions that can be opened."""
        return self._store.versions()

    def _require_open(self) -> None:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        """What only a rulebook in the process can do is an error that says so."""
        if not name.startswith("_") and hasattr(Rulebook, name):
            raise NotAvailable(f"this rulebook is on Spark, where `{name}` is not available yet")
        raise AttributeError(name)
