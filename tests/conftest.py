"""Shared fixtures: Hypothesis profiles, one Spark session, the real tables."""

from __future__ import annotations

import os
import sys
from functools import cache, partial
from pathlib import Path

import pytest
import typer.main
from hypothesis import HealthCheck, Phase, settings

from holdfast.discovery.budget import Budget
from tests.clock import Ticking

ROOT = Path(__file__).resolve().parent.parent
CONNECT = os.environ.get("HOLDFAST_SPARK") == "connect"
LOOKS_AFTER = 400  # at the clock, once time is up: each search of each table looks some times before it gives up
CASES = int(os.environ.get("HOLDFAST_CASES", "0"))
typer.main.get_command = cache(typer.main.get_command)  # to build all commands takes longer than to run most of them
CONF = {"spark.sql.shuffle.partitions": "2"}
if not CASES:  # to compile a query takes longer than to run it on a few rows
    CONF |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("holdfast", deadline=None, suppress_health_check=_QUIET, print_blob=True)
settings.register_profile("mutants", settings.get_profile("holdfast"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HOLDFAST_PROFILE", "holdfast"))


def cases(count: int) -> int:
    """How many random cases a law gets: a quarter of these, or HOLDFAST_CASES (`make test-long`: 10,000)."""
    return CASES or max(2, count // 4)


@pytest.fixture
def ticking(monkeypatch) -> Ticking:
    """The clock of `discover`, on which each look takes a millisecond."""
    clock = Ticking(0.001)
    monkeypatch.setattr(sys.modules["holdfast.finding"], "Budget", partial(Budget, clock=clock))
    return clock


@pytest.fixture(scope="session")
def spark():
    """The one Spark session of a test run; HOLDFAST_SPARK=connect makes it a client of Spark Connect."""
    pytest.importorskip("pyspark", reason="the spark extra is not installed")
    from holdfast.spark.session import local_session

    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # tasks import the tests' functions
    session = local_session("local[2]", CONF, connect=CONNECT)
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
