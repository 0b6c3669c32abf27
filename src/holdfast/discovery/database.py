"""The discovered rules of all tables of a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from holdfast.arrays import Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.dc.maintainer import DcMaintainer
from holdfast.discovery.fd.collapsed import Collapsed
from holdfast.discovery.fd.maintainer import MAX_AGREE_SET_PAIRS, FdMaintainer
from holdfast.discovery.ind.cells import Cells
from holdfast.discovery.ind.filed_generator import MEMORY_BUDGET
from holdfast.discovery.ind.inclusions import Inclusions
from holdfast.discovery.ind.runs import Runs
from holdfast.discovery.ind.wide_inclusions import WideInclusions
from holdfast.discovery.pair_sets import Moved, Tally
from holdfast.discovery.search_options import SearchOptions
from holdfast.executors.executor import Cancelled, Executor
from holdfast.rules.change import Pair, RuleChange
from holdfast.rules.masks import has, mask_of
from holdfast.rules.rule import Fd, Key, Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.table.rows import RowChange, Rows
from holdfast.table.schema import Schema

_OF_TABLES, _OF_EVIDENCE = 3, 1  # how time is divided: keys and FDs of a table, and what is read from evidence


class Searched(NamedTuple):
    """A search: for the rules of one kind, of one table or, for inclusions, of all."""

    kind: str
    table: str | None = None


class DatabaseRules:
    """Keeps the rules of each table true to its rows, and the inclusions between tables. `named`: whether rules say the
    table they are about; `dictionary`: the texts of the codes."""

    def __init__(
        self,
        schemas: Mapping[str, Schema],
        wanted: SearchOptions,
        dictionary: TextDictionary,
        executor: Executor | None = None,
        *,
        named: bool = False,
        most_pairs: float = MAX_AGREE_SET_PAIRS,
        most_counted: float | None = None,
        memory_budget: int = MEMORY_BUDGET,
    ) -> None:
        self._schemas, self.wanted, self._named, self._executor = schemas, wanted, named, executor
        self.cells = Cells.empty()  # of the last change
        self.unfinished: dict[Searched, str] = {}  # the searches that a budget ended before or while they ran, and why
        self.tables = {
            name: FdMaintainer(len(schema), wanted, executor, most_pairs=most_pairs)
            for name, schema in (schemas if wanted.of_one_table else {}).items()
        }
        self.evidence = {
            name: DcMaintainer(schema, wanted, executor, table=name if named else None, most_pairs=most_counted)
            for name, schema in (schemas if wanted.of_evidence else {}).items()
        }
        self.inclusions: Inclusions | None = None
        self._wide: WideInclusions | None = None
        if "ind" in wanted.kinds:
            self.inclusions = Inclusions(
                schemas,
                dictionary,
                max_error=wanted.max_error,
                as_text=wanted.compare == "text",
                only_inserts=wanted.only_inserts,
                memory_budget=memory_budget,
            )
            if wanted.sizes["ind"] != 1:
                self._wide = WideInclusions(self.inclusions, wanted.sizes["ind"])

    def follow(
        self, changes: Mapping[str, RowChange], rows: Mapping[str, Rows], budget: Budget | None = None
    ) -> dict[str, tuple[Arrays, RuleChange]]:
        """What changes of rows do to the rules of their tables, and the facts that were added. `rows` are as they were
        before; the rules are true to them after the changes. Inclusions come with the first table that changed."""
        made = {name: self._follow_one(name, change, rows[name], budget) for name, change in changes.items()}
        if self.inclusions is not None and made:
            first = next(iter(made))
            facts, change = made[first]
            self.cells, unary = self.inclusions.follow(changes)
            change = _joined(change, unary)
            if self._wide is not None:
                after = {name: _codes_after(changes.get(name), some) for name, some in rows.items()}
                change = _joined(change, self._wide.follow(after, self.cells))
            made[first] = facts, change
        return made

    def _follow_one(self, name: str, change: RowChange, rows: Rows, budget: Budget | None) -> tuple[Arrays, RuleChange]:
        if name not in self.tables and name not in self.evidence:
            return {}, RuleChange()
        moved = moved_by(change, rows)
        facts, made = self._follow_agreement(name, moved, budget) if name in self.tables else ({}, RuleChange())
        if name not in self.evidence:
            return facts, made
        evidence = self.evidence[name]
        before = evidence.rules
        delta = evidence.follow(moved, budget)
        of_evidence = RuleChange(evidence.rules - before, before - evidence.rules, evidence.why)
        return _together(facts, delta), _joined(made, of_evidence)

    def _follow_agreement(self, name: str, moved: Moved, budget: Budget | None) -> tuple[Arrays, RuleChange]:
        table = self.tables[name]
        before = table.collapsed()
        delta = table.follow(moved, budget)
        after = table.collapsed()
        why = Why(self._schemas[name], table.came, table.went)
        added, removed = (self._ruleset(name, found) for found in (after.minus(before), before.minus(after)))
        return delta, RuleChange(added, removed, why)

    def begin(self, rows: Mapping[str, Rows], budget: Budget | None = None, runs: Runs | None = None) -> None:
        """Finds the rules of all tables from nothing; inclusions from the runs of a store, where there are any. Those
        of several columns come last: of all searches it is the one that may not end."""
        codes = {name: some.codes() for name, some in rows.items()}
        self._begin_inclusions(codes, runs, budget)
        small_first = sorted({**self.tables, **self.evidence}, key=lambda name: codes[name].size)
        todo = [  # what is soon there comes before what may take all the time
            (name, searched[name], weight)
            for searched, weight in ((self.tables, _OF_TABLES), (self.evidence, _OF_EVIDENCE))
            for name in small_first
            if name in searched
        ]
        rest = sum(weight for _, _, weight in todo) + (_OF_EVIDENCE if self._wide is not None else 0)
        for name, rules, weight in todo:
            arrival = RowChange.arrival(rows[name].ids(), codes[name])
            moved = moved_by(arrival, Rows(rows[name].schema))
            self._begin_one(name, rules, moved, budget.part(weight / rest) if budget is not None else None)
            rest -= weight
        self._begin_wide(codes, budget)

    def _begin_one(self, name: str, rules: FdMaintainer | DcMaintainer, moved: Moved, budget: Budget | None) -> None:
        """The rules of one table; where time was up before or while they were searched, this is noted."""
        kinds = self.wanted.of_one_table if isinstance(rules, FdMaintainer) else self.wanted.of_evidence
        ended: Mapping[str, str] = {}
        try:
            if budget is not None:
                budget.check()
            rules.follow(moved, budget)
            ended = rules.unfinished
        except Cancelled:  # while rows were compared: nothing is proven of them
            assert budget is not None
            budget.spent()
            ended = dict.fromkeys(kinds, str(budget.ended))
        self.unfinished |= {Searched(kind, name): why for kind, why in ended.items()}

    def _begin_inclusions(self, codes: Mapping[str, Codes], runs: Runs | None, budget: Budget | None = None) -> None:
        if self.inclusions is None:
            return
        if runs is not None:
            self.inclusions.read(runs)
        else:
            self.inclusions.load(codes, budget)
        if budget is not None and budget.ended:
            self.inclusions = self._wide = None  # nothing is known of them
            self.unfinished[Searched("ind")] = budget.ended
        else:
            self.inclusions.run_on(self._executor)

    def _begin_wide(self, codes: Mapping[str, Codes], budget: Budget | None = None) -> None:
        if self._wide is not None:
            self._wide.begin(codes, budget)
            if budget is not None and budget.ended:
                self.unfinished[Searched("ind")] = budget.ended

    def searched(self) -> list[Searched]:
        """All searches that were asked for."""
        of_tables = [Searched(kind, name) for name in self._schemas for kind in self.wanted.kinds if kind != "ind"]
        return [*of_tables, *([Searched("ind")] if "ind" in self.wanted.kinds else [])]

    def _ruleset(self, name: str, found: Collapsed, *, errors: bool = False) -> RuleSet:
        known = self.tables[name].errors(found) if errors else None
        return found.ruleset(self._schemas[name].names, name if self._named else None, known)

    def rules(self) -> RuleSet:
        """All rules, with their errors."""
        parts = [self._ruleset(name, table.collapsed(), errors=True) for name, table in self.tables.items()]
        parts += [table.rules for table in self.evidence.values()]
        how = tuple(f"{name}: {table.strategy}" for name, table in self.tables.items())
        how += tuple(f"{name}: {table.strategy}" for name, table in self.evidence.items())
        if self.inclusions is None:
            return RuleSet(RuleSet.joined(parts).blocks, True, self.wanted.limits, how)
        parts.append(self.inclusions.ruleset(self.inclusions.valid()))
        if self._wide is not None:
            parts.append(self._wide.ruleset())
        found = RuleSet.joined(parts)
        how = (*how, f"inclusions: {self.inclusions.values}")
        return RuleSet(found.blocks, True, self.wanted.limits, how, self.inclusions.vacuous())

    def settle(self, rows: Mapping[str, Rows], runs: Runs | None = None) -> None:
        """Brings the rules to facts that were merged."""
        codes = {name: some.codes() for name, some in rows.items()}
        self._begin_inclusions(codes, runs)
        for name, table in self.tables.items():
            table.settle(codes[name])
        for name, evidence in self.evidence.items():
            evidence.settle(len(rows[name]))
        self._begin_wide(codes)

    def run_on(self, executor: Executor | None) -> None:
        self._executor = executor
        if self.inclusions is not None:
            self.inclusions.run_on(executor)
        for table in self.tables.values():
            table.run_on(executor)
        for evidence in self.evidence.values():
            evidence.run_on(executor)

    def merge(self, name: str, facts: Arrays) -> None:
        """Adds facts of a table that `follow` told elsewhere; `settle` follows."""
        agreement, evidence = _apart(facts)
        if name in self.tables:
            self.tables[name].merge(agreement)
        if name in self.evidence:
            self.evidence[name].merge(evidence)

    def to_arrays(self, name: str, delta: Arrays | None) -> Arrays:
        """The facts of a table, as they were before a delta that was the last."""
        agreement, evidence = (None, None) if delta is None else _apart(delta)
        made = self.tables[name].to_arrays(agreement) if name in self.tables else {}
        others = self.evidence[name].to_arrays(evidence) if name in self.evidence else {}
        return _together(made, others)


_EVIDENCE = "evidence_"  # before the names of its arrays


def _together(agreement: Arrays, evidence: Arrays) -> Arrays:
    """The facts of a table from its agree-sets and from its evidence."""
    return {**agreement, **{_EVIDENCE + name: array for name, array in evidence.items()}}


def _apart(facts: Arrays) -> tuple[Arrays, Arrays]:
    """The inverse of `_together`."""
    evidence = {n.removeprefix(_EVIDENCE): array for n, array in facts.items() if n.startswith(_EVIDENCE)}
    return {n: array for n, array in facts.items() if not n.startswith(_EVIDENCE)}, evidence


def _joined(first: RuleChange, second: RuleChange) -> RuleChange:
    """Two changes of different rules as one."""
    if not second:
        return first

    def why(rule: Rule) -> Pair | None:
        return first.why(rule) or second.why(rule)

    added, removed = (RuleSet.joined([getattr(c, side) for c in (first, second)]) for side in ("added", "removed"))

    def value(rule: Rule) -> object:
        decided = first.value(rule)
        return second.value(rule) if decided is None else decided

    return RuleChange(added, removed, why, value, first.vacuous | second.vacuous)


def _codes_after(change: RowChange | None, rows: Rows) -> Codes:
    """The codes of the rows after a change."""
    if change is None:
        return rows.codes()
    moved = moved_by(change, rows)
    return np.concatenate([moved.stay_codes, moved.new_codes], axis=1)


def moved_by(change: RowChange, rows: Rows) -> Moved:
    """Which rows leave, come and stay."""
    gone, gone_codes, new, new_codes = change.effective(list(range(len(rows.schema))))
    ids, codes = rows.ids(), rows.codes()
    if len(gone):
        stays = np.ones(len(ids), np.bool_)
        stays[np.searchsorted(ids, gone)] = False
        ids, codes = ids[stays], codes[:, stays]
    return Moved(gone, gone_codes, new, new_codes, ids, codes)


@dataclass(frozen=True)
class Why:
    """Finds the pair that decided about a rule, among the agree-sets that came and went."""

    schema: Schema
    came: Tally
    went: Tally

    def __call__(self, rule: Rule) -> Pair | None:
        if not isinstance(rule, Key | Fd):
            return None
        columns = len(self.schema)
        left = mask_of(self.schema.positions(sorted(rule.columns if isinstance(rule, Key) else rule.left)), columns)
        words = left.shape[1]
        for tally in (self.came, self.went):
            agrees = ((tally.sets[:, :words] & left) == left).all(axis=1)
            if isinstance(rule, Fd):
                right = self.schema.positions([rule.right])[0]
                sql = tally.sets.shape[1] > words
                agrees &= has(tally.sets[:, words:], right) if sql else ~has(tally.sets[:, :words], right)
            found = np.flatnonzero(agrees & (tally.pairs >= 0).all(axis=1))
            if len(found):
                t, s = sorted(tally.pairs[found[0]].tolist())
                return t, s
        return None
