"""Implication between rules, and rules that can never be violated."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from holdfast.rules.operator import Op, Weak
from holdfast.rules.predicate import Cell, Compare, Constant, Formula, IsNull, Miscalculated, Predicate
from holdfast.rules.rule import Calculation, Dc, Fd, Ind, Key, Marked, Order, Rule

Node = Cell | Constant | Formula
Atom = tuple[Node, Node | None, Weak | bool]


def implies(strong: Rule, weak: Rule) -> bool:
    """Whether `strong` implies `weak`, by the definition of minimality of their kind.

    Keys and FDs: by containment of the left side (without transitivity of FDs). Order dependencies: by containment of
    marked attributes (IncPOD, section 3) in either mirror image. DCs: by containment of weak atoms in either mirror
    image. INDs: by projection.

    >>> from holdfast.rules.grammar import parse
    >>> implies(parse("not(t.a <= s.a)"), parse("not(t.a > s.a and t.b = s.b)"))
    True
    """
    if type(strong) is not type(weak) or strong.table != weak.table:
        return False
    if isinstance(strong, Calculation):
        return strong == weak
    if isinstance(strong, Key) and isinstance(weak, Key):
        return strong.columns <= weak.columns
    if isinstance(strong, Fd) and isinstance(weak, Fd):
        return strong.right == weak.right and strong.left <= weak.left
    if isinstance(strong, Order) and isinstance(weak, Order):
        return _order_implies(strong, weak)
    if isinstance(strong, Dc) and isinstance(weak, Dc):
        return _dc_implies(strong, weak)
    return isinstance(strong, Ind) and isinstance(weak, Ind) and _ind_implies(strong, weak)


def contains(outer: Iterable[Marked], inner: Iterable[Marked]) -> bool:
    """Whether every A^op' in `inner` has an A^op in `outer` with op' implied by op.

    Differs from IncPOD, which prints the quantifiers the other way round; the larger set would be the smaller one.
    """
    ops = {mark.column: mark.op for mark in outer}
    return all(mark.column in ops and ops[mark.column].implies(mark.op) for mark in inner)


def _order_implies(strong: Order, weak: Order) -> bool:
    if strong.right.column != weak.right.column:
        return False
    images = [(strong.left, strong.right), ([m.mirrored() for m in strong.left], strong.right.mirrored())]
    return any(right.op.implies(weak.right.op) and contains(weak.left, left) for left, right in images)


def _dc_implies(strong: Dc, weak: Dc) -> bool:
    atoms = atoms_of(strong.predicates)
    return any(atoms <= atoms_of(side) for side in (weak.predicates, weak.mirrored()))


def atoms_of(predicates: Iterable[Predicate]) -> frozenset[Atom]:
    """The weak atoms of all predicates."""
    atoms: set[Atom] = set()
    for p in predicates:
        if isinstance(p, IsNull):
            atoms.add((p.cell, None, p.negated))
        elif isinstance(p, Miscalculated):
            atoms.add((p.result, p.formula, True))
        else:
            atoms.update((p.left, p.right, atom) for atom in Weak if atom in p.op.atoms)
    return frozenset(atoms)


def _ind_implies(strong: Ind, weak: Ind) -> bool:
    pairs = set(zip(strong.left, strong.right, strict=True))
    same_tables = (strong.left_table, strong.right_table) == (weak.left_table, weak.right_table)
    return same_tables and set(zip(weak.left, weak.right, strict=True)) <= pairs


def is_trivial(rule: Rule) -> bool:
    """Whether no values can violate the rule. O(operands^2) for a DC, by the closure of its comparisons.

    The answer is the same for all null policies and column kinds. Finite domains are not considered.

    >>> from holdfast.rules.grammar import parse
    >>> is_trivial(parse("not(t.a = s.a and t.b = s.b and t.a = s.b and t.b != s.a)"))
    True
    """
    return isinstance(rule, Dc) and not is_satisfiable(rule.predicates)


def is_satisfiable(predicates: Iterable[Predicate]) -> bool:
    """Whether some values of t and s satisfy all predicates."""
    predicates = list(predicates)
    comparisons = [p for p in predicates if isinstance(p, Compare)]
    tests = {p.cell: p.negated for p in predicates if isinstance(p, IsNull)}
    return not _compares_null(comparisons, tests) and not _has_conflict(comparisons)


def _compares_null(comparisons: list[Compare], tests: dict[Cell, bool]) -> bool:
    """Whether a comparison that no null satisfies has an operand that must be null."""
    for p in comparisons:
        is_null = [isinstance(node, Cell) and tests.get(node) is False for node in p.operands]
        is_not_null = [isinstance(node, Constant) or tests.get(node) is True for node in p.operands]
        if any(is_null) and (p.op in (Op.LT, Op.GT) or (p.op is not Op.NE and any(is_not_null))):
            return True
    return False


def _has_conflict(comparisons: list[Compare]) -> bool:
    """Whether two operands that must differ are equal in the transitive closure of <=."""
    places: dict[Node, int] = {}
    for p in comparisons:
        for node in p.operands:
            places.setdefault(node, len(places))
    if len(places) == 2 * len(comparisons):  # no operand occurs twice
        return False
    below = [1 << place for place in range(len(places))]  # [place]: the places that it is <= of, as bits
    differ: set[tuple[int, int]] = set()
    for p in comparisons:
        left, right = places[p.left], places[p.right]
        below[left] |= (Weak.LE in p.op.atoms) << right
        below[right] |= (Weak.GE in p.op.atoms) << left
        if Weak.NE in p.op.atoms:
            differ.add((left, right))
    for a, b in combinations([node for node in places if isinstance(node, Constant)], 2):
        differ.add((places[a], places[b]))
        if a.kind == b.kind and a.kind not in ("text", "boolean"):
            low, high = (a, b) if a.value < b.value else (b, a)  # type: ignore[operator]
            below[places[low]] |= 1 << places[high]
    for middle in range(len(below)):
        for first in range(len(below)):
            if below[first] >> middle & 1:
                below[first] |= below[middle]
    return any(below[a] >> b & 1 and below[b] >> a & 1 for a, b in differ)
