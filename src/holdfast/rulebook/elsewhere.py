"""Rulebooks whose rows are not in this process: the door to `holdfast.spark`, which is above this room."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from holdfast.errors import HoldfastError, NotAvailable, shown
from holdfast.places import PLACES
from holdfast.store.store import Store

SPARK = "spark"  # what a manifest says about states on Spark


def is_on_spark(store: Store) -> bool:
    """Whether the rows of a rulebook are on Spark."""
    return SPARK in store.manifest.meta


def require_place(store: Store, on: str) -> None:
    """Raises an error unless the rows of a rulebook are in this place, `process` or `spark`."""
    if on not in PLACES:
        raise HoldfastError(f"on is auto, process or spark, not {shown(on)}")
    if on != "auto" and (on == "spark") != is_on_spark(store):
        where = "on Spark" if is_on_spark(store) else "in the process"
        raise HoldfastError(f"the rows of {store.directory} are kept {where}, since the rulebook was made")


def on_spark() -> Any:
    """The class of rulebooks on Spark."""
    try:
        return import_module("holdfast.spark.book").SparkRulebook
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        raise NotAvailable("this rulebook is on Spark: pip install 'holdfast-data[spark]'") from None
