"""Rows grouped by equal values: stripped partitions, which leave out the rows that are alone.

A partition is `rows`, group behind group, and `ends`, where each group ends. Values are dense numbers from 0 on; a
negative number agrees with nothing.
"""

from __future__ import annotations

from holdfast.kernels.compiled import kernel


@kernel
def refine(rows, ends, numbers, count, out_rows, out_ends):
    """The groups of a partition by one more column; returns how many rows and groups are left. `count` is zeroed, a
    place for each number, and is left so. O(rows of the partition)."""
    filled, groups, begin = 0, 0, 0
    for g in range(ends.shape[0]):
        end = ends[g]
        for i in range(begin, end):
            number = numbers[rows[i]]
            if number >= 0:
                count[number] += 1
        for i in range(begin, end):  # the first row of each group of two or more lays it out
            number = numbers[rows[i]]
            if number >= 0 and count[number] > 0:
                size = count[number]
                if size > 1:
                    count[number] = -filled - 1
                    filled += size
                    out_ends[groups] = filled
                    groups += 1
                else:
                    count[number] = 0
            if number >= 0 and count[number] < 0:
                out_rows[-count[number] - 1] = rows[i]
                count[number] -= 1
        for i in range(begin, end):
            number = numbers[rows[i]]
            if number >= 0:
                count[number] = 0
        begin = end
    return filled, groups


@kernel
def find_clashes(rows, ends, numbers, nulls_differ, out):
    """Pairs of rows of a group that differ in a column, at most one for a group, as many as there is room for; returns
    how many. A negative number is null: it differs from nothing, or (`nulls_differ`) from everything.
    O(rows of the partition), less where there is room for few."""
    found, begin = 0, 0
    for g in range(ends.shape[0]):
        end, first = ends[g], -1
        for i in range(begin, end):
            number = numbers[rows[i]]
            if number < 0 and not nulls_differ:
                continue
            if first < 0:
                first = i
            elif number < 0 or numbers[rows[first]] < 0 or number != numbers[rows[first]]:
                out[found, 0], out[found, 1] = rows[first], rows[i]
                found += 1
                break
        if found == out.shape[0]:
            break
        begin = end
    return found


@kernel
def error_counts(rows, ends, numbers, nulls_differ, count):
    """(ordered pairs of a group that differ in a column, fewest rows to remove so that none do). `count` is zeroed, a
    place for each number, and is left so. O(rows of the partition)."""
    pairs, removed, begin = 0, 0, 0
    for g in range(ends.shape[0]):
        end = ends[g]
        nulls, largest, alike = 0, 0, 0
        for i in range(begin, end):
            number = numbers[rows[i]]
            if number < 0:
                nulls += 1
            else:
                alike += 2 * count[number]  # ordered pairs with the rows before that have the same value
                count[number] += 1
                largest = max(largest, count[number])
        for i in range(begin, end):
            if numbers[rows[i]] >= 0:
                count[numbers[rows[i]]] = 0
        size = end - begin
        if nulls_differ:
            pairs += size * (size - 1) - alike
            removed += size - max(largest, 1)
        else:
            valued = size - nulls
            pairs += valued * (valued - 1) - alike
            removed += valued - largest
        begin = end
    return pairs, removed
