"""Discovery on Spark: the engine of the process on a sample, and a search on Spark for pairs that refute what it found.

The driver sees a sample of each table and the pairs that were found, and no other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from holdfast.discovery.budget import Budget
from holdfast.discovery.database import Searched
from holdfast.discovery.search_options import SearchOptions
from holdfast.encoded_tables import EncodedTables
from holdfast.rules.ruleset import RuleSet
from holdfast.spark.found_inclusions import FoundInclusions, require_typed
from holdfast.spark.frames import frames_of, settled
from holdfast.spark.jobs import described
from holdfast.spark.near_rules import NearRules
from holdfast.spark.sampled_rules import SampledRules
from holdfast.spark.table_search import SearchedTable
from holdfast.table.dictionary import TextDictionary
from holdfast.table.options import Choices
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class SparkFindings:
    """The rules of tables on Spark: valid, minimal and, but for the `unfinished` and the `partial` searches, all. The
    candidates of a partial search come from a sample. `sample` has some rows of each table."""

    sample: EncodedTables
    rules: list[RuleSet] = field(default_factory=list)
    finished: list[Searched] = field(default_factory=list)
    unfinished: list[Searched] = field(default_factory=list)
    partial: list[Searched] = field(default_factory=list)
    vacuous: tuple[str, ...] = ()


def find_on_spark(data: Any, options: SearchOptions, choices: Choices, budget: Budget) -> SparkFindings:
    """Finds the minimal rules of DataFrames of any size."""
    require_typed(options)
    made = settled(frames_of(data), choices)
    frames = {name: frame for name, (frame, _) in made.items()}
    schemas = {name: table.schema for name, (_, table) in made.items()}
    rows, dictionary = {name: Rows(schema) for name, schema in schemas.items()}, TextDictionary()
    found = SparkFindings(EncodedTables(rows, dictionary, not isinstance(data, Mapping), is_sample=True))
    if "ind" in options.kinds:
        _find_inclusions(found, options, frames, schemas, budget)
    kinds = tuple(kind for kind in options.kinds if kind != "ind")
    for name, frame in frames.items():
        table = SearchedTable(name, frame, frame.count(), schemas[name], replace(options, kinds=kinds))
        if kinds:
            _find_in_table(found, table, table.begin(rows[name], dictionary, table.crossed(), budget), budget)
    return found


def _find_in_table(found: SparkFindings, table: SearchedTable, sample: SampledRules, budget: Budget) -> None:
    is_partial = False
    if table.options.max_error:
        near = NearRules(table, sample)
        rules, is_finished = near.find(budget)
        is_partial = not near.is_whole
    else:
        proof = table.proof(sample)
        is_finished = proof.run(budget)
        rules = proof.rules()
    found.rules.append(rules)
    searches = [Searched(kind, table.name) for kind in table.options.kinds]
    (found.unfinished if not is_finished else found.partial if is_partial else found.finished).extend(searches)


def _find_inclusions(
    found: SparkFindings,
    options: SearchOptions,
    frames: Mapping[str, DataFrame],
    schemas: Mapping[str, Schema],
    budget: Budget,
) -> None:
    if budget.spent():
        found.unfinished.append(Searched("ind"))
        return
    inclusions = FoundInclusions.empty(options, schemas)
    with described(next(iter(frames.values())).sparkSession, "inclusions: values and the columns that have them"):
        inclusions.begin(inclusions.cells(frames), frames)
    rules = inclusions.rules()
    found.rules.append(rules)
    found.finished.append(Searched("ind"))
    found.vacuous = rules.vacuous
