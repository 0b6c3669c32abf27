"""What changes: rows of a table, and the violations of a rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.indexes.pairs import Ids, Pairs

_NONE = np.zeros(0, np.int64)


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
