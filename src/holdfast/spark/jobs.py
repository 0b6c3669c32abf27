"""Jobs on Spark: described in words that people see in Spark's own pages, and several of them at a time.

The only place that touches the Spark context of a classic session. It never sets a job group: a streaming query has one
of its own, by which Spark stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pyspark.util import inheritable_thread_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
_DESCRIPTION = "spark.job.description"
_AT_A_TIME = 8


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """The jobs inside show this description (classic), or have it as a tag (Connect)."""
    if hasattr(spark, "_jsparkSession"):
        context = spark.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setLocalProperty(_DESCRIPTION, f"holdfast: {text}")
        try:
            yield
        finally:
            context.setLocalProperty(_DESCRIPTION, before)
        return
    tag = f"holdfast: {text}".replace(",", ";")
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


def together(spark: SparkSession, works: Sequence[Callable[[], Result]]) -> list[Result]:
    """Does several pieces of work at a time, each with jobs of its own. If one fails, the others still end."""
    if len(works) < 2:
        return [work() for work in works]
    with ThreadPoolExecutor(min(_AT_A_TIME, len(works))) as pool:
        futures = [pool.submit(inheritable_thread_target(spark)(work)) for work in works]
    return [future.result() for future in futures]
