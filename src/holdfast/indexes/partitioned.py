"""An index in parts, on an executor: for rows that one process, or one core, should not search alone.

Where rules have equalities, a row belongs to the bucket that its key hashes to, as t and as s: whatever can be a
partner is there. Where they have none, rows lie in blocks by their first dimension, and a row asks the blocks whose
bounds do not rule it out. The state of a part is its rows; whoever is asked builds the box index over them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Array, Arrays
from holdfast.executors.executor import BUCKET, Block, Bucket, Executor
from holdfast.indexes.box import BoxIndex, Roles
from holdfast.indexes.index import Counts, MakeIndex, PairChanges, members, violate_with_themselves
from holdfast.indexes.pairs import Ids, Pairs
from holdfast.indexes.plan import Group, Operand
from holdfast.rules.operator import Op
from holdfast.table.dictionary import NULL, Codes, TextDictionary

PARTS = 16
_LEAVES, _COMES = 0, 1
_MANY = np.iinfo(np.int64).max
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)

Places = npt.NDArray[np.int64]


def partitioned(executor: Executor, parts: int = PARTS) -> MakeIndex:
    """What makes indexes on this executor."""
    return partial(PartitionedIndex, executor=executor, parts=parts)


class PartitionedIndex:
    """`Index` over parts. A change costs one job; each part that it touches is built anew: O(rows of the part)."""

    asked_at_once, least_asked, works_elsewhere = 1 << 22, 1 << 16, True

    def __init__(self, group: Group, dictionary: TextDictionary, executor: Executor, parts: int = PARTS) -> None:
        self.group, self._dictionary, self._executor = group, dictionary, executor
        self.counts: Counts = np.zeros(len(group.rules), np.int64)
        self._layout = Keyed(group, parts) if group.s.key else Blocked(group, parts)
        self._parts = [Bucket(number) for number in range(parts)]
        self._shared = {"group": np.frombuffer(pickle.dumps(group), np.uint8)}

    @property
    def nbytes(self) -> int:
        return sum(int(a.nbytes) for part in self._parts for a in (part.arrays or {}).values())

    def change(self, leave: Ids, leave_codes: Codes, come: Ids, come_codes: Codes, limits: Counts) -> PairChanges:
        """As `Index.change`."""
        first = not len(self._layout)
        if first and isinstance(self._layout, Blocked):
            self._layout.lay_out(come_codes)
        sides = [(_LEAVES, leave, leave_codes), (_COMES, come, come_codes)]
        deltas = [self._sent(mode, ids, codes) for mode, ids, codes in sides if len(ids)]
        if not deltas:
            nothing = [Pairs.none()] * len(self.counts)
            return PairChanges(nothing, 0 * self.counts, nothing, 0 * self.counts, (limits >= 0).tolist())
        delta = {name: np.concatenate([d[name] for d in deltas]) for name in deltas[0]}
        before, step = self._parts, keyed_step if isinstance(self._layout, Keyed) else blocked_step
        self._parts, summaries = self._executor.update(step, before, delta, self._shared | {"limits": limits})
        self._executor.forget([old for old, new in zip(before, self._parts, strict=True) if old is not new])
        if isinstance(self._layout, Blocked):
            self._layout.widen(come_codes)
            if first:
                summaries = [self._all_pairs(come, come_codes, limits)]
            else:
                summaries = [*summaries, *self._among_themselves(leave, leave_codes, come, come_codes, limits)]
        gone, gone_count, gone_listed = _gathered(summaries, "removed", limits)
        fresh, fresh_count, fresh_listed = _gathered(summaries, "added", limits)
        self.counts += fresh_count - gone_count
        return PairChanges(gone, gone_count, fresh, fresh_count, (gone_listed & fresh_listed).tolist())

    def _sent(self, mode: int, ids: Ids, codes: Codes) -> dict[str, Array]:
        """Rows with the parts they go to, in which roles, whether they live there, and the hashes of their keys."""
        places, rows, roles, at_home = self._layout.route(codes, self._roles(codes))
        compact = np.ascontiguousarray(codes[self.group.columns][:, rows].T)
        made: dict[str, Array] = {BUCKET: places, "id": ids[rows], "codes": compact}
        made["mode"] = np.full(len(rows), mode, np.int8)
        made["hash"] = np.ascontiguousarray(self._layout.hashes(codes)[:, rows].T)
        return made | {"roles": np.ascontiguousarray(roles.T), "home": at_home}

    def _roles(self, codes: Codes) -> Roles:
        """Who passes the tests of t and of s; tests may need the dictionary, which only this process has."""
        sides = (self.group.t, self.group.s)
        return np.array([members(self.group, side, codes, self._dictionary) for side in sides], np.uint8)

    def _among_themselves(
        self, leave: Ids, leave_codes: Codes, come: Ids, come_codes: Codes, limits: Counts
    ) -> Iterator[Arrays]:
        """The pairs of rows that go together, and of rows that come together: blocks meet only those who stay."""
        for what, ids, codes in (("removed", leave, leave_codes), ("added", come, come_codes)):
            index = BoxIndex(self.group, self._dictionary)
            pairs, listed = index.enter(ids, codes, limits)
            yield _summary(what, pairs, listed, index.counts)

    def _all_pairs(self, ids: Ids, codes: Codes, limits: Counts) -> Arrays:
        """The pairs of the first rows, which are all in their blocks: each asks as t."""
        found = [self.partners(ids, codes, rule, emit=limit >= 0) for rule, limit in enumerate(limits)]
        counts = np.array([per_row.sum() for _, per_row in found], np.int64)
        return _summary("added", [pairs for pairs, _ in found], (limits >= 0).tolist(), counts)

    def partners(self, ids: Ids, codes: Codes, rule: int, *, emit: bool = True) -> tuple[Pairs, Counts]:
        """As `Index.partners`."""
        places, rows, roles, _ = self._layout.route(codes, self._roles(codes))
        asked = roles[0] != 0  # as t
        places, rows = places[asked], rows[asked]
        shared = self._shared | {"rule": np.array([rule]), "emit": np.array([emit])}
        blocks = []
        for part in self._parts:
            mine = rows[places == part.number]
            if len(mine):
                arrays = {"id": ids[mine], "codes": np.ascontiguousarray(codes[self.group.columns][:, mine].T)}
                blocks.append(Block(arrays | {"place": mine}, cost=len(mine), buckets=(part,)))
        found = self._executor.map(partners_tile, blocks, shared)
        counts = np.zeros(len(ids), np.int64)
        for answer in found:
            np.add.at(counts, np.asarray(answer["place"], np.int64), answer["counts"])
        themselves = violate_with_themselves(self.group, rule, codes, self._dictionary)
        pairs = Pairs.joined([Pairs(np.asarray(a["t"]), np.asarray(a["s"])) for a in found])
        assert pairs.s is not None
        kept = pairs.t != pairs.s
        return Pairs(pairs.t[kept], pairs.s[kept]), counts - themselves


# --- who goes where -----------------------------------------------------------------------------------------


class Keyed:
    """By the hash of the key; a row whose keys as t and as s differ goes to two parts, in one role each."""

    def __init__(self, group: Group, parts: int) -> None:
        self._group, self._count = group, parts

    def __len__(self) -> int:
        return self._count

    def route(self, codes: Codes, roles: Roles) -> tuple[Places, Places, Roles, npt.NDArray[np.bool_]]:
        """(part, row, roles there, whether it lives there) for each row and part it goes to."""
        t, s = (self.hashes(codes).view(np.uint64) % np.uint64(self._count)).astype(np.int64)
        both = t == s
        rows = np.arange(codes.shape[1])
        places = np.concatenate([t[both], t[~both], s[~both]])
        chosen = np.concatenate([rows[both], rows[~both], rows[~both]])
        as_t, as_s = (roles[:, ~both] * np.array(one, np.uint8) for one in ([[1], [0]], [[0], [1]]))
        stand = np.concatenate([roles[:, both], as_t, as_s], axis=1)
        kept = stand.any(axis=0)
        return places[kept], chosen[kept], stand[:, kept], np.ones(int(kept.sum()), bool)

    def hashes(self, codes: Codes) -> Places:
        """hashes[t and s, row]: of the keys."""
        operands, sides = self._group.codes(codes), (self._group.t, self._group.s)
        made = [hashes(operands[self._group.positions(side.key)]) for side in sides[: 1 if self._group.shared else 2]]
        return np.array([made[0], made[-1]]).view(np.int64)


def hashes(columns: Codes) -> npt.NDArray[np.uint64]:
    """The hash of each row of some columns, as `kernels/hashing.hash_row` has it."""
    value = np.full(columns.shape[1], _GOLDEN)
    with np.errstate(over="ignore"):
        for column in columns:
            word = value ^ column.view(np.uint64)
            word = (word ^ (word >> np.uint64(30))) * _FIRST
            word = (word ^ (word >> np.uint64(27))) * _SECOND
            value = (word ^ (word >> np.uint64(31))) + _GOLDEN
    return value


def quantiles(values: Places, count: int) -> Places:
    """The edges between `count` blocks of about the same number of values; fewer where many are equal."""
    if not len(values) or count < 2:
        return np.zeros(0, np.int64)
    ordered = np.sort(values)
    return np.unique(ordered[np.arange(1, count) * len(ordered) // count])


class Blocked:
    """By ranges of the first dimension, as s. A row lives in one block and asks those that may have partners."""

    def __init__(self, group: Group, parts: int) -> None:
        self._group, self._count = group, parts
        self._edges: Places | None = None
        dims = len(group.s.dims)
        self._least = np.full((parts, 2, dims), np.iinfo(np.int64).max)  # of s and of t values
        self._most = np.full((parts, 2, dims), NULL)
        self._null = np.zeros((parts, 2, dims), bool)

    def __len__(self) -> int:
        return 0 if self._edges is None else self._count

    def _values(self, codes: Codes, operands: tuple[Operand, ...]) -> Codes:
        return self._group.codes(codes)[self._group.positions(operands)]

    def lay_out(self, codes: Codes) -> None:
        """Chooses the ranges, by the first rows that come."""
        if not codes.shape[1] or not self._group.s.dims:
            self._edges = np.zeros(0, np.int64)
            return
        self._edges = quantiles(self._values(codes, self._group.s.dims)[0], self._count)

    def _homes(self, codes: Codes) -> Places:
        if self._edges is None or not len(self._edges):
            return np.zeros(codes.shape[1], np.int64)
        homes = np.searchsorted(self._edges, self._values(codes, self._group.s.dims)[0], side="right")
        return np.asarray(homes, np.int64)

    def widen(self, codes: Codes) -> None:
        """The bounds of the blocks with these rows in them; they never shrink."""
        homes = self._homes(codes)
        for side, operands in enumerate((self._group.s.dims, self._group.t.dims)):
            for d, values in enumerate(self._values(codes, operands)):
                known = values != NULL
                np.minimum.at(self._least[:, side, d], homes[known], values[known])
                np.maximum.at(self._most[:, side, d], homes[known], values[known])
                self._null[homes[~known], side, d] = True

    def route(self, codes: Codes, roles: Roles) -> tuple[Places, Places, Roles, npt.NDArray[np.bool_]]:
        """As `Keyed.route`."""
        homes = self._homes(codes)
        may = np.zeros((self._count, codes.shape[1]), bool)
        for rule in range(len(self._group.rules)):
            may |= self._may_meet(codes, rule, as_t=True) & (roles[0] != 0)
            may |= self._may_meet(codes, rule, as_t=False) & (roles[1] != 0)
        may[homes, np.arange(codes.shape[1])] = True
        may &= roles.any(axis=0)
        places, rows = np.nonzero(may)
        return places, rows, roles[:, rows], homes[rows] == places

    def hashes(self, codes: Codes) -> Places:
        """There are no keys."""
        return np.zeros((2, codes.shape[1]), np.int64)

    def _may_meet(self, codes: Codes, rule: int, *, as_t: bool) -> npt.NDArray[np.bool_]:
        """may[block, row]: whether the block's bounds leave room for a partner."""
        mine, side = (self._group.t.dims, 0) if as_t else (self._group.s.dims, 1)
        values = self._values(codes, mine)
        possible = np.ones((self._count, codes.shape[1]), bool)
        for d, op in enumerate(self._group.ops(rule)):
            if op is None:
                continue
            asked = op if as_t else op.mirror  # my value op the partner's
            least, most = self._least[:, side, d][:, None], self._most[:, side, d][:, None]
            there = least <= most
            room = {
                Op.LT: values[d] < most,
                Op.LE: values[d] <= most,
                Op.GT: values[d] > least,
                Op.GE: values[d] >= least,
                Op.EQ: (values[d] >= least) & (values[d] <= most),
                Op.NE: (least != most) | (values[d] != least),
            }[asked]
            unknown = self._null[:, side, d][:, None] | (values[d] == NULL)
            possible &= (room & there) | unknown  # what a null meets depends on the policy: the index knows
        return possible


# --- in the parts -------------------------------------------------------------------------------------------


class _Part:
    """The rows of a part, and the box index over them; which tests they pass is known.

    Where a delta is given, only rows that can have to do with it are in the index: those with its keys, and itself.
    """

    def __init__(self, rows: Arrays, shared: Arrays, delta: Arrays | None = None) -> None:
        self.group: Group = pickle.loads(np.asarray(shared["group"]).tobytes())
        self.index = BoxIndex(self.group, TextDictionary(), tested=True)
        self.rows = rows
        if rows:
            self.index.hold(*self.spread(rows if delta is None else _chosen(rows, _concerned(rows, delta))))

    def spread(self, rows: Arrays) -> tuple[Ids, Codes, Roles]:
        """Ids, codes of all columns (those that no rule looks at are zero), roles."""
        columns = self.group.columns
        codes = np.zeros((len(self.group.schema), len(rows["id"])), np.int64)
        codes[columns] = np.asarray(rows["codes"], np.int64).T
        return np.array(rows["id"], np.int64), codes, np.array(np.asarray(rows["roles"]).T, np.uint8, order="C")

    def after(self, leave: Arrays, come: Arrays) -> dict[str, Array]:
        """The rows when some have left and others come. A row may be here twice, once in each role."""
        names = ("id", "codes", "roles", "hash")
        if not self.rows:
            return {name: np.asarray(come[name]) for name in names}
        stays = ~np.isin(self.rows["id"], leave["id"])
        return {name: np.concatenate([np.asarray(self.rows[name])[stays], come[name]]) for name in names}


def keyed_step(rows: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
    """Rows leave and come, and find all their partners here."""
    part, limits = _Part(rows, shared, delta), np.array(shared["limits"], np.int64)
    leave, come = _chosen(delta, delta["mode"] == _LEAVES), _chosen(delta, delta["mode"] == _COMES)
    index = part.index
    start = index.counts.copy()
    ids, codes, roles = part.spread(leave)
    removed = index.leave(ids, codes, limits, roles)
    middle = index.counts.copy()
    ids, codes, roles = part.spread(come)
    added = index.enter(ids, codes, limits, roles)
    summary = _summary("removed", *removed, start - middle) | _summary("added", *added, index.counts - middle)
    return part.after(leave, come), summary


def blocked_step(rows: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
    """Rows that live here leave; all that were sent meet those who stay; rows that will live here come."""
    part, limits = _Part(rows, shared), np.array(shared["limits"], np.int64)
    leaves, home = np.asarray(delta["mode"]) == _LEAVES, np.asarray(delta["home"])
    gone, come = _chosen(delta, leaves & home), _chosen(delta, ~leaves & home)
    if len(gone["id"]):
        part.index.drop(*part.spread(gone))
    summary: dict[str, Array] = {}
    for what, chosen in (("removed", leaves), ("added", ~leaves)):
        ids, codes, roles = part.spread(_chosen(delta, chosen))
        summary |= _summary(what, *part.index.meet(ids, codes, limits, roles))
    return part.after(gone, come), summary


def partners_tile(block: Arrays, shared: Arrays) -> Arrays:
    """The partners of some rows among the rows of a part."""
    rows = {name.removeprefix("0/"): array for name, array in block.items() if name.startswith("0/")}
    part, rule, emit = _Part(rows, shared), int(shared["rule"][0]), bool(shared["emit"][0])
    roles = np.ones((len(block["id"]), 2), np.uint8)
    ids, codes, _ = part.spread({"id": block["id"], "codes": block["codes"], "roles": roles})
    pairs, counts = part.index.found(ids, codes, rule, emit=emit)
    assert pairs.s is not None
    return {"place": block["place"], "counts": counts, "t": pairs.t, "s": pairs.s}


def _concerned(rows: Arrays, delta: Arrays) -> npt.NDArray[np.bool_]:
    """Rows that stand as s with a key that the delta has as t, or the other way round, or that leave."""
    mine, theirs = np.asarray(rows["hash"]), np.asarray(delta["hash"])
    roles = np.asarray(rows["roles"])
    as_t = (roles[:, 0] != 0) & np.isin(mine[:, 0], np.unique(theirs[:, 1]))
    as_s = (roles[:, 1] != 0) & np.isin(mine[:, 1], np.unique(theirs[:, 0]))
    leaves = np.isin(rows["id"], np.asarray(delta["id"])[np.asarray(delta["mode"]) == _LEAVES])
    return np.asarray(as_t | as_s | leaves)


def _chosen(delta: Arrays, mask: Array) -> dict[str, Array]:
    return {name: np.asarray(array)[mask] for name, array in delta.items()}


def _summary(what: str, pairs: list[Pairs], listed: list[bool], counts: Counts) -> dict[str, Array]:
    rules = np.repeat(np.arange(len(pairs)), [len(p) for p in pairs])
    joined = Pairs.joined(pairs)
    assert joined.s is not None
    made: dict[str, Array] = {"count": np.asarray(counts), "listed": np.array(listed, bool), "rule": rules}
    return {f"{what}_{name}": array for name, array in (made | {"t": joined.t, "s": joined.s}).items()}


def _gathered(summaries: list[Arrays], what: str, limits: Counts) -> tuple[list[Pairs], Counts, npt.NDArray[np.bool_]]:
    """(pairs, number, whether all are listed) of each rule, from all parts."""
    mine = [s for s in summaries if f"{what}_count" in s]
    count: Counts = sum((np.asarray(s[f"{what}_count"]) for s in mine), np.zeros(len(limits), np.int64))
    listed = np.logical_and.reduce([limits >= count, *(np.asarray(s[f"{what}_listed"]) for s in mine)])
    t, s, rules = (
        np.concatenate([np.zeros(0, np.int64), *(a[f"{what}_{n}"] for a in mine)]) for n in ("t", "s", "rule")
    )
    pairs = [Pairs(t[rules == i], s[rules == i]) if listed[i] else Pairs.none() for i in range(len(limits))]
    return pairs, count, listed
