"""The sorted runs of a bucket: merged like the digits of a binary counter, with bounds for blocks of entries."""

from __future__ import annotations

import numpy as np

from holdfast.kernels.box import (
    BLOCK_BITS,
    DIRECTORIES,
    DONE,
    FROM,
    GROW_DIRECTORIES,
    GROW_POOL,
    LEVELS,
    OWN,
    PYRAMID,
    TAIL,
    UP_TO,
    allocate,
    base_of,
    blocks_of,
    class_of,
    copy_entry,
    dead_of,
    directory_of,
    fences_of,
    head_of,
    make_word,
    meta_of,
    record_of,
    release,
    runs_of,
    scratch_values_of,
    scratch_versions_of,
    start_of,
    tail_of,
    totals_of,
    values_of,
    versions_of,
)
from holdfast.kernels.compiled import part


@part
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


@part
def merge(box, side, count, begin, length, some_dead, into_pool, to):
    """Merges the sorted entries in one half of the scratch with the live entries of a run, into the pool at `to` or
    into the other half of the scratch. Returns how many there are. O(entries x dims)."""
    versions, values, dead = versions_of(box), values_of(box), dead_of(box)
    left_versions, left_values = scratch_versions_of(box)[side], scratch_values_of(box)[side]
    to_versions, to_values = scratch_versions_of(box)[1 - side], scratch_values_of(box)[1 - side]
    if into_pool:
        to_versions, to_values = versions, values
    dims = values.shape[0]
    a, b, stop, at = 0, begin, begin + length, to
    while a < count or b < stop:
        if some_dead and b < stop and dead[versions[b]] != 0:
            b += 1
        elif b >= stop or (a < count and (dims == 0 or left_values[0, a] <= values[0, b])):
            copy_entry(to_versions, to_values, at, left_versions, left_values, a)
            a += 1
            at += 1
        else:
            copy_entry(to_versions, to_values, at, versions, values, b)
            b += 1
            at += 1
    return at - to


@part
def build_blocks(values, fences, blocks, base, start, length):
    """Sets the fences of a run and, on all levels, the bounds of its blocks in all dimensions but the first.

    A block has its own bounds, those from it to the end of its group, and those from the start of the group to it. A
    group is the whole run on the lowest level, sixteen blocks on the others. O(entries x dims).
    """
    if values.shape[0] > 0:
        for block in range(start >> BLOCK_BITS, (start + length + 15) >> BLOCK_BITS):
            fences[block] = values[0, block << BLOCK_BITS]
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
                    below = base[level - 1] + (block << BLOCK_BITS)
                    least, most = blocks[d - 1, below, OWN], blocks[d - 1, below, OWN + 1]
                    for child in range(below + 1, below + 16):
                        least = min(least, blocks[d - 1, child, OWN])
                        most = max(most, blocks[d - 1, child, OWN + 1])
                at = base[level] + block
                blocks[d - 1, at, OWN] = least
                blocks[d - 1, at, OWN + 1] = most
                if block > first and (level == 0 or block & 15 != 0):
                    least = min(least, blocks[d - 1, at - 1, UP_TO])
                    most = max(most, blocks[d - 1, at - 1, UP_TO + 1])
                blocks[d - 1, at, UP_TO] = least
                blocks[d - 1, at, UP_TO + 1] = most
            for block in range(stop - 1, first - 1, -1):
                at = base[level] + block
                least, most = blocks[d - 1, at, OWN], blocks[d - 1, at, OWN + 1]
                if block < stop - 1 and (level == 0 or block & 15 != 15):
                    least = min(least, blocks[d - 1, at + 1, FROM])
                    most = max(most, blocks[d - 1, at + 1, FROM + 1])
                blocks[d - 1, at, FROM] = least
                blocks[d - 1, at, FROM + 1] = most


@part
def level_for(count):
    """The level of a run of so many entries."""
    level = 0
    while (np.int64(TAIL) << level) < count:
        level += 1
    return level


@part
def rebuild(box, bucket, levels):
    """Merges the tail and the runs below `levels` into one run, without their dead entries. O(entries x dims).

    Small runs are merged first, so the scratch holds at most as much as the largest run. Returns False, with nothing
    changed, if the pool or the scratch has no room.
    """
    record, versions, values, runs = record_of(box), versions_of(box), values_of(box), runs_of(box)
    scratch_versions, scratch_values = scratch_versions_of(box), scratch_values_of(box)
    dims = values.shape[0]
    place = record.shape[1] - 1 - 2 * dims
    word = record[bucket, place]
    directory, head, tail, size_class = directory_of(word), start_of(word), tail_of(word), class_of(word)
    total, last, some_dead = tail, -1, totals_of(box)[directory, 1] > 0
    for level in range(levels):
        total += runs[directory, level, 1]
        if runs[directory, level, 1] > 0:
            last = level
    if total - (runs[directory, last, 1] if last >= 0 else 0) > scratch_versions.shape[1]:
        return False
    target = level_for(total - totals_of(box)[directory, 1] if levels == LEVELS else total)
    start = allocate(box, 4 + target)
    if start < 0:
        return False
    count = tail
    for i in range(count):
        copy_entry(scratch_versions[0], scratch_values[0], i, versions, values, head + i)
    if dims > 0:
        sort_tail(scratch_versions[0], scratch_values[0], count)
    if size_class > 0:
        release(box, size_class, head)
    side = np.int64(0)
    for level in range(last + 1):
        length = runs[directory, level, 1]
        if length > 0:
            begin, into_pool = runs[directory, level, 0], level == last
            count = merge(box, side, count, begin, length, some_dead, into_pool, start if into_pool else np.int64(0))
            side = 1 - side
            release(box, 4 + level, begin)
            runs[directory, level, 1] = 0
    if last < 0:
        versions[start : start + count] = scratch_versions[0, :count]
        for d in range(dims):
            values[d, start : start + count] = scratch_values[0, d, :count]
    build_blocks(values, fences_of(box), blocks_of(box), base_of(box), start, count)
    runs[directory, target, 0] = start
    runs[directory, target, 1] = count
    runs[directory, target, 2] = 0
    if count == 0:
        release(box, 4 + target, start)
    record[bucket, place] = make_word(np.int64(0), np.int64(0), np.int64(0), directory)
    totals_of(box)[directory, 0] -= total - count
    totals_of(box)[directory, 1] -= total - count
    return True


@part
def settle(box, bucket, place):
    """Empties a full tail: it and all runs below the first free level become one run there. O(entries merged)."""
    word = record_of(box)[bucket, place]
    directory = directory_of(word)
    if directory < 0:
        directory = meta_of(box)[DIRECTORIES]
        if directory >= runs_of(box).shape[0]:
            return GROW_DIRECTORIES
        meta_of(box)[DIRECTORIES] += 1
        runs_of(box)[directory, :, 1] = 0
        totals_of(box)[directory, 0] = tail_of(word)
        totals_of(box)[directory, 1] = 0
        record_of(box)[bucket, place] = make_word(head_of(word), tail_of(word), class_of(word), directory)
    level = 0
    while runs_of(box)[directory, level, 1] > 0:
        level += 1
    return DONE if rebuild(box, bucket, level) else GROW_POOL
