"""The default index: the kernels of `kernels/box*.py` behind one handle.

Rows are known to the kernels by version numbers: a row that changes gets a new version, so what is dead stays dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import HoldfastError
from holdfast.indexes.box_arrays import empty_box, grown, longer, nbytes, renumbered, room_for, with_versions
from holdfast.indexes.index import Counts, PairChanges, members, moved, violate_with_themselves
from holdfast.indexes.pairs import Ids, Pairs
from holdfast.indexes.plan import Group
from holdfast.kernels import box as kernel
from holdfast.kernels import box_batch as batch
from holdfast.kernels import box_query as query
from holdfast.kernels.handle import Handle, as_compiled
from holdfast.rules.operator import Op
from holdfast.table.dictionary import Codes, TextDictionary

_OPS = {Op.EQ: query.EQ, Op.NE: query.NE, Op.LT: query.LT, Op.LE: query.LE, Op.GT: query.GT, Op.GE: query.GE}
_POLICIES = {"equal": query.NULL_EQUAL, "distinct": query.NULL_DISTINCT, "sql": query.NULL_SQL}
_FIRST_ROOM, _ENOUGH_ROOM = 1 << 12, 1 << 19
_MAX_VERSIONS = 2**31 - 2
_NO_ORDER, _ALL, _NO_COUNTS = np.zeros(0, np.int64), np.zeros((2, 0), np.uint8), np.zeros(0, np.int64)

Roles = npt.NDArray[np.uint8]  # [t and s, row]
Part = tuple[Ids, npt.NDArray[np.int32]]  # pairs[t and s, pair] and their rules (empty if there is only one)


class BoxIndex:
    """One box for both roles, or two. An insert costs O(log rows) amortised, plus the entries it visits; see
    `kernels/box.py`.

    An index in which a call was interrupted is not to be used again.
    """

    asked_at_once, least_asked = 1 << 12, 16

    def __init__(self, group: Group, dictionary: TextDictionary, *, tested: bool = False) -> None:
        """`tested`: every call gives the roles of its rows, so the index does not test them."""
        self.group, self._dictionary = group, dictionary
        rules, t, s = group.rules, group.t, group.s
        keys, dims, count = len(s.key), len(s.dims), len(rules)
        self._operands = None if all(o.form is None for o in group.operands) else group.operands
        self._filtered = not tested and any((t.filter, t.where, s.filter, s.where))
        self._s_rows = empty_box(keys, dims)
        self._t_rows = self._s_rows if group.shared else empty_box(keys, dims)
        self._no_pairs = [Pairs.none()] * count
        self._asks = np.array([[1, not rule.symmetric] for rule in rules], np.uint8)
        place = group.positions if self._operands else lambda operands: np.array([o.column for o in operands], np.int64)
        self._lines = batch.Lines(
            flags=np.array([group.shared, group.nulls_equal], np.int64),
            policies=np.array([_POLICIES[rule.nulls] for rule in rules], np.int64),
            symmetric=np.array([rule.symmetric for rule in rules], np.uint8),
            t_key=place(t.key),
            t_dims=place(t.dims),
            t_ops=_operators(group, lambda op: op),
            s_key=place(s.key),
            s_dims=place(s.dims),
            s_ops=_operators(group, lambda op: op.mirror),
            query=np.zeros((dims, 4), np.int64),
            extended=np.array(group.extended, np.int64),
            pairs=np.zeros((2, _FIRST_ROOM), np.int64),
            rules=np.zeros(_FIRST_ROOM if count > 1 else 0, np.int32),
            row_ids=np.zeros(64, np.int64),
            versions=np.full(64, -1, np.int32),
            counts=np.zeros((5, count), np.int64),
            state=np.zeros(5, np.int64),
        )
        self.counts: Counts = self._lines.counts[batch.TOTAL]
        self._state = self._lines.state
        self._renew_handle()

    @property
    def nbytes(self) -> int:
        boxes = [self._s_rows] if self.group.shared else [self._s_rows, self._t_rows]
        return sum(map(nbytes, boxes)) + int(self._lines.row_ids.nbytes + self._lines.versions.nbytes)

    def enter(self, ids: Ids, codes: Codes, limits: Counts, roles: Roles = _ALL) -> tuple[list[Pairs], list[bool]]:
        """Inserts rows and returns their pairs; `roles` says which rows may be t and which s, besides the group's own
        tests."""
        return self._process(ids, codes, limits, batch.ENTER, self._asks, roles)

    def leave(self, ids: Ids, codes: Codes, limits: Counts, roles: Roles = _ALL) -> tuple[list[Pairs], list[bool]]:
        """Deletes rows and returns the pairs that go with them."""
        return self._process(ids, codes, limits, batch.LEAVE, self._asks, roles)

    def change(self, leave: Ids, leave_codes: Codes, come: Ids, come_codes: Codes, limits: Counts) -> PairChanges:
        """As `Index.change`."""
        return moved(self, leave, leave_codes, come, come_codes, limits)

    def hold(self, ids: Ids, codes: Codes, roles: Roles = _ALL) -> None:
        """Inserts rows without searching."""
        self._process(ids, codes, _unlisted(self._asks), batch.ENTER, np.zeros_like(self._asks), roles)

    def drop(self, ids: Ids, codes: Codes, roles: Roles = _ALL) -> None:
        """Deletes rows without searching."""
        self._process(ids, codes, _unlisted(self._asks), batch.LEAVE, np.zeros_like(self._asks), roles)

    def meet(
        self, ids: Ids, codes: Codes, limits: Counts, roles: Roles = _ALL
    ) -> tuple[list[Pairs], list[bool], Counts]:
        """The pairs that other rows would form with the rows of the index, in either role, and their number."""
        if not len(ids):
            return self._no_pairs, (limits >= 0).tolist(), np.zeros(len(self._asks), np.int64)
        pairs, listed = self._process(ids, codes, limits, batch.ASK, np.ones_like(self._asks), roles)
        return pairs, listed, self._lines.counts[batch.BATCH].copy()

    def _process(
        self, ids: Ids, codes: Codes, limits: Counts, mode: int, asks: Roles, roles: Roles
    ) -> tuple[list[Pairs], list[bool]]:
        if not len(ids):
            return self._no_pairs, (limits >= 0).tolist()
        per_row = np.zeros(len(ids), np.int64) if mode == batch.ASK else _NO_COUNTS
        found = self._run(ids, codes, asks, limits, mode, per_row, roles)
        parts = [(pairs.copy(), rules.copy()) for pairs, rules in found]
        listed = (self._lines.counts[batch.BATCH] <= limits).tolist()
        if not parts:
            return self._no_pairs, listed
        return [_of_rule(parts, i) if wanted else Pairs.none() for i, wanted in enumerate(listed)], listed

    def partners(self, ids: Ids, codes: Codes, rule: int, *, emit: bool = True) -> tuple[Pairs, Counts]:
        """As `Index.partners`."""
        found, counts = self.found(ids, codes, rule, emit=emit)
        assert found.s is not None
        kept = found.t != found.s
        themselves = violate_with_themselves(self.group, rule, codes, self._dictionary)
        return Pairs(found.t[kept], found.s[kept]), counts - themselves

    def found(self, ids: Ids, codes: Codes, rule: int, *, emit: bool = True) -> tuple[Pairs, Counts]:
        """The same, including the pair of a row with itself, if it has one."""
        counts = np.zeros(len(ids), np.int64)
        parts = [(pairs.copy(), rules.copy()) for pairs, rules in self._ask(ids, codes, rule, counts, emit=emit)]
        return _of_rule(parts, rule), counts

    def _ask(self, ids: Ids, codes: Codes, rule: int, counts: Counts, *, emit: bool = True) -> Iterator[Part]:
        asks, limits = np.zeros_like(self._asks), np.full(len(self._asks), np.iinfo(np.int64).max if emit else -1)
        asks[rule, 0] = 1
        return self._run(ids, codes, asks, limits, batch.ASK, counts)

    def _run(
        self,
        ids: Ids,
        codes: Codes,
        asks: Roles,
        limits: Counts,
        mode: int,
        per_row: Counts = _NO_COUNTS,
        roles: Roles = _ALL,
    ) -> Iterator[Part]:
        """Runs the kernel over the rows, and makes room when it asks for some. Yields pairs in parts; each is a view of
        a buffer that the next part overwrites."""
        who = self._members(codes) if self._filtered else roles
        if self._filtered and roles.shape[1]:
            who &= roles
        order = self._near_each_other(codes)
        ids, codes = as_compiled(ids), as_compiled(self.group.codes(codes) if self._operands else codes)
        row, status = batch.START, kernel.GROW_OUT
        while status != kernel.DONE:
            self._state[batch.MODE] = mode
            row, status, used = self._handle.call(batch.process, codes, ids, order, who, asks, limits, per_row, row)
            if mode == batch.LEAVE and status != kernel.DONE:
                mode = batch.LEFT
            if status not in (kernel.DONE, kernel.GROW_OUT):
                self._grow(status, int(ids.max()))
                continue
            if used:
                self._state[batch.USED] = 0
                yield self._lines.pairs[:, :used], self._lines.rules[:used]
            room = self._lines.pairs.shape[1]
            if status == kernel.GROW_OUT and (not used or room < _ENOUGH_ROOM):
                self._make_room(4 * room)

    def _members(self, codes: Codes) -> npt.NDArray[np.uint8]:
        sides = (self.group.t, self.group.s)
        return np.array([members(self.group, side, codes, self._dictionary) for side in sides], np.uint8)

    def _near_each_other(self, codes: Codes) -> Ids:
        """An order in which neighbours search the same places (Weever, section 5.5); any order finds the same pairs."""
        side = self.group.s
        if len(side.dims) < 2 or codes.shape[1] < 16:
            return _NO_ORDER
        return np.lexsort([codes[o.column] for o in (side.dims[0], *side.key)])

    # --- room -----------------------------------------------------------------------------------------------

    def _grow(self, status: int, most: int) -> None:
        """Makes the room that the kernel asks for. If half of all versions are dead, it removes them instead."""
        versions = int(self._state[batch.NEXT_VERSION])
        if versions > 1024 and 2 * int(self._state[batch.LIVE]) < versions:
            self._forget_the_dead()
        elif status == kernel.GROW_VERSIONS:
            if versions >= _MAX_VERSIONS:
                raise HoldfastError(f"an index in the process holds at most {_MAX_VERSIONS:,} rows")
            row_ids, of_rows = self._lines.row_ids, self._lines.versions
            room = min(room_for(versions + 1, len(row_ids)), _MAX_VERSIONS)
            if most >= len(of_rows):
                of_rows = longer(of_rows, room_for(most + 1, len(of_rows)), -1)
            self._lines = self._lines._replace(row_ids=longer(row_ids, room), versions=of_rows)
            self._change_boxes(lambda box: with_versions(box, room))
        else:
            self._change_boxes(lambda box: grown(box, status))

    def _forget_the_dead(self) -> None:
        """Renumbers the live versions, so that deleted rows take no room."""
        of_rows = self._lines.versions
        old = np.sort(of_rows[of_rows >= 0])
        new = np.full(int(self._state[batch.NEXT_VERSION]), -1, np.int32)
        new[old] = np.arange(len(old), dtype=np.int32)
        room = room_for(len(old) + 1, len(old))
        ids = self._lines.row_ids[old]
        of_rows[ids] = np.arange(len(old), dtype=np.int32)
        self._lines = self._lines._replace(row_ids=longer(ids, room))
        self._state[batch.NEXT_VERSION] = len(old)
        self._change_boxes(lambda box: renumbered(box, new, room))

    def _change_boxes(self, change: Callable[[kernel.Box], kernel.Box]) -> None:
        self._s_rows = change(self._s_rows)
        self._t_rows = self._s_rows if self.group.shared else change(self._t_rows)
        self._renew_handle()

    def _make_room(self, room: int) -> None:
        """An empty buffer for this many pairs."""
        rules = np.zeros(room if len(self.group.rules) > 1 else 0, np.int32)
        self._lines = self._lines._replace(pairs=np.zeros((2, room), np.int64), rules=rules)
        self._renew_handle()

    def _renew_handle(self) -> None:
        self._handle = Handle([*self._s_rows, *self._t_rows, *self._lines])


def _operators(group: Group, turned: Callable[[Op], Op]) -> npt.NDArray[np.int64]:
    """ops[rule, dimension], as the kernels number them."""
    rules = range(len(group.rules))
    ops = [[query.ANY if op is None else _OPS[turned(op)] for op in group.ops(rule)] for rule in rules]
    return np.array(ops, np.int64).reshape(len(rules), len(group.s.dims))


def _unlisted(asks: Roles) -> Counts:
    return np.full(len(asks), -1)


def _of_rule(parts: list[Part], rule: int) -> Pairs:
    """The pairs of one rule in all parts."""
    chosen: list[npt.NDArray[Any]] = [pairs if not len(rules) else pairs[:, rules == rule] for pairs, rules in parts]
    if not chosen:
        return Pairs.none()
    t, s = chosen[0] if len(chosen) == 1 else np.concatenate(chosen, axis=1)
    return Pairs(t, s)
