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
        """By t, then s."""
        if self.s is None:
            return Pairs(np.sort(self.t))
        order = np.lexsort((self.s, self.t))
        return Pairs(self.t[order], self.s[order])

    def first(self, count: int | None) -> Pairs:
        return Pairs(self.t[:count], None if self.s is None else self.s[:count])

    def without(self, others: Pairs) -> Pairs:
        """The pairs that are not among the others. O(pairs), expected."""
        if not len(self) or not len(others):
            return self
        theirs, mine = (np.stack([p.t] if p.s is None else [p.t, p.s]) for p in (others, self))
        rows = np.concatenate([theirs, mine], axis=1)
        kept = groups(rows, np.arange(len(rows)))[len(others) :] >= len(others)
        return Pairs(self.t[kept], None if self.s is None else self.s[kept])

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Pairs:
        """Pairs of rows, one part behind the other."""
        t = np.concatenate([_NONE, *(part.t for part in parts)])
        return cls(t, np.concatenate([_NONE, *(part.s for part in parts if part.s is not None)]))

    def to_set(self) -> set[tuple[int, ...]]:
        columns = [self.t] if self.s is None else [self.t, self.s]
        return set(zip(*(c.tolist() for c in columns), strict=True))


@dataclass(frozen=True)
class ViolationDelta:
    """What a change did to the violations of one rule. `listed` is false where only counts were kept."""

    added: Pairs
    removed: Pairs
    count_added: int
    count_removed: int
    listed: bool = True


@dataclass(frozen=True)
class RowChange:
    """Rows that left, changed and came, by id and by codes[column, row]."""

    deleted: Ids
    deleted_codes: npt.NDArray[np.int64]
    updated: Ids
    old_codes: npt.NDArray[np.int64]
    new_codes: npt.NDArray[np.int64]
    inserted: Ids
    inserted_codes: npt.NDArray[np.int64]

    @classmethod
    def nothing(cls, width: int) -> RowChange:
        codes = np.zeros((width, 0), np.int64)
        return cls(_NONE, codes, _NONE, codes, codes, _NONE, codes)

    def effective(self, columns: list[int]) -> tuple[Ids, npt.NDArray[np.int64], Ids, npt.NDArray[np.int64]]:
        """(ids that leave, their codes, ids that come, their codes) for rules that look at these columns only:
        an update elsewhere is no change for them, one among them is a leaving and a coming."""
        moved = (self.old_codes[columns] != self.new_codes[columns]).any(axis=0)
        if not moved.any():
            return self.deleted, self.deleted_codes, self.inserted, self.inserted_codes
        return (
            np.concatenate([self.deleted, self.updated[moved]]),
            np.concatenate([self.deleted_codes, self.old_codes[:, moved]], axis=1),
            np.concatenate([self.updated[moved], self.inserted]),
            np.concatenate([self.new_codes[:, moved], self.inserted_codes], axis=1),
        )
