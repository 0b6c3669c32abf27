"""What a change does to the rows of one table: as the store keeps it, and as indexes and maintainers see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Arrays
from holdfast.table.dictionary import Codes

if TYPE_CHECKING:
    from holdfast.table.rows import Rows

Ids = npt.NDArray[np.int64]
_NO_IDS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class RowDelta:
    """The net effect of a change: ids that go, ids that get new codes, and the codes of new rows.

    New rows get the ids from `next_id` on. `Rows.merge` applies a delta, and the store keeps it.
    """

    deleted: Ids
    updated: Ids
    updated_codes: Codes
    inserted_codes: Codes

    @classmethod
    def nothing(cls, width: int) -> RowDelta:
        no_codes = np.zeros((width, 0), np.int64)
        return cls(_NO_IDS, _NO_IDS, no_codes, no_codes)

    @classmethod
    def of_inserts(cls, codes: Codes) -> RowDelta:
        return cls(_NO_IDS, _NO_IDS, codes[:, :0], codes)

    def __bool__(self) -> bool:
        return bool(len(self.deleted) or len(self.updated) or self.inserted_codes.shape[1])

    def counts(self) -> dict[str, int]:
        """The number of rows inserted, deleted and updated."""
        inserted = int(self.inserted_codes.shape[1])
        return {"inserted": inserted, "deleted": len(self.deleted), "updated": len(self.updated)}

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        return dict(vars(self))

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> RowDelta:
        return cls(**{name: np.asarray(array, dtype=np.int64) for name, array in arrays.items()})


class RowChange:
    """Rows that a change removes, adds and keeps, by id and by codes[column, row].

    An update removes a row and adds it again: the last `updated` of the removed rows are the first `updated` of the
    added ones. The kept rows are given, or follow from the `rows` before the change when somebody needs them.

    >>> change = RowChange(np.array([4]), np.array([[7]]), np.array([4]), np.array([[8]]), updated=1)
    >>> change.effective([0]).added, RowChange.nothing(1).effective([0]).added
    (array([4]), array([], dtype=int64))
    """

    def __init__(
        self,
        removed: Ids,
        removed_codes: Codes,
        added: Ids,
        added_codes: Codes,
        kept: Ids | None = None,
        kept_codes: Codes | None = None,
        *,
        updated: int = 0,
        rows: Rows | None = None,
    ) -> None:
        self.removed, self.removed_codes = removed, removed_codes
        self.added, self.added_codes = added, added_codes
        self.updated, self._rows = updated, rows
        if kept is not None and kept_codes is not None:
            self._kept_rows = kept, kept_codes

    @classmethod
    def of(cls, rows: Rows, delta: RowDelta) -> RowChange:
        """The change that a delta makes to rows. O(rows of the delta)."""
        inserted = np.arange(rows.next_id, rows.next_id + delta.inserted_codes.shape[1])
        removed, added = delta.deleted, inserted
        removed_codes, added_codes = rows.codes_of(delta.deleted), delta.inserted_codes
        if len(delta.updated):
            removed, added = np.concatenate([removed, delta.updated]), np.concatenate([delta.updated, added])
            removed_codes = np.concatenate([removed_codes, rows.codes_of(delta.updated)], axis=1)
            added_codes = np.concatenate([delta.updated_codes, added_codes], axis=1)
        return cls(removed, removed_codes, added, added_codes, updated=len(delta.updated), rows=rows)

    @classmethod
    def nothing(cls, width: int) -> RowChange:
        codes = np.zeros((width, 0), np.int64)
        return cls(_NO_IDS, codes, _NO_IDS, codes, _NO_IDS, codes)

    @classmethod
    def arrival(cls, ids: Ids, codes: Codes) -> RowChange:
        """The first rows of an empty table."""
        return cls(_NO_IDS, codes[:, :0], ids, codes, _NO_IDS, codes[:, :0])

    @cached_property
    def _kept_rows(self) -> tuple[Ids, Codes]:
        assert self._rows is not None
        ids, codes = self._rows.ids(), self._rows.codes()
        if not len(self.removed):
            return ids, codes
        stays = np.ones(len(ids), np.bool_)
        stays[np.searchsorted(ids, self.removed)] = False
        return ids[stays], codes[:, stays]

    @property
    def kept(self) -> Ids:
        """The rows before the change that it does not touch. O(rows) when first asked."""
        return self._kept_rows[0]

    @property
    def kept_codes(self) -> Codes:
        return self._kept_rows[1]

    @property
    def rows_after(self) -> int:
        """The number of rows after the change."""
        kept = len(self.kept) if self._rows is None else len(self._rows) - len(self.removed)
        return kept + len(self.added)

    @cached_property
    def after(self) -> tuple[Ids, Codes]:
        """All rows after the change, the added ones first. O(rows) when first asked."""
        ids, codes = np.concatenate([self.added, self.kept]), [self.added_codes, self.kept_codes]
        return ids, np.concatenate(codes, axis=1)

    def codes_after(self) -> Codes:
        """The codes of all rows after the change."""
        return np.concatenate([self.kept_codes, self.added_codes], axis=1)

    @property
    def pairs(self) -> int:
        """The unordered pairs of which the change removes or adds a row."""
        removed, added, kept = len(self.removed), len(self.added), self.rows_after - len(self.added)
        return (removed + added) * kept + (removed * removed + added * added) // 2

    @property
    def updates(self) -> tuple[Codes, Codes]:
        """The codes of updated rows before and after."""
        first = len(self.removed) - self.updated
        return self.removed_codes[:, first:], self.added_codes[:, : self.updated]

    def effective(self, columns: Sequence[int]) -> RowChange:
        """The change for rules that look at these columns only: updates elsewhere are left out."""
        if not self.updated:
            return self
        before, after = self.updates
        moved = (before[list(columns)] != after[list(columns)]).any(axis=0)
        removes = np.append(np.ones(len(self.removed) - self.updated, np.bool_), moved)
        adds = np.append(moved, np.ones(len(self.added) - self.updated, np.bool_))
        return RowChange(
            self.removed[removes],
            self.removed_codes[:, removes],
            self.added[adds],
            self.added_codes[:, adds],
            updated=int(moved.sum()),
            rows=self._rows,
        )
