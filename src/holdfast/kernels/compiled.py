"""The one place that touches Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles on first call, keeps the machine code on disk, and lets other threads run meanwhile."""
    compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
    return compiled
