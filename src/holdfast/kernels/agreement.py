"""How the columns of a table stand to groups of rows that agree on other columns."""

from __future__ import annotations

from holdfast.kernels.compiled import kernel


@kernel
def right_sides(rows, ends, numbers, wanted, count, out):
    """out[i] = (fewest rows to remove so that each group agrees on column wanted[i], violating ordered pairs, the sum
    of squared class sizes over the group's size). `numbers[column, row]` are dense; `count` is zeroed, a place for each
    number, and is left so. O(rows of the groups x wanted columns)."""
    for k in range(wanted.shape[0]):
        column = wanted[k]
        removed, violating, share, begin = 0, 0, 0.0, 0
        for g in range(ends.shape[0]):
            end = ends[g]
            largest, squares = 0, 0
            for i in range(begin, end):
                number = numbers[column, rows[i]]
                squares += 2 * count[number] + 1
                count[number] += 1
                largest = max(largest, count[number])
            for i in range(begin, end):
                count[numbers[column, rows[i]]] = 0
            size = end - begin
            removed += size - largest
            violating += size * size - squares
            share += squares / size
            begin = end
        out[k, 0], out[k, 1], out[k, 2] = removed, violating, share


@kernel
def inversions(values, spare):
    """How many pairs i < j have values[i] > values[j]. Sorts `values`; `spare` is as large. O(n log n), merge sort."""
    count, width = 0, 1
    while width < values.shape[0]:
        for low in range(0, values.shape[0], 2 * width):
            middle, high = min(low + width, values.shape[0]), min(low + 2 * width, values.shape[0])
            i, j, at = low, middle, low
            while i < middle and j < high:
                if values[i] <= values[j]:
                    spare[at] = values[i]
                    i += 1
                else:
                    spare[at] = values[j]
                    j += 1
                    count += middle - i
                at += 1
            while i < middle:
                spare[at] = values[i]
                i += 1
                at += 1
            while j < high:
                spare[at] = values[j]
                j += 1
                at += 1
            values[low:high] = spare[low:high]
        width *= 2
    return count
