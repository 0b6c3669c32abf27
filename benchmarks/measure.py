"""CPU time, and the machine it was measured on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path


def cpu(work: Callable[[], object], repeat: int = 3) -> float:
    """The least CPU time of the process, in seconds, over some runs."""
    best = float("inf")
    for _ in range(repeat):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def machine() -> str:
    """`AMD EPYC 7B13, 2 cores, Python 3.11.7, 2026-11-15`."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}"
