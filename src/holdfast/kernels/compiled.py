"""The one place that touches Numba."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles on first call, keeps the machine code on disk, and lets other threads run meanwhile."""
    compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
    return compiled


def cache_directory() -> Path:
    """Where the machine code is kept: beside the kernels, or where NUMBA_CACHE_DIR says."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__")


def is_cached(name: str) -> bool:
    """Whether a kernel, `module.function`, has been compiled before."""
    return any(cache_directory().rglob(f"{name}-*.nbi"))
