"""What the driver knows of one version of a rulebook on Spark: its rules, its numbers, and where its states are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.errors import StoreError
from holdfast.rulebook.batch import NO_ROWS, BatchInfo, now
from holdfast.rulebook.elsewhere import SPARK
from holdfast.rulebook.options import BookOptions
from holdfast.rules.rulefile import RuleEntry
from holdfast.spark.found_inclusions import FoundInclusions
from holdfast.spark.kept_rules import KeptRules
from holdfast.spark.state_files import FiledState, StateFiles
from holdfast.spark.table_search import Crossed
from holdfast.store.log import Record
from holdfast.table.options import TableOptions
from holdfast.violations.detect import CheckedRule
from holdfast.violations.listing import RuleNames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class BookFacts:
    """One version: megabytes at most. `events`: the violations that it added and removed, for sinks. `found`: its
    inclusions; `crossed`: the pairs of different columns that other found rules compare."""

    options: BookOptions
    tables: dict[str, TableOptions]
    entries: tuple[RuleEntry, ...]
    files: StateFiles
    rows: dict[str, int]
    next_ids: dict[str, int] = field(default_factory=dict)
    counts: tuple[int, ...] = ()
    events: Mapping[str, FiledState] = field(default_factory=dict)
    found: FoundInclusions | None = None
    crossed: Mapping[str, Crossed] = field(default_factory=dict)

    @property
    def checked(self) -> list[CheckedRule]:
        return [CheckedRule(entry.value, entry.nulls, entry.predicates) for entry in self.entries]

    @property
    def names(self) -> RuleNames:
        return RuleNames(self.checked, [entry.id for entry in self.entries], self.tables)

    @property
    def rules(self) -> KeptRules:
        return KeptRules(self.checked, self.tables, self.files, self.found)

    def to_meta(self) -> Record:
        """For the manifest."""
        numbers = {"rows": self.rows, "next_ids": self.next_ids, "counts": list(self.counts)}
        events = {name: state.to_json() for name, state in self.events.items()}
        found = None if self.found is None else self.found.to_json()
        return {
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "options": self.options.to_json(),
            "rules": [entry.model_dump() for entry in self.entries],
            SPARK: {
                "root": self.files.root,
                "states": self.files.to_json(),
                "events": events,
                "found": found,
                "crossed": {name: [list(pair) for pair in pairs] for name, pairs in self.crossed.items()},
                **numbers,
            },
        }

    @classmethod
    def from_meta(cls, meta: Record, spark: SparkSession | None) -> BookFacts:
        here, options = meta[SPARK], BookOptions.from_json(meta["options"])
        tables = {name: TableOptions.from_json(meta["tables"][name]) for name in options.ordered(meta["tables"])}
        found = None
        if here["found"] is not None and options.search is not None:
            if not options.has_readable_values:
                raise StoreError(
                    "the inclusions of this rulebook were filed by an earlier release that did not keep the order of "
                    "its tables, and cannot be read; make it anew"
                )
            schemas = {name: table.schema for name, table in tables.items()}
            found = FoundInclusions.from_json(here["found"], options.search, schemas)
        return cls(
            options,
            tables,
            tuple(RuleEntry.model_validate(record) for record in meta["rules"]),
            StateFiles.from_json(spark, here["root"], here["states"]),
            here["rows"],
            here["next_ids"],
            tuple(here["counts"]),
            {name: FiledState.from_json(state) for name, state in here["events"].items()},
            found,
            {name: [(a, b) for a, b in pairs] for name, pairs in here.get("crossed", {}).items()},
        )

    def record(
        self, batch: BatchInfo, version: int, rows: Mapping[str, dict[str, int]], counted: Mapping[int, tuple[int, int]]
    ) -> Record:
        """What the log says of a version."""
        violations = {e.id: [*counted.get(i, (0, 0)), self.counts[i]] for i, e in enumerate(self.entries)}
        record: Record = {
            "version": version,
            "batch": batch.id,
            "source": batch.source,
            "time": now(),
            "tables": dict(rows) or {next(iter(self.tables)): NO_ROWS},
            "quarantined": 0,
            "drift": 0,
            "violations": violations,
            "rules": {},
        }
        return record if batch.offsets is None else record | {"offsets": batch.offsets}


def folders_in(meta: Record) -> set[str]:
    """The folders that the manifest of a version lists."""
    here = meta[SPARK]
    states = [*here["states"].values(), *here["events"].values()]
    return {piece["folder"] for state in states for piece in state["pieces"]}
