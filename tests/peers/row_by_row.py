"""An index in plain Python: rows ask one after the other. For the two structures of the papers, `chain` and
`less_than`, which are second implementations: oracles for the default one, and rows in the benchmarks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import numpy as np

from holdfast.indexes.index import Counts, PairChanges, members, moved, violate_with_themselves
from holdfast.indexes.pairs import Ids, Pairs
from holdfast.indexes.plan import Group, Side
from holdfast.rules.operator import Op
from holdfast.table.dictionary import Codes, TextDictionary

Values = tuple[int, ...]
Ops = tuple[Op | None, ...]
Entry = tuple[int, Values, Values]  # row id, values of the key, values of the dimensions


class Partners(Protocol):
    """The rows that can stand in one role, searched by rows that stand in the other."""

    @property
    def nbytes(self) -> int: ...

    def load(self, entries: Iterable[Entry]) -> None:
        """The first rows, all at once."""

    def add(self, entry: Entry) -> None: ...

    def remove(self, entry: Entry) -> None: ...

    def find(self, key: Values, values: Values, ops: Ops, nulls: str) -> Collection[int]:
        """The ids of the rows x with this key and `value op x` in every dimension that has an operator."""


class RowByRow:
    """`Index` over two `Partners`, or one where it serves both roles."""

    asked_at_once, least_asked = 1 << 12, 16

    def __init__(self, group: Group, dictionary: TextDictionary) -> None:
        self.group, self._dictionary = group, dictionary
        self.counts: Counts = np.zeros(len(group.rules), np.int64)
        self._empty = True  # nothing has come yet
        ops = [group.ops(rule) for rule in range(len(group.rules))]
        self._t_ops, self._s_ops = ops, [tuple(op and op.mirror for op in of_rule) for of_rule in ops]
        self._s_rows = self.make_partners(group.s, self._t_ops)
        self._t_rows = self._s_rows if group.shared else self.make_partners(group.t, self._s_ops)

    def make_partners(self, side: Side, ops: Sequence[Ops]) -> Partners:
        """The rows of one role; `ops` are those of the rules, as the other role asks."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        return self._s_rows.nbytes + (0 if self.group.shared else self._t_rows.nbytes)

    def enter(self, ids: Ids, codes: Codes, limits: Counts) -> tuple[list[Pairs], list[bool]]:
        """Rows come. Into an empty index all rows go at once, and then each asks as t."""
        if self._empty and len(ids):
            return self._load(ids, codes, limits)
        answers = _Answers(limits)
        for t, s in zip(*self._entries(ids, codes), strict=True):
            self._ask(answers, t, s)
            self._both("add", t, s)
        self.counts += answers.counts
        return answers.result()

    def _load(self, ids: Ids, codes: Codes, limits: Counts) -> tuple[list[Pairs], list[bool]]:
        self._empty = False
        t, s = self._entries(ids, codes)
        self._s_rows.load([entry for entry in s if entry is not None])
        if not self.group.shared:
            self._t_rows.load([entry for entry in t if entry is not None])
        found = [self.partners(ids, codes, rule, emit=limit >= 0) for rule, limit in enumerate(limits)]
        self.counts += [int(per_row.sum()) for _, per_row in found]
        listed = (self.counts <= limits).tolist()
        return [pairs if keep else Pairs.none() for (pairs, _), keep in zip(found, listed, strict=True)], listed

    def leave(self, ids: Ids, codes: Codes, limits: Counts) -> tuple[list[Pairs], list[bool]]:
        """Rows go."""
        answers = _Answers(limits)
        for t, s in zip(*self._entries(ids, codes), strict=True):
            self._both("remove", t, s)
            self._ask(answers, t, s)
        self.counts -= answers.counts
        return answers.result()

    def change(self, leave: Ids, leave_codes: Codes, come: Ids, come_codes: Codes, limits: Counts) -> PairChanges:
        """As `Index.change`."""
        return moved(self, leave, leave_codes, come, come_codes, limits)

    def partners(self, ids: Ids, codes: Codes, rule: int, *, emit: bool = True) -> tuple[Pairs, Counts]:
        """As `Index.partners`."""
        counts, answers = np.zeros(len(ids), np.int64), _Answers(np.full(1, np.iinfo(np.int64).max if emit else -1))
        for i, entry in enumerate(self._entries(ids, codes)[0]):
            if entry is not None:
                found = self._find_s(rule, entry)
                counts[i] = len(found)
                answers.add(0, entry[0], found, as_t=True)
        (pairs,), _ = answers.result()
        assert pairs.s is not None
        kept = pairs.t != pairs.s
        themselves = violate_with_themselves(self.group, rule, codes, self._dictionary)
        return Pairs(pairs.t[kept], pairs.s[kept]), counts - themselves

    def _entries(self, ids: Ids, codes: Codes) -> tuple[list[Entry | None], list[Entry | None]]:
        """Each row as it stands in the roles t and s, or None where it cannot."""
        operands = self.group.codes(codes)
        made = []
        for side in (self.group.t, self.group.s):
            allowed = members(self.group, side, codes, self._dictionary).tolist()
            keys = operands[self.group.positions(side.key)].T.tolist()
            values = operands[self.group.positions(side.dims)].T.tolist()
            rows = zip(ids.tolist(), keys, values, allowed, strict=True)
            made.append([(row, tuple(key), tuple(value)) if may else None for row, key, value, may in rows])
        return made[0], made[1]

    def _both(self, verb: str, t: Entry | None, s: Entry | None) -> None:
        if s is not None:
            getattr(self._s_rows, verb)(s)
        if t is not None and not self.group.shared:
            getattr(self._t_rows, verb)(t)

    def _ask(self, answers: _Answers, t: Entry | None, s: Entry | None) -> None:
        """The two intermediates of Weever, section 3.2: the row as t, and as s where the rule is not symmetric."""
        for i, rule in enumerate(self.group.rules):
            if t is not None:
                found = self._find_s(i, t)
                answers.add(i, t[0], found, as_t=True)
                if rule.symmetric:
                    answers.add(i, t[0], found, as_t=False)
            if s is not None and not rule.symmetric:
                answers.add(i, s[0], self._t_rows.find(s[1], s[2], self._s_ops[i], rule.nulls), as_t=False)

    def _find_s(self, rule: int, t: Entry) -> Collection[int]:
        return self._s_rows.find(t[1], t[2], self._t_ops[rule], self.group.rules[rule].nulls)


class _Answers:
    """Pairs of each rule, listed until there are more than its limit."""

    def __init__(self, limits: Counts) -> None:
        self.limits, self.counts = limits, np.zeros(len(limits), np.int64)
        self._pairs: list[list[tuple[int, int]]] = [[] for _ in limits]

    def add(self, rule: int, asker: int, found: Collection[int], *, as_t: bool) -> None:
        self.counts[rule] += len(found)
        if self.counts[rule] <= self.limits[rule]:
            self._pairs[rule] += [(asker, x) if as_t else (x, asker) for x in found]

    def result(self) -> tuple[list[Pairs], list[bool]]:
        listed = (self.counts <= self.limits).tolist()
        columns = [np.array(pairs, np.int64).reshape(-1, 2).T for pairs in self._pairs]
        made = [Pairs(t, s) if keep else Pairs.none() for (t, s), keep in zip(columns, listed, strict=True)]
        return made, listed
