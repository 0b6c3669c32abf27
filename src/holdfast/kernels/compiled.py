"""How kernels are compiled and kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_HERE = Path(__file__).parent
_PART = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # compiled into kernels only


def _stamp() -> tuple[tuple[str, int, int], ...]:
    """What the machine code was made of. Kernels call kernels of other files, so all of them count."""
    files = sorted(_HERE.glob("*.py"))
    return tuple((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files)


_STAMP = _stamp()


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles on first call, keeps the machine code on disk, and lets other threads run meanwhile."""
    compiled = numba.njit(cache=True, nogil=True)(function)
    compiled._cache._cache_file._source_stamp = _STAMP  # Numba itself looks at the kernel's own file only
    made: Callable[..., Any] = compiled
    return made


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of kernels, called by them only: compiled with them, without what a call from Python needs."""
    made: Callable[..., Any] = numba.njit(**_PART)(function)
    return made


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part that is copied into its callers: for a few lines in an inner loop, where LLVM would rather call."""
    made: Callable[..., Any] = numba.njit(**_PART, forceinline=True)(function)
    return made


def cache_directory() -> Path:
    """Where the machine code is kept: beside the kernels, or where NUMBA_CACHE_DIR says."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or _HERE / "__pycache__")


def is_cached(name: str) -> bool:
    """Whether a kernel, `module.function`, has been compiled before."""
    return any(cache_directory().rglob(f"{name}-*.nbi"))
