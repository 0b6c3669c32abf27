"""All minimal denial constraints of a table, kept true to its evidence (IncDC).

A set of weak atoms is a valid constraint iff it has an atom that each pair lacks, in both orientations. So the minimal
constraints are the minimal covers of what pairs lack that are not trivial: no comparison with all of its atoms, and no
contradiction through several columns. They come in mirror images, of which the one with the smaller text is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.dc.predicate_space import WEAK, Bits, PredicateSpace
from holdfast.discovery.hitting_sets.border import Border
from holdfast.discovery.hitting_sets.minimal import Groups, followed, reduced
from holdfast.discovery.hitting_sets.weighted import WeightedEdges
from holdfast.executors.executor import Cancelled
from holdfast.rules.implication import is_satisfiable
from holdfast.rules.limit import most_within
from holdfast.rules.masks import Masks, Numbers, full, none, numbered, pack, unpack
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare
from holdfast.rules.rule_block import NO_CONCLUSION, RuleBlock

_AT_ONCE = 1 << 16  # constraints that are told between looks at the clock
_ASKED = 256  # whether they can be violated, between looks at the clock
_SHORTEST_CYCLE = 4  # comparisons: t.a, s.a, t.b, s.b


@dataclass
class DenialRules:
    """The constraints of one table; `most` limits the compared pairs of columns. Up to `max_error` of the ordered pairs
    may violate a constraint."""

    KIND: ClassVar[str] = "dc"
    space: PredicateSpace
    most: int | None = None
    max_error: float = 0.0
    covers: Masks = field(init=False)
    _edges: Masks | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.covers = none(len(self.space.atoms))
        self._groups = Groups(self.space.group_of, self.most)
        self._border = Border(len(self.space.atoms), groups=self._groups) if self.max_error else None
        self._pairs = 0

    def update(self, lacks: Masks, counts: Numbers, rows: int, budget: Budget | None = None) -> None:
        """Brings the constraints to so many rows: what their pairs lack, in both orientations, and how many pairs."""
        budget = budget or Budget()
        atoms, self._pairs = len(self.space.atoms), rows * (rows - 1)
        if rows < 2:
            self.covers, self._edges = none(atoms), None
            return
        try:
            if self._border is not None:
                self._search_nearly(self._border, lacks, counts, budget)
            else:
                self._search(reduced(lacks, self._groups, budget), budget)
        except Cancelled:
            self.covers, self._edges = none(atoms), None

    def _search(self, edges: Masks, budget: Budget) -> None:
        atoms = len(self.space.atoms)
        self.covers = followed(self.covers, self._edges, edges, atoms, groups=self._groups, budget=budget)
        self._edges = None if budget.spent() else edges

    def _search_nearly(self, border: Border, lacks: Masks, counts: Numbers, budget: Budget) -> None:
        """Finds the constraints that most pairs obey."""
        atoms, most = len(self.space.atoms), most_within(self.max_error, self._pairs)
        border.update(WeightedEdges(lacks, counts, atoms, most, full(atoms), budget), budget)
        self.covers = border.good

    def claims(self) -> Masks:
        """The conjunctions that no pair satisfies if the constraints hold; no contradictions, which none ever does."""
        return self.covers[self._satisfiable(self.space.in_weak(self.covers))]

    def keep(self, proven: Callable[[Masks], Bits]) -> None:
        """Only those whose claim is proven: time was up for the others."""
        self.covers, self._edges = self.covers[proven(self.covers)], None

    def block(self, table: str | None, budget: Budget | None = None) -> tuple[RuleBlock, bool]:
        """The rules, with their errors where they may have some, and whether these are all that were found before the
        budget was spent."""
        atoms, done = len(self.space.atoms), 0
        parts = [none(atoms)]
        while done < len(self.covers) and (done == 0 or budget is None or not budget.spent()):
            parts.append(self._canonical(self.covers[done : done + _AT_ONCE]))
            done += _AT_ONCE
        covers, numbers = numbered(np.concatenate(parts))
        kept, words = np.zeros(len(covers), np.bool_), [none(len(self._vocabulary))]
        told = 0
        while told < len(covers) and (told == 0 or budget is None or not budget.spent()):
            made = self.space.in_weak(covers[told : told + _AT_ONCE])
            kept[told : told + _AT_ONCE] = chosen = self._satisfiable(made, budget)
            words.append(pack(made[chosen]))
            told += _AT_ONCE
        errors = None
        if self._border is not None and self._pairs:
            errors = np.zeros(len(covers))
            errors[numbers] = self._border.missed[: len(numbers)] / self._pairs
            errors = errors[kept]
        ends, names = np.full(int(kept.sum()), NO_CONCLUSION, np.int32), self.space.schema.names
        whole = done >= len(self.covers) and told >= len(covers) and (budget is None or budget.ended is None)
        return RuleBlock("dc", table, self._vocabulary, np.concatenate(words), ends, names=names, errors=errors), whole

    @cached_property
    def _vocabulary(self) -> tuple[Compare, ...]:
        """Three weak operators for each comparison."""
        names = self.space.schema.names
        sides = [(Cell("t", names[c.left]), Cell("s", names[c.right])) for c in self.space.comparisons]
        return tuple(Compare(t, op, s) for t, s in sides for op in WEAK)

    def _canonical(self, covers: Masks) -> Masks:
        """Of each two mirror images the one with the smaller text."""
        bits = unpack(covers, len(self.space.atoms))
        mirror = bits[:, self.space.mirror_atoms]
        crossed = bits[:, [self.space.is_crossed(i) for i, _ in self.space.atoms]].any(axis=1)
        smaller = self._begins_greater(bits)
        mine, theirs = (self._text_order(some[crossed]) for some in (bits, mirror))
        differ = mine != theirs
        rows, first = np.arange(len(mine)), differ.argmax(axis=1)
        smaller[crossed] = differ.any(axis=1) & (theirs[rows, first] < mine[rows, first])
        bits[smaller] = mirror[smaller]
        return pack(bits)

    def _begins_greater(self, bits: Bits) -> Bits:
        """Which rules, of comparisons of columns with themselves, begin with `>` or `>=` where the mirror image has `<`
        or `<=`: the text of that is smaller."""
        names, places = self.space.schema.names, {atom: place for place, atom in enumerate(self.space.atoms)}
        own = [i for i, c in enumerate(self.space.comparisons) if c.ordered and not self.space.is_crossed(i)]
        own = sorted(own, key=lambda i: names[self.space.comparisons[i].left])
        less, greater = (bits[:, [places[i, op] for i in own]] for op in (Op.LE, Op.GE))
        if not own:
            return np.zeros(len(bits), np.bool_)
        lopsided = less ^ greater
        first = lopsided.argmax(axis=1)
        return np.asarray((lopsided & greater)[np.arange(len(bits)), first], np.bool_)

    def _text_order(self, bits: Bits) -> Numbers:
        """For each rule the ranks of its predicates' texts, in the order of the text, then zeros."""
        names, space = self.space.schema.names, self.space
        comparisons = [(names[c.left], names[c.right]) for c in space.comparisons]
        texts = {
            (i, op): str(Compare(Cell("t", a), op, Cell("s", b))) for i, (a, b) in enumerate(comparisons) for op in Op
        }
        rank = {text: place for place, text in enumerate(sorted(texts.values()), start=1)}
        found = np.zeros((len(bits), len(comparisons)), np.int64)
        weights = np.zeros((len(comparisons), len(space.atoms)), np.int64)
        for atom, (i, op) in enumerate(space.atoms):
            weights[i, atom] = 3 if op is Op.EQ else {Op.LE: 1, Op.GE: 2, Op.NE: 4}[op]
        sums = bits.astype(np.int64) @ weights.T
        by_sum = {1: Op.LE, 2: Op.GE, 4: Op.NE, 3: Op.EQ, 5: Op.LT, 6: Op.GT}
        for i in range(len(comparisons)):
            of_sum = np.zeros(8, np.int64)
            for total, op in by_sum.items():
                of_sum[total] = rank[texts[i, op]]
            found[:, i] = of_sum[sums[:, i]]
        found = found[:, sorted(range(len(comparisons)), key=lambda i: comparisons[i])]
        order = np.argsort(found == 0, axis=1, kind="stable")
        return np.take_along_axis(found, order, axis=1)

    def _satisfiable(self, made: Bits, budget: Budget | None = None) -> Bits:
        """Which rules some values would violate; of those that there is no time to ask, none. Comparisons contradict
        each other only around a cycle of cells, which is the same question for all rules with the same comparisons."""
        chosen = np.ones(len(made), np.bool_)
        crossed = [self.space.is_crossed(i) for i in range(len(self.space.comparisons))]
        if not any(crossed):
            return chosen
        compared: Bits = np.asarray(made.reshape(len(made), len(crossed), len(WEAK)).any(axis=2))
        doubtful = np.flatnonzero((compared.sum(axis=1) >= _SHORTEST_CYCLE) & compared[:, crossed].any(axis=1))
        shapes, numbers = numbered(pack(compared[doubtful]))
        cyclic = np.array([self._has_cycle(np.flatnonzero(shape)) for shape in unpack(shapes, compared.shape[1])], bool)
        asked = doubtful[cyclic[numbers]].tolist()
        for place, row in enumerate(asked):
            if place % _ASKED == 0 and budget is not None and budget.spent():
                chosen[asked[place:]] = False
                break
            chosen[row] = is_satisfiable([self._vocabulary[i] for i in np.flatnonzero(made[row])])
        return chosen

    def _has_cycle(self, comparisons: Numbers) -> bool:
        """Whether the cells of t and of s that are compared lie on a cycle."""
        leader: dict[tuple[str, int], tuple[str, int]] = {}

        def first(cell: tuple[str, int]) -> tuple[str, int]:
            while leader.setdefault(cell, cell) != cell:
                cell = leader[cell]
            return cell

        for i in comparisons.tolist():
            t, s = first(("t", self.space.comparisons[i].left)), first(("s", self.space.comparisons[i].right))
            if t == s:
                return True
            leader[t] = s
        return False
