"""All minimal pointwise order dependencies of a table, kept true to its evidence (IncPOD).

`X -> A op` holds iff each pair that satisfies the inverse of `A op` lacks an atom of X: left sides are hitting sets of
the atoms of other columns that such pairs lack. An order dependency cannot have a lone `!=`, which is split into `<`
and `>`. Left out are dependencies that follow from a smaller left side, or from a stronger conclusion with the same or
a smaller left side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from holdfast.discovery.budget import Budget
from holdfast.discovery.hitting_sets.border import Border
from holdfast.discovery.hitting_sets.minimal import Groups, minimal_edges, minimal_hitting_sets
from holdfast.discovery.hitting_sets.weighted import WeightedEdges
from holdfast.discovery.witness.predicate_space import WEAK, PredicateSpace
from holdfast.executors.executor import Cancelled
from holdfast.rules.limit import most_within
from holdfast.rules.masks import Masks, Numbers, among, distinct, full, has, mask_of, none, numbered, pack, unpack
from holdfast.rules.operator import Op
from holdfast.rules.rule import Marked
from holdfast.rules.rule_block import RuleBlock

_CONCLUSIONS = {True: (Op.LT, Op.EQ, Op.LE), False: (Op.EQ,)}  # by whether the column is ordered; stronger ones first
_INVERSE = {Op.LT: (Op.GE,), Op.LE: (Op.GE, Op.NE), Op.EQ: (Op.NE,)}  # as atoms
Conclusion = tuple[int, Op]  # column and operator


@dataclass
class OrderRules:
    """The order dependencies of one table, over comparisons of columns with themselves. `most` limits left columns."""

    KIND: ClassVar[str] = "order"
    space: PredicateSpace
    most: int | None = None
    max_error: float = 0.0
    lefts: dict[Conclusion, Masks] = field(init=False, default_factory=dict)
    _errors: dict[Conclusion, npt.NDArray[np.float64]] = field(init=False, default_factory=dict)
    _borders: dict[Conclusion, Border] = field(init=False, default_factory=dict)

    def update(self, lacks: Masks, counts: Numbers, rows: int, budget: Budget | None = None) -> None:
        """Updates the rules. `lacks`: sets of atoms that pairs lack, in both orientations; `counts`: how many ordered
        pairs lack each. Each right column has its share of the time; those that exceed it have no rules."""
        budget, self.lefts = budget or Budget(), {}
        self._most_pairs, columns = most_within(self.max_error, rows * (rows - 1)), len(self.space.schema)
        ended = None
        for right in range(columns) if rows > 1 else ():
            budget.report("deriving order dependencies", right / columns)
            right_budget = budget.for_one_of(columns - right)
            try:
                right_budget.check()
                self._update_right(right, lacks, counts, rows * (rows - 1), right_budget)
            except Cancelled:
                ended = right_budget.ended
        budget.ended = budget.ended or ended

    def _update_right(self, right: int, lacks: Masks, counts: Numbers, pairs: int, budget: Budget) -> None:
        """Finds the rules of one right column. Raises `Cancelled` if the time does not suffice for all."""
        places = {atom: place for place, atom in enumerate(self.space.atoms)}
        lefts_of: dict[Op, Masks] = {}
        refutes: dict[Op, npt.NDArray[np.bool_]] = {}  # pairs that satisfy the inverse
        for op in _CONCLUSIONS[self.space.comparisons[right].ordered]:
            inverse = np.ones(len(lacks), np.bool_)
            for atom in _INVERSE[op]:
                if self.space.comparisons[right].ordered or atom is not Op.GE:
                    inverse &= ~has(lacks, places[right, atom])
            refutes[op] = inverse
            hitting_sets = self._hitting_sets(lacks[inverse], counts[inverse], (right, op), budget)
            if budget.ended:
                raise Cancelled(budget.ended)
            lefts_of[op] = self._expanded(hitting_sets, budget)
        minimal = self._minimal(lefts_of, budget)
        for op, lefts in minimal.items() if self.max_error else ():
            edges = self._weighted(lacks[refutes[op]], counts[refutes[op]], full(len(places)), budget)
            self._errors[right, op] = edges.missed(lefts) / pairs
        self.lefts |= {(right, op): lefts for op, lefts in minimal.items()}

    def _hitting_sets(self, lacks: Masks, counts: Numbers, end: Conclusion, budget: Budget) -> Masks:
        """Left sides, as sets of atoms of other columns."""
        atoms, columns = self.space.atoms, len(self.space.schema)
        usable = [
            place
            for place, (i, op) in enumerate(atoms)
            if i < columns and i != end[0] and not (op is Op.NE and not self.space.comparisons[i].ordered)
        ]
        within = mask_of(usable, len(atoms))
        groups = Groups(self.space.group_of, self.most)
        if not self.max_error:
            return minimal_hitting_sets(lacks, len(atoms), within=within, groups=groups, budget=budget)
        border = self._borders.setdefault(end, Border(len(atoms), within, groups=groups))
        border.update(self._weighted(lacks, counts, within, budget), budget)
        return border.good

    def _weighted(self, lacks: Masks, counts: Numbers, within: Masks, budget: Budget) -> WeightedEdges:
        return WeightedEdges(lacks, counts, len(self.space.atoms), self._most_pairs, within, budget)

    def _expanded(self, lefts: Masks, budget: Budget) -> Masks:
        """The left sides with `<` and with `>` in place of each lone `!=`."""
        bits = unpack(lefts, len(self.space.atoms))
        for i, comparison in enumerate(self.space.comparisons):
            if comparison.ordered and comparison.left == comparison.right:
                le, ge, ne = (self.space.atoms.index((i, op)) for op in WEAK)
                lone = bits[:, ne] & ~bits[:, le] & ~bits[:, ge]
                less, greater = bits[lone].copy(), bits[lone].copy()
                less[:, le] = greater[:, ge] = True
                bits = np.concatenate([bits[~lone], less, greater])
        return minimal_edges(pack(bits), budget) if len(bits) else none(len(self.space.atoms))

    def _minimal(self, lefts: Mapping[Op, Masks], budget: Budget) -> dict[Op, Masks]:
        """Without left sides of `<=` that follow from the stronger conclusions `<` and `=`."""
        if Op.LE not in lefts:
            return dict(lefts)
        strong = distinct(np.concatenate([lefts[Op.LT], lefts[Op.EQ]]))
        every = np.concatenate([strong, lefts[Op.LE]])
        if not len(every):
            return dict(lefts)
        kept = lefts[Op.LE][among(lefts[Op.LE], minimal_edges(every, budget)) & ~among(lefts[Op.LE], strong)]
        return {**lefts, Op.LE: kept}

    def claims(self) -> Masks:
        """The conjunctions that no pair satisfies if the dependencies hold."""
        return np.concatenate([none(len(self.space.atoms)), *(self._claims(end) for end in self.lefts)])

    def _claims(self, end: Conclusion) -> Masks:
        """The left sides together with the inverse of their conclusion."""
        places = {atom: place for place, atom in enumerate(self.space.atoms)}
        inverse = [places[end[0], atom] for atom in _INVERSE[end[1]] if (end[0], atom) in places]
        return self.lefts[end] | mask_of(inverse, len(self.space.atoms))

    def limit(self, most: int | None) -> None:
        """Limits the left columns from now on."""
        self.most = most

    @property
    def found(self) -> dict[Conclusion, Masks]:
        """The left sides, for `take`."""
        return self.lefts

    def take(self, several: Sequence[Mapping[Conclusion, Masks]]) -> None:
        """The left sides of several searches, each one once."""
        self.lefts = {}
        for lefts in several:
            for end, masks in lefts.items():
                self.lefts[end] = distinct(np.concatenate([self.lefts.get(end, masks[:0]), masks]))

    def keep(self, proven: Callable[[Masks], npt.NDArray[np.bool_]]) -> None:
        """Keeps only dependencies whose claim is proven, because the time budget ran out."""
        self.lefts = {end: lefts[proven(self._claims(end))] for end, lefts in self.lefts.items()}

    def block(self, table: str | None, budget: Budget | None = None) -> tuple[RuleBlock, bool]:
        """The rules, and whether the budget sufficed for all of them. Of two mirror images with the conclusion `=`, the
        one with the smaller text."""
        names = self.space.schema.names
        vocabulary = tuple(Marked(name, op) for name in names for op in WEAK)
        conclusions = tuple(Marked(names[right], op) for right, op in self.lefts)
        parts, ends, errors = [none(len(vocabulary))], [np.zeros(0, np.int32)], [np.zeros(0)]
        whole = True
        for end, ((right, op), lefts) in enumerate(self.lefts.items()):
            if end and budget is not None and budget.spent():
                whole = False
                break
            masks, numbers = numbered(self._in_words(lefts, mirror_images=op is Op.EQ))
            parts.append(masks)
            ends.append(np.full(len(masks), end, np.int32))
            errors.append(np.zeros(len(masks)))
            if self.max_error:
                errors[-1][numbers] = self._errors[right, op]
        masks, rights = np.concatenate(parts), np.concatenate(ends)
        shares = np.concatenate(errors) if self.max_error else None
        return RuleBlock("order", table, vocabulary, masks, rights, conclusions, names, errors=shares), whole

    def _in_words(self, lefts: Masks, *, mirror_images: bool) -> Masks:
        """Left sides over the vocabulary of rules: three weak operators for each column."""
        weak = self.space.in_weak(lefts)[:, : 3 * len(self.space.schema)]
        return pack(self._canonical(weak) if mirror_images else weak)

    def _canonical(self, weak: np.ndarray) -> np.ndarray:
        """The mirror image in which the first column by name that is not `=` has `<` or `<=`."""
        names = self.space.schema.names
        less, greater = weak[:, 0::3] & ~weak[:, 1::3], weak[:, 1::3] & ~weak[:, 0::3]
        order = sorted(range(len(names)), key=names.__getitem__)
        lopsided = (less | greater)[:, order]
        first = lopsided.argmax(axis=1)
        turn = lopsided.any(axis=1) & greater[:, order][np.arange(len(weak)), first]
        turned = weak.copy()
        turned[:, 0::3], turned[:, 1::3] = weak[:, 1::3], weak[:, 0::3]
        return np.where(turn[:, None], turned, weak)
