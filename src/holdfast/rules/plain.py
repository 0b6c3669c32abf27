"""Denial constraints that are minimal by their predicates alone, as the papers count them, for comparison.

There a constraint is minimal if it is violated without any one of its predicates. `t.a < s.a` and `t.a <= s.a` are two
predicates, so that both constraints are listed where the second one holds, although it says the first.
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

_AT_ONCE = 16  # constraints between looks at the clock


class Plain(NamedTuple):
    """Constraints, and whether they are all."""

    rules: RuleSet
    whole: bool


def plain_minimal(rules: Iterable[Rule], schema: Schema) -> RuleSet:
    """The constraints of a table that are minimal by their predicates, from those that no other one implies.

    A valid one is implied by one of these, and has no comparison that this one has not: its operators are the same or
    stronger. O(rules x ways to choose operators), expected.

    >>> from holdfast.rules.grammar import parse
    >>> from holdfast.table.kind import Kind
    >>> from holdfast.table.schema import Column
    >>> schema = Schema((Column("a", Kind.INTEGER), Column("b", Kind.TEXT)))
    >>> plain_minimal([parse("not(t.a <= s.a and t.b = s.b)")], schema).texts()
    ['not(t.a < s.a and t.b = s.b)', 'not(t.a <= s.a and t.b = s.b)', 'not(t.a = s.a and t.b = s.b)']
    """
    return plain_within(rules, schema, lambda: False).rules


def plain_within(rules: Iterable[Rule], schema: Schema, spent: Callable[[], bool]) -> Plain:
    """The same until time is up: the constraints that were given, which are all minimal by their predicates, and those
    with stronger operators that were tried until then."""
    known = [rule for rule in rules if isinstance(rule, Dc) and not rule.is_one_row]
    smaller = _BySize(known)
    made = dict.fromkeys(known)
    for done, rule in enumerate(known):
        if done % _AT_ONCE == 0 and spent():
            return Plain(RuleSet.from_rules(made, schema.names), False)
        for variant in _stronger(rule, schema):
            if variant not in made and not smaller.imply(variant):
                made[variant] = None
    return Plain(RuleSet.from_rules(made, schema.names), True)


class _BySize:
    """Constraints by their weak atoms, with how many predicates each has."""

    def __init__(self, rules: Iterable[Dc]) -> None:
        self._sizes: dict[frozenset[Atom], int] = {}
        for rule in rules:
            self._sizes[atoms_of(rule.predicates)] = len(rule.predicates)

    def imply(self, rule: Dc) -> bool:
        """Whether one of fewer predicates says a constraint. O(sets of its atoms, or constraints)."""
        return any(
            self._sizes[some] < len(rule.predicates)
            for side in (rule.predicates, rule.mirrored())
            for some in self._within(atoms_of(side))
        )

    def _within(self, atoms: frozenset[Atom]) -> Iterable[frozenset[Atom]]:
        """Those whose atoms are among these."""
        if 1 << len(atoms) > len(self._sizes):
            return (known for known in self._sizes if known <= atoms)
        subsets = (frozenset(some) for size in range(len(atoms) + 1) for some in combinations(atoms, size))
        return (some for some in subsets if some in self._sizes)


def _stronger(rule: Dc, schema: Schema) -> Iterable[Dc]:
    """The constraint with each of its operators as it is or stronger."""
    choices = []
    for p in rule.predicates:
        assert isinstance(p, Compare)
        ordered = all(schema.column(cell.column).kind.ordered for cell in p.cells)
        choices.append([replace(p, op=op) for op in Op if op.implies(p.op) and (ordered or not op.is_order)])
    for chosen in product(*choices):
        if is_satisfiable(chosen):
            yield Dc(frozenset(chosen), rule.table)
