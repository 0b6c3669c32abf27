"""How kernels are compiled and kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, update_wrapper
from pathlib import Path
from threading import RLock
from typing import Any

_HERE = Path(__file__).parent
_PART = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # compiled into kernels only
_lock = RLock()


@cache
def _stamp() -> tuple[tuple[str, int, int], ...]:
    """What the machine code was made of. Kernels call kernels of other files, so all of them count."""
    files = sorted(_HERE.glob("*.py"))
    return tuple((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files)


class Late:
    """Something of Numba that is made when it is first needed. To import Numba takes longer than most small jobs.

    In the module that defines it, and in modules with kernels that use it, the name then means the thing itself, as
    Numba requires of names in compiled code.
    """

    def __init__(self, function: Callable[..., Any], make: Callable[[Callable[..., Any]], Any]) -> None:
        update_wrapper(self, function)
        self._function, self._make, self._made = function, make, None

    def __call__(self, *arguments: Any) -> Any:
        return (self._made or self.made)(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made, name)

    @property
    def made(self) -> Any:
        with _lock:
            if self._made is None:
                self._made = self._make(self._function)
                names = self._function.__globals__
                for name, value in list(names.items()):
                    if isinstance(value, Late):
                        names[name] = value.made
        return self._made


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles on first call, keeps the machine code on disk, and lets other threads run meanwhile."""

    def make(function: Callable[..., Any]) -> Any:
        import numba

        compiled = numba.njit(cache=True, nogil=True)(function)
        compiled._cache._cache_file._source_stamp = _stamp()  # Numba itself looks at the kernel's own file only
        return compiled

    return Late(function, make)


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of kernels, called by them only: compiled with them, without what a call from Python needs."""

    def make(function: Callable[..., Any]) -> Any:
        import numba

        return numba.njit(**_PART)(function)

    return Late(function, make)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part that is copied into its callers: for a few lines in an inner loop, where LLVM would rather call."""

    def make(function: Callable[..., Any]) -> Any:
        import numba

        return numba.njit(**_PART, forceinline=True)(function)

    return Late(function, make)


def imported(function: Callable[[], Any]) -> Callable[..., Any]:
    """What a function returns, for use in kernels: something that has to be imported from Numba."""
    return Late(function, lambda function: function())


def cache_directory() -> Path:
    """Where the machine code is kept: beside the kernels, or where NUMBA_CACHE_DIR says."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or _HERE / "__pycache__")


def is_cached(name: str) -> bool:
    """Whether a kernel, `module.function`, has been compiled before."""
    return any(cache_directory().rglob(f"{name}-*.nbi"))


def is_warm() -> bool:
    """Whether the largest kernel is in the cache."""
    return is_cached("box_batch.process")
