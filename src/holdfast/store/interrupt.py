"""Control over Ctrl-C: postpone it while states change, or turn it into an event."""

from __future__ import annotations

import os
import threading
from _signal import SIG_DFL, SIGINT, raise_signal
from _signal import signal as set_handler  # `signal.signal` without its enums, which cost 30 us a batch
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Postpones Ctrl-C until the end of the block, in which states change in memory. Main thread only."""
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


@contextmanager
def stopping(exit_status: int = 130) -> Iterator[threading.Event]:
    """Lets Ctrl-C set an event instead of interrupting the current work.

    A second Ctrl-C ends the process at once, which is safe: published versions are durable. In other threads than the
    main one this does nothing.
    """
    stop = threading.Event()
    if threading.get_ident() != threading.main_thread().ident:
        yield stop
        return

    def request_stop(*_: object) -> None:
        if stop.is_set():
            os._exit(exit_status)
        stop.set()

    before = set_handler(SIGINT, request_stop)
    try:
        yield stop
    finally:
        set_handler(SIGINT, SIG_DFL if before is None else before)
