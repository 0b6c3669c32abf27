"""Predicates of denial constraints: comparisons of a cell with a cell or a literal, and null tests."""

from __future__ import annotations

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


Predicate = Compare | IsNull
