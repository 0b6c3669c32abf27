"""Numbers for the values of a column."""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import kernel
from holdfast.kernels.hashing import mix

_ONE = np.uint64(1)
_FEW = 256  # values that fit a byte
_PLACES = 1024
_MASK = np.uint64(_PLACES - 1)


@kernel
def number_few(codes, out, few):
    """out[c, i] = a number for codes[c, i] that equal values of the column share, where a byte can hold them all:
    few[c]. O(values), in a table that stays in the nearest cache; a column of many values ends early."""
    values = np.empty(_PLACES, np.int64)
    numbers = np.empty(_PLACES, np.int16)
    for c in range(codes.shape[0]):
        numbers[:] = -1
        distinct = 0
        few[c] = True
        for i in range(codes.shape[1]):
            value = codes[c, i]
            at = mix(np.uint64(value)) & _MASK
            while numbers[at] >= 0 and values[at] != value:
                at = (at + _ONE) & _MASK
            if numbers[at] < 0:
                if distinct == _FEW:
                    few[c] = False
                    break
                values[at], numbers[at] = value, distinct
                distinct += 1
            out[c, i] = numbers[at]


@kernel
def number_values(codes, table, out):
    """out[i] = the number of codes[i] among the distinct values, in order of appearance; returns how many there are.
    `table` is zeroed, a power of two and larger than that. O(rows), expected."""
    mask = np.uint64(table.shape[0] - 1)
    first = np.empty(codes.shape[0], np.int64)
    distinct = 0
    for i in range(codes.shape[0]):
        at = mix(np.uint64(codes[i])) & mask
        while table[at] != 0 and first[table[at] - 1] != codes[i]:
            at = (at + _ONE) & mask
        if table[at] == 0:
            first[distinct] = codes[i]
            distinct += 1
            table[at] = distinct
        out[i] = table[at] - 1
    return distinct
