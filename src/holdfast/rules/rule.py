"""The kinds of rule, as frozen values in canonical form.

Rules that differ only in the order of their parts are equal. `text(rank)` prints columns in the order of a schema,
`str` by name.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from holdfast.errors import RuleError
from holdfast.rules.names import Rank, by_name, quoted
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, Formula, Miscalculated, Predicate, conjunction_text, merged

KINDS = ("key", "fd", "ind", "order", "dc", "row")
SEARCHED_KINDS = KINDS[:-1]  # those of which all rules can be found; of others, those worth reading


class _Rule:
    """Base class of all rules."""

    kind: ClassVar[str]
    is_one_row: ClassVar[bool] = False  # whether single rows violate it
    table: str | None

    def body(self, rank: Rank = by_name) -> str:
        """The canonical text without the name of the table."""
        raise NotImplementedError

    def text(self, rank: Rank = by_name) -> str:
        """The canonical text; `orders: zip -> city` if the rule names its table."""
        return _with_table(self.body(rank), self.table)

    @property
    def as_written(self) -> str:
        """Text that parses to the same rule, with t and s as they were written."""
        return self.text()

    @property
    def id(self) -> str:
        """A short name that depends only on the canonical text, such as `fd-5f0c2a91`."""
        return f"{self.kind}-{hashlib.sha256(self.text().encode()).hexdigest()[:8]}"

    def __str__(self) -> str:
        return self.text()


def _with_table(body: str, table: str | None) -> str:
    return f"{quoted(table)}: {body}" if table is not None else body


def _listed(names: Iterable[str], rank: Rank) -> str:
    return ", ".join(quoted(name) for name in sorted(names, key=rank))


@dataclass(frozen=True)
class Key(_Rule):
    """No two rows agree on all columns.

    >>> print(Key(frozenset({"phone", "area"})))
    key(area, phone)
    """

    kind: ClassVar[str] = "key"
    columns: frozenset[str]
    table: str | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise RuleError("a key needs at least one column")

    def body(self, rank: Rank = by_name) -> str:
        return f"key({_listed(self.columns, rank)})"


@dataclass(frozen=True)
class Fd(_Rule):
    """Rows that agree on `left` agree on `right`; with an empty left side, `right` is constant.

    >>> print(Fd(frozenset({"zip"}), "city"), Fd(frozenset(), "country"), sep="; ")
    zip -> city; () -> country
    """

    kind: ClassVar[str] = "fd"
    left: frozenset[str]
    right: str
    table: str | None = None

    def __post_init__(self) -> None:
        if self.right in self.left:
            raise RuleError(f"{quoted(self.right)} is on both sides of ->, which always holds")

    def body(self, rank: Rank = by_name) -> str:
        return f"{_listed(self.left, rank) or '()'} -> {quoted(self.right)}"


@dataclass(frozen=True)
class Ind(_Rule):
    """Each left tuple without a null occurs on the right; columns correspond by position.

    >>> print(Ind("orders", ("b", "a"), "items", ("y", "x")))
    orders(a, b) in items(x, y)
    """

    kind: ClassVar[str] = "ind"
    left_table: str
    left: tuple[str, ...]
    right_table: str
    right: tuple[str, ...]
    table: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not self.left or len(self.left) != len(self.right):
            raise RuleError(f"{len(self.left)} columns on the left of `in` and {len(self.right)} on the right")
        pairs = sorted(set(zip(self.left, self.right, strict=True)))
        if len({a for a, _ in pairs}) < len(pairs) or len({b for _, b in pairs}) < len(pairs):
            raise RuleError("a column occurs twice on one side of `in`")
        if self.left_table == self.right_table and all(a == b for a, b in pairs):
            raise RuleError(f"{quoted(self.left_table)} is always included in itself")
        object.__setattr__(self, "left", tuple(a for a, _ in pairs))
        object.__setattr__(self, "right", tuple(b for _, b in pairs))

    def body(self, rank: Rank = by_name) -> str:
        pairs = sorted(zip(self.left, self.right, strict=True), key=lambda pair: rank(pair[0]))
        left, right = [a for a, _ in pairs], [b for _, b in pairs]
        return f"{_columns_of(self.left_table, left)} in {_columns_of(self.right_table, right)}"


def _columns_of(table: str, columns: list[str]) -> str:
    if len(columns) == 1:
        return f"{quoted(table)}.{quoted(columns[0])}"
    return f"{quoted(table)}({', '.join(map(quoted, columns))})"


@dataclass(frozen=True)
class Marked:
    """A marked attribute (IncPOD, section 3): a column with an operator, `salary <`."""

    column: str
    op: Op

    def mirrored(self) -> Marked:
        return Marked(self.column, self.op.mirror)

    def __str__(self) -> str:
        return f"{quoted(self.column)} {self.op}"


@dataclass(frozen=True)
class Order(_Rule):
    """A pointwise order dependency: two rows ordered as in `left` are ordered as in `right`.

    The operator on the right is <, <= or =. A rule with > or >= is replaced by its mirror image, and `flipped` records
    that t and s were exchanged.

    >>> print(Order(frozenset({Marked("salary", Op.LT)}), Marked("tax", Op.GE)))
    {salary >} -> tax <=
    """

    kind: ClassVar[str] = "order"
    left: frozenset[Marked]
    right: Marked
    table: str | None = None
    flipped: bool = field(default=False, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        columns = [mark.column for mark in self.left]
        if len(set(columns)) < len(columns):
            duplicate, _ = Counter(sorted(columns)).most_common(1)[0]
            raise RuleError(f"{quoted(duplicate)} occurs twice on the left of ->")
        if self.right.column in columns:
            raise RuleError(f"{quoted(self.right.column)} is on both sides of ->")
        if any(mark.op is Op.NE for mark in (*self.left, self.right)):
            raise RuleError("an order dependency uses <, <=, =, >= and >, not !=")
        if self._mirror_is_smaller():
            object.__setattr__(self, "left", frozenset(mark.mirrored() for mark in self.left))
            object.__setattr__(self, "right", self.right.mirrored())
            object.__setattr__(self, "flipped", True)

    def _mirror_is_smaller(self) -> bool:
        if self.right.op is not Op.EQ:
            return self.right.op in (Op.GT, Op.GE)
        return self._sides(by_name, mirror=True) < self._sides(by_name)

    def _sides(self, rank: Rank, *, mirror: bool = False) -> str:
        marks = sorted(self.left, key=lambda mark: rank(mark.column))
        left = ", ".join(str(mark.mirrored() if mirror else mark) for mark in marks)
        return f"{{{left}}} -> {self.right.mirrored() if mirror else self.right}"

    @property
    def as_written(self) -> str:
        """Text that parses to the same value, with the marks as they were written."""
        return _with_table(self._sides(by_name, mirror=self.flipped), self.table)

    def body(self, rank: Rank = by_name) -> str:
        text = self._sides(rank)
        return min(text, self._sides(rank, mirror=True)) if self.right.op is Op.EQ else text


@dataclass(frozen=True)
class Dc(_Rule):
    """No ordered pair of different rows (no row, if only t occurs) satisfies all predicates.

    `flipped` records that t and s were exchanged to reach the canonical form.

    >>> a, b = Cell("t", "a"), Cell("s", "a")
    >>> print(Dc(frozenset({Compare(b, Op.GE, a), Compare(a, Op.NE, b)})))
    not(t.a < s.a)
    """

    kind: ClassVar[str] = "dc"
    predicates: frozenset[Predicate]
    table: str | None = None
    flipped: bool = field(default=False, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.predicates:
            raise RuleError("not() is not a rule: it needs at least one predicate")
        predicates = merged(p.canonical() for p in self.predicates)
        if {cell.row for p in predicates for cell in p.cells} == {"s"}:
            predicates = _mirrored(predicates)
        mirror = _mirrored(predicates)
        if not _is_one_row(predicates) and conjunction_text(mirror, by_name) < conjunction_text(predicates, by_name):
            predicates = mirror
            object.__setattr__(self, "flipped", True)
        object.__setattr__(self, "predicates", predicates)

    @property
    def is_one_row(self) -> bool:  # type: ignore[override]
        """Whether the constraint is about single rows."""
        return _is_one_row(self.predicates)

    def body(self, rank: Rank = by_name) -> str:
        text = conjunction_text(self.predicates, rank)
        if not self.is_one_row:
            text = min(text, conjunction_text(_mirrored(self.predicates), rank))
        return f"not({text})"

    @property
    def as_written(self) -> str:
        """Text that parses to the same value, with t and s the way round in which it was written."""
        return _with_table(f"not({conjunction_text(self.written)})", self.table)

    def mirrored(self) -> frozenset[Predicate]:
        """The predicates with t and s exchanged, an equivalent constraint."""
        return _mirrored(self.predicates)

    @property
    def written(self) -> frozenset[Predicate]:
        """The predicates with t and s as they were written, which decides whether (t, s) or (s, t) is a violation."""
        return self.mirrored() if self.flipped else self.predicates


def _mirrored(predicates: Iterable[Predicate]) -> frozenset[Predicate]:
    return frozenset(p.mirrored().canonical() for p in predicates)


def _is_one_row(predicates: Iterable[Predicate]) -> bool:
    return {cell.row for p in predicates for cell in p.cells} == {"t"}


@dataclass(frozen=True)
class Calculation(_Rule):
    """In each row, a number is the sum or product of two others. A row with a null in one of the columns complies.

    >>> print(Calculation("total", Formula("+", "repair", "other")))
    total = other + repair
    """

    kind: ClassVar[str] = "row"
    is_one_row: ClassVar[bool] = True
    result: str
    formula: Formula
    table: str | None = None

    def __post_init__(self) -> None:
        if self.result in (self.formula.left, self.formula.right):
            raise RuleError(f"{quoted(self.result)} is on both sides of =")

    def body(self, rank: Rank = by_name) -> str:
        return f"{quoted(self.result)} = {self.formula.text(rank)}"


Rule = Key | Fd | Ind | Order | Dc | Calculation


def as_dc(rule: Key | Fd | Order | Dc | Calculation) -> Dc:
    """The denial constraint with the same violating pairs, under every null policy.

    >>> print(as_dc(Fd(frozenset({"zip"}), "city")))
    not(t.city != s.city and t.zip = s.zip)
    """
    if isinstance(rule, Dc):
        return rule
    if isinstance(rule, Calculation):
        return Dc(frozenset({Miscalculated(Cell("t", rule.result), rule.formula)}), rule.table)
    if isinstance(rule, Key):
        marks = [Marked(column, Op.EQ) for column in rule.columns]
    elif isinstance(rule, Fd):
        marks = [Marked(column, Op.EQ) for column in rule.left] + [Marked(rule.right, Op.NE)]
    else:
        marks = [*rule.left, Marked(rule.right.column, rule.right.op.inverse)]
        marks = [mark.mirrored() for mark in marks] if rule.flipped else marks
    predicates = frozenset(Compare(Cell("t", m.column), m.op, Cell("s", m.column)) for m in marks)
    return Dc(predicates, rule.table)
