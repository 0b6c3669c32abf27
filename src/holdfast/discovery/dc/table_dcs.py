"""The denial constraints and order dependencies of one table: a change of rows becomes a change of rules."""

from __future__ import annotations

import os

import numpy as np

from holdfast.arrays import Array, Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.dc.denial import DenialRules
from holdfast.discovery.dc.evidence import Evidence, expected_clues
from holdfast.discovery.dc.lean import LeanEvidence
from holdfast.discovery.dc.order import OrderRules
from holdfast.discovery.dc.predicate_space import PredicateSpace, cross_pairs
from holdfast.discovery.pair_sets import Tally
from holdfast.discovery.search_options import SearchOptions
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

SPACE = "space"  # the pairs of columns that are compared
_PAIRS_PER_SECOND, _SECONDS = 300e6, 60  # of one core, and how long counting may take
MAX_EVIDENCE_PAIRS = _PAIRS_PER_SECOND * _SECONDS * (os.cpu_count() or 1)  # of a change
_INVERTING = 0.5  # of the time that is left, where evidence is lean
MAX_CLUES = 30_000_000  # some gigabytes


class TableDcs:
    """Which columns are compared with each other is decided when the first rows come, and stays. All pairs are counted
    while a change has at most `most_pairs`; beyond, evidence is lean, unless that was settled."""

    def __init__(
        self,
        schema: Schema,
        options: SearchOptions,
        executor: Executor | None = None,
        *,
        table: str | None = None,
        most_pairs: float | None = None,
    ) -> None:
        self._schema, self._options, self._executor = schema, options, executor or ThreadExecutor()
        self._table, self._most_pairs = table, MAX_EVIDENCE_PAIRS if most_pairs is None else most_pairs
        self.rules = RuleSet()
        self.space: PredicateSpace | None = None
        self.counted: Evidence | None = None
        self.lean: LeanEvidence | None = None
        self._kinds: list[OrderRules | DenialRules] = []
        self.unfinished: dict[str, str] = {}  # the kinds that a budget ended, and why
        self.came = self.went = Tally.nothing(1)
        self._lacked: list[tuple[Masks, Numbers]] | None = None  # by these pairs, once somebody asks

    def run_on(self, executor: Executor | None) -> None:
        """Where large changes are worked on from now on."""
        self._executor = executor or ThreadExecutor()
        for facts in (self.counted, self.lean):
            if facts is not None:
                facts.executor = self._executor

    def _begin(self, pairs: list[tuple[int, int]]) -> PredicateSpace:
        options = self._options
        self.space = PredicateSpace.of(self._schema, options.nulls, pairs if "dc" in options.kinds else ())
        self.counted = Evidence(self.space, self._executor)
        if "order" in options.kinds:
            self._kinds.append(OrderRules(self.space, options.sizes["order"], options.max_error))
        if "dc" in options.kinds:
            self._kinds.append(DenialRules(self.space, options.sizes["dc"], options.max_error))
        return self.space

    def _give_up_counts(self, space: PredicateSpace) -> None:
        self.counted, self.lean = None, LeanEvidence(space, self._executor)

    def _is_too_much(self, change: RowChange, space: PredicateSpace, budget: Budget | None) -> bool:
        """Whether not all pairs should be counted, for time or for memory."""
        if self._options.evidence != "auto" or self._options.max_error:
            return self._options.evidence == "lean"
        clues = max(expected_clues(space, change.added_codes, budget), 0 if self.counted is None else len(self.counted))
        return change.pairs > self._most_pairs or clues > MAX_CLUES

    @property
    def strategy(self) -> str:
        """How the rules are followed, in words."""
        if self.lean is not None:
            return f"{len(self.lean):,} kinds of pairs with a pair each"
        return "no rows yet" if self.counted is None else f"{len(self.counted):,} kinds of pairs, counted"

    def update(self, change: RowChange, budget: Budget | None = None) -> dict[str, Array]:
        """Brings evidence and rules to the rows after a change; returns what `merge` adds elsewhere."""
        made: dict[str, Array] = {}
        if self.space is None:
            if not len(change.added):
                return made
            pairs = cross_pairs(self._schema, change.added_codes, self._options.cross_columns, budget)
            self._begin(pairs)
            made[SPACE] = np.array(pairs, np.int64).reshape(-1, 2)
        assert self.space is not None
        rows = len(change.kept) + len(change.added)
        if self.counted is not None and self._is_too_much(change, self.space, budget):
            self._give_up_counts(self.space)
        self._lacked = None
        if self.lean is not None:
            return made | self._update_lean(self.lean, change, budget or Budget())
        assert self.counted is not None
        delta = self.counted.delta(change, budget)
        self.came, self.went = self.counted.merge(delta, budget)
        self._invert(*self.counted.lacking(budget), rows, budget or Budget())
        self._tell(budget)
        return made | {"sets": delta.sets, "counts": delta.counts}

    def _update_lean(self, lean: LeanEvidence, change: RowChange, budget: Budget) -> dict[str, Array]:
        self.came, self.went = lean.update(change, lambda lacks, rows: self._standing(lacks, rows, budget), budget)
        if budget.ended or self.unfinished:
            proven = np.concatenate([lean.proven, lean.space.mirrored_atoms(lean.proven)])
            for rules in self._kinds:
                rules.keep(lambda claims: among(claims, proven))
                if budget.ended:  # before or while it was looked whether what stands holds
                    self.unfinished[rules.KIND] = budget.ended
        self._tell(budget)
        return lean.to_arrays()

    def _standing(self, lacks: Masks, rows: int, budget: Budget) -> Masks:
        """What has to hold if pairs lack nothing else; half of the time is for looking whether it does."""
        self._invert(lacks, np.ones(len(lacks), np.int64), rows, budget.part(_INVERTING))
        return np.concatenate([rules.claims() for rules in self._kinds])

    def _invert(self, lacks: Masks, counts: Numbers, rows: int, budget: Budget) -> None:
        """Each kind in its share of the time that is left, so that one of them does not take the time of the other."""
        self.unfinished = {}
        for number, rules in enumerate(self._kinds):
            mine = budget.part(1 / (len(self._kinds) - number))
            rules.update(lacks, counts, rows, mine)
            if mine.ended:
                self.unfinished[rules.KIND] = mine.ended

    def _tell(self, budget: Budget | None = None) -> None:
        """Tells the rules. What the search left too little time for is not among them."""
        blocks, telling = [], (budget or Budget()).grace()
        for rules in self._kinds:
            block, whole = rules.block(self._table, telling)
            blocks += [block] if len(block) else []
            if not whole:
                self.unfinished.setdefault(rules.KIND, str(telling.ended))
        self.rules = RuleSet(tuple(blocks))

    def merge(self, delta: Arrays) -> None:
        """Adds what `follow` returned elsewhere, to the facts only: `restore` follows."""
        if SPACE in delta:
            self._begin([(int(a), int(b)) for a, b in np.asarray(delta[SPACE])])
        if self.space is None:
            return
        if LeanEvidence.CLUES in delta:
            self._give_up_counts(self.space)
            assert self.lean is not None
            self.lean.load(delta)
        elif self.counted is not None and "sets" in delta:
            self.counted.merge(Tally.counted(delta))

    def restore(self, rows: int) -> None:
        """Brings the rules to the evidence."""
        if self.lean is not None:
            self.lean.restore(lambda lacks, rows: self._standing(lacks, rows, Budget()), rows)
        elif self.counted is not None:
            self._invert(*self.counted.lacking(), rows, Budget())
        self._tell()

    def to_arrays(self) -> dict[str, Array]:
        """The facts, as a delta from nothing."""
        if self.space is None:
            return {"nothing": np.zeros(0)}
        compared = [(c.left, c.right) for c in self.space.comparisons if c.left < c.right]
        made: dict[str, Array] = {SPACE: np.array(compared, np.int64).reshape(-1, 2)}
        if self.lean is not None:
            return made | self.lean.to_arrays()
        assert self.counted is not None
        return made | self.counted.to_arrays()

    def why(self, rule: Rule) -> Pair | None:
        """The pair that decided about a rule with the last change, if it is known: one that came and violates it, or
        one that went and did."""
        space = self.space
        if space is None or not isinstance(rule, Order | Dc):
            return None
        places = {
            (space.comparisons[i].left, space.comparisons[i].right, op): n for n, (i, op) in enumerate(space.atoms)
        }
        names = {name: i for i, name in enumerate(space.schema.names)}
        needed = []
        for p in as_dc(rule).written:
            assert isinstance(p, Compare)
            assert isinstance(p.right, Cell)
            sides = names[p.left.column], names[p.right.column]
            ops = [op for op in (Op.EQ, Op.LE, Op.GE, Op.NE) if p.op.implies(op) and (*sides, op) in places]
            needed += [places[*sides, op] for op in ops]
        wanted = mask_of(needed, len(space.atoms))
        for lacks, pairs in self._decisive(space):
            passes = np.flatnonzero(~(lacks & wanted).any(axis=1))
            if len(passes):
                t, s = pairs[passes[0]].tolist()
                return t, s
        return None

    def _decisive(self, space: PredicateSpace) -> list[tuple[Masks, Numbers]]:
        """What the pairs lack that came and that went with the last change, in both orientations, and these pairs."""
        if self._lacked is None:
            self._lacked = []
            for tally in (self.came, self.went):
                known = tally.where(np.flatnonzero((tally.pairs >= 0).all(axis=1)))
                mirror = space.mirrored(known.sets)
                self._lacked.append((space.lacks(known.sets), known.pairs))
                self._lacked.append((space.lacks(mirror), known.pairs[:, ::-1]))
        return self._lacked
