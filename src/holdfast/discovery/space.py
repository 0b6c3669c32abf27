"""The comparisons that rules about pairs of rows are made of, and how a pair says how it compares.

A comparison is t.a ? s.b: of a column with itself, or of two columns of one kind group whose values overlap, in both
directions. Its answer for a pair are two bits: `<` and `>`; none of them is `=`, both are a null. Columns without
order have `!=` and, where a null answers nothing, one bit for that. The bits of all comparisons are the pair's clue.

A predicate is a set of weak atoms of one comparison, (<=, >=, !=), or (=, !=) without order. A pair lacks an atom that
it does not satisfy. A conjunction of predicates is violated by no pair iff it has an atom that the pair lacks, for
every pair: so the atoms are the vertices of a hypergraph, and the minimal rules are its minimal covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from holdfast.discovery.wanted import CrossColumns
from holdfast.errors import HoldfastError, SchemaError, shown
from holdfast.rules.masks import Masks, Numbers, pack, unpack, words_for
from holdfast.rules.operator import Op
from holdfast.table.compare import common_codes, comparable
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.identity import identities
from holdfast.table.schema import Column, Schema, unknown_name

Bits = npt.NDArray[np.bool_]
MOST_PAIRS = 8  # of different columns
_OVERLAP = 0.3  # of the rows, for columns to be compared
LESS, GREATER, DIFFERENT, UNKNOWN = 1, 2, 3, 4  # what a bit says
_CROSSED = ("numbers", "text", "dates")


@dataclass(frozen=True)
class Comparison:
    """t.left ? s.right"""

    left: int
    right: int
    ordered: bool

    @property
    def mirrored(self) -> Comparison:
        return Comparison(self.right, self.left, self.ordered)


@dataclass(frozen=True)
class Space:
    """The comparisons of a table under a null policy."""

    schema: Schema
    nulls: str
    comparisons: tuple[Comparison, ...]

    @classmethod
    def of(cls, schema: Schema, nulls: str, pairs: Sequence[tuple[int, int]] = ()) -> Space:
        """Each column with itself, and these pairs of columns in both directions."""
        same = [Comparison(i, i, column.kind.ordered) for i, column in enumerate(schema.columns)]
        crossed = []
        for a, b in pairs:
            ordered = schema.columns[a].kind.ordered and schema.columns[b].kind.ordered
            crossed += [Comparison(a, b, ordered), Comparison(b, a, ordered)]
        return cls(schema, nulls, (*same, *crossed))

    # --- bits -----------------------------------------------------------------------------------------------

    @cached_property
    def bits(self) -> tuple[tuple[int, int], ...]:
        """(comparison, what it says) of each bit of a clue."""
        made: list[tuple[int, int]] = []
        for i, comparison in enumerate(self.comparisons):
            says = (LESS, GREATER) if comparison.ordered else (DIFFERENT, UNKNOWN)
            made += [(i, say) for say in (says if comparison.ordered or self.nulls == "sql" else says[:1])]
        return tuple(made)

    @property
    def width(self) -> int:
        """Words of a clue."""
        return words_for(len(self.bits))

    def mirrored(self, clues: Masks) -> Masks:
        """The clues of the same pairs with t and s exchanged."""
        return pack(unpack(clues, len(self.bits))[:, self._mirror_bits])

    @cached_property
    def _mirror_bits(self) -> Numbers:
        places = {bit: place for place, bit in enumerate(self.bits)}
        other = {LESS: GREATER, GREATER: LESS, DIFFERENT: DIFFERENT, UNKNOWN: UNKNOWN}
        return np.array([places[self._mirror(i), other[say]] for i, say in self.bits], np.int64)

    def _mirror(self, comparison: int) -> int:
        return self.comparisons.index(self.comparisons[comparison].mirrored)

    # --- atoms ----------------------------------------------------------------------------------------------

    @cached_property
    def atoms(self) -> tuple[tuple[int, Op], ...]:
        """The weak atoms: (comparison, operator)."""
        ops = {True: (Op.LE, Op.GE, Op.NE), False: (Op.EQ, Op.NE)}
        return tuple((i, op) for i, comparison in enumerate(self.comparisons) for op in ops[comparison.ordered])

    @cached_property
    def mirror_atoms(self) -> Numbers:
        """The atom that says the same with t and s exchanged."""
        places = {atom: place for place, atom in enumerate(self.atoms)}
        return np.array([places[self._mirror(i), op.mirror] for i, op in self.atoms], np.int64)

    @cached_property
    def group_of(self) -> Numbers:
        """The comparison of each atom."""
        return np.array([i for i, _ in self.atoms], np.int64)

    def lacks(self, clues: Masks) -> Bits:
        """[pair, atom]: what pairs with these clues do not satisfy."""
        bits = unpack(clues, len(self.bits))
        places = {bit: place for place, bit in enumerate(self.bits)}
        made, never = np.zeros((len(clues), len(self.atoms)), np.bool_), np.zeros(len(clues), np.bool_)
        for atom, (i, op) in enumerate(self.atoms):
            says = (LESS, GREATER) if self.comparisons[i].ordered else (DIFFERENT, UNKNOWN)
            first, second = (bits[:, places[i, say]] if (i, say) in places else never for say in says)
            if not self.comparisons[i].ordered:
                made[:, atom] = (first | second) if op is Op.EQ else (~first | second)
            elif op is Op.NE:
                made[:, atom] = ~first & ~second | (first & second if self.nulls == "sql" else False)
            else:
                made[:, atom] = second if op is Op.LE else first
        return made

    # --- rows -----------------------------------------------------------------------------------------------

    def operands(self, codes: Codes) -> tuple[Codes, Codes]:
        """[comparison, row]: the left and the right operands, as codes that compare as the values do."""
        sides = [self._operands(comparison, codes) for comparison in self.comparisons]
        return np.stack([a for a, _ in sides]), np.stack([b for _, b in sides])

    def _operands(self, comparison: Comparison, codes: Codes) -> tuple[Codes, Codes]:
        a, b = comparison.left, comparison.right
        if a == b:
            return codes[a], codes[a]
        return common_codes(self.schema.columns[a], codes[a], self.schema.columns[b], codes[b])


def cross_pairs(schema: Schema, codes: Codes, wanted: CrossColumns) -> list[tuple[int, int]]:
    """The columns that are compared with each other: those given, or those that share values in a third of the rows,
    the most first, eight pairs at most. O(columns^2 + values)."""
    if not isinstance(wanted, bool):
        return [_given(schema, pair) for pair in wanted]
    if not wanted:
        return []
    counts = {i: _value_counts(c, codes[i]) for i, c in enumerate(schema.columns) if c.kind.group in _CROSSED}
    shared = []
    for a, b in combinations(counts, 2):
        if comparable(schema.columns[a], schema.columns[b]):
            both = sum(min(count, counts[b].get(value, 0)) for value, count in counts[a].items())
            if both >= _OVERLAP * codes.shape[1] and both:
                shared.append((-both, a, b))
    return sorted((a, b) for _, a, b in sorted(shared)[:MOST_PAIRS])


def _given(schema: Schema, pair: tuple[str, str]) -> tuple[int, int]:
    for name in pair:
        if name not in schema:
            raise SchemaError(unknown_name("column", name, schema.names))
    a, b = sorted(schema.positions(pair))
    if a == b:
        raise HoldfastError(f"cross_columns: {shown(pair[0])} is compared with itself anyway")
    if not comparable(schema.columns[a], schema.columns[b]):
        raise HoldfastError(f"cross_columns: {shown(pair[0])} and {shown(pair[1])} are of kinds that do not compare")
    return a, b


def _value_counts(column: Column, codes: Codes) -> Mapping[tuple[int, int], int]:
    known = codes[codes != NULL]
    values = np.stack([part.astype(np.int64) for part in identities(column, known)])
    distinct, counts = np.unique(values, axis=1, return_counts=True)
    return {(int(number), int(space)): int(n) for (number, space), n in zip(distinct.T, counts, strict=True)}
