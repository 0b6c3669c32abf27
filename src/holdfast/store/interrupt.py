"""Holding Ctrl-C back."""

from __future__ import annotations

import threading
from _signal import SIG_DFL, SIGINT, raise_signal
from _signal import signal as set_handler  # `signal.signal` without its enums, which cost 30 us a batch
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds Ctrl-C back for the moment in which states change in memory; then it takes its course."""
    if threading.get_ident() != threading.main_thread().ident:
        yield
        return
    caught: list[int] = []
    before = set_handler(SIGINT, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        set_handler(SIGINT, SIG_DFL if before is None else before)  # None: not set from Python
        if caught:
            raise_signal(SIGINT)
