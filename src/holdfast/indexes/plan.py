"""The plan: compiles pair rules and groups those that can share an index.

Every pair rule is a denial constraint (`as_dc`). Its equalities form one composite key L(t) = R(s), its other
comparisons are dimensions, and its predicates on one row are filters of a role. An inserted row makes two queries: as t
among the rows that qualify as s, and as s among the rows that qualify as t (Weever's two intermediates, section 3.2).
If every comparison is between equal columns and the filters of both roles are the same, one index serves both roles. If
the rule is symmetric, one query is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from holdfast.rules.bind import is_symmetric
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, Predicate
from holdfast.rules.rule import Dc, Rule, as_dc
from holdfast.table.compare import Form, derived, meeting
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.schema import Schema


@dataclass(frozen=True, order=True)
class Operand:
    """A column and the form in which its values are compared."""

    column: int
    form: Form = None

    def sort_key(self) -> tuple[int, str]:
        return (self.column, str(self.form))


@dataclass(frozen=True)
class Side:
    """The part of a rule that concerns one role: operands of key and dimensions, and the rows that qualify.

    `filter` holds the rule's own predicates on this row, under its null policy. `where` restricts the rule to some
    rows; a null never passes it.
    """

    key: tuple[Operand, ...]
    dims: tuple[Operand, ...]
    filter: frozenset[Predicate]
    where: frozenset[Predicate] = frozenset()

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (*self.key, *self.dims)


@dataclass(frozen=True)
class PairRule:
    """A compiled pair rule. `ops[d]` is the operator of dimension d: t op s."""

    rule: Rule
    t: Side
    s: Side
    ops: tuple[Op, ...]
    nulls: str
    symmetric: bool

    @cached_property
    def predicates(self) -> frozenset[Predicate]:
        """All that a violating pair satisfies."""
        return as_dc(self.rule).written  # type: ignore[arg-type]

    @property
    def shape(self) -> tuple[Side, Side, str]:
        """Rules of equal shape share an index."""
        return self.t, self.s, self.nulls

    @property
    def comparisons(self) -> dict[tuple[Operand, Operand], Op]:
        """The operators between t and s, by pair of operands."""
        equal = dict.fromkeys(zip(self.t.key, self.s.key, strict=True), Op.EQ)
        return equal | dict(zip(zip(self.t.dims, self.s.dims, strict=True), self.ops, strict=True))

    def extends(self, other: PairRule) -> bool:
        """Whether this rule is `other` with more comparisons, so that its violations are a subset.

        An index of its own would profit from further equalities by smaller buckets. A rule with a longer key therefore
        extends `other` only if `other` has at least two dimensions.
        """
        return (
            self.nulls == other.nulls
            and (self.t.filter, self.t.where) == (other.t.filter, other.t.where)
            and (self.s.filter, self.s.where) == (other.s.filter, other.s.where)
            and self.comparisons.items() > other.comparisons.items()
            and (self.t.key == other.t.key or len(other.ops) > 1)
        )


def compile_rule(rule: Rule, schema: Schema, nulls: str, where: frozenset[Predicate] = frozenset()) -> PairRule:
    """Compiles a pair rule for a schema. Pairs have t and s as in the rule's text."""
    dc = as_dc(rule)  # type: ignore[arg-type]
    pairs = sorted((p for p in dc.written if isinstance(p, Compare) and p.is_pair), key=str)
    equal = sorted((_operands(p, schema) for p in pairs if p.op is Op.EQ), key=_pair_key)
    dims = [(_operands(p, schema), p.op) for p in pairs if p.op is not Op.EQ]
    dims.sort(key=lambda item: (not item[1].is_order, _pair_key(item[0])))
    t, s = (
        Side(tuple(pair[i] for pair in equal), tuple(pair[i] for pair, _ in dims), _filter(dc, row), where)
        for i, row in enumerate("ts")
    )
    return PairRule(rule, t, s, tuple(op for _, op in dims), nulls, is_symmetric(dc))


def _operands(predicate: Compare, schema: Schema) -> tuple[Operand, Operand]:
    assert isinstance(predicate.right, Cell)
    left, right = schema.column(predicate.left.column), schema.column(predicate.right.column)
    forms = meeting(left, right)
    return Operand(schema.position(left.name), forms[0]), Operand(schema.position(right.name), forms[1])


def _pair_key(pair: tuple[Operand, Operand]) -> tuple[tuple[int, str], ...]:
    return tuple(operand.sort_key() for operand in pair)


def _filter(dc: Dc, row: str) -> frozenset[Predicate]:
    """The one-row predicates about this row, rewritten to speak of t."""
    one_row = [p for p in dc.written if not (isinstance(p, Compare) and p.is_pair) and p.cells[0].row == row]
    return frozenset(p if row == "t" else p.mirrored() for p in one_row)


@dataclass
class Group:
    """Rules that share an index (or one index per role): rules of equal shape, and rules that extend one of them.

    The additional comparisons become further dimensions, which the other rules ignore (None in `ops`). An extending
    rule is queried after the rule it extends, and only for rows with a violation of that rule (Weever's common
    prefixes, section 5.3).
    """

    schema: Schema
    t: Side
    s: Side
    rules: list[PairRule] = field(default_factory=list)
    extended: list[int] = field(default_factory=list)  # by rule: the position of the rule that it extends, or -1

    def add(self, rule: PairRule, extended: int = -1) -> None:
        for t, s in rule.comparisons:
            if (t, s) not in set(zip(self.t.operands, self.s.operands, strict=True)):
                self.t = replace(self.t, dims=(*self.t.dims, t))
                self.s = replace(self.s, dims=(*self.s.dims, s))
        self.rules.append(rule)
        self.extended.append(extended)

    def suits(self, rule: PairRule) -> bool:
        """Whether the group can take the rule and still serve both roles with one index, if it does so now."""
        return not self.shared or all(t == s for t, s in rule.comparisons)

    def ops(self, rule: int) -> tuple[Op | None, ...]:
        """The operator (t op s) of each dimension, None for dimensions that the rule does not compare."""
        comparisons = self.rules[rule].comparisons
        return tuple(comparisons.get(pair) for pair in zip(self.t.dims, self.s.dims, strict=True))

    @property
    def nulls_equal(self) -> bool:
        return self.rules[0].nulls == "equal"

    @property
    def shared(self) -> bool:
        """Whether one index serves both roles."""
        return self.t == self.s

    @cached_property
    def columns(self) -> list[int]:
        """All columns that the rules read. A change of other columns cannot change their violations."""
        compared = {o.column for side in (self.t, self.s) for o in side.operands}
        tests = [p for side in (self.t, self.s) for p in (*side.filter, *side.where)]
        tested = {self.schema.position(cell.column) for p in tests for cell in p.cells}
        return sorted(compared | tested)

    @property
    def operands(self) -> list[Operand]:
        return sorted({o for side in (self.t, self.s) for o in side.operands}, key=Operand.sort_key)

    def positions(self, operands: Sequence[Operand]) -> npt.NDArray[np.int64]:
        """Where these operands stand in `operands`."""
        position_of = {operand: i for i, operand in enumerate(self.operands)}
        return np.array([position_of[o] for o in operands], dtype=np.int64)

    def codes(self, codes: Codes) -> Codes:
        """codes[operand, row] from codes[column, row]."""
        by_operand = [derived(self.schema.columns[o.column], codes[o.column], o.form) for o in self.operands]
        return np.array(by_operand, dtype=np.int64).reshape(len(by_operand), codes.shape[1])

    def key_is_null(self, side: Side, codes: Codes) -> npt.NDArray[np.bool_]:
        """Rows whose key equals no other: it has a null, and nulls are not equal."""
        if self.nulls_equal or not side.key:
            return np.zeros(codes.shape[1], dtype=bool)
        return np.asarray((codes[[o.column for o in side.key]] == NULL).any(axis=0))


def group_rules(rules: Iterable[PairRule], schema: Schema) -> list[Group]:
    """Groups rules that can share an index. Rules with few comparisons come first, so that others can extend them."""
    groups: list[Group] = []
    for rule in sorted(rules, key=lambda rule: len(rule.comparisons)):
        same_shape = [group for group in groups if group.rules[0].shape == rule.shape]
        extendable = [
            (group, position)
            for group in groups
            for position, other in enumerate(group.rules)
            if rule.extends(other) and group.suits(rule)
        ]
        if same_shape:
            same_shape[0].add(rule)
        elif extendable:
            group, position = max(extendable, key=lambda item: len(item[0].rules[item[1]].comparisons))
            group.add(rule, position)
        else:
            groups.append(Group(schema, rule.t, rule.s))
            groups[-1].add(rule)
    return groups


def describe(groups: Sequence[Group]) -> str:
    """The plan as text, with a line for each index and each rule that queries it."""
    lines = []
    for number, group in enumerate(groups, start=1):
        sides = [("both roles", group.s)] if group.shared else [("s", group.s), ("t", group.t)]
        for role, side in sides:
            lines.append(f"index {number} ({role}): {_side_text(side, group.schema)}")
        for rule, extended in zip(group.rules, group.extended, strict=True):
            queries = "one question" if rule.symmetric else "two questions"
            condition = f", where {group.rules[extended].rule} is violated" if extended >= 0 else ""
            lines.append(f"  {rule.rule}: {queries}{condition}, nulls {rule.nulls}")
    return "\n".join(lines)


def _side_text(side: Side, schema: Schema) -> str:
    key = ", ".join(schema.names[o.column] for o in side.key) or "no key (one bucket)"
    dims = ", ".join(schema.names[o.column] for o in side.dims) or "none"
    tests = sorted(map(str, side.filter | side.where))
    condition = f", rows with {' and '.join(tests)}" if tests else ""
    return f"key {key}; dimensions {dims}{condition}"
