"""Finds a pair of rows that satisfies a conjunction of comparisons, without comparing all pairs.

Equalities group the rows. Each group is sorted by the first other comparison; one pass then decides the second one,
which needs only the least and the greatest value so far. For a third comparison these extremes are kept in a tree over
the ranks of the second. Each further comparison takes one pass for each bit of its ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Flags
from holdfast.discovery.budget import Budget
from holdfast.discovery.witness.predicate_space import PredicateSpace, Term
from holdfast.kernels import sweep
from holdfast.kernels.grouping import number_values
from holdfast.rules.masks import Masks, Numbers
from holdfast.rules.operator import Op
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.keys import table_for

Pair = tuple[int, int]
Keys = list[tuple[Codes, Codes]]  # operands that must be equal: of rows as t, and as s
Roles = tuple[Flags, Flags]  # rows that may be t, and rows that may be s
OPS = {
    Op.LT: sweep.LESS,
    Op.LE: sweep.LESS_EQUAL,
    Op.GT: sweep.GREATER,
    Op.GE: sweep.GREATER_EQUAL,
    Op.NE: sweep.DIFFERENT,
    Op.EQ: sweep.EQUAL,
}
SWEPT = 3  # comparisons besides equalities that one pass decides
_FEW = 0.05  # share of the rows up to which sorting them is faster than filtering the order of all rows


class CodedPredicate(NamedTuple):
    """t.left op s.right, as codes for all rows. `nulls`: a null is a value (`values`), compares with nulls only
    (`apart`), or satisfies nothing (`never`)."""

    left: Codes
    right: Codes
    op: Op
    nulls: str = "values"

    @property
    def mirrored(self) -> CodedPredicate:
        return CodedPredicate(self.right, self.left, self.op.mirror, self.nulls)


class Clashes:
    """Answers which conjunctions pairs of rows satisfy. The first `lead` rows are the inserted ones. Sort orders and
    numberings of columns are kept for the next question."""

    def __init__(
        self,
        space: PredicateSpace,
        codes: Codes,
        lead: int = 0,
        *,
        budget: Budget | None = None,
    ) -> None:
        self._space, self._lead, self._budget = space, lead, budget or Budget()
        self._operands = space.operands(codes)
        self._rows = codes.shape[1]
        self._numberings: dict[tuple[int, int], tuple[Numbers, Numbers, int]] = {}
        self._orders: dict[int, npt.NDArray[np.int32]] = {}

    def pair(self, atoms: Masks, *, new: bool = False) -> Pair | None:
        """Two rows that satisfy all of the weak atoms, or None. With `new`, only pairs with an inserted row can. Sorts
        each column once; then O(rows) for up to two comparisons besides equalities, and log(rows) times as much for
        each further one."""
        if new and not self._lead:
            return None
        return self.satisfying(self._space.terms(atoms), new=new)

    def satisfying(self, terms: Sequence[Term], *, new: bool = False) -> Pair | None:
        """Two rows that satisfy all of these comparisons, or None."""
        rest = [(i, op) for i, op in terms if op is not Op.EQ]
        return self._within([self._operands[i] for i, op in terms if op is Op.EQ], rest, new)

    def _within(self, keys: Keys, rest: Sequence[Term], new: bool, only: Roles | None = None) -> Pair | None:
        """A pair of rows with equal keys, in the roles that `only` allows."""
        if len(rest) > SWEPT:
            return self._halved(keys, rest, new, only)
        unequal = [self._predicate(i, op) for i, op in sorted(rest, key=lambda item: not item[1].is_order)]
        ways = _one_way(unequal)
        sides = [*keys, *((p.left, p.right) for p in unequal)]
        if only is None and all(left is right for left, right in sides) and all(p.op is Op.NE for p in unequal):
            ways = ways[: -(-len(ways) // 2)]  # the others are mirror images
        for predicates in ways:
            self._budget.check()
            pair = self._swept(keys, predicates, new, only)
            if pair is not None:
                return pair
        return None

    def _halved(self, keys: Keys, rest: Sequence[Term], new: bool, only: Roles | None) -> Pair | None:
        """Removes the comparison of fewest values by halving its ranks: for ranks a < b there is one bit that b has and
        a lacks, above which they are equal. So each bit gives a question with one key more and one comparison less."""
        i, op = min(rest, key=lambda item: self._numbers(*self._operands[item[0]])[2])
        others = [item for item in rest if item[0] != i]
        p = self._predicate(i, op)
        if op in (Op.LE, Op.GE):
            pair = self._within([*keys, self._operands[i]], others, new, only)
            if pair is not None:
                return pair
        may_t, may_s = (np.ones(self._rows, np.bool_),) * 2 if only is None else only
        if p.nulls != "values":
            may_t, may_s = may_t & (p.left != NULL), may_s & (p.right != NULL)
        left, right, count = _ranks(p.left, p.right)
        for upper in {Op.LT: (1,), Op.LE: (1,), Op.GT: (0,), Op.GE: (0,)}.get(op, (0, 1)):  # the half of s
            for bit in range((count - 1).bit_length()):
                roles = may_t & (left >> bit & 1 != upper), may_s & (right >> bit & 1 == upper)
                pair = self._within([*keys, (left >> bit + 1, right >> bit + 1)], others, new, roles)
                if pair is not None:
                    return pair
        return None

    def _predicate(self, i: int, op: Op) -> CodedPredicate:
        left, right = self._operands[i]
        if op is Op.NE and self._space.nulls == "distinct":
            return CodedPredicate(*self._each_null_apart(left, right), op)
        if self._space.nulls != "equal":
            return CodedPredicate(left, right, op, "never")
        return CodedPredicate(left, right, op, "values" if op is Op.NE else "apart")

    def _each_null_apart(self, left: Codes, right: Codes) -> tuple[Codes, Codes]:
        """Numbers that are equal if the values are; each null gets a number of its own, as t and as s."""
        if not ((left == NULL).any() or (right == NULL).any()):
            return left, right
        *sides, count = self._numbers(left, right)
        places = np.arange(self._rows)
        as_t, as_s = (
            np.where(codes == NULL, count + 2 * places + k, side)
            for k, (codes, side) in enumerate(zip((left, right), sides, strict=True))
        )
        return as_t, as_s

    # --- one pass -------------------------------------------------------------------------------------------

    def _swept(self, keys: Keys, predicates: Sequence[CodedPredicate], new: bool, only: Roles | None) -> Pair | None:
        """A pair with equal keys that satisfies up to three predicates, of which the first is an order: one pass."""
        flip = _is_turned(predicates)
        keys = [(right, left) for left, right in keys] if flip else list(keys)
        predicates = [p.mirrored for p in predicates] if flip else predicates
        may_t, may_s = self._members(keys, predicates)
        if only is not None:
            may_t, may_s = may_t & only[flip], may_s & only[not flip]
        keys += [_is_null(p) for p in predicates if p.nulls == "apart"]
        group_t, group_s, size = self._groups(keys)
        if group_t is not group_s:
            may_s = may_s.copy()
        if new and keys:
            has_new = np.zeros(size, np.bool_)
            has_new[group_t[: self._lead]] = has_new[group_s[: self._lead]] = True
            may_t, may_s = _both(may_t, may_s, has_new, group_t, group_s)
        in_t = np.bincount(group_t[may_t], minlength=size)
        alive = in_t > 1 if may_t is may_s else (in_t > 0) & (np.bincount(group_s[may_s], minlength=size) > 0)
        may_t, may_s = _both(may_t, may_s, alive, group_t, group_s)
        nothing = np.zeros(self._rows, np.int64)
        a, b = [*predicates, *([CodedPredicate(nothing, nothing, Op.LE)] * 2)][:2]
        c = predicates[2] if len(predicates) > 2 else None
        rows_t = self._sorted(a.left, may_t, group_t)
        rows_s = rows_t if a.left is a.right and may_t is may_s else self._sorted(a.right, may_s, group_s)
        t_side = sweep.SweptSide(rows_t, group_t, _whole(a.left), nothing[:0], _whole(b.left))
        s_side = sweep.SweptSide(rows_s, group_s, _whole(a.right), nothing[:0], _whole(b.right))
        if c is None:
            t, s = sweep.find_pair(t_side, s_side, a.op is Op.LT, OPS[b.op])
        else:
            *ranks, count = _ranks(b.left, b.right)
            ranks = [side + 1 if b.op in (Op.LT, Op.LE) else count - side for side in ranks]
            t_side = t_side._replace(rank=ranks[0], last=_whole(c.left))
            s_side = s_side._replace(rank=ranks[1], last=_whole(c.right))
            strict, extremes = (a.op is Op.LT, b.op in (Op.LT, Op.GT)), np.full((count + 1, 4), -1, np.int64)
            t, s = sweep.find_in_three(t_side, s_side, *strict, OPS[c.op], extremes)
        return None if t < 0 else (s, t) if flip else (t, s)

    def _members(self, keys: Keys, predicates: Sequence[CodedPredicate]) -> tuple[Flags, Flags]:
        """Which rows may be t and which s, given their nulls; the same array if the roles do not differ."""
        compared = [*keys, *((p.left, p.right) for p in predicates if p.nulls == "never")]
        may_t = np.ones(self._rows, np.bool_)
        may_s = may_t if all(left is right for left, right in compared) else may_t.copy()
        if self._space.nulls != "equal":
            for left, right in compared:
                may_t &= left != NULL
                may_s &= right != NULL
        return may_t, may_s

    def _groups(self, keys: Keys) -> tuple[Numbers, Numbers, int]:
        """The number of each row's group, as t and as s, and how many numbers there are."""
        group_t = group_s = np.zeros(self._rows, np.int64)
        size = 1
        for left, right in keys:
            t, s, count = self._numbers(left, right)
            if count == 1:
                continue
            same = group_t is group_s and t is s
            group_t = group_t * count + t if size > 1 else t
            group_s = group_t if same else group_s * count + s if size > 1 else s
            size *= count
            if size > max(16, 2 * self._rows):
                group_t, group_s, size = _numbered(group_t, group_s)
        return group_t, group_s, size

    def _numbers(self, left: Codes, right: Codes) -> tuple[Numbers, Numbers, int]:
        """The values of both sides by number, and how many there are. Kept for columns of the table."""
        if not self._is_kept(left):
            return _numbered(left, right)
        if (id(left), id(right)) not in self._numberings:
            self._numberings[id(left), id(right)] = _numbered(left, right)
        return self._numberings[id(left), id(right)]

    def _is_kept(self, values: Codes) -> bool:
        return any(values is side for sides in self._operands for side in sides)

    def _sorted(self, values: Codes, may: Flags, group: Numbers) -> Numbers:
        """The rows that may take a role, sorted by group and then by value."""
        rows = np.flatnonzero(may)
        if len(rows) < _FEW * self._rows:
            return rows[np.lexsort((values[rows], group[rows]))]
        order = self._order(values)
        rows = order[may[order]].astype(np.int64)
        counts = np.bincount(group[rows], minlength=1)
        starts, out = np.concatenate([[0], np.cumsum(counts)[:-1]]), np.empty_like(rows)
        sweep.by_group(rows, group, starts, out)
        return out

    def _order(self, values: Codes) -> npt.NDArray[np.int32]:
        """The rows sorted by value. Kept for columns of the table."""
        if not self._is_kept(values):
            return _ascending(values)
        if id(values) not in self._orders:
            self._orders[id(values)] = _ascending(values)
        return self._orders[id(values)]


def _ranks(left: Codes, right: Codes) -> tuple[Numbers, Numbers, int]:
    """Both sides by common rank, from 0 on, and how many ranks there are."""
    values, ranks = np.unique(left if left is right else np.concatenate([left, right]), return_inverse=True)
    return (ranks, ranks, len(values)) if left is right else (ranks[: len(left)], ranks[len(left) :], len(values))


def _both(may_t: Flags, may_s: Flags, chosen: Flags, group_t: Numbers, group_s: Numbers) -> tuple[Flags, Flags]:
    """Only the rows of chosen groups; the same array for both roles if it was the same before."""
    as_t = may_t & chosen[group_t]
    return as_t, as_t if may_t is may_s else may_s & chosen[group_s]


def _is_null(p: CodedPredicate) -> tuple[Codes, Codes]:
    """Whether each side of a predicate is null, as a key: so a null compares with nulls only."""
    left = (p.left == NULL).astype(np.int64)
    return left, left if p.left is p.right else (p.right == NULL).astype(np.int64)


def _one_way(predicates: list[CodedPredicate]) -> list[list[CodedPredicate]]:
    """The ways to write a conjunction such that rows are sorted and ranked by orders: `!=` there becomes `<` or `>`."""
    ways: list[list[CodedPredicate]] = [[]]
    for place, p in enumerate(predicates):
        split = p.op is Op.NE and (place == 0 or (place == 1 and len(predicates) == SWEPT))
        ops = (Op.LT, Op.GT) if split else (p.op,)
        ways = [[*way, p._replace(op=op)] for way in ways for op in ops]
    return ways


def _is_turned(predicates: Sequence[CodedPredicate]) -> bool:
    """Whether t and s have to be exchanged, so that the first predicate is `<` or `<=`."""
    return bool(predicates) and predicates[0].op in (Op.GT, Op.GE)


def _numbered(left: Codes, right: Codes) -> tuple[Numbers, Numbers, int]:
    """Both sides as numbers, the same for equal values, and how many there are."""
    both = left if left is right else np.concatenate([left, right])
    numbers = np.empty(len(both), np.int32)
    count = number_values(_whole(both), table_for(len(both)), numbers)
    wide = numbers.astype(np.int64)
    return (wide, wide, count) if left is right else (wide[: len(left)], wide[len(left) :], count)


def _ascending(values: Codes) -> npt.NDArray[np.int32]:
    """The rows sorted by value. O(rows) if all values are close: NumPy sorts 16-bit numbers by radix."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    near = (values - low).astype(np.uint16) if high - low < 1 << 16 else values
    return np.argsort(near, kind="stable").astype(np.int32)


def _whole(values: Codes) -> Codes:
    return np.ascontiguousarray(values)
