"""The executor inside the process. It uses threads, because kernels release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.arrays import Arrays
from holdfast.executors.executor import (
    NOTHING,
    Block,
    Bucket,
    BucketStep,
    Cancellation,
    Progress,
    Tile,
    load,
    require_pure,
    touched_parts,
)

Result = TypeVar("Result")
_AHEAD = 4  # blocks submitted per thread: enough to keep it busy, few enough to cancel soon


@dataclass(frozen=True)
class ThreadExecutor:
    """Runs up to `workers` blocks at a time.

    `progress` is called with the share of the work that is done, from 0 to 1, never decreasing. A cancellation takes
    effect between blocks. Ctrl-C waits for the running blocks before it is raised.
    """

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    progress: Progress | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)

    @property
    def elsewhere(self) -> bool:
        return False

    def map(self, tile: Tile, blocks: Sequence[Block], shared: Arrays) -> list[Arrays]:
        require_pure(tile)
        return self._run([_on_block(tile, block, shared) for block in blocks], [block.cost for block in blocks])

    def update(
        self, step: BucketStep, buckets: Sequence[Bucket], delta: Arrays, shared: Arrays = NOTHING
    ) -> tuple[list[Bucket], list[Arrays]]:
        require_pure(step)
        touched, parts, costs = touched_parts(buckets, delta)
        results = self._run([_call(step, load(b), parts[b.number], shared) for b in touched], costs)
        after = {
            bucket.number: Bucket(bucket.number, arrays=new) for bucket, (new, _) in zip(touched, results, strict=True)
        }
        return [after.get(bucket.number, bucket) for bucket in buckets], [summary for _, summary in results]

    def forget(self, buckets: Sequence[Bucket]) -> None:
        """Nothing to do: arrays in memory are garbage-collected."""

    def _run(self, calls: list[Callable[[], Result]], costs: list[float]) -> list[Result]:
        """Runs the calls and returns their results in order. Few are submitted at a time, to allow fast cancelling."""
        results: dict[int, Result] = {}
        total, done = sum(costs) or 1.0, 0.0
        waiting = list(enumerate(calls))[::-1]
        running: dict[Future[Result], int] = {}
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                while waiting or running:
                    self.cancellation.check()
                    while waiting and len(running) < _AHEAD * self.workers:
                        position, call = waiting.pop()
                        running[pool.submit(call)] = position
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        position = running.pop(future)
                        results[position] = future.result()
                        done += costs[position]
                        self._report_progress(done / total)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [results[position] for position in range(len(calls))]

    def _report_progress(self, share: float) -> None:
        if self.progress is not None:
            self.progress(min(share, 1.0))


def _on_block(tile: Tile, block: Block, shared: Arrays) -> Callable[[], Arrays]:
    return lambda: tile(block.load(), shared)


def _call(function: Callable[..., Result], *arguments: Arrays) -> Callable[[], Result]:
    return lambda: function(*arguments)
