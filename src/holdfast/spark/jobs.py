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
_running: list[str] = []  # the descriptions of the work that runs, the newest last


def running_work() -> str:
    """What is being done, in words."""
    return _running[-1] if _running else "reading"


def rules_in_words(texts: Sequence[str]) -> str:
    """The first rules of a query, for people who look at Spark's own pages.

    >>> rules_in_words(["key(id)", "zip -> city", "zip -> state", "city -> state", "key(code)"])
    'key(id), zip -> city, zip -> state and 2 more'
    """
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return ", ".join(texts[:3]) + more


@contextmanager
def _noted(text: str) -> Iterator[None]:
    _running.append(text)
    try:
        yield
    finally:
        _running.remove(text)


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """The jobs inside show this description (classic), or have it as a tag (Connect)."""
    with _noted(text), _labelled(spark, text):
        yield


@contextmanager
def _labelled(spark: SparkSession, text: str) -> Iterator[None]:
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
