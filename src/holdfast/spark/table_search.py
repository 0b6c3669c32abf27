"""The search for the rules of one table on Spark: which columns are compared, a sample, and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.discovery.budget import Budget
from holdfast.discovery.ind.counts import Attribute
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.witness.predicate_space import CROSSED, given_pair, most_shared
from holdfast.rules.masks import Masks
from holdfast.spark.cells import cells_of, common_values
from holdfast.spark.claims import ClaimSearch, InsertedRows
from holdfast.spark.frames import cells
from holdfast.spark.jobs import described
from holdfast.spark.proof import SampleProof
from holdfast.spark.row_sample import sampled_rows
from holdfast.spark.sampled_rules import SampledRules
from holdfast.table.dictionary import TextDictionary
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Crossed = Sequence[tuple[int, int]]  # pairs of different columns that are compared


@dataclass(frozen=True)
class SearchedTable:
    """A table, how many rows it has, and what is searched in it."""

    name: str
    rows: DataFrame
    count: int
    schema: Schema
    options: SearchOptions

    @property
    def cells(self) -> DataFrame:
        return self.rows.select(cells(self.schema))

    def crossed(self) -> Crossed:
        """The pairs of different columns that are compared, decided on all rows."""
        asked = self.options.cross_columns
        if not asked or "dc" not in self.options.kinds:
            return []
        if not isinstance(asked, bool):
            return [given_pair(self.schema, pair) for pair in asked]
        columns = enumerate(self.schema.columns)
        attributes = [Attribute(self.name, place, c) for place, c in columns if c.kind.group in CROSSED]
        with described(self.rows.sparkSession, f"{self.name}: columns that share values"):
            shared = common_values(cells_of(attributes, {self.name: self.rows})) if attributes else []
        overlaps = [(n, attributes[a].place, attributes[b].place) for a, b, n in shared]
        return most_shared(overlaps, self.count)

    def begin(self, rows: Rows, dictionary: TextDictionary, crossed: Crossed, budget: Budget) -> SampledRules:
        """Samples the table, and finds the rules of the sample. `rows` gets the sample."""
        sample = SampledRules(self.name, self.schema, self.options, crossed, rows, dictionary)
        sample.add(sampled_rows(self.cells, self.count))
        sample.begin(budget)
        return sample

    def proof(
        self, sample: SampledRules, held: Masks | None = None, inserted: Sequence[InsertedRows] = ()
    ) -> SampleProof:
        """The proof of what the sample leaves standing, to be run. If the sample is the whole table, nothing is left
        to prove. `held`: claims that no pair without an `inserted` row refutes."""
        space, count = sample.space, self.count
        is_whole = len(sample.rows) == count
        return SampleProof(sample, lambda codes: ClaimSearch(self.cells, space, codes, count), held, inserted, is_whole)
