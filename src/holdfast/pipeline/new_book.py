"""Creates the rulebook of a pipeline from its tables and rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.pipeline.config import DeltaSource, JdbcSource, Pipeline
from holdfast.pipeline.sources import jdbc_table
from holdfast.rulebook import Rulebook
from holdfast.rules.rulefile import RuleEntry, RuleFile
from holdfast.store.directory import directory_at
from holdfast.workflow.decisions import ACCEPTED, FILE, file_of, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_book(pipeline: Pipeline, spark: SparkSession | None) -> bool:
    """Creates the rulebook from the tables, unless it exists. Returns whether it did."""
    if directory_at(pipeline.book).names("manifests"):
        _update_existing(pipeline)
        return False
    decisions = _first_decisions(pipeline)
    book = Rulebook.create(
        pipeline.book,
        {name: _base_rows(pipeline, name, spark) for name in pipeline.tables},
        search=pipeline.search,
        rules=[entry for entry in decisions if entry.status == ACCEPTED],
        key={name: table.key for name, table in pipeline.tables.items() if table.key is not None},
        types={name: table.types for name, table in pipeline.tables.items() if table.types},
        exclude={name: table.exclude for name, table in pipeline.tables.items() if table.exclude} or None,
        rule_nulls=pipeline.rule_nulls,
        keep=pipeline.keep,
        mask=_masked(pipeline, decisions),
        outbox=True,
    )
    with book:
        if book.path is not None:
            write(book.path, decisions)
    return True


def _first_decisions(pipeline: Pipeline) -> RuleFile:
    """The decisions that a new rulebook begins with."""
    if isinstance(pipeline.rules, str):
        decisions = file_of([], Path(pipeline.rules))
    else:
        decisions = file_of([_rule(rule) for rule in pipeline.rules])
    if pipeline.mask:
        decisions.set_mask(_masked(pipeline, decisions))
    return decisions


def _masked(pipeline: Pipeline, decisions: RuleFile) -> list[str]:
    return sorted({*pipeline.mask, *decisions.mask})


def _update_existing(pipeline: Pipeline) -> None:
    """Adds the pipeline's masks to an existing rulebook, and completes an interrupted `make_book`.

    A process that was killed before it wrote the decisions leaves a rulebook without them that checks exactly the
    accepted rules.
    """
    with Rulebook.open(pipeline.book) as book:
        if not book.masked.issuperset(pipeline.mask):
            book.alter(mask=book.masked.union(pipeline.mask))
        if book.path is None or (book.path / FILE).exists():
            return
        decisions = _first_decisions(pipeline)
        if {e.id for e in decisions if e.status == ACCEPTED} == {entry.id for entry in book.entries}:
            write(book.path, decisions)


def _rule(rule: str | dict[str, Any]) -> str | RuleEntry:
    return rule if isinstance(rule, str) else RuleEntry.model_validate(rule)


def _base_rows(pipeline: Pipeline, name: str, spark: SparkSession | None) -> Any:
    """The rows that a table begins with: its base, or the source itself (Delta and JDBC)."""
    base, source = pipeline.tables[name].base, pipeline.source
    if base is not None:
        return base
    assert spark is not None
    if isinstance(source, DeltaSource):
        reader = spark.read.format("delta").option("versionAsOf", source.starting_version - 1)
        return reader.load(source.path) if "/" in source.path else reader.table(source.path)
    assert isinstance(source, JdbcSource)
    return jdbc_table(source, name, spark)
