"""The net effect of row events in a table without a key: rows are identified by their value.

Both functions return (taken, given). `taken` are the delete events that take a row from the table. `given` has, for
each of them, the event with the row's new value (-1: the row is deleted), followed by the inserts of new rows.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from holdfast.arrays import Positions
from holdfast.table.row_events import RowEvents

Held = tuple[int, int]  # the event that took a row from the table (-1: a new row), the event with its present value


def cancel_equal(events: RowEvents, group: Positions) -> tuple[Positions, Positions]:
    """Cancels equal inserts and deletes, for changes without updates. O(events log events)."""
    total = np.zeros(len(events), dtype=np.int64)
    np.add.at(total, group, events.sign)
    remaining = []
    for sign in (-1, 1):
        signed = np.flatnonzero(events.sign == sign)
        rank = _rank_within(group[signed])
        remaining.append(signed[rank < sign * total[group[signed]]])
    deletes, inserts = remaining
    return deletes, np.concatenate([np.full(len(deletes), -1), inserts])


def _rank_within(group: Positions) -> Positions:
    """For each position, the number of earlier positions with the same group."""
    order = np.argsort(group, kind="stable")
    sorted_group = group[order]
    starts = np.flatnonzero(np.diff(sorted_group, prepend=-1)) if len(group) else order
    rank = np.empty(len(group), dtype=np.int64)
    lengths = np.diff(np.append(starts, len(group)))
    rank[order] = np.arange(len(group)) - np.repeat(starts, lengths)
    return rank


def follow_updates(events: RowEvents, group: Positions) -> tuple[Positions, Positions]:
    """Follows each row through its chain of updates, so that it keeps its id. O(events).

    Each value has a stack of the rows that hold it at this point of the change.
    """
    held: dict[int, list[Held]] = defaultdict(list)
    deleted: list[int] = []
    for event, value in enumerate(group.tolist()):
        if events.sign[event] > 0 and events.partner[event] < 0:
            held[value].append((-1, event))
        elif events.sign[event] < 0:
            origin, _ = held[value].pop() if held[value] else (event, event)
            after = int(events.partner[event])
            if after >= 0:
                held[int(group[after])].append((origin, after))
            elif origin >= 0:
                deleted.append(origin)
    return _net(held, deleted, group)


def _net(held: dict[int, list[Held]], deleted: list[int], group: Positions) -> tuple[Positions, Positions]:
    deleted_by_value: dict[int, list[int]] = defaultdict(list)
    for event in deleted:
        deleted_by_value[int(group[event])].append(event)
    updated: list[Held] = []
    inserted: list[int] = []
    for value, rows in held.items():
        for origin, event in rows:
            if origin < 0 and deleted_by_value[value]:
                deleted_by_value[value].pop()  # an equal delete and insert cancel
            elif origin < 0:
                inserted.append(event)
            else:
                updated.append((origin, event))
    removed = [(event, -1) for events in deleted_by_value.values() for event in events]
    both = sorted(removed + updated)
    taken = np.array([origin for origin, _ in both], dtype=np.int64)
    return taken, np.array([event for _, event in both] + inserted, dtype=np.int64)
