"""A generator over the runs of a store: values are loaded into memory when a change names them.

The memory is a cache of the runs. When it exceeds its budget, it is emptied; the runs have everything. The paper keeps
the generator's records in a database behind two such caches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.discovery.ind.cells import Cells, Gains, Moves, Values
from holdfast.discovery.ind.generator import Generator
from holdfast.discovery.ind.runs import Runs
from holdfast.discovery.search_options import MEMORY_BUDGET
from holdfast.rules.masks import numbered


class FiledGenerator:
    """A `ValueStore` over `runs`. The owner of the runs adds each change to them afterwards. `cache`: values that are
    in memory already, with the same attributes as in the runs."""

    def __init__(self, runs: Runs, cache: Generator, *, budget: int = MEMORY_BUDGET) -> None:
        self._runs, self._cache, self._budget = runs, cache, budget
        self._attributes = cache.attributes
        self.asked = self.found = 0  # values that changes named, and those of them that were in memory

    @property
    def nbytes(self) -> int:
        return self._cache.nbytes

    def gains(self) -> Iterator[Gains]:
        """The clusters of all values in the runs. O(cells)."""
        for cells in self._runs.ranges():
            masks, numbers = numbered(cells.clusters(self._attributes)[0])
            yield Gains(masks, np.bincount(numbers, minlength=len(masks)))

    def change(self, cells: Cells) -> Moves:
        """Adds and removes cells. O(cells), expected, and O(runs x log cells) for each value that is not in memory."""
        if self._cache.nbytes > self._budget:
            self._cache = Generator(self._attributes, only_inserts=self._cache.only_inserts)
        not_cached = ~self._cache.knows(cells)
        self.asked += cells.size
        self.found += cells.size - int(not_cached.sum())
        if not_cached.any():
            self._cache.load(self._runs.find(cells.values.at(not_cached).distinct()))
        return self._cache.change(cells)

    def ranges(self) -> Iterator[Cells]:
        return self._runs.ranges()

    def lacking(self, left: int, right: int, most: int) -> Values:
        """The first values that `left` has and `right` lacks. O(cells)."""
        parts = [cells.lacking(left, right, self._attributes).first(most) for cells in self._runs.ranges()]
        return Values.joined(parts).first(most)

    def __str__(self) -> str:
        if not self.asked:
            return "values in files"
        return f"values in files, {self.found / self.asked:.0%} of those that changes named found in memory"
