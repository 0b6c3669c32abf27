"""One group of pair rules with its indexes: rows come and go, violating pairs come out.

Rows are known to the indexes by version numbers: a row that changes gets a new version, so what is dead stays dead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.indexes.box import empty_box, grown, nbytes, with_versions
from holdfast.indexes.plan import Group, PairRule, Side
from holdfast.indexes.rowtest import rows_that_satisfy
from holdfast.kernels import box as kernel
from holdfast.kernels import box_search as search
from holdfast.rules.operator import Op
from holdfast.rules.rule import as_dc
from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.violations.pairs import Ids, Pairs

_OPS = {Op.EQ: search.EQ, Op.NE: search.NE, Op.LT: search.LT, Op.LE: search.LE, Op.GT: search.GT, Op.GE: search.GE}
_POLICIES = {"equal": search.NULL_EQUAL, "distinct": search.NULL_DISTINCT, "sql": search.NULL_SQL}
ENTER, LEAVE, ASK = 1, 0, 2
_FIRST_ROOM, _ENOUGH_ROOM = 1 << 12, 1 << 22

Part = tuple[Ids, Ids, npt.NDArray[np.int32] | None]  # t, s, rule (None where there is only one)


class PairIndex:
    """The indexes of a group. `counts[i]` is the exact number of violating ordered pairs of rule i."""

    def __init__(self, group: Group, words: TextDictionary) -> None:
        self.group, self.words = group, words
        rules = group.rules
        self.counts = np.zeros(len(rules), np.int64)
        keys, dims = len(rules[0].s.key), len(rules[0].s.dims)
        self._box_s, self._box_t = empty_box(keys, dims), empty_box(keys, 0 if group.shared else dims)
        if group.shared:
            self._box_t = self._box_s
        self._row_of = np.zeros(64, np.int64)
        self._version_of = np.full(64, -1, np.int32)
        self._versions = 0
        self._policies = np.array([_POLICIES[r.nulls] for r in rules], np.int64)
        self._symmetric = np.array([r.symmetric for r in rules], np.uint8)
        self._ops_t = np.array([[_OPS[op] for op in r.ops] for r in rules], np.int64).reshape(len(rules), dims)
        self._ops_s = np.array([[_OPS[op.mirror] for op in r.ops] for r in rules], np.int64).reshape(len(rules), dims)
        self._operands = group.operands
        self._plain = [o.column for o in self._operands] if all(o.form is None for o in self._operands) else None
        self._places = [(group.positions(side.key), group.positions(side.dims)) for side in (rules[0].t, rules[0].s)]
        self._query = np.zeros((dims, 4), np.int64)
        self._found = _room(len(rules), _FIRST_ROOM)

    @property
    def nbytes(self) -> int:
        boxes = [self._box_s] if self.group.shared else [self._box_s, self._box_t]
        return sum(map(nbytes, boxes)) + int(self._row_of.nbytes + self._version_of.nbytes)

    def enter(self, ids: Ids, codes: Codes, limits: list[int]) -> tuple[list[Pairs], list[bool]]:
        """Rows come: the pairs of each rule that come with them, and whether they were all listed.

        They are not where there are more than the rule's limit (-1: list nothing); `counts` is exact in any case.
        """
        versions = np.arange(self._versions, self._versions + len(ids), dtype=np.int32)
        self._register(ids, versions)
        made, listed, counts = self._process(codes, versions, limits, ENTER)
        self.counts += counts
        return made, listed

    def leave(self, ids: Ids, codes: Codes, limits: list[int]) -> tuple[list[Pairs], list[bool]]:
        """Rows go: the pairs of each rule that go with them, likewise."""
        made, listed, counts = self._process(codes, self._version_of[ids], limits, LEAVE)
        self._version_of[ids] = -1
        self.counts -= counts
        return made, listed

    def partners(self, ids: Ids, codes: Codes, rule: int, *, emit: bool = True) -> tuple[Pairs, npt.NDArray[np.int64]]:
        """For rows that are here: the pairs of one rule in which they are t, and how many each has."""
        batch, (t_role, s_role) = self._batch(codes, self._version_of[ids]), self._roles(codes)
        all_but_one = np.ones(len(self.group.rules), np.uint8)
        all_but_one[rule] = 0
        skip_all, wanted = np.ones_like(all_but_one), np.full(len(all_but_one), emit, np.uint8)
        counts, found, row = np.zeros(len(ids), np.int64), self._found, 0
        made: list[Part] = []
        while row < len(ids):
            row_done, status = search.process(
                self._box_s, self._box_t, self.group.shared, t_role, s_role, batch, self._policies,
                all_but_one, skip_all, wanted, ASK, self._query, found, row,
            )  # fmt: skip
            if status == kernel.GROW_OUT:
                found = self._with_room(found, made, batch.versions)
                continue
            counts[row], found.counts[rule] = found.counts[rule], 0
            row = row_done
        made.append(self._flush(found, batch.versions))
        t, s, _ = _joined(made)
        kept = t != s
        return Pairs(t[kept], s[kept]), counts - self._with_itself(rule, codes)

    def _with_itself(self, rule: int, codes: Codes) -> npt.NDArray[np.bool_]:
        """Rows that would violate the rule with themselves, which the index finds like any other."""
        compiled = self.group.rules[rule]
        schema, predicates = self.group.schema, as_dc(compiled.rule).written  # type: ignore[arg-type]
        found = rows_that_satisfy(predicates, schema, codes, self.words, compiled.nulls)
        return found & rows_that_satisfy(compiled.t.where, schema, codes, self.words, "sql")

    def _with_room(self, found: search.Found, made: list[Part], versions: npt.NDArray[np.int32]) -> search.Found:
        """Room for the answers that did not fit: what is there is taken out, and next time there is more room."""
        made.append(self._flush(found, versions))
        if len(made[-1][0]) and len(found.partner) >= _ENOUGH_ROOM:
            return found
        larger = _room(len(found.counts), 2 * len(found.partner))
        larger.counts[:] = found.counts
        self._found = larger
        return larger

    def _register(self, ids: Ids, versions: npt.NDArray[np.int32]) -> None:
        self._versions += len(ids)
        if self._versions > len(self._row_of):
            self._row_of = _extended(self._row_of, self._versions, 0)
        most = int(ids.max(initial=-1)) + 1
        if most > len(self._version_of):
            self._version_of = _extended(self._version_of, most, -1)
        self._row_of[versions] = ids
        self._version_of[ids] = versions
        self._set_boxes(with_versions(self._box_s, self._versions), with_versions(self._box_t, self._versions))

    def _set_boxes(self, box_s: kernel.Box, box_t: kernel.Box) -> None:
        self._box_s, self._box_t = box_s, box_s if self.group.shared else box_t

    def _batch(self, codes: Codes, versions: npt.NDArray[np.int32]) -> search.Batch:
        return search.Batch(codes[self._plain] if self._plain is not None else self.group.codes(codes), versions)

    def _allowed(self, side: Side, codes: Codes) -> npt.NDArray[np.uint8]:
        """Who may stand in a role: rows that pass its filter and whose key can be equal to another."""
        allowed = ~self.group.key_is_null(side, codes)
        for tests, nulls in ((side.filter, self.group.rules[0].nulls), (side.where, "sql")):
            if tests:
                allowed &= rows_that_satisfy(tests, self.group.schema, codes, self.words, nulls)
        return allowed.astype(np.uint8)

    def _roles(self, codes: Codes) -> tuple[search.Role, search.Role]:
        rule: PairRule = self.group.rules[0]
        member_t = self._allowed(rule.t, codes)
        member_s = member_t if self.group.shared else self._allowed(rule.s, codes)
        return (
            search.Role(*self._places[0], self._ops_t, member_t),
            search.Role(*self._places[1], self._ops_s, member_s),
        )

    def _process(
        self, codes: Codes, versions: npt.NDArray[np.int32], limits: list[int], mode: int
    ) -> tuple[list[Pairs], list[bool], npt.NDArray[np.int64]]:
        order = self._near_each_other(codes)
        if order is not None:
            codes, versions = codes[:, order], versions[order]
        batch, (t_role, s_role) = self._batch(codes, versions), self._roles(codes)
        most = np.array(limits)
        wanted, skip_none, found = (most >= 0).astype(np.uint8), np.zeros(len(limits), np.uint8), self._found
        made: list[Part] = []
        row, now = 0, mode
        while row < len(versions):
            row, status = search.process(
                self._box_s, self._box_t, self.group.shared, t_role, s_role, batch, self._policies,
                skip_none, self._symmetric, wanted, now, self._query, found, row,
            )  # fmt: skip
            now = mode
            if status == kernel.GROW_OUT:
                found = self._with_room(found, made, versions)
                wanted[found.counts > most] = 0
                now = ASK if mode == LEAVE else mode
            elif status != kernel.DONE:
                self._set_boxes(grown(self._box_s, status), grown(self._box_t, status))
        made.append(self._flush(found, versions))
        counts = found.counts * np.where(self._symmetric == 1, 2, 1)
        wanted[counts > most] = 0
        found.counts[:] = 0
        everything = _joined(made)
        pairs = [
            self._of_rule(everything, i, symmetric=bool(self._symmetric[i])) if wanted[i] else Pairs.none()
            for i in range(len(limits))
        ]
        return pairs, [bool(w) for w in wanted], counts

    def _near_each_other(self, codes: Codes) -> Ids | None:
        """An order in which neighbours search the same places (Weever, section 5.5); any order finds the same pairs."""
        side = self.group.rules[0].s
        if len(side.dims) < 2 or codes.shape[1] < 16:
            return None
        return np.lexsort([codes[o.column] for o in (side.dims[0], *side.key)])

    def _flush(self, found: search.Found, versions: npt.NDArray[np.int32]) -> Part:
        """(t, s, rule) of what was emitted since the last time."""
        used, answered = found.used.tolist()
        found.used[:] = 0
        asker, rule, as_t, count = found.answers[:answered].T
        partners = self._row_of[found.partner[:used]]
        askers = np.repeat(self._row_of[versions[asker]], count)
        rules = np.repeat(rule, count) if len(self.group.rules) > 1 else None
        if as_t.all():
            return askers, partners, rules
        turned = np.repeat(as_t == 1, count)
        return np.where(turned, askers, partners), np.where(turned, partners, askers), rules

    def _of_rule(self, part: Part, rule: int, *, symmetric: bool) -> Pairs:
        t, s, rules = part
        if rules is not None:
            t, s = t[rules == rule], s[rules == rule]
        return Pairs(np.concatenate([t, s]), np.concatenate([s, t])) if symmetric else Pairs(t, s)


def _joined(parts: list[Part]) -> Part:
    if len(parts) == 1:
        return parts[0]
    t, s = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    rules = [part[2] for part in parts if part[2] is not None]
    return t, s, np.concatenate(rules) if rules else None


def _room(rules: int, size: int) -> search.Found:
    return search.Found(
        partner=np.zeros(size, np.int32),
        answers=np.zeros((max(size // 4, 2 * rules + 2), 4), np.int32),
        counts=np.zeros(rules, np.int64),
        used=np.zeros(2, np.int64),
    )


def _extended(array: npt.NDArray[Any], size: int, fill: int) -> npt.NDArray[Any]:
    made = np.full(max(size, len(array) * 3 // 2), fill, dtype=array.dtype)
    made[: len(array)] = array
    return made
