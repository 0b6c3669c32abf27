"""Denial constraints that are minimal as the papers define it, by their predicates alone, for comparison.

In the papers, a constraint is minimal if it does not hold without any one of its predicates. `t.a < s.a` and
`t.a <= s.a` are different predicates there, so both constraints are listed, although the second implies the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations, product
from typing import NamedTuple

from holdfast.rules.implication import Atom, atoms_of, is_satisfiable
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Compare
from holdfast.rules.rule import Dc, Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.table.schema import Schema

_RULES_PER_CHECK = 16  # of the time budget


class Plain(NamedTuple):
    """Constraints, and whether the list is complete."""

    rules: RuleSet
    whole: bool


def plain_minimal(rules: Iterable[Rule], schema: Schema) -> RuleSet:
    """The constraints of a table that are minimal by their predicates, from those that no other constraint implies.

    Each of them compares the same cells as one of the given constraints that implies it, with equal or stronger
    operators. O(rules x ways to choose operators), expected.

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
    smaller = _BySize(given)
    minimal = dict.fromkeys(given)
    for done, rule in enumerate(given):
        if done % _RULES_PER_CHECK == 0 and spent():
            return Plain(RuleSet.from_rules(minimal, schema.names), False)
        for variant in _stronger(rule, schema):
            if variant not in minimal and not smaller.imply(variant):
                minimal[variant] = None
    return Plain(RuleSet.from_rules(minimal, schema.names), True)


class _BySize:
    """The number of predicates of each constraint, by its weak atoms."""

    def __init__(self, rules: Iterable[Dc]) -> None:
        self._sizes: dict[frozenset[Atom], int] = {}
        for rule in rules:
            self._sizes[atoms_of(rule.predicates)] = len(rule.predicates)

    def imply(self, rule: Dc) -> bool:
        """Whether a constraint with fewer predicates implies `rule`. O(min(2^atoms, constraints))."""
        return any(
            self._sizes[atoms] < len(rule.predicates)
            for side in (rule.predicates, rule.mirrored())
            for atoms in self._subsets(atoms_of(side))
        )

    def _subsets(self, atoms: frozenset[Atom]) -> Iterable[frozenset[Atom]]:
        """The constraints whose atoms are a subset of `atoms`."""
        if 1 << len(atoms) > len(self._sizes):
            return (candidate for candidate in self._sizes if candidate <= atoms)
        subsets = (frozenset(subset) for size in range(len(atoms) + 1) for subset in combinations(atoms, size))
        return (subset for subset in subsets if subset in self._sizes)


def _stronger(rule: Dc, schema: Schema) -> Iterable[Dc]:
    """The satisfiable variants of a constraint with equal or stronger operators."""
    choices = []
    for p in rule.predicates:
        assert isinstance(p, Compare)
        ordered = all(schema.column(cell.column).kind.ordered for cell in p.cells)
        choices.append([replace(p, op=op) for op in Op if op.implies(p.op) and (ordered or not op.is_order)])
    for chosen in product(*choices):
        if is_satisfiable(chosen):
            yield Dc(frozenset(chosen), rule.table)
