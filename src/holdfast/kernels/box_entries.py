"""Inserts into the box index and removals from it."""

from __future__ import annotations

import numpy as np

from holdfast.kernels.box import (
    BUCKETS,
    DONE,
    EMPTY,
    GROW_BUCKETS,
    GROW_POOL,
    HIGH,
    LEVELS,
    LIVE,
    TAIL,
    UNIT,
    allocate,
    chunk_size,
    class_of,
    copy_entry,
    dead_of,
    directory_of,
    find_bucket,
    head_of,
    live_in,
    make_word,
    meta_of,
    record_of,
    release,
    runs_of,
    slots_of,
    start_of,
    tail_of,
    totals_of,
    values_of,
    versions_of,
    widen,
)
from holdfast.kernels.box_runs import rebuild, settle
from holdfast.kernels.compiled import kernel, part
from holdfast.kernels.hashing import hash_row

_NONE = np.int64(0)


@part
def make_room(box, bucket, place):
    """Makes room in the tail for one more entry. With a status other than DONE no entry was added or removed.

    O(tail), or a merge of runs when the tail is full.
    """
    record, versions, values = record_of(box), versions_of(box), values_of(box)
    if tail_of(record[bucket, place]) == TAIL:
        status = settle(box, bucket, place)
        if status != DONE:
            return status
    word = record[bucket, place]
    tail, size_class, directory = tail_of(word), class_of(word), directory_of(word)
    if size_class > 0 and tail < chunk_size(size_class):
        return DONE
    if tail == 0 and values.shape[0] == 0 and directory < 0:
        return DONE  # the word itself has room for one version
    start = allocate(box, size_class + 1)
    if start < 0:
        return GROW_POOL
    if size_class == 0 and tail == 1:
        versions[start] = head_of(word)
    elif tail > 0:
        old = start_of(word)
        for i in range(tail):
            copy_entry(versions, values, start + i, versions, values, old + i)
        release(box, size_class, old)
    record[bucket, place] = make_word(start // UNIT, tail, size_class + 1, directory)
    return DONE


@part
def insert(box, codes, columns, dims, row, version, bucket, at, hashed):
    """Inserts a version. O(log entries), amortised.

    With a status other than DONE nothing was inserted: grow and call again. `bucket` and `at` are what find_bucket
    returns.
    """
    meta, slots, record = meta_of(box), slots_of(box), record_of(box)
    keys = columns.shape[0]
    if bucket < 0:
        bucket = meta[BUCKETS]
        if bucket >= record.shape[0] or 5 * (bucket + 1) > 4 * slots.shape[0]:
            return GROW_BUCKETS
        meta[BUCKETS] += 1
        meta[EMPTY] += 1
        for i in range(keys):
            record[bucket, i] = codes[columns[i], row]
        record[bucket, keys] = make_word(_NONE, _NONE, _NONE, np.int64(-1))
        slots[at] = (hashed & HIGH) | np.uint64(bucket + 1)
    word = record[bucket, keys]
    if class_of(word) == 0 or tail_of(word) == chunk_size(class_of(word)):
        status = make_room(box, bucket, keys)
        if status != DONE:
            return status
        word = record[bucket, keys]
    tail, size_class, directory = tail_of(word), class_of(word), directory_of(word)
    first = tail == 0 and directory < 0
    for d in range(dims.shape[0]):
        widen(record, bucket, keys + 1 + 2 * d, codes[dims[d], row], first)
    if live_in(box, bucket) == 0:
        meta[EMPTY] -= 1
    if size_class == 0:
        record[bucket, keys] = make_word(version, np.int64(1), _NONE, directory)
    else:
        place = start_of(word) + tail
        versions_of(box)[place] = version
        for d in range(dims.shape[0]):
            values_of(box)[d, place] = codes[dims[d], row]
        record[bucket, keys] = make_word(head_of(word), tail + 1, size_class, directory)
    if directory >= 0:
        totals_of(box)[directory, 0] += 1
    meta[LIVE] += 1
    return DONE


@part
def take_from_tail(box, bucket, place, version):
    """Removes a version from the tail; False if it is not there, and so is in a run. O(tail)."""
    versions, values, word = versions_of(box), values_of(box), record_of(box)[bucket, place]
    tail, size_class, directory = tail_of(word), class_of(word), directory_of(word)
    if size_class == 0:
        if tail == 0 or head_of(word) != version:
            return False
        record_of(box)[bucket, place] = make_word(_NONE, _NONE, _NONE, directory)
        return True
    head = start_of(word)
    for i in range(tail):
        if versions[head + i] == version:
            copy_entry(versions, values, head + i, versions, values, head + tail - 1)
            record_of(box)[bucket, place] = make_word(head_of(word), tail - 1, size_class, directory)
            return True
    return False


@part
def remove(box, codes, columns, row, version):
    """Removes a version. O(tail), or O(1) and a rebuild of the bucket when half of its entries are dead.

    Without room for the rebuild the dead entries stay until the next one, or until versions are renumbered.
    """
    record, totals, keys = record_of(box), totals_of(box), columns.shape[0]
    bucket, _ = find_bucket(box, codes, columns, row, hash_row(codes, columns, row))
    meta_of(box)[LIVE] -= 1
    directory = directory_of(record[bucket, keys])
    if take_from_tail(box, bucket, keys, version):
        if directory >= 0:
            totals[directory, 0] -= 1
        else:
            word = record[bucket, keys]
            narrow(box, bucket, keys, start_of(word), tail_of(word))
    else:
        dead_of(box)[version] = 1
        totals[directory, 1] += 1
        if 2 * totals[directory, 1] > totals[directory, 0] + TAIL and rebuild(box, bucket, np.int64(LEVELS)):
            for level in range(LEVELS):
                if runs_of(box)[directory, level, 1] > 0:
                    narrow(box, bucket, keys, runs_of(box)[directory, level, 0], runs_of(box)[directory, level, 1])
    if live_in(box, bucket) == 0:
        meta_of(box)[EMPTY] += 1


@part
def narrow(box, bucket, keys, start, length):
    """Sets the exact bounds of a bucket whose entries all lie in one stretch. O(entries x dims)."""
    record, values = record_of(box), values_of(box)
    for d in range(values.shape[0]):
        for i in range(start, start + length):
            widen(record, bucket, keys + 1 + 2 * d, values[d, i], i == start)


@kernel
def list_entries(box, codes, versions):
    """Writes all live entries, codes[key columns and dimensions, entry] and versions; returns how many. O(entries)."""
    record, values, runs = record_of(box), values_of(box), runs_of(box)
    keys, at = record.shape[1] - 1 - 2 * values.shape[0], 0
    for bucket in range(meta_of(box)[BUCKETS]):
        word, first = record[bucket, keys], at
        head, tail, directory = start_of(word), tail_of(word), directory_of(word)
        if class_of(word) == 0 and tail == 1:
            versions[at] = head_of(word)
            at += 1
            tail = np.int64(0)
        for level in range(-1, LEVELS if directory >= 0 else 0):
            start, length = (head, tail) if level < 0 else (runs[directory, level, 0], runs[directory, level, 1])
            for place in range(start, start + length):
                if level < 0 or dead_of(box)[versions_of(box)[place]] == 0:
                    copy_entry(versions, codes[keys:], at, versions_of(box), values, place)
                    at += 1
        for entry in range(first, at):
            for i in range(keys):
                codes[i, entry] = record[bucket, i]
    return at


@kernel
def fill(box, codes, versions, columns, dims, first):
    """Inserts versions[first:]; returns (how many of all are in, status). O(log entries) each, amortised."""
    for row in range(first, versions.shape[0]):
        hashed = hash_row(codes, columns, row)
        bucket, at = find_bucket(box, codes, columns, row, hashed)
        status = insert(box, codes, columns, dims, row, np.int64(versions[row]), bucket, at, hashed)
        if status != DONE:
            return row, status
    return versions.shape[0], DONE
