"""A generator in buckets on an executor, for more values than one process should keep. The hash decides the bucket.

The state of a bucket is a sorted run. A change reads only the values that it names, and merges their cells.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.arrays import Array, Arrays
from holdfast.discovery.ind.cells import Cells, Moves, Values, merged
from holdfast.discovery.ind.generator import Generator
from holdfast.discovery.ind.runs import Runs
from holdfast.executors.executor import BUCKET, Block, Bucket, Executor, load
from holdfast.rules.masks import numbered

BUCKETS = 16


class SpreadGenerator:
    """A `ValueStore` in buckets. A change costs one job."""

    def __init__(self, executor: Executor, attributes: int, buckets: int = BUCKETS) -> None:
        self._executor, self._attributes = executor, attributes
        self._buckets = [Bucket(number) for number in range(buckets)]

    @property
    def nbytes(self) -> int:
        return sum(int(a.nbytes) for bucket in self._buckets for a in (bucket.arrays or {}).values())

    def change(self, cells: Cells) -> Moves:
        """Adds and removes cells, in each bucket that has a value of them."""
        bits = np.uint64(64 - (len(self._buckets) - 1).bit_length())
        delta = {**cells.to_arrays(), BUCKET: (cells.values.hashes() >> bits).astype(np.int64)}
        shared = {"attributes": np.array([self._attributes])}
        before = self._buckets
        self._buckets, summaries = self._executor.update(change_bucket, before, delta, shared)
        self._executor.forget([old for old, new in zip(before, self._buckets, strict=True) if old is not new])
        return Moves.joined([_moves(summary) for summary in summaries], self._attributes)

    def ranges(self) -> Iterator[Cells]:
        """All cells as consecutive runs, by the hash of the value."""
        return (Cells.from_arrays(load(bucket)) for bucket in self._buckets)

    def lacking(self, left: int, right: int, most: int) -> Values:
        """The first values that `left` has and `right` lacks."""
        asked = {"asked": np.array([left, right, most, self._attributes])}
        found = self._executor.map(lacking_tile, [Block({}, buckets=(bucket,)) for bucket in self._buckets], asked)
        return Values.joined([Values.from_arrays(part) for part in found]).first(most)

    def __str__(self) -> str:
        return f"values in {len(self._buckets)} buckets on executors"


def change_bucket(state: Arrays, delta: Arrays, shared: Arrays) -> tuple[Arrays, Arrays]:
    """Merges the cells of a change into a bucket. Returns the new state, and the values that changed their cluster.
    O(cells of the change x log cells), and a copy of the bucket."""
    before, cells = Cells.from_arrays(state), Cells.from_arrays(delta)
    generator = Generator(int(shared["attributes"][0]))
    generator.load(Runs([state] if state else []).find(cells.values.distinct()))
    moves = generator.change(cells)
    masks, numbers = numbered(moves.masks[np.concatenate([moves.before, moves.after])])
    told: dict[str, Array] = {**moves.values._asdict(), "sides": numbers.reshape(2, -1), "masks": masks}
    return merged([before, cells.summed()]).to_arrays(), told


def lacking_tile(block: Arrays, shared: Arrays) -> Arrays:
    """The first values of a bucket that one attribute has and another lacks."""
    left, right, most, attributes = (int(x) for x in shared["asked"])
    state = {name.removeprefix("0/"): array for name, array in block.items()}
    return Cells.from_arrays(state).lacking(left, right, attributes).first(most)._asdict()


def _moves(summary: Arrays) -> Moves:
    before, after = np.asarray(summary["sides"], np.int64)
    return Moves(Values.from_arrays(summary), before, after, np.asarray(summary["masks"], np.uint64))
