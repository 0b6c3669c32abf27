"""What leaves through the command line: values and names cannot steer a terminal, or a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import HoldfastError, Rulebook
from holdfast.cli.main import app_of, status_of
from holdfast.cli.output import RuleResult, as_csv, as_json, as_junit, as_sarif, json_text, print_csv
from holdfast.cli.terminal import Console, plain_output
from holdfast.plain_text import plain_text
from tests.conftest import cases

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe\x7f\r\b"
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
any_text = st.text(
    st.characters(codec=None, min_codepoint=0, max_codepoint=0x2100) | st.sampled_from("\x1b\u202e\udc80=+-@")
)


@given(text=any_text)
@settings(max_examples=cases(200))
def test_plain_text_acts_on_nothing_and_keeps_the_rest(text):
    shown = plain_text(text)
    assert not ACTS.search(shown)
    assert plain_text(shown) == shown
    if not ACTS.search(text) and not re.search("[\u2028\u2029\ufeff]", text):
        assert shown == text


@given(text=any_text)
@example("\x7f\x80\ud800")
@settings(max_examples=cases(200))
def test_json_is_exact_and_acts_on_nothing(text):
    written = as_json({"value": text})
    assert json.loads(written)["value"] == text and not ACTS.search(written)
    assert json.loads(json_text([text])) == [text]


@given(cells=st.lists(st.lists(any_text | st.integers() | st.none(), min_size=2, max_size=2), max_size=4))
@settings(max_examples=cases(200))
def test_csv_is_exact(cells):
    written = as_csv([dict(zip("ab", line, strict=True)) for line in cells], ["a", "b"])
    back = list(csv.reader(io.StringIO(written, newline="")))
    assert back == [["a", "b"], *(["" if cell is None else str(cell) for cell in line] for line in cells)]


def test_safe_cells():
    formulas = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-", "-5 EUR"]
    others = ["-5", "+3.25", "-1e5", "x=1", "", -5, 1.5, None]
    values = formulas + others
    written = as_csv([{"a": value} for value in values], ["a"], safe=True)
    back = [line[0] if line else "" for line in csv.reader(io.StringIO(written, newline=""))][1:]
    assert back == [f"'{text}" for text in formulas] + ["" if value is None else str(value) for value in others]
    assert as_csv([{"a": "=1+1"}], ["a"]) == "a\n=1+1"


@given(text=any_text)
@settings(max_examples=cases(100))
def test_reports_for_machines_are_valid(text):
    results = [RuleResult("id", f"rule {text}", "fd", "error", 3, 0.5, [[text, 1]])]
    written = as_junit(results)
    assert not ACTS.search(written)
    case = ET.fromstring(written.encode()).find("testcase")
    assert case.find("failure") is not None
    sarif = as_sarif(results, ["x.csv"], "1")
    assert json.loads(sarif)["runs"][0]["tool"]["driver"]["rules"][0]["shortDescription"]["text"] == f"rule {text}"
    assert not ACTS.search(sarif)


# --- every command --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A book and a table in which everything that can be hostile is."""
    home = tmp_path_factory.mktemp("hostile")
    name = f"zip{ESCAPE}"
    table = pa.table({"id": ["=1", f"k{ESCAPE}", "c"], name: ["1", "1", "2"], "city": [f"x{ESCAPE}", "=y", "z"]})
    pq.write_table(table, home / "people.parquet")
    pq.write_table(
        table.slice(0, 1).set_column(0, "id", [[f"new{ESCAPE}"]]).append_column("_change_type", [["insert"]]),
        home / "changes.parquet",
    )
    with Rulebook.create(home / "book", table, key="id", rules=[f"`{name}` -> city", "key(city)"]):
        pass
    return home, f"`{name}` -> city"


COMMANDS = [
    ["discover", "TABLE"],
    ["discover", "TABLE", "--all", "--why"],
    ["check", "TABLE", "--rule", "RULE", "--key", "id"],
    ["check", "TABLE", "--rule", "RULE", "--key", "id", "--format", "junit"],
    ["check", "TABLE", "--rule", "RULE", "--key", "id", "--format", "sarif"],
    ["check", "TABLE", "--rule", "RULE", "--key", "id", "--format", "json"],
    ["check", "TABLE", "--rule", f"nothing{ESCAPE} -> x"],
    ["check", f"nowhere{ESCAPE}.csv", "--rule", "a -> b"],
    ["rules", "BOOK"],
    ["rules", "BOOK", "--format", "json"],
    ["rules", f"book{ESCAPE}"],
    ["rules", "accept", "BOOK", f"nothing{ESCAPE}"],
    ["violations", "BOOK", "--rule", "RULE"],
    ["violations", "BOOK", "--rule", "RULE", "--format", "json"],
    ["explain", "BOOK", "RULE"],
    ["explain", "BOOK", "RULE", "--whole"],
    ["explain", "BOOK", "--row", f"k{ESCAPE}"],
    ["explain", "BOOK", "--row", f"k{ESCAPE}", "--format", "json"],
    ["history", "BOOK"],
    ["history", "BOOK", "--events"],
    ["history", "BOOK", "--rule", f"no{ESCAPE}"],
    ["apply", "BOOK", "CHANGES"],
    ["apply", "BOOK", "CHANGES", "--quarantine", "--batch", f"b{ESCAPE}", "--format", "json"],
    ["export", "BOOK", "--to", "great-expectations"],
    ["export", "BOOK", "--to", "metanome"],
    [f"no{ESCAPE}"],
    ["rules", "BOOK", f"--no{ESCAPE}"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: plain_text(" ".join(c)))
def test_no_command_sends_control_characters(place, command, capsys):
    home, rule = place
    names = {"TABLE": home / "people.parquet", "BOOK": home / "book", "RULE": rule, "CHANGES": home / "changes.parquet"}
    status = status_of([str(names.get(part, part)) for part in command])
    out, err = capsys.readouterr()
    assert status in (0, 1, 2) and "Traceback" not in err
    assert not ACTS.search(out) and not ACTS.search(err), plain_text(out + err)
    if "json" in command:
        assert json.loads(out)


def test_json_and_csv_carry_the_exact_value(place, capsys):
    home, rule = place
    check = ["check", str(home / "people.parquet"), "--rule", rule, "--key", "id", "--format"]
    assert status_of([*check, "json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["violations"]
    assert found["rule"] == rule and [f"k{ESCAPE}", "=1"] in found["pairs"]
    records = [{"rule": rule, "t": f"k{ESCAPE}"}]
    with plain_output():
        print_csv(records, ["rule", "t"])
    out = capsys.readouterr().out
    assert list(csv.reader(io.StringIO(out, newline="")))[1] == [rule, f"k{ESCAPE}"]


def test_logs_and_tracebacks_are_plain(capsys, monkeypatch):
    from holdfast.cli.stewards import history_command

    name = history_command.__module__

    def broken(*_, **__):
        logging.getLogger("holdfast").warning("sink %s", ESCAPE)
        raise ValueError(ESCAPE)

    monkeypatch.setattr(f"{name}.Rulebook.open", broken)
    handler = logging.lastResort
    logging.getLogger("holdfast").addHandler(handler)
    try:
        assert status_of(["history", "x"]) == 3
    finally:
        logging.getLogger("holdfast").removeHandler(handler)
    err = capsys.readouterr().err
    assert "sink \\x1b]0;owned" in err and "ValueError: \\x1b]0;owned" in err and not ACTS.search(err)


def test_streams_are_restored(capsys):
    before = sys.stdout, sys.stderr
    with pytest.raises(HoldfastError), plain_output():
        raise HoldfastError
    assert (sys.stdout, sys.stderr) == before


def test_a_console_keeps_its_own_colours_only():
    out = io.StringIO()
    Console(file=out, force_terminal=True, color_system="standard", width=80).print(
        f"[red]x[/red] {ESCAPE}", highlight=False
    )
    text = out.getvalue()
    assert "\x1b[31mx\x1b[0m" in text and "\\x1b[2J" in text
    assert not ACTS.search(re.sub(r"\x1b\[[0-9;]*m", "", text))


def test_on_a_terminal_csv_is_plain_too(place):
    """In a real terminal, the one place where exactness has to give way."""
    home, _ = place
    command = [sys.executable, "-m", "holdfast.cli.main", "export", str(home / "book"), "--to", "sql"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=os.environ | {"COLUMNS": "200"}) as done:
        os.close(theirs)
        parts = []
        while True:
            try:
                parts.append(os.read(ours, 65536))
            except OSError:  # the other end is closed
                break
            if not parts[-1]:
                break
        assert done.wait() == 0
    os.close(ours)
    text = b"".join(parts).decode().replace("\r\n", "\n")
    assert "SELECT" in text and not ACTS.search(text) and "\\x1b[2J" in text


# --- csv of reports -------------------------------------------------------------------------------------------------


def test_a_csv_report_is_safe_by_default(tmp_path, capsys):
    table = pa.table({"=cmd": ["1", "1"], "city": ["x", "y"]})
    with Rulebook.create(tmp_path / "book", table, rules=["`=cmd` -> city"]):
        pass
    (tmp_path / "book" / "rules.yml").write_text(
        "rules:\n  - rule: '`=cmd` -> city'\n  - {rule: key(city), status: suggested, owner: '=HYPERLINK(1)'}\n"
    )
    for option, owner in ((), "'=HYPERLINK(1)"), (("--no-safe-cells",), "=HYPERLINK(1)"):
        assert status_of(["report", str(tmp_path / "book"), "--out", str(tmp_path / "r.csv"), *option]) == 0
        with (tmp_path / "r.csv").open(newline="") as file:
            first, second = csv.DictReader(file)
        assert (first["rule"], first["status"], first["violations"]) == ("`=cmd` -> city", "accepted", "2")
        assert second["owner"] == owner and second["status"] == "suggested" and second["violations"] == ""
        assert second["sentence"]
    capsys.readouterr()


def test_discover_offers_safe_cells(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n")
    assert status_of(["discover", str(tmp_path / "t.csv"), "--format", "csv", "--safe-cells"]) == 0
    assert capsys.readouterr().out.startswith("id,kind,table,text")


def test_nobody_reading_on_is_no_error(place):
    home, _ = place
    code = "import sys; from holdfast.cli.main import status_of; sys.exit(status_of(sys.argv[1:]))"
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", code, "rules", str(home / "book"), "--format", "json"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr


def test_help_still_works():
    assert app_of().registered_commands
    assert status_of(["check", "--help"]) == 0
