"""Agree-sets of all pairs of rows, in tiles for an executor."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Arrays
from holdfast.executors.executor import Block, Executor
from holdfast.kernels.agree import count_agreements
from holdfast.table.dictionary import Codes

MOST_COLUMNS = 24


def agree_tile(block: Arrays, shared: Arrays) -> Arrays:
    """How many pairs of a tile agree on exactly which columns."""
    codes = np.array(shared["codes"], np.int32)
    counts = np.zeros(1 << len(codes), np.int64)
    count_agreements(codes, *np.asarray(block["span"], np.int64).tolist(), counts)
    return {"counts": counts}


def agree_counts(codes: Codes, executor: Executor, rows_per_tile: int = 8192) -> npt.NDArray[np.int64]:
    """counts[mask]: how many unordered pairs of rows agree on exactly the columns in the mask. O(rows^2 x columns)."""
    assert len(codes) <= MOST_COLUMNS
    ranks = np.array([np.unique(column, return_inverse=True)[1] for column in codes], np.int32)
    edges = np.append(np.arange(0, codes.shape[1], rows_per_tile), codes.shape[1])
    spans = [
        (first, stop, other, other_stop)
        for i, (first, stop) in enumerate(pairwise(edges))
        for other, other_stop in pairwise(edges[i:])
    ]
    blocks = [Block({"span": np.array(span)}, cost=float((span[1] - span[0]) * (span[3] - span[2]))) for span in spans]
    total = np.zeros(1 << len(codes), np.int64)
    for answer in executor.map(agree_tile, blocks, {"codes": ranks}):
        total += np.asarray(answer["counts"], np.int64)
    return total
