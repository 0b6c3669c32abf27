"""Holding Ctrl-C back."""

from __future__ import annotations

import os
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


@contextmanager
def stopping(exit_status: int = 130) -> Iterator[threading.Event]:
    """Ctrl-C sets an event instead of interrupting whatever is at work; a second one ends the process at once, which a
    durable state survives. In other threads than the main one, Ctrl-C is somebody else's affair."""
    stop = threading.Event()
    if threading.get_ident() != threading.main_thread().ident:
        yield stop
        return

    def ask(*_: object) -> None:
        if stop.is_set():
            os._exit(exit_status)
        stop.set()

    before = set_handler(SIGINT, ask)
    try:
        yield stop
    finally:
        set_handler(SIGINT, SIG_DFL if before is None else before)
