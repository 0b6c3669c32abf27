"""Keys and FDs of rows that do not change, by size: all with one column on the left before those with two.

No set of pairs is built, so that a limit on the size also limits the work; agree-sets, which give rules of all sizes at
once, can be too many in wide tables. (TANE walks the same levels; here a left side keeps no partition, only a bit for
each right side that it determines, and rows are grouped anew behind each prefix.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import comb

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.collapsed import CollapsedRules
from holdfast.discovery.witness.partitions import Partitions
from holdfast.kernels.levels import Level, LevelRows, test_left_sides
from holdfast.rules.masks import Masks, Numbers, full, mask_of, none, pack, sizes, unpack, words_for

_MEMORY = 1 << 29  # bytes for what the left sides of a level determine
MOST_RULES = 1 << 21  # in a search whose time is limited: nobody reads more, and listing them would take all the time
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
    ended: str = ""  # why larger sizes are not known

    def __post_init__(self) -> None:
        columns = self.partitions.columns
        self._rows = LevelRows(*self.partitions.by_row_and_column())
        self._words = words_for(columns + 1)
        self._closure = np.zeros((1, self._words), np.uint64)
        self._sets, self._rights = [none(columns)], [none(columns + 1)]
        self._pace = 0.0  # seconds for a left side of the last size

    def limit(self, kind: str) -> int:
        """The largest size of a kind that is wanted."""
        most, columns = self.most[kind], int(self.partitions.columns)
        return columns if most is None else min(most, columns)

    @property
    def largest(self) -> int:
        """The largest size that is wanted."""
        return max(map(self.limit, self.most), default=0)

    @property
    def is_done(self) -> bool:
        return self.done >= self.largest

    @property
    def unfinished(self) -> list[str]:
        """The kinds of which larger rules are wanted than are known."""
        return [kind for kind in self.most if self.done < self.limit(kind)]

    def seconds_left(self) -> float:
        """How long the other sizes will take, going by the last one."""
        sizes = range(self.done + 1, self.largest + 1)
        return self._pace * sum(comb(self.partitions.columns, size) for size in sizes)

    def search(self, size: int, budget: Budget | None = None) -> None:
        """Finds the rules up to a size. If the budget runs out, `done` says which are all there. O(left sides x rows),
        less where a few pairs of rows refute all right sides."""
        budget = budget or Budget()
        while not self.ended and self.done < min(size, self.largest):
            started = budget.clock()
            self._search_one(self.done + 1, budget)
            if not self.ended:
                self.done += 1
                self._pace = (budget.clock() - started) / comb(self.partitions.columns, self.done)

    def _search_one(self, size: int, budget: Budget) -> None:
        """Finds the rules of one size, or says in `ended` why not all of them."""
        wanted = self._wanted(size)
        if size == 0:
            self._constants(wanted)
            return
        columns, listed = self.partitions.columns, len(self._sets)
        if not len(self._closure):
            self.ended = f"memory for left sides of {size - 1} of {columns:,} columns"
            return
        after = np.zeros((self._rows_of_closure(size), self._words), np.uint64)
        choose = np.array([[comb(n, k) for k in range(size + 1)] for n in range(columns + 1)], np.int64)
        counted, count = listed, 0  # of the lists of right sides; rules
        level, total, done = Level(self._closure, after, wanted, choose), comb(columns, size - 1), 0
        for prefixes in self._prefixes(size - 1):
            budget.report(f"rules with {size} column{'s' * (size > 1)} on the left", done / total)
            if budget.spent():
                self.ended = str(budget.ended)
                return
            self._list(level, prefixes)
            done += len(prefixes)
            count += sum(int(sizes(rights).sum()) for rights in self._rights[counted:])
            counted = len(self._rights)
            if budget.seconds is not None and count > MOST_RULES:
                del self._sets[listed:], self._rights[listed:]
                self.ended = f"limit of {MOST_RULES:,} rules for a search within a time budget"
                return
        self._closure = after

    def _rows_of_closure(self, size: int) -> int:
        """The left sides of a size; none if what they determine is not needed, or does not fit into memory."""
        count = comb(self.partitions.columns, size)
        return count if size < self.largest and count * self._words * 8 <= _MEMORY else 0

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
            self._sets.append(pack(found))
            self._rights.append(rights[: progress[1]].copy())

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
        self._sets.append(mask_of([], columns))
        self._rights.append(found)
        self._closure = found

    def with_larger(self, others: CollapsedRules) -> CollapsedRules:
        """The rules that were found so far, and larger ones that another search found, unless they are too many."""
        is_larger = sizes(others.lefts) > self.done
        larger = replace(others, lefts=others.lefts[is_larger], rights=others.rights[is_larger])
        if len(larger) > MOST_RULES or larger.count_expanded() > MOST_RULES:
            return self.rules()
        return self.rules().joined(larger)

    def rules(self) -> CollapsedRules:
        """The rules that were found so far."""
        columns = self.partitions.columns
        sets, rights = np.concatenate(self._sets), np.concatenate(self._rights)
        which, right = np.nonzero(unpack(rights, columns + 1))
        return CollapsedRules(np.arange(columns), sets[which], right.astype(np.int64))
