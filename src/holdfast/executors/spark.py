"""The executor on Spark. Tasks read their blocks from shared storage, run the function, and write the results back.

Only numbers and file names pass through Spark. It works with Spark Classic and Spark Connect: no RDDs, no JVM access,
no state in closures. The shared directory must have the same path on the driver and on every worker.
"""

from __future__ import annotations

import functools
import heapq
import importlib
import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

from holdfast.arrays import Arrays, from_buffer, joined, map_file, split, to_buffer
from holdfast.executors.executor import (
    NOTHING,
    Block,
    Bucket,
    BucketStep,
    Cancellation,
    Cancelled,
    Progress,
    Tile,
    load,
    require_pure,
    touched_parts,
)

_TILES_PER_CORE = 4  # more tasks than cores, so that cores do not idle while the longest task runs
_STEPS_PER_CORE = 1  # steps are short, and updates of several states run concurrently
_RESULT = "number long, file string"
_BUCKETS = "buckets"
_CANCELLED = "cancelled"
_SHARED, _BLOCKS, _PARTS, _OLD, _PLAN = "shared.arrow", "blocks.arrow", "parts.arrow", "old.arrow", "plan.json"


@dataclass(frozen=True)
class SparkExecutor:
    """Runs blocks as Spark tasks. `tasks` is the number of tasks, among which the work is balanced by cost."""

    spark: SparkSession
    directory: Path
    tasks: int | None = None
    progress: Progress | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)

    @property
    def elsewhere(self) -> bool:
        return True

    def map(self, tile: Tile, blocks: Sequence[Block], shared: Arrays) -> list[Arrays]:
        require_pure(tile)
        if not blocks:
            return []
        with self._job() as job:
            _put(job / _SHARED, shared)
            _put(job / _BLOCKS, joined({str(i): _arrays_without_file(block) for i, block in enumerate(blocks)}))
            (job / _PLAN).write_text(json.dumps([[_file(b) for b in block.buckets] for block in blocks]))
            files = self._run(job, _map_task, tile, [block.cost for block in blocks], _TILES_PER_CORE)
            return [_read(job / file) for file in files]

    def update(
        self, step: BucketStep, buckets: Sequence[Bucket], delta: Arrays, shared: Arrays = NOTHING
    ) -> tuple[list[Bucket], list[Arrays]]:
        require_pure(step)
        touched, parts, costs = touched_parts(buckets, delta)
        if not touched:
            return list(buckets), []
        home = self.directory / _BUCKETS
        home.mkdir(parents=True, exist_ok=True)
        with self._job() as job:
            _put(job / _SHARED, shared)
            _put(job / _PARTS, joined({str(b.number): parts[b.number] for b in touched}))
            _put(job / _OLD, joined({str(b.number): b.arrays or {} for b in touched}))
            old_files = {str(b.number): str(b.file) for b in touched if b.file is not None}
            (job / _PLAN).write_text(json.dumps({"numbers": [b.number for b in touched], "files": old_files}))
            summary_files = self._run(job, _update_task, step, costs, _STEPS_PER_CORE)
            summaries: list[Arrays] = [split(_read(job / file)).get("summary", {}) for file in summary_files]
            after = {}
            for bucket, summary_file in zip(touched, summary_files, strict=True):
                file = home / f"{bucket.number}-{secrets.token_hex(4)}.arrow"
                (job / summary_file.replace("out-", "state-")).rename(file)
                after[bucket.number] = Bucket(bucket.number, file=file)
        return [after.get(b.number, b) for b in buckets], summaries

    def forget(self, buckets: Sequence[Bucket]) -> None:
        """Removes the files of these buckets."""
        for bucket in buckets:
            if bucket.file is not None:
                bucket.file.unlink(missing_ok=True)

    @contextmanager
    def _job(self) -> Iterator[Path]:
        """A temporary directory for one job."""
        job = self.directory / f"job-{secrets.token_hex(6)}"
        job.mkdir(parents=True)
        try:
            yield job
        finally:
            shutil.rmtree(job, ignore_errors=True)

    def _run(
        self, job: Path, task: Callable[..., Any], function: Callable[..., Any], costs: list[float], per_core: int
    ) -> list[str]:
        """Runs `task` for all pieces of work. Returns their result files, in order.

        The pieces are divided among tasks so that each task costs about the same.
        """
        shares = shared_out(costs, self.tasks or per_core * parallelism(self.spark))
        (job / "shares.json").write_text(json.dumps(shares))
        name = f"{function.__module__}:{function.__qualname__}"
        numbers = self.spark.range(0, len(shares), 1, len(shares))
        frame = numbers.mapInArrow(functools.partial(task, str(job), name), _RESULT)
        table = self._collect(frame, job, len(costs))
        files = dict(zip(table.column("number").to_pylist(), table.column("file").to_pylist(), strict=True))
        return [files[number] for number in range(len(costs))]

    def _collect(self, frame: DataFrame, job: Path, count: int) -> pa.Table:
        """Collects a small frame and reports progress meanwhile.

        Cancelling takes effect between blocks: tasks look for a file. (Spark's own job tags work only in the thread
        that set them.)
        """
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(frame.toArrow)
            try:
                while True:
                    try:
                        table = future.result(timeout=0.2)
                    except TimeoutError:
                        self.cancellation.check()
                        self._report_progress(len({p.name.split("-")[1] for p in job.glob("out-*")}) / count)
                    else:
                        self._report_progress(1.0)
                        return table
            except BaseException:
                (job / _CANCELLED).touch()
                raise

    def _report_progress(self, share: float) -> None:
        if self.progress is not None:
            self.progress(min(share, 1.0))


def quoted(name: str) -> str:
    """A column name, quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"


def numbered(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Renames these columns to c0, c1, ...: mapInArrow does not accept every name."""
    return frame.select(*(frame[quoted(name)].alias(f"c{i}") for i, name in enumerate(names)))


@functools.lru_cache(maxsize=8)
def parallelism(spark: SparkSession) -> int:
    """The number of tasks that run at a time: the default number of partitions of a range."""
    return int(spark.range(4096).select(spark_partition_id().alias("p")).distinct().count())


def shared_out(costs: Sequence[float], tasks: int) -> list[list[int]]:
    """Divides pieces of work among tasks: the most expensive first, each to the task with the lowest cost so far.

    >>> shared_out([5, 1, 1, 3], 2)
    [[0], [3, 1, 2]]
    """
    shares: list[list[int]] = [[] for _ in range(min(tasks, len(costs)))]
    heap = [(0.0, task) for task in range(len(shares))]
    for number in sorted(range(len(costs)), key=lambda i: -costs[i]):
        cost, task = heapq.heappop(heap)
        shares[task].append(number)
        heapq.heappush(heap, (cost + costs[number], task))
    return shares


# --- these functions run in the tasks -----------------------------------------------------------------------


def _map_task(job: str, name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs a tile on the blocks of this task."""
    tile, home = _function(name), Path(job)
    shared, blocks = _read(home / _SHARED), _by_block(_read(home / _BLOCKS))
    plan = json.loads((home / _PLAN).read_text())
    for number in _numbers(home, batches):
        buckets = tuple(Bucket(i, Path(file) if file else None) for i, file in enumerate(plan[number]))
        block = {**Block({}, buckets=buckets).load(), **blocks.get(number, {})}
        yield _result(number, _write(home, number, "out", tile(block, shared)))


def _arrays_without_file(block: Block) -> Arrays:
    """The arrays of a block that must be sent: its own, and those of buckets in memory."""
    in_memory = {str(i): bucket.arrays or {} for i, bucket in enumerate(block.buckets) if bucket.file is None}
    return {**block.arrays, **joined(in_memory)}


def _file(bucket: Bucket) -> str | None:
    return None if bucket.file is None else str(bucket.file)


def _by_block(arrays: Arrays) -> dict[int, dict[str, Any]]:
    """Groups arrays named `3/x` by block number 3. The rest of the name may contain slashes."""
    by_block: dict[int, dict[str, Any]] = {}
    for name, array in arrays.items():
        number, _, rest = name.partition("/")
        by_block.setdefault(int(number), {})[rest] = array
    return by_block


def _update_task(job: str, name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs a step on the buckets of this task. Writes the new states and the summaries."""
    step, home = _function(name), Path(job)
    shared, parts, old = _read(home / _SHARED), split(_read(home / _PARTS)), split(_read(home / _OLD))
    plan = json.loads((home / _PLAN).read_text())
    for number in _numbers(home, batches):
        bucket = str(plan["numbers"][number])
        before = load(Bucket(0, Path(plan["files"][bucket]) if bucket in plan["files"] else None, old.get(bucket)))
        state, summary = step(before, parts.get(bucket, {}), shared)
        attempt = secrets.token_hex(4)
        _write(home, number, "state", state, attempt)
        yield _result(number, _write(home, number, "out", joined({"summary": summary}), attempt))


def _function(name: str) -> Callable[..., Any]:
    module, _, function_name = name.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), function_name)
    return function


def _numbers(job: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The numbers of the pieces of work that belong to this task, until the job is cancelled."""
    shares = json.loads((job / "shares.json").read_text())
    for batch in batches:
        for task in batch.column(0).to_pylist():
            for number in shares[task]:
                if (job / _CANCELLED).exists():
                    raise Cancelled("cancelled")
                yield number


def _result(number: int, file: str) -> pa.RecordBatch:
    return pa.record_batch({"number": pa.array([number], pa.int64()), "file": pa.array([file])})


def _write(job: Path, number: int, what: str, arrays: Arrays, attempt: str | None = None) -> str:
    """Writes a file whose name is unique to this attempt, so that a repeated task does not overwrite it."""
    name = f"{what}-{number}-{attempt or secrets.token_hex(4)}"
    _put(job / f".{name}", arrays)
    (job / f".{name}").rename(job / name)
    return name


def _put(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as file:
        file.write(to_buffer(arrays))


def _read(path: Path) -> Arrays:
    """The memory-mapped arrays of a file. They stay valid after the file is removed."""
    return from_buffer(map_file(path))
