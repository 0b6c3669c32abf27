"""What a worker of Spark has installed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGES = ("holdfast-data", "pyarrow", "numpy", "numba")


def worker_versions(spark: SparkSession) -> dict[str, str]:
    """The versions of Python and of the packages that kernels need, on some worker; empty if one is missing."""
    packages = _PACKAGES

    def versions() -> str:
        import importlib.metadata
        import json
        import platform

        found = {"python": platform.python_version()}
        for name in packages:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                found[name] = ""
        return json.dumps(found)

    (row,) = spark.range(1).select(F.udf(versions, "string")().alias("versions")).collect()
    found: dict[str, str] = json.loads(row["versions"])
    return found
