"""Builds columns from numbers, for both generators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]

_SYLLABLES = [
    "ba",
    "be",
    "bo",
    "da",
    "di",
    "do",
    "ga",
    "ka",
    "ki",
    "la",
    "le",
    "lo",
    "ma",
    "mi",
    "mo",
    "na",
    "ne",
    "no",
    "ra",
    "re",
    "ri",
    "ro",
    "sa",
    "se",
    "so",
    "ta",
    "te",
    "to",
    "va",
    "vi",
]


def noise(seed: int, salt: int, numbers: Numbers) -> npt.NDArray[np.uint64]:
    """A hash (splitmix64) of each number, with seed and salt."""
    word = (numbers.astype(np.uint64) + np.uint64(seed * 1_000_003 + salt)) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(word ^ (word >> np.uint64(31)))


def pick(seed: int, salt: int, numbers: Numbers, below: int) -> Numbers:
    """A pseudo-random number in [0, below) for each number."""
    return np.asarray((noise(seed, salt, numbers) % np.uint64(below)).astype(np.int64))


def chosen(words: Sequence[str], at: Numbers) -> pa.Array:
    """words[at], as Arrow strings."""
    return pa.array(words, pa.string()).take(pa.array(at))


def made_up(count: int, salt: int) -> list[str]:
    """Distinct pronounceable names.

    >>> made_up(3, 0)
    ['Baba', 'Beba', 'Boba']
    """
    base = len(_SYLLABLES)
    names = []
    for i in range(count):
        parts: list[str] = []
        rest = i
        while rest or len(parts) < 2:
            parts.append(_SYLLABLES[(rest + salt) % base])
            rest //= base
        names.append("".join(parts).capitalize())
    return names


def cents(values: Numbers, scale: int = 2) -> pa.Array:
    """Integers as decimals with this scale: 1250 is 12.50."""
    halves = np.stack([values, values >> 63], axis=1)
    return pa.Array.from_buffers(
        pa.decimal128(18, scale), len(values), [None, pa.py_buffer(np.ascontiguousarray(halves))]
    )


def replaced(table: pa.Table, **columns: pa.Array) -> pa.Table:
    """The table with these columns replaced."""
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(
            at, table.schema.field(at), pa.chunked_array([values]).cast(table.schema.field(at).type)
        )
    return table
