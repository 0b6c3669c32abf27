"""Sorted runs of cells: (value, attribute, amount) by the hash of the value, then the value, then the attribute.

A value is (number, space). What several runs say of a value and an attribute is summed.
"""

from __future__ import annotations

import numpy as np

from holdfast.kernels.compiled import inlined, kernel, part
from holdfast.kernels.generator import hash_value
from holdfast.kernels.sets import bit_of

_HALF = np.uint64(32)


@kernel
def hash_values(numbers, spaces, out):
    """out[i] = the hash of a value. O(values)."""
    for i in range(numbers.shape[0]):
        out[i] = hash_value(numbers[i], spaces[i])


@inlined
def copy_cell(out, at, cells, place, amount):
    """Writes a cell with another amount. Cells are (numbers, spaces, attributes, amounts)."""
    out[0][at], out[1][at], out[2][at], out[3][at] = cells[0][place], cells[1][place], cells[2][place], amount


@kernel
def sum_cells(order, cells, out):
    """Sums cells in an order in which equal ones are neighbours, without sums of zero. Returns how many. O(cells)."""
    numbers, spaces, attributes, amounts = cells
    used, at = 0, 0
    while at < order.shape[0]:
        i = order[at]
        total = np.int64(0)
        while at < order.shape[0]:
            k = order[at]
            if numbers[k] != numbers[i] or spaces[k] != spaces[i] or attributes[k] != attributes[i]:
                break
            total += amounts[k]
            at += 1
        if total != 0:
            copy_cell(out, used, cells, i, total)
            used += 1
    return used


@part
def before(hash_a, number_a, attribute_a, hash_b, number_b, attribute_b):
    """Whether a cell comes before another: -1, 0 or 1. The same hash and number have the same space."""
    if hash_a != hash_b:
        return -1 if hash_a < hash_b else 1
    if number_a != number_b:
        return -1 if number_a < number_b else 1
    if attribute_a != attribute_b:
        return -1 if attribute_a < attribute_b else 1
    return 0


@kernel
def merge_runs(run_a, run_b, out):
    """Merges two runs into one, without sums of zero. Returns how many cells it has. O(cells)."""
    numbers_a, spaces_a, attributes_a, amounts_a = run_a
    numbers_b, spaces_b, attributes_b, amounts_b = run_b
    a, b, used = 0, 0, 0
    size_a, size_b = numbers_a.shape[0], numbers_b.shape[0]
    hash_a = hash_value(numbers_a[0], spaces_a[0]) if size_a else np.uint64(0)
    hash_b = hash_value(numbers_b[0], spaces_b[0]) if size_b else np.uint64(0)
    while a < size_a or b < size_b:
        if b == size_b:
            side = -1
        elif a == size_a:
            side = 1
        else:
            side = before(hash_a, numbers_a[a], attributes_a[a], hash_b, numbers_b[b], attributes_b[b])
        amount = np.int64(0)
        if side <= 0:
            amount += amounts_a[a]
            copy_cell(out, used, run_a, a, amount)
            a += 1
            if a < size_a:
                hash_a = hash_value(numbers_a[a], spaces_a[a])
        if side >= 0:
            amount += amounts_b[b]
            copy_cell(out, used, run_b, b, amount)
            b += 1
            if b < size_b:
                hash_b = hash_value(numbers_b[b], spaces_b[b])
        used += 1 if amount != 0 else 0
    return used


@part
def first_from(numbers, spaces, wanted, low):
    """The first place from `low` on whose hash is `wanted` or more. Hashes are spread evenly, so a guess is near: from
    there in growing steps, then by halves."""
    size = numbers.shape[0]
    if low >= size or hash_value(numbers[low], spaces[low]) >= wanted:
        return low
    guess = np.int64(((wanted >> _HALF) * np.uint64(size)) >> _HALF)
    guess = min(max(guess, low), size - 1)
    step = np.int64(16)
    if hash_value(numbers[guess], spaces[guess]) < wanted:
        low, high = guess, guess + step
        while high < size and hash_value(numbers[high], spaces[high]) < wanted:
            low = high
            step *= 2
            high += step
        high = min(high, size)
    else:
        high = guess
        while high - step > low and hash_value(numbers[high - step], spaces[high - step]) >= wanted:
            high -= step
            step *= 2
        low = max(low, high - step)
    while high - low > 1:  # low is before, high is not
        middle = (low + high) // 2
        if hash_value(numbers[middle], spaces[middle]) < wanted:
            low = middle
        else:
            high = middle
    return high


@kernel
def place_in_run(numbers, spaces, wanted):
    """The first place of a run whose hash is `wanted` or more. O(log cells)."""
    return first_from(numbers, spaces, wanted, np.int64(0))


@kernel
def find_values(numbers, spaces, wanted_numbers, wanted_spaces, starts, stops):
    """Where a run has the cells of each wanted value, which come by hash: from starts[k] up to stops[k]. O(log cells)
    each."""
    place = np.int64(0)
    for k in range(wanted_numbers.shape[0]):
        number, space = wanted_numbers[k], wanted_spaces[k]
        wanted = hash_value(number, space)
        place = first_from(numbers, spaces, wanted, place)
        at = place
        while at < numbers.shape[0] and (numbers[at] != number or spaces[at] != space):
            if hash_value(numbers[at], spaces[at]) != wanted:
                break
            at += 1
        starts[k] = at
        while at < numbers.shape[0] and numbers[at] == number and spaces[at] == space:
            at += 1
        stops[k] = at


@kernel
def value_masks(numbers, spaces, attributes, amounts, masks, firsts):
    """The attributes of each value of a run: masks[v, word], and the place of its first cell. Returns how many values
    there are; a value without a positive amount is none. O(cells)."""
    used, at = 0, 0
    while at < numbers.shape[0]:
        first = at
        for w in range(masks.shape[1]):
            masks[used, w] = 0
        found = False
        while at < numbers.shape[0] and numbers[at] == numbers[first] and spaces[at] == spaces[first]:
            if amounts[at] > 0:
                masks[used, attributes[at] >> 6] |= bit_of(np.int64(attributes[at]))
                found = True
            at += 1
        if found:
            firsts[used] = first
            used += 1
    return used
