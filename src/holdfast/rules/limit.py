"""How many errors a share allows, exactly: the one place where a count meets `max_error` or a tolerance.

A share is the decimal that was written: 0.3 is 3/10, not the binary number beside it. The test is on integers, so that
a rule exactly at the limit is within it, and a rule of one kind agrees with the same rule of another.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache


def most_within(share: float, total: int) -> int:
    """The most errors, of so many, that a share allows: floor(share x total).

    >>> int(0.3 * 36 * 35), most_within(0.3, 36 * 35)
    (377, 378)
    """
    exact = _as_written(float(share))
    return total * exact.numerator // exact.denominator


def exceeds(count: int, total: int, share: float) -> bool:
    """Whether so many errors, of a total, are more than a share allows.

    >>> exceeds(378, 36 * 35, 0.3), exceeds(379, 36 * 35, 0.3)
    (False, True)
    """
    return count > most_within(share, total)


@lru_cache(maxsize=64)
def _as_written(share: float) -> Fraction:
    """The shortest decimal that stands for a float."""
    return Fraction(repr(share))
