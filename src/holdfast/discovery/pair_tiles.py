"""Tiles of pairs of rows: how they are cut, and the pure function that an executor runs on one."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Array, Arrays
from holdfast.executors.executor import Block
from holdfast.kernels.agree import BYTES, EQUAL, HALVES, WORDS, PairRows, count_direct, count_hashed, count_single
from holdfast.kernels.grouping import number_few, number_values
from holdfast.kernels.handle import as_compiled
from holdfast.rules.masks import Masks, Numbers, full, pack
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.keys import table_for

MAX_DIRECT = 22  # bits of a set that is itself the index of its count: 16 MB of counts
PAIRS_PER_TILE = 1 << 26  # counts of a tile have 31 bits
_WORTH_BYTES, _WORTH_HALVES = 8, 200  # partners of a row from which on shorter numbers pay for making them


@dataclass(frozen=True)
class Compared:
    """Rows in the form that kernels compare.

    `kind[column]` says which array has the column: `codes`, or numbers of two bytes (`halves`) or of one (`small`) for
    columns of few values. `tests` are (left column, right column, operator). `known[row]`: the tests that the row can
    pass. `lifts[side, row]`: tests forced true by a null; with `xor`, only if exactly one side is null.
    """

    codes: Codes
    halves: npt.NDArray[np.uint16]
    small: npt.NDArray[np.uint8]
    kind: npt.NDArray[np.int64]
    tests: npt.NDArray[np.int64]
    known: Masks
    lifts: npt.NDArray[np.uint64]
    xor: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, codes: Codes, nulls: str, pairs: int) -> Compared:
        """Rows for agree-sets. Values get short numbers if there are enough pairs to pay for it. O(rows x columns)."""
        codes, few = as_compiled(codes), np.zeros(len(codes), np.bool_)
        small, partners = np.empty(codes.shape, np.uint8), pairs / max(1, codes.shape[1])
        if partners > _WORTH_BYTES:
            number_few(codes, small, few)
        kind = np.where(few, BYTES, WORDS)
        halves = np.empty(codes.shape if partners > _WORTH_HALVES else (0, 0), np.uint16)
        for c in np.flatnonzero(~few).tolist() if len(halves) else []:
            numbers = np.empty(codes.shape[1], np.int32)
            if number_values(codes[c], table_for(codes.shape[1]), numbers) <= 1 << 16:
                halves[c], kind[c] = numbers, HALVES
        columns, known = np.arange(len(codes)), known_columns(codes, nulls)
        tests = np.stack([columns, columns, np.full(len(codes), EQUAL)], axis=1)
        lifts = np.zeros((2, 0, known.shape[1]), np.uint64)
        return cls(codes, halves, small, kind, tests, known, lifts, np.zeros(1, np.bool_))

    @property
    def for_kernels(self) -> PairRows:
        """As kernels take them."""
        arrays = (self.codes, self.halves, self.small, self.kind, self.tests, self.known, self.lifts)
        return PairRows(*arrays, bool(self.xor[0]))

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Compared:
        return cls(*(as_compiled(np.asarray(arrays[field.name])) for field in fields(cls)))


def known_columns(codes: Codes, nulls: str) -> Masks:
    """For each row the columns in which it can agree with another row: all, or under `distinct` and `sql` those that
    are not null."""
    if nulls == "equal" or not (codes == NULL).any():
        return np.repeat(full(len(codes)), codes.shape[1], axis=0)
    return pack((codes != NULL).T)


def blocks(lead: int, rows: int, pairs: int, begin: int = 0) -> list[Block]:
    """Tiles of about `pairs` pairs each, which together have the pairs i < j < rows with begin <= i < lead."""
    across = max(1, min(rows, int(pairs**0.5)))
    down = max(1, pairs // across)
    tiles = []
    for first in range(begin, lead, down):
        stop = min(first + down, lead)
        for left in range(first, rows, across):
            right = min(left + across, rows)
            cost = float((stop - first) * (right - left))
            tiles.append(Block({"span": np.array([first, stop, left, right], np.int64)}, cost))
    return tiles


def agree_tile(block: Arrays, shared: Arrays) -> Arrays:
    """The sets of the pairs of a tile, their counts and, if asked for, one pair each. O(pairs x columns).

    Under `sql` an entry is two sets: the columns in which the pair agrees, and those in which it differs.
    """
    sql, witnessed = (bool(flag) for flag in np.asarray(shared["flags"]))
    rows = Compared.from_arrays(shared)
    span = np.array(block["span"], np.int64)
    columns = len(rows.tests)
    every = full(columns)
    if sql and (rows.known != every).any():
        return _hashed(rows, span, sql=True)
    pairs = (span[1] - span[0]) * (span[3] - span[2])
    if columns <= MAX_DIRECT and 4 * pairs >= 1 << columns:
        tally = _direct(rows, span, witnessed)
    else:
        tally = _hashed(rows, span, sql=False)
    if sql:
        agree = np.asarray(tally["sets"], np.uint64)
        tally["sets"] = np.hstack([agree, every & ~agree])
    return tally


def _direct(rows: Compared, span: Numbers, witnessed: bool) -> dict[str, Array]:
    """Counts sets of few bits: each set is the index of its count."""
    places = 1 << len(rows.tests)
    counts = np.zeros(places, np.int32)
    pairs = np.zeros((places if witnessed else 0, 2), np.int64)
    count_direct(rows.for_kernels, span, counts, pairs)
    sets = np.flatnonzero(counts)
    witnesses = pairs[sets] if witnessed else np.zeros((len(sets), 2), np.int64)
    return {"sets": sets.astype(np.uint64)[:, None], "counts": counts[sets].astype(np.int64), "pairs": witnesses}


def _hashed(rows: Compared, span: Numbers, *, sql: bool) -> dict[str, Array]:
    """Counts sets of any width in a hash table."""
    if not sql and rows.known.shape[1] == 1:
        sets, counts, pairs = count_single(rows.for_kernels, span)
    else:
        sets, counts, pairs = count_hashed(rows.for_kernels, span, sql)
    return {"sets": sets, "counts": counts, "pairs": pairs}
