"""The box index: composite equality key -> bucket; inside a bucket, sorted runs searched by ranges.

An entry is a version number (an int32 that stands for one state of one row) and its values in `dims` dimensions.
A bucket holds up to 64 entries unsorted (the tail: one in the record, then chunks of 4, 16, 64), beyond that a binary
counter of runs of 64 * 2^level, each sorted by the first dimension, with the least and greatest value of every further
dimension for blocks of 16, 256, 4096 and 65536 entries. A bucket's record has the bounds of all its entries, so that
a bucket without violations is usually left after one look.

Deleting takes an entry out of a tail at once; in a run it only sets dead[version], and the bucket is rebuilt when half
of it is dead. Bounds may therefore be wider than the live entries need, never narrower.

Arrays are taken out of the bundle once per function: each look into it costs a counted reference.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holdfast.kernels.compiled import kernel
from holdfast.kernels.hashing import hash_row

TAIL = 64
LEVELS = 26
BLOCK_BITS = 4  # blocks of 16, 256, 4096, 65536
PYRAMID = 4

# meta
BUCKETS, POOL, DIRECTORIES, EMPTY, LIVE = range(5)
# the state of a bucket
COUNT, DEAD, HEAD, CHUNK, DIRECTORY = range(5)  # CHUNK: entries in the tail + 256 * size class of its chunk
STATES = 5
UNIT = 4  # HEAD is the only version, or where the tail's chunk starts, in units of four entries

# the bounds of a block, each least and greatest: its own, from it to the end of its group, from the begin up to it
OWN, FROM, UP_TO = 0, 2, 4
BOUNDS = 6

# status of a call
DONE, GROW_OUT, GROW_POOL, GROW_BUCKETS, GROW_DIRECTORIES = range(5)

LEAST = np.iinfo(np.int64).min  # null
MOST = np.iinfo(np.int64).max

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_ONE, _ZERO = np.uint64(1), np.uint64(0)


class Box(NamedTuple):
    """The arrays of one index. Grown by copying (`indexes/box.py`), never by a kernel."""

    meta: Any  # int64: see above
    slots: Any  # uint64: upper half of the hash above bucket + 1; zero is free
    state: Any  # int32[buckets, STATES]
    record: Any  # int64[buckets, key columns + 2 dims]: the key, then least and greatest of each dimension
    versions: Any  # int32[pool]
    values: Any  # int64[dims, pool]
    free: Any  # int64[4 + LEVELS]: first free chunk of each size, + 1
    runs: Any  # int64[directories, LEVELS, 2]: start and length
    blocks: Any  # int64[dims, blocks, 6]: bounds (see below); the levels of the pyramid one behind the other
    base: Any  # int64[PYRAMID]: where each level begins
    dead: Any  # uint8[versions]
    scratch_versions: Any  # int32[2, largest run]
    scratch_values: Any  # int64[2, dims, largest run]


# --- buckets --------------------------------------------------------------------------------------------------


@kernel
def find_bucket(slots, record, codes, columns, row):
    """(the bucket of a key, or -1; the slot where it is or would be). O(1), expected."""
    mask = np.uint64(slots.shape[0] - 1)
    value = hash_row(codes, columns, row)
    tag = value & _HIGH
    at = value & mask
    while True:
        slot = slots[at]
        if slot == _ZERO:
            return np.int64(-1), np.int64(at)
        if slot & _HIGH == tag:
            bucket = np.int64(slot & _LOW) - 1
            same = True
            for i in range(columns.shape[0]):
                if record[bucket, i] != codes[columns[i], row]:
                    same = False
                    break
            if same:
                return bucket, np.int64(at)
        at = (at + _ONE) & mask


@kernel
def refill_slots(slots, keys, buckets):
    """Fills zeroed slots with the first buckets; keys[column, bucket]. O(buckets)."""
    mask = np.uint64(slots.shape[0] - 1)
    columns = np.arange(keys.shape[0])
    for bucket in range(buckets):
        value = hash_row(keys, columns, bucket)
        at = value & mask
        while slots[at] != _ZERO:
            at = (at + _ONE) & mask
        slots[at] = (value & _HIGH) | np.uint64(bucket + 1)


@kernel
def chunk_size(size_class):
    """Entries in a chunk: 1, 4, 16, 64 for tails, 64 * 2^level for runs."""
    if size_class < 4:
        return np.int64(1) << (2 * size_class)
    return np.int64(TAIL) << (size_class - 4)


@kernel
def allocate(meta, free, versions, size_class):
    """Where a chunk of this class starts, or -1 when the pool is full. Starts are aligned for the pyramid."""
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


@kernel
def release(free, versions, size_class, start):
    """Gives a chunk back; its first two versions link to the next free one, plus one."""
    following = free[size_class]
    versions[start] = following & 0x7FFFFFFF
    versions[start + 1] = following >> 31
    free[size_class] = start + 1


# --- runs -----------------------------------------------------------------------------------------------------


@kernel
def sort_tail(versions, values, count):
    """Insertion sort by the first dimension. For at most 64 entries."""
    for i in range(1, count):
        first, version, at = values[0, i], versions[i], i
        while at > 0 and values[0, at - 1] > first:
            at -= 1
        if at < i:
            for d in range(values.shape[0]):
                moved = values[d, i]
                for j in range(i, at, -1):
                    values[d, j] = values[d, j - 1]
                values[d, at] = moved
            for j in range(i, at, -1):
                versions[j] = versions[j - 1]
            versions[at] = version


@kernel
def merge(left_versions, left_values, count, versions, values, dead, begin, length, to_versions, to_values, to):
    """Merges sorted entries with a run into a third place, without the run's dead ones. O(entries)."""
    dims = values.shape[0]
    a, b, stop, at = 0, begin, begin + length, to
    while a < count or b < stop:
        if b < stop and dead[versions[b]] != 0:
            b += 1
        elif b >= stop or (a < count and (dims == 0 or left_values[0, a] <= values[0, b])):
            to_versions[at] = left_versions[a]
            for d in range(dims):
                to_values[d, at] = left_values[d, a]
            a += 1
            at += 1
        else:
            to_versions[at] = versions[b]
            for d in range(dims):
                to_values[d, at] = values[d, b]
            b += 1
            at += 1
    return at - to


@kernel
def build_blocks(values, blocks, base, start, length):
    """The bounds of the blocks of a run in all dimensions but the first, all levels. O(entries x dims).

    Each block has its own bounds, those from it to the end of its group of sixteen, and from the group's begin to it.
    """
    for d in range(1, values.shape[0]):
        for level in range(PYRAMID):
            bits = BLOCK_BITS * (level + 1)
            first, stop = start >> bits, (start + length) >> bits
            if level == 0:
                stop = (start + length + 15) >> bits
            elif first >= stop:
                break
            for block in range(first, stop):
                if level == 0:
                    begin, end = block << bits, min((block + 1) << bits, start + length)
                    least, most = values[d, begin], values[d, begin]
                    for i in range(begin + 1, end):
                        least = min(least, values[d, i])
                        most = max(most, values[d, i])
                else:
                    below = base[level - 1] + (block << BLOCK_BITS) + 15  # its last child has seen the whole group
                    least, most = blocks[d, below, UP_TO], blocks[d, below, UP_TO + 1]
                at = base[level] + block
                blocks[d, at, OWN] = least
                blocks[d, at, OWN + 1] = most
                if block > first and block & 15 != 0:
                    least = min(least, blocks[d, at - 1, UP_TO])
                    most = max(most, blocks[d, at - 1, UP_TO + 1])
                blocks[d, at, UP_TO] = least
                blocks[d, at, UP_TO + 1] = most
            for block in range(stop - 1, first - 1, -1):
                at = base[level] + block
                least, most = blocks[d, at, OWN], blocks[d, at, OWN + 1]
                if block < stop - 1 and block & 15 != 15:
                    least = min(least, blocks[d, at + 1, FROM])
                    most = max(most, blocks[d, at + 1, FROM + 1])
                blocks[d, at, FROM] = least
                blocks[d, at, FROM + 1] = most


@kernel
def level_for(count):
    level = 0
    while (np.int64(TAIL) << level) < count:
        level += 1
    return level


@kernel
def rebuild(box, bucket, levels):
    """Sorts the tail and the runs below `levels` into one run and drops what is dead in them.

    Small runs come first, so the scratch holds at most as much as the largest run. Returns False, with nothing
    changed, when the pool or the scratch has no room.
    """
    state, versions, values, free, dead = box.state, box.versions, box.values, box.free, box.dead
    runs, scratch_versions, scratch_values = box.runs, box.scratch_versions, box.scratch_values
    directory, head = state[bucket, DIRECTORY], np.int64(state[bucket, HEAD]) * UNIT
    tail, size_class = state[bucket, CHUNK] & 255, state[bucket, CHUNK] >> 8
    total, last = np.int64(tail), -1
    for level in range(levels):
        total += runs[directory, level, 1]
        if runs[directory, level, 1] > 0:
            last = level
    if total - (runs[directory, last, 1] if last >= 0 else 0) > scratch_versions.shape[1]:
        return False
    target = level_for(total)
    start = allocate(box.meta, free, versions, 4 + target)
    if start < 0:
        return False
    count = np.int64(tail)
    for i in range(count):
        scratch_versions[0, i] = versions[head + i]
        for d in range(values.shape[0]):
            scratch_values[0, d, i] = values[d, head + i]
    if values.shape[0] > 0:
        sort_tail(scratch_versions[0], scratch_values[0], count)
    if size_class > 0:
        release(free, versions, size_class, head)
    side = 0
    for level in range(last + 1):
        length = runs[directory, level, 1]
        if length > 0:
            begin = runs[directory, level, 0]
            from_versions, from_values = scratch_versions[side], scratch_values[side]
            if level == last:
                count = merge(
                    from_versions, from_values, count, versions, values, dead, begin, length, versions, values, start
                )
            else:
                side = 1 - side
                to_versions, to_values = scratch_versions[side], scratch_values[side]
                count = merge(
                    from_versions, from_values, count, versions, values, dead, begin, length, to_versions, to_values, 0
                )
            release(free, versions, 4 + level, begin)
            runs[directory, level, 1] = 0
    if last < 0:
        versions[start : start + count] = scratch_versions[0, :count]
        for d in range(values.shape[0]):
            values[d, start : start + count] = scratch_values[0, d, :count]
    build_blocks(values, box.blocks, box.base, start, count)
    runs[directory, target, 0] = start
    runs[directory, target, 1] = count
    if count == 0:
        release(free, versions, 4 + target, start)
    state[bucket, CHUNK] = 0
    state[bucket, COUNT] -= total - count
    state[bucket, DEAD] -= total - count
    return True


@kernel
def settle(box, bucket):
    """Makes room in a full tail: all runs below the first free level, and the tail, become one run there."""
    if box.state[bucket, DIRECTORY] < 0:
        if box.meta[DIRECTORIES] >= box.runs.shape[0]:
            return GROW_DIRECTORIES
        directory = box.meta[DIRECTORIES]
        box.runs[directory, :, 1] = 0
        box.state[bucket, DIRECTORY] = directory
        box.meta[DIRECTORIES] += 1
    directory = box.state[bucket, DIRECTORY]
    level = 0
    while box.runs[directory, level, 1] > 0:
        level += 1
    return DONE if rebuild(box, bucket, level) else GROW_POOL


# --- entering and leaving -------------------------------------------------------------------------------------


@kernel
def make_room(box, bucket):
    """A place in the tail for one more entry. A status other than DONE: nothing was changed."""
    meta, state, versions, values, free = box.meta, box.state, box.versions, box.values, box.free
    tail, size_class = state[bucket, CHUNK] & 255, state[bucket, CHUNK] >> 8
    if tail == TAIL:
        status = settle(box, bucket)
        if status != DONE:
            return status
        tail, size_class = 0, 0
    if size_class > 0 and tail < chunk_size(size_class):
        return DONE
    if tail == 0 and values.shape[0] == 0 and state[bucket, DIRECTORY] < 0:
        return DONE  # the record itself has room for one version
    start = allocate(meta, free, versions, size_class + 1)
    if start < 0:
        return GROW_POOL
    if size_class == 0 and tail == 1:
        versions[start] = state[bucket, HEAD]
    elif tail > 0:
        old = np.int64(state[bucket, HEAD]) * UNIT
        for i in range(tail):
            versions[start + i] = versions[old + i]
            for d in range(values.shape[0]):
                values[d, start + i] = values[d, old + i]
        release(free, versions, size_class, old)
    state[bucket, HEAD] = start // UNIT
    state[bucket, CHUNK] = tail + 256 * (size_class + 1)
    return DONE


@kernel
def insert(box, meta, slots, state, record, versions, values, codes, columns, dims, row, version, bucket, at):
    """Enters a version; O(log) amortised. A status other than DONE: no entry was made; grow and call again.

    The arrays are those of the box, which itself is only for the rare call that rebuilds; bucket and at are what
    find_bucket says.
    """
    keys = columns.shape[0]
    if bucket < 0:
        bucket = meta[BUCKETS]
        if bucket >= state.shape[0] or 3 * (bucket + 1) > 2 * slots.shape[0]:
            return GROW_BUCKETS
        meta[BUCKETS] += 1
        meta[EMPTY] += 1
        for i in range(keys):
            record[bucket, i] = codes[columns[i], row]
        slots[at] = (hash_row(codes, columns, row) & _HIGH) | np.uint64(bucket + 1)
        for i in range(STATES):
            state[bucket, i] = 0
        state[bucket, DIRECTORY] = -1
    tail, size_class = state[bucket, CHUNK] & 255, state[bucket, CHUNK] >> 8
    if size_class == 0 or tail == chunk_size(size_class):
        status = make_room(box, bucket)
        if status != DONE:
            return status
    count = state[bucket, COUNT]
    for d in range(dims.shape[0]):
        value = codes[dims[d], row]
        if count == 0 or value < record[bucket, keys + 2 * d]:
            record[bucket, keys + 2 * d] = value
        if count == 0 or value > record[bucket, keys + 2 * d + 1]:
            record[bucket, keys + 2 * d + 1] = value
    if state[bucket, CHUNK] >> 8 == 0:
        state[bucket, HEAD] = version
    else:
        place = np.int64(state[bucket, HEAD]) * UNIT + (state[bucket, CHUNK] & 255)
        versions[place] = version
        for d in range(dims.shape[0]):
            values[d, place] = codes[dims[d], row]
    state[bucket, CHUNK] += 1
    if count == state[bucket, DEAD]:
        meta[EMPTY] -= 1
    state[bucket, COUNT] = count + 1
    meta[LIVE] += 1
    return DONE


@kernel
def take_from_tail(box, bucket, version):
    """Takes a version out of the tail; False where it is not there, and so is in a run."""
    state, versions = box.state, box.versions
    tail, size_class = state[bucket, CHUNK] & 255, state[bucket, CHUNK] >> 8
    if size_class == 0:
        if tail == 0 or state[bucket, HEAD] != version:
            return False
        state[bucket, CHUNK] -= 1
        return True
    head = np.int64(state[bucket, HEAD]) * UNIT
    for i in range(tail):
        if versions[head + i] == version:
            versions[head + i] = versions[head + tail - 1]
            for d in range(box.values.shape[0]):
                box.values[d, head + i] = box.values[d, head + tail - 1]
            state[bucket, CHUNK] -= 1
            return True
    return False


@kernel
def remove(box, codes, columns, row, version):
    """Takes a version out. O(64), or O(1) and a rebuild of the bucket when half of it is dead."""
    meta, state = box.meta, box.state
    bucket, _ = find_bucket(box.slots, box.record, codes, columns, row)
    meta[LIVE] -= 1
    if take_from_tail(box, bucket, version):
        state[bucket, COUNT] -= 1
        if state[bucket, DIRECTORY] < 0:
            head = np.int64(state[bucket, HEAD]) * UNIT
            narrow(box, bucket, columns.shape[0], head, state[bucket, CHUNK] & 255)
    else:
        box.dead[version] = 1
        state[bucket, DEAD] += 1
        if 2 * state[bucket, DEAD] > state[bucket, COUNT] + TAIL and rebuild(box, bucket, LEVELS):
            for level in range(LEVELS):
                start, length = box.runs[state[bucket, DIRECTORY], level]
                if length > 0:
                    narrow(box, bucket, columns.shape[0], start, length)
    if state[bucket, COUNT] == state[bucket, DEAD]:
        meta[EMPTY] += 1


@kernel
def narrow(box, bucket, keys, start, length):
    """The exact bounds of a bucket whose entries are all in one stretch."""
    record, values = box.record, box.values
    for d in range(values.shape[0]):
        for i in range(start, start + length):
            value = values[d, i]
            if i == start or value < record[bucket, keys + 2 * d]:
                record[bucket, keys + 2 * d] = value
            if i == start or value > record[bucket, keys + 2 * d + 1]:
                record[bucket, keys + 2 * d + 1] = value
