"""The arrays of a box: creating, growing, removing dead entries, checking."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import HoldfastError
from holdfast.kernels import box as kernel
from holdfast.kernels.box_entries import fill, list_entries
from holdfast.kernels.handle import Handle

_LEAST_SCRATCH = 64


def empty_box(key_columns: int, dims: int, buckets: int = 16, pool: int = 64, versions: int = 64) -> kernel.Box:
    """An index without entries."""
    return kernel.Box(
        meta=np.zeros(8, np.int64),
        slots=np.zeros(2 * buckets, np.uint64),
        record=np.zeros((buckets, key_columns + 1 + 2 * dims), np.int64),
        versions=np.zeros(pool, np.int32),
        values=np.zeros((dims, pool), np.int64),
        free=np.zeros(4 + kernel.LEVELS, np.int64),
        runs=np.zeros((1, kernel.LEVELS, 3), np.int64),
        totals=np.zeros((1, 2), np.int64),
        dead=np.zeros(versions, np.uint8),
        scratch_versions=np.zeros((2, _LEAST_SCRATCH), np.int32),
        scratch_values=np.zeros((2, dims, _LEAST_SCRATCH), np.int64),
        ordered=np.zeros((2, 0), np.int64),
        **_blocks(dims, pool, None),
    )


def _blocks(dims: int, pool: int, old: kernel.Box | None) -> dict[str, Any]:
    """Fences and block bounds for a pool of this size; existing ones are kept. One dimension needs no bounds."""
    rows = max(dims - 1, 0)
    sizes = [(pool >> (kernel.BLOCK_BITS * (level + 1))) + 1 for level in range(kernel.PYRAMID)]
    base = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    blocks = np.zeros((rows, sum(sizes), kernel.BOUNDS), np.int64)
    if old is not None and rows:
        ends = np.append(old.base, old.blocks.shape[1])
        for level in range(kernel.PYRAMID):
            length = int(ends[level + 1] - ends[level])
            blocks[:, base[level] : base[level] + length] = old.blocks[:, ends[level] : ends[level + 1]]
    fences = np.zeros(sizes[0] if dims else 0, np.int64)
    if old is not None:
        fences[: len(old.fences)] = old.fences
    return {"base": base, "blocks": blocks, "fences": fences}


def key_columns(box: kernel.Box) -> int:
    return int(box.record.shape[1] - 1 - 2 * len(box.values))


def grown(box: kernel.Box, status: int) -> kernel.Box:
    """The index with the room that the kernel asked for."""
    if status == kernel.GROW_BUCKETS:
        return _more_buckets(box)
    if status == kernel.GROW_DIRECTORIES:
        if len(box.runs) >= kernel.MAX_DIRECTORIES:
            raise HoldfastError("an index cannot have more than 8 million keys with more than 64 rows each")
        lines = min(2 * len(box.runs), kernel.MAX_DIRECTORIES)
        return box._replace(runs=longer(box.runs, lines), totals=longer(box.totals, lines))
    if status == kernel.GROW_ORDERED:
        return _with_order(box)
    return _more_pool(box)


def room_for(size: int, room: int) -> int:
    """The new length of an array that is too short: an eighth more, so that little of it is empty."""
    return max(size, room + max(room // 8, 64))


def longer(array: npt.NDArray[Any], length: int, fill_with: int = 0) -> npt.NDArray[Any]:
    shape = (length, *array.shape[1:])
    made = np.full(shape, fill_with, array.dtype) if fill_with else np.zeros(shape, array.dtype)
    made[: len(array)] = array
    return made


def _more_buckets(box: kernel.Box) -> kernel.Box:
    buckets = int(box.meta[kernel.BUCKETS]) + 1
    if buckets > len(box.record):
        box = box._replace(record=longer(box.record, room_for(buckets, len(box.record))))
    if 5 * buckets <= 4 * len(box.slots):
        return box
    slots = np.zeros(len(box.slots) * 3 // 2, np.uint64)
    kernel.refill_slots(box.slots, slots)
    return box._replace(slots=slots)


def _more_pool(box: kernel.Box) -> kernel.Box:
    """A third more, at least enough for the largest possible next run and its scratch space."""
    largest = int(box.totals[:, 0].max(initial=1)) + kernel.TAIL
    room = 1 << max(6, (largest - 1).bit_length())
    pool = max(len(box.versions) * 4 // 3, int(box.meta[kernel.POOL]) + room + min(room, 1 << 16))
    pool = -(-pool // 64) * 64
    dims = len(box.values)
    scratch = max(box.scratch_versions.shape[1], room // 2, _most_in_scratch(box))
    return box._replace(
        versions=longer(box.versions, pool),
        values=_wider(box.values, pool),
        scratch_versions=np.zeros((2, scratch), np.int32),
        scratch_values=np.zeros((2, dims, scratch), np.int64),
        ordered=_wider(box.ordered, pool) if box.ordered.size else box.ordered,
        **_blocks(dims, pool, box),
    )


def _most_in_scratch(box: kernel.Box) -> int:
    """The most scratch space that merging the runs of a bucket can need: all but the last run."""
    lengths = box.runs[:, :, 1]
    before = np.cumsum(lengths, axis=1) - lengths
    return kernel.TAIL + int(before[lengths > 0].max(initial=0))


def _with_order(box: kernel.Box) -> kernel.Box:
    """The index with its large runs in blocks that are sorted by the second dimension."""
    if box.ordered.shape[1] < len(box.versions):
        box = box._replace(ordered=_wider(box.ordered, len(box.versions)))
    large = box.runs[:, :, 1] >= 1 << kernel.ORDERED_BITS
    for directory, level in zip(*np.nonzero(large & (box.runs[:, :, 2] == 0)), strict=True):
        for ordered, run in zip(box.ordered, _in_order(box, *box.runs[directory, level, :2].tolist()), strict=True):
            ordered[box.runs[directory, level, 0] :][: len(run)] = run
        box.runs[directory, level, 2] = 1
    return box


def _in_order(box: kernel.Box, start: int, length: int) -> list[npt.NDArray[np.int64]]:
    """The second dimension of a run, sorted in whole blocks of either size."""
    sizes = (1 << kernel.ORDERED_BITS, 1 << kernel.MORE_ORDERED_BITS)
    stops = [start + length // size * size for size in sizes]
    runs = [box.values[1, start:stop].reshape(-1, size) for stop, size in zip(stops, sizes, strict=True)]
    return [np.sort(run, axis=1).ravel() for run in runs]


def _wider(array: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    made = np.zeros((len(array), width), array.dtype)
    made[:, : array.shape[1]] = array
    return made


def with_versions(box: kernel.Box, versions: int) -> kernel.Box:
    """The index with room for this many versions."""
    return box if versions <= len(box.dead) else box._replace(dead=longer(box.dead, versions))


def renumbered(box: kernel.Box, new: npt.NDArray[np.int32], versions: int) -> kernel.Box:
    """The index with its live entries only, under new version numbers."""
    keys, dims, live = key_columns(box), len(box.values), int(box.meta[kernel.LIVE])
    codes, old = np.zeros((keys + dims, live), np.int64), np.zeros(live, np.int32)
    assert Handle(box).call(list_entries, codes, old) == live
    made = empty_box(keys, dims, versions=versions)
    columns, row = (np.arange(keys), np.arange(keys, keys + dims)), 0
    while row < live:
        row, status = Handle(made).call(fill, codes, new[old], *columns, row)
        made = made if status == kernel.DONE else grown(made, status)
    return made


def nbytes(box: kernel.Box) -> int:
    return sum(int(array.nbytes) for array in box)


def check(box: kernel.Box) -> None:
    """The invariants, for tests: counts agree, runs are sorted, bounds hold."""
    live, empty, keys = 0, 0, key_columns(box)
    for bucket in range(int(box.meta[kernel.BUCKETS])):
        word = int(box.record[bucket, keys])
        head, tail, size_class, directory = word & (2**31 - 1), (word >> 31) & 127, (word >> 38) & 3, (word >> 40) - 1
        entries = list(range(kernel.UNIT * head, kernel.UNIT * head + tail)) if size_class else []
        count, dead = tail, 0
        for start, length, is_ordered in box.runs[directory] if directory >= 0 else []:
            in_order = _in_order(box, start, length) if is_ordered else []
            assert all((o[start:][: len(e)] == e).all() for o, e in zip(box.ordered, in_order, strict=False))
            run = box.values[:, start : start + length]
            assert len(run) == 0 or (run[0][1:] >= run[0][:-1]).all()
            dead += int((box.dead[box.versions[start : start + length]] != 0).sum())
            count += int(length)
            entries += list(range(start, start + length))
        assert directory < 0 or (count, dead) == tuple(box.totals[directory].tolist())
        for d in range(len(box.values)):
            least, most = box.record[bucket, keys + 1 + 2 * d : keys + 3 + 2 * d]
            assert all(least <= box.values[d, e] <= most for e in entries)
        live += count - dead
        empty += count == dead
    assert (live, empty) == (box.meta[kernel.LIVE], box.meta[kernel.EMPTY])
