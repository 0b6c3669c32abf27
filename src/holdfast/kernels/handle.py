"""Many arrays behind one number: a kernel gets the address of a table of addresses and shapes.

Unboxing an array costs a tenth of a microsecond, passing it to another kernel copies seven words, and every use counts
a reference; a view made from an address costs none of these. Replacing an array requires a new handle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.kernels.compiled import imported, part

_WORDS = 4  # address, then up to three lengths


class Handle:
    """Addresses and shapes of C-contiguous arrays, one line each, and the arrays themselves to keep them alive."""

    def __init__(self, arrays: Iterable[npt.NDArray[Any]]) -> None:
        self._arrays = list(arrays)
        self._lines = np.zeros((len(self._arrays), _WORDS), np.int64)
        for line, array in zip(self._lines, self._arrays, strict=True):
            assert array.flags.c_contiguous
            line[0] = array.ctypes.data
            line[1 : 1 + array.ndim] = array.shape
        self._address = int(self._lines.ctypes.data)

    def call(self, kernel: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a kernel with the address as its first argument. The arrays live at least until it returns."""
        return kernel(self._address, *arguments)


def as_compiled(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, or a copy if it is read-only or strided: kernels are compiled for one array type."""
    return array if array.flags.carray else array.copy(order="C")


@imported
def carray():
    """Numba's view of the memory at a pointer."""
    from numba import carray

    return carray


@imported
def _pointer():
    """The pointer for an address, as an intrinsic of Numba."""
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    @intrinsic
    def pointer(typing_context, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], cgutils.voidptr_t)

        return types.voidptr(types.int64), generate

    return pointer


# Views of the array in a line; `handle` is the address of the first line. Pass lines as np.int64: Numba would compile
# another version for each Python constant.


@part
def line_of(handle, line):
    """The address and the lengths in a line."""
    return carray(_pointer(handle + 8 * _WORDS * line), (_WORDS,), np.int64)


@part
def int64_1(handle, line):
    """An array of 1 dimension of int64."""
    at = line_of(handle, line)
    return carray(_pointer(at[0]), (at[1],), np.int64)


@part
def int64_2(handle, line):
    """An array of 2 dimensions of int64."""
    at = line_of(handle, line)
    return carray(_pointer(at[0]), (at[1], at[2]), np.int64)


@part
def int64_3(handle, line):
    """An array of 3 dimensions of int64."""
    at = line_of(handle, line)
    return carray(_pointer(at[0]), (at[1], at[2], at[3]), np.int64)


@part
def int32_1(handle, line):
    """An array of 1 dimension of int32."""
    at = line_of(handle, line)
    return carray(_pointer(at[0]), (at[1],), np.int32)


@part
def int32_2(handle, line):
    """An array of 2 dimensions of int32."""
    at = line_of(handle, line)
    return carray(_pointer(at[0]), (at[1], at[2]), np.int32)


@part
def uint8_1(handle, line):
    """An array of 1 dimension of uint8."""
    at = line_of(handle, line)
    return carray(_pointer(at[0]), (at[1],), np.uint8)


@part
def int16_1(handle, line):
    """An array of 1 dimension of int16."""
    at = line_of(handle, line)
    return carray(_pointer(at[0]), (at[1],), np.int16)


@part
def uint64_2(handle, line):
    """An array of 2 dimensions of uint64."""
    at = line_of(handle, line)
    return carray(_pointer(at[0]), (at[1], at[2]), np.uint64)


@part
def uint64_1(handle, line):
    """An array of 1 dimension of uint64."""
    at = line_of(handle, line)
    return carray(_pointer(at[0]), (at[1],), np.uint64)
