"""The denial constraints and order dependencies of one table: a change of rows becomes a change of rules."""

from __future__ import annotations

import numpy as np

from holdfast.arrays import Array, Arrays
from holdfast.discovery.agree_set import Moved, Tally
from holdfast.discovery.budget import Budget
from holdfast.discovery.denial import DenialRules
from holdfast.discovery.evidence import Evidence
from holdfast.discovery.order import OrderRules
from holdfast.discovery.space import Space, cross_pairs
from holdfast.discovery.wanted import Wanted
from holdfast.executors.executor import Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.rules.change import Pair
from holdfast.rules.masks import Masks, Numbers, mask_of
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare
from holdfast.rules.rule import Dc, Order, Rule, as_dc
from holdfast.rules.ruleset import RuleSet
from holdfast.table.schema import Schema

SPACE = "space"  # the pairs of columns that are compared


class EvidenceRules:
    """Which columns are compared with each other is decided when the first rows come, and stays."""

    def __init__(
        self, schema: Schema, wanted: Wanted, executor: Executor | None = None, *, table: str | None = None
    ) -> None:
        self._schema, self._wanted, self._executor = schema, wanted, executor or ThreadExecutor()
        self._table = table
        self.rules = RuleSet()
        self.evidence: Evidence | None = None
        self._dc: DenialRules | None = None
        self._order: OrderRules | None = None
        self.came = self.went = Tally.nothing(1)
        self._lacked: list[tuple[Masks, Numbers]] | None = None  # by these pairs, once somebody asks

    def run_on(self, executor: Executor | None) -> None:
        """Where large changes are worked on from now on."""
        self._executor = executor or ThreadExecutor()
        if self.evidence is not None:
            self.evidence.executor = self._executor

    def _begin(self, pairs: list[tuple[int, int]]) -> Evidence:
        space = Space.of(self._schema, self._wanted.nulls, pairs if "dc" in self._wanted.kinds else ())
        self.evidence = Evidence(space, self._executor)
        if "dc" in self._wanted.kinds:
            self._dc = DenialRules(space, self._wanted.sizes["dc"], self._wanted.max_error)
        if "order" in self._wanted.kinds:
            self._order = OrderRules(space, self._wanted.sizes["order"], self._wanted.max_error)
        return self.evidence

    @property
    def strategy(self) -> str:
        """How the rules are followed, in words."""
        return "no rows yet" if self.evidence is None else f"{len(self.evidence):,} kinds of pairs, counted"

    def follow(self, moved: Moved, budget: Budget | None = None) -> dict[str, Array]:
        """Brings evidence and rules to the rows after a change; returns what `merge` adds elsewhere."""
        made: dict[str, Array] = {}
        if self.evidence is None:
            if not len(moved.new):
                return made
            pairs = cross_pairs(self._schema, moved.new_codes, self._wanted.cross_columns)
            self._begin(pairs)
            made[SPACE] = np.array(pairs, np.int64).reshape(-1, 2)
        assert self.evidence is not None
        delta = self.evidence.delta(moved)
        self.came, self.went = self.evidence.merge(delta)
        self._lacked = None
        self._invert(len(moved.stay) + len(moved.new), budget)
        return made | {"sets": delta.sets, "counts": delta.counts}

    def _invert(self, rows: int, budget: Budget | None) -> None:
        assert self.evidence is not None
        lacks, counts = self.evidence.lacking()
        for rules in (self._order, self._dc):
            if rules is not None:
                rules.update(lacks, counts, rows, budget)
        blocks = [rules.block(self._table) for rules in (self._order, self._dc) if rules is not None]
        self.rules = RuleSet(tuple(block for block in blocks if len(block)))

    def merge(self, delta: Arrays) -> None:
        """Adds what `follow` returned elsewhere, to the facts only: `settle` follows."""
        if SPACE in delta:
            self._begin([(int(a), int(b)) for a, b in np.asarray(delta[SPACE])])
        if self.evidence is not None and "sets" in delta:
            self.evidence.merge(Tally.counted(delta))

    def settle(self, rows: int) -> None:
        """Brings the rules to the evidence."""
        if self.evidence is not None:
            self._invert(rows, None)

    def to_arrays(self, delta: Arrays | None = None) -> dict[str, Array]:
        """The facts, as a delta from nothing; or as they were before a delta that was the last."""
        if self.evidence is None or (delta is not None and SPACE in delta):
            return {"nothing": np.zeros(0)}
        compared = [(c.left, c.right) for c in self.evidence.space.comparisons if c.left < c.right]
        made: dict[str, Array] = {SPACE: np.array(compared, np.int64).reshape(-1, 2)}
        now = Tally.counted(self.evidence.to_arrays())
        before = now - Tally.counted(delta) if delta else now
        return made | {"sets": before.sets, "counts": before.counts}

    def why(self, rule: Rule) -> Pair | None:
        """The pair that decided about a rule with the last change, if it is known: one that came and violates it, or
        one that went and did."""
        if self.evidence is None or not isinstance(rule, Order | Dc):
            return None
        space = self.evidence.space
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
        for lacks, pairs in self._decisive(self.evidence):
            passes = np.flatnonzero(~(lacks & wanted).any(axis=1))
            if len(passes):
                t, s = pairs[passes[0]].tolist()
                return t, s
        return None

    def _decisive(self, evidence: Evidence) -> list[tuple[Masks, Numbers]]:
        """What the pairs lack that came and that went with the last change, in both orientations, and these pairs."""
        if self._lacked is None:
            self._lacked = []
            for tally in (self.came, self.went):
                known = tally.where(np.flatnonzero((tally.pairs >= 0).all(axis=1)))
                mirror = evidence.space.mirrored(known.sets)
                self._lacked.append((evidence.space.lacks(known.sets), known.pairs))
                self._lacked.append((evidence.space.lacks(mirror), known.pairs[:, ::-1]))
        return self._lacked
