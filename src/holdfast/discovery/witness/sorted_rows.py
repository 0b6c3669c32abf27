"""Kept rows in the order of some columns, in which partners are searched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from holdfast.discovery.witness.kept_rows import KeptRows
from holdfast.kernels.bounds import FANOUT, LEAF, Blocks, Question, bound, find_pairs, find_partners
from holdfast.rules.masks import Numbers

_GROWTH = 2  # a run is merged with a new one unless it is more than so many times as large


class SortedRows:
    """Rows sorted by columns of their values, in a few runs: each change adds one, and runs of similar size are merged.
    Rows that are gone stay until their run is merged. Memory for a row: 4 bytes, and 1.2 for each column."""

    def __init__(self, rows: KeptRows, columns: Sequence[int], places: Numbers) -> None:
        self.columns, self._rows = tuple(columns), rows
        self._runs: list[Blocks] = []
        self.add(places)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for run in self._runs for array in run)

    def add(self, places: Numbers) -> None:
        """Adds rows. O(rows added x log(rows)), amortised."""
        while self._runs and len(self._runs[-1].order) <= _GROWTH * len(places):
            older = self._runs.pop().order.astype(np.int64)
            places = np.concatenate([older[self._rows.is_live[older]], places])
        if len(places):
            self._runs.append(self._run(self.sorted(places)))

    def sorted(self, places: Numbers) -> Numbers:
        """Places of rows in this order."""
        return places[np.lexsort([self._rows.values[c][places] for c in reversed(self.columns)])]

    def _run(self, places: Numbers) -> Blocks:
        ends, blocks = [0], -(-len(places) // LEAF)
        while blocks > 1:
            ends.append(ends[-1] + blocks)
            blocks = -(-blocks // FANOUT)
        starts = np.array([*ends, ends[-1] + 1], np.int64)
        shape = len(self._rows.values), int(starts[-1])
        run = Blocks(
            places.astype(np.int32), starts, np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(shape, bool)
        )
        bound(self._rows.values, run)
        return run

    def partners(self, places: Numbers, question: Question, most: int, most_visits: int) -> tuple[Numbers, int]:
        """At most `most` pairs of the rows at some places and of these rows, as partners, that satisfy the question;
        and how many visits that took. If these are more than `most_visits`, the rest is left out."""
        calls = ((find_partners, places, run) for run in self._runs)
        return self._found(calls, question, most, most_visits)

    def pairs(self, partners: SortedRows, question: Question, most: int, most_visits: int) -> tuple[Numbers, int]:
        """The same for pairs of all of these rows and of all partners."""
        calls = ((find_pairs, mine, theirs) for mine in self._runs for theirs in partners._runs)
        return self._found(calls, question, most, most_visits)

    def _found(
        self, calls: Iterable[tuple[Callable[..., Any], Any, Blocks]], question: Question, most: int, most_visits: int
    ) -> tuple[Numbers, int]:
        """Calls kernels, each with some rows and a run of partners, until the limits are reached."""
        out, found, visits = np.empty((most, 2), np.int64), 0, 0
        for find, mine, theirs in calls:
            more, visited = find(
                mine, theirs, self._rows.values, self._rows.is_live, question, most_visits - visits, out[found:]
            )
            found, visits = found + more, visits + visited
            if found == most or visits > most_visits:
                break
        return out[:found], visits
