"""Changes that a maintainer has not seen yet, added up: rules that are late catch up in one step."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from holdfast.arrays import Array, Arrays
from holdfast.table.dictionary import Codes
from holdfast.table.row_change import Ids, RowChange
from holdfast.table.rows import Rows


class WaitingChanges:
    """The rows that changed since the rules were true: with their codes then, and with their codes now.

    >>> change = RowChange(np.array([4]), np.array([[7]]), np.array([4, 5]), np.array([[8, 9]]), updated=1)
    >>> waiting = WaitingChanges()
    >>> waiting.add(change)
    >>> waiting.add(RowChange(np.array([4]), np.array([[8]]), np.array([]), np.zeros((1, 0))))
    >>> len(waiting), waiting.to_arrays()["late_removed"], waiting.to_arrays()["late_added"]
    (2, array([4]), array([5]))
    """

    NAMES: ClassVar[tuple[str, ...]] = ("late_removed", "late_removed_codes", "late_added", "late_added_codes")

    def __init__(self) -> None:
        self._then: dict[int, Codes] = {}
        self._now: dict[int, Codes] = {}

    def __len__(self) -> int:
        return len(self._then) + len(self._now)

    def add(self, change: RowChange) -> None:
        """Adds a change of the rows as they are now. O(rows of the change)."""
        self._add(change.removed, change.removed_codes, change.added, change.added_codes)

    def merge(self, arrays: Arrays) -> None:
        """Adds what `arrays_of` or `to_arrays` gave."""
        self._add(*(np.asarray(arrays[name], np.int64) for name in self.NAMES))

    def _add(self, removed: Ids, removed_codes: Codes, added: Ids, added_codes: Codes) -> None:
        for row, codes in zip(removed.tolist(), removed_codes.T, strict=True):
            if self._now.pop(row, None) is None:
                self._then[row] = codes
        self._now |= dict(zip(added.tolist(), added_codes.T, strict=True))

    @classmethod
    def arrays_of(cls, change: RowChange) -> dict[str, Array]:
        values = (change.removed, change.removed_codes, change.added, change.added_codes)
        return dict(zip(cls.NAMES, values, strict=True))

    def to_arrays(self) -> dict[str, Array]:
        """Everything, as one change; nothing if no row waits."""
        if not len(self):
            return {}
        width = len(next(iter((self._then or self._now).values())))
        return self.arrays_of(self.with_kept(np.arange(0), np.zeros((width, 0), np.int64)))

    def with_kept(self, ids: Ids, codes: Codes) -> RowChange:
        """The change from the rows then to the rows now; `ids` and `codes`: all rows now, or only those that nothing
        touched."""
        both = sorted(self._then.keys() & self._now.keys())
        gone, come = (sorted(a.keys() - b.keys()) for a, b in ((self._then, self._now), (self._now, self._then)))
        stays = ~np.isin(ids, np.array([*self._now], np.int64))
        removed = _arrays(self._then, [*gone, *both], len(codes))
        added = _arrays(self._now, [*both, *come], len(codes))
        return RowChange(*removed, *added, ids[stays], codes[:, stays], updated=len(both))

    def codes_then(self, rows: Rows) -> Codes:
        """The codes of the rows then. O(rows)."""
        if not len(self):
            return rows.codes()
        change = self.with_kept(rows.ids(), rows.codes())
        return np.concatenate([change.kept_codes, change.removed_codes], axis=1)

    def count_then(self, rows: Rows) -> int:
        """The number of rows then."""
        return len(rows) + len(self._then) - len(self._now)


def _arrays(known: dict[int, Codes], rows: list[int], width: int) -> tuple[Ids, Codes]:
    codes = [known[row] for row in rows]
    return np.array(rows, np.int64), np.array(codes, np.int64).reshape(len(rows), width).T.copy()
