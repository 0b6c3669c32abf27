"""The six comparison operators and their algebra (IncDC, Tables 4 and 5; IncPOD, Table 3).

An operator is a set of weak atoms: `<` is {<=, !=}, `=` is {<=, >=}. Conjunction is the union of atoms, implication is
containment, and all three atoms together are a contradiction. This is exact under all null policies. A predicate must
not be derived from the absence of its inverse, because a null may satisfy neither.
"""

from __future__ import annotations

from enum import IntFlag, StrEnum


class Weak(IntFlag):
    """The weak atoms of a comparison."""

    LE = 1
    GE = 2
    NE = 4


class Op(StrEnum):
    """A comparison operator.

    >>> Op.LT.inverse, Op.LT.mirror, Op.EQ.implies(Op.LE)
    (<Op.GE: '>='>, <Op.GT: '>'>, True)
    """

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def atoms(self) -> Weak:
        return _ATOMS[self]

    @property
    def inverse(self) -> Op:
        """The operator that holds between two values exactly if this one does not."""
        return _INVERSE[self]

    @property
    def mirror(self) -> Op:
        """The operator with a op b exactly if b op.mirror a."""
        return _MIRROR[self]

    @property
    def is_order(self) -> bool:
        """Whether the operator needs ordered values."""
        return self not in (Op.EQ, Op.NE)

    def implies(self, other: Op) -> bool:
        return other.atoms in self.atoms

    @classmethod
    def of_atoms(cls, atoms: Weak) -> Op | None:
        """The conjunction of the atoms; None for the contradiction.

        >>> Op.of_atoms(Weak.LE | Weak.NE)
        <Op.LT: '<'>
        """
        return _OF_ATOMS.get(atoms)


_ATOMS = {
    Op.EQ: Weak.LE | Weak.GE,
    Op.NE: Weak.NE,
    Op.LT: Weak.LE | Weak.NE,
    Op.LE: Weak.LE,
    Op.GT: Weak.GE | Weak.NE,
    Op.GE: Weak.GE,
}
_OF_ATOMS = {atoms: op for op, atoms in _ATOMS.items()}
_INVERSE = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}
_MIRROR = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}
