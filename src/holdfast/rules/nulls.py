"""Null policies: how nulls compare."""

from __future__ import annotations

from enum import StrEnum


class Nulls(StrEnum):
    """How a null compares with another cell. A policy equals its plain string, and is written as such.

    >>> Nulls.SQL == "sql", f"{Nulls.EQUAL}"
    (True, 'equal')
    """

    EQUAL = "equal"  # null = null, and null != value
    DISTINCT = "distinct"  # null != null, and null != value
    SQL = "sql"  # no comparison with a null holds
