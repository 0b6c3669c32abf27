"""Readers, kinds of files, and every bad input named in the bad-input list."""

from __future__ import annotations

import gzip
import json
import re
from datetime import date
from decimal import Decimal

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import Change, HoldfastError, Rulebook, RuleEntry, check, discover
from holdfast.table.change import read_feed
from holdfast.table.dictionary import TextDictionary
from holdfast.table.encode import encode_table
from holdfast.table.json_depth import require_shallow
from holdfast.table.read import read, read_all, schema_of
from tests.conftest import cases

FRAME = pa.table({"id": [1, 2], "name": ["x", None], "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
                  "day": [date(2020, 1, 1), None]})  # fmt: skip


def shape(data, **options) -> tuple[list[str], list[dict]]:
    book = Rulebook.create(None, data, **options)
    (schema,) = book.schemas.values()
    return [c.type_text for c in schema.columns], book.table().to_pylist()


EXPECTED = (["integer", "text", "decimal(2)", "date"], FRAME.to_pylist())


def test_frames_of_every_library(tmp_path):
    duck = duckdb.connect()
    duck.register("frame", FRAME)
    assert shape(FRAME) == EXPECTED
    assert shape(FRAME.to_batches()[0]) == EXPECTED
    assert shape(FRAME.to_reader()) == EXPECTED
    assert shape(pl.from_arrow(FRAME)) == EXPECTED
    assert shape(pl.from_arrow(FRAME).lazy()) == EXPECTED
    assert shape(duck.sql("select * from frame")) == EXPECTED
    kinds, rows = shape(FRAME.to_pandas())
    assert kinds == EXPECTED[0] and rows == EXPECTED[1]


def test_pandas_nan_is_null_and_categories_are_text():
    frame = pd.DataFrame({"a": [1.0, None], "b": pd.Categorical(["x", "y"])}, index=[7, 8])
    assert shape(frame) == (["float", "text"], [{"a": 1.0, "b": "x"}, {"a": None, "b": "y"}])


@pytest.mark.spark
def test_spark_frames(spark):
    kinds, rows = shape(spark.createDataFrame(FRAME))
    assert (kinds, rows) == EXPECTED


def test_files_of_every_kind(tmp_path):
    pyarrow.parquet.write_table(FRAME, tmp_path / "a.parquet")
    pyarrow.feather.write_feather(FRAME, tmp_path / "a.arrow", compression="uncompressed")
    (tmp_path / "a.csv").write_text("id,name,price,day\n1,x,1.50,2020-01-01\n2,,,\n")
    (tmp_path / "a.jsonl").write_text('{"id": 1, "name": "x"}\n{"id": 2, "name": null}\n')
    assert shape(tmp_path / "a.parquet") == EXPECTED
    assert shape(tmp_path / "a.arrow") == EXPECTED
    kinds, rows = shape(tmp_path / "a.csv")  # a CSV says only as many decimals as it needs
    assert kinds == ["integer", "text", "decimal(1)", "date"] and rows[0]["price"] == Decimal("1.5")
    assert shape(tmp_path / "a.jsonl") == (["integer", "text"], [{"id": 1, "name": "x"}, {"id": 2, "name": None}])


def test_types_override_what_was_inferred(tmp_path):
    (tmp_path / "a.csv").write_text("zip,n\n10115,1.5\n")
    assert shape(tmp_path / "a.csv", types={"zip": "text", "n": "float"}) == (
        ["text", "float"],
        [{"zip": "10115", "n": 1.5}],
    )
    assert shape(pa.table({"zip": [10115]}), types={"zip": "text"}) == (["text"], [{"zip": "10115"}])
    assert shape(tmp_path / "a.csv", types={"n": "decimal"})[0] == ["integer", "decimal(1)"]
    book = Rulebook.create(None, pa.table({"zip": [10115]}), types={"zip": "text"})
    book.apply(Change(inserts=pa.table({"zip": [20095]})))
    assert book.table().to_pylist() == [{"zip": "10115"}, {"zip": "20095"}]


def test_embedded_newlines_quotes_and_byte_order_marks(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbfid,"na,me"\r\n1,"a\nb"\r\n2,"say ""hi"""\r\n')
    assert shape(tmp_path / "a.csv")[1] == [{"id": 1, "na,me": "a\nb"}, {"id": 2, "na,me": 'say "hi"'}]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b'"a\nb",c\n1,2\n', [{"a\nb": 1, "c": 2}]),
        (b'\xef\xbb\xbf"a\r\nb"\r\n1\r\n\r\n2\r\n', [{"a\r\nb": 1}, {"a\r\nb": None}, {"a\r\nb": 2}]),
        (b'"a ""x"", y"\n1\n', [{'a "x", y': 1}]),
        (b",b, \n1,2,3\n", [{"column_1": 1, "b": 2, "column_3": 3}]),
        (b'""\n1\n', [{"column_1": 1}]),
        (b"a,b\n1,2\n\n3,4", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
        (b"a,b", []),
        (b"\xef\xbb\xbfa,b\n", []),
        (b"1,2\n3,4\n", [{"1": 3, "2": 4}]),
    ],
)
def test_header_and_rows_are_read_by_one_parser(tmp_path, content, rows):
    """A line break in a quoted name is part of the name; no row begins inside the header."""
    (tmp_path / "a.csv").write_bytes(content)
    assert shape(tmp_path / "a.csv")[1] == rows


def test_headers_and_rows_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.table.read_csv._HEADER_BLOCKS", (64, 1 << 20))
    monkeypatch.setattr("holdfast.table.read_csv._BLOCKS", (64, 1 << 20))
    name, text = "n" * 1000, "line\n" * 1000
    (tmp_path / "a.csv").write_text(f'"{name}",b\n1,"{text}"\n2,x\n')
    assert shape(tmp_path / "a.csv")[1] == [{name: 1, "b": text}, {name: 2, "b": "x"}]
    monkeypatch.setattr("holdfast.table.read_csv._BLOCKS", (64,))
    refused("a.csv: a row is longer than 64 bytes; is there a quote that is never closed", tmp_path / "a.csv")


def test_headers_that_are_none(tmp_path):
    for content, message in [
        (b"\xef\xbb\xbf", "a.csv: the file is empty; a CSV file begins with a header"),
        (b"\na,b\n1,2\n", "a.csv, line 1: the line is empty; a CSV file begins with a header"),
        (b'a,"b\n1,2\n', "a.csv, line 1: the header does not end; is there a quote that is never closed"),
        (b",column_1\n1,2\n", "a.csv: column 'column_1' stands twice in the header"),
    ]:
        (tmp_path / "a.csv").write_bytes(content)
        refused(message, tmp_path / "a.csv")


def test_tables_are_named_by_their_file(tmp_path):
    (tmp_path / "orders.csv").write_text("a\n1\n")
    assert list(read_all(tmp_path / "orders.csv")) == ["orders"]
    assert list(read_all({"x": tmp_path / "orders.csv"})) == ["x"]
    assert read(FRAME).name == "data"


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_a_check_reads_only_what_it_needs(tmp_path, suffix):
    """Columns of rules, filters, keys and types; a misspelt column is compared with all names."""
    columns = {"id": [1, 2], "zip": ["a", "a"], "city": ["x", "y"], "note": ["p", None], "kind": [1, 2]}
    table, path = pa.table(columns), tmp_path / f"people{suffix}"
    if suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    filtered = RuleEntry.model_validate({"id": "r", "rule": "zip -> city", "filter": "t.kind < 9"})
    for data, rules, options, names in [
        (path, ["zip -> city"], {}, ("zip", "city")),
        (path, ["zip -> city"], {"key": "id"}, ("id", "zip", "city")),
        (path, [filtered], {"types": {"note": "text"}}, ("zip", "city", "note", "kind")),
        ({"a": path, "b": path}, ["a.zip in b.city", "b: key(id)"], {}, ("zip",)),
        (path, ["key(zip)"], {"columns": ["zip", "note"]}, ("zip", "note")),
    ]:
        found = check(data, rules, **options)
        assert next(iter(found.book.schemas.values())).names == names
        assert found.count(rules[0].id if isinstance(rules[0], RuleEntry) else rules[0]) == 2
    with pytest.raises(HoldfastError, match=r"'notes'.*'note'"):
        check(path, ["zip -> notes"])


# --- things that are unusual and fine -------------------------------------------------------------------------


def test_empty_tables_null_columns_and_one_row(tmp_path):
    (tmp_path / "empty.csv").write_text("a,b\n")
    assert shape(tmp_path / "empty.csv") == (["text", "text"], [])
    (tmp_path / "nulls.csv").write_text("a,b\n,1\n,2\n")
    assert shape(tmp_path / "nulls.csv")[0] == ["text", "integer"]
    assert shape(pa.table({"a": pa.nulls(2)}))[1] == [{"a": None}, {"a": None}]


def test_ten_thousand_columns(tmp_path):
    wide = pa.table({f"c{i}": [i, None] for i in range(10_000)})
    book = Rulebook.create(tmp_path / "b", wide)
    book.apply(Change(inserts=wide))
    assert Rulebook.open(tmp_path / "b").count() == 4


NAMES = ["with space", 'quo"te', "it's", "back`tick", "größe", "select", "t", "and", "a.b", "a/b", "名前", " "]


def test_odd_names_everywhere(tmp_path):
    table = pa.table({name: [1, 2] for name in NAMES})
    tables = dict.fromkeys(NAMES, table)
    rules = [f"`{name.replace('`', '``')}`: key(`{name.replace('`', '``')}`)" for name in NAMES]
    Rulebook.create(tmp_path / "book", tables, rules=rules, key="it's").close()
    book = Rulebook.open(tmp_path / "book")
    book.apply(
        [
            Change(inserts=pa.table({n: [3] for n in NAMES}), table="a/b"),
            Change(deletes=pa.table({"it's": [1]}), table=" "),
        ]
    )
    again = Rulebook.open(tmp_path / "book")
    assert [again.count(name) for name in ("a/b", " ", "t")] == [3, 1, 2]
    assert len(again.rules()) == len(NAMES)


# --- bad input ------------------------------------------------------------------------------------------------


def refused(message: str, data, **options):
    with pytest.raises(HoldfastError, match=message):
        Rulebook.create(None, data, **options)


def test_unreadable_files(tmp_path):
    refused("none.csv: there is no such file", tmp_path / "none.csv")
    (tmp_path / "a.xyz").write_text("a\n")
    refused("a.xyz: the name does not end in one of", tmp_path / "a.xyz")
    (tmp_path / "bad.parquet").write_bytes(b"not parquet")
    refused("bad.parquet: ", tmp_path / "bad.parquet")
    (tmp_path / "zipped.csv").write_bytes(gzip.compress(b"a\n1\n"))
    refused("zipped.csv, line 1.*not UTF-8", tmp_path / "zipped.csv")
    (tmp_path / "none.csv").write_text("")
    refused("none.csv: the file is empty", tmp_path / "none.csv")
    (tmp_path / "b.jsonl").write_text('{"a": 1}\n{"a": \n')
    refused("b.jsonl: ", tmp_path / "b.jsonl")
    (tmp_path / "nested.jsonl").write_text('{"a": {"b": 1}}\n')
    refused("nested.jsonl: column 'a' has the type struct", tmp_path / "nested.jsonl")


def deep(levels: int) -> str:
    return '{"a": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}\n"


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_json_that_is_nested_too_deep_is_refused_before_a_parser_sees_it(tmp_path, name):
    (tmp_path / name).write_text('{"a": 1}\n{"a": "]"}\n' + deep(100_000))
    refused(rf"{name}, line 3: nested more than 64 levels deep", tmp_path / name)
    (tmp_path / name).write_text('{"_change_type": "insert", "id": 1}\n' + deep(100_000))
    with pytest.raises(HoldfastError, match=rf"{name}, line 2: nested more than 64 levels deep"):
        read_feed(tmp_path / name)


STRINGS = st.text('[]{}"\\\n x', max_size=6)
NESTED = st.recursive(
    st.one_of(st.integers(), STRINGS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(STRINGS, inner, max_size=2)),
    max_leaves=8,
)


@example(lines=[1, '"[["', ["x"]], deepest=1, at_once=1)
@given(lines=st.lists(NESTED, max_size=4), deepest=st.integers(0, 4), at_once=st.sampled_from([1, 1 << 24]))
@settings(max_examples=cases(200))
def test_depth_is_counted_outside_of_strings(tmp_path_factory, lines, deepest, at_once):
    def depth(value: object) -> int:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return 1 + max(map(depth, parts), default=0) if isinstance(value, list | dict) else 0

    path = tmp_path_factory.mktemp("json") / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    first = next((i for i, line in enumerate(lines, start=1) if depth(line) > deepest), None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.table.json_depth._BLOCK_BYTES", at_once)
        if first is None:
            require_shallow(path, deepest)
        else:
            with pytest.raises(HoldfastError, match=rf"line {first}: nested more than {deepest} levels deep"):
                require_shallow(path, deepest)


def test_a_string_without_end_hides_no_depth(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": "x\n' + deep(100_000) + '"}\n')
    refused("a.jsonl, line 2: nested more than 64 levels", tmp_path / "a.jsonl")


def test_files_that_are_cut_off(tmp_path):
    """Wherever: an error with the file's name in one line, or, where the end does not matter, the table."""
    pyarrow.parquet.write_table(FRAME, tmp_path / "whole.parquet")
    pyarrow.feather.write_feather(FRAME, tmp_path / "whole.arrow", compression="uncompressed")
    (tmp_path / "whole.jsonl").write_text('{"id": 1, "name": "x"}\n{"id": 2, "name": "y"}\n')
    for kind in ("parquet", "arrow", "jsonl"):
        content = (tmp_path / f"whole.{kind}").read_bytes()
        for length in range(0, len(content), 7):
            (tmp_path / f"cut.{kind}").write_bytes(content[:length])
            try:
                read(tmp_path / f"cut.{kind}")
            except HoldfastError as error:
                assert f"cut.{kind}" in str(error) and "\n" not in str(error)


@pytest.mark.parametrize("error", [pa.ArrowNotImplementedError, pa.ArrowMemoryError, pa.ArrowTypeError, OverflowError])
def test_whatever_arrow_says_names_the_file(tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error("two\nlines")

    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    monkeypatch.setattr("pyarrow.json.read_json", fail)
    refused("a.jsonl: two lines$", tmp_path / "a.jsonl")


def test_run_ends_are_decoded_wherever_they_come_from(tmp_path):
    def runs(values, type_=None):
        return pyarrow.compute.run_end_encode(pa.array(values, type_))

    plain = pa.table({"id": [1, 1, 2, None], "name": ["x", "x", None, "y"], "n": ["5", "5", "6", None]})
    table = pa.table({name: runs(plain.column(name).to_pylist()) for name in plain.column_names})
    pieces = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array(["p", None]).dictionary_encode())
    table, plain = table.append_column("few", pieces), plain.append_column("few", pa.array(["p", "p", None, None]))
    pyarrow.feather.write_feather(table.drop_columns(["few"]), tmp_path / "a.arrow", compression="uncompressed")
    for types in (None, {"n": "integer"}, {"n": "decimal"}, {"id": "text"}):
        assert shape(table, types=types) == shape(plain, types=types)
        assert shape(table.slice(1, 2), types=types) == shape(plain.slice(1, 2), types=types)
        assert shape(tmp_path / "a.arrow", types=types) == shape(plain.drop_columns(["few"]), types=types)
    book = Rulebook.create(None, plain, key=None)
    book.apply(Change(inserts=table, deletes=table.slice(0, 1)))
    assert book.count() == 7
    encoded = encode_table(schema_of(read(plain)), table, TextDictionary())
    assert encoded.codes.tolist() == encode_table(schema_of(read(plain)), plain, TextDictionary()).codes.tolist()
    refused("column 'a' has the type list", pa.table({"a": pa.RunEndEncodedArray.from_arrays([1], [[1]])}))


def test_more_columns_than_rules_are_found_among(tmp_path):
    wide = pa.table({f"c{i}": [i, 1] for i in range(5000)})
    message = "has 5,000 columns, and rules are found among at most 4,096; choose some with columns= \\(--columns\\)"
    refused(message, {"w": wide}, kinds=("fd",))
    with pytest.raises(HoldfastError, match=message):
        discover(wide)
    assert len(discover(wide, ("key",), columns=["c0", "c2"])) == 2
    halves = {str(i): wide.select(range(4000)) for i in range(3)}
    refused("the tables have 12,000 columns, and inclusions are found among at most 8,192", halves, kinds=("ind",))


def test_a_search_that_memory_does_not_suffice_for(monkeypatch):
    def fail(*_, **__):
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr("holdfast.discovery.database.DatabaseRules.begin", fail)
    message = "memory does not suffice for the rules of 4 columns .*columns= "
    with pytest.raises(HoldfastError, match=message):
        discover(FRAME)
    refused(message, FRAME, kinds=("fd",))


def test_ragged_csv_names_the_line(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    refused("a.csv, line 3: 1 cells instead of 2: '3'", tmp_path / "a.csv")


def test_wrong_encoding_names_the_line(tmp_path):
    (tmp_path / "a.csv").write_bytes("a,b\né,2\n".encode() + "3,größe\n".encode("latin-1"))
    refused(r"a.csv, line 3, byte 5 of the line: .* is not UTF-8", tmp_path / "a.csv")
    (tmp_path / "h.csv").write_bytes("größe,b\n".encode("latin-1") + "é,2\n".encode())
    refused(r"h.csv, line 1, byte 3", tmp_path / "h.csv")


def test_columns_that_stand_twice(tmp_path):
    (tmp_path / "a.csv").write_text("a,a\n1,2\n")
    refused("a.csv: column 'a' stands twice", tmp_path / "a.csv")
    refused("column 'a' stands twice", pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"]))


def test_numbers_that_do_not_fit(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n12345678901234567890\n")
    refused("a.csv, row 2, column 'a': '12345678901234567890' does not fit a 64-bit integer", tmp_path / "a.csv")
    assert shape(tmp_path / "a.csv", types={"a": "text"})[0] == ["text"]
    (tmp_path / "b.csv").write_text("a\n0.1\n0.10000000000000000001\n")
    refused("b.csv, row 2, column 'a': '0.10000000000000000001' is not exactly a 64-bit float", tmp_path / "b.csv")
    refused("row 1, column 'a': -9223372036854775808 is the one", pa.table({"a": [-(2**63)]}))


ADVICE = (
    "read it as text with `--type a=text`, or accept rounding with `--type a=float` (in Python: types={'a': 'text'})"
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("123456789012345678.81", "is not exactly a 64-bit float"),
        ("1e3\n12345678901234567.81", "is not exactly a 64-bit float"),
        ("12345678901234567890", "does not fit a 64-bit integer"),
        ("1" * 5000, "does not fit a 64-bit integer"),
    ],
)
def test_numbers_that_would_be_rounded_say_what_helps(tmp_path, text, reason):
    (tmp_path / "a.csv").write_text(f"a\n{text}\n")
    refused(re.escape(f"' {reason}; {ADVICE}"), tmp_path / "a.csv")
    assert shape(tmp_path / "a.csv", types={"a": "text"})[0] == ["text"]
    if len(text) < 300:
        assert shape(tmp_path / "a.csv", types={"a": "float"})[0] == ["float"]


def test_later_batches_are_not_rounded_either(tmp_path):
    """Two numbers that are the same double must not become equal keys, in one batch or in two."""
    (tmp_path / "a.csv").write_text("n,x\n1,1e3\n")
    for i, text in enumerate(["12345678901234567.81", "12345678901234567.82"]):
        (tmp_path / f"{i}.csv").write_text(f"n,x\n{i + 2},{text}\n")
    book = Rulebook.create(None, tmp_path / "a.csv", rules=["key(x)"])
    reason = "0.csv, row 1, column 'x': '12345678901234567.81' is not exactly a 64-bit float; read it as text with"
    with pytest.raises(HoldfastError, match=reason):
        book.apply(Change(inserts=tmp_path / "0.csv"))
    kept = Rulebook.create(None, tmp_path / "a.csv", rules=["key(x)"])
    out = kept.apply(Change(inserts=tmp_path / "0.csv"), on_error="quarantine")
    assert [bad.values for bad in out.quarantined] == [{"n": "2", "x": "12345678901234567.81"}] and kept.count() == 1
    rounded = Rulebook.create(None, tmp_path / "a.csv", rules=["key(x)"], types={"x": "float"})
    for i in range(2):
        rounded.apply(Change(inserts=tmp_path / f"{i}.csv"))
    assert rounded.count_violations("key(x)") == 2


@pytest.mark.parametrize("text", ["12345678901234567.81", "12345678901234567890", "1e-400", "0.12345678901234567891"])
def test_numbers_in_json_are_not_rounded_either(tmp_path, text):
    (tmp_path / "a.jsonl").write_text(f'{{"id": 9007199254740993, "x": 0.1}}\n{{"id": 2, "x": {text}}}\n')
    place = "a.jsonl, line 2, column 'x':"
    refused(f"{place} '{text}' is not exactly a 64-bit float.*--type x=float", tmp_path / "a.jsonl")
    refused("is not exactly a 64-bit float", tmp_path / "a.jsonl", types={"x": "text"})
    assert shape(tmp_path / "a.jsonl", types={"x": "float"})[1][1]["x"] == float(text)
    assert shape(tmp_path / "a.jsonl", exclude=["x"])[1][0]["id"] == 9007199254740993
    book = Rulebook.create(None, pa.table({"id": [1], "x": [0.5]}))
    with pytest.raises(HoldfastError, match=place):
        book.apply(Change(inserts=tmp_path / "a.jsonl"))


def test_floats_in_json_as_programs_write_them(tmp_path):
    values = [0.1, 1e23, 5e-324, 123456.789e-200, 2.0**60, 1 / 3]
    (tmp_path / "a.jsonl").write_text("".join(f'{{"x": {v!r}, "y": {v:.17g}, "s": "{"1" * 30}"}}\n' for v in values))
    assert [row["x"] for row in shape(tmp_path / "a.jsonl")[1]] == values


def test_decimals_say_which_type_would_hold_them(tmp_path):
    (tmp_path / "a.csv").write_text("price net\n1.5\n")
    (tmp_path / "b.csv").write_text("price net\n1.255\n")
    book = Rulebook.create(None, tmp_path / "a.csv", types={"price net": "decimal(1)"})  # declared: it does not widen
    with pytest.raises(HoldfastError, match=r"'1.255' has more than 1 decimal .*`--type 'price net=decimal\(3\)'`"):
        book.apply(Change(inserts=tmp_path / "b.csv"))


def test_unsupported_types_and_unknown_names():
    refused("column 'a' has the type list", pa.table({"a": [[1]]}))
    assert shape(pa.table({"a": pa.array([1], pa.time32("s"))}), types={"a": "text"})[0] == ["text"]
    refused("unknown column 'b'", FRAME, types={"b": "text"})
    refused("'money' is not a type", FRAME, types={"id": "money"})
    refused("unknown column 'ID'", FRAME, key="ID")
    refused("unknown column 'nam'; did you mean 'name'", FRAME, exclude=["nam"])
    refused("a int is not a table", 5)
    refused("no table was given", {})
    refused("a table needs at least one column", pa.table({}))
    refused("'x' is not an integer", pa.table({"a": ["x"]}), types={"a": "integer"})
    refused(
        "row 1, column 'a': 0.125 is not exactly a decimal with 2", pa.table({"a": [0.125]}), types={"a": "decimal(2)"}
    )
    assert shape(pa.table({"a": [0.125]}), types={"a": "decimal(3)"})[1] == [{"a": Decimal("0.125")}]
    refused("'a' is boolean, but the input has the type int64", pa.table({"a": [5]}), types={"a": "boolean"})
    assert shape(pa.table({"a": ["5"]}), types={"a": "integer"})[1] == [{"a": 5}]
    refused("null policies", FRAME, nulls="maybe")


def test_nothing_is_rounded_or_skipped(tmp_path):
    (tmp_path / "big.csv").write_text("a\n1e400\n1\n")
    refused("row 1, column 'a': '1e400' is too large or too small", tmp_path / "big.csv", types={"a": "float"})
    (tmp_path / "small.csv").write_text("a\n0.0\n1e-400\n")
    refused("row 2, column 'a': '1e-400' is too large or too small", tmp_path / "small.csv", types={"a": "float"})
    (tmp_path / "blank.csv").write_text("a\n1\n\n2\n")
    assert shape(tmp_path / "blank.csv")[1] == [{"a": 1}, {"a": None}, {"a": 2}]
    (tmp_path / "year.csv").write_text("a\n0000-01-01\n")
    assert shape(tmp_path / "year.csv")[0] == ["text"]


def test_kinds_from_the_whole_file(tmp_path):
    """The last value decides, however far away it is."""
    path = tmp_path / "long.csv"
    path.write_text("a\n" + "1\n" * 300_000 + "x\n")
    assert schema_of(read(path)).columns[0].type_text == "text"
    assert json.dumps(schema_of(read(path)).to_json()) == '[{"name": "a", "type": "text"}]'


def test_repeated_text_of_parquet_stays_short(tmp_path):
    """And is the same table; text that is mostly different is read as it is."""
    table = pa.table({"few": ["x", "y", None, "x"] * 1000, "many": [f"text {i}" for i in range(4000)]})
    pa.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=1500)
    found = read(tmp_path / "t.parquet").table
    assert pa.types.is_dictionary(found.schema.field("few").type) and found.schema.field("many").type == pa.string()
    assert found.to_pydict() == table.to_pydict()
    assert schema_of(read(tmp_path / "t.parquet")) == schema_of(read(table))
    pa.parquet.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    assert read(tmp_path / "none.parquet").table.num_rows == 0
