"""The cells of a database in sorted runs, as its store keeps them: a few files, and the changes since.

The count of a cell is the sum over all runs. A run never changes; runs are merged when the store writes a new file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from holdfast.arrays import Arrays
from holdfast.discovery.ind.cells import Cells, Places, Values, merged
from holdfast.kernels.runs import find_values, place_in_run

_AT_ONCE = 1 << 20  # cells of a range, about
_MAX_RUNS = 8  # that are not in files; with more, the smaller half is merged
_HASHES = 1 << 64  # possible hashes


class Runs:
    """An append-only state. `len` counts files and changes, not cells.

    >>> runs = Runs()
    >>> one = np.ones(1, np.int64)
    >>> for amount in (2, -1):
    ...     runs.merge(Cells.of(7 * one, 0 * one, 3 * one, amount * one).summed().to_arrays())
    >>> cells = runs.find(Values(7 * one, (0 * one).astype(np.int16)))
    >>> cells.attributes.tolist(), cells.amounts.tolist()
    ([3], [1])
    """

    def __init__(self, files: Sequence[Arrays] = ()) -> None:
        self._files = [Cells.from_arrays(arrays) for arrays in files]
        self._recent: list[Cells] = []
        self._changes = 0

    def __len__(self) -> int:
        return len(self._files) + self._changes

    def merge(self, arrays: Arrays) -> None:
        """Adds a run. If there are too many, the smaller half is merged."""
        self._changes += 1
        self._recent.append(Cells.from_arrays(arrays))
        if len(self._recent) > _MAX_RUNS:
            small = sorted(self._recent, key=lambda run: run.size)
            self._recent = [merged(small[: _MAX_RUNS // 2]), *small[_MAX_RUNS // 2 :]]

    def refile(self, files: Sequence[Arrays]) -> None:
        """Replaces all runs by these files, which have the same cells."""
        self._files, self._recent, self._changes = [Cells.from_arrays(arrays) for arrays in files], [], 0

    def to_arrays(self, start: int = 0) -> Arrays:
        """All cells as one run; with `start`, those that are not in files."""
        assert start in (0, len(self._files))
        return merged(self._recent if start else self._all).to_arrays()

    @property
    def _all(self) -> list[Cells]:
        return [*self._files, *self._recent]

    def find(self, values: Values) -> Cells:
        """The cells of distinct values, as one run. O(values x runs x log cells)."""
        wanted = values.at(np.argsort(values.hashes(), kind="stable"))
        parts = []
        for run in self._all:
            starts, stops = np.empty((2, len(wanted.numbers)), np.int64)
            find_values(*run.values, *wanted, starts, stops)
            parts.append(Cells.from_arrays(run.at(_spans(starts, stops)).to_arrays()))
        return merged(parts)

    def ranges(self, at_once: int = _AT_ONCE) -> Iterator[Cells]:
        """All cells as consecutive runs, each of a range of hashes. O(cells x log runs)."""
        runs = self._all
        parts = max(1, sum(run.size for run in runs) // at_once)
        places = [0] * len(runs)
        for part in range(1, parts + 1):
            edge = np.uint64(_HASHES * part // parts) if part < parts else None
            stops = [run.size if edge is None else place_in_run(*run.values, edge) for run in runs]
            yield merged(run.at(slice(a, b)) for run, a, b in zip(runs, places, stops, strict=True))
            places = stops


def _spans(starts: Places, stops: Places) -> Places:
    """All positions of spans, one span after another."""
    sizes = stops - starts
    firsts = np.cumsum(sizes) - sizes
    return np.asarray(np.arange(sizes.sum()) + np.repeat(starts - firsts, sizes))
