"""The protocol of an executor: it maps functions over blocks and updates buckets. Named arrays go in and come out.

An executor runs module-level functions that capture nothing. They may run in another thread, in another process or on
another machine, and more than once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from holdfast.arrays import Array, Arrays, from_buffer, joined, map_file
from holdfast.errors import HoldfastError

Tile = Callable[[Arrays, Arrays], Arrays]
BucketStep = Callable[[Arrays, Arrays, Arrays], tuple[Arrays, Arrays]]
Progress = Callable[[float], None]

BUCKET = "bucket"
NOTHING: Arrays = {}


@dataclass(frozen=True)
class Bucket:
    """A part of a state: an immutable file, or arrays in memory. Both None: an empty bucket."""

    number: int
    file: Path | None = None
    arrays: Arrays | None = None


@dataclass(frozen=True)
class Block:
    """A piece of work: arrays, and its cost in any unit (pairs, rows), which weighs it in balancing and progress.

    The arrays of its `buckets` are added under the names `0/...`, `1/...`. The task reads the files of buckets.
    """

    arrays: Arrays
    cost: float = 1.0
    buckets: tuple[Bucket, ...] = ()

    def load(self) -> Arrays:
        """All arrays of the block."""
        return {**self.arrays, **joined({str(i): load(bucket) for i, bucket in enumerate(self.buckets)})}


class Executor(Protocol):
    """Runs tiles on blocks and steps on buckets. All executors return the same results.

    `elsewhere`: the work leaves this process, so it must be large enough to pay for the round trip.
    """

    @property
    def elsewhere(self) -> bool: ...

    def map(self, tile: Tile, blocks: Sequence[Block], shared: Arrays) -> list[Arrays]:
        """Runs tile(block, shared) for every block. Returns the results in the order of the blocks."""
        ...

    def update(
        self, step: BucketStep, buckets: Sequence[Bucket], delta: Arrays, shared: Arrays = NOTHING
    ) -> tuple[list[Bucket], list[Arrays]]:
        """Runs step(bucket, its part of the delta, shared) for every bucket that the delta touches.

        The array `bucket` of the delta holds the bucket number of each of its rows. Returns all buckets, including
        untouched ones, and the summaries of the touched ones in the order of the buckets.
        """
        ...

    def forget(self, buckets: Sequence[Bucket]) -> None:
        """Frees buckets that a newer state has replaced."""
        ...


class Cancelled(HoldfastError):
    """The work was cancelled. Its partial results are discarded."""


class Cancellation:
    """A flag that any thread can set to cancel the work of an executor."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        if self.cancelled:
            raise Cancelled("cancelled")


def require_pure(function: Callable[..., object]) -> None:
    """Refuses functions that could not run on another machine: lambdas, closures, methods and inner functions.

    >>> require_pure(lambda block, shared: block)
    Traceback (most recent call last):
    holdfast.errors.HoldfastError: an executor runs module-level functions, which <lambda> is not
    """
    name = getattr(function, "__qualname__", repr(function))
    if "<" in name or "." in name or getattr(function, "__closure__", None):
        raise HoldfastError(f"an executor runs module-level functions, which {name} is not")


def parts_of(delta: Arrays) -> dict[int, dict[str, Array]]:
    """Splits the rows of a delta by bucket. Rows of a bucket keep their order.

    >>> parts = parts_of({"bucket": np.array([1, 0, 1]), "x": np.array([7, 8, 9])})
    >>> {number: part["x"].tolist() for number, part in parts.items()}
    {0: [8], 1: [7, 9]}
    """
    numbers = np.asarray(delta[BUCKET])
    order = np.argsort(numbers, kind="stable")
    buckets, starts = np.unique(numbers[order], return_index=True)
    rows_by_bucket = zip(buckets.tolist(), np.split(order, starts)[1:], strict=True)
    columns = {name: array for name, array in delta.items() if name != BUCKET}
    return {number: {name: array[rows] for name, array in columns.items()} for number, rows in rows_by_bucket}


def touched_parts(
    buckets: Sequence[Bucket], delta: Arrays
) -> tuple[list[Bucket], dict[int, dict[str, Array]], list[float]]:
    """The buckets that a delta touches, the part of each by number, and its cost: the number of its rows."""
    parts = parts_of(delta)
    unknown = sorted(set(parts) - {bucket.number for bucket in buckets})
    if unknown:
        raise IndexError(f"the delta is for bucket {unknown[0]}, which is not among the buckets")
    touched = [bucket for bucket in buckets if bucket.number in parts]
    return touched, parts, [float(max((len(a) for a in parts[b.number].values()), default=1)) for b in touched]


def load(bucket: Bucket) -> Arrays:
    """The arrays of a bucket."""
    if bucket.file is not None:
        return from_buffer(map_file(bucket.file))
    return bucket.arrays or {}
