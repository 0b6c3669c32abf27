"""Whether a conjunction of comparisons is satisfied by any pair of rows, without looking at all pairs.

Equalities put rows into groups. Within a group, sorted by one further comparison, a second one needs only the least and
the greatest of the rows before: one pass (after FACET and VioFinder, which order inequalities in this way). Further
comparisons are asked of an index, or, for few new rows, of all their pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.discovery.agree_set import Tally
from holdfast.discovery.evidence import Evidence
from holdfast.discovery.space import Bits, Space
from holdfast.indexes.named import DEFAULT, index_named
from holdfast.indexes.plan import compile_rule, group_rules
from holdfast.kernels import sweep
from holdfast.kernels.grouping import number_values
from holdfast.rules.masks import Masks, Numbers, unpack
from holdfast.rules.operator import Op, Weak
from holdfast.rules.predicate import Cell, Compare
from holdfast.rules.rule import Dc
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.keys import table_for

Pair = tuple[int, int]
_OPS = {
    Op.LT: sweep.LESS,
    Op.LE: sweep.LESS_EQUAL,
    Op.GT: sweep.GREATER,
    Op.GE: sweep.GREATER_EQUAL,
    Op.NE: sweep.DIFFERENT,
}
_WEAK = {Op.LE: Weak.LE, Op.GE: Weak.GE, Op.NE: Weak.NE, Op.EQ: Weak.LE | Weak.GE}
_UNIQUE = -(1 << 62)  # from here on nulls have numbers of their own, where each differs from everything
_FEW = 0.05  # of the rows: so many are sooner sorted than sought in the order of all
_FEW_NEW = 2_000  # rows that are sooner compared with all than all enter an index
_FIRST_ASKED = 4096  # rows that enter an index before it is looked at


class Predicate(NamedTuple):
    """t.left op s.right, as the codes of both for all rows. `nulls`: whether they are values, stand `apart` from the
    values, or satisfy nothing (`never`)."""

    left: Codes
    right: Codes
    op: Op
    nulls: str = "values"

    @property
    def mirrored(self) -> Predicate:
        return Predicate(self.right, self.left, self.op.mirror, self.nulls)


class Clashes:
    """Rows, of which the first `lead` are new, and what pairs of them satisfy. Orders stay for the next question."""

    def __init__(self, space: Space, codes: Codes, lead: int = 0, index: str = DEFAULT) -> None:
        self._space, self._codes, self._lead, self._index = space, codes, lead, index
        self._operands = space.operands(codes)
        self._rows = codes.shape[1]
        self._clues: Tally | None = None
        self._known: dict[tuple[int, int], tuple[Numbers, Numbers, int]] = {}
        self._orders: dict[int, npt.NDArray[np.int32]] = {}

    def pair(self, atoms: Masks, *, new: bool = False) -> Pair | None:
        """Two rows that satisfy all of some weak atoms, if there are any. With `new`: where a pair without a new row is
        known not to. O(rows) for up to two comparisons beside equalities, and sorting once for each column; else what
        an index takes."""
        chosen = self._conjunction(atoms)
        equal = [i for i, op in chosen if op is Op.EQ]
        rest = [(i, op) for i, op in chosen if op is not Op.EQ]
        if new and not self._lead:
            return None
        if len(rest) > 2:
            return self._compared(atoms) if new and self._lead < _FEW_NEW else self._asked(chosen)
        rest.sort(key=lambda item: not item[1].is_order)
        first = [self._predicate(i, op) for i, op in rest]
        for predicates in _one_way(first):
            found = self._swept(equal, predicates, new)
            if found is not None:
                return found
        return None

    def _conjunction(self, atoms: Masks) -> list[tuple[int, Op]]:
        """(comparison, operator) of some weak atoms."""
        made: dict[int, Weak] = {}
        for place in np.flatnonzero(unpack(atoms.reshape(1, -1), len(self._space.atoms))[0]).tolist():
            i, op = self._space.atoms[place]
            made[i] = made.get(i, Weak(0)) | _WEAK[op]
        ops = ((i, Op.of_atoms(weak)) for i, weak in made.items())
        return [(i, op) for i, op in ops if op is not None]

    def _predicate(self, i: int, op: Op) -> Predicate:
        left, right = self._operands[i]
        if op is Op.NE and self._space.nulls == "distinct":
            numbers = np.arange(self._rows)
            left, right = (
                np.where(side == NULL, _UNIQUE + 2 * numbers + k, side) for k, side in enumerate((left, right))
            )
            return Predicate(left, right, op)
        if self._space.nulls != "equal":
            return Predicate(left, right, op, "never")
        return Predicate(left, right, op, "values" if op is Op.NE else "apart")

    # --- one pass -------------------------------------------------------------------------------------------

    def _swept(self, equal: Sequence[int], predicates: Sequence[Predicate], new: bool) -> Pair | None:
        """The first of the predicates is `<` or `<=`."""
        keys = [self._operands[i] for i in equal]
        flip = _is_turned(predicates)
        keys = [(right, left) for left, right in keys] if flip else keys
        predicates = [p.mirrored for p in predicates] if flip else predicates
        may_t, may_s = self._members(keys, predicates)
        keys += [_is_null(p) for p in predicates if p.nulls == "apart"]
        group_t, group_s, size = self._groups(keys)
        if group_t is not group_s:
            may_s = may_s.copy()
        if new and keys:
            asked = np.zeros(size, np.bool_)
            asked[group_t[: self._lead]] = asked[group_s[: self._lead]] = True
            may_t, may_s = _both(may_t, may_s, asked, group_t, group_s)
        in_t = np.bincount(group_t[may_t], minlength=size)
        alive = in_t > 1 if may_t is may_s else (in_t > 0) & (np.bincount(group_s[may_s], minlength=size) > 0)
        may_t, may_s = _both(may_t, may_s, alive, group_t, group_s)
        nothing = np.zeros(self._rows, np.int64)
        a, b = [*predicates, *([Predicate(nothing, nothing, Op.LE)] * 2)][:2]
        rows_t = self._sorted(a.left, may_t, group_t)
        rows_s = rows_t if a.left is a.right and may_t is may_s else self._sorted(a.right, may_s, group_s)
        t, s = sweep.find_pair(
            rows_t,
            rows_s,
            group_t,
            group_s,
            *map(_whole, (a.left, a.right, b.left, b.right)),
            a.op is Op.LT,
            _OPS[b.op],
        )
        return None if t < 0 else (s, t) if flip else (t, s)

    def _members(self, keys: Sequence[tuple[Codes, Codes]], predicates: Sequence[Predicate]) -> tuple[Bits, Bits]:
        """Which rows may be t and which s, for their nulls; one array where that is the same."""
        compared = [*keys, *((p.left, p.right) for p in predicates if p.nulls == "never")]
        may_t = np.ones(self._rows, np.bool_)
        may_s = may_t if all(left is right for left, right in compared) else may_t.copy()
        if self._space.nulls != "equal":
            for left, right in compared:
                may_t &= left != NULL
                may_s &= right != NULL
        return may_t, may_s

    def _groups(self, keys: list[tuple[Codes, Codes]]) -> tuple[Numbers, Numbers, int]:
        """For each row, as t and as s, the number of the group that it is in, and how many numbers there are."""
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
        """The values of both sides of a comparison by number; of columns of the table they are kept."""
        if not self._is_kept(left):
            return _numbered(left, right)
        if (id(left), id(right)) not in self._known:
            self._known[id(left), id(right)] = _numbered(left, right)
        return self._known[id(left), id(right)]

    def _is_kept(self, values: Codes) -> bool:
        return any(values is side for sides in self._operands for side in sides)

    def _sorted(self, values: Codes, may: Bits, group: Numbers) -> Numbers:
        """The rows that may stand in a role, by group and then by value."""
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
        """The rows by value; for columns of the table it is kept."""
        if not self._is_kept(values):
            return _ascending(values)
        if id(values) not in self._orders:
            self._orders[id(values)] = _ascending(values)
        return self._orders[id(values)]

    # --- by all pairs ---------------------------------------------------------------------------------------

    def _compared(self, atoms: Masks) -> Pair | None:
        """Of the pairs of new rows with all rows, which are compared once."""
        if self._clues is None:
            places = np.arange(self._rows)
            new, old = np.split(places, [self._lead])
            self._clues = Evidence(self._space).pairs(new, self._codes[:, new], old, self._codes[:, old])
        for turned in (False, True):
            clues = self._space.mirrored(self._clues.sets) if turned else self._clues.sets
            passes = np.flatnonzero(~(self._space.lacks(clues) & atoms).any(axis=1))
            if len(passes):
                t, s = self._clues.pairs[passes[0]].tolist()
                return (s, t) if turned else (t, s)
        return None

    # --- by an index ----------------------------------------------------------------------------------------

    def _asked(self, chosen: Sequence[tuple[int, Op]]) -> Pair | None:
        """Rows enter an index, more and more at a time, until a pair violates the conjunction."""
        names = self._space.schema.names
        sides = [(self._space.comparisons[i], op) for i, op in chosen]
        rule = Dc(frozenset(Compare(Cell("t", names[c.left]), op, Cell("s", names[c.right])) for c, op in sides))
        (group,) = group_rules([compile_rule(rule, self._space.schema, self._space.nulls)], self._space.schema)
        index = index_named(self._index)(group, TextDictionary())
        nobody = np.zeros(0, np.int64)
        ids, start, step = np.arange(self._rows), 0, _FIRST_ASKED
        while start < self._rows:
            part = ids[start : start + step]
            codes = np.ascontiguousarray(self._codes[:, part])
            if index.change(nobody, codes[:, :0], part, codes, np.array([-1])).count_added[0]:
                here = ids[: start + len(part)]
                counts = index.partners(here, self._codes[:, here], 0, emit=False)[1]
                one = here[counts > 0][:1]
                found = index.partners(one, self._codes[:, one], 0)[0]
                assert found.s is not None
                return int(found.t[0]), int(found.s[0])
            start, step = start + len(part), 2 * step
        return None


def _both(may_t: Bits, may_s: Bits, chosen: Bits, group_t: Numbers, group_s: Numbers) -> tuple[Bits, Bits]:
    """Only the rows of chosen groups; one array where it was one."""
    left = may_t & chosen[group_t]
    return left, left if may_t is may_s else may_s & chosen[group_s]


def _is_null(p: Predicate) -> tuple[Codes, Codes]:
    """Whether the sides of a predicate are null, as a key: a null stands with nulls only."""
    left = (p.left == NULL).astype(np.int64)
    return left, left if p.left is p.right else (p.right == NULL).astype(np.int64)


def _one_way(predicates: list[Predicate]) -> list[list[Predicate]]:
    """A first predicate `!=` as `<` and as `>`; others as they are."""
    if not predicates or predicates[0].op is not Op.NE:
        return [predicates]
    first, rest = predicates[0], predicates[1:]
    symmetric = all(p.left is p.right and p.op is Op.NE for p in predicates)
    return [[first._replace(op=op), *rest] for op in (Op.LT, Op.GT)[: 1 if symmetric else 2]]


def _is_turned(predicates: Sequence[Predicate]) -> bool:
    return bool(predicates) and predicates[0].op in (Op.GT, Op.GE)


def _numbered(left: Codes, right: Codes) -> tuple[Numbers, Numbers, int]:
    """Both sides by number, equal values by the same."""
    both = left if left is right else np.concatenate([left, right])
    numbers = np.empty(len(both), np.int32)
    count = number_values(_whole(both), table_for(len(both)), numbers)
    made = numbers.astype(np.int64)
    return (made, made, count) if left is right else (made[: len(left)], made[len(left) :], count)


def _ascending(values: Codes) -> npt.NDArray[np.int32]:
    """The rows by value. O(rows) where the values are close together: short numbers are sorted by digits."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    near = (values - low).astype(np.uint16) if high - low < 1 << 16 else values
    return np.argsort(near, kind="stable").astype(np.int32)


def _whole(values: Codes) -> Codes:
    return np.ascontiguousarray(values)
