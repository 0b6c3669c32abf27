"""Operations on millions of sets, in slices with budget checks in between.

A time budget is how long a user waits, so budget checks are at most about a second apart. Each function returns the
whole result, or raises `Cancelled` if the budget is spent.
"""

from __future__ import annotations

import numpy as np

from holdfast.discovery.budget import Budget, spans
from holdfast.kernels.sets import enter_sets
from holdfast.rules.masks import Masks, Numbers
from holdfast.table.keys import table_for

AT_ONCE = 1 << 18  # sets: a few hundredths of a second


def numbered(masks: Masks, budget: Budget | None = None) -> tuple[Masks, Numbers]:
    """The distinct masks, in order of appearance, and for each mask its position among them. O(masks), expected."""
    masks = np.ascontiguousarray(masks)
    distinct, numbers, table, used = np.empty_like(masks), np.empty(len(masks), np.int64), table_for(len(masks)), 0
    for first, stop in spans(len(masks), AT_ONCE, budget):
        used = enter_sets(table, distinct, used, masks[first:stop], numbers[first:stop])
    return distinct[:used], numbers


def distinct(masks: Masks, budget: Budget | None = None) -> Masks:
    """Each mask once, in order of appearance."""
    return numbered(masks, budget)[0]


def sums_by_number(numbers: Numbers, counts: Numbers, size: int, budget: Budget | None = None) -> Numbers:
    """[number]: the sum of its counts. O(counts)."""
    total = np.zeros(size, np.int64)
    for first, stop in spans(len(numbers), AT_ONCE, budget):
        np.add.at(total, numbers[first:stop], counts[first:stop])
    return total
