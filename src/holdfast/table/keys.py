"""Finds rows by key, or by their whole value if there is no key."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from holdfast.errors import HoldfastError
from holdfast.kernels.key_map import add_rows, are_new, find_rows, group_rows, remove_rows, take_youngest
from holdfast.table.dictionary import Codes

MAX_ROWS = 2**31 - 2
_MAX_LOAD = 0.65  # used share of the hash table


class KeyMap:
    """A hash map from the values of some columns to row slots; equal rows form a chain, youngest first.

    The values stay in the row store, whose codes every method takes. Memory per row: 4 bytes for the chain and 6 to
    12 for the hash table (`python -m benchmarks.encode` prints it). Each row costs O(1), expected.

    >>> codes = np.array([[7, 8, 7]])
    >>> keys = KeyMap(np.array([0]))
    >>> keys.add(codes, np.arange(3))
    >>> keys.find(codes, np.array([[8, 7, 9]])).tolist()
    [1, 2, -1]
    """

    def __init__(self, columns: npt.NDArray[np.int64]) -> None:
        self.columns = np.asarray(columns, dtype=np.int64)
        self._table = np.zeros(16, dtype=np.int32)
        self._older = np.zeros(16, dtype=np.int32)
        self._used = 0

    @property
    def nbytes(self) -> int:
        return int(self._table.nbytes + self._older.nbytes)

    def add(self, codes: Codes, slots: npt.NDArray[np.int64]) -> None:
        """Adds rows whose codes are already stored. Chains stay ordered by slot, youngest first."""
        if len(slots) == 0:
            return
        self._reserve(codes, len(slots), int(slots[0] if len(slots) == 1 else slots.max()) + 1)
        self._used += add_rows(self._table, self._older, codes, self.columns, slots)

    def remove(self, codes: Codes, slots: npt.NDArray[np.int64]) -> None:
        """Removes rows whose codes are still stored."""
        remove_rows(self._table, self._older, codes, self.columns, slots)

    def find(self, codes: Codes, wanted: Codes) -> npt.NDArray[np.int64]:
        """The youngest slot of each wanted row, or -1."""
        out = np.empty(wanted.shape[1], dtype=np.int64)
        find_rows(self._table, codes, np.ascontiguousarray(wanted), self.columns, out)
        return out

    def are_new(self, codes: Codes, wanted: Codes) -> bool:
        """Whether a few rows have new keys: none contains a null, exists already, or occurs twice among them."""
        return bool(are_new(self._table, codes, wanted, self.columns))

    def take(self, codes: Codes, wanted: Codes) -> npt.NDArray[np.int64]:
        """A different slot for each wanted row, youngest first among equal rows, or -1. Nothing is removed."""
        out = np.empty(wanted.shape[1], dtype=np.int64)
        cursor = np.zeros(wanted.shape[1], dtype=np.int32)
        wanted = np.ascontiguousarray(wanted)  # one compiled signature
        group = groups(wanted, self.columns)
        take_youngest(self._table, self._older, codes, wanted, self.columns, group, cursor, out)
        return out

    def _reserve(self, codes: Codes, more: int, slots: int) -> None:
        if slots > MAX_ROWS:
            raise HoldfastError(f"a table in the process holds at most {MAX_ROWS} rows")
        if slots > len(self._older):
            grown = np.zeros(max(slots, len(self._older) * 5 // 4), dtype=np.int32)
            grown[: len(self._older)] = self._older
            self._older = grown
        if self._used + more > _MAX_LOAD * len(self._table):
            self._rebuild(codes, more)

    def _rebuild(self, codes: Codes, more: int) -> None:
        """Builds a larger hash table with the same chains, without the entries of removed rows."""
        heads = self._table[self._table > 0].astype(np.int64) - 1
        size = 1 << int((len(heads) + more) / _MAX_LOAD).bit_length()
        self._table = np.zeros(size, dtype=np.int32)
        chains = self._older[heads]
        self._used = add_rows(self._table, self._older, codes, self.columns, heads)
        self._older[heads] = chains

    def _check(self, codes: Codes, live: npt.NDArray[np.int64]) -> None:
        """Asserts the invariants, for tests: exactly the live slots are reachable, each chain from young to old."""
        seen: list[int] = []
        for head in self._table[self._table > 0].tolist():
            entry, younger = head, 2**31
            while entry > 0:
                assert entry < younger
                seen.append(entry - 1)
                younger, entry = entry, int(self._older[entry - 1])
        assert sorted(seen) == live.tolist()
        assert (codes.shape[1] > live).all()


def groups(codes: Codes, columns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each row, the first row with equal values in the columns. O(rows), expected.

    >>> groups(np.array([[5, 6, 5]]), np.array([0])).tolist()
    [0, 1, 0]
    """
    rows = codes.shape[1]
    out = np.empty(rows, dtype=np.int64)
    group_rows(np.ascontiguousarray(codes), np.asarray(columns, dtype=np.int64), table_for(rows), out)
    return out


def table_for(entries: int) -> npt.NDArray[np.int32]:
    """An empty hash table with room for `entries` entries."""
    return np.zeros(1 << (2 * entries + 1).bit_length(), dtype=np.int32)
