"""The rows of one table as codes with stable row ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Arrays
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.keys import KeyMap
from holdfast.table.row_change import Ids, RowDelta
from holdfast.table.schema import Column, Schema
from holdfast.table.widen import rescaled

_MIN_ROOM = 16


def _arrays(width: int, room: int) -> tuple[Codes, Ids, npt.NDArray[np.bool_]]:
    """Empty codes, ids and live marks."""
    return np.zeros((width, room), dtype=np.int64), np.zeros(room, dtype=np.int64), np.zeros(room, dtype=bool)


class Rows:
    """The live rows in order of arrival. An id is never reused; an update keeps it.

    `_codes[column, slot]` is append-only; deleted slots are marked, and compacted once they are the majority. Inserted
    rows enter the key map when it is asked: rows that never change do not need it.
    """

    def __init__(self, schema: Schema, key: Sequence[str] = ()) -> None:
        self.schema = schema
        self.key = tuple(key)
        columns = schema.positions(key) if key else list(range(len(schema)))
        self._keys = KeyMap(np.array(columns, dtype=np.int64))
        self._codes, self._ids, self._live = _arrays(len(schema), _MIN_ROOM)
        self._slots = self._mapped = 0  # slots, and those of them that were in the key map
        self._count = 0
        self.next_id = 0

    @property
    def _map(self) -> KeyMap:
        """The key map, with all rows."""
        if self._mapped < self._slots:
            new = np.arange(self._mapped, self._slots)
            self._keys.add(self._codes, new[self._live[new]])
            self._mapped = self._slots
        return self._keys

    def __len__(self) -> int:
        return self._count

    @property
    def identity(self) -> npt.NDArray[np.int64]:
        """Positions of the columns that identify a row: the key, or all columns."""
        return self._keys.columns

    def _live_slots(self) -> Ids:
        return np.flatnonzero(self._live[: self._slots])

    def ids(self) -> Ids:
        """The ids of the live rows, ascending."""
        return self._ids[self._live_slots()]

    def codes(self) -> Codes:
        """The codes of the live rows, in order of arrival. O(rows x columns)."""
        return self._codes[:, self._live_slots()]

    def codes_of(self, ids: Ids) -> Codes:
        """The codes of the live rows with these ids."""
        if not len(ids):
            return self._codes[:, :0]
        return self._codes[:, self._slots_of(ids)]

    def find(self, wanted: Codes) -> Ids:
        """For each wanted row, the id of the youngest row with the same key (or value), or -1."""
        return self._ids_at(self._map.find(self._codes, wanted))

    def can_enter(self, codes: Codes) -> bool:
        """Whether a few rows can be inserted: no key is null or a duplicate."""
        return not self.key or self._map.are_new(self._codes, codes)

    def take(self, wanted: Codes) -> Ids:
        """A different row id for each wanted row, youngest first among equal rows, or -1. Nothing is removed."""
        return self._ids_at(self._map.take(self._codes, wanted))

    def _ids_at(self, slots: Ids) -> Ids:
        return np.where(slots >= 0, self._ids[np.maximum(slots, 0)], -1)

    def _slots_of(self, ids: Ids) -> Ids:
        return np.searchsorted(self._ids[: self._slots], ids)

    def merge(self, delta: RowDelta) -> None:
        """Applies a delta that was planned for these rows. O(rows of the delta), amortised."""
        if len(delta.deleted):
            self._delete(self._slots_of(delta.deleted))
        if len(delta.updated):
            self._update(self._slots_of(delta.updated), delta.updated_codes)
        if delta.inserted_codes.shape[1]:
            self._insert(delta.inserted_codes)
        if self._slots > 2 * self._count + 64:
            self._compact()

    def _delete(self, slots: Ids) -> None:
        self._map.remove(self._codes, slots)
        self._live[slots] = False
        self._count -= len(slots)

    def _update(self, slots: Ids, codes: Codes) -> None:
        self._map.remove(self._codes, slots)
        self._codes[:, slots] = codes
        self._keys.add(self._codes, slots)

    def _insert(self, codes: Codes) -> None:
        count = codes.shape[1]
        first, last = self._slots, self._slots + count
        self._reserve(last)
        self._codes[:, first:last] = codes
        self._ids[first:last] = np.arange(self.next_id, self.next_id + count)
        self._live[first:last] = True
        self._slots, self._count, self.next_id = last, self._count + count, self.next_id + count

    def _reserve(self, slots: int) -> None:
        room = len(self._ids)
        if slots <= room:
            return
        grown = max(slots, room * 3 // 2)
        before, used = (self._codes, self._ids, self._live), self._slots
        self._codes, self._ids, self._live = _arrays(len(self.schema), grown)
        for new, old in zip((self._codes, self._ids, self._live), before, strict=True):
            new[..., :used] = old[..., :used]

    def _compact(self) -> None:
        self._load(self.codes(), self.ids())

    def _load(self, codes: Codes, ids: Ids) -> None:
        count, room = len(ids), max(len(ids), _MIN_ROOM)
        self._codes, self._ids, self._live = _arrays(len(self.schema), room)
        self._codes[:, :count], self._ids[:count], self._live[:count] = codes, ids, True
        self._slots = self._count = count
        self._keys, self._mapped = KeyMap(self._keys.columns), 0

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        return {"codes": self.codes(), "ids": self.ids(), "next_id": np.array([self.next_id], np.int64)}

    @classmethod
    def from_arrays(cls, schema: Schema, key: Sequence[str], arrays: Arrays) -> Rows:
        rows = cls(schema, key)
        rows.load(arrays)
        return rows

    def load(self, arrays: Arrays) -> None:
        """Replaces the rows with those that `to_arrays` returned."""
        self._load(np.asarray(arrays["codes"], dtype=np.int64), np.asarray(arrays["ids"], dtype=np.int64))
        self.next_id = int(arrays["next_id"][0])

    def widened(self, schema: Schema) -> Rows:
        """A copy with wider decimals and with more columns at the end, which are null. O(rows x columns)."""
        arrays = self.to_arrays()
        codes = np.full((len(schema), len(self)), NULL)
        codes[: len(self.schema)] = arrays["codes"]
        for i, (old, new) in enumerate(zip(self.schema.columns, schema.columns, strict=False)):
            if old != new:
                scaled = rescaled(codes[i], new.scale - old.scale)
                assert scaled is not None
                codes[i] = scaled
        return Rows.from_arrays(schema, self.key, arrays | {"codes": codes})

    def fits(self, column: Column) -> bool:
        """Whether all values of the column fit its wider decimal type."""
        place = self.schema.position(column.name)
        return rescaled(self.codes()[place], column.scale - self.schema.columns[place].scale) is not None

    def memory(self) -> dict[str, int]:
        """Bytes by part."""
        return {
            "codes": self._codes.nbytes,
            "ids": self._ids.nbytes + self._live.nbytes,
            "keys": self._keys.nbytes,
        }

    def _check(self) -> None:
        """Asserts the invariants, for tests."""
        live = self._live_slots()
        assert len(live) == self._count
        assert (np.diff(self._ids[: self._slots]) > 0).all()
        assert self._slots == 0 or self._ids[self._slots - 1] < self.next_id
        self._map._check(self._codes, live)
