"""Tables as codes, and what can be said of them beside the rules that were searched for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdfast.discovery.foreign_keys import MOST_MISSING, ForeignKey
from holdfast.discovery.foreign_keys import foreign_keys as suggestions
from holdfast.discovery.inclusion import Inclusions
from holdfast.discovery.interest import TableMeasures, Weights
from holdfast.discovery.rank import DEFAULT_MOST, WORTH_READING, Ranked, rank
from holdfast.discovery.row_rules import row_rules as rules_of_rows
from holdfast.discovery.width import require_narrow
from holdfast.rules.ruleset import RuleSet
from holdfast.table.change import Part
from holdfast.table.dictionary import TextDictionary
from holdfast.table.net import Planner
from holdfast.table.options import Choices, TableOptions
from holdfast.table.read import Source, read_all
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema


@dataclass(frozen=True)
class Loaded:
    """Tables as codes. `named`: whether rules say the table they are about."""

    rows: Mapping[str, Rows]
    words: TextDictionary
    named: bool

    @classmethod
    def of(cls, data: Any, choices: Choices) -> Loaded:
        settled, words = choices.settle(read_all(data)), TextDictionary()
        require_narrow({name: options.schema for name, (_, options) in settled.items()})
        rows = {name: _rows_of(name, source, options, words) for name, (source, options) in settled.items()}
        return cls(rows, words, isinstance(data, Mapping))

    @property
    def schemas(self) -> dict[str, Schema]:
        return {name: some.schema for name, some in self.rows.items()}

    def row_rules(self, nulls: str, max_error: float, *, ranges: bool = False) -> RuleSet:
        found = []
        for name, some in self.rows.items():
            table = name if self.named else None
            found.append(rules_of_rows(some.schema, some.codes(), nulls, max_error, ranges=ranges, table=table))
        return RuleSet.joined(found)

    def foreign_keys(self, found: Inclusions | None = None, most_missing: float = MOST_MISSING) -> list[ForeignKey]:
        if found is None:
            found = Inclusions(self.schemas, self.words)
            found.load({name: some.codes() for name, some in self.rows.items()})
        return suggestions(found, self.rows, most_missing)

    def best(
        self,
        rules: RuleSet,
        nulls: str,
        most: int | None = DEFAULT_MOST,
        weights: Weights | None = None,
        least: float = WORTH_READING,
    ) -> list[Ranked]:
        """Of these rules, those that a person finds worth reading."""
        tables = {name: TableMeasures(some.schema, some.codes(), nulls) for name, some in self.rows.items()}
        keys = self.likely_keys if len(rules.of("ind")) else []
        return rank(rules, tables, keys, weights, most, least)

    @cached_property
    def likely_keys(self) -> list[ForeignKey]:
        """Inclusions between tables that look like foreign keys, the likeliest first; also some that nearly hold."""
        return self.foreign_keys() if len(self.rows) > 1 else []


def _rows_of(name: str, source: Source, options: TableOptions, words: TextDictionary) -> Rows:
    rows = Rows(options.schema, options.key)
    planner = Planner(name, rows, words, options.declared, options.ignored)
    rows.merge(planner.plan([Part.of(source, "insert")]).delta)
    return rows
