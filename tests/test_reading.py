"""Text files as people have them: other delimiters, encodings, dates, numbers, empty cells; and where files are."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sqlite3
import sys
import tempfile
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.errors import HoldfastError
from holdfast.pipeline.sources import read_change_file
from holdfast.table.cell_forms import DEFAULT_NULLS, CellForm, FormFinder
from holdfast.table.read import read as source_of
from tests.conftest import cases

DATES = {
    "%d.%m.%Y": "{d}.{m}.{y}",
    "%m/%d/%Y": "{m}/{d}/{y}",
    "%d-%m-%Y": "{d:02}-{m:02}-{y}",
    "%Y/%m/%d": "{y}/{m}/{d:02}",
}


def read(place, **options):
    """The rows of a file, as a rulebook has them."""
    with hf.Rulebook.create(None, str(place), **options) as book:
        return book.table().to_pylist()


def written(rows, delimiter, form, comma, null):
    """The text of a file with these rows: number, decimal, date, text."""

    def cell(value):
        if value is None:
            return null
        if isinstance(value, date):
            return DATES[form].format(d=value.day, m=value.month, y=value.year)
        return str(value).replace(".", ",") if comma and isinstance(value, Decimal) else str(value)

    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["n", "price", "day", "word"])
    writer.writerows([[cell(value) for value in row[:3]] + [row[3]] for row in rows])
    return out.getvalue()


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(10**6), 10**6),
        st.none() | st.decimals(-(10**6), 10**6, places=2),
        st.none() | st.dates(date(1000, 1, 1), date(2999, 12, 31)),
        st.sampled_from(["Größe", "a b", "x;y", "Ärmel, lang"]),
    ),
    max_size=12,
)
CLEAR = [(1, Decimal("0.25"), date(2020, 12, 31), "ö"), (2, Decimal("1.50"), date(2021, 1, 30), "é")]


@given(
    rows=ROWS,
    delimiter=st.sampled_from(",;\t|"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    form=st.sampled_from(sorted(DATES)),
    comma=st.booleans(),
    null=st.sampled_from(["", *DEFAULT_NULLS]),
)
@settings(max_examples=cases(60))
def test_however_a_table_is_written_it_is_read_as_it_was(
    tmp_path_factory, rows, delimiter, encoding, form, comma, null
):
    """With two rows that show the order of day and month, and what the comma is."""
    place = tmp_path_factory.mktemp("written") / "a.csv"
    rows = [*CLEAR, *rows]
    place.write_bytes(written(rows, delimiter, form, comma, null).encode(encoding))
    assert [tuple(row.values()) for row in read(place)] == rows


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["01/02/2020", "03/04/2020"], "text"),  # which is the month?
        (["01/02/2020", "13/02/2020"], "date"),
        (["01/02/2020", "13/14/2020"], "text"),
        (["01.02.2020", "03.04.2020"], "date"),  # nobody writes the month first with points
        (["31.02.2020", "03.04.2020"], "text"),  # no such day
        (["1,234", "5,678"], "text"),  # thousands, or three places
        (["1,234", "5,67"], "decimal(3)"),
        (["1,234,567", "5,678"], "integer"),
        (["1,234.5", "5,678"], "decimal(1)"),
        (["1.234,5", "0,1"], "decimal(1)"),
        (["1", "NA"], "integer"),
        (["007", "-"], "text"),
        (["1998-10-13", "?"], "date"),
        (["10/13/1998 7:05 PM", "1/2/1999 12:00 AM"], "timestamp"),
    ],
)
def test_what_is_ambiguous_stays_text(tmp_path, values, kind):
    (tmp_path / "a.csv").write_text("a;b\n" + "".join(f"{value};x\n" for value in values))
    (column, _) = hf.Rulebook.create(None, str(tmp_path / "a.csv")).schemas["a"].columns
    assert column.type_text == kind


def test_a_refused_change_quotes_the_cell_as_it_is_written(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("id,day\n1,31/12/2024\n2,01/02/2024\n")
    (tmp_path / "c.csv").write_text("_change_type,id,day\ninsert,7,12/25/2024\n")
    assert status_of(["init", str(tmp_path / "b"), str(tmp_path / "a.csv"), "--key", "id"]) == 0
    assert status_of(["apply", str(tmp_path / "b"), str(tmp_path / "c.csv")]) == 2
    assert "column 'day': '12/25/2024' is not a date of the calendar" in capsys.readouterr().err


def test_dates_in_either_order_are_said_and_read_as_another_column_shows(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("id,start,end\n1,03/04/2025,05/04/2025\n2,01/05/2025,n/a\n")
    (tmp_path / "b.csv").write_text("id,start,end\n1,03/04/2025,05/04/2025\n2,01/05/2025,25/05/2025\n")
    for name, kinds in (("a", ["text", "text"]), ("b", ["date", "date"])):
        schema = hf.Rulebook.create(None, str(tmp_path / f"{name}.csv")).schemas[name]
        assert [column.type_text for column in schema.columns][1:] == kinds
    assert read(tmp_path / "b.csv")[0]["start"] == date(2025, 4, 3)
    assert status_of(["discover", str(tmp_path / "a.csv")]) == 0
    told = capsys.readouterr().err
    assert "dates that may be DD/MM/YYYY or MM/DD/YYYY as text (--date-format says which) (start" in told


def test_a_word_for_empty_counts_only_where_it_is_no_value(tmp_path):
    rows = [("EU", "red", "1"), ("NA", "blue", "2"), ("AS", "-", "null"), ("SA", "green", "4")] + [
        ("AF", "red", "5")
    ] * 20
    (tmp_path / "a.csv").write_text("\n".join(["continent,colour,n", *map(",".join, rows)]))
    found = read(tmp_path / "a.csv")
    assert [row["continent"] for row in found[:3]] == ["EU", "NA", "AS"]  # NA looks like the other codes
    assert [row["colour"] for row in found[:3]] == ["red", "blue", None] and [r["n"] for r in found[:3]] == [1, 2, None]
    found = read(tmp_path / "a.csv", reading=hf.Reading(null_values=("red",)))
    assert found[0]["colour"] is None and found[2] == {"continent": "AS", "colour": "-", "n": "null"}
    kept = read(tmp_path / "a.csv", types={"n": "text"})
    assert kept[2]["n"] == "null"


def test_what_the_user_says_counts(tmp_path, capsys):
    (tmp_path / "a.csv").write_bytes("a;b|c\n01/02/2020;é|1\n03/04/2020;x|2\n".encode("cp1252"))
    place = str(tmp_path / "a.csv")
    options = ["--delimiter", ";", "--date-format", "DD/MM/YYYY", "--encoding", "cp1252"]
    assert status_of(["check", place, "--rule", "not(t.a > date '2020-04-03')", *options]) == 0
    _, err = capsys.readouterr()
    assert err == "holdfast: a was read with cells between semicolons; encoding cp1252; dates as DD/MM/YYYY (a)\n"
    for wrong in (["--delimiter", "ab"], ["--encoding", "nonsense"], ["--date-format", "DD/YYYY"]):
        assert status_of(["discover", place, *wrong]) == 2
        assert wrong[1] in capsys.readouterr().err
    assert status_of(["discover", place, "--encoding", "ascii"]) == 2
    assert "a.csv: cannot be read as ascii" in capsys.readouterr().err


def test_changes_are_written_as_the_table_was(tmp_path, capsys):
    """Also after the rulebook was opened again."""
    base, book = tmp_path / "sales.csv", tmp_path / "book"
    base.write_text("id;day;price\n1;31.12.2020;1,50\n2;1.2.2021;NA\n")
    assert status_of(["init", str(book), str(base), "--key", "id", "--rule", "not(t.price < 0)"]) == 0
    assert "dates as DD.MM.YYYY (day); numbers as 1.234,5 and 'NA' as empty (price)" in capsys.readouterr().err
    change = tmp_path / "change.csv"
    change.write_text("_change_type;id;day;price\ninsert;3;5.6.2021;-2,25\ndelete;2;1.2.2021;NA\n")
    assert status_of(["apply", str(book), str(change)]) == 1
    with hf.Rulebook.open(book) as opened:
        new = opened.table().to_pylist()[-1]
        assert new == {"id": 3, "day": date(2021, 6, 5), "price": Decimal("-2.25")}
        assert [row["id"] for row in opened.table().to_pylist()] == [1, 3]
    change.write_text("_change_type;id;day;price\ninsert;4;2021-13-01;1,00\n")
    assert status_of(["apply", str(book), str(change)]) == 2
    assert "'2021-13-01'" in capsys.readouterr().err


def test_one_column_shows_how_the_others_are_written(tmp_path):
    """2.445 is a whole number where other numbers have a decimal comma; alone, it is one with three places."""
    (tmp_path / "a.csv").write_text("stock;price\n2.445;1,5\n928;0,25\n1.200.300;2,0\n")
    assert [row["stock"] for row in read(tmp_path / "a.csv")] == [2445, 928, 1200300]
    (tmp_path / "b.csv").write_text("stock;price\n2.445;1.5\n928;0.25\n")
    assert [row["stock"] for row in read(tmp_path / "b.csv")] == [Decimal("2.445"), Decimal("928.000")]
    (tmp_path / "c.csv").write_text('amount,other\n"977,833","1,234.5"\n"1,200","2.5"\n')
    assert [row["amount"] for row in read(tmp_path / "c.csv")] == [977833, 1200]


def test_changes_in_another_notation_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("id;day;price\n1;31.12.2020;1.234,50\n2;1.1.2021;0,5\n")
    change = tmp_path / "change.csv"
    with hf.Rulebook.create(None, str(tmp_path / "a.csv"), key="id") as book:
        change.write_text("_change_type;id;day;price\ninsert;3;2.1.2021;1.250\ninsert;4;2.1.2021;12.5\n")
        for _, feeds in hf.read_feed(change):
            with pytest.raises(HoldfastError, match=r"row 2.*'12.5' is not written as 1.234,5"):
                book.apply(feeds)
        change.write_text("_change_type;id;day;price\ninsert;3;31.02.2021;1,25\ninsert;4;2.1.2021;2.000,75\n")
        for _, feeds in hf.read_feed(change):
            out = book.apply(feeds, on_error="quarantine")
        assert [bad.values["day"] for bad in out.quarantined] == ["31.02.2021"]  # as it is written
        assert out.quarantined[0].values["price"] == "1,25"
        assert book.table().to_pylist()[-1]["price"] == Decimal("2000.75")
        change = tmp_path / "change.jsonl"
        change.write_text('{"_change_type": "insert", "id": 5, "day": "2021-01-05", "price": 1.25}\n')
        for _, feeds in hf.read_feed(change):
            book.apply(feeds)
        assert book.table().to_pylist()[-1] == {"id": 5, "day": date(2021, 1, 5), "price": Decimal("1.25")}


def test_landing_files_in_the_encoding_of_the_table(tmp_path):
    """Only where the table was made of such a file; UTF-8 stays UTF-8."""
    change = tmp_path / "change.csv"
    for encoding in ("utf-8", "cp1252"):
        (tmp_path / "a.csv").write_bytes("id,name\n1,Größe\n".encode(encoding))
        with hf.Rulebook.create(None, str(tmp_path / "a.csv"), key="id") as book:
            change.write_bytes("_change_type,id,name\ninsert,2,Ärmel\n".encode())
            book.apply(read_change_file(change, book.tables, False).feeds)
            change.write_bytes("_change_type,id,name\ninsert,3,Öl\n".encode("cp1252"))
            if encoding == "utf-8":
                with pytest.raises(HoldfastError, match="is not UTF-8"):
                    read_change_file(change, book.tables, False)
                continue
            book.apply(read_change_file(change, book.tables, False).feeds)
            assert [row["name"] for row in book.table().to_pylist()] == ["Größe", "Ärmel", "Öl"]


def test_changes_as_an_array_of_rows(tmp_path):
    (tmp_path / "a.json").write_text('[{"id": 1, "x": 0.5}, {"id": 2, "x": 1.5}]')
    (tmp_path / "change.json").write_text('[{"_change_type": "insert",\n "id": 3, "x": 2.5}]')
    with hf.Rulebook.create(None, str(tmp_path / "a.json"), key="id") as book:
        for _, feeds in hf.read_feed(tmp_path / "change.json"):
            book.apply(feeds)
        assert book.table().to_pylist()[-1] == {"id": 3, "x": 2.5}


def test_categories_of_polars():
    frame = pl.DataFrame({"c": pl.Series(["a", "b", "a", "b"], dtype=pl.Categorical), "d": ["x", "y", "x", "y"]})
    assert hf.discover(frame, ("fd",)).texts() == ["c -> d", "d -> c"]


def test_what_is_seen_late_counts(tmp_path):
    (tmp_path / "a.csv").write_text("day;n\n" + ";1\n" * 2000 + "31.12.2020;2\n")
    assert read(tmp_path / "a.csv")[-1]["day"] == date(2020, 12, 31)
    (tmp_path / "b.csv").write_text("a;b\n1;x\u2028y\n2;z\n", encoding="utf-8")
    assert read(tmp_path / "b.csv") == [{"a": 1, "b": "x\u2028y"}, {"a": 2, "b": "z"}]


def test_packed_files_and_other_places(tmp_path, monkeypatch):
    text = "a\tb\n1\tx\n2\ty\n"
    expected = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    (tmp_path / "t.tsv").write_text(text)
    (tmp_path / "z.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "s.tsv.zst").write_bytes(pa.compress(text.encode(), "zstd", asbytes=True))
    (tmp_path / "l.jsonl").write_text("\n".join(map(json.dumps, expected)))
    (tmp_path / "j.json").write_text(json.dumps(expected, indent=2))
    with sqlite3.connect(tmp_path / "s.db") as lite:
        lite.execute("CREATE TABLE t (a, b)")
        lite.executemany("INSERT INTO t VALUES (?, ?)", [tuple(row.values()) for row in expected])
    with duckdb.connect(str(tmp_path / "d.db")) as duck:
        duck.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1::BIGINT, 'x'), (2, 'y')) v(a, b)")
    parts = tmp_path / "parts"
    parts.mkdir()
    for number, row in enumerate(expected):
        (parts / f"{number}.csv").write_text(f"a,b\n{row['a']},{row['b']}\n")
    places = ["t.tsv", "z.csv.gz", "s.tsv.zst", "l.jsonl", "j.json", "s.db::t", "d.db::t", "parts", "parts/*.csv"]
    for place in places:
        assert read(tmp_path / place) == expected, place
    assert list(hf.discover(str(tmp_path / "z.csv.gz")).data.rows) == ["z"]

    def given_input(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    parquet = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(expected), parquet)
    for content in (text.encode(), gzip.compress(text.encode()), json.dumps(expected).encode(), parquet.getvalue()):
        given_input(content)
        assert read("-") == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("j.json", b'[{"a": 1}, 2]', "j.json, character 12: 2 is not a row"),
        ("j.json", b'[{"a": 1} {"a": 2}]', "character 11: a comma or the end of the array is expected"),
        ("j.json", b'[{"a": 1}] x', "nothing may follow the array of rows"),
        ("j.json", b'[{"a": ', "j.json: not JSON"),
        ("a.csv.gz", b"no gzip", "a.csv.gz: cannot be unpacked"),
        ("a.csv", "a,b\nö,1\n".encode() + b"\xf6,2\n", "a.csv, line 3, byte 1 of the line: .* is not UTF-8"),
        ("s.db::t", b"SQLite format 3\x00" + b"x" * 100, "s.db"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, message):
    (tmp_path / name.partition("::")[0]).write_bytes(content)
    with pytest.raises(HoldfastError, match=message):
        hf.discover(str(tmp_path / name))


def test_places_that_are_not_there(tmp_path):
    with pytest.raises(HoldfastError, match="no file fits"):
        hf.discover(str(tmp_path / "*.csv"))
    with sqlite3.connect(tmp_path / "s.db") as lite:
        lite.execute("CREATE TABLE orders (a)")
    with pytest.raises(HoldfastError, match=r"'order'.*orders"):
        hf.discover(f"{tmp_path}/s.db::order")
    (tmp_path / "1.csv").write_text("a\n1\n")
    (tmp_path / "2.csv").write_text("b\n1\n")
    with pytest.raises(HoldfastError, match=r"2.csv: its columns are not those of .*1.csv"):
        hf.discover(f"{tmp_path}/*.csv")


@given(
    values=st.lists(st.sampled_from(["1", "2,5", "NA", "-", "31.12.2020", "x", "a b", "1.234,5", "?", "nan", "True"]))
)
@settings(max_examples=cases(100))
def test_a_form_never_loses_a_value(values):
    """A cell is plain, or changed into another way to write it, or empty because it says so."""
    strings = pa.chunked_array([pa.array(values, pa.string())])
    form = FormFinder().find(strings)
    plain = strings if form is None else form.plain(strings)
    for before, after in zip(values, plain.to_pylist(), strict=True):
        assert after is not None or before in DEFAULT_NULLS
    assert form is None or CellForm.from_json(form.to_json()) == form


# --- Excel ------------------------------------------------------------------------------------------------------


def workbook(path, sheets):
    """A workbook with these sheets, each a list of rows."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for number, row in enumerate(rows, start=1):
            for place, value in enumerate(row, start=1):
                cell = sheet.cell(number, place)
                cell.value = value
                if isinstance(value, str) and value.startswith("#"):
                    cell.data_type = "e"
    book.save(path)
    return path


_EXCEL_CELLS = st.one_of(
    st.none(), st.integers(-(10**12), 10**12), st.booleans(), st.integers(-(10**6), 10**6).map(lambda n: n / 100),
    st.text("abc äß;,\"'", min_size=1, max_size=6).filter(lambda text: text.strip() == text),
    st.dates(date(1950, 1, 1), date(2050, 1, 1)),
)  # fmt: skip


@given(columns=st.integers(1, 3), data=st.data())
@settings(max_examples=cases(40))
def test_a_sheet_is_read_as_the_same_cells_in_a_csv_file(columns, data):
    rows = data.draw(st.lists(st.tuples(*[_EXCEL_CELLS] * columns), min_size=1, max_size=6))
    rows = [row for row in [*rows, (1,) * columns] if any(value is not None for value in row)]
    names = ["one", "two", "three"][:columns]
    with tempfile.TemporaryDirectory() as place:
        sheet = source_of(workbook(Path(place) / "t.xlsx", {"t": [names, *rows]}))
        kept = [["" if value is None else _as_text(value) for value in row] for row in rows]
        with (Path(place) / "t.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([names, *kept])
        text = source_of(Path(place) / "t.csv")
    cells = [[value or "" for value in column] for column in sheet.table.to_pydict().values()]
    assert cells == [[value or "" for value in column] for column in text.table.to_pydict().values()]


def _as_text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def test_workbooks_that_say_too_little_are_refused(tmp_path, capsys):
    rows = [["id", "when", "amount"], [1, date(2020, 12, 31), 1.5], [2, date(2021, 1, 1), "N/A"], [3, None, 2]]
    file = workbook(tmp_path / "sales.xlsx", {"Orders": rows, "Notes": [], "Old": [["x"], [1]]})
    assert status_of(["discover", str(file)]) == 2
    assert "has several sheets: 'Orders', 'Old'; name one: " in capsys.readouterr().err
    assert status_of(["discover", f"{file}::Order"]) == 2
    assert "Orders" in capsys.readouterr().err
    assert status_of(["check", f"{file}::Orders", "--rule", "key(id)"]) == 0
    schema = hf.Rulebook.create(None, {"o": f"{file}::Orders"}).schemas["o"]
    assert [column.type_text for column in schema.columns] == ["integer", "date", "decimal(1)"]
    formula = workbook(tmp_path / "sum.xlsx", {"s": [["a", "b"], [1, "=A2*2"]]})
    assert status_of(["discover", str(formula)]) == 2
    assert "row 2, column 2: the value of the formula '=A2*2' is not in the file" in capsys.readouterr().err
    last = workbook(tmp_path / "last.xlsx", {"s": [["a", "b"], [1, 2], ["=A2", "=B2"]]})
    assert status_of(["discover", str(last)]) == 2 and "row 3, column 1: the value" in capsys.readouterr().err
    broken = workbook(tmp_path / "broken.xlsx", {"s": [["a", "b"], [1, "#DIV/0!"]]})
    assert source_of(broken).table.to_pydict() == {"a": ["1"], "b": ["#DIV/0!"]}
    (tmp_path / "no.xlsx").write_bytes(b"PK\x03\x04 nothing")
    assert status_of(["discover", str(tmp_path / "no.xlsx")]) == 2
    assert "this is no Excel workbook" in capsys.readouterr().err


def test_changes_may_be_in_a_workbook(tmp_path):
    with hf.Rulebook.create(None, pa.table({"id": [1], "city": ["Bonn"]}), key="id", rules=["id -> city"]) as book:
        file = workbook(tmp_path / "change.xlsx", {"s": [["id", "city", "_change_type"], [2, "Köln", "insert"]]})
        for _, feeds in hf.read_feed(str(file)):
            book.apply(feeds)
        assert book.table().to_pydict() == {"id": [1, 2], "city": ["Bonn", "Köln"]}
