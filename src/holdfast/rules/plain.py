"""Denial constraints that are minimal by their predicates alone, as the papers count them, for comparison.

There a constraint is minimal if it is violated without any one of its predicates. `t.a < s.a` and `t.a <= s.a` are two
predicates, so that both constraints are listed where the second one holds, although it says the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from holdfast.rules.implication import implies, is_satisfiable
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Compare
from holdfast.rules.rule import Dc, Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.table.schema import Schema


def plain_minimal(rules: Iterable[Rule], schema: Schema) -> RuleSet:
    """The constraints of a table that are minimal by their predicates, from those that no other one implies.

    A valid one is implied by one of these, and has no comparison that this one has not: its operators are the same or
    stronger. O(rules^2) for each way to choose them.

    >>> from holdfast.rules.grammar import parse
    >>> from holdfast.table.kind import Kind
    >>> from holdfast.table.schema import Column
    >>> schema = Schema((Column("a", Kind.INTEGER), Column("b", Kind.TEXT)))
    >>> plain_minimal([parse("not(t.a <= s.a and t.b = s.b)")], schema).texts()
    ['not(t.a < s.a and t.b = s.b)', 'not(t.a <= s.a and t.b = s.b)', 'not(t.a = s.a and t.b = s.b)']
    """
    known = [rule for rule in rules if isinstance(rule, Dc) and not rule.is_one_row]
    smaller = sorted(known, key=lambda rule: len(rule.predicates))
    made = dict.fromkeys(variant for rule in known for variant in _stronger(rule, schema))
    return RuleSet.from_rules((rule for rule in made if not _is_wide(rule, smaller)), schema.names)


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


def _is_wide(rule: Dc, known: list[Dc]) -> bool:
    """Whether a constraint of fewer predicates says it."""
    for other in known:
        if len(other.predicates) >= len(rule.predicates):
            return False
        if implies(other, rule):
            return True
    return False
