"""Discovery on Spark: the engine of the process on a sample, and a search on Spark for pairs that refute what it found.

A rule that holds on the table holds on every part of it. So if all minimal rules of a sample hold on the table, they
are the minimal rules of the table. Those that do not hold return pairs of rows, which join the sample; then the engine
derives again what the sample leaves standing. The driver sees the sample and these pairs, and no other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.database import DatabaseRules, PairLimits, Searched
from holdfast.discovery.ind.counts import Attribute
from holdfast.discovery.search_options import CrossColumns, SearchOptions
from holdfast.discovery.witness.predicate_space import CROSSED, PredicateSpace, given_pair, most_shared
from holdfast.encoded_tables import EncodedTables
from holdfast.errors import HoldfastError, NotAvailable, shown
from holdfast.rules.rule import Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.spark.cells import cells_of, common_values
from holdfast.spark.claims import ClaimSearch
from holdfast.spark.found_inclusions import FoundInclusions, require_typed
from holdfast.spark.frames import frames_of, settled
from holdfast.spark.jobs import described
from holdfast.spark.row_sample import RowSample
from holdfast.table.options import Choices
from holdfast.table.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PAIRS = PairLimits(2e7, 2e9)  # as for tables that do not change


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
    samples = {name: RowSample.of(frame, schemas[name]) for name, frame in frames.items()}
    found = SparkFindings(_encoded(samples, is_lone=not isinstance(data, Mapping)))
    if "ind" in options.kinds:
        _find_inclusions(found, options, frames, schemas, budget)
    kinds = tuple(kind for kind in options.kinds if kind != "ind")
    for name, frame in frames.items():
        if kinds:
            search = _TableSearch(name, frame, schemas[name], samples[name], replace(options, kinds=kinds))
            rules, is_finished = search.rules(budget)
            found.rules.append(rules)
            (found.finished if is_finished else found.unfinished).extend(Searched(kind, name) for kind in kinds)
    found.sample = _encoded(samples, is_lone=found.sample.is_lone)
    return found


def _encoded(samples: Mapping[str, RowSample], *, is_lone: bool) -> EncodedTables:
    tables = EncodedTables.of({name: sample.table for name, sample in samples.items()}, Choices())
    return replace(tables, is_lone=is_lone, is_sample=True)


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
class _TableSearch:
    """The search for the rules of one table."""

    name: str
    rows: DataFrame
    schema: Schema
    sample: RowSample
    options: SearchOptions

    def rules(self, budget: Budget) -> tuple[RuleSet, bool]:
        """The proven rules, and whether they are all."""
        crossed = self._crossed() if "dc" in self.options.kinds else []
        names = tuple((self.schema.names[a], self.schema.names[b]) for a, b in crossed)
        options = replace(self.options, cross_columns=names)
        space, proven = PredicateSpace.of(self.schema, self.options.nulls, crossed), set[Rule]()
        while True:
            tables = _encoded({self.name: self.sample}, is_lone=False)
            claims, is_finished = _derived(tables, options, budget)
            if self.sample.is_whole:
                return claims, is_finished
            unproven = [rule for rule in claims if rule not in proven]
            search = ClaimSearch(self.rows, space, tables.rows[self.name].codes(), self.sample.count)
            decided, is_refuted = self._decide(search, unproven, budget)
            proven |= decided
            if not is_finished or budget.spent() or not is_refuted:
                return _chosen(claims, proven), is_finished and len(decided) == len(unproven)

    def _decide(self, search: ClaimSearch, claims: list[Rule], budget: Budget) -> tuple[set[Rule], bool]:
        """The claims that are proven, and whether some were refuted. Pairs that refute a claim join the sample."""
        proven, refuted, added = set[Rule](), 0, 0
        for number, (rule, pairs) in enumerate(search.refutations(claims, budget)):
            budget.report("verifying rules on Spark", number / len(claims))
            if pairs is None:
                proven.add(rule)
            else:
                refuted, added = refuted + 1, added + self.sample.add(pairs)
        if refuted and not added:  # the sample had the pair, and so would have refuted the claim
            raise HoldfastError(
                f"table {shown(self.name)} has other rows each time it is read; write it to files first"
            )
        return proven, refuted > 0

    def _crossed(self) -> list[tuple[int, int]]:
        """The pairs of different columns that are compared, decided on all rows."""
        asked: CrossColumns = self.options.cross_columns
        if not isinstance(asked, bool):
            return [given_pair(self.schema, pair) for pair in asked]
        if not asked:
            return []
        columns = enumerate(self.schema.columns)
        attributes = [Attribute(self.name, place, c) for place, c in columns if c.kind.group in CROSSED]
        with described(self.rows.sparkSession, f"{self.name}: columns that share values"):
            shared = common_values(cells_of(attributes, {self.name: self.rows})) if attributes else []
        overlaps = [(n, attributes[a].place, attributes[b].place) for a, b, n in shared]
        return most_shared(overlaps, self.sample.count)


def _chosen(claims: RuleSet, proven: set[Rule]) -> RuleSet:
    return claims.where(lambda block: np.array([rule in proven for rule in block], bool))


def _derived(tables: EncodedTables, options: SearchOptions, budget: Budget) -> tuple[RuleSet, bool]:
    """The minimal rules of a sample, and whether the search finished."""
    found = DatabaseRules(tables.schemas, options, tables.dictionary, limits=_PAIRS)
    found.begin(tables.rows, budget)
    return found.rules(), not found.unfinished
