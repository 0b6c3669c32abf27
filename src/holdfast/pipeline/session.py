"""A Spark session in this process: quiet, local to this machine, with the installed Java and Python."""

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
_OWNER = "spark.holdfast.owner"  # set once a caller has taken over stopping the session
_CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def running(master: str = "local[*]", *, connect: bool = False) -> Iterator[SparkSession]:
    """A session that is stopped at the end, unless it already has an owner."""
    spark = local_session(master, connect=connect)
    is_owner = spark.conf.get(_OWNER, "") == ""
    spark.conf.set(_OWNER, "holdfast")
    try:
        yield spark
    finally:
        if is_owner:
            with uninterrupted():  # a second Ctrl-C would leave Java running and print a traceback
                warehouse = spark.conf.get(_WAREHOUSE, "")
                spark.stop()
                _remove(warehouse)


def local_session(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, *, connect: bool = False
) -> SparkSession:
    """A Spark session in this process. With `connect`, it is a client of its own Spark Connect server."""
    require_spark()
    from pyspark.sql import SparkSession

    java = find_java()
    if java is None:
        raise NotAvailable("Spark needs Java 17 or newer: set JAVA_HOME, or pip install 'holdfast-data[jre]'")
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("holdfast")
    builder = builder.remote(master) if connect else builder.master(master)
    quiet = f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"
    java_options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {quiet}"
    settings = _CONF | {"spark.driver.extraJavaOptions": java_options}
    warehouse = _private_directory()
    settings |= {_WAREHOUSE: warehouse}
    for name, value in (settings | dict(conf or {})).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if warehouse not in spark.conf.get(_WAREHOUSE, ""):  # an existing session was returned
        _remove(warehouse)
    return spark


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
