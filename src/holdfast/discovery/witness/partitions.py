"""The rows of a table grouped by columns, in a cache: rules are validated and measured by grouping."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Array, Arrays
from holdfast.kernels.grouping import number_values
from holdfast.kernels.handle import as_compiled
from holdfast.kernels.partition import error_counts, find_clashes, refine
from holdfast.rules.masks import Numbers
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.keys import table_for

Small = npt.NDArray[np.int32]
DEFAULT_MEMORY = 1 << 30


@dataclass(frozen=True)
class Partition:
    """The groups of two or more rows: `rows` has one group after another, `ends[group]` is where it ends."""

    rows: Small
    ends: Small

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + self.ends.nbytes)

    def shared_pairs(self) -> int:
        """How many ordered pairs of different rows share a group."""
        sizes = np.diff(self.ends, prepend=0).astype(np.int64)
        return int((sizes * (sizes - 1)).sum())

    def superfluous(self) -> int:
        """How many rows must be removed so that no group has two."""
        return len(self.rows) - len(self.ends)


class Partitions:
    """Partitions of one table under a null policy. Rows are positions in the given codes.

    A partition refines the one without its least distinct column, which has the fewest rows; O(rows of that partition).
    The most recently used partitions are kept, up to `memory` bytes.
    """

    def __init__(self, numbers: Small, distinct: Numbers, nulls: str, memory: int = DEFAULT_MEMORY) -> None:
        """`numbers[column, row]`: the values as numbers from 0 on; `distinct[column]`: how many values there are."""
        self.numbers, self.distinct, self._nulls, self._memory = numbers, distinct, nulls, memory
        self._kept: OrderedDict[frozenset[int], Partition] = OrderedDict()
        self._bytes = 0
        self.columns, self.rows = numbers.shape

    @classmethod
    def of_codes(cls, codes: Codes, nulls: str, memory: int = DEFAULT_MEMORY) -> Partitions:
        """Numbers the values; nulls that equal nothing get -1. O(rows x columns)."""
        numbers, distinct = np.empty(codes.shape, np.int32), np.empty(len(codes), np.int64)
        for i, column in enumerate(codes):
            distinct[i] = number_values(as_compiled(column), table_for(len(column)), numbers[i])
            if nulls != "equal":
                numbers[i][column == NULL] = -1
        return cls(numbers, distinct, nulls, memory)

    @property
    def shared(self) -> dict[str, Array]:
        """What another process needs for the same partitions."""
        nulls = np.frombuffer(self._nulls.encode(), np.uint8)
        return {"numbers": self.numbers, "distinct": self.distinct, "nulls": nulls, "memory": np.array(self._memory)}

    @classmethod
    def from_shared(cls, arrays: Arrays) -> Partitions:
        numbers, distinct = as_compiled(np.asarray(arrays["numbers"], np.int32)), np.asarray(arrays["distinct"])
        nulls, memory = np.asarray(arrays["nulls"]).tobytes().decode(), int(np.asarray(arrays["memory"]))
        return cls(numbers, distinct.astype(np.int64), nulls, memory)

    def by_row_and_column(self) -> tuple[Small, Small, Numbers, bool]:
        """The numbers by row and by column, a zeroed place for each number, and whether nulls differ from everything on
        a right side."""
        most = int(self.distinct.max(initial=0))
        differ = self._nulls == "distinct"
        return np.ascontiguousarray(self.numbers.T), self.numbers, np.zeros(most, np.int64), differ

    def by_values(self) -> list[int]:
        """The columns, those with the fewest values first."""
        return [int(column) for column in np.argsort(self.distinct, kind="stable")]

    def of(self, columns: Sequence[int]) -> Partition:
        """The rows grouped by these columns."""
        key = frozenset(columns)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        order = sorted(key, key=lambda c: (self.distinct[c], c), reverse=True)
        done = next(n for n in range(len(order), -1, -1) if n == 0 or frozenset(order[:n]) in self._kept)
        partition = self._kept[frozenset(order[:done])] if done else self._all_rows()
        for size, column in enumerate(order[done:], start=done + 1):
            partition = self._keep(frozenset(order[:size]), self._refined(partition, column))
        return partition

    def numbering(self, column: int) -> bytes:
        """A digest that columns share if they group the rows in the same way."""
        return hashlib.sha256(self.numbers[column].tobytes()).digest()

    def _all_rows(self) -> Partition:
        """All rows in one group."""
        return Partition(np.arange(self.rows, dtype=np.int32), np.array([self.rows] if self.rows > 1 else [], np.int32))

    def _refined(self, partition: Partition, column: int) -> Partition:
        rows, ends = np.empty(len(partition.rows), np.int32), np.empty(len(partition.rows) // 2 + 1, np.int32)
        count = np.zeros(self.distinct[column], np.int64)
        filled, groups = refine(partition.rows, partition.ends, self.numbers[column], count, rows, ends)
        return Partition(rows[:filled].copy(), ends[:groups].copy())

    def _keep(self, key: frozenset[int], partition: Partition) -> Partition:
        self._kept[key] = partition
        self._bytes += partition.nbytes
        while self._bytes > self._memory and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return partition

    def clashes(self, left: Sequence[int], right: int | None, most: int) -> Numbers:
        """At most `most` pairs of rows that refute `left -> right`, or the key `left`; none if it holds."""
        partition = self.of(left)
        out = np.empty((most, 2), np.int64)
        if right is None:
            starts = np.concatenate([[0], partition.ends[:-1]])[:most] if len(partition.ends) else np.zeros(0, int)
            return np.stack([partition.rows[starts], partition.rows[starts + 1]], axis=1).astype(np.int64)
        differ = self._nulls == "distinct"
        return out[: find_clashes(partition.rows, partition.ends, self.numbers[right], differ, out)]

    def errors(self, left: Sequence[int], right: int | None) -> tuple[int, int]:
        """(violating ordered pairs, fewest rows to remove) of `left -> right`, or of the key `left`."""
        partition = self.of(left)
        if right is None:
            return partition.shared_pairs(), partition.superfluous()
        count, differ = np.zeros(self.distinct[right], np.int64), self._nulls == "distinct"
        pairs, removed = error_counts(partition.rows, partition.ends, self.numbers[right], differ, count)
        return int(pairs), int(removed)
