"""Work on a great many sets, in slices between which a budget is looked at.

A time budget is what people wait: no stretch of work without a look at the clock is longer than about a second. Each
function gives what it gives in one piece, or raises `Cancelled` when the budget is spent.
"""

from __future__ import annotations

import numpy as np

from holdfast.discovery.budget import Budget, spans
from holdfast.kernels.sets import enter_sets
from holdfast.rules.masks import Masks, Numbers
from holdfast.table.keys import table_for

AT_ONCE = 1 << 18  # sets: some hundredths of a second


def numbered(masks: Masks, budget: Budget | None = None) -> tuple[Masks, Numbers]:
    """The distinct masks, in order of appearance, and for each mask the number of its like. O(masks), expected."""
    masks = np.ascontiguousarray(masks)
    distinct, numbers, table, used = np.empty_like(masks), np.empty(len(masks), np.int64), table_for(len(masks)), 0
    for first, stop in spans(len(masks), AT_ONCE, budget):
        used = enter_sets(table, distinct, used, masks[first:stop], numbers[first:stop])
    return distinct[:used], numbers


def distinct(masks: Masks, budget: Budget | None = None) -> Masks:
    """Each mask once."""
    return numbered(masks, budget)[0]


def added(numbers: Numbers, counts: Numbers, size: int, budget: Budget | None = None) -> Numbers:
    """[number]: the sum of its counts. O(counts)."""
    total = np.zeros(size, np.int64)
    for first, stop in spans(len(numbers), AT_ONCE, budget):
        np.add.at(total, numbers[first:stop], counts[first:stop])
    return total
