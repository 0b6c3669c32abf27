"""The columns of one table as numbers, and what a left side says about the other columns."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from holdfast.arrays import Flags, Floats
from holdfast.discovery.witness.partitions import Partition, Partitions
from holdfast.kernels.agreement import right_sides
from holdfast.rules.masks import Numbers
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.kind import Kind
from holdfast.table.schema import Schema

MAX_SEARCHED_ROWS = 50_000  # in which rules are searched, evenly spread; what is found is measured on all rows
_SEARCHED_CELLS, _LEAST_SEARCHED_ROWS = 2_000_000, 5_000  # of wide tables fewer rows are searched
_SAMPLED_PAIRS = 50_000
_MEASURED_VALUES = 50  # a column of fractions with more values is a measurement, and identifies nothing


@dataclass(frozen=True)
class Determinant:
    """What rows that agree on some columns say about other columns. Rows with a null in these columns are left out.

    `rows`: how many there are; `shared`: of those, how many agree with another row; `groups`: in how many groups, the
    `largest` of so many rows; `kinds`: how many different values there are. For each column: `removed`, the share of
    rows that must be removed so that it is determined; `violating`, the ordered pairs of rows that agree on the left
    and differ in it; `strength`, how much better the left side predicts it than chance does, at most 1: the measure mu+
    of Parciak et al. ("Measuring approximate functional dependencies: a comparative study", ICDE 2024); `alike`, the
    share of pairs of rows that agree on it.
    """

    columns: tuple[int, ...]
    rows: int
    shared: int
    groups: int
    largest: int
    kinds: int
    agreeing: float  # ordered pairs of different rows that agree on the left
    removed: Floats
    violating: Floats
    strength: Floats
    alike: Floats

    @property
    def share_of_kinds(self) -> float:
        """1 if all rows differ on the left side."""
        return self.kinds / max(1, self.rows)


class TableView:
    """One table. If it is tall, rules are searched in a sample of its rows.

    >>> view = TableView(Schema.of(zip="text", city="text"), np.array([[1, 1, 2, 2], [5, 5, 6, 7]]), "equal")
    >>> view.left_side([0]).removed.tolist(), view.left_side([1]).removed.tolist()
    ([0.0, 0.25], [0.0, 0.0])
    """

    def __init__(self, schema: Schema, codes: Codes, nulls: str) -> None:
        self.schema, self.nulls, self.rows, self.all_codes = schema, nulls, codes.shape[1], codes
        most = max(_LEAST_SEARCHED_ROWS, _SEARCHED_CELLS // max(1, len(schema)))
        count = min(self.rows, most, MAX_SEARCHED_ROWS)
        chosen = np.unique(np.linspace(0, max(self.rows - 1, 0), count).astype(np.int64))
        self.codes = codes if len(chosen) == self.rows else np.ascontiguousarray(codes[:, chosen])
        self.searched = self.codes.shape[1]
        self._partitions = Partitions.of_codes(self.codes, "sql")
        self._whole = Partitions.of_codes(self.codes, "equal")
        self._places = np.zeros(int(self._whole.distinct.max(initial=0)) + 1, np.int64)
        self.empty: Flags = self.codes == NULL
        self._numbered: dict[int, tuple[npt.NDArray[np.int32], int]] = {}  # of all rows

    def __len__(self) -> int:
        return len(self.schema)

    @cached_property
    def filled(self) -> Floats:
        """The share of rows that have a value, for each column."""
        return 1.0 - self.empty.mean(axis=1) if self.searched else np.zeros(len(self))

    @property
    def distinct(self) -> Numbers:
        """How many different values each column has; null is one."""
        return self._whole.distinct

    def is_measurement(self, column: int) -> bool:
        """Whether a column has many fractions, as lengths and rates do."""
        is_fraction = self.schema.columns[column].kind in (Kind.FLOAT, Kind.DECIMAL)
        return is_fraction and int(self.distinct[column]) > _MEASURED_VALUES

    def has_empty(self, column: int) -> bool:
        """Whether some row has no value. O(rows)."""
        return bool(self.filled[column] < 1 or (self.all_codes[column] == NULL).any())

    def is_copy(self, column: int) -> bool:
        """Whether an earlier column of the same type has the same values in all rows."""
        return self._first_copies[column] != column

    @cached_property
    def _first_copies(self) -> list[int]:
        """For each column the first one with the same type and values."""
        first: dict[tuple[str, bytes], int] = {}
        contents = (hashlib.sha256(np.ascontiguousarray(codes).tobytes()).digest() for codes in self.codes)
        types = (column.type_text for column in self.schema.columns)
        return [first.setdefault(like, place) for place, like in enumerate(zip(types, contents, strict=True))]

    def name(self, column: int) -> str:
        return self.schema.columns[column].name

    def partition(self, columns: Sequence[int]) -> Partition:
        """The searched rows grouped by these columns, without rows that have a null there."""
        return self._partitions.of(columns)

    def _alike(self, columns: Sequence[int], wanted: Numbers) -> Floats:
        """The share of pairs that agree on each wanted column, among the rows without a null in `columns`."""
        if all(self.filled[c] == 1 for c in columns):
            return self._alike_in_all[wanted]
        rows = ~self.empty[list(columns)].any(axis=0)
        return np.array([_share_alike(self._whole.numbers[column][rows]) for column in wanted])

    @cached_property
    def _alike_in_all(self) -> Floats:
        return np.array([_share_alike(numbers) for numbers in self._whole.numbers])

    def left_side(
        self, columns: Sequence[int], rights: Sequence[int] | None = None, most_removed: float = 1.0
    ) -> Determinant:
        """What a left side says about other columns (`rights`; None: all). `strength` and `alike` are NaN for columns
        with a larger share of removed rows. O(rows that agree x right sides)."""
        partition = self.partition(columns)
        wanted = np.arange(len(self)) if rights is None else np.array(rights, np.int64)
        counts = np.zeros((len(wanted), 3))
        right_sides(partition.rows, partition.ends, self._whole.numbers, wanted, self._places, counts)
        rows = int((~self.empty[list(columns)].any(axis=0)).sum())
        removed = counts[:, 0] / max(1, rows)
        shared, groups = len(partition.rows), len(partition.ends)
        kinds = groups + rows - shared
        asked = np.flatnonzero(removed <= most_removed)
        alike = self._alike(columns, wanted[asked])
        with np.errstate(divide="ignore", invalid="ignore"):
            missed = (1 - (counts[asked, 2] + rows - shared) / max(1, rows)) / (1 - alike)
            strength = 1 - missed * (rows - 1) / (rows - kinds)
        strength = np.where(np.isfinite(strength), strength, 0.0)
        sizes = np.diff(partition.ends, prepend=0).astype(float)
        return Determinant(
            tuple(columns), rows, shared, groups, int(sizes.max(initial=0)), kinds,
            float((sizes * (sizes - 1)).sum()), self._spread(wanted, removed), self._spread(wanted, counts[:, 1]),
            self._spread(wanted[asked], strength), self._spread(wanted[asked], alike),
        )  # fmt: skip

    def _spread(self, wanted: Numbers, values: Floats) -> Floats:
        """The values by column; NaN for columns that were not asked."""
        spread = np.full(len(self), np.nan)
        spread[wanted] = values
        return spread

    def error(self, left: Sequence[int], right: int | None) -> float:
        """g3 of `left -> right`, or of the key `left`, on all rows under the null policy. O(rows)."""
        columns = [*left, *([] if right is None else [right])]
        numbers = np.stack([self._all_numbers(column)[0] for column in columns])
        distinct = np.array([self._all_numbers(column)[1] for column in columns], np.int64)
        partitions = Partitions(numbers, distinct, self.nulls)
        _, removed = partitions.errors(range(len(left)), None if right is None else len(left))
        return float(removed / max(1, self.rows))

    def _all_numbers(self, column: int) -> tuple[npt.NDArray[np.int32], int]:
        """The values of a column in all rows as numbers, and how many there are."""
        if column not in self._numbered:
            one = Partitions.of_codes(self.all_codes[[column]], self.nulls)
            self._numbered[column] = one.numbers[0], int(one.distinct[0])
        return self._numbered[column]

    @cached_property
    def pairs(self) -> tuple[Numbers, Numbers]:
        """Random pairs of different rows, with a fixed seed."""
        random = np.random.default_rng(0)
        t = random.integers(0, max(self.searched, 1), _SAMPLED_PAIRS)
        s = random.integers(0, max(self.searched - 1, 1), _SAMPLED_PAIRS)
        return t, s + (s >= t)


def _share_alike(numbers: npt.NDArray[np.int32]) -> float:
    """The share of pairs of rows, each with itself too, that have the same number."""
    counts = np.bincount(numbers).astype(float)
    return float(np.square(counts).sum() / max(1, len(numbers) ** 2))
