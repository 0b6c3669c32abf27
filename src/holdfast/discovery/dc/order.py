"""All minimal pointwise order dependencies of a table, kept true to its evidence (IncPOD).

`X -> A op` holds iff each pair that satisfies the inverse of A op lacks an atom of X: left sides are covers of what
such pairs lack in the other columns. A lone `!=` is no mark of an order dependency: `<` and `>` stand for it. What a
smaller left side, or a stronger conclusion with no larger one, says already is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from holdfast.discovery.budget import Budget
from holdfast.discovery.dc.predicate_space import WEAK, PredicateSpace
from holdfast.discovery.hitting_sets.border import Border
from holdfast.discovery.hitting_sets.minimal import Groups, minimal_hitting_sets, smallest
from holdfast.discovery.hitting_sets.weighted import WeightedEdges
from holdfast.executors.executor import Cancelled
from holdfast.rules.limit import most_within
from holdfast.rules.masks import Masks, Numbers, among, distinct, full, has, mask_of, none, numbered, pack, unpack
from holdfast.rules.operator import Op
from holdfast.rules.rule import Marked
from holdfast.rules.rule_block import RuleBlock

_CONCLUSIONS = {True: (Op.LT, Op.EQ, Op.LE), False: (Op.EQ,)}  # the stronger ones first
_NEEDED = {Op.LT: (Op.GE,), Op.LE: (Op.GE, Op.NE), Op.EQ: (Op.NE,)}  # atoms of the inverse
Conclusion = tuple[int, Op]


@dataclass
class OrderRules:
    """The order dependencies of one table, over comparisons of columns with themselves; `most` limits left columns."""

    KIND: ClassVar[str] = "order"
    space: PredicateSpace
    most: int | None = None
    max_error: float = 0.0
    lefts: dict[Conclusion, Masks] = field(init=False, default_factory=dict)
    _errors: dict[Conclusion, npt.NDArray[np.float64]] = field(init=False, default_factory=dict)
    _borders: dict[Conclusion, Border] = field(init=False, default_factory=dict)

    def update(self, lacks: Masks, counts: Numbers, rows: int, budget: Budget | None = None) -> None:
        """Brings the rules to so many rows: what their pairs lack, in both orientations, and how many pairs. Where the
        budget ends, those of the right columns that were finished, each in its share of the time."""
        budget, self.lefts = budget or Budget(), {}
        self._most_pairs, columns = most_within(self.max_error, rows * (rows - 1)), len(self.space.schema)
        ended = None
        for right in range(columns) if rows > 1 else ():
            budget.tell("inverting order dependencies", right / columns)
            mine = budget.for_one_of(columns - right)
            try:
                mine.check()
                self._follow(right, lacks, counts, rows * (rows - 1), mine)
            except Cancelled:
                ended = mine.ended
        budget.ended = budget.ended or ended

    def _follow(self, right: int, lacks: Masks, counts: Numbers, pairs: int, budget: Budget) -> None:
        """Finds the rules of one right column, all of them or none."""
        places = {atom: place for place, atom in enumerate(self.space.atoms)}
        made: dict[Op, Masks] = {}
        against: dict[Op, npt.NDArray[np.bool_]] = {}
        for op in _CONCLUSIONS[self.space.comparisons[right].ordered]:
            inverse = np.ones(len(lacks), np.bool_)
            for atom in _NEEDED[op]:
                if self.space.comparisons[right].ordered or atom is not Op.GE:
                    inverse &= ~has(lacks, places[right, atom])
            against[op] = inverse
            covers = self._covers(lacks[inverse], counts[inverse], (right, op), budget)
            if budget.ended:
                raise Cancelled(budget.ended)
            made[op] = self._expanded(covers, budget)
        found = self._minimal(made, budget)
        for op, lefts in found.items() if self.max_error else ():
            edges = self._weighted(lacks[against[op]], counts[against[op]], full(len(places)), budget)
            self._errors[right, op] = edges.missed(lefts) / pairs
        self.lefts |= {(right, op): lefts for op, lefts in found.items()}

    def _covers(self, lacks: Masks, counts: Numbers, end: Conclusion, budget: Budget) -> Masks:
        """Left sides without the right column."""
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

    def _expanded(self, covers: Masks, budget: Budget) -> Masks:
        """Each lone `!=` as `<` and as `>`."""
        bits = unpack(covers, len(self.space.atoms))
        for i, comparison in enumerate(self.space.comparisons):
            if comparison.ordered and comparison.left == comparison.right:
                le, ge, ne = (self.space.atoms.index((i, op)) for op in WEAK)
                lone = bits[:, ne] & ~bits[:, le] & ~bits[:, ge]
                less, greater = bits[lone].copy(), bits[lone].copy()
                less[:, le] = greater[:, ge] = True
                bits = np.concatenate([bits[~lone], less, greater])
        return smallest(pack(bits), budget) if len(bits) else none(len(self.space.atoms))

    def _minimal(self, made: Mapping[Op, Masks], budget: Budget) -> dict[Op, Masks]:
        """Without what a stronger conclusion says already. Those of `=` come in mirror images."""
        if Op.LE not in made:
            return dict(made)
        strong = distinct(np.concatenate([made[Op.LT], made[Op.EQ]]))
        every = np.concatenate([strong, made[Op.LE]])
        if not len(every):
            return dict(made)
        kept = made[Op.LE][among(made[Op.LE], smallest(every, budget)) & ~among(made[Op.LE], strong)]
        return {**made, Op.LE: kept}

    def claims(self) -> Masks:
        """The conjunctions that no pair satisfies if the dependencies hold."""
        return np.concatenate([none(len(self.space.atoms)), *(self._claims(end) for end in self.lefts)])

    def _claims(self, end: Conclusion) -> Masks:
        """Left sides with the inverse of a conclusion."""
        places = {atom: place for place, atom in enumerate(self.space.atoms)}
        inverse = [places[end[0], atom] for atom in _NEEDED[end[1]] if (end[0], atom) in places]
        return self.lefts[end] | mask_of(inverse, len(self.space.atoms))

    def keep(self, proven: Callable[[Masks], npt.NDArray[np.bool_]]) -> None:
        """Only those whose claim is proven: time was up for the others."""
        self.lefts = {end: lefts[proven(self._claims(end))] for end, lefts in self.lefts.items()}

    def block(self, table: str | None, budget: Budget | None = None) -> tuple[RuleBlock, bool]:
        """The rules, and whether these are all that were found before the budget was spent; of two mirror images with
        the conclusion `=` the one with the smaller text."""
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
        some = np.concatenate(errors) if self.max_error else None
        ends_of = np.concatenate(ends)
        made = RuleBlock("order", table, vocabulary, np.concatenate(parts), ends_of, conclusions, names, errors=some)
        return made, whole

    def _in_words(self, lefts: Masks, *, mirror_images: bool) -> Masks:
        """Over the vocabulary: three weak operators for each column."""
        made = self.space.in_weak(lefts)[:, : 3 * len(self.space.schema)]
        return pack(self._canonical(made) if mirror_images else made)

    def _canonical(self, made: np.ndarray) -> np.ndarray:
        """With `<` or `<=` for the first column, by name, that is not `=`."""
        names = self.space.schema.names
        less, greater = made[:, 0::3] & ~made[:, 1::3], made[:, 1::3] & ~made[:, 0::3]
        order = sorted(range(len(names)), key=names.__getitem__)
        lopsided = (less | greater)[:, order]
        first = lopsided.argmax(axis=1)
        turn = lopsided.any(axis=1) & greater[:, order][np.arange(len(made)), first]
        turned = made.copy()
        turned[:, 0::3], turned[:, 1::3] = made[:, 1::3], made[:, 0::3]
        return np.where(turn[:, None], turned, made)
