"""The denial constraints and order dependencies of one table under change."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from holdfast.arrays import Array, Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.dc.denial import DenialRules
from holdfast.discovery.dc.evidence import Evidence, expected_clues
from holdfast.discovery.dc.lean import LeanEvidence
from holdfast.discovery.dc.order import OrderRules
from holdfast.discovery.pair_sets import Tally
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.witness.orders import MEMORY
from holdfast.discovery.witness.predicate_space import PredicateSpace, cross_pairs
from holdfast.discovery.witness.sorted_search import COMPARED
from holdfast.executors.executor import Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.rules.change import Pair
from holdfast.rules.masks import Masks, Numbers, among, mask_of
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare
from holdfast.rules.rule import Dc, Order, Rule, as_dc
from holdfast.rules.ruleset import RuleSet
from holdfast.table.row_change import RowChange
from holdfast.table.schema import Schema

SPACE = "space"  # the fact that has the pairs of different columns that are compared
_PAIRS_PER_SECOND, _SECONDS = 300e6, 60  # of one core, and the time that counting may take
MAX_EVIDENCE_PAIRS = _PAIRS_PER_SECOND * _SECONDS * (os.cpu_count() or 1)  # pairs of a change that are counted at most
MAX_CLUES = 30_000_000  # that are counted at most: a few gigabytes
_TALL, _ROWS_PER_CLUE = 15_000, 30  # rows, and rows for each kind of pairs, from which on witnesses are found sooner
_MANY_PAIRS, _PAIRS_PER_CLAIM = 2e8, 5e5  # of rows that never change: with fewer, counting them takes less than proving
_WHOLE_SEARCH = 0.7  # share of a kind's time for rules of all sizes; if that is too little, the rest is for small rules
_LEAST_TRIAL = 1.0  # second for deriving rules from the first sample, if counting all pairs is the alternative
_DERIVING = 0.5  # share of the time for deriving rules from lean evidence; the rest is for proving them


class _TooManyClaims(Exception):
    """A sample of the pairs leaves so many claims that counting all pairs is faster."""


class TableDcs:
    """The rules of one table. Its facts are the evidence.

    The first rows decide which different columns are compared, once and for all. All pairs are counted as long as that
    is faster than a search for witnesses, and no change has more than `most_pairs`; after that evidence is lean, unless
    the options say otherwise. `static`: the rows never change after the first ones.
    """

    def __init__(
        self,
        schema: Schema,
        options: SearchOptions,
        executor: Executor | None = None,
        *,
        table: str | None = None,
        most_pairs: float | None = None,
        most_compared: int = COMPARED,
        memory: int = MEMORY,
        static: bool = False,
    ) -> None:
        self._schema, self._options, self._executor = schema, options, executor or ThreadExecutor()
        self._table, self._most_pairs = table, MAX_EVIDENCE_PAIRS if most_pairs is None else most_pairs
        self._most_compared, self._memory, self._is_static = most_compared, memory, static
        self._most_claims: float | None = None  # that the first sample may leave
        self.rules = RuleSet()
        self.space: PredicateSpace | None = None
        self.counted: Evidence | None = None
        self.lean: LeanEvidence | None = None
        self._kinds: list[OrderRules | DenialRules] = []
        self.unfinished: dict[str, str] = {}  # the kinds that a budget ended, and why
        self.complete_up_to: dict[str, int] = {}  # of these kinds, the size up to which all rules are found
        self.added = self.removed = Tally.nothing(1)  # clues, by the last change
        self._lacked: list[tuple[Masks, Numbers]] | None = None  # atoms that their pairs lack, computed on demand

    def run_on(self, executor: Executor | None) -> None:
        """Sets the executor of large changes."""
        self._executor = executor or ThreadExecutor()
        for facts in (self.counted, self.lean):
            if facts is not None:
                facts.executor = self._executor

    def _begin(self, pairs: list[tuple[int, int]]) -> PredicateSpace:
        """Sets the predicate space; `pairs`: different columns that are compared."""
        options = self._options
        self.space = PredicateSpace.of(self._schema, options.nulls, pairs if "dc" in options.kinds else ())
        self.counted, self.lean, self._kinds = Evidence(self.space, self._executor), None, []
        if "order" in options.kinds:
            self._kinds.append(OrderRules(self.space, options.sizes["order"], options.max_error))
        if "dc" in options.kinds:
            self._kinds.append(DenialRules(self.space, options.sizes["dc"], options.max_error))
        return self.space

    def _give_up_counts(self, space: PredicateSpace) -> None:
        """Turns to lean evidence."""
        lean = LeanEvidence(space, self._executor, self._memory, self._most_compared)
        self.counted, self.lean = None, lean

    def _is_too_much(self, change: RowChange, space: PredicateSpace, budget: Budget | None) -> bool:
        """Whether counting all pairs takes too much time or memory, or more time than the search for witnesses, whose
        claims are about as many as the kinds of pairs."""
        if self._options.evidence != "auto" or self._options.max_error:
            return self._options.evidence == "lean"
        clues = max(expected_clues(space, change.added_codes, budget), 0 if self.counted is None else len(self.counted))
        if change.pairs > self._most_pairs or clues > MAX_CLUES:
            return True
        rows = change.rows_after
        return rows > _TALL and rows > _ROWS_PER_CLUE * clues

    @property
    def strategy(self) -> str:
        """The strategy, in words."""
        if self.lean is not None:
            return self.lean.strategy
        return "no rows yet" if self.counted is None else f"{len(self.counted):,} kinds of pairs, counted"

    def update(self, change: RowChange, budget: Budget | None = None) -> dict[str, Array]:
        """Updates facts and rules to the rows after a change. Returns the facts that were added, for `merge`
        elsewhere."""
        facts: dict[str, Array] = {}
        if self.space is None:
            if not len(change.added):
                return facts
            pairs = cross_pairs(self._schema, change.added_codes, self._options.cross_columns, budget)
            self._begin(pairs)
            facts[SPACE] = np.array(pairs, np.int64).reshape(-1, 2)
        assert self.space is not None
        rows = change.rows_after
        if self.counted is not None and self._is_too_much(change, self.space, budget):
            self._give_up_counts(self.space)
        self._lacked = None
        if self._may_be_lean(change):
            try:
                return facts | self._first_lean(change, self.space, budget or Budget())
            except _TooManyClaims:
                self._begin(_compared_pairs(self.space))
        if self.lean is not None:
            return facts | self._update_lean(self.lean, change, budget or Budget())
        assert self.counted is not None
        delta = self.counted.delta(change, budget)
        self.added, self.removed = self.counted.merge(delta, budget)
        self._derive(*self.counted.lacking(budget), rows, budget or Budget(), by_size=True)
        self._set_rules(budget)
        return facts | {"sets": delta.sets, "counts": delta.counts}

    def _may_be_lean(self, change: RowChange) -> bool:
        """Whether these are the only rows that will ever be, and searching witnesses might be faster than counting."""
        is_first = self.counted is not None and not len(self.counted)
        is_asked = self._options.evidence == "auto" and not self._options.max_error
        return self._is_static and is_first and is_asked and change.pairs > _MANY_PAIRS

    def _first_lean(self, change: RowChange, space: PredicateSpace, budget: Budget) -> dict[str, Array]:
        """Lean evidence of the first rows. Raises `_TooManyClaims` if counting is faster."""
        self._give_up_counts(space)
        self._most_claims = change.pairs / _PAIRS_PER_CLAIM
        assert self.lean is not None
        return self._update_lean(self.lean, change, budget)

    def _update_lean(self, lean: LeanEvidence, change: RowChange, budget: Budget) -> dict[str, Array]:
        self.added, self.removed = lean.update(change, lambda lacks, rows: self._claims(lacks, rows, budget), budget)
        if budget.ended or self.unfinished:
            lean.forget_claims()
            proven = np.concatenate([lean.proven, lean.space.mirrored_atoms(lean.proven)])
            for rules in self._kinds:
                rules.keep(lambda claims: among(claims, proven))
                if budget.ended:  # before or while claims were proven
                    self.unfinished[rules.KIND] = budget.ended
        self._set_rules(budget)
        return lean.to_arrays()

    def _claims(self, lacks: Masks, rows: int, budget: Budget) -> Masks:
        """The claims of the rules that follow from the sets of atoms that pairs lack."""
        is_trial = self._most_claims is not None
        counting = rows * rows / 2 / _PAIRS_PER_SECOND
        deriving = budget.at_most(max(_LEAST_TRIAL, counting)) if is_trial else budget.part(_DERIVING)
        self._derive(lacks, np.ones(len(lacks), np.int64), rows, deriving)
        claims = np.concatenate([rules.claims() for rules in self._kinds])
        most, self._most_claims = self._most_claims, None
        if most is not None and (len(claims) > most or self.unfinished):
            raise _TooManyClaims
        return claims

    def _derive(self, lacks: Masks, counts: Numbers, rows: int, budget: Budget, *, by_size: bool = False) -> None:
        """Derives the rules of each kind from the sets of atoms that pairs lack, in its share of the time. `by_size`:
        if that is too little for all sizes, all rules of the smallest sizes."""
        self.unfinished, self.complete_up_to = {}, {}
        for number, rules in enumerate(self._kinds):
            kind_budget = budget.part(1 / (len(self._kinds) - number))
            searching = kind_budget.part(_WHOLE_SEARCH) if by_size else kind_budget
            rules.update(lacks, counts, rows, searching)
            if searching.ended:
                self.unfinished[rules.KIND] = searching.ended
            if searching.ended and by_size and not self._options.max_error:
                self.complete_up_to[rules.KIND] = _complete_sizes(rules, lacks, counts, rows, kind_budget)

    def _set_rules(self, budget: Budget | None = None) -> None:
        """Converts the rules to a rule set, as far as time allows."""
        blocks, grace = [], (budget or Budget()).grace()
        for rules in self._kinds:
            block, whole = rules.block(self._table, grace)
            blocks += [block] if len(block) else []
            if not whole:
                self.complete_up_to.pop(rules.KIND, None)
                self.unfinished.setdefault(rules.KIND, str(grace.ended))
        self.rules = RuleSet(tuple(blocks))

    def merge(self, delta: Arrays) -> None:
        """Adds facts that `update` returned in another process. Call `restore` afterwards to derive the rules."""
        if SPACE in delta:
            self._begin([(int(a), int(b)) for a, b in np.asarray(delta[SPACE])])
        if self.space is None:
            return
        if LeanEvidence.CLUES in delta:
            self._give_up_counts(self.space)
            assert self.lean is not None
            self.lean.load(delta)
        elif self.counted is not None and "sets" in delta:
            self.counted.merge(Tally.without_pairs(delta))

    def restore(self, rows: int) -> None:
        """Derives the rules from the evidence."""
        if self.lean is not None:
            self.lean.restore(lambda lacks, rows: self._claims(lacks, rows, Budget()), rows)
        elif self.counted is not None:
            self._derive(*self.counted.lacking(), rows, Budget())
        self._set_rules()

    def to_arrays(self) -> dict[str, Array]:
        """All facts, in the form that `merge` takes."""
        if self.space is None:
            return {"nothing": np.zeros(0)}
        compared = _compared_pairs(self.space)
        facts: dict[str, Array] = {SPACE: np.array(compared, np.int64).reshape(-1, 2)}
        if self.lean is not None:
            return facts | self.lean.to_arrays()
        assert self.counted is not None
        return facts | self.counted.to_arrays()

    def why(self, rule: Rule) -> Pair | None:
        """The pair that decided about a rule in the last change, if known: an added pair that violates it, or a removed
        pair that did."""
        space = self.space
        if space is None or not isinstance(rule, Order | Dc):
            return None
        places = {
            (space.comparisons[i].left, space.comparisons[i].right, op): n for n, (i, op) in enumerate(space.atoms)
        }
        names = {name: i for i, name in enumerate(space.schema.names)}
        forbidden = []
        for p in as_dc(rule).written:
            assert isinstance(p, Compare)
            assert isinstance(p.right, Cell)
            sides = names[p.left.column], names[p.right.column]
            ops = [op for op in (Op.EQ, Op.LE, Op.GE, Op.NE) if p.op.implies(op) and (*sides, op) in places]
            forbidden += [places[*sides, op] for op in ops]
        conjunction = mask_of(forbidden, len(space.atoms))
        for lacks, pairs in self._decisive(space):
            passes = np.flatnonzero(~(lacks & conjunction).any(axis=1))
            if len(passes):
                t, s = pairs[passes[0]].tolist()
                return t, s
        return None

    def _decisive(self, space: PredicateSpace) -> list[tuple[Masks, Numbers]]:
        """(sets of atoms that pairs lack, these pairs) of added and of removed pairs, in both orientations."""
        if self._lacked is None:
            self._lacked = []
            for tally in (self.added, self.removed):
                witnessed = tally.where(np.flatnonzero((tally.pairs >= 0).all(axis=1)))
                mirror = space.mirrored(witnessed.sets)
                self._lacked.append((space.lacks(witnessed.sets), witnessed.pairs))
                self._lacked.append((space.lacks(mirror), witnessed.pairs[:, ::-1]))
        return self._lacked


def _compared_pairs(space: PredicateSpace) -> list[tuple[int, int]]:
    """The pairs of different columns that are compared."""
    return [(c.left, c.right) for c in space.comparisons if c.left < c.right]


def _complete_sizes(rules: OrderRules | DenialRules, lacks: Masks, counts: Numbers, rows: int, budget: Budget) -> int:
    """Adds all rules of the smallest sizes, as far as time allows, to those that a search found before its time ran
    out. Returns the size up to which all are found."""
    most, size = rules.most, 0
    complete: list[Any] = [rules.found]  # in the form of each kind
    while not budget.spent() and (most is None or size < most):
        rules.limit(size + 1)
        rules.update(lacks, counts, rows, budget)
        complete.append(rules.found)
        size += budget.ended is None
    rules.limit(most)
    rules.take(complete)
    return size
