"""Sets of violating pairs (or rows) as arrays of row ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.table.keys import groups

Ids = npt.NDArray[np.int64]
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Pairs:
    """Ordered pairs (t[i], s[i]) of row ids; `s` is None for rules about single rows."""

    t: Ids
    s: Ids | None = None

    @classmethod
    def none(cls, *, single: bool = False) -> Pairs:
        return cls(_NONE, None if single else _NONE)

    def __len__(self) -> int:
        return len(self.t)

    def ordered(self) -> Pairs:
        """The pairs sorted by t, then s."""
        if self.s is None:
            return Pairs(np.sort(self.t))
        order = np.lexsort((self.s, self.t))
        return Pairs(self.t[order], self.s[order])

    def first(self, count: int | None) -> Pairs:
        return Pairs(self.t[:count], None if self.s is None else self.s[:count])

    def without(self, others: Pairs) -> Pairs:
        """Set difference: the pairs that are not in `others`. Expected O(pairs)."""
        if not len(self) or not len(others):
            return self
        stacked = [np.stack([p.t] if p.s is None else [p.t, p.s]) for p in (others, self)]
        combined = np.concatenate(stacked, axis=1)
        # `groups` gives each pair the position of its first occurrence: one below len(others) is in `others`.
        kept = groups(combined, np.arange(len(combined)))[len(others) :] >= len(others)
        return Pairs(self.t[kept], None if self.s is None else self.s[kept])

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Pairs:
        """The concatenation of several lists of pairs."""
        t = np.concatenate([_NONE, *(part.t for part in parts)])
        return cls(t, np.concatenate([_NONE, *(part.s for part in parts if part.s is not None)]))

    def to_set(self) -> set[tuple[int, ...]]:
        columns = [self.t] if self.s is None else [self.t, self.s]
        return set(zip(*(c.tolist() for c in columns), strict=True))
