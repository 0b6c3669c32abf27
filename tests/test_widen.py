"""Columns widen exactly as far as the numbers of a change need and 64 bits allow."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import Location
from holdfast.table.dictionary import NULL, TextDictionary
from holdfast.table.encode import encode_table
from holdfast.table.schema import Schema, column_of_type_text
from holdfast.table.source import RowsSource, Source
from holdfast.table.widen import rescaled, widened
from tests.conftest import cases

LARGEST = 2**63 - 1
TYPES = ["integer", "decimal(0)", "decimal(1)", "decimal(3)", "decimal(18)"]


def decimals() -> st.SearchStrategy[Decimal]:
    digits = st.one_of(st.integers(-9999, 9999), st.integers(-(10**20), 10**20), st.sampled_from([LARGEST, -LARGEST]))
    return st.builds(lambda n, places: Decimal(n).scaleb(-places), digits, st.integers(0, 20))


def numbers_of(form: str) -> st.SearchStrategy[object]:
    if form != "floats":
        return decimals()
    halves = st.builds(lambda m, k: math.ldexp(m, -k), st.integers(-(2**40), 2**40), st.integers(0, 22))
    return st.one_of(halves, st.floats(), st.sampled_from([0.1, 1e300, math.nan, 2.0**63]))


def source_of(form: str, values: list[object]) -> Source:
    if form == "text":
        texts = [None if v is None else f"{v:f}" for v in values]
        return Source("t", pa.table({"a": pa.array(texts, pa.string())}), Location("t"), textual=True)
    if form == "rows":
        return RowsSource("t", [(v,) for v in values], ["a"], Location("t"))
    type_ = pa.decimal256(76, 22) if form == "decimals" else pa.float64()
    return Source("t", pa.table({"a": pa.array(values, type_)}), Location("t"))


def places_of(number: Fraction) -> int:
    return next((n for n in range(2000) if (number * 10**n).denominator == 1), 2000)


def best_scale(scale: int, numbers: list[Fraction]) -> int:
    """By trying all scales, the most places first: every number that it has room for, and that fits alone, fits."""
    alone = [n for n in numbers if places_of(n) <= 18 and abs(n) * 10 ** max(scale, places_of(n)) <= LARGEST]
    for wider in sorted({places_of(n) for n in alone if places_of(n) > scale}, reverse=True):
        if all(abs(n) * 10**wider <= LARGEST for n in alone if places_of(n) <= wider):
            return wider
    return scale


@pytest.mark.parametrize("form", ["text", "decimals", "floats", "rows"])
@example(type_="integer", data=None)
@given(type_=st.sampled_from(TYPES), data=st.data())
@settings(max_examples=cases(150))
def test_columns_widen_as_far_as_their_numbers_need(form, type_, data):
    numbers = st.lists(st.one_of(st.none(), numbers_of(form)), max_size=6)
    values = data.draw(numbers) if data is not None else [None]
    column = column_of_type_text("a", type_)
    exact = [Fraction(v) for v in values if v is not None and math.isfinite(v)]
    best = best_scale(column.scale, exact)
    found = widened(Schema((column,)), source_of(form, values), ())
    assert found == ({} if best == column.scale else {"a": f"decimal({best})"})
    assert widened(Schema((column,)), source_of(form, values), ["a"]) == {}
    if form != "rows":
        holds_exactly(column_of_type_text("a", found.get("a", type_)), source_of(form, values), values)


def holds_exactly(column, source: Source, values: list[object]) -> None:
    """What the encoder takes is exact, and it takes all that fits."""
    encoded = encode_table(Schema((column,)), source.table, TextDictionary(), textual=source.textual)
    refused = {problem.row for problem in encoded.problems}
    for row, (value, code) in enumerate(zip(values, encoded.codes[0].tolist(), strict=True)):
        exact = None if value is None or not math.isfinite(value) else Fraction(value) * 10**column.scale
        fits = exact is not None and exact.denominator == 1 and abs(exact) <= LARGEST
        assert (code == exact and row not in refused) if fits else code == NULL and (value is None) != (row in refused)


def test_what_fits_is_not_looked_at_twice(monkeypatch):
    """Neither trailing zeros nor the scale of a type are places."""
    monkeypatch.setattr("holdfast.table.widen._scale", None)
    schema = Schema.of(a="decimal(1)", b="integer", c="integer", d="text", e="float", f="decimal(2)")
    texts = pa.table({"a": ["1.500", "-2", None], "b": ["1.000", "7", ""], "d": ["0.125"] * 3, "e": ["0.125"] * 3})
    assert widened(schema, Source("t", texts, Location("t"), textual=True), ()) == {}
    typed = pa.table({"a": pa.array([Decimal("1.50")], pa.decimal128(9, 2)), "b": [1.0], "c": [7], "f": [0.25]})
    assert widened(schema, Source("t", typed, Location("t")), ()) == {}
    rows = RowsSource("t", [(Decimal("1.50"), 2.0), {"a": 7, "b": math.nan}, "no row"], ["a", "b"], Location("t"))
    assert widened(schema, rows, ()) == {}


def test_text_that_is_no_number_widens_nothing():
    source = Source("t", pa.table({"a": ["x.255", "1e-5", "0.5.5", "01.25"]}), Location("t"), textual=True)
    assert widened(Schema.of(a="integer"), source, ()) == {}


@given(
    codes=st.lists(st.one_of(st.just(NULL), st.integers(-LARGEST, LARGEST), st.integers(-99, 99)), max_size=5),
    places=st.integers(0, 18),
)
@settings(max_examples=cases(200))
def test_rescaled_codes_are_the_same_values(codes, places):
    made = rescaled(np.array(codes, np.int64), places)
    fits = all(code == NULL or abs(code) * 10**places <= LARGEST for code in codes)
    assert (made is not None) == fits
    if made is not None:
        assert made.tolist() == [code if code == NULL else code * 10**places for code in codes]
