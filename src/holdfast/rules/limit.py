"""The exact number of errors that `max_error` or a tolerance allows. All limits on errors are computed here.

A share is the decimal that was written: 0.3 is 3/10, not the nearest binary number. The test uses integers, so a rule
exactly at the limit is within it, and equivalent rules of different kinds agree.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache


def most_within(share: float, total: int) -> int:
    """The largest number of errors that a share of `total` allows: floor(share x total).

    >>> int(0.3 * 36 * 35), most_within(0.3, 36 * 35)
    (377, 378)
    """
    exact = _as_written(float(share))
    return total * exact.numerator // exact.denominator


def exceeds(count: int, total: int, share: float) -> bool:
    """Whether `count` errors of `total` are more than a share allows.

    >>> exceeds(378, 36 * 35, 0.3), exceeds(379, 36 * 35, 0.3)
    (False, True)
    """
    return count > most_within(share, total)


@lru_cache(maxsize=64)
def _as_written(share: float) -> Fraction:
    """The shortest decimal that rounds to a float."""
    return Fraction(repr(share))
