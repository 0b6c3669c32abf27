"""The generator of attribute clusterings: for each value the attributes that have it, and how often.

A value that one attribute has keeps its count in its own record; the counts of the others are in a table of (value,
attribute). A cluster is a set of attributes; its record says how many values have exactly that set.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holdfast.kernels.compiled import inlined, kernel, part
from holdfast.kernels.handle import int16_1, int32_1, int64_1, uint64_2
from holdfast.kernels.hashing import mix
from holdfast.kernels.sets import AHEAD, ONE, bit_of, copy_set, lowest, members_of, ones, place_of

DONE, MORE_VALUES, MORE_PAIRS, MORE_CLUSTERS = 0, 1, 2, 3
# the places of `state`; SEEN only keeps reads ahead
AT, VALUES, PAIRS, CLUSTERS, MOVES, SEEN, ONLY_INSERTS = 0, 1, 2, 3, 4, 5, 6
FREE, GONE = np.int64(-1), np.int64(-2)  # keys of pairs
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.int64(16)


class GeneratorValues(NamedTuple):
    """Values by number, and their hash table."""

    table: Any  # int32: number of the value + 1
    numbers: Any  # int64[value]
    spaces: Any  # int16[value]
    clusters: Any  # int32[value]
    counts: Any  # int32[value]: of a value with one attribute


class PairCounts(NamedTuple):
    """A hash table of (value, attribute): how many cells there are, for values with several attributes."""

    keys: Any  # int64
    counts: Any  # int32


class Clusters(NamedTuple):
    """Sets of attributes by number, and their hash table."""

    table: Any  # int32: number of the cluster + 1
    masks: Any  # uint64[cluster, word]
    sizes: Any  # int64[cluster]: attributes
    members: Any  # int64[cluster]: values


# In kernels a generator is the address of the lines of these arrays (`handle.py`), in this order, and of its state.
_STATE = np.int64(11)


@inlined
def values_of(work):
    """The values of a generator."""
    table, numbers = int32_1(work, np.int64(0)), int64_1(work, np.int64(1))
    spaces, clusters = int16_1(work, np.int64(2)), int32_1(work, np.int64(3))
    return GeneratorValues(table, numbers, spaces, clusters, int32_1(work, np.int64(4)))


@inlined
def pairs_of(work):
    """The pair counts of a generator."""
    return PairCounts(int64_1(work, np.int64(5)), int32_1(work, np.int64(6)))


@inlined
def clusters_of(work):
    """The clusters of a generator."""
    table, masks = int32_1(work, np.int64(7)), uint64_2(work, np.int64(8))
    return Clusters(table, masks, int64_1(work, np.int64(9)), int64_1(work, np.int64(10)))


@part
def hash_value(number, space):
    """The hash of a value."""
    return mix(np.uint64(number) ^ (np.uint64(space) * _GOLDEN))


@inlined
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


@inlined
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


@inlined
def neighbour(cluster, attribute, clusters, state):
    """The cluster with one attribute more or less; made if there is none. O(words), expected."""
    masks, used = clusters.masks, state[CLUSTERS]
    copy_set(masks, used, masks, cluster)
    masks[used, attribute >> 6] ^= bit_of(attribute)
    at = place_of(clusters.table, masks, masks, used)
    if clusters.table[at] == 0:
        state[CLUSTERS] += 1
        clusters.table[at] = used + 1
        count = np.int64(0)
        for w in range(masks.shape[1]):
            count += ones(masks[used, w])
        clusters.sizes[used] = count
    return np.int64(clusters.table[at]) - 1


@part
def single_of(masks, cluster):
    """The attribute of a cluster of one."""
    for w in range(masks.shape[1]):
        if masks[cluster, w]:
            return 64 * w + lowest(masks[cluster, w])
    return np.int64(-1)


@inlined
def look_ahead(attributes, values, pairs, sizes, hashes, entries):
    """Touches what the next cells will read, so that memory serves these reads together. O(cells)."""
    mask, pair_mask, seen = np.uint64(values.table.shape[0] - 1), np.uint64(pairs.keys.shape[0] - 1), np.int64(0)
    for k in range(attributes.shape[0]):
        entries[k] = values.table[hashes[k] & mask]
    for k in range(attributes.shape[0]):
        value = np.int64(entries[k]) - 1
        if value >= 0:
            seen ^= values.numbers[value] ^ values.spaces[value]
            if values.counts.shape[0]:
                seen ^= values.counts[value]
                if sizes[values.clusters[value]] > 1:
                    place = mix(np.uint64((value << _SHIFT) | np.int64(attributes[k]))) & pair_mask
                    seen ^= pairs.keys[place] ^ pairs.counts[place]
    return seen


@inlined
def value_of(values, number, space, hashed, state):
    """The number of a value; a new one joins the empty cluster. O(1), expected."""
    at = value_place(values.table, values.numbers, values.spaces, number, space, hashed)
    if values.table[at] == 0:
        value = state[VALUES]
        values.numbers[value], values.spaces[value] = number, space
        values.clusters[value] = 0
        state[VALUES] += 1
        values.table[at] = state[VALUES]
    return np.int64(values.table[at]) - 1


@inlined
def add_amount(value, attribute, amount, values, pairs, clusters, state):
    """Adds an amount of a value to an attribute; returns the cluster that the value has then. O(1), expected."""
    before, counts = np.int64(values.clusters[value]), values.counts
    masks, sizes = clusters.masks, clusters.sizes
    has = masks[before, attribute >> 6] & bit_of(attribute)
    if state[ONLY_INSERTS]:
        return before if has else neighbour(before, attribute, clusters, state)
    if has and sizes[before] == 1:
        counts[value] += amount
        return before if counts[value] != 0 else np.int64(0)
    if has:
        place = pair_place(pairs.keys, (value << _SHIFT) | attribute)
        pairs.counts[place] += amount
        if pairs.counts[place] != 0:
            return before
        pairs.keys[place] = GONE
        after = neighbour(before, attribute, clusters, state)
        if sizes[after] == 1:  # the count of the last attribute moves to the value
            place = pair_place(pairs.keys, (value << _SHIFT) | single_of(masks, after))
            counts[value] = pairs.counts[place]
            pairs.keys[place] = GONE
        return after
    after = neighbour(before, attribute, clusters, state)
    if sizes[before] == 0:
        counts[value] = amount
    else:
        if sizes[before] == 1:
            put(pairs, (value << _SHIFT) | single_of(masks, before), counts[value], state)
        put(pairs, (value << _SHIFT) | attribute, amount, state)
    return after


@kernel
def change_cells(work, numbers, spaces, attributes, amounts, moved, moved_from):
    """Adds amounts (negative: takes) of values to attributes, from state[AT] on. clusters.members follow; moved[k] are
    the values that changed their cluster, one after the other, and moved_from[k] the cluster they had, unless these are
    empty. With only inserts nothing is counted: counts and pairs stay as they are. Returns DONE, or what needs more
    room: call again. O(1) for each cell, expected."""
    values, pairs, clusters, state = values_of(work), pairs_of(work), clusters_of(work), int64_1(work, _STATE)
    hashes, entries = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.int32)
    first = stop = state[AT]
    while state[AT] < numbers.shape[0]:
        i = state[AT]
        if i == stop:
            first, stop = i, min(i + AHEAD, numbers.shape[0])
            for k in range(first, stop):
                hashes[k - first] = hash_value(numbers[k], spaces[k])
            state[SEEN] = look_ahead(attributes[first:stop], values, pairs, clusters.sizes, hashes, entries)
        if state[VALUES] + 1 >= values.numbers.shape[0]:
            return MORE_VALUES
        if state[PAIRS] + 2 >= (pairs.keys.shape[0] * 5) // 8:
            return MORE_PAIRS
        if state[CLUSTERS] + 1 >= clusters.masks.shape[0]:
            return MORE_CLUSTERS
        state[AT] += 1
        value = value_of(values, numbers[i], spaces[i], hashes[i - first], state)
        before = np.int64(values.clusters[value])
        after = add_amount(value, np.int64(attributes[i]), amounts[i], values, pairs, clusters, state)
        if after == before:
            continue
        if moved.shape[0]:
            moved[state[MOVES]], moved_from[state[MOVES]] = value, before
            state[MOVES] += 1
        clusters.members[before] -= 1
        clusters.members[after] += 1
        values.clusters[value] = after
    return DONE


@inlined
def put(pairs, key, count, state):
    """Sets the count of a (value, attribute). O(1), expected."""
    place = pair_place(pairs.keys, key)
    if pairs.keys[place] == FREE:
        state[PAIRS] += 1
    pairs.keys[place], pairs.counts[place] = key, count


@kernel
def are_known(cells, cell_spaces, table, numbers, spaces, out):
    """out[i] = whether a value occurred before. O(1) each, expected."""
    for i in range(cells.shape[0]):
        found = hash_value(cells[i], cell_spaces[i])
        out[i] = table[value_place(table, numbers, spaces, cells[i], cell_spaces[i], found)] != 0


@kernel
def list_cells(work, chosen, only_inserts, out):
    """Writes the cells of some values, in their order; returns how many. With only inserts each amount is one. O(1) for
    each cell, expected."""
    values, pairs, clusters = values_of(work), pairs_of(work), clusters_of(work)
    used, members = 0, np.empty(64 * clusters.masks.shape[1], np.int64)
    for i in range(chosen.shape[0]):
        value = chosen[i]
        cluster = np.int64(values.clusters[value])
        for k in range(members_of(clusters.masks, cluster, members)):
            attribute, amount = members[k], np.int64(1)
            if not only_inserts:
                if clusters.sizes[cluster] == 1:
                    amount = np.int64(values.counts[value])
                else:
                    amount = np.int64(pairs.counts[pair_place(pairs.keys, (value << _SHIFT) | attribute)])
            out.numbers[used], out.spaces[used] = values.numbers[value], values.spaces[value]
            out.attributes[used], out.amounts[used] = attribute, amount
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
    """Copies the live pairs to another table; returns how many there are. O(1) each, expected."""
    used = 0
    for i in range(keys.shape[0]):
        if keys[i] >= 0:
            place = pair_place(new_keys, keys[i])
            new_keys[place], new_counts[place] = keys[i], counts[i]
            used += 1
    return used


@inlined
def add_bits(missing, a, word, bits, attributes, amount):
    """Adds an amount to missing[a, b] for each attribute b that is a bit of a word. O(bits)."""
    while bits:
        b = 64 * word + lowest(bits)
        bits &= bits - ONE
        if b < attributes:
            missing[a, b] += amount


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
                    add_bits(missing, a, v, more, attributes, 1)
                    add_bits(missing, a, v, less, attributes, -1)
