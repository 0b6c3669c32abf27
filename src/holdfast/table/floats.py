"""Floats as 64-bit integers of the same order."""

from __future__ import annotations

import numpy as np

from holdfast.arrays import Floats
from holdfast.table.dictionary import Codes

_BELOW_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_NAN_CODE = np.int64(0x7FF8000000000000)


def float_codes(values: Floats) -> Codes:
    """The order-preserving code of each float: -inf < ... < -0.0 = 0.0 < ... < inf < NaN = NaN.

    >>> codes = float_codes(np.array([-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, np.nan]))
    >>> bool((np.diff(codes) >= 0).all()), int(codes[2]) == int(codes[3]) == 0
    (True, True)
    """
    bits = (values + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    codes = np.where(bits < 0, bits ^ _BELOW_SIGN, bits)
    codes[np.isnan(values)] = _NAN_CODE
    return codes


def float_values(codes: Codes) -> Floats:
    """The inverse of `float_codes`."""
    bits = np.where(codes < 0, codes ^ _BELOW_SIGN, codes)
    return bits.view(np.float64)
