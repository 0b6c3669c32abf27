"""What is one step more general than a rule: the rules that imply it and have one weak atom less.

A rule that nearly holds is minimal if none of these nearly holds, because errors never grow with an atom more.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.rules.operator import Op
from holdfast.rules.predicate import Compare
from holdfast.rules.rule import Calculation, Dc, Fd, Ind, Key, Marked, Order, Rule
from holdfast.table.schema import Schema

_WEAKER = {
    Op.LT: (Op.LE, Op.NE),
    Op.GT: (Op.GE, Op.NE),
    Op.EQ: (Op.LE, Op.GE),
    Op.LE: (),
    Op.GE: (),
    Op.NE: (),
}


def more_general(rule: Rule, schema: Schema) -> Iterator[Rule]:
    """The rules of one table that are one step more general than a rule of this table.

    >>> from holdfast.rules.grammar import parse
    >>> from holdfast.table.kind import Kind
    >>> from holdfast.table.schema import Column
    >>> schema = Schema((Column("a", Kind.INTEGER), Column("b", Kind.INTEGER)))
    >>> sorted(map(str, more_general(parse("{a <} -> b <="), schema)))
    ['{a <=} -> b <=', '{a <} -> b <', '{a <} -> b =']
    """
    if isinstance(rule, Key):
        yield from (Key(rule.columns - {c}, rule.table) for c in rule.columns if len(rule.columns) > 1)
    elif isinstance(rule, Fd):
        yield from (Fd(rule.left - {c}, rule.right, rule.table) for c in rule.left)
    elif isinstance(rule, Order):
        yield from _orders(rule, schema)
    elif isinstance(rule, Dc):
        yield from _constraints(rule, schema)
    else:
        assert isinstance(rule, Ind | Calculation)


def _orders(rule: Order, schema: Schema) -> Iterator[Order]:
    """An order dependency has no `!=` on the left. Its right side becomes stronger."""
    for mark in rule.left:
        rest = rule.left - {mark}
        weaker = [op for op in _weaker(mark.op, is_ordered=schema.column(mark.column).kind.ordered) if op is not Op.NE]
        for op in weaker:
            yield Order(rest | {Marked(mark.column, op)}, rule.right, rule.table)
        if not weaker:
            yield Order(rest, rule.right, rule.table)
    if rule.right.op is Op.LE:
        for op in (Op.LT, Op.EQ):
            yield Order(rule.left, Marked(rule.right.column, op), rule.table)


def _constraints(rule: Dc, schema: Schema) -> Iterator[Dc]:
    for predicate in rule.predicates:
        assert isinstance(predicate, Compare)
        rest = rule.predicates - {predicate}
        is_ordered = all(schema.column(cell.column).kind.ordered for cell in predicate.cells)
        weaker = _weaker(predicate.op, is_ordered=is_ordered)
        for op in weaker:
            yield Dc(rest | {Compare(predicate.left, op, predicate.right)}, rule.table)
        if not weaker and rest:
            yield Dc(rest, rule.table)


def _weaker(op: Op, *, is_ordered: bool) -> tuple[Op, ...]:
    """The operators with one weak atom less; none if the operator is a single atom."""
    return _WEAKER[op] if is_ordered else ()
