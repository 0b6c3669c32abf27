"""The box index: composite equality key -> bucket; inside a bucket, sorted runs searched by ranges.

An entry is a version number (an int32 that stands for one state of one row) and its values in `dims` dimensions.
A bucket holds up to 64 entries unsorted (the tail: one in the record, then chunks of 4, 16, 64), beyond that a binary
counter of runs of 64 * 2^level, each sorted by the first dimension. Of each block of 16 entries the first value is
kept in one place (the fences), and of blocks of 16, 256, 4096 and 65536 entries the least and greatest value of every
further dimension. A bucket's record has its key, the bounds of all its entries, and one word that says where they
are, so that a bucket without violations is usually left after one look.

Deleting takes an entry out of a tail at once; in a run it only sets dead[version], and the bucket is rebuilt when half
of it is dead. Bounds may therefore be wider than the live entries need, never narrower.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holdfast.kernels.compiled import inlined, kernel, part
from holdfast.kernels.handle import int32_1, int32_2, int64_1, int64_2, int64_3, uint8_1, uint64_1

TAIL = 64
LEVELS = 26
BLOCK_BITS = 4  # blocks of 16, 256, 4096, 65536
PYRAMID = 4
ORDERED_BITS, MORE_ORDERED_BITS = 10, 15

# meta
BUCKETS, POOL, DIRECTORIES, EMPTY, LIVE = range(5)
# the bounds of a block, each least and greatest: its own, from it to the end of its group, from the begin up to it
OWN, FROM, UP_TO = np.int64(0), np.int64(2), np.int64(4)
BOUNDS = 6

# status of a call
DONE, GROW_OUT, GROW_POOL, GROW_BUCKETS, GROW_DIRECTORIES, GROW_VERSIONS, GROW_ORDERED = range(7)

LEAST = np.iinfo(np.int64).min  # null
MOST = np.iinfo(np.int64).max

_LOW = np.uint64(0xFFFFFFFF)
HIGH = np.uint64(0xFFFFFFFF00000000)
_ZERO, _HALF = np.uint64(0), np.uint64(32)


class Box(NamedTuple):
    """The arrays of one index. Grown by copying (`indexes/box_arrays.py`), never by a kernel."""

    meta: Any  # int64: see above
    slots: Any  # uint64: upper half of the hash above bucket + 1, ascending but for collisions; zero is free
    record: Any  # int64[buckets, key columns + 1 + 2 dims]: the key, the word, least and greatest of each dimension
    versions: Any  # int32[pool]
    values: Any  # int64[dims, pool]
    free: Any  # int64[4 + LEVELS]: first free chunk of each size, + 1
    runs: Any  # int64[directories, LEVELS, 3]: start, length, whether `ordered` is there for it
    totals: Any  # int64[directories, 2]: entries, and how many of them are dead
    blocks: Any  # int64[dims - 1, blocks, 6]: bounds (see above); the levels of the pyramid one behind the other
    base: Any  # int64[PYRAMID]: where each level begins
    dead: Any  # uint8[versions]
    scratch_versions: Any  # int32[2, largest run]
    scratch_values: Any  # int64[2, dims, largest run]
    fences: Any  # int64[pool / 16]: the first value of each block of a run, in the first dimension
    ordered: (
        Any  # int64[2, pool or 0]: the second dimension of runs that are counted, sorted in blocks of 1024 and 32768
    )


# In kernels a box is the address of its arrays' lines (`handle.py`), and each function takes the views it needs.


@part
def meta_of(box):
    """int64: counters, see above."""
    return int64_1(box, np.int64(0))


@part
def slots_of(box):
    """uint64[slots]."""
    return uint64_1(box, np.int64(1))


@part
def record_of(box):
    """int64[buckets, key columns + 1 + 2 dims]."""
    return int64_2(box, np.int64(2))


@part
def versions_of(box):
    """int32[pool]."""
    return int32_1(box, np.int64(3))


@part
def values_of(box):
    """int64[dims, pool]."""
    return int64_2(box, np.int64(4))


@part
def free_of(box):
    """int64[size classes]."""
    return int64_1(box, np.int64(5))


@part
def runs_of(box):
    """int64[directories, levels, 3]."""
    return int64_3(box, np.int64(6))


@part
def totals_of(box):
    """int64[directories, 2]."""
    return int64_2(box, np.int64(7))


@part
def blocks_of(box):
    """int64[dims - 1, blocks, bounds]."""
    return int64_3(box, np.int64(8))


@part
def base_of(box):
    """int64[levels of the pyramid]."""
    return int64_1(box, np.int64(9))


@part
def dead_of(box):
    """uint8[versions]."""
    return uint8_1(box, np.int64(10))


@part
def scratch_versions_of(box):
    """int32[2, room]."""
    return int32_2(box, np.int64(11))


@part
def scratch_values_of(box):
    """int64[2, dims, room]."""
    return int64_3(box, np.int64(12))


@part
def fences_of(box):
    """int64[blocks]."""
    return int64_1(box, np.int64(13))


@part
def ordered_of(box):
    """int64[2, pool or 0]."""
    return int64_2(box, np.int64(14))


# --- the word of a bucket: 31 bits head, 7 entries in the tail, 2 size class of its chunk, 23 directory + 1 -----

UNIT = 4  # the head is the only version, or where the tail's chunk starts, in units of four entries
MAX_DIRECTORIES = (1 << 23) - 1
_HEAD, _COUNT, _CLASS = (1 << 31) - 1, (1 << 7) - 1, 3


@part
def make_word(head, tail, size_class, directory):
    """The word of a bucket from its four parts."""
    return np.int64(head) | (np.int64(tail) << 31) | (np.int64(size_class) << 38) | ((np.int64(directory) + 1) << 40)


@part
def head_of(word):
    """The only version of a bucket without a chunk."""
    return word & _HEAD


@part
def start_of(word):
    """Where the tail's chunk starts."""
    return (word & _HEAD) * UNIT


@part
def tail_of(word):
    """Entries in the tail."""
    return (word >> 31) & _COUNT


@part
def class_of(word):
    """The size class of the tail's chunk; 0: no chunk."""
    return (word >> 38) & _CLASS


@part
def directory_of(word):
    """The bucket's line in `runs` and `totals`, or -1."""
    return (word >> 40) - 1


# --- buckets --------------------------------------------------------------------------------------------------


@part
def slot_of(hashed, slots):
    """The first slot to look at. Ascending with the hash, so that a larger table is filled in one pass."""
    return np.int64(((hashed >> _HALF) * np.uint64(slots.shape[0])) >> _HALF)


@part
def find_bucket(box, codes, columns, row, hashed):
    """(the bucket of a key, or -1; the slot where it is or would be). O(1), expected."""
    slots, record = slots_of(box), record_of(box)
    tag = hashed & HIGH
    at, last = slot_of(hashed, slots), slots.shape[0] - 1
    while True:
        slot = slots[at]
        if slot == _ZERO:
            return np.int64(-1), at
        if slot & HIGH == tag:
            bucket = np.int64(slot & _LOW) - 1
            same = True
            for i in range(columns.shape[0]):
                if record[bucket, i] != codes[columns[i], row]:
                    same = False
                    break
            if same:
                return bucket, at
        at = at + 1 if at < last else 0


@kernel
def refill_slots(old, new):
    """Moves all entries of a hash table into a larger, empty one. O(slots), in ascending order in both."""
    last = new.shape[0] - 1
    for i in range(old.shape[0]):
        if old[i] != _ZERO:
            at = slot_of(old[i], new)
            while new[at] != _ZERO:
                at = at + 1 if at < last else 0
            new[at] = old[i]


@part
def live_in(box, bucket):
    """How many live entries a bucket has."""
    word = record_of(box)[bucket, record_of(box).shape[1] - 1 - 2 * values_of(box).shape[0]]
    directory = directory_of(word)
    if directory < 0:
        return tail_of(word)
    return totals_of(box)[directory, 0] - totals_of(box)[directory, 1]


@inlined
def copy_entry(to_versions, to_values, to, versions, values, place):
    """Copies the entry at a place. O(dims)."""
    to_versions[to] = versions[place]
    for d in range(values.shape[0]):
        to_values[d, to] = values[d, place]


@inlined
def widen(record, bucket, bounds, value, is_first):
    """Extends the bounds of a bucket in one dimension to a value; the first value replaces them."""
    if is_first or value < record[bucket, bounds]:
        record[bucket, bounds] = value
    if is_first or value > record[bucket, bounds + 1]:
        record[bucket, bounds + 1] = value


@part
def chunk_size(size_class):
    """Entries in a chunk: 1, 4, 16, 64 for tails, 64 * 2^level for runs."""
    if size_class < 4:
        return np.int64(1) << (2 * size_class)
    return np.int64(TAIL) << (size_class - 4)


@part
def allocate(box, size_class):
    """Where a chunk of this class starts, or -1 when the pool is full. Starts are aligned for the pyramid."""
    meta, free, versions = meta_of(box), free_of(box), versions_of(box)
    first = free[size_class]
    if first > 0:
        link = first - 1
        free[size_class] = np.int64(versions[link]) + (np.int64(versions[link + 1]) << 31)
        return link
    size = chunk_size(size_class)
    step = min(size, np.int64(1) << (BLOCK_BITS * PYRAMID))
    start = (meta[POOL] + step - 1) // step * step
    if start + size > versions.shape[0]:
        return np.int64(-1)
    meta[POOL] = start + size
    return start


@part
def release(box, size_class, start):
    """Gives a chunk back; its first two versions link to the next free one, plus one."""
    free, versions = free_of(box), versions_of(box)
    following = free[size_class]
    versions[start] = following & 0x7FFFFFFF
    versions[start + 1] = following >> 31
    free[size_class] = start + 1
