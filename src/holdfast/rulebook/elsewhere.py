"""Rulebooks whose rows are not in this process: the door to `holdfast.spark`, which is above this room."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from holdfast.errors import NotAvailable
from holdfast.store.store import Store

SPARK = "spark"  # what a manifest says about states on Spark


def is_on_spark(store: Store) -> bool:
    """Whether the rows of a rulebook are on Spark."""
    return SPARK in store.manifest.meta


def on_spark() -> Any:
    """The class of rulebooks on Spark."""
    try:
        return import_module("holdfast.spark.book").SparkRulebook
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        raise NotAvailable("this rulebook is on Spark: pip install 'holdfast-data[spark]'") from None
