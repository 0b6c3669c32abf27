"""Denial constraints that are minimal as the papers define it, by their predicates alone, for comparison.

In the papers, a constraint is minimal if it does not hold without any one of its predicates. `t.a < s.a` and
`t.a <= s.a` are different predicates there, so both constraints are listed, although the second implies the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from holdfast.arrays import Flags
from holdfast.rules.implication import Atom, atoms_of, is_satisfiable
from holdfast.rules.masks import Masks, mask_of, none
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Compare, Predicate
from holdfast.rules.rule import Dc, Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.table.schema import Schema

_COMPARED = 1 << 22  # pairs of constraints that are compared between budget checks


class Plain(NamedTuple):
    """Constraints, and whether the list is complete."""

    rules: RuleSet
    whole: bool


def plain_minimal(rules: Iterable[Rule], schema: Schema) -> RuleSet:
    """The constraints of a table that are minimal by their predicates, from those that no other constraint implies.

    Each of them compares the same cells as one of the given constraints that implies it, with equal or stronger
    operators. O(rules x ways to choose operators x rules).

    >>> from holdfast.rules.grammar import parse
    >>> from holdfast.table.kind import Kind
    >>> from holdfast.table.schema import Column
    >>> schema = Schema((Column("a", Kind.INTEGER), Column("b", Kind.TEXT)))
    >>> plain_minimal([parse("not(t.a <= s.a and t.b = s.b)")], schema).texts()
    ['not(t.a < s.a and t.b = s.b)', 'not(t.a <= s.a and t.b = s.b)', 'not(t.a = s.a and t.b = s.b)']
    """
    return plain_within(rules, schema, lambda: False).rules


def plain_within(rules: Iterable[Rule], schema: Schema, spent: Callable[[], bool]) -> Plain:
    """`plain_minimal` within a time budget.

    If the budget is spent, the result has all given constraints, which are minimal by their predicates, and the
    variants with stronger operators found so far.
    """
    given = [rule for rule in rules if isinstance(rule, Dc) and not rule.is_one_row]
    stronger = _Stronger(given, schema)
    minimal = dict.fromkeys(given)
    for variants in map(stronger.variants, given):
        for first in range(0, len(variants.masks), stronger.at_once):
            if spent():
                return Plain(RuleSet.from_rules(minimal, schema.names), False)
            some = slice(first, first + stronger.at_once)
            for place in np.flatnonzero(~stronger.follow_from_fewer(variants, some)) + first:
                chosen = variants.predicates(int(place))
                if is_satisfiable(chosen):
                    minimal[Dc(chosen, variants.rule.table)] = None
    return Plain(RuleSet.from_rules(minimal, schema.names), True)


class _Variants(NamedTuple):
    """A constraint, the operators that each of its predicates may have, and the weak atoms of each combination."""

    rule: Dc
    choices: list[list[Compare]]
    masks: Masks

    def predicates(self, place: int) -> frozenset[Predicate]:
        """The predicates of one combination."""
        chosen = np.unravel_index(place, [len(ops) for ops in self.choices])
        return frozenset(ops[i] for ops, i in zip(self.choices, chosen, strict=True))


class _Stronger:
    """The variants of constraints with equal or stronger operators."""

    def __init__(self, given: list[Dc], schema: Schema) -> None:
        self._schema = schema
        sides = [side for rule in given for side in (rule.predicates, rule.mirrored())]
        operands = {p.operands: p for side in sides for p in side if isinstance(p, Compare)}
        atoms = (
            atom for p in operands.values() for op in Op for atom in sorted(atoms_of([replace(p, op=op)]), key=str)
        )
        self._places: dict[Atom, int] = {atom: i for i, atom in enumerate(dict.fromkeys(atoms))}
        self._given = np.concatenate([none(len(self._places)), *map(self._mask, sides)])
        self._sizes = np.array([len(side) for side in sides], np.int64)
        self.at_once = max(1, _COMPARED // max(1, len(sides)))

    def _mask(self, predicates: Iterable[Predicate]) -> Masks:
        return mask_of((self._places[atom] for atom in atoms_of(predicates)), len(self._places))

    def variants(self, rule: Dc) -> _Variants:
        """All variants of a constraint."""
        choices = [list(self._operators(p)) for p in rule.predicates if isinstance(p, Compare)]
        masks = self._mask(())
        for predicates in choices:
            stronger = np.concatenate([self._mask([p]) for p in predicates])
            masks = (masks[:, None, :] | stronger[None, :, :]).reshape(-1, masks.shape[1])
        return _Variants(rule, choices, masks)

    def _operators(self, predicate: Compare) -> Iterator[Compare]:
        is_ordered = all(self._schema.column(cell.column).kind.ordered for cell in predicate.cells)
        for op in Op:
            if op.implies(predicate.op) and (is_ordered or not op.is_order):
                yield replace(predicate, op=op)

    def follow_from_fewer(self, variants: _Variants, some: slice) -> Flags:
        """Which variants a given constraint with fewer predicates implies, as it is or mirrored."""
        smaller = self._given[self._sizes < len(variants.choices)]
        masks = variants.masks[some]
        follow = np.ones((len(masks), len(smaller)), np.bool_)
        for word in range(masks.shape[1]):
            follow &= (smaller[None, :, word] & ~masks[:, None, word]) == 0
        return np.asarray(follow.any(axis=1))
