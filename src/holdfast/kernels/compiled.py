"""The one place that touches Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compiles on first call, keeps the machine code on disk, and lets other threads run meanwhile."""
    compiled: Function = numba.njit(cache=True, nogil=True)(function)
    return compiled


def inlined(function: Function) -> Function:
    """A small step of a kernel, compiled into its callers."""
    compiled: Function = numba.njit(cache=True, nogil=True, inline="always")(function)
    return compiled
