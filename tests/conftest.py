"""Shared fixtures: Hypothesis profiles, one Spark session, the real tables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

CASES = int(os.environ.get("HOLDFAST_CASES", "0"))
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("holdfast", deadline=None, suppress_health_check=_QUIET, print_blob=True)
settings.register_profile("mutants", settings.get_profile("holdfast"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HOLDFAST_PROFILE", "holdfast"))


def cases(count: int) -> int:
    """How many random cases a law gets: `count`, or what HOLDFAST_CASES says (make test-long)."""
    return CASES or count


@pytest.fixture(scope="session")
def spark():
    """The one Spark session of a test run."""
    pytest.importorskip("pyspark", reason="the spark extra is not installed")
    from holdfast.java import find_java

    java = find_java()
    if java is None:
        pytest.fail("no Java 17 or newer; `make setup` brings one")
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("holdfast-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The real tables; skipped where they are absent, unless `make test-data` asked for them."""
    path = Path(os.environ.get("HOLDFAST_DATA", "../shared/data"))
    if not path.is_dir():
        message = f"the real tables are not at {path} (set HOLDFAST_DATA)"
        if os.environ.get("HOLDFAST_DATA_REQUIRED"):
            pytest.fail(message)
        pytest.skip(message)
    return path
