"""How a rulebook stands to its store."""

from __future__ import annotations

from enum import Enum, auto


class Lifecycle(Enum):
    """How a rulebook stands to its store."""

    CURRENT = auto()  # memory and store agree
    STALE = auto()  # an operation failed: the store is read again before the next use
    FOLLOWING = auto()  # it has merged versions of another process: the store is read again before the first write
    READ_ONLY = auto()  # an older version, to be looked at only
    CLOSED = auto()
