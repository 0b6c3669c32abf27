"""Finds the order dependencies of a table that are worth reading.

Two columns rise together for many reasons. Worth reading is an order that refines a credible dependency: the left
side determines the right one, and does so in order, at all or within groups (tax rates rise with salaries in a state).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.arrays import Positions
from holdfast.discovery.budget import Budget
from holdfast.kernels.agreement import inversions
from holdfast.ranking.credible import MAX_EXCEPTIONS, Credible
from holdfast.ranking.table_view import TableView
from holdfast.rules.nulls import Nulls
from holdfast.rules.operator import Op
from holdfast.rules.rule import Fd, Marked, Order
from holdfast.rules.wording import counted, percent
from holdfast.table.dictionary import NULL
from holdfast.table.keys import groups

_LEAST_VALUES = 3  # of each side
_LEAST_PAIRS = 100  # of rows that it orders


def orders(
    view: TableView,
    dependencies: list[Fd],
    most_exceptions: float = MAX_EXCEPTIONS,
    budget: Budget | None = None,
) -> list[Credible]:
    """The order dependencies that refine dependencies. O(rows log rows) for each."""
    found: list[Credible] = []
    for fd in dependencies:
        if budget is not None and budget.spent():
            break
        found += _refined(view, fd, most_exceptions)
    return sorted(found, key=lambda rule: -rule.score)


def _refined(view: TableView, fd: Fd, most_exceptions: float) -> Iterator[Credible]:
    right = view.schema.position(fd.right)
    if not view.schema.columns[right].kind.ordered or view.distinct[right] < _LEAST_VALUES:
        return
    for name in sorted(fd.left):
        left = view.schema.position(name)
        if view.schema.columns[left].kind.ordered and view.distinct[left] >= _LEAST_VALUES:
            others = sorted(view.schema.position(other) for other in fd.left - {name})
            if any(view.schema.columns[other].kind.ordered for other in others):
                continue  # groups are categories; a function of several numbers is a dependency
            rule = _in_order(view, left, right, others, most_exceptions)
            if rule is not None:
                yield rule


def _in_order(view: TableView, left: int, right: int, others: list[int], most_exceptions: float) -> Credible | None:
    """How `right` follows `left` in rows that agree on the other columns, if nearly no pair is out of order."""
    codes = view.all_codes[[*others, left, right]]
    compared = codes[-2:] if view.nulls == Nulls.EQUAL else codes  # null groups agree only where nulls are equal
    codes = codes[:, ~(compared == NULL).any(axis=0)]
    if (codes[-2] == codes[-1]).all():
        return None  # a copy
    group = groups(codes, np.arange(len(others))) if others else np.zeros(codes.shape[1], np.int64)
    ordered, in_order = _pairs(group, codes[-2], codes[-1])
    against = ordered - in_order
    rises = in_order >= against
    wrong = against if rises else in_order
    if ordered < _LEAST_PAIRS or wrong > most_exceptions * ordered:
        return None
    marks = [Marked(view.name(c), Op.EQ) for c in others] + [Marked(view.name(left), Op.LT)]
    rule = Order(frozenset(marks), Marked(view.name(right), Op.LE if rises else Op.GE))
    error = wrong / (view.rows * (view.rows - 1))
    reasons = [f"{counted(ordered, 'pair')} of rows are ordered by both sides"]
    if wrong:
        reasons.append(f"{counted(wrong, 'pair')} ({percent(wrong / ordered)}) in the other order")
    return Credible(rule, round(0.9 - 0.1 * len(others) - 10 * wrong / ordered, 3), error, tuple(reasons))


def _pairs(group: Positions, left: np.ndarray, right: np.ndarray) -> tuple[int, int]:
    """How many pairs of rows of a group differ on both sides, and in how many of them both sides rise."""
    order = np.lexsort((right, left, group))
    group, left, right = group[order], left[order], right[order]
    rank = np.unique(right, return_inverse=True)[1].astype(np.int64)
    _, number = np.unique(group, return_inverse=True)
    values = number * (int(rank.max(initial=0)) + 1) + rank
    against = int(inversions(values.copy(), np.empty_like(values)))
    both = _alike(number) - _alike(number, left) - _alike(number, right) + _alike(number, left, right)
    return both, both - against


def _alike(*columns: np.ndarray) -> int:
    """The pairs of rows that agree on all columns."""
    group = groups(
        np.ascontiguousarray(np.stack([column.astype(np.int64) for column in columns])), np.arange(len(columns))
    )
    sizes = np.bincount(group)
    return int((sizes * (sizes - 1) // 2).sum())
