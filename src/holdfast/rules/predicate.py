"""Predicates of denial constraints: comparisons of a cell with a cell or a literal, null tests, and formulas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal

from holdfast.errors import RuleError, shown
from holdfast.rules.names import Rank, by_name, literal_text, quoted
from holdfast.rules.operator import Op
from holdfast.table.kind import LiteralValue

OTHER_ROW = {"t": "s", "s": "t"}
MAX_DIGITS = 400  # of a number, before and after the decimal point; floats reach 1e308
NUMBER_BOUNDS = f"a number of at most {MAX_DIGITS} digits before and {MAX_DIGITS} after the decimal point"


@dataclass(frozen=True)
class Cell:
    """A column of row t or s, such as `t.zip`."""

    row: str
    column: str

    def mirrored(self) -> Cell:
        return Cell(OTHER_ROW[self.row], self.column)

    def __str__(self) -> str:
        return f"{self.row}.{quoted(self.column)}"


@dataclass(frozen=True)
class Constant:
    """A literal. `kind` distinguishes true from 1."""

    value: LiteralValue
    kind: str

    @classmethod
    def of(cls, value: LiteralValue | int | float) -> Constant:
        """The constant of a Python value.

        >>> Constant.of(5) == Constant.of(Decimal("5.0")), Constant.of(True) == Constant.of(1)
        (True, False)
        """
        if isinstance(value, bool):
            return cls(value, "boolean")
        if isinstance(value, int | float | Decimal):
            return cls(_bounded(value), "number")
        if isinstance(value, str):
            return cls(value, "text")
        if isinstance(value, datetime):
            zoned = value if value.tzinfo else value.replace(tzinfo=UTC)
            return cls(zoned.astimezone(UTC), "timestamp")
        if isinstance(value, date):
            return cls(value, "date")
        raise RuleError(f"{shown(value)} is not a literal of rules")

    def __str__(self) -> str:
        return literal_text(self.value)


def _bounded(value: int | float | Decimal) -> Decimal:
    """The number as a finite Decimal that is short enough to be printed in full."""
    if isinstance(value, int) and value.bit_length() > MAX_DIGITS * 4:
        raise RuleError(f"expected {NUMBER_BOUNDS}")
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise RuleError(f"{value} is not a literal of rules")
    if number == 0:
        return Decimal("0")
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    zeros = next(i for i, digit in enumerate(reversed(digits)) if digit)
    if number.adjusted() >= MAX_DIGITS or -(exponent + zeros) > MAX_DIGITS:
        raise RuleError(f"expected {NUMBER_BOUNDS}")
    return number


@dataclass(frozen=True)
class Compare:
    """The comparison `left op right`. In canonical form, t is left of s, and a constant is on the right."""

    left: Cell
    op: Op
    right: Cell | Constant

    @property
    def is_pair(self) -> bool:
        return isinstance(self.right, Cell) and self.right.row != self.left.row

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self.left, self.right) if isinstance(self.right, Cell) else (self.left,)

    @property
    def operands(self) -> tuple[Cell, Cell | Constant]:
        return self.left, self.right

    def swapped(self) -> Compare:
        """The same comparison with its sides exchanged."""
        if not isinstance(self.right, Cell):
            return self
        return Compare(self.right, self.op.mirror, self.left)

    def mirrored(self) -> Compare:
        """The comparison with t and s exchanged."""
        right = self.right.mirrored() if isinstance(self.right, Cell) else self.right
        return replace(self, left=self.left.mirrored(), right=right)

    def canonical(self, rank: Rank = by_name) -> Compare:
        """The comparison with its operands in canonical order: t before s; within one row, the earlier column first."""
        if not isinstance(self.right, Cell):
            return self
        if self.left == self.right:
            raise RuleError(f"{self.left} is compared with itself; write `{self.left} is not null` if that is meant")
        if self.is_pair:
            return self if self.left.row == "t" else self.swapped()
        return self if rank(self.left.column) <= rank(self.right.column) else self.swapped()

    def sort_key(self, rank: Rank) -> tuple[object, ...]:
        if isinstance(self.right, Cell):
            return (
                rank(self.left.column),
                self.left.row != "t",
                0,
                rank(self.right.column),
                not self.is_pair,
                "",
            )
        return (rank(self.left.column), self.left.row != "t", 1, (0, ""), False, str(self.right))

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True)
class IsNull:
    """`t.a is null`, or `t.a is not null` if negated; the same under all null policies."""

    cell: Cell
    negated: bool = False

    @property
    def is_pair(self) -> bool:
        return False

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self.cell,)

    def mirrored(self) -> IsNull:
        return replace(self, cell=self.cell.mirrored())

    def canonical(self, rank: Rank = by_name) -> IsNull:
        return self

    def sort_key(self, rank: Rank) -> tuple[object, ...]:
        return (rank(self.cell.column), self.cell.row != "t", 2, (0, ""), False, "")

    def __str__(self) -> str:
        return f"{self.cell} is {'not ' if self.negated else ''}null"


@dataclass(frozen=True)
class Formula:
    """A sum (`+`) or product (`*`) of two columns of a row. Its operands have no order."""

    op: str
    left: str
    right: str

    def __post_init__(self) -> None:
        if self.right < self.left:
            first, second = self.right, self.left
            object.__setattr__(self, "left", first)
            object.__setattr__(self, "right", second)

    def text(self, rank: Rank = by_name) -> str:
        first, second = sorted((self.left, self.right), key=rank)
        return f"{quoted(first)} {self.op} {quoted(second)}"


@dataclass(frozen=True)
class Miscalculated:
    """`t.total != t.other + t.repair`. A row with a null in one of the columns never satisfies it, under any null
    policy."""

    result: Cell
    formula: Formula

    @property
    def is_pair(self) -> bool:
        return False

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self.result, *(Cell(self.result.row, name) for name in (self.formula.left, self.formula.right)))

    def mirrored(self) -> Miscalculated:
        return replace(self, result=self.result.mirrored())

    def canonical(self, rank: Rank = by_name) -> Miscalculated:
        return self

    def sort_key(self, rank: Rank) -> tuple[object, ...]:
        return (rank(self.result.column), self.result.row != "t", 3, (0, ""), False, self.formula.text(rank))

    def __str__(self) -> str:
        _, left, right = self.cells
        return f"{self.result} != {left} {self.formula.op} {right}"


Predicate = Compare | IsNull | Miscalculated


def conjunction_text(predicates: Iterable[Predicate], rank: Rank = by_name) -> str:
    """`t.a = s.a and t.b < 5`, in canonical order."""
    ordered = sorted((p.canonical(rank) for p in predicates), key=lambda p: p.sort_key(rank))
    return " and ".join(map(str, ordered))


def merged(predicates: Iterable[Predicate]) -> frozenset[Predicate]:
    """The predicates with one comparison for each pair of operands; a contradiction is an error."""
    comparisons: dict[tuple[Cell, Cell | Constant], Compare] = {}
    tests: dict[Cell, IsNull] = {}
    others = set[Miscalculated]()
    for predicate in predicates:
        if isinstance(predicate, Miscalculated):
            others.add(predicate)
            continue
        if isinstance(predicate, IsNull):
            if tests.setdefault(predicate.cell, predicate) != predicate:
                raise RuleError(f"contradiction: {predicate.cell} cannot be both null and not null")
            continue
        earlier = comparisons.get(predicate.operands)
        atoms = predicate.op.atoms | (earlier.op.atoms if earlier else predicate.op.atoms)
        op = Op.of_atoms(atoms)
        if op is None:
            raise RuleError(f"contradiction: {predicate} and {earlier} cannot both hold")
        comparisons[predicate.operands] = Compare(predicate.left, op, predicate.right)
    return frozenset([*comparisons.values(), *tests.values(), *others])
