"""Codes have the order of the values, across kinds too; nothing is rounded."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import Location, SchemaError, ValueRefused
from holdfast.rules.operator import Op
from holdfast.table.compare import common_codes, comparable, mark
from holdfast.table.dictionary import NULL, TextDictionary
from holdfast.table.encode import decode_table, encode_table
from holdfast.table.fast_rows import FewRows
from holdfast.table.floats import float_codes, float_values
from holdfast.table.kind import Kind
from holdfast.table.parse import infer_column, parse_one, parse_strings
from holdfast.table.schema import Column, Schema
from tests import naive
from tests import strategies as hs
from tests.conftest import cases


def encode(column: Column, values: list[object], type_: pa.DataType | None = None, **options):
    table = pa.table({column.name: pa.array(values, type_ or hs.narrow_type(column))})
    return encode_table(Schema((column,)), table, TextDictionary(), **options)


def codes_of(column: Column, values: list[object]) -> np.ndarray:
    encoded = encode(column, values)
    encoded.require_clean(Location("test"))
    return encoded.codes[0]


def compare(op: Op, a: int, b: int) -> bool:
    return {Op.EQ: a == b, Op.NE: a != b, Op.LT: a < b, Op.LE: a <= b, Op.GT: a > b, Op.GE: a >= b}[op]


COLUMNS = [Column("a", k) for k in Kind if k is not Kind.DECIMAL] + [Column("a", Kind.DECIMAL, s) for s in (0, 1, 2)]


@pytest.mark.parametrize(("left", "right"), list(itertools.product(COLUMNS, COLUMNS)), ids=lambda c: c.type_text)
def test_codes_compare_as_values(left, right):
    """Every pair of values of every pair of kinds, under every operator that the kinds allow."""
    if not comparable(left, right):
        with pytest.raises(SchemaError, match="cannot be compared"):
            common_codes(left, np.array([0]), right, np.array([0]))
        return
    pairs = list(itertools.product(hs.pool(left), hs.pool(right)))
    dictionary = TextDictionary()
    schema = Schema((Column("l", left.kind, left.scale), Column("r", right.kind, right.scale)))
    rows = [{"l": a, "r": b} for a, b in pairs]
    encoded = encode_table(schema, hs.to_arrow(schema, rows), dictionary)
    a, b = common_codes(left, encoded.codes[0], right, encoded.codes[1])
    ops = list(Op) if left.kind.ordered else [Op.EQ, Op.NE]
    for i, (x, y) in enumerate(pairs):
        for op in ops:
            assert compare(op, a[i], b[i]) == naive.holds(op, x, y, "sql"), (op, x, y)


NUMBERS = [
    Column("a", Kind.INTEGER),
    Column("a", Kind.FLOAT),
    *(Column("a", Kind.DECIMAL, s) for s in (0, 1, 2, 9, 18)),
]
INTEGERS = st.one_of(
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.builds(lambda e, near, sign: sign * min(2**e + near, 2**63 - 1), st.integers(0, 63), st.integers(-3, 3),
              st.sampled_from([1, -1])),
)  # fmt: skip


def exactly(column: Column, code: int) -> Fraction | float:
    """The value of a code; infinities stand for themselves, NaN for what is above them."""
    if column.kind is not Kind.FLOAT:
        return Fraction(code, 10**column.scale)
    value = float(float_values(np.array([code]))[0])
    return Fraction(value) if math.isfinite(value) else math.inf if math.isnan(value) else value


@given(data=st.data(), left=st.sampled_from(NUMBERS), right=st.sampled_from(NUMBERS))
@settings(max_examples=cases(600))
def test_all_numbers_compare_as_fractions(data, left, right):
    """Every code of every numeric kind, up to 64 bits, with every other; and with what is next to it."""

    def code(column: Column, other: Column, near: int | None) -> int:
        if column.kind is not Kind.FLOAT:
            drawn = data.draw(INTEGERS) if near is None else round(exactly(other, near) * 10**column.scale)
            return max(-(2**63) + 1, min(2**63 - 1, drawn + data.draw(st.integers(-1, 1))))
        value = data.draw(st.floats(allow_nan=False)) if near is None else float(exactly(other, near))
        beside = math.nextafter(value, data.draw(st.sampled_from([value, -math.inf, math.inf])))
        return int(float_codes(np.array([beside]))[0])

    first = [code(left, right, None) for _ in range(4)]
    finite = [c for c in first if abs(exactly(left, c)) != math.inf]
    second = [code(right, left, near) for near in finite] + [code(right, left, None)]
    for a, b in itertools.product(first, second):
        one, other = common_codes(left, np.array([a, NULL]), right, np.array([b, NULL]))
        x, y = exactly(left, a), exactly(right, b)
        assert (one[0] < other[0], one[0] == other[0]) == (x < y, x == y), (x, y)
        assert one[1] == other[1] == NULL and NULL not in (one[0], other[0])


def test_nan_and_days_that_no_timestamp_reaches_are_above_everything():
    nan = float_codes(np.array([math.nan, -math.inf]))
    for column in NUMBERS:
        if column.kind is not Kind.FLOAT:
            most, above = common_codes(column, np.array([2**63 - 1, -(2**63) + 1]), Column("b", Kind.FLOAT), nan)
            assert most[0] < above[0] and most[1] > above[1]
    day, moment = Column("d", Kind.DATE), Column("t", Kind.TIMESTAMP)
    days, moments = common_codes(day, np.array([2**31 - 1, -(2**31)]), moment, np.array([2**63 - 1, -(2**63) + 1]))
    assert days[0] > moments[0] and days[1] < moments[1]


@given(table=hs.tables(rows=12))
@settings(max_examples=cases(200))
def test_decode_inverts_encode(table):
    schema, rows = table
    dictionary = TextDictionary()
    arrow = hs.to_arrow(schema, rows)
    encoded = encode_table(schema, arrow, dictionary)
    assert not encoded.problems
    back = decode_table(schema, encoded.codes, dictionary).to_pylist()
    for was, is_ in zip(rows, back, strict=True):
        for name in schema.names:
            both_null = was[name] is None and is_[name] is None
            assert both_null or (None not in (was[name], is_[name]) and naive.same(was[name], is_[name]))


def test_zoned_timestamps_are_instants():
    berlin = datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    column = Column("a", Kind.TIMESTAMP)
    zoned = encode(column, [berlin], pa.timestamp("us", tz="Europe/Berlin")).codes[0, 0]
    assert zoned == encode(column, [datetime(2020, 1, 1)], pa.timestamp("ms")).codes[0, 0]
    assert zoned == parse_one(column, "2020-01-01T01:00:00+01:00") == parse_one(column, "2020-01-01")


@pytest.mark.parametrize(
    ("column", "value", "type_", "reason"),
    [
        (Column("a", Kind.INTEGER), -(2**63), pa.int64(), "stands for null"),
        (Column("a", Kind.INTEGER), 2**63, pa.uint64(), "does not fit"),
        (Column("a", Kind.INTEGER), 1.5, pa.float64(), "is not a 64-bit integer"),
        (Column("a", Kind.INTEGER), math.nan, pa.float64(), "is not a 64-bit integer"),
        (Column("a", Kind.INTEGER), Decimal("1.5"), pa.decimal128(5, 1), "more than 0 decimal places"),
        (Column("a", Kind.DECIMAL, 2), Decimal("1e17"), pa.decimal128(38, 0), "does not fit 64 bits"),
        (Column("a", Kind.DECIMAL, 2), 2**62, pa.int64(), "does not fit 64 bits"),
        (Column("a", Kind.DECIMAL, 1), Decimal("1.25"), pa.decimal128(9, 2), "more than 1 decimal places"),
        (Column("a", Kind.DECIMAL, 1), 0.25, pa.float64(), "is not exactly a decimal with 1 places"),
        (Column("a", Kind.DECIMAL, 2), 0.1, pa.float64(), "is not exactly a decimal.*`--type a=float`"),
        (Column("a", Kind.DECIMAL, 2), 1e17, pa.float64(), "is not exactly a decimal with 2 places and 64 bits"),
        (Column("a", Kind.DECIMAL, 2), math.nan, pa.float64(), "is not exactly a decimal"),
        (Column("a", Kind.FLOAT), 2**53 + 1, pa.int64(), "no exact 64-bit float"),
        (Column("a", Kind.TIMESTAMP), 1, pa.timestamp("ns"), "finer than a microsecond"),
        (Column("a", Kind.TIMESTAMP), 2**60, pa.timestamp("s"), "out of range"),
    ],
    ids=lambda v: getattr(v, "type_text", None),
)
def test_values_without_a_code_are_refused_by_name(column, value, type_, reason):
    array = (
        pa.array([None, value], pa.int64()).cast(type_)
        if pa.types.is_timestamp(type_)
        else pa.array([None, value], type_)
    )
    encoded = encode_table(Schema((column,)), pa.table({"a": array}), TextDictionary())
    with pytest.raises(ValueRefused, match=rf"^here, row 2, column 'a': .*{reason}"):
        encoded.require_clean(Location("here"))
    assert encoded.codes[0].tolist() == [NULL, NULL]


@pytest.mark.parametrize(
    ("column", "type_"),
    [
        (Column("a", Kind.INTEGER), pa.string()),
        (Column("a", Kind.TEXT), pa.int64()),
        (Column("a", Kind.DECIMAL, 2), pa.bool_()),
        (Column("a", Kind.DATE), pa.timestamp("us")),
        (Column("a", Kind.BOOLEAN), pa.int8()),
    ],
    ids=lambda v: getattr(v, "type_text", str(v)),
)
def test_a_change_of_type_is_refused(column, type_):
    with pytest.raises(SchemaError, match=rf"'a' is {column.kind}.*but the input has the type"):
        encode(column, [], type_)


def test_whole_floats_and_integers_meet():
    assert encode(Column("a", Kind.INTEGER), [1.0, None, -0.0], pa.float64()).codes[0].tolist() == [1, NULL, 0]
    both = codes_of(Column("a", Kind.FLOAT), [1.0]), encode(Column("a", Kind.FLOAT), [1], pa.int64()).codes[0]
    assert both[0].tolist() == both[1].tolist()


def test_nulls_fit_every_kind_and_chunks_do_not_matter():
    for column in COLUMNS:
        assert encode(column, [None, None], pa.null()).codes[0].tolist() == [NULL, NULL]
    values = pa.chunked_array([pa.array(["x", "y"]), pa.array([], pa.string()), pa.array(["y", None, "x"])])
    table = pa.table({"a": values, "b": values.dictionary_encode(), "c": values.cast(pa.string_view())})
    encoded = encode_table(Schema.of(a="text", b="text", c="text"), table, TextDictionary())
    assert encoded.codes.tolist() == [[0, 1, 1, NULL, 0]] * 3


# --- the text dictionary --------------------------------------------------------------------------------------


@given(
    texts=st.lists(st.sampled_from(["x", "y", "", "z", None]), max_size=12),
    more=st.lists(st.sampled_from(["u", "x"]), max_size=3),
)
def test_categories_are_encoded_like_texts(texts, more):
    """The same codes in the same order, and no word that does not occur."""
    categories = pa.array(list(dict.fromkeys([*more, *(t for t in reversed(texts) if t is not None)])), pa.string())
    places = {text: i for i, text in enumerate(categories.to_pylist())}
    indices = pa.array([None if t is None else places[t] for t in texts], pa.int8())
    plain, coded = TextDictionary(), TextDictionary()
    schema = Schema((Column("c", Kind.TEXT),))
    expected = encode_table(schema, pa.table({"c": pa.array(texts, pa.string())}), plain).codes
    found = encode_table(schema, pa.table({"c": pa.DictionaryArray.from_arrays(indices, categories)}), coded).codes
    assert found.tolist() == expected.tolist() and coded.strings().to_pylist() == plain.strings().to_pylist()


@given(batches=st.lists(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=30), max_size=6))
@settings(max_examples=cases(100))
def test_the_dictionary_is_a_dictionary(batches):
    dictionary, model = TextDictionary(), {}
    for batch in batches:
        before = len(dictionary)
        codes = dictionary.encode(pa.array(batch, pa.string()))
        for text in batch:
            if text is not None:
                model.setdefault(text, len(model))
        assert codes.tolist() == [NULL if text is None else model[text] for text in batch]
        copy = TextDictionary.from_arrays(dictionary.to_arrays(0, before))
        copy.merge(dictionary.to_arrays(before))
        assert copy.strings().to_pylist() == list(model)
        copy._check()
    dictionary._check()
    assert [dictionary.find(text) for text in model] == list(range(len(model)))
    assert dictionary.find("nowhere to be found") is None and len(dictionary) == len(model)
    dictionary.truncate(len(model) // 2)
    dictionary._check()
    assert dictionary.strings().to_pylist() == list(model)[: len(model) // 2]


def test_the_dictionary_grows_and_reads_slices():
    texts = [f"{'long ' * (i % 9)}{i}" for i in range(5000)]
    dictionary = TextDictionary()
    dictionary.encode(pa.array(texts)[4000:])
    assert dictionary.encode(pa.array(texts)[4000:4003]).tolist() == [0, 1, 2]
    assert dictionary.decode(np.array([999, NULL, 0])).to_pylist() == [texts[4999], None, texts[4000]]


# --- text to kinds --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-20", "0"], "integer"),
        (["01", "2"], "text"),
        (["+1"], "text"),
        (["1.50", "2", "-0.125"], "decimal(3)"),
        (["1.5", "1e3"], "float"),
        (["NaN", "1"], "float"),
        (["2020-01-31", "1969-12-31"], "date"),
        (["2020-02-30"], "text"),
        (["2020-01-31", "2020-01-31T10:00:00Z"], "timestamp"),
        (["2020-01-31 10:00", "2020-01-31T10:00:00.123456+02:00"], "timestamp"),
        (["true", "FALSE"], "boolean"),
        (["true", "yes"], "text"),
        ([None, None], "text"),
        ([], "text"),
        (["1", "x"], "text"),
        (["12345678901234567890"], "integer"),  # does not fit: refused when read, never rounded
        (["0.12345678901234567891", "5"], "float"),
        (["1000.5", "0.1234567890123456789"], "float"),
        (["0.10000000000000000001", "0.1"], "float"),  # not exactly: refused when read
    ],
)
def test_kinds_are_inferred_from_all_values(values, expected):
    assert infer_column("a", pa.chunked_array([pa.array(values, pa.string())])).type_text == expected


@given(data=st.data(), column=st.sampled_from([c for c in COLUMNS if c.kind is not Kind.TEXT]))
@settings(max_examples=cases(300))
def test_whole_columns_parse_as_single_values_do(data, column):
    parts = st.sampled_from(
        [
            "1",
            "-1",
            "0.5",
            "1.25",
            "1.0",
            "-7.00",
            "007",
            "1e3",
            "nan",
            "true",
            "2020-01-01",
            "2020-13-01",
            "x",
            "",
            "2020-01-01T00:00:00Z",
            "2020-01-01 23:59",
            "9" * 19,
            "-9223372036854775808",
            "1" * 40,
        ]
    )
    texts = data.draw(st.lists(st.one_of(parts, st.none()), max_size=6))
    codes, reasons = parse_strings(column, pa.array(texts, pa.string()), rounding=True)
    for i, text in enumerate(texts):
        try:
            expected = NULL if text is None else parse_one(column, text)
        except ValueError as error:
            assert reasons[i] == str(error) and codes[i] == NULL
        else:
            assert codes[i] == expected and i not in reasons


def float_texts() -> st.SearchStrategy[str]:
    """Numbers as programs write doubles, and near misses of them."""
    doubles = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.1, 1e23, 5e-324, 2.0**53]))
    styles = st.sampled_from(["%r", "%.15g", "%.16e", "%.17g", "%.18e", "%.25e", "%.20f", "%.3f"])
    written = st.builds(lambda style, value: style % value, styles, doubles)
    digits = st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?(e-?[0-9]{1,2})?", fullmatch=True)
    return st.one_of(written, digits, st.sampled_from(["12345678901234567.81", "12345678901234567.82", "4e-324"]))


@given(texts=st.lists(float_texts(), max_size=8), cut=st.integers(0, 8))
@settings(max_examples=cases(400))
def test_only_what_a_float_stands_for_is_read_as_one(texts, cut):
    """Every number round-trips, and equal codes are equal numbers, wherever the chunks of the column end."""
    column, chunks = Column("a", Kind.FLOAT), [pa.array(part, pa.string()) for part in (texts[:cut], texts[cut:])]
    codes, reasons = parse_strings(column, pa.chunked_array(chunks))
    read: dict[int, str] = {}
    for i, text in enumerate(texts):
        lost = math.isinf(float(text)) or (float(text) == 0 and Fraction(text) != 0)
        taken = read.setdefault(int(codes[i]), text) if codes[i] != NULL else None
        if taken is not None:
            assert i not in reasons and naive.round_trips(text) and Fraction(text) == Fraction(taken)
            assert codes[i] == parse_one(column, text)
        elif lost or not naive.round_trips(text):
            assert ("is too large or too small" if lost else "is not exactly a 64-bit float; read it as") in reasons[i]
        else:
            twin = read[parse_one(column, text)]
            assert twin and "is the same 64-bit float as another number of the column; read it as" in reasons[i]
            assert Fraction(twin) != Fraction(text)


def test_floats_as_numpy_writes_them_are_floats():
    values = np.random.default_rng(7).normal(size=300) * 10.0 ** np.arange(-150, 150)
    for style in ("%.18e", "%.17g", "%r"):
        texts = [style % value for value in values.tolist()]
        assert infer_column("a", pa.chunked_array([texts])).type_text == "float"
        codes, reasons = parse_strings(Column("a", Kind.FLOAT), pa.array(texts))
        assert not reasons and codes.tolist() == codes_of(Column("a", Kind.FLOAT), values.tolist()).tolist()


# --- literals -------------------------------------------------------------------------------------------------


@given(data=st.data(), column=st.sampled_from(COLUMNS))
@settings(max_examples=cases(300))
def test_a_literal_stands_where_its_value_stands(data, column):
    value, literal = data.draw(st.sampled_from(hs.pool(column))), data.draw(hs.literals(column))
    dictionary = TextDictionary()
    code = encode_table(
        Schema((column,)), pa.table({"a": pa.array([value], hs.narrow_type(column))}), dictionary
    ).codes[0, 0]
    place = mark(column, literal, dictionary)
    other = float(literal) if column.kind is Kind.FLOAT else literal
    for op in Op if column.kind.ordered else (Op.EQ, Op.NE):
        if place.exact:
            found = compare(op, code, place.code)
        else:
            found = {Op.EQ: False, Op.NE: True}.get(op, compare(op, code, place.code + 0.5))
        assert found == naive.holds(op, value, other, "sql")


def test_dates_far_away_are_exact():
    days = codes_of(Column("a", Kind.DATE), [date(1, 1, 1), date(9999, 12, 31)])
    assert days.tolist() == [-719162, 2932896]
    assert parse_one(Column("a", Kind.TIMESTAMP), "0001-01-01") == -719162 * 86_400_000_000
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=int(days[1])) == datetime(9999, 12, 31, tzinfo=UTC)


# --- a few rows of Python values ------------------------------------------------------------------------------


@given(data=st.data())
@settings(max_examples=cases(300))
def test_a_few_rows_are_encoded_as_tables_are(data):
    """Plain values through either door: the same codes, and the same texts behind the codes of text."""
    schema, rows = data.draw(hs.tables(rows=6))
    tuples = [tuple(row[name] for name in schema.names) for row in rows]
    dictionary = TextDictionary()
    codes = FewRows(schema, dictionary).encode(tuples)
    assert codes is not None and codes.flags.c_contiguous
    expected = encode_table(schema, hs.to_arrow(schema, rows), TextDictionary())
    for i, column in enumerate(schema.columns):
        if column.kind is not Kind.TEXT:
            assert codes[i].tolist() == expected.codes[i].tolist()
    assert decode_table(schema, codes, dictionary).column_names == list(schema.names)
    texts = [i for i, column in enumerate(schema.columns) if column.kind is Kind.TEXT]
    for i in texts:
        assert dictionary.decode(codes[i]).to_pylist() == [row[i] for row in tuples]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("integer", "1"), ("integer", True), ("integer", 1.0), ("integer", 2**63), ("integer", -(2**63)),
        ("decimal(1)", Decimal("0.15")), ("decimal(1)", Decimal("1e40")), ("decimal(1)", Decimal("NaN")),
        ("decimal(1)", 1),
        ("float", 1), ("date", datetime(2020, 1, 1)), ("timestamp", date(2020, 1, 1)), ("boolean", 1), ("text", 1),
        ("text", "\ud800"), ("decimal(0)", Decimal("1." + "0" * 40 + "1")),
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_the_general_encoder(type_, value):
    dictionary = TextDictionary()
    assert FewRows(Schema.of(a=type_, b="text"), dictionary).encode([(value, "x")]) is None and len(dictionary) == 0


def test_a_huge_float_in_a_decimal_column_is_refused_without_a_warning():
    column = Column("a", Kind.DECIMAL, 18)
    encoded = encode_table(Schema((column,)), pa.table({"a": [6.8e302]}), TextDictionary())
    assert "is not exactly a decimal with 18 places" in str(encoded.problems[0])
