"""Which decimal texts a 64-bit float represents without loss.

Almost no decimal fraction is exactly a double, so "exact" means that the text survives a round trip: it is the
shortest text of its double, or the double's value correctly rounded to the digits written (at least 17). Texts of up
to 15 digits always survive and are not tested one by one.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.arrays import Floats, Positions, numpy_of
from holdfast.table.dictionary import NULL, Codes
from holdfast.table.floats import float_values
from holdfast.table.schema import Refusals

_INEXACT = "is not exactly a 64-bit float"
_SAFE_DIGITS = 15  # every such number survives a round trip
_FULL_DIGITS = 17  # identify a double
_SMALLEST_NORMAL = 2.0**-1022  # smaller doubles have fewer digits


def round_trips(text: str, value: float) -> bool:
    """Whether programs write the double `value`, which is nearest to the text, as this text.

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


def rounded(texts: pa.Array, codes: Codes) -> Refusals:
    """Refusals of the texts that are not exactly their double. The texts are distinct.

    Of two different numbers with the same double, the second is refused. O(n log n); only texts of more than 15
    digits are tested one by one.
    """
    values = float_values(np.where(codes == NULL, 0, codes))
    long = numpy_of(pc.utf8_length(texts)) > _SAFE_DIGITS
    places = np.flatnonzero((codes != NULL) & (long | ((values != 0) & (np.abs(values) < _SMALLEST_NORMAL))))
    if not len(places):
        return {}
    inexact = dict.fromkeys(_without_round_trip(texts.take(pa.array(places)), places, values[places]), _INEXACT)
    return inexact | _collisions(texts, codes, inexact)


def _without_round_trip(texts: pa.Array, places: Positions, values: Floats) -> list[int]:
    """The places of texts that do not survive a round trip. Texts that Arrow writes identically do."""
    differs = np.flatnonzero(numpy_of(pc.not_equal(pa.array(values).cast(pa.string()), texts)))
    suspects = (places[differs].tolist(), texts.take(pa.array(differs)).to_pylist(), values[differs].tolist())
    return [place for place, text, value in zip(*suspects, strict=True) if not round_trips(text, value)]


def _collisions(texts: pa.Array, codes: Codes, refused: Refusals) -> Refusals:
    """Refusals of texts whose double is that of an earlier, different number. O(n log n)."""
    order = np.argsort(codes, kind="stable")
    same = np.flatnonzero(codes[order][1:] == codes[order][:-1])
    first: dict[int, str] = {}
    collisions: Refusals = {}
    for i in order[np.unique(np.concatenate([same, same + 1]))].tolist():
        if codes[i] != NULL and i not in refused:
            text = texts[i].as_py()
            earlier = first.setdefault(int(codes[i]), text)
            if not _is_same_number(earlier, text):
                collisions[i] = "is the same 64-bit float as another number of the column"
    return collisions


def _is_same_number(left: str, right: str) -> bool:
    """Whether two texts with the same double are the same number; NaN, infinity and zero are."""
    is_special = any(not text.strip("-")[:1].isdigit() and text.strip("-")[:1] != "." for text in (left, right))
    is_zero = not any(digit in "123456789" for digit in left)
    return is_special or is_zero or Decimal(left) == Decimal(right)
