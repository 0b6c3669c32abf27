"""Keys and FDs of rows that do not change, by size: all with one column on the left before those with two.

No set of pairs is built, so that a limit on the size also limits the work; agree-sets, which give rules of all sizes at
once, can be too many in wide tables. (TANE walks the same levels; here a left side keeps no partition, only a bit for
each right side that it determines, and rows are grouped anew behind each prefix.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import comb

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.collapsed import CollapsedRules
from holdfast.discovery.witness.partitions import Partitions
from holdfast.kernels.levels import Level, LevelRows, test_left_sides
from holdfast.rules.masks import Masks, Numbers, full, mask_of, none, pack, unpack, words_for

_MEMORY = 1 << 29  # bytes for what the left sides of a level determine
_VISITS, _PREFIXES = 50_000_000, 256  # values that are visited, and prefixes, between budget checks
_LISTED = 1 << 14  # left sides that the kernel lists before it returns


@dataclass
class RulesBySize:
    """The keys and FDs of some rows. `done` is the largest size of which all rules are known.

    >>> found = RulesBySize(Partitions.of_codes(np.array([[1, 1, 2], [5, 5, 5], [7, 8, 8]]), "equal"), {"fd": 2})
    >>> found.search(1)
    >>> found.rules().ruleset(["a", "b", "c"], None).texts()
    ['() -> b']
    >>> found.search(2), found.rules().ruleset(["a", "b", "c"], None).texts()
    (None, ['() -> b'])
    """

    partitions: Partitions
    most: Mapping[str, int | None]  # by kind; kinds that are not there are not searched
    done: int = -1
    sets: list[Masks] = field(default_factory=list)
    rights: list[Masks] = field(default_factory=list)

    def __post_init__(self) -> None:
        columns = self.partitions.columns
        self._rows = LevelRows(*self.partitions.by_row_and_column())
        self._words = words_for(columns + 1)
        self._closure = np.zeros((1, self._words), np.uint64)
        self.sets, self.rights = [none(columns)], [none(columns + 1)]

    @property
    def largest(self) -> int:
        """The size beyond which nothing is wanted."""
        columns = self.partitions.columns
        return max((columns if most is None else min(most, columns) for most in self.most.values()), default=0)

    def left_sides(self, size: int) -> int:
        """How many left sides there are of a size."""
        return comb(self.partitions.columns, size)

    def fits(self, size: int) -> bool:
        """Whether there is memory for what the left sides of this size determine."""
        return self.left_sides(size) * self._words * 8 <= _MEMORY

    def search(self, size: int, budget: Budget | None = None) -> None:
        """Finds the rules up to a size. If the budget runs out, `done` says which are all there. O(left sides x rows),
        less where a few pairs of rows refute all right sides."""
        budget = budget or Budget()
        while self.done < min(size, self.largest) and self._level(self.done + 1, budget):
            self.done += 1

    def _level(self, size: int, budget: Budget) -> bool:
        """Searches one size; whether all of it."""
        wanted = self._wanted(size)
        if size == 0:
            self._constants(wanted)
            return True
        more = size < self.largest and self.fits(size)
        after = np.zeros((self.left_sides(size) if more else 0, self._words), np.uint64)
        choose = np.array([[comb(n, k) for k in range(size + 1)] for n in range(self.partitions.columns + 1)], np.int64)
        level, total, done = Level(self._closure, after, wanted, choose), self.left_sides(size - 1), 0
        for prefixes in self._prefixes(size - 1):
            budget.report(f"rules with {size} column{'s' * (size > 1)} on the left", done / total)
            if budget.spent():
                return False
            self._list(level, prefixes)
            done += len(prefixes)
        self._closure = after
        return True

    def _prefixes(self, size: int) -> Iterator[Numbers]:
        """All sets of so many columns, sorted, in slices."""
        every = combinations(range(self.partitions.columns), size)
        step = max(1, min(_PREFIXES, _VISITS // max(1, self.partitions.rows * self.partitions.columns)))
        while some := list(islice(every, step)):
            yield np.array(some, np.int64).reshape(len(some), size)

    def _list(self, level: Level, prefixes: Numbers) -> None:
        """Adds the rules with these prefixes."""
        columns, size = self.partitions.columns, prefixes.shape[1] + 1
        progress, room = np.zeros(2, np.int64), max(_LISTED, 2 * columns)
        while progress[0] < len(prefixes):
            sets, rights = np.empty((room, size), np.int64), np.empty((room, self._words), np.uint64)
            progress[1] = 0
            test_left_sides(self._rows, level, prefixes, sets, rights, progress)
            found = np.zeros((progress[1], columns), np.bool_)
            np.put_along_axis(found, sets[: progress[1]], values=True, axis=1)
            self.sets.append(pack(found))
            self.rights.append(rights[: progress[1]].copy())

    def _wanted(self, size: int) -> Masks:
        """The right sides that are searched at this size."""
        columns = self.partitions.columns
        wanted = np.zeros(self._words, np.uint64)
        for kind, most in self.most.items():
            if most is None or size <= most:
                mask = mask_of([columns], columns + 1) if kind == "key" else full(columns)
                wanted[: mask.shape[1]] |= mask[0]
        return wanted

    def _constants(self, wanted: Masks) -> None:
        """The columns that are equal in all rows."""
        columns = self.partitions.columns
        constant = [c for c in range(columns) if not len(self.partitions.clashes((), c, 1))]
        found = mask_of(constant, columns + 1) & wanted
        self.sets.append(mask_of([], columns))
        self.rights.append(found)
        self._closure = found

    def rules(self) -> CollapsedRules:
        """The rules that were found so far."""
        columns = self.partitions.columns
        sets, rights = np.concatenate(self.sets), np.concatenate(self.rights)
        which, right = np.nonzero(unpack(rights, columns + 1))
        return CollapsedRules(np.arange(columns), sets[which], right.astype(np.int64))
