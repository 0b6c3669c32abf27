"""Discovery on Spark: the engine of the process on a sample, and a search on Spark for pairs that refute what it found.

The driver sees a sample of each table and the pairs that were found, and no other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.discovery.budget import Budget
from holdfast.discovery.database import Searched
from holdfast.discovery.ind.counts import Attribute
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.witness.predicate_space import CROSSED, given_pair, most_shared
from holdfast.encoded_tables import EncodedTables
from holdfast.errors import NotAvailable
from holdfast.rules.ruleset import RuleSet
from holdfast.spark.cells import cells_of, common_values
from holdfast.spark.claims import ClaimSearch
from holdfast.spark.found_inclusions import FoundInclusions, require_typed
from holdfast.spark.frames import cells, frames_of, settled
from holdfast.spark.jobs import described
from holdfast.spark.proof import Proof
from holdfast.spark.row_sample import sampled_rows
from holdfast.spark.sampled_rules import SampledRules
from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.table.options import Choices
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class SparkFindings:
    """The rules of tables on Spark: valid, minimal and, but for the `unfinished` searches, all. `sample` has some rows
    of each table."""

    sample: EncodedTables
    rules: list[RuleSet] = field(default_factory=list)
    finished: list[Searched] = field(default_factory=list)
    unfinished: list[Searched] = field(default_factory=list)
    vacuous: tuple[str, ...] = ()


def find_on_spark(data: Any, options: SearchOptions, choices: Choices, budget: Budget) -> SparkFindings:
    """Finds the minimal rules of DataFrames of any size that hold exactly."""
    if options.max_error:
        raise NotAvailable("on Spark, this version finds rules that hold exactly: max_error=0, or on='process'")
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
        search = TableSearch(name, frame.select(cells(schemas[name])), schemas[name], replace(options, kinds=kinds))
        rules, is_finished = search.rules(rows[name], dictionary, budget)
        if kinds:
            found.rules.append(rules)
            (found.finished if is_finished else found.unfinished).extend(Searched(kind, name) for kind in kinds)
    return found


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


@dataclass(frozen=True)
class TableSearch:
    """The search for the rules of one table."""

    name: str
    frame: DataFrame
    schema: Schema
    options: SearchOptions

    def rules(self, rows: Rows, dictionary: TextDictionary, budget: Budget) -> tuple[RuleSet, bool]:
        """The proven rules, and whether they are all. `rows` gets a sample, and pairs that refuted rules."""
        count = self.frame.count()
        sample = self.sampled(rows, dictionary, self.crossed(count))
        sample.add(sampled_rows(self.frame, count))
        sample.begin(budget)
        if len(rows) == count:
            return sample.rules(), sample.is_finished
        proof = Proof(sample, partial(self.search, sample, count))
        is_finished = proof.run(budget)
        return proof.rules(), is_finished

    def sampled(self, rows: Rows, dictionary: TextDictionary, crossed: list[tuple[int, int]]) -> SampledRules:
        return SampledRules(self.name, self.schema, self.options, crossed, rows, dictionary)

    def search(self, sample: SampledRules, count: int, codes: Codes) -> ClaimSearch:
        return ClaimSearch(self.frame, sample.space, codes, count)

    def crossed(self, count: int) -> list[tuple[int, int]]:
        """The pairs of different columns that are compared, decided on all rows."""
        asked = self.options.cross_columns
        if not asked or "dc" not in self.options.kinds:
            return []
        if not isinstance(asked, bool):
            return [given_pair(self.schema, pair) for pair in asked]
        columns = enumerate(self.schema.columns)
        attributes = [Attribute(self.name, place, c) for place, c in columns if c.kind.group in CROSSED]
        with described(self.frame.sparkSession, f"{self.name}: columns that share values"):
            shared = common_values(cells_of(attributes, {self.name: self.frame})) if attributes else []
        overlaps = [(n, attributes[a].place, attributes[b].place) for a, b, n in shared]
        return most_shared(overlaps, count)
