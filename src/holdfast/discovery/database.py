"""The discovered rules of all tables of a database: a loop over maintainers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.arrays import Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.dc.maintainer import DcMaintainer
from holdfast.discovery.fd.maintainer import FdMaintainer
from holdfast.discovery.fd.table_fds import MAX_AGREE_SET_PAIRS
from holdfast.discovery.ind.inclusions import Inclusions
from holdfast.discovery.ind.maintainer import IndMaintainer, WideIndMaintainer
from holdfast.discovery.ind.runs import Runs
from holdfast.discovery.maintainer import Maintainer, RowChanges, Tables
from holdfast.discovery.search_options import MEMORY_BUDGET, SearchOptions
from holdfast.discovery.table_maintainer import TableMaintainer
from holdfast.executors.executor import Cancelled, Executor
from holdfast.rules.change import RuleChange
from holdfast.rules.ruleset import RuleSet
from holdfast.table.dictionary import TextDictionary
from holdfast.table.row_change import RowChange, RowDelta
from holdfast.table.schema import Schema


class Searched(NamedTuple):
    """A search: for the rules of one kind, of one table or, for inclusions, of all."""

    kind: str
    table: str | None = None


@dataclass(frozen=True)
class PairLimits:
    """The most pairs of a change that are counted, for agree-sets and for evidence (None: the default), and the bytes
    of memory for the values of inclusions."""

    agree_set_pairs: float = MAX_AGREE_SET_PAIRS
    evidence_pairs: float | None = None
    memory: int = MEMORY_BUDGET


class DatabaseRules:
    """Keeps the rules of each table, and the inclusions between tables, true to the rows."""

    def __init__(
        self,
        schemas: Mapping[str, Schema],
        options: SearchOptions,
        dictionary: TextDictionary,
        executor: Executor | None = None,
        *,
        limits: PairLimits | None = None,
        runs: Runs | None = None,
        static: bool = False,
    ) -> None:
        """`static`: the rows never change after `begin`."""
        self.options, self._schemas, self._is_static = options, schemas, static
        self._limits = limits or PairLimits()
        self.unfinished: dict[Searched, str] = {}  # the searches that a budget ended, and why
        self.complete_up_to: dict[Searched, int] = {}  # the size up to which they found all rules
        self.inclusions = self._of_inclusions(dictionary, executor, runs) if "ind" in options.kinds else None
        self.maintainers: list[Maintainer] = [*self._of_tables(executor)]
        if self.inclusions is not None:
            self.maintainers.append(self.inclusions)
            if options.sizes["ind"] != 1:
                self.maintainers.append(WideIndMaintainer(self.inclusions, options.sizes["ind"]))

    def _of_tables(self, executor: Executor | None) -> Iterator[Maintainer]:
        static = self._is_static
        for name, schema in self._schemas.items():
            if self.options.of_one_table:
                pairs = self._limits.agree_set_pairs
                yield FdMaintainer(name, schema, self.options, executor, most_pairs=pairs, static=static)
            if self.options.of_evidence:
                limit = self._limits.evidence_pairs
                yield DcMaintainer(name, schema, self.options, executor, most_pairs=limit, static=static)

    def _of_inclusions(self, dictionary: TextDictionary, executor: Executor | None, runs: Runs | None) -> IndMaintainer:
        inclusions = Inclusions(
            self._schemas,
            dictionary,
            max_error=self.options.max_error,
            as_text=self.options.compare == "text",
            only_inserts=self.options.only_inserts,
            memory_budget=self._limits.memory,
        )
        return IndMaintainer(inclusions, executor, runs)

    def begin(self, rows: Tables, budget: Budget | None = None) -> None:
        """Finds the rules of all tables from nothing, each search in its share of the time."""
        budget, order = budget or Budget(), self._quickest_first(rows)
        rest = sum(maintainer.share for maintainer in order if maintainer is not self.inclusions)
        for maintainer in order:
            if maintainer is self.inclusions:
                self._begin_one(maintainer, rows, budget.part())
                continue
            self._begin_one(maintainer, rows, budget.part(maintainer.share / rest))
            rest -= maintainer.share

    def _quickest_first(self, rows: Tables) -> list[Maintainer]:
        """Unary inclusions, keys and FDs, then evidence, small tables before large ones; inclusions of several columns
        come last, because their search may take longest."""

        def rank(maintainer: Maintainer) -> tuple[int, int]:
            if maintainer.table is None:
                return (0 if maintainer is self.inclusions else 3), 0
            cells = len(rows[maintainer.table]) * len(self._schemas[maintainer.table])
            return (1 if isinstance(maintainer, FdMaintainer) else 2), cells

        return sorted(self.maintainers, key=rank)

    def _begin_one(self, maintainer: Maintainer, rows: Tables, budget: Budget) -> None:
        """Begins one search, and notes if the time budget ended it."""
        ended: Mapping[str, str] = {}
        try:
            maintainer.begin(rows, budget)
            ended = maintainer.unfinished
        except Cancelled:  # nothing is proven
            budget.spent()
            ended = dict.fromkeys(maintainer.kinds, str(budget.ended))
            if maintainer is self.inclusions and self.inclusions is not None:
                self.inclusions.unfinished = dict(ended)
        self._note(maintainer, ended)

    def _note(self, maintainer: Maintainer, ended: Mapping[str, str]) -> None:
        """Notes the searches that a budget ended."""
        self.unfinished |= {Searched(kind, maintainer.table): why for kind, why in ended.items()}
        sizes = maintainer.complete_up_to
        self.complete_up_to |= {Searched(kind, maintainer.table): size for kind, size in sizes.items()}

    def update(
        self, changes: RowChanges, rows: Tables, budget: Budget | None = None, patience: Budget | None = None
    ) -> list[RuleChange]:
        """Updates all rules to the rows after the changes, `rows` being those before; a rule change for each
        maintainer. If the budget runs out, `unfinished` says which rules are missing. Rules of one table that would
        exceed `patience` stay as they are: they are late then."""
        if not changes:
            return []
        rule_changes = []
        for maintainer in sorted(self.maintainers, key=lambda m: isinstance(m, TableMaintainer)):
            if patience and isinstance(maintainer, TableMaintainer) and maintainer.is_too_slow(changes, patience):
                maintainer.postpone(changes)
                continue
            rule_changes.append(maintainer.update(changes, rows, budget))
        for maintainer in self.maintainers:
            self._note(maintainer, maintainer.unfinished)
        return rule_changes

    def late(self) -> dict[str, list[str]]:
        """The kinds whose rules are those before changes that wait, by table."""
        found: dict[str, list[str]] = {}
        for maintainer in self.maintainers:
            if isinstance(maintainer, TableMaintainer) and maintainer.is_late:
                found.setdefault(maintainer.table, []).extend(maintainer.kinds)
        return found

    def catch_up(self, rows: Tables, budget: Budget | None = None) -> list[RuleChange]:
        """Updates the rules that are late to the rows."""
        nothing = {name: RowChange.of(rows[name], RowDelta.nothing(len(self._schemas[name]))) for name in self.late()}
        late = [m for m in self.maintainers if isinstance(m, TableMaintainer) and m.is_late]
        return [maintainer.update(nothing, rows, budget) for maintainer in late]

    def restore(self, rows: Tables) -> None:
        """Finds the rules from facts that were merged."""
        for maintainer in self._quickest_first(rows):
            maintainer.restore(rows)

    def searched(self) -> list[Searched]:
        """All searches that were asked for."""
        of_tables = [Searched(kind, name) for name in self._schemas for kind in self.options.kinds if kind != "ind"]
        return [*of_tables, *([Searched("ind")] if "ind" in self.options.kinds else [])]

    def rules(self) -> RuleSet:
        """All rules that are proven, with their errors; not those that are late."""
        current = [m for m in self.maintainers if not (isinstance(m, TableMaintainer) and m.is_late)]
        rules = RuleSet.joined(maintainer.rules() for maintainer in current)
        by_kind = sorted(self.maintainers, key=lambda m: (m.table is None, isinstance(m, DcMaintainer)))
        how = tuple(text for maintainer in by_kind if (text := maintainer.describe()))
        return RuleSet(rules.blocks, True, self.options.limits, how, rules.vacuous)

    def run_on(self, executor: Executor | None) -> None:
        for maintainer in self.maintainers:
            maintainer.run_on(executor)

    def merge(self, table: str, facts: Arrays) -> None:
        """Adds facts of a table that another process found. Call `restore` afterwards."""
        for maintainer in self._of(table):
            maintainer.merge(facts)

    def facts(self, table: str) -> Arrays:
        """The facts of a table."""
        return {n: array for maintainer in self._of(table) for n, array in maintainer.to_arrays().items()}

    def added_facts(self, table: str) -> Arrays:
        """The facts of a table that the last update added."""
        return {n: array for maintainer in self._of(table) for n, array in maintainer.added_facts.items()}

    def _of(self, table: str) -> Iterator[Maintainer]:
        return (maintainer for maintainer in self.maintainers if maintainer.table == table)
