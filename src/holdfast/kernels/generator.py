"""The generator of attribute clusterings: for each value the attributes that have it, and how often.

A value that one attribute has keeps its count in its own record; the counts of the others are in a table of (value,
attribute). A cluster is a set of attributes; its record says how many values have exactly that set.
"""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import kernel, part
from holdfast.kernels.hashing import mix
from holdfast.kernels.sets import AHEAD, ONE, bit_of, copy_set, lowest, ones, place_of

DONE, MORE_VALUES, MORE_PAIRS, MORE_CLUSTERS = 0, 1, 2, 3
# the places of `state`; nobody asks what was seen
AT, VALUES, PAIRS, CLUSTERS, MOVES, SEEN, ONLY_INSERTS = 0, 1, 2, 3, 4, 5, 6
FREE, GONE = np.int64(-1), np.int64(-2)  # keys of pairs
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.int64(16)


@part
def hash_value(number, space):
    return mix(np.uint64(number) ^ (np.uint64(space) * _GOLDEN))


@part
def value_place(table, numbers, spaces, number, space, value):
    """The place of a value in the table, or the free one where it belongs, from its hash."""
    mask = np.uint64(table.shape[0] - 1)
    at = value & mask
    while table[at] != 0:
        known = table[at] - 1
        if numbers[known] == number and spaces[known] == space:
            break
        at = (at + ONE) & mask
    return np.int64(at)


@part
def pair_place(keys, key):
    """The place of (value, attribute), or of the first free place for it."""
    mask = np.uint64(keys.shape[0] - 1)
    at = mix(np.uint64(key)) & mask
    free = np.int64(-1)
    while keys[at] != FREE:
        if keys[at] == key:
            return np.int64(at)
        if keys[at] == GONE and free < 0:
            free = np.int64(at)
        at = (at + ONE) & mask
    return np.int64(at) if free < 0 else free


@part
def neighbour(cluster, attribute, table, masks, sizes, state):
    """The cluster with one attribute more or less; made where there is none."""
    used = state[CLUSTERS]
    copy_set(masks, used, masks, cluster)
    masks[used, attribute >> 6] ^= bit_of(attribute)
    at = place_of(table, masks, masks, used)
    if table[at] == 0:
        state[CLUSTERS] += 1
        table[at] = used + 1
        count = np.int64(0)
        for w in range(masks.shape[1]):
            count += ones(masks[used, w])
        sizes[used] = count
    return np.int64(table[at]) - 1


@part
def single_of(masks, cluster):
    """The attribute of a cluster of one."""
    for w in range(masks.shape[1]):
        if masks[cluster, w]:
            return 64 * w + ones((masks[cluster, w] & (~masks[cluster, w] + ONE)) - ONE)
    return np.int64(-1)


@part
def look_ahead(
    cells, cell_spaces, attributes, first, stop, table, numbers, spaces, clusters, counts,
    pair_keys, pair_counts, sizes, hashes, entries,
):  # fmt: skip
    """The hashes of the next cells, and a touch of what they will look at, for the memory to serve it together."""
    mask, pair_mask, seen = np.uint64(table.shape[0] - 1), np.uint64(pair_keys.shape[0] - 1), np.int64(0)
    for i in range(first, stop):
        hashes[i - first] = hash_value(cells[i], cell_spaces[i])
    for k in range(stop - first):
        entries[k] = table[hashes[k] & mask]
    for k in range(stop - first):
        value = np.int64(entries[k]) - 1
        if value >= 0:
            seen ^= numbers[value] ^ spaces[value]
            if counts.shape[0]:
                seen ^= counts[value]
                if sizes[clusters[value]] > 1:
                    place = mix(np.uint64((value << _SHIFT) | np.int64(attributes[first + k]))) & pair_mask
                    seen ^= pair_keys[place] ^ pair_counts[place]
    return seen


@kernel
def change_cells(
    cells, cell_spaces, attributes, amounts,
    value_table, numbers, spaces, clusters, counts,
    pair_keys, pair_counts,
    cluster_table, masks, sizes, members,
    moved, moved_from, state,
):  # fmt: skip
    """Adds amounts (negative: takes) of values to attributes, from state[AT] on. `members[cluster]` follows; moved[k]
    are the values that changed their cluster, one after the other, and moved_from[k] the cluster they had, unless there
    is no room for any. With only inserts nothing is counted: `counts` and the pairs stay as they are. Returns what
    needs more room, to be called again, or DONE. O(1) for each cell, expected."""
    hashes, entries = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.int32)
    first = stop = state[AT]
    while state[AT] < cells.shape[0]:
        i = state[AT]
        if i == stop:
            first, stop = i, min(i + AHEAD, cells.shape[0])
            state[SEEN] = look_ahead(
                cells, cell_spaces, attributes, first, stop, value_table, numbers, spaces, clusters, counts,
                pair_keys, pair_counts, sizes, hashes, entries,
            )  # fmt: skip
        if state[VALUES] + 1 >= numbers.shape[0]:
            return MORE_VALUES
        if state[PAIRS] + 2 >= (pair_keys.shape[0] * 5) // 8:
            return MORE_PAIRS
        if state[CLUSTERS] + 1 >= masks.shape[0]:
            return MORE_CLUSTERS
        at = value_place(value_table, numbers, spaces, cells[i], cell_spaces[i], hashes[i - first])
        if value_table[at] == 0:
            value = state[VALUES]
            numbers[value], spaces[value] = cells[i], cell_spaces[i]
            clusters[value] = 0
            state[VALUES] += 1
            value_table[at] = state[VALUES]
        value = np.int64(value_table[at]) - 1
        attribute, amount = np.int64(attributes[i]), amounts[i]
        before = np.int64(clusters[value])
        has = masks[before, attribute >> 6] & bit_of(attribute)
        state[AT] += 1
        if state[ONLY_INSERTS]:
            if has:
                continue
            after = neighbour(before, attribute, cluster_table, masks, sizes, state)
        elif has and sizes[before] == 1:
            counts[value] += amount
            if counts[value] != 0:
                continue
            after = np.int64(0)
        elif has:
            place = pair_place(pair_keys, (value << _SHIFT) | attribute)
            pair_counts[place] += amount
            if pair_counts[place] != 0:
                continue
            pair_keys[place] = GONE
            after = neighbour(before, attribute, cluster_table, masks, sizes, state)
            if sizes[after] == 1:  # the last one keeps its count by itself
                place = pair_place(pair_keys, (value << _SHIFT) | single_of(masks, after))
                counts[value] = pair_counts[place]
                pair_keys[place] = GONE
        else:
            after = neighbour(before, attribute, cluster_table, masks, sizes, state)
            if sizes[before] == 0:
                counts[value] = amount
            else:
                if sizes[before] == 1:
                    put(pair_keys, pair_counts, (value << _SHIFT) | single_of(masks, before), counts[value], state)
                put(pair_keys, pair_counts, (value << _SHIFT) | attribute, amount, state)
        if moved.shape[0]:
            moved[state[MOVES]], moved_from[state[MOVES]] = value, before
            state[MOVES] += 1
        members[before] -= 1
        members[after] += 1
        clusters[value] = after
    return DONE


@part
def put(keys, counts, key, count, state):
    place = pair_place(keys, key)
    if keys[place] == FREE:
        state[PAIRS] += 1
    keys[place], counts[place] = key, count


@kernel
def are_known(cells, cell_spaces, table, numbers, spaces, out):
    """out[i]: whether a value has been met. O(1) each, expected."""
    for i in range(cells.shape[0]):
        found = hash_value(cells[i], cell_spaces[i])
        out[i] = table[value_place(table, numbers, spaces, cells[i], cell_spaces[i], found)] != 0


@kernel
def list_cells(
    values, numbers, spaces, clusters, counts, pair_keys, pair_counts, masks, sizes, only_inserts,
    out_numbers, out_spaces, out_attributes, out_amounts,
):  # fmt: skip
    """The cells of some values, in their order. With only inserts each amount is one. Returns how many there are. O(1)
    each, expected."""
    used = 0
    for i in range(values.shape[0]):
        value = values[i]
        cluster = np.int64(clusters[value])
        for w in range(masks.shape[1]):
            rest = masks[cluster, w]
            while rest:
                attribute = 64 * w + lowest(rest)
                rest &= rest - ONE
                amount = np.int64(1)
                if not only_inserts:
                    if sizes[cluster] == 1:
                        amount = np.int64(counts[value])
                    else:
                        amount = np.int64(pair_counts[pair_place(pair_keys, (value << _SHIFT) | attribute)])
                out_numbers[used], out_spaces[used] = numbers[value], spaces[value]
                out_attributes[used], out_amounts[used] = attribute, amount
                used += 1
    return used


@kernel
def enter_values(table, numbers, spaces, used):
    """A table of the first `used` values, which are all different. O(1) each, expected."""
    mask = np.uint64(table.shape[0] - 1)
    for value in range(used):
        at = hash_value(numbers[value], spaces[value]) & mask
        while table[at] != 0:
            at = (at + ONE) & mask
        table[at] = value + 1


@kernel
def enter_pairs(keys, counts, new_keys, new_counts):
    """The live pairs in another table; returns how many there are."""
    used = 0
    for i in range(keys.shape[0]):
        if keys[i] >= 0:
            place = pair_place(new_keys, keys[i])
            new_keys[place], new_counts[place] = keys[i], counts[i]
            used += 1
    return used


@kernel
def count_moves(masks, before, after, attributes, missing, distinct):
    """missing[A, B] and distinct[A] after values have moved from cluster to cluster. O(attributes + the cluster's
    attributes) for each attribute that a value came to or left."""
    words = masks.shape[1]
    for k in range(before.shape[0]):
        old, new = before[k], after[k]
        for w in range(words):
            rest = masks[old, w] | masks[new, w]
            while rest:
                a = 64 * w + lowest(rest)
                rest &= rest - ONE
                was = masks[old, a >> 6] & bit_of(a)
                is_ = masks[new, a >> 6] & bit_of(a)
                distinct[a] += (1 if is_ else 0) - (1 if was else 0)
                for v in range(words):
                    outside = ~masks[new, v] if is_ else np.uint64(0)
                    outside_before = ~masks[old, v] if was else np.uint64(0)
                    more, less = outside & ~outside_before, outside_before & ~outside
                    while more:
                        b = 64 * v + lowest(more)
                        more &= more - ONE
                        if b < attributes:
                            missing[a, b] += 1
                    while less:
                        b = 64 * v + lowest(less)
                        less &= less - ONE
                        if b < attributes:
                            missing[a, b] -= 1
