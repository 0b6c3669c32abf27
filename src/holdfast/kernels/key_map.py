"""Rows by value: an open-addressing table of row slots; the values stay in the row store.

A table entry is slot + 1, zero is free, -1 was removed. Rows of equal value form a chain through `older`
(slot + 1 of the next older one, zero at the end), youngest first, so a table without a key keeps duplicates.
`codes` is column-major, codes[c, slot]; `columns` says which columns make the value.
"""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import inlined, kernel, part
from holdfast.kernels.hashing import hash_row

_ONE = np.uint64(1)
_BLOCK = 64
_NULL = np.iinfo(np.int64).min


@inlined
def same_row(left, left_row, right, right_row, columns):
    """Whether two rows are equal on the columns. O(columns)."""
    for i in range(columns.shape[0]):
        column = columns[i]
        if left[column, left_row] != right[column, right_row]:
            return False
    return True


@inlined
def probe(table, codes, wanted, columns, row):
    """(place of the entry equal to wanted[:, row], or -1; first place where it could be put)."""
    mask = np.uint64(table.shape[0] - 1)
    at = hash_row(wanted, columns, row) & mask
    free = np.int64(-1)
    while True:
        entry = np.int64(table[at])
        if entry == 0:
            return np.int64(-1), (np.int64(at) if free < 0 else free)
        if entry == -1:
            if free < 0:
                free = np.int64(at)
        elif same_row(codes, entry - 1, wanted, row, columns):
            return np.int64(at), free
        at = (at + _ONE) & mask


@part
def look_ahead(table, codes, wanted, columns, first, stop):
    """Touches what the next rows will look at. Nothing waits for the answers, so the memory serves them together."""
    mask, seen = np.uint64(table.shape[0] - 1), np.int64(0)
    for i in range(first, stop):
        at = hash_row(wanted, columns, i) & mask
        for _ in range(2):
            entry = np.int64(table[at])
            if entry > 0:
                for c in range(columns.shape[0]):
                    seen ^= codes[columns[c], entry - 1]
            at = (at + _ONE) & mask
    return seen


@kernel
def find_rows(table, codes, wanted, columns, out):
    """out[i] = youngest slot equal to wanted[:, i], or -1. O(1) each, expected."""
    for i in range(out.shape[0]):
        if i % _BLOCK == 0:
            look_ahead(table, codes, wanted, columns, i, min(i + _BLOCK, out.shape[0]))
        place, _ = probe(table, codes, wanted, columns, i)
        out[i] = table[place] - 1 if place >= 0 else -1


@kernel
def are_new(table, codes, wanted, columns):
    """Whether no wanted row has a null in these columns, is there already, or comes twice. For a few rows: O(n^2)."""
    for i in range(wanted.shape[1]):
        for c in range(columns.shape[0]):
            if wanted[columns[c], i] == _NULL:
                return False
        place, _ = probe(table, codes, wanted, columns, i)
        if place >= 0:
            return False
        for j in range(i):
            if same_row(wanted, i, wanted, j, columns):
                return False
    return True


@kernel
def add_rows(table, older, codes, columns, slots):
    """Enters slots, each into the chain of its equals by age (slot order). Returns table places newly used.

    O(1) each for slots younger than all their equals; an older one walks its chain.
    """
    used = 0
    for i in range(slots.shape[0]):
        slot = slots[i]
        place, free = probe(table, codes, codes, columns, slot)
        if place < 0:
            if table[free] == 0:
                used += 1
            table[free] = slot + 1
            older[slot] = 0
        elif table[place] - 1 < slot:
            older[slot] = table[place]
            table[place] = slot + 1
        else:
            before = table[place] - 1
            while older[before] - 1 > slot:
                before = older[before] - 1
            older[slot] = older[before]
            older[before] = slot + 1
    return used


@kernel
def remove_rows(table, older, codes, columns, slots):
    """Takes slots out of their chains; their codes must still be in place. O(1) each for the youngest."""
    for i in range(slots.shape[0]):
        slot = slots[i]
        place, _ = probe(table, codes, codes, columns, slot)
        if table[place] - 1 == slot:
            table[place] = older[slot] if older[slot] > 0 else -1
        else:
            before = table[place] - 1
            while older[before] - 1 != slot:
                before = older[before] - 1
            older[before] = older[slot]


@kernel
def group_rows(codes, columns, local, out):
    """out[i] = the first row equal to row i on the columns; `local` is a zeroed table. O(1) each, expected."""
    for i in range(out.shape[0]):
        seen, free = probe(local, codes, codes, columns, i)
        if seen < 0:
            local[free] = i + 1
            out[i] = i
        else:
            out[i] = local[seen] - 1


@kernel
def take_youngest(table, older, codes, wanted, columns, group, cursor, out):
    """out[i] = the youngest slot equal to wanted[:, i] that no earlier i took, or -1. O(1) each, expected.

    `group` is what group_rows says of `wanted`; cursor[group[i]] keeps how far the chain has been taken.
    """
    for i in range(out.shape[0]):
        first = group[i]
        if first == i:
            place, _ = probe(table, codes, wanted, columns, i)
            cursor[i] = table[place] if place >= 0 else 0
        slot = np.int64(cursor[first]) - 1
        out[i] = slot
        if slot >= 0:
            cursor[first] = older[slot]
