"""The protocol of an executor: two verbs, pure functions, named arrays in and out.

A function that runs on an executor is a module-level function that captures nothing: it may run in another thread,
another process, or on another machine, and more than once.
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
Step = Callable[[Arrays, Arrays, Arrays], tuple[Arrays, Arrays]]
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
    """A piece of work: arrays, and what it costs in any unit (pairs, rows), by which progress is told.

    The arrays of the `buckets` come with its own, named `0/...`, `1/...`; a file is read where the work is done.
    """

    arrays: Arrays
    cost: float = 1.0
    buckets: tuple[Bucket, ...] = ()

    def load(self) -> Arrays:
        """All arrays of the block."""
        return {**self.arrays, **joined({str(i): load(bucket) for i, bucket in enumerate(self.buckets)})}


class Executor(Protocol):
    """Runs tiles over blocks and steps over buckets; the answer does not depend on which executor it is.

    `elsewhere`: whether the work leaves this process, so that it must be worth the way.
    """

    @property
    def elsewhere(self) -> bool: ...

    def map(self, tile: Tile, blocks: Sequence[Block], shared: Arrays) -> list[Arrays]:
        """tile(block, shared) for every block, in the order of the blocks; the caller merges."""
        ...

    def update(
        self, step: Step, buckets: Sequence[Bucket], delta: Arrays, shared: Arrays = NOTHING
    ) -> tuple[list[Bucket], list[Arrays]]:
        """step(bucket, its part of the delta, shared) for every bucket that the delta touches.

        The delta's array `bucket` says for each of its rows which bucket it belongs to. Returns all buckets, the
        untouched ones as they were, and the summaries of the touched ones in the order of the buckets.
        """
        ...

    def forget(self, buckets: Sequence[Bucket]) -> None:
        """Lets go of buckets that a newer state has replaced."""
        ...


class Cancelled(HoldfastError):
    """The work was cancelled; nothing of it counts."""


class Cancellation:
    """A switch that the user of an executor may flip from any thread."""

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
    """Refuses functions that could not run elsewhere: lambdas, closures, methods and inner functions.

    >>> require_pure(lambda block, shared: block)
    Traceback (most recent call last):
    holdfast.errors.HoldfastError: an executor runs module-level functions, which <lambda> is not
    """
    name = getattr(function, "__qualname__", repr(function))
    if "<" in name or "." in name or getattr(function, "__closure__", None):
        raise HoldfastError(f"an executor runs module-level functions, which {name} is not")


def parts_of(delta: Arrays) -> dict[int, dict[str, Array]]:
    """The rows of a delta by bucket, in the order in which they stand.

    >>> parts = parts_of({"bucket": np.array([1, 0, 1]), "x": np.array([7, 8, 9])})
    >>> {number: part["x"].tolist() for number, part in parts.items()}
    {0: [8], 1: [7, 9]}
    """
    numbers = np.asarray(delta[BUCKET])
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    rows_of = zip(found.tolist(), np.split(order, starts)[1:], strict=True)
    rest = {name: array for name, array in delta.items() if name != BUCKET}
    return {number: {name: array[rows] for name, array in rest.items()} for number, rows in rows_of}


def touched_parts(
    buckets: Sequence[Bucket], delta: Arrays
) -> tuple[list[Bucket], dict[int, dict[str, Array]], list[float]]:
    """The buckets that a delta touches, its part for each by number, and what each costs: its rows."""
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
