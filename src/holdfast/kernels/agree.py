"""Which columns pairs of rows agree on, counted for a tile of pairs."""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import kernel

_STRIP = 1024  # partners at a time: their masks stay in the nearest cache


@kernel
def count_agreements(codes, first, stop, first_other, stop_other, counts):
    """counts[mask] += 1 for each pair (i, j) with i < j, i from first to stop, j from first_other to stop_other; bit c
    of the mask says whether they agree on codes[c]. O(pairs x columns), column by column so that it runs in strips.

    For up to 24 columns: counts has 2 ** columns places.
    """
    columns = codes.shape[0]
    masks = np.zeros(_STRIP, np.int32)
    for begin in range(first_other, stop_other, _STRIP):
        end = min(begin + _STRIP, stop_other)
        for i in range(first, min(stop, end - 1)):
            start = max(begin, i + 1)
            width = end - start
            masks[:width] = 0
            for c in range(columns):
                value, others = codes[c, i], codes[c, start:end]
                bit = np.int32(1) << np.int32(c)
                for j in range(width):
                    masks[j] |= bit if others[j] == value else np.int32(0)
            for j in range(width):
                counts[masks[j]] += 1
