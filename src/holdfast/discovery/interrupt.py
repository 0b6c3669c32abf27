"""Ctrl-C ends a search, and its result is what was proven until then."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.discovery.budget import Budget
from holdfast.executors.executor import Cancellation

INTERRUPTED = "interrupted"


@contextmanager
def interruptible(budget: Budget, cancellation: Cancellation | None = None, *, again: bool = False) -> Iterator[None]:
    """The first Ctrl-C ends the budget; the second raises `KeyboardInterrupt`. With `again` the first one does."""

    def stop(number: int, frame: Any) -> None:
        if again or budget.ended == INTERRUPTED:
            raise KeyboardInterrupt
        budget.ended = INTERRUPTED
        if cancellation is not None:
            cancellation.cancel()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
