"""The error of any key or FD on some rows."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.discovery.fd.agree_tree import AgreeTree
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.witness.partitions import Partitions
from holdfast.rules.limit import most_within
from holdfast.table.dictionary import Codes


class Oracle:
    """Measures errors: g1 from counted agree-sets if there are any, else by grouping the rows."""

    def __init__(self, counted: AgreeSets | None, codes: Codes, options: SearchOptions, memory: int) -> None:
        self._tree = AgreeTree(counted) if counted is not None else None
        self._groups = Partitions.of_codes(codes, options.nulls, memory)
        self._options, self._rows = options, int(codes.shape[1])
        self._most_pairs = most_within(options.max_error, self._rows * (self._rows - 1))
        self._counts: dict[tuple[tuple[int, ...], int | None], int] = {}  # of good rules
        self._most_rows = most_within(options.max_error, self._rows)

    @property
    def order(self) -> Sequence[int]:
        """The columns, least selective first."""
        return self._groups.by_values()

    def is_good(self, left: Sequence[int], right: int | None) -> bool:
        """Whether the error is small enough. Compares integers, so that rounding cannot decide."""
        pairs = self._measure(right) == "g1"
        count = self._count(left, right)
        good = count <= (self._most_pairs if pairs else self._most_rows)
        if good:
            self._counts[tuple(left), right] = count
        return good

    def error(self, left: Sequence[int], right: int | None) -> float:
        if self._rows < 2:
            return 0.0
        kept = self._counts.get((tuple(left), right))
        count = self._count(left, right) if kept is None else kept
        return count / (self._rows * (self._rows - 1) if self._measure(right) == "g1" else self._rows)

    def _count(self, left: Sequence[int], right: int | None) -> int:
        """Violating pairs (g1), or rows to remove (g3)."""
        if self._measure(right) == "g1":
            return self._pairs(left, right)
        return self._groups.errors(left, right)[1]

    def _measure(self, right: int | None) -> str:
        return self._options.measure("key" if right is None else "fd")

    def _pairs(self, left: Sequence[int], right: int | None) -> int:
        if self._tree is not None:
            return self._tree.violations(left, right)
        return self._groups.errors(left, right)[0]
