"""The executor on Spark: tasks read their blocks from shared storage, run the same functions, and write what they made.

Spark carries numbers and file names only. Classic and Connect alike: no RDD, no JVM, no state in closures. The shared
directory must be the same path for the driver and for every worker.
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
    Cancellation,
    Cancelled,
    Progress,
    Step,
    Tile,
    load,
    require_pure,
    touched_parts,
)

_TILES_PER_CORE = 4  # more tasks than cores, so that no core waits for the longest one
_STEPS_PER_CORE = 1  # steps are short, and many at a time: several states change side by side
_RESULT = "number long, file string"
_BUCKETS = "buckets"
_CANCELLED = "cancelled"
_SHARED, _BLOCKS, _PARTS, _OLD, _PLAN = "shared.arrow", "blocks.arrow", "parts.arrow", "old.arrow", "plan.json"


@dataclass(frozen=True)
class SparkExecutor:
    """Runs blocks as Spark tasks; `tasks` is into how many the work is split, by cost."""

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
            _put(job / _BLOCKS, joined({str(i): _carried(block) for i, block in enumerate(blocks)}))
            (job / _PLAN).write_text(json.dumps([[_file(b) for b in block.buckets] for block in blocks]))
            found = self._run(job, _map_task, tile, [block.cost for block in blocks], _TILES_PER_CORE)
            return [_copied(job / found[i]) for i in range(len(blocks))]

    def update(
        self, step: Step, buckets: Sequence[Bucket], delta: Arrays, shared: Arrays = NOTHING
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
            files = {str(b.number): str(b.file) for b in touched if b.file is not None}
            (job / _PLAN).write_text(json.dumps({"numbers": [b.number for b in touched], "files": files}))
            found = self._run(job, _update_task, step, costs, _STEPS_PER_CORE)
            made = [split(_copied(job / found[i])) for i in range(len(touched))]
            after = {}
            for place, bucket in enumerate(touched):
                file = home / f"{bucket.number}-{secrets.token_hex(4)}.arrow"
                (job / found[place].replace("out-", "state-")).rename(file)
                after[bucket.number] = Bucket(bucket.number, file=file)
        return [after.get(b.number, b) for b in buckets], [summary.get("summary", {}) for summary in made]

    def forget(self, buckets: Sequence[Bucket]) -> None:
        """Removes the files of buckets that nobody needs any more."""
        for bucket in buckets:
            if bucket.file is not None:
                bucket.file.unlink(missing_ok=True)

    @contextmanager
    def _job(self) -> Iterator[Path]:
        """A directory for one job."""
        job = self.directory / f"job-{secrets.token_hex(6)}"
        job.mkdir(parents=True)
        try:
            yield job
        finally:
            shutil.rmtree(job, ignore_errors=True)

    def _run(
        self, job: Path, task: Callable[..., Any], function: Callable[..., Any], costs: list[float], per_core: int
    ) -> list[str]:
        """The files with the results, by place. Each task gets places of about the same cost."""
        shares = shared_out(costs, self.tasks or per_core * parallelism(self.spark))
        (job / "shares.json").write_text(json.dumps(shares))
        name = f"{function.__module__}:{function.__qualname__}"
        numbers = self.spark.range(0, len(shares), 1, len(shares))
        frame = numbers.mapInArrow(functools.partial(task, str(job), name), _RESULT)
        table = self._collect(frame, job, len(costs))
        found = dict(zip(table.column("number").to_pylist(), table.column("file").to_pylist(), strict=True))
        return [found[place] for place in range(len(costs))]

    def _collect(self, frame: DataFrame, job: Path, count: int) -> pa.Table:
        """The rows of a small frame, while progress is told. Cancelling takes effect between blocks: tasks see a file.
        (Spark's own tags are seen by the thread that set them only.)"""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(frame.toArrow)
            try:
                while True:
                    try:
                        table = future.result(timeout=0.2)
                    except TimeoutError:
                        self.cancellation.check()
                        self._tell(len({p.name.split("-")[1] for p in job.glob("out-*")}) / count)
                    else:
                        self._tell(1.0)
                        return table
            except BaseException:
                (job / _CANCELLED).touch()
                raise

    def _tell(self, share: float) -> None:
        if self.progress is not None:
            self.progress(min(share, 1.0))


def quoted(name: str) -> str:
    """A column's name as Spark wants it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def numbered(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """These columns as c0, c1, ...: mapInArrow does not take every name."""
    return frame.select(*(frame[quoted(name)].alias(f"c{i}") for i, name in enumerate(names)))


@functools.lru_cache(maxsize=8)
def parallelism(spark: SparkSession) -> int:
    """How many tasks run at a time: into how many parts Spark cuts a range by itself."""
    return int(spark.range(4096).select(spark_partition_id().alias("p")).distinct().count())


def shared_out(costs: Sequence[float], tasks: int) -> list[list[int]]:
    """Places by task: the dearest first, each to the task that has least.

    >>> shared_out([5, 1, 1, 3], 2)
    [[0], [3, 1, 2]]
    """
    shares: list[list[int]] = [[] for _ in range(min(tasks, len(costs)))]
    heap = [(0.0, task) for task in range(len(shares))]
    for place in sorted(range(len(costs)), key=lambda i: -costs[i]):
        cost, task = heapq.heappop(heap)
        shares[task].append(place)
        heapq.heappush(heap, (cost + costs[place], task))
    return shares


# --- in the tasks -------------------------------------------------------------------------------------------


def _map_task(job: str, name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    tile, place = _function(name), Path(job)
    shared, blocks = from_buffer(map_file(place / _SHARED)), _by_block(from_buffer(map_file(place / _BLOCKS)))
    plan = json.loads((place / _PLAN).read_text())
    for number in _places(place, batches):
        buckets = tuple(Bucket(i, Path(file) if file else None) for i, file in enumerate(plan[number]))
        block = {**Block({}, buckets=buckets).load(), **blocks.get(number, {})}
        yield _result(number, _write(place, number, "out", tile(block, shared)))


def _carried(block: Block) -> Arrays:
    """The arrays that have no file."""
    inside = {str(i): bucket.arrays or {} for i, bucket in enumerate(block.buckets) if bucket.file is None}
    return {**block.arrays, **joined(inside)}


def _file(bucket: Bucket) -> str | None:
    return None if bucket.file is None else str(bucket.file)


def _by_block(arrays: Arrays) -> dict[int, dict[str, Any]]:
    """Arrays named `3/x` by their block, 3, and their name, which may have slashes of its own."""
    made: dict[int, dict[str, Any]] = {}
    for name, array in arrays.items():
        number, _, rest = name.partition("/")
        made.setdefault(int(number), {})[rest] = array
    return made


def _update_task(job: str, name: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    step, place = _function(name), Path(job)
    shared, parts, old = (
        from_buffer(map_file(place / _SHARED)),
        split(from_buffer(map_file(place / _PARTS))),
        split(from_buffer(map_file(place / _OLD))),
    )
    plan = json.loads((place / _PLAN).read_text())
    for number in _places(place, batches):
        bucket = str(plan["numbers"][number])
        before = load(Bucket(0, Path(plan["files"][bucket]) if bucket in plan["files"] else None, old.get(bucket)))
        state, summary = step(before, parts.get(bucket, {}), shared)
        attempt = secrets.token_hex(4)
        _write(place, number, "state", state, attempt)
        yield _result(number, _write(place, number, "out", joined({"summary": summary}), attempt))


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    made: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return made


def _places(job: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    shares = json.loads((job / "shares.json").read_text())
    for batch in batches:
        for task in batch.column(0).to_pylist():
            for place in shares[task]:
                if (job / _CANCELLED).exists():
                    raise Cancelled("cancelled")
                yield place


def _result(number: int, file: str) -> pa.RecordBatch:
    return pa.record_batch({"number": pa.array([number], pa.int64()), "file": pa.array([file])})


def _write(job: Path, number: int, what: str, arrays: Arrays, attempt: str | None = None) -> str:
    """Writes under a name of this attempt alone; a task that runs twice never meets itself."""
    name = f"{what}-{number}-{attempt or secrets.token_hex(4)}"
    _put(job / f".{name}", arrays)
    (job / f".{name}").rename(job / name)
    return name


def _put(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as file:
        file.write(to_buffer(arrays))


def _copied(path: Path) -> Arrays:
    """The arrays of a file that is about to go: a mapping outlives the name."""
    return from_buffer(map_file(path))
