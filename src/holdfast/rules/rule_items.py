"""Rules as sets of items with an optional conclusion, the form in which `RuleBlock` stores them.

| kind | items | conclusion |
|---|---|---|
| key | columns | |
| fd | columns of the left side | right column |
| ind | (left table, left column, right table, right column) | |
| order | marked columns with a weak operator | marked right column |
| dc | predicates with a weak operator, and null tests | |
| row | the formula | result |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.rules.names import Rank
from holdfast.rules.operator import Op, Weak
from holdfast.rules.predicate import Compare, Formula, IsNull
from holdfast.rules.rule import Calculation, Dc, Fd, Ind, Key, Marked, Order, Rule

Item = Any  # depends on the kind of the rule, see above
_WEAK_OPERATORS = {Weak.LE: Op.LE, Weak.GE: Op.GE, Weak.NE: Op.NE}


def item_key(rank: Rank) -> Callable[[Item], Any]:
    """The sort key of items: columns by rank, then all others."""
    return lambda item: (rank(item), "") if isinstance(item, str) else ((0, ""), repr(item))


def columns_of(item: Item) -> tuple[str, ...]:
    """The columns that an item mentions."""
    if isinstance(item, str):
        return (item,)
    if isinstance(item, IsNull | Compare):
        return tuple(cell.column for cell in item.cells)
    if isinstance(item, Formula):
        return (item.left, item.right)
    if isinstance(item, Marked):
        return (item.column,)
    return (item[1], item[3])


def items_of(rule: Rule) -> tuple[list[Item], Item]:
    """The items of a rule, and its conclusion or None."""
    return _SPLITTERS[rule.kind](rule)


def rule_of(kind: str, table: str | None, items: list[Item], conclusion: Item) -> Rule:
    """The inverse of `items_of`."""
    return _BUILDERS[kind](table, items, conclusion)


def _weak_operators(op: Op) -> list[Op]:
    return [_WEAK_OPERATORS[atom] for atom in Weak if atom in op.atoms]


def _split_order(rule: Order) -> tuple[list[Item], Item]:
    return [Marked(m.column, weak) for m in rule.left for weak in _weak_operators(m.op)], rule.right


def _split_dc(rule: Dc) -> tuple[list[Item], Item]:
    items: list[Item] = []
    for p in rule.predicates:
        items += [p] if not isinstance(p, Compare) else [replace(p, op=weak) for weak in _weak_operators(p.op)]
    return items, None


def _split_ind(rule: Ind) -> tuple[list[Item], Item]:
    return [(rule.left_table, a, rule.right_table, b) for a, b in zip(rule.left, rule.right, strict=True)], None


def _build_order(table: str | None, items: list[Item], conclusion: Item) -> Rule:
    atoms: dict[str, Weak] = {}
    for mark in items:
        atoms[mark.column] = atoms.get(mark.column, Weak(0)) | mark.op.atoms
    left = frozenset(Marked(column, op) for column, weak in atoms.items() if (op := Op.of_atoms(weak)))
    return Order(left, conclusion, table)


def _build_ind(_: str | None, items: list[Item], __: Item) -> Rule:
    left_table, _, right_table, _ = items[0]
    return Ind(left_table, tuple(item[1] for item in items), right_table, tuple(item[3] for item in items))


_SPLITTERS: dict[str, Callable[[Any], tuple[list[Item], Item]]] = {
    "key": lambda rule: (list(rule.columns), None),
    "fd": lambda rule: (list(rule.left), rule.right),
    "ind": _split_ind,
    "order": _split_order,
    "dc": _split_dc,
    "row": lambda rule: ([rule.formula], rule.result),
}
_BUILDERS: dict[str, Callable[[str | None, list[Item], Item], Rule]] = {
    "key": lambda table, items, _: Key(frozenset(items), table),
    "fd": lambda table, items, conclusion: Fd(frozenset(items), conclusion, table),
    "ind": _build_ind,
    "order": _build_order,
    "dc": lambda table, items, _: Dc(frozenset(items), table),
    "row": lambda table, items, conclusion: Calculation(conclusion, items[0], table),
}
