"""Many arrays behind one number: a kernel that is given the address of a table of addresses is called at once.

Unboxing an array costs a tenth of a microsecond, handing it on to another kernel seven words, and every look at it a
counted reference; a view made from an address costs none of them. A new handle is made when an array is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray
from numba.core import cgutils, types
from numba.extending import intrinsic

from holdfast.kernels.compiled import part

_WORDS = 4  # address, then up to three lengths


class Handle:
    """Addresses and shapes of C-contiguous arrays, a line each, and the arrays themselves so that they stay."""

    def __init__(self, arrays: Iterable[npt.NDArray[Any]]) -> None:
        self._arrays = list(arrays)
        self._lines = np.zeros((len(self._arrays), _WORDS), np.int64)
        for line, array in zip(self._lines, self._arrays, strict=True):
            assert array.flags.c_contiguous
            line[0] = array.ctypes.data
            line[1 : 1 + array.ndim] = array.shape
        self._address = int(self._lines.ctypes.data)

    def call(self, kernel: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a kernel with the address as its first argument: the arrays stay at least until it returns."""
        return kernel(self._address, *arguments)


def as_compiled(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array itself, or a copy where it is read-only or strided: kernels are compiled for one kind of array."""
    return array if array.flags.carray else array.copy(order="C")


@intrinsic
def _pointer(typing_context, address):
    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


# A view of an array; `handle` is the address of the first line. Lines are given as np.int64: for each Python constant
# Numba would compile another version.


@part
def int64_1(handle, line):
    at = carray(_pointer(handle + 8 * _WORDS * line), (_WORDS,), np.int64)
    return carray(_pointer(at[0]), (at[1],), np.int64)


@part
def int64_2(handle, line):
    at = carray(_pointer(handle + 8 * _WORDS * line), (_WORDS,), np.int64)
    return carray(_pointer(at[0]), (at[1], at[2]), np.int64)


@part
def int64_3(handle, line):
    at = carray(_pointer(handle + 8 * _WORDS * line), (_WORDS,), np.int64)
    return carray(_pointer(at[0]), (at[1], at[2], at[3]), np.int64)


@part
def int32_1(handle, line):
    at = carray(_pointer(handle + 8 * _WORDS * line), (_WORDS,), np.int64)
    return carray(_pointer(at[0]), (at[1],), np.int32)


@part
def int32_2(handle, line):
    at = carray(_pointer(handle + 8 * _WORDS * line), (_WORDS,), np.int64)
    return carray(_pointer(at[0]), (at[1], at[2]), np.int32)


@part
def uint8_1(handle, line):
    at = carray(_pointer(handle + 8 * _WORDS * line), (_WORDS,), np.int64)
    return carray(_pointer(at[0]), (at[1],), np.uint8)


@part
def uint64_1(handle, line):
    at = carray(_pointer(handle + 8 * _WORDS * line), (_WORDS,), np.int64)
    return carray(_pointer(at[0]), (at[1],), np.uint64)
