"""Which numbers, written in decimal, a 64-bit float stands for without loss.

Almost no decimal fraction is a double exactly, so exactness is that of a round trip: the text is the shortest one of
its double, or as many digits of the double's own value as were written (17 or more identify it). Numbers of 15 digits
always are; they are not looked at one by one.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.table.dictionary import NULL, Codes
from holdfast.table.floats import float_values

Places = npt.NDArray[np.int64]
_INEXACT = "is not exactly a 64-bit float"
_SAFE_DIGITS = 15
_FULL_DIGITS = 17
_SMALLEST_NORMAL = 2.0**-1022  # below, a double has fewer digits


def round_trips(text: str, value: float) -> bool:
    """Whether the text, whose nearest double is `value`, is how programs write that double.

    >>> [round_trips(text, float(text)) for text in ("0.1", "0.10000000000000001", "0.100000000000000011")]
    [True, True, False]
    """
    if repr(value) == text or value == 0 or not math.isfinite(value):
        return True
    places = len(text.partition("e")[0].partition(".")[2])
    if places + 1 >= _FULL_DIGITS and f"{value:.{places}e}" == text:  # as numpy.savetxt writes it
        return True
    number = Decimal(text)
    digits = len(number.as_tuple().digits)
    if Decimal(repr(value)) == number:
        return True
    return digits >= _FULL_DIGITS and Context(prec=digits).plus(Decimal(value)) == number


def rounded(texts: pa.Array, codes: Codes) -> dict[int, str]:
    """Of distinct texts and the codes of their doubles, those that are not exact, and why not.

    Two numbers that are the same double cannot stand in one column: the first is taken. O(n), and a look at each
    text that is longer than 15 digits.
    """
    values = float_values(np.where(codes == NULL, 0, codes))
    long = np.asarray(pc.utf8_length(texts).to_numpy(zero_copy_only=False)) > _SAFE_DIGITS
    places = np.flatnonzero((codes != NULL) & (long | ((values != 0) & (np.abs(values) < _SMALLEST_NORMAL))))
    if not len(places):
        return {}
    reasons = dict.fromkeys(_not_round(texts.take(pa.array(places)), places, values[places]), _INEXACT)
    return reasons | _equal(texts, codes, reasons)


def _not_round(texts: pa.Array, places: Places, values: npt.NDArray[np.float64]) -> list[int]:
    """The places of texts that do not round-trip; those that Arrow writes in the same way need no closer look."""
    other = np.flatnonzero(pc.not_equal(pa.array(values).cast(pa.string()), texts).to_numpy(zero_copy_only=False))
    rest = zip(places[other].tolist(), texts.take(pa.array(other)).to_pylist(), values[other].tolist(), strict=True)
    return [place for place, text, value in rest if not round_trips(text, value)]


def _equal(texts: pa.Array, codes: Codes, known: dict[int, str]) -> dict[int, str]:
    """The texts whose double is that of an earlier text with another number. O(n log n)."""
    order = np.argsort(codes, kind="stable")
    same = np.flatnonzero(codes[order][1:] == codes[order][:-1])
    first: dict[int, str] = {}
    reasons: dict[int, str] = {}
    for i in order[np.unique(np.concatenate([same, same + 1]))].tolist():
        if codes[i] != NULL and i not in known:
            text = texts[i].as_py()
            earlier = first.setdefault(int(codes[i]), text)
            if not _same_number(earlier, text):
                reasons[i] = "is the same 64-bit float as another number of the column"
    return reasons


def _same_number(one: str, other: str) -> bool:
    special = any(not text.strip("-")[:1].isdigit() and text.strip("-")[:1] != "." for text in (one, other))
    zero = not any(digit in "123456789" for digit in one)
    return special or zero or Decimal(one) == Decimal(other)
