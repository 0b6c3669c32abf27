"""Creates the rulebook of a pipeline from its tables and rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from holdfast.discovery.budget import Progress as SearchProgress
from holdfast.pipeline.config import DeltaSource, JdbcSource, Pipeline
from holdfast.pipeline.sources import jdbc_table
from holdfast.places import FILES_GO_ABOVE, parquet_rows
from holdfast.rulebook import Rulebook
from holdfast.rulebook.elsewhere import is_on_spark
from holdfast.rulebook.glance import Glance
from holdfast.rules.rulefile import RuleEntry, RuleFile
from holdfast.store.directory import LocalDirectory, directory_at
from holdfast.store.store import Store
from holdfast.table.schema import column_of_type_text
from holdfast.workflow.decisions import ACCEPTED, FILE, file_of, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_book(pipeline: Pipeline, spark: SparkSession | None, progress: SearchProgress | None = None) -> bool:
    """Creates the rulebook from the tables, unless it exists. Returns whether it did."""
    if directory_at(pipeline.book).names("manifests"):
        _update_existing(pipeline)
        return False
    decisions, place = _first_decisions(pipeline), place_of(pipeline).place
    bases = {name: _base_rows(pipeline, name, spark, place) for name in pipeline.tables}
    book = Rulebook.create(
        pipeline.book,
        bases,
        on=place,
        state=pipeline.state if place == "spark" else None,
        search=pipeline.search,
        rules=[entry for entry in decisions if entry.status == ACCEPTED],
        key={name: table.key for name, table in pipeline.tables.items() if table.key is not None},
        types={name: table.types for name, table in pipeline.tables.items() if table.types and place == "process"},
        exclude={name: table.exclude for name, table in pipeline.tables.items() if table.exclude} or None,
        rule_nulls=pipeline.rule_nulls,
        keep=pipeline.keep,
        mask=_masked(pipeline, decisions),
        outbox=True,
        search_progress=progress,
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
    known = Glance.at(pipeline.book)
    if not known.masked.issuperset(pipeline.mask):
        with Rulebook.open(pipeline.book) as book:
            book.alter(mask=book.masked.union(pipeline.mask))
    directory = directory_at(pipeline.book)
    if not isinstance(directory, LocalDirectory) or (directory.path / FILE).exists():
        return
    decisions = _first_decisions(pipeline)
    if {e.id for e in decisions if e.status == ACCEPTED} == {entry.id for entry in known.entries}:
        write(directory.path, decisions)


def _rule(rule: str | dict[str, Any]) -> str | RuleEntry:
    return rule if isinstance(rule, str) else RuleEntry.model_validate(rule)


def _base_rows(pipeline: Pipeline, name: str, spark: SparkSession | None, place: str) -> Any:
    """The rows that a table begins with: its base, the source itself (Delta and JDBC), or none."""
    table, source = pipeline.tables[name], pipeline.source
    if table.base is not None and place == "process":
        return table.base
    if table.base is None and isinstance(source, DeltaSource | JdbcSource):
        assert spark is not None
        return _source_rows(source, name, spark)
    if table.base is None:
        return _empty(table.types, spark, place)
    assert spark is not None
    from holdfast.spark.reading import frame_at

    return with_types(frame_at(spark, table.base), table.types)


def _source_rows(source: DeltaSource | JdbcSource, name: str, spark: SparkSession) -> Any:
    if isinstance(source, JdbcSource):
        return jdbc_table(source, name, spark)
    reader = spark.read.format("delta").option("versionAsOf", source.starting_version - 1)
    return reader.load(source.path) if "/" in source.path else reader.table(source.path)


def _empty(types: dict[str, str], spark: SparkSession | None, place: str) -> Any:
    """A table without rows, with these columns."""
    columns = [column_of_type_text(column, text) for column, text in types.items()]
    if place == "spark":
        assert spark is not None
        from holdfast.spark.frames import spark_type

        fields = ", ".join(f"`{column.name.replace('`', '``')}` {spark_type(column)}" for column in columns)
        return spark.createDataFrame([], fields)
    return pa.table({column.name: pa.array([], pa.string()) for column in columns})


def with_types(frame: Any, types: dict[str, str]) -> Any:
    """A DataFrame with some columns cast to the types that the pipeline names."""
    from holdfast.spark.frames import spark_type

    columns = {name: spark_type(column_of_type_text(name, text)) for name, text in types.items()}
    return frame.withColumns({name: frame[name].cast(type_) for name, type_ in columns.items()}) if columns else frame


class Place(NamedTuple):
    """Where the rows of a rulebook are kept, `process` or `spark`, and why."""

    place: str
    reason: str


def place_of(pipeline: Pipeline) -> Place:
    """Where the rows of a pipeline's rulebook are kept: where they are already, where it says, or by their number."""
    directory = directory_at(pipeline.book)
    if directory.names("manifests"):
        return Place("spark" if is_on_spark(Store.open(directory)) else "process", "as it was made")
    if pipeline.on != "auto":
        return Place(pipeline.on, "as the pipeline says")
    if pipeline.rule_budget is not None or (pipeline.max_error and not {*pipeline.kinds} <= {"ind"}):
        return Place("process", "rules that nearly hold, and a rule_budget, need them there")
    bases = [table.base for table in pipeline.tables.values() if table.base is not None]
    rows = sum(parquet_rows(Path(base)) for base in bases)
    if rows > FILES_GO_ABOVE:
        return Place("spark", f"{rows:,} rows are more than {FILES_GO_ABOVE:,}")
    return Place("process", f"the bases have at most {FILES_GO_ABOVE:,} rows")
