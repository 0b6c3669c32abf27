"""The predicate space: the comparisons of which rules about pairs of rows are made.

A comparison is t.a ? s.b, of a column with itself, or of two columns of one kind group whose values overlap, in both
directions. A pair (t, s) answers it with two bits, `<` and `>`; neither means `=`, both mean a null. Columns without
order have a bit for `!=` and, under `sql`, one for a null. The bits of all comparisons are the clue of the pair.

A predicate is a set of weak atoms of one comparison: `<=`, `>=`, `!=`, or without order `=`, `!=`. A pair lacks an atom
that it does not satisfy. No pair satisfies a conjunction iff every pair lacks one of its atoms. So the atoms are the
vertices of a hypergraph whose edges are the sets of atoms that pairs lack, and the minimal rules are its minimal
hitting sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget, spans
from holdfast.discovery.search_options import CrossColumns
from holdfast.discovery.slices import AT_ONCE
from holdfast.errors import HoldfastError, SchemaError, shown
from holdfast.kernels.sets import derive
from holdfast.rules.masks import Masks, Numbers, mask_of, pack, unpack, words_for
from holdfast.rules.operator import Op, Weak
from holdfast.table.compare import common_codes, comparable
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.identity import identities
from holdfast.table.keys import groups
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema, unknown_name

MAX_CROSS_PAIRS = 8  # pairs of different columns that are compared
WEAK = (Op.LE, Op.GE, Op.NE)
_PAIRS_AT_ONCE = 1 << 15  # pairs whose clues are computed between budget checks
_OVERLAP = 0.3  # share of the rows with common values from which on columns are compared
LESS, GREATER, DIFFERENT, UNKNOWN = 1, 2, 3, 4  # the meanings of a bit
_SAYS: dict[int, Callable[[Codes, Codes], Flags]] = {LESS: np.less, GREATER: np.greater, DIFFERENT: np.not_equal}
_NEITHER, _BOTH = 0b0001, 0b1000  # truth tables of two bits
_FIRST, _SECOND = 0b1010, 0b1100  # one bit is set, whatever the other
CROSSED = ("numbers", "text", "dates")
Term = tuple[int, Op]  # a comparison and its operator


class Derived(NamedTuple):
    """Flags that follow from two bits each, by a truth table."""

    first: Numbers
    second: Numbers
    truth: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, bits: Iterable[tuple[int, int, int]]) -> Derived:
        first, second, truth = np.array(list(bits), np.int64).reshape(-1, 3).T.copy()
        return cls(first, second, truth.astype(np.uint64))

    def __call__(self, sets: Masks, budget: Budget | None = None) -> Masks:
        sets, derived = np.ascontiguousarray(sets), np.empty((len(sets), words_for(len(self.truth))), np.uint64)
        for first, stop in spans(len(sets), AT_ONCE, budget):
            derive(sets[first:stop], *self, derived[first:stop])
        return derived


@dataclass(frozen=True)
class Comparison:
    """t.left ? s.right: a comparison of two columns, by position."""

    left: int
    right: int
    ordered: bool

    @property
    def mirrored(self) -> Comparison:
        return Comparison(self.right, self.left, self.ordered)


@dataclass(frozen=True)
class PredicateSpace:
    """The comparisons of a table under a null policy."""

    schema: Schema
    nulls: str
    comparisons: tuple[Comparison, ...]

    @classmethod
    def of(cls, schema: Schema, nulls: str, pairs: Sequence[tuple[int, int]] = ()) -> PredicateSpace:
        """Compares each column with itself, and these pairs of columns in both directions."""
        same = [Comparison(i, i, column.kind.ordered) for i, column in enumerate(schema.columns)]
        crossed = []
        for a, b in pairs:
            ordered = schema.columns[a].kind.ordered and schema.columns[b].kind.ordered
            crossed += [Comparison(a, b, ordered), Comparison(b, a, ordered)]
        return cls(schema, nulls, (*same, *crossed))

    @classmethod
    def of_equality(cls, columns: int, nulls: str) -> PredicateSpace:
        """Compares each column with itself, as if it had no order: `=` and `!=` only."""
        return cls.of(Schema(tuple(Column(f"c{i}", Kind.TEXT) for i in range(columns))), nulls)

    def is_crossed(self, comparison: int) -> bool:
        """Whether it compares two different columns."""
        return self.comparisons[comparison].left != self.comparisons[comparison].right

    # --- bits -----------------------------------------------------------------------------------------------

    @cached_property
    def bits(self) -> tuple[tuple[int, int], ...]:
        """(comparison, meaning) of each bit of a clue."""
        bits: list[tuple[int, int]] = []
        for i, comparison in enumerate(self.comparisons):
            says = (LESS, GREATER) if comparison.ordered else (DIFFERENT, UNKNOWN)
            bits += [(i, say) for say in (says if comparison.ordered or self.nulls == "sql" else says[:1])]
        return tuple(bits)

    @property
    def width(self) -> int:
        """Words of a clue."""
        return words_for(len(self.bits))

    def mirrored(self, clues: Masks, budget: Budget | None = None) -> Masks:
        """The clues of the same pairs with t and s exchanged."""
        return self._mirror_bits(clues, budget)

    @cached_property
    def _mirror_bits(self) -> Derived:
        places = {bit: place for place, bit in enumerate(self.bits)}
        mirror = {LESS: GREATER, GREATER: LESS, DIFFERENT: DIFFERENT, UNKNOWN: UNKNOWN}
        return Derived.of((places[self._mirror(i), mirror[say]], -1, _FIRST) for i, say in self.bits)

    def both_ways(self, clues: Masks, budget: Budget | None = None) -> Masks:
        """The clues, followed by those of the same pairs with t and s exchanged."""
        return np.concatenate([clues, self.mirrored(clues, budget)])

    def _mirror(self, comparison: int) -> int:
        return self.comparisons.index(self.comparisons[comparison].mirrored)

    # --- atoms ----------------------------------------------------------------------------------------------

    @cached_property
    def atoms(self) -> tuple[tuple[int, Op], ...]:
        """The weak atoms: (comparison, operator)."""
        ops = {True: WEAK, False: (Op.EQ, Op.NE)}
        return tuple((i, op) for i, comparison in enumerate(self.comparisons) for op in ops[comparison.ordered])

    @cached_property
    def mirror_atoms(self) -> Numbers:
        """[atom]: the atom with the same meaning after t and s are exchanged."""
        places = {atom: place for place, atom in enumerate(self.atoms)}
        return np.array([places[self._mirror(i), op.mirror] for i, op in self.atoms], np.int64)

    @cached_property
    def group_of(self) -> Numbers:
        """[atom]: its comparison."""
        return np.array([i for i, _ in self.atoms], np.int64)

    def lacks(self, clues: Masks, budget: Budget | None = None) -> Masks:
        """The atoms that pairs with these clues do not satisfy."""
        return self._lacking(clues, budget)

    @cached_property
    def _lacking(self) -> Derived:
        places = {bit: place for place, bit in enumerate(self.bits)}
        derived = []
        for i, op in self.atoms:
            ordered = self.comparisons[i].ordered
            says = (LESS, GREATER) if ordered else (DIFFERENT, UNKNOWN)
            if ordered:
                unequal = _NEITHER | (_BOTH if self.nulls == "sql" else 0)
                truth = {Op.LE: _SECOND, Op.GE: _FIRST, Op.NE: unequal}[op]
            else:
                truth = _FIRST | _SECOND if op is Op.EQ else _NEITHER | _SECOND
            derived.append((places[i, says[0]], places.get((i, says[1]), -1), truth))
        return Derived.of(derived)

    def mirrored_atoms(self, atoms: Masks, budget: Budget | None = None) -> Masks:
        """The same conjunctions with t and s exchanged."""
        return Derived.of((place, -1, _FIRST) for place in self.mirror_atoms.tolist())(atoms, budget)

    def turned(self, atoms: Masks) -> Masks:
        """Each conjunction, or the same with t and s exchanged: the smaller of the two."""
        mirror = self.mirrored_atoms(atoms)
        differ = atoms != mirror
        first, rows = differ.argmax(axis=1), np.arange(len(atoms))
        turn = differ.any(axis=1) & (mirror[rows, first] < atoms[rows, first])
        return np.where(turn[:, None], mirror, atoms)

    def in_weak(self, atoms: Masks) -> Flags:
        """Sets of atoms as bits [set, 3 x comparison + weak operator]; without order, `=` becomes `<=` and `>=`."""
        bits = unpack(atoms, len(self.atoms))
        weak_bits = np.zeros((len(atoms), len(WEAK) * len(self.comparisons)), np.bool_)
        for atom, (i, op) in enumerate(self.atoms):
            for weak in (Op.LE, Op.GE) if op is Op.EQ else (op,):
                weak_bits[:, len(WEAK) * i + WEAK.index(weak)] |= bits[:, atom]
        return weak_bits

    def terms(self, atoms: Masks) -> list[Term]:
        """The comparisons of a conjunction of weak atoms, with their operators. None of them is a contradiction."""
        weak_of: dict[int, Weak] = {}
        for place in np.flatnonzero(unpack(atoms.reshape(1, -1), len(self.atoms))[0]).tolist():
            i, op = self.atoms[place]
            weak_of[i] = weak_of.get(i, Weak(0)) | op.atoms
        ops = ((i, Op.of_atoms(weak)) for i, weak in weak_of.items())
        return [(i, op) for i, op in ops if op is not None]

    def agreement(self, atoms: Masks) -> tuple[list[int], int | None] | None:
        """(left, right) if pairs satisfy the atoms that agree on the columns `left` and differ in the column `right`,
        if that is not None: the claim of an FD or of a key. None for other conjunctions."""
        equal, unequal = list[int](), list[int]()
        for i, op in self.terms(atoms):
            if op not in (Op.EQ, Op.NE) or self.is_crossed(i):
                return None
            (equal if op is Op.EQ else unequal).append(self.comparisons[i].left)
        return (equal, unequal[0] if unequal else None) if len(unequal) <= 1 else None

    def conjunction(self, terms: Iterable[Term]) -> Masks:
        """The weak atoms of some comparisons, as one row: the inverse of `terms`."""
        wanted = dict(terms)
        return mask_of(
            (place for place, (i, op) in enumerate(self.atoms) if i in wanted and wanted[i].implies(op)),
            len(self.atoms),
        )

    # --- rows -----------------------------------------------------------------------------------------------

    def operands(self, codes: Codes) -> list[tuple[Codes, Codes]]:
        """The left and the right operands of each comparison, as codes that compare like the values."""
        columns, codes_of = self.schema.columns, list(codes)
        return [
            (codes_of[a], codes_of[a]) if a == b else common_codes(columns[a], codes_of[a], columns[b], codes_of[b])
            for a, b in ((comparison.left, comparison.right) for comparison in self.comparisons)
        ]

    def clues(self, codes: Codes, pairs: Numbers, budget: Budget | None = None) -> Masks:
        """The clues of pairs (t, s) of rows, by position. O(pairs x comparisons)."""
        operands, clues = self.operands(codes), np.empty((len(pairs), self.width), np.uint64)
        for first, stop in spans(len(pairs), _PAIRS_AT_ONCE, budget):
            clues[first:stop] = self._clues(operands, pairs[first:stop])
        return clues

    def _clues(self, operands: list[tuple[Codes, Codes]], pairs: Numbers) -> Masks:
        bits = np.zeros((len(pairs), len(self.bits)), np.bool_)
        for place, (i, say) in enumerate(self.bits):
            left, right = operands[i][0][pairs[:, 0]], operands[i][1][pairs[:, 1]]
            if say in _SAYS:
                bits[:, place] = _SAYS[say](left, right)
            if say in (LESS, GREATER) or self.nulls != "equal":
                null = (left == NULL, right == NULL)
                bits[:, place] |= null[0] ^ null[1] if self.nulls == "equal" else null[0] | null[1]
        return pack(bits)


def cross_pairs(
    schema: Schema, codes: Codes, cross_columns: CrossColumns, budget: Budget | None = None
) -> list[tuple[int, int]]:
    """The pairs of different columns that are compared: the given ones, or the at most eight pairs with most common
    values, from 30 % of the rows on. O(columns x values)."""
    if not isinstance(cross_columns, bool):
        return [given_pair(schema, pair) for pair in cross_columns]
    if not cross_columns:
        return []
    values, columns, counts = _value_counts(schema, codes)
    shared = []
    for a in np.unique(columns).tolist():
        if budget is not None:
            budget.check()
        of_a, of_others = columns == a, columns > a
        count_in_a = np.zeros(values.max(initial=-1) + 1, np.int64)
        count_in_a[values[of_a]] = counts[of_a]
        common = np.minimum(counts[of_others], count_in_a[values[of_others]])
        overlap = np.bincount(columns[of_others], common, minlength=len(schema))
        shared += [(int(overlap[b]), a, b) for b in np.flatnonzero(overlap).tolist()]
    return most_shared(shared, codes.shape[1])


def most_shared(overlaps: Iterable[tuple[int, int, int]], rows: int) -> list[tuple[int, int]]:
    """The pairs of columns a < b with the largest overlaps, given as (overlap, a, b), from 30 % of the rows on."""
    enough = [(-overlap, a, b) for overlap, a, b in overlaps if overlap > 0 and overlap >= _OVERLAP * rows]
    return sorted((a, b) for _, a, b in sorted(enough)[:MAX_CROSS_PAIRS])


def given_pair(schema: Schema, pair: tuple[str, str]) -> tuple[int, int]:
    """The positions of two given columns. Raises an error if they cannot be compared."""
    for name in pair:
        if name not in schema:
            raise SchemaError(unknown_name("column", name, schema.names))
    a, b = sorted(schema.positions(pair))
    if a == b:
        raise HoldfastError(f"cross_columns: {shown(pair[0])} is compared with itself anyway")
    if not comparable(schema.columns[a], schema.columns[b]):
        raise HoldfastError(f"cross_columns: {shown(pair[0])} and {shown(pair[1])} are of kinds that do not compare")
    return a, b


def _value_counts(schema: Schema, codes: Codes) -> tuple[Numbers, Numbers, Numbers]:
    """(value, column, count) of all values of the columns that may be compared with others. Values are numbers that
    only equal values share."""
    chosen = [i for i, column in enumerate(schema.columns) if column.kind.group in CROSSED]
    parts = [identities(schema.columns[i], codes[i][codes[i] != NULL]) for i in chosen]
    if not parts:
        return (np.zeros(0, np.int64),) * 3
    every = np.stack([np.concatenate([half.astype(np.int64) for half in side]) for side in zip(*parts, strict=True)])
    numbers = np.split(groups(every, np.arange(2)), np.cumsum([len(number) for number, _ in parts])[:-1])
    counted = [np.unique(of_column, return_counts=True) for of_column in numbers]
    columns = np.repeat(chosen, [len(values) for values, _ in counted])
    return np.concatenate([values for values, _ in counted]), columns, np.concatenate([counts for _, counts in counted])
