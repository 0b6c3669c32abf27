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


# --- queries --------------------------------------------------------------------------------------------------

# A query is a box: for each dimension (lo, hi, hole, has_hole): lo <= value <= hi, and value != hole if there is one.
# Operators, and null policies:
EQ, NE, LT, LE, GT, GE = range(6)
NULL_EQUAL, NULL_DISTINCT, NULL_SQL = range(3)


@kernel
def range_of(op, value, policy):
    """What x must be for `value op x` to hold: (lo, hi, hole, has_hole, possible). Null is LEAST."""
    if value == LEAST:
        if op == NE:
            if policy == NULL_EQUAL:
                return LEAST + 1, MOST, np.int64(0), np.int64(0), True
            return LEAST, MOST, np.int64(0), np.int64(0), policy == NULL_DISTINCT
        holds = policy == NULL_EQUAL and (op == LE or op == GE or op == EQ)
        return LEAST, LEAST, np.int64(0), np.int64(0), holds
    if op == NE:
        return (LEAST + 1 if policy == NULL_SQL else LEAST), MOST, value, np.int64(1), True
    if op == EQ:
        return value, value, np.int64(0), np.int64(0), True
    if op == LE:
        return value, MOST, np.int64(0), np.int64(0), True
    if op == GE:
        return LEAST + 1, value, np.int64(0), np.int64(0), True
    if op == LT:
        return (value + 1 if value < MOST else MOST), MOST, np.int64(0), np.int64(0), value < MOST
    lowest = LEAST + 1
    return lowest, (value - 1 if value > lowest else lowest), np.int64(0), np.int64(0), value > lowest


@kernel
def make_query(codes, dims, ops, rule, policy, row, query):
    """The box for a row: in dimension d, what x must be for `value op x`. Returns whether it can be met."""
    for d in range(dims.shape[0]):
        lo, hi, hole, has_hole, possible = range_of(ops[rule, d], codes[dims[d], row], policy)
        if not possible:
            return False
        query[d, 0] = lo
        query[d, 1] = hi
        query[d, 2] = hole
        query[d, 3] = has_hole
    return True


@kernel
def lower_bound(values, start, stop, wanted):
    """The first place in values[0] whose value is not below `wanted`. O(log), without branches to mispredict."""
    length = stop - start
    while length > 0:
        half = length >> 1
        below = values[0, start + half] < wanted
        start = start + half + 1 if below else start
        length = length - half - 1 if below else half
    return start


@kernel
def inside(values, place, query, first):
    """Whether an entry is in the box, dimensions from `first` on."""
    for d in range(first, query.shape[0]):
        value = values[d, place]
        if value < query[d, 0] or value > query[d, 1] or (query[d, 3] != 0 and value == query[d, 2]):
            return False
    return True


@kernel
def relation(least, most, query, d):
    """How bounds lie to the box in dimension d: 0 outside, 1 partly inside, 2 wholly inside."""
    if most < query[d, 0] or least > query[d, 1]:
        return 0
    hole, has_hole = query[d, 2], query[d, 3] != 0
    if has_hole and least == hole and most == hole:
        return 0
    if least < query[d, 0] or most > query[d, 1] or (has_hole and least <= hole <= most):
        return 1
    return 2


@kernel
def block_relation(blocks, at, which, query):
    """The same for a block of the pyramid, over all dimensions but the first."""
    found = 2
    for d in range(1, query.shape[0]):
        here = relation(blocks[d, at, which], blocks[d, at, which + 1], query, d)
        if here == 0:
            return 0
        found = min(found, here)
    return found


@kernel
def jump(blocks, base, place, end, query):
    """How far one can go from an aligned place because nothing is in the box there; `place` itself if not at all.

    Looks at the rest of the group of sixteen that a block belongs to, or at the group's begin up to `end`: one look
    for each level of the pyramid instead of one for each block.
    """
    for level in range(PYRAMID - 1, -1, -1):
        bits = BLOCK_BITS * (level + 1)
        size = np.int64(1) << bits
        if place & (size - 1) != 0 or place + size > end:
            continue
        group = bits + BLOCK_BITS
        group_end = ((place >> group) + 1) << group
        if group_end <= end:
            if block_relation(blocks, base[level] + (place >> bits), FROM, query) == 0:
                return group_end
        elif place & ((np.int64(1) << group) - 1) == 0:
            if block_relation(blocks, base[level] + (end >> bits) - 1, UP_TO, query) == 0:
                return (end >> bits) << bits
    return place


@kernel
def take(versions, dead, begin, end, live_only, out, used, counting):
    """Emits or counts the entries of a stretch, all of which are in the box: how many, or -1 without room."""
    if counting and not live_only:
        return end - begin
    found = np.int64(0)
    for place in range(begin, end):
        version = versions[place]
        if live_only and dead[version] != 0:
            continue
        if not counting:
            if used + found >= out.shape[0]:
                return np.int64(-1)
            out[used + found] = version
        found += 1
    return found


@kernel
def scan(versions, values, dead, blocks, base, begin, end, query, live_only, out, used, counting):
    """The entries of a stretch of a run that are in the box beyond the first dimension, block by block."""
    found = np.int64(0)
    place = begin
    while place < end:
        step, known = np.int64(1), 1
        if place & 15 == 0 and place + 16 <= end:
            further = jump(blocks, base, place, end, query)
            if further > place:
                place = further
                continue
            step, known = np.int64(16), block_relation(blocks, base[0] + (place >> BLOCK_BITS), OWN, query)
            level = 1
            while level < PYRAMID and known != 1:
                bits = BLOCK_BITS * (level + 1)
                size = np.int64(1) << bits
                if place & (size - 1) != 0 or place + size > end:
                    break
                wider = block_relation(blocks, base[level] + (place >> bits), OWN, query)
                if wider == 1:
                    break
                step, known = size, wider
                level += 1
        if known == 2:
            more = take(versions, dead, place, place + step, live_only, out, used + found, counting)
            if more < 0:
                return np.int64(-1)
            found += more
        elif known == 1:
            for i in range(place, place + step):
                if inside(values, i, query, 1):
                    more = take(versions, dead, i, i + 1, live_only, out, used + found, counting)
                    if more < 0:
                        return np.int64(-1)
                    found += more
        place += step
    return found


@kernel
def search_runs(versions, values, dead, blocks, base, runs, directory, query, live_only, out, used, counting):
    """All entries of a bucket's runs that are in the box. O(log + blocks touched + entries found) for each run."""
    dims, found = query.shape[0], np.int64(0)
    for level in range(LEVELS):
        length = runs[directory, level, 1]
        if length == 0:
            continue
        begin = runs[directory, level, 0]
        end = begin + length
        left = right = end
        if dims > 0:
            if values[0, begin] < query[0, 0]:
                begin = lower_bound(values, begin, end, query[0, 0])
            if begin < end and values[0, end - 1] > query[0, 1]:
                end = lower_bound(values, begin, end, query[0, 1] + 1)
            left = right = end
            if query[0, 3] != 0:
                left = lower_bound(values, begin, end, query[0, 2])
                right = end if query[0, 2] == MOST else lower_bound(values, left, end, query[0, 2] + 1)
        for part in range(2):
            first, stop = (begin, left) if part == 0 else (right, end)
            if first >= stop:
                continue
            if dims <= 1:
                more = take(versions, dead, first, stop, live_only, out, used + found, counting)
            else:
                more = scan(
                    versions, values, dead, blocks, base, first, stop, query, live_only, out, used + found, counting
                )
            if more < 0:
                return np.int64(-1)
            found += more
    return found


@kernel
def search_tail(state, versions, values, bucket, query, out, used, counting):
    """The same for its tail."""
    tail, size_class = state[bucket, CHUNK] & 255, state[bucket, CHUNK] >> 8
    if size_class == 0 and tail == 1:
        if not counting:
            if used >= out.shape[0]:
                return np.int64(-1)
            out[used] = state[bucket, HEAD]
        return np.int64(1)
    found = np.int64(0)
    head = np.int64(state[bucket, HEAD]) * UNIT
    for place in range(head, head + tail):
        if inside(values, place, query, 0):
            if not counting:
                if used + found >= out.shape[0]:
                    return np.int64(-1)
                out[used + found] = versions[place]
            found += 1
    return found


class Role(NamedTuple):
    """How a row asks the index of its partners: its key columns, its compared columns, and who may ask."""

    key: Any  # int64[key columns]: columns of the batch's codes
    dims: Any  # int64[dims]
    ops: Any  # int64[rules, dims]: asker op partner
    member: Any  # uint8[rows]: whether the row may stand in this role


class Batch(NamedTuple):
    """Rows to enter or to take out."""

    codes: Any  # int64[columns, rows]
    versions: Any  # int32[rows]


class Found(NamedTuple):
    """Where answers go."""

    partner: Any  # int32[room]: versions, the answers one behind the other
    answers: Any  # int32[room, 4]: who asked (position in the batch), rule, whether the asker is t, how many
    counts: Any  # int64[rules]: all that was found, emitted or not
    used: Any  # int64[2]: partners, answers


@kernel
def reject(state, record, bucket, keys, query):
    """Whether the bounds of a bucket tell that nothing in it is in the box."""
    if state[bucket, COUNT] == state[bucket, DEAD]:
        return True
    for d in range(query.shape[0]):
        if relation(record[bucket, keys + 2 * d], record[bucket, keys + 2 * d + 1], query, d) == 0:
            return True
    return False


@kernel
def answer(
    state, versions, values, dead, blocks, base, runs, bucket, row, rule, as_t, counting, query, partner, answers, used,
    counts,
):  # fmt: skip
    """Searches one bucket for one rule. Returns whether there was room for what was found."""
    if used[1] >= answers.shape[0]:
        return False
    count = search_tail(state, versions, values, bucket, query, partner, used[0], counting)
    if count >= 0 and state[bucket, DIRECTORY] >= 0:
        more = search_runs(
            versions, values, dead, blocks, base, runs, state[bucket, DIRECTORY], query, state[bucket, DEAD] > 0,
            partner, used[0] + count, counting,
        )  # fmt: skip
        count = more if more < 0 else count + more
    if count < 0:
        return False
    counts[rule] += count
    if count > 0 and not counting:
        at = used[1]
        answers[at, 0] = row
        answers[at, 1] = rule
        answers[at, 2] = as_t
        answers[at, 3] = count
        used[0] += count
        used[1] += 1
    return True


@kernel
def process(box_s, box_t, shared, t_role, s_role, batch, policies, skip_t, skip_s, emit, mode, query, found, first):
    """Rows one by one: each asks for its partners, as t among the s rows and as s among the t rows, and enters
    (mode 1), or leaves first and then asks (mode 0), or only asks, one row (mode 2). Pairs inside the batch are
    found once.

    Returns (rows done, status). With GROW_OUT the answers of the row that did not fit are taken back and it has not
    entered; a leaving row has left, and is asked for again by mode 2.
    """
    codes, versions = batch.codes, batch.versions
    t_key, t_dims, t_ops, t_member = t_role.key, t_role.dims, t_role.ops, t_role.member
    s_key, s_dims, s_ops, s_member = s_role.key, s_role.dims, s_role.ops, s_role.member
    meta0, slots0, state0, record0, versions0 = box_s.meta, box_s.slots, box_s.state, box_s.record, box_s.versions
    values0, dead0, blocks0, base0, runs0 = box_s.values, box_s.dead, box_s.blocks, box_s.base, box_s.runs
    meta1, slots1, state1, record1, versions1 = box_t.meta, box_t.slots, box_t.state, box_t.record, box_t.versions
    values1, dead1, blocks1, base1, runs1 = box_t.values, box_t.dead, box_t.blocks, box_t.base, box_t.runs
    used, counts, partner, answers = found.used, found.counts, found.partner, found.answers
    saved = counts.copy()
    keys = t_key.shape[0]
    for row in range(first, versions.shape[0]):
        version = versions[row]
        if mode == 0:
            if s_member[row] != 0:
                remove(box_s, codes, s_key, row, version)
            if t_member[row] != 0 and not shared:
                remove(box_t, codes, t_key, row, version)
        start, answered = used[0], used[1]
        for rule in range(counts.shape[0]):
            saved[rule] = counts[rule]
        fits = True
        bucket0 = bucket1 = at0 = at1 = np.int64(-1)
        if t_member[row] != 0:
            bucket0, at0 = find_bucket(slots0, record0, codes, t_key, row)
        if shared:
            bucket1, at1 = bucket0, at0
        elif s_member[row] != 0:
            bucket1, at1 = find_bucket(slots1, record1, codes, s_key, row)
        for rule in range(policies.shape[0]):
            if (
                bucket0 >= 0
                and skip_t[rule] == 0
                and make_query(codes, t_dims, t_ops, rule, policies[rule], row, query)
            ):
                if not reject(state0, record0, bucket0, keys, query):
                    fits = fits and answer(
                        state0, versions0, values0, dead0, blocks0, base0, runs0, bucket0, row, rule, 1,
                        emit[rule] == 0, query, partner, answers, used, counts,
                    )  # fmt: skip
            if (
                bucket1 >= 0
                and skip_s[rule] == 0
                and make_query(codes, s_dims, s_ops, rule, policies[rule], row, query)
            ):
                if not reject(state1, record1, bucket1, keys, query):
                    fits = fits and answer(
                        state1, versions1, values1, dead1, blocks1, base1, runs1, bucket1, row, rule, 0,
                        emit[rule] == 0, query, partner, answers, used, counts,
                    )  # fmt: skip
        status = DONE if fits else GROW_OUT
        if fits and mode == 1:
            if s_member[row] != 0:
                if not shared:
                    bucket0, at0 = find_bucket(slots0, record0, codes, s_key, row)
                status = insert(
                    box_s, meta0, slots0, state0, record0, versions0, values0, codes, s_key, s_dims, row, version,
                    bucket0, at0,
                )  # fmt: skip
            if status == DONE and t_member[row] != 0 and not shared:
                bucket1, at1 = find_bucket(slots1, record1, codes, t_key, row)
                status = insert(
                    box_t, meta1, slots1, state1, record1, versions1, values1, codes, t_key, t_dims, row, version,
                    bucket1, at1,
                )  # fmt: skip
                if status != DONE and s_member[row] != 0:
                    remove(box_s, codes, s_key, row, version)  # it is in the tail: no trace is left
        if status != DONE:
            used[0], used[1] = start, answered
            for rule in range(counts.shape[0]):
                counts[rule] = saved[rule]
            return row, status
        if mode == 2:
            return row + 1, DONE
    return versions.shape[0], DONE
