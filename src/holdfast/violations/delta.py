"""What changes: rows of a table, and the violations of a rule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from holdfast.indexes.pairs import Ids, Pairs

_NONE = np.zeros(0, np.int64)


class ViolationDelta(NamedTuple):
    """What a change did to the violations of one rule. `listed` is false where only counts were kept: a pair that an
    update ended and began again then counts on both sides.
    """

    added: Pairs
    removed: Pairs
    count_added: int
    count_removed: int
    listed: bool = True

    @classmethod
    def between(cls, added: Pairs, removed: Pairs) -> ViolationDelta:
        """What is new and what is gone; a pair that came and went is neither."""
        if not len(added) and not len(removed):
            return cls(added, removed, 0, 0)
        new, old = added.without(removed).ordered(), removed.without(added).ordered()
        return cls(new, old, len(new), len(old))


class RowChange(NamedTuple):
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

    @classmethod
    def arrival(cls, ids: Ids, codes: npt.NDArray[np.int64]) -> RowChange:
        return cls.nothing(len(codes))._replace(inserted=ids, inserted_codes=codes)

    def effective(self, columns: list[int]) -> tuple[Ids, npt.NDArray[np.int64], Ids, npt.NDArray[np.int64]]:
        """(ids that leave, their codes, ids that come, their codes) for rules that look at these columns only:
        an update elsewhere is no change for them, one among them is a leaving and a coming."""
        if not len(self.updated):
            return self.deleted, self.deleted_codes, self.inserted, self.inserted_codes
        moved = (self.old_codes[columns] != self.new_codes[columns]).any(axis=0)
        return (
            np.concatenate([self.deleted, self.updated[moved]]),
            np.concatenate([self.deleted_codes, self.old_codes[:, moved]], axis=1),
            np.concatenate([self.updated[moved], self.inserted]),
            np.concatenate([self.new_codes[:, moved], self.inserted_codes], axis=1),
        )
