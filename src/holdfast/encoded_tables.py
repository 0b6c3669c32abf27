"""Tables as codes, and questions about them: rules about single rows, foreign keys, the rules worth reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.discovery.budget import Budget
from holdfast.discovery.ind.inclusions import Inclusions
from holdfast.discovery.row_rules import row_rules as rules_of_rows
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.width import require_narrow
from holdfast.executors.executor import Cancelled
from holdfast.ranking.foreign_keys import MAX_MISSING, ForeignKey
from holdfast.ranking.foreign_keys import foreign_keys as suggestions
from holdfast.ranking.in_words import SectionLine, TableSections, references_in_words, sections_of
from holdfast.ranking.most import DEFAULT_MOST
from holdfast.ranking.rank import WORTH_READING, Ranked, rank
from holdfast.ranking.table_view import TableView
from holdfast.rules.ruleset import RuleSet
from holdfast.table.change import Part
from holdfast.table.dictionary import TextDictionary
from holdfast.table.net import Planner
from holdfast.table.options import Choices, TableOptions
from holdfast.table.read import read_all
from holdfast.table.reading import ReadAs
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema
from holdfast.table.source import Source


@dataclass(frozen=True)
class EncodedTables:
    """Tables as codes. `is_lone`: one table was given without a name, so the rules do not print it."""

    rows: Mapping[str, Rows]
    dictionary: TextDictionary
    is_lone: bool
    is_sample: bool = False  # these are some rows of larger tables: they rank rules, but do not prove any
    unread: tuple[str, ...] = ()  # tables that were not read because the time budget ran out
    read_as: Mapping[str, ReadAs | None] = field(default_factory=dict)  # how each text file was read
    _likely: list[list[ForeignKey]] = field(default_factory=list, repr=False)  # of `likely_keys`, once searched

    @classmethod
    def of(cls, data: Any, choices: Choices, budget: Budget | None = None) -> EncodedTables:
        """Reads and encodes tables. If the budget runs out, the rest is listed in `unread`; budget checks are between
        tables."""
        budget, dictionary, rows = budget or Budget(), TextDictionary(), {}
        budget.report("reading", 0.0)
        settled = choices.settle(read_all(data, reading=choices.reading))
        require_narrow({name: options.schema for name, (_, options) in settled.items()})
        for done, (name, (source, options)) in enumerate(settled.items()):
            if budget.spent():
                break
            budget.report("encoding values", done / len(settled))
            rows[name] = _rows_of(name, source, options, dictionary)
        unread = tuple(name for name in settled if name not in rows)
        read_as = {name: options.read_as for name, (_, options) in settled.items()}
        return cls(rows, dictionary, not isinstance(data, Mapping), unread=unread, read_as=read_as)

    @property
    def schemas(self) -> dict[str, Schema]:
        return {name: table.schema for name, table in self.rows.items()}

    def row_rules(self, nulls: str, max_error: float, *, ranges: bool = False, budget: Budget | None = None) -> RuleSet:
        """Rules about single rows of each table. If the budget runs out, it gets a note."""
        if self.is_sample:
            return RuleSet()
        rules = RuleSet.joined(
            rules_of_rows(table.schema, table.codes(), nulls, max_error, ranges=ranges, table=name, budget=budget)
            for name, table in self.rows.items()
        )
        return rules.of_lone_table() if self.is_lone else rules

    def foreign_keys(
        self,
        inclusions: Inclusions | None = None,
        most_missing: float = MAX_MISSING,
        budget: Budget | None = None,
    ) -> list[ForeignKey]:
        """Inclusions that look like foreign keys. If the budget runs out, none, and a note in the budget."""
        budget = budget or Budget()
        try:
            if inclusions is None:
                inclusions = Inclusions(self.schemas, self.dictionary)
                inclusions.load({name: table.codes() for name, table in self.rows.items()}, budget)
            budget.check()
            return suggestions(inclusions, self.rows, most_missing, budget)
        except Cancelled:
            budget.skip("foreign keys were not searched")
            return []

    def best(
        self,
        rules: RuleSet,
        options: SearchOptions,
        most: int | None = DEFAULT_MOST,
        least: float = WORTH_READING,
        budget: Budget | None = None,
    ) -> list[Ranked]:
        """The rules that are worth reading, best first; of a sample of the rows, those among `rules`. If the budget
        runs out, among those that were looked at."""
        views = {name: TableView(table.schema, table.codes(), options.nulls) for name, table in self.rows.items()}
        keys = self.keys_within(budget) if "ind" in options.kinds else []
        ranked = rank(rules, views, options, keys, most, least, budget, is_lone=self.is_lone)
        if not self.is_sample:
            return ranked
        details = (detail for block in rules.blocks if block.errors is not None for detail in block.with_details())
        nearly = {rule for rule, _, error, _ in details if error}  # a sample does not tell their errors
        return [r for r in ranked if not r.error and r.rule in rules and r.rule not in nearly]

    def in_words(
        self, ranked: Sequence[Ranked], *, texts: bool = False
    ) -> tuple[list[TableSections], list[SectionLine]]:
        """What these rules say about each table, and what refers where. O(rows x columns)."""
        label = dict.fromkeys(self.rows) if self.is_lone else {name: name for name in self.rows}
        tables = [
            sections_of(
                name,
                rows,
                (one for one in ranked if one.kind != "ind" and one.table == label[name]),
                is_sample=self.is_sample,
                texts=texts,
            )
            for name, rows in self.rows.items()
        ]
        return tables, references_in_words(ranked, texts=texts)

    @property
    def likely_keys(self) -> list[ForeignKey]:
        """Inclusions between tables that look like foreign keys, likeliest first; also some that nearly hold."""
        return self.keys_within()

    def keys_within(self, budget: Budget | None = None, inclusions: Inclusions | None = None) -> list[ForeignKey]:
        """The likely keys, if they are found within the budget. They are searched once."""
        if self._likely or len(self.rows) < 2 or self.is_sample:
            return self._likely[0] if self._likely else []
        keys = self.foreign_keys(inclusions, budget=budget)
        if budget is None or budget.ended is None:
            self._likely.append(keys)
        return keys


def _rows_of(name: str, source: Source, options: TableOptions, dictionary: TextDictionary) -> Rows:
    rows = Rows(options.schema, options.key)
    planner = Planner(name, rows, dictionary, options.declared, options.ignored)
    rows.merge(planner.plan([Part.of(source, "insert")]).delta)
    return rows
