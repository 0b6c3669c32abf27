"""How far the jobs of Spark are: from the status of their stages, classic or through Connect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.spark.jobs import running_work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Report = Callable[[str, int, int], None]  # what is being done, tasks that are done, tasks of the stages that run
_SECONDS = 0.5  # between two looks


@contextmanager
def stage_progress(spark: SparkSession, report: Report) -> Iterator[None]:
    """Reports, until the end, how many tasks of the running stages are done."""
    if not hasattr(spark, "_jsparkSession"):
        with _handled(spark, report):
            yield
        return
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark.sparkContext.statusTracker(), report, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(tracker: Any, report: Report, ended: threading.Event) -> None:
    while not ended.wait(_SECONDS):
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stages = [(info.numCompletedTasks, info.numTasks) for info in infos if info is not None]
        if stages:
            report(running_work(), *(sum(numbers) for numbers in zip(*stages, strict=True)))


@contextmanager
def _handled(spark: SparkSession, report: Report) -> Iterator[None]:
    """Spark Connect calls a handler with the stages of each query."""

    def handle(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        numbers = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()]
        if numbers and not done:
            report(running_work(), *(sum(some) for some in zip(*numbers, strict=True)))

    spark.registerProgressHandler(handle)
    try:
        yield
    finally:
        spark.removeProgressHandler(handle)
