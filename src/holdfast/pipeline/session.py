"""Spark inside the process: a session with the Java and the Python that are here, quiet and on this machine only."""

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
_OWNER = "spark.holdfast.owner"  # set where somebody will stop the session
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
    """A session for some work; one that was there before stays."""
    spark = local_session(master, connect=connect)
    mine = spark.conf.get(_OWNER, "") == ""
    spark.conf.set(_OWNER, "holdfast")
    try:
        yield spark
    finally:
        if mine:
            with uninterrupted():  # a second Ctrl-C would leave Java running, and a traceback
                warehouse = spark.conf.get(_WAREHOUSE, "")
                spark.stop()
                _remove(warehouse)


def local_session(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, *, connect: bool = False
) -> SparkSession:
    """A Spark session in this process; with `connect`, its own Spark Connect server and a client of that."""
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
    if warehouse not in spark.conf.get(_WAREHOUSE, ""):  # a session was there already
        _remove(warehouse)
    return spark


def require_spark() -> None:
    """Says how to get Spark where it is missing; for who imports modules that need it."""
    try:
        import pyspark.sql  # noqa: F401
    except ImportError:
        raise NotAvailable("this needs Spark: pip install 'holdfast-data[spark]'") from None


def _private_directory() -> str:
    """A directory of this process alone, which ends with it."""
    made = tempfile.mkdtemp(prefix=_PREFIX)
    atexit.register(_remove, made)
    return made


def _remove(directory: str) -> None:
    """Removes a directory that `_private_directory` made, and no other."""
    place = Path(directory.removeprefix("file:"))
    if place.name.startswith(_PREFIX):
        shutil.rmtree(place, ignore_errors=True)
