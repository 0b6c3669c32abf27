"""All minimal denial constraints of a table, kept true to its evidence (IncDC).

A set of weak atoms is a valid constraint iff every pair, in both orientations, lacks one of its atoms. So the minimal
constraints are the minimal hitting sets of the sets of atoms that pairs lack, without trivial ones: those with all
atoms of a comparison, and contradictions through several columns. Of two mirror images the one with the smaller text is
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget
from holdfast.discovery.hitting_sets.border import Border
from holdfast.discovery.hitting_sets.minimal import Groups, equivalent_edges, updated_hitting_sets
from holdfast.discovery.hitting_sets.weighted import WeightedEdges
from holdfast.discovery.witness.predicate_space import WEAK, PredicateSpace
from holdfast.executors.executor import Cancelled
from holdfast.rules.implication import is_satisfiable
from holdfast.rules.limit import most_within
from holdfast.rules.masks import Masks, Numbers, distinct, full, none, numbered, pack, unpack
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare
from holdfast.rules.rule_block import NO_CONCLUSION, RuleBlock

_AT_ONCE = 1 << 16  # constraints that are converted between budget checks
_ASKED = 256  # constraints whose satisfiability is decided between budget checks
_SHORTEST_CYCLE = 4  # comparisons of a cycle of cells: t.a, s.a, t.b, s.b


@dataclass
class DenialRules:
    """The constraints of one table. `most` limits the compared pairs of columns; at most `max_error` of the ordered
    pairs violate a constraint."""

    KIND: ClassVar[str] = "dc"
    space: PredicateSpace
    most: int | None = None
    max_error: float = 0.0
    hitting_sets: Masks = field(init=False)  # sets of atoms: the constraints, in all mirror images
    _edges: Masks | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.hitting_sets = none(len(self.space.atoms))
        self._groups = Groups(self.space.group_of, self.most)
        self._border = Border(len(self.space.atoms), groups=self._groups) if self.max_error else None
        self._pairs = 0

    def update(self, lacks: Masks, counts: Numbers, rows: int, budget: Budget | None = None) -> None:
        """Updates the constraints. `lacks`: sets of atoms that pairs lack, in both orientations; `counts`: how many
        ordered pairs lack each."""
        budget = budget or Budget()
        atoms, self._pairs = len(self.space.atoms), rows * (rows - 1)
        if rows < 2:
            self.hitting_sets, self._edges = none(atoms), None
            return
        try:
            if self._border is not None:
                self._search_nearly(self._border, lacks, counts, budget)
            else:
                self._search(equivalent_edges(lacks, self._groups, budget), budget)
        except Cancelled:
            self.hitting_sets, self._edges = none(atoms), None

    def _search(self, edges: Masks, budget: Budget) -> None:
        atoms = len(self.space.atoms)
        self.hitting_sets = updated_hitting_sets(
            self.hitting_sets, self._edges, edges, atoms, groups=self._groups, budget=budget
        )
        self._edges = None if budget.spent() else edges

    def _search_nearly(self, border: Border, lacks: Masks, counts: Numbers, budget: Budget) -> None:
        """Finds the constraints that most pairs satisfy."""
        atoms, most = len(self.space.atoms), most_within(self.max_error, self._pairs)
        border.update(WeightedEdges(lacks, counts, atoms, most, full(atoms), budget), budget)
        self.hitting_sets = border.good

    def claims(self) -> Masks:
        """The conjunctions that no pair satisfies if the constraints hold, without contradictions."""
        return self.hitting_sets[self._satisfiable(self.space.in_weak(self.hitting_sets))]

    def limit(self, most: int | None) -> None:
        """Limits the compared pairs of columns from now on."""
        self.most, self._edges, self._groups = most, None, Groups(self.space.group_of, most)

    @property
    def found(self) -> Masks:
        """The constraints, for `take`."""
        return self.hitting_sets

    def take(self, several: Sequence[Masks]) -> None:
        """The constraints of several searches, each one once."""
        self.hitting_sets, self._edges = distinct(np.concatenate(several)), None

    def keep(self, proven: Callable[[Masks], Flags]) -> None:
        """Keeps only constraints whose claim is proven, because the time budget ran out."""
        self.hitting_sets, self._edges = self.hitting_sets[proven(self.hitting_sets)], None

    def block(self, table: str | None, budget: Budget | None = None) -> tuple[RuleBlock, bool]:
        """The rules, with errors if `max_error` is set, and whether the budget sufficed for all of them."""
        atoms, done = len(self.space.atoms), 0
        parts = [none(atoms)]
        while done < len(self.hitting_sets) and (done == 0 or budget is None or not budget.spent()):
            parts.append(self._canonical(self.hitting_sets[done : done + _AT_ONCE]))
            done += _AT_ONCE
        constraints, numbers = numbered(np.concatenate(parts))
        kept, words = np.zeros(len(constraints), np.bool_), [none(len(self._vocabulary))]
        converted = 0
        while converted < len(constraints) and (converted == 0 or budget is None or not budget.spent()):
            weak = self.space.in_weak(constraints[converted : converted + _AT_ONCE])
            kept[converted : converted + _AT_ONCE] = chosen = self._satisfiable(weak, budget)
            words.append(pack(weak[chosen]))
            converted += _AT_ONCE
        errors = None
        if self._border is not None and self._pairs:
            errors = np.zeros(len(constraints))
            errors[numbers] = self._border.missed[: len(numbers)] / self._pairs
            errors = errors[kept]
        ends, names = np.full(int(kept.sum()), NO_CONCLUSION, np.int32), self.space.schema.names
        whole = done >= len(self.hitting_sets) and converted >= len(constraints)
        whole = whole and (budget is None or budget.ended is None)
        return RuleBlock("dc", table, self._vocabulary, np.concatenate(words), ends, names=names, errors=errors), whole

    @cached_property
    def _vocabulary(self) -> tuple[Compare, ...]:
        """The predicates of the rules: three weak operators for each comparison."""
        names = self.space.schema.names
        sides = [(Cell("t", names[c.left]), Cell("s", names[c.right])) for c in self.space.comparisons]
        return tuple(Compare(t, op, s) for t, s in sides for op in WEAK)

    def _canonical(self, constraints: Masks) -> Masks:
        """Of each constraint and its mirror image the one with the smaller text."""
        bits = unpack(constraints, len(self.space.atoms))
        mirror = bits[:, self.space.mirror_atoms]
        crossed = bits[:, [self.space.is_crossed(i) for i, _ in self.space.atoms]].any(axis=1)
        smaller = self._begins_greater(bits)
        texts, mirrored = (self._text_order(images[crossed]) for images in (bits, mirror))
        differ = texts != mirrored
        rows, first = np.arange(len(texts)), differ.argmax(axis=1)
        smaller[crossed] = differ.any(axis=1) & (mirrored[rows, first] < texts[rows, first])
        bits[smaller] = mirror[smaller]
        return pack(bits)

    def _begins_greater(self, bits: Flags) -> Flags:
        """Which rules have `>` or `>=` in the first predicate that is not its own mirror image, so that the mirror
        image has the smaller text. For comparisons of columns with themselves."""
        names, places = self.space.schema.names, {atom: place for place, atom in enumerate(self.space.atoms)}
        own = [i for i, c in enumerate(self.space.comparisons) if c.ordered and not self.space.is_crossed(i)]
        own = sorted(own, key=lambda i: names[self.space.comparisons[i].left])
        less, greater = (bits[:, [places[i, op] for i in own]] for op in (Op.LE, Op.GE))
        if not own:
            return np.zeros(len(bits), np.bool_)
        lopsided = less ^ greater
        first = lopsided.argmax(axis=1)
        return np.asarray((lopsided & greater)[np.arange(len(bits)), first], np.bool_)

    def _text_order(self, bits: Flags) -> Numbers:
        """For each rule the ranks of its predicates' texts, in the order of the text, padded with zeros."""
        names, space = self.space.schema.names, self.space
        comparisons = [(names[c.left], names[c.right]) for c in space.comparisons]
        texts = {
            (i, op): str(Compare(Cell("t", a), op, Cell("s", b))) for i, (a, b) in enumerate(comparisons) for op in Op
        }
        rank = {text: place for place, text in enumerate(sorted(texts.values()), start=1)}
        ranks = np.zeros((len(bits), len(comparisons)), np.int64)
        weights = np.zeros((len(comparisons), len(space.atoms)), np.int64)
        for atom, (i, op) in enumerate(space.atoms):
            weights[i, atom] = 3 if op is Op.EQ else {Op.LE: 1, Op.GE: 2, Op.NE: 4}[op]
        sums = bits.astype(np.int64) @ weights.T
        by_sum = {1: Op.LE, 2: Op.GE, 4: Op.NE, 3: Op.EQ, 5: Op.LT, 6: Op.GT}
        for i in range(len(comparisons)):
            of_sum = np.zeros(8, np.int64)
            for total, op in by_sum.items():
                of_sum[total] = rank[texts[i, op]]
            ranks[:, i] = of_sum[sums[:, i]]
        ranks = ranks[:, sorted(range(len(comparisons)), key=lambda i: comparisons[i])]
        order = np.argsort(ranks == 0, axis=1, kind="stable")
        return np.take_along_axis(ranks, order, axis=1)

    def _satisfiable(self, weak: Flags, budget: Budget | None = None) -> Flags:
        """Which conjunctions some values satisfy; if the budget runs out, those that were decided. Comparisons
        contradict each other only around a cycle of cells, so conjunctions without a cycle need no test."""
        chosen = np.ones(len(weak), np.bool_)
        crossed = [self.space.is_crossed(i) for i in range(len(self.space.comparisons))]
        if not any(crossed):
            return chosen
        compared: Flags = np.asarray(weak.reshape(len(weak), len(crossed), len(WEAK)).any(axis=2))
        doubtful = np.flatnonzero((compared.sum(axis=1) >= _SHORTEST_CYCLE) & compared[:, crossed].any(axis=1))
        shapes, numbers = numbered(pack(compared[doubtful]))
        cyclic = np.array([self._has_cycle(np.flatnonzero(shape)) for shape in unpack(shapes, compared.shape[1])], bool)
        untested = doubtful[cyclic[numbers]].tolist()
        for place, row in enumerate(untested):
            if place % _ASKED == 0 and budget is not None and budget.spent():
                chosen[untested[place:]] = False
                break
            chosen[row] = is_satisfiable([self._vocabulary[i] for i in np.flatnonzero(weak[row])])
        return chosen

    def _has_cycle(self, comparisons: Numbers) -> bool:
        """Whether the compared cells of t and s form a cycle."""
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
