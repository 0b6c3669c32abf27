"""The default index: arrays of `kernels/box.py`, grown when a kernel asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.kernels import box as kernel

_LEAST_SCRATCH = 64


def empty_box(key_columns: int, dims: int, buckets: int = 16, pool: int = 64, versions: int = 64) -> kernel.Box:
    """An index without entries."""
    return kernel.Box(
        meta=np.zeros(8, np.int64),
        slots=np.zeros(2 * buckets, np.uint64),
        state=np.zeros((buckets, kernel.STATES), np.int32),
        record=np.zeros((buckets, key_columns + 2 * dims), np.int64),
        versions=np.zeros(pool, np.int32),
        values=np.zeros((dims, pool), np.int64),
        free=np.zeros(4 + kernel.LEVELS, np.int64),
        runs=np.zeros((1, kernel.LEVELS, 2), np.int64),
        dead=np.zeros(versions, np.uint8),
        scratch_versions=np.zeros((2, _LEAST_SCRATCH), np.int32),
        scratch_values=np.zeros((2, dims, _LEAST_SCRATCH), np.int64),
        **_blocks(dims, pool, None),
    )


def _blocks(dims: int, pool: int, old: kernel.Box | None) -> dict[str, Any]:
    """Block bounds for a pool of this size, those of the old one kept. One dimension needs none."""
    rows = dims if dims > 1 else 0
    sizes = [(pool >> (kernel.BLOCK_BITS * (level + 1))) + 1 for level in range(kernel.PYRAMID)]
    base = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    blocks = np.zeros((rows, sum(sizes), kernel.BOUNDS), np.int64)
    if old is not None and rows:
        ends = np.append(old.base, old.blocks.shape[1])
        for level in range(kernel.PYRAMID):
            length = int(ends[level + 1] - ends[level])
            blocks[:, base[level] : base[level] + length] = old.blocks[:, ends[level] : ends[level + 1]]
    return {"base": base, "blocks": blocks}


def grown(box: kernel.Box, status: int) -> kernel.Box:
    """The same index with room for what the kernel asked for."""
    if status == kernel.GROW_BUCKETS:
        return _more_buckets(box)
    if status == kernel.GROW_DIRECTORIES:
        return box._replace(runs=_longer(box.runs, 2 * len(box.runs)))
    return _more_pool(box)


def _more_buckets(box: kernel.Box) -> kernel.Box:
    buckets = len(box.state)
    if int(box.meta[kernel.BUCKETS]) >= buckets:
        buckets = buckets * 3 // 2
        box = box._replace(state=_longer(box.state, buckets), record=_longer(box.record, buckets))
    if 3 * buckets <= 2 * len(box.slots):
        return box
    slots = np.zeros(2 * len(box.slots), np.uint64)
    columns = box.record.shape[1] - 2 * len(box.values)
    keys = np.ascontiguousarray(box.record[:, :columns].T)
    kernel.refill_slots(slots, keys, int(box.meta[kernel.BUCKETS]))
    return box._replace(slots=slots)


def _more_pool(box: kernel.Box) -> kernel.Box:
    """A third more, at least enough for the largest run that could come next, and the scratch for it."""
    largest = int(box.state[: int(box.meta[kernel.BUCKETS]), kernel.COUNT].max(initial=1)) + kernel.TAIL
    room = 1 << max(6, (largest - 1).bit_length())
    pool = max(len(box.versions) * 4 // 3, int(box.meta[kernel.POOL]) + room + min(room, 1 << 16))
    pool = -(-pool // 64) * 64
    dims = len(box.values)
    values = np.zeros((dims, pool), np.int64)
    values[:, : len(box.versions)] = box.values
    scratch = max(box.scratch_versions.shape[1], room // 2)
    return box._replace(
        versions=_longer(box.versions, pool),
        values=values,
        scratch_versions=np.zeros((2, scratch), np.int32),
        scratch_values=np.zeros((2, dims, scratch), np.int64),
        **_blocks(dims, pool, box),
    )


def with_versions(box: kernel.Box, versions: int) -> kernel.Box:
    """The same index with room for this many versions."""
    if versions <= len(box.dead):
        return box
    return box._replace(dead=_longer(box.dead, max(versions, len(box.dead) * 3 // 2)))


def _longer(array: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    made = np.zeros((length, *array.shape[1:]), array.dtype)
    made[: len(array)] = array
    return made


def nbytes(box: kernel.Box) -> int:
    return sum(int(array.nbytes) for array in box)


def check(box: kernel.Box) -> None:
    """The invariants, for tests: counts agree, runs are sorted, bounds hold."""
    live, keys = 0, box.record.shape[1] - 2 * len(box.values)
    for bucket in range(int(box.meta[kernel.BUCKETS])):
        count_all, dead_all, head, chunk, directory = box.state[bucket].tolist()
        tail, size_class = chunk & 255, chunk >> 8
        entries = list(range(4 * head, 4 * head + tail)) if size_class else []
        count, dead = tail, 0
        for start, length in box.runs[directory] if directory >= 0 else []:
            run = box.values[:, start : start + length]
            assert len(run) == 0 or (run[0][1:] >= run[0][:-1]).all()
            dead += int((box.dead[box.versions[start : start + length]] != 0).sum())
            count += int(length)
            entries += list(range(start, start + length))
        assert (count, dead) == (count_all, dead_all)
        for d in range(len(box.values)):
            least, most = box.record[bucket, keys + 2 * d : keys + 2 * d + 2]
            assert all(least <= box.values[d, e] <= most for e in entries)
        live += count - dead
    assert live == box.meta[kernel.LIVE]
