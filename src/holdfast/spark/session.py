"""Spark sessions: the one that is there already, as it is; or a quiet one of our own, with the installed Java.

A session that someone else has started belongs to them: nothing of it is configured, and it is not stopped.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import NotAvailable
from holdfast.java import find_java
from holdfast.store.interrupt import uninterrupted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WAREHOUSE = "spark.sql.warehouse.dir"
_PREFIX = "holdfast-warehouse-"
_QUIET = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}
_ON_THIS_MACHINE = {  # for a session whose driver and workers are one process
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.codegen.cache.maxEntries": "2000",  # a batch has more than the default of 100 generated classes
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit has started Java, and decides about master and memory


@contextmanager
def running(master: str | None = None, *, remote: str | None = None, connect: bool = False) -> Iterator[SparkSession]:
    """The session that runs already, or a new one that is stopped at the end.

    `master` is the master of a new session (by default all cores of this machine); `remote` the URL of a Spark Connect
    server. With `connect`, a local session is the client of a Connect server of its own.
    """
    require_spark()
    spark = current_session()
    if spark is not None:
        yield spark
        return
    spark = remote_session(remote) if remote else local_session(master or "local[*]", connect=connect)
    try:
        yield spark
    finally:
        with uninterrupted():  # a second Ctrl-C would leave Java running and print a traceback
            warehouse = "" if remote else spark.conf.get(_WAREHOUSE, "") or ""
            spark.stop()
            _remove(warehouse)


def current_session() -> SparkSession | None:
    """The session of this process, classic or Connect, if there is one."""
    from pyspark.sql import SparkSession

    active: SparkSession | None = SparkSession.getActiveSession()
    if active is not None or "pyspark" not in sys.modules:
        return active
    started = getattr(SparkSession, "_instantiatedSession", None)  # of a thread that has no active one yet
    if started is None or getattr(started, "_sc", None) is None or started._sc._jsc is None:
        return None
    return SparkSession.builder.getOrCreate()


def remote_session(url: str) -> SparkSession:
    """A client of a Spark Connect server."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.remote(url).getOrCreate()


def local_session(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, *, connect: bool = False
) -> SparkSession:
    """A new Spark session of this process. With `connect`, it is a client of its own Spark Connect server."""
    require_spark()
    from pyspark.sql import SparkSession

    if os.environ.get(_SUBMITTED):
        return SparkSession.builder.getOrCreate()
    java = find_java()
    if java is None:
        raise NotAvailable("Spark needs Java 17 or newer: set JAVA_HOME, or pip install 'holdfast-data[jre]'")
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("holdfast")
    builder = builder.remote(master) if connect else builder.master(master)
    quiet = f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"
    warehouse = _private_directory()
    settings = _QUIET | {_WAREHOUSE: warehouse, "spark.driver.extraJavaOptions": quiet}
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        fast_start = f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC {quiet}"
        settings |= _ON_THIS_MACHINE | {"spark.driver.extraJavaOptions": fast_start}
    for name, value in (settings | dict(conf or {})).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def cores_of(spark: SparkSession) -> int:
    """The number of tasks that run at a time: the default number of partitions of a range."""
    from pyspark.sql import functions as F

    return int(spark.range(4096).select(F.spark_partition_id().alias("p")).distinct().count())


def require_spark() -> None:
    """Raises an error that says how to install Spark, if it is missing. Call it before importing pyspark."""
    try:
        import pyspark.sql  # noqa: F401
    except ImportError:
        raise NotAvailable("this needs Spark: pip install 'holdfast-data[spark]'") from None


def _private_directory() -> str:
    """A temporary directory that is removed when the process ends."""
    directory = tempfile.mkdtemp(prefix=_PREFIX)
    atexit.register(_remove, directory)
    return directory


def _remove(directory: str) -> None:
    """Removes a directory, but only if `_private_directory` made it."""
    path = Path(directory.removeprefix("file:"))
    if path.name.startswith(_PREFIX):
        shutil.rmtree(path, ignore_errors=True)
