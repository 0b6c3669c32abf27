"""Finding a Java: the user's, or the wrapped runtime of the jre extra."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast import java


def fake_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f'#!/bin/sh\necho \'openjdk version "{version}"\' >&2\nfor a; do echo "[$a]"; done\n')
    program.chmod(0o755)
    return folder


@pytest.fixture
def no_java(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)


def test_java_home_comes_first(monkeypatch, no_java, tmp_path):
    assert java.find_java() is None
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "21.0.2")))
    assert java.find_java() == java.Java(tmp_path / "new", 21, "JAVA_HOME")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    assert java.find_java() is None
    monkeypatch.setattr(java.shutil, "which", lambda name: str(fake_java(tmp_path / "path", "17.0.1") / "bin/java"))
    assert java.find_java() == java.Java(tmp_path / "path", 17, "PATH")


def test_the_wrapper_drops_one_argument_and_nothing_else(monkeypatch, tmp_path):
    real = fake_java(tmp_path / "odd path", "25.0.1") / "bin/java"
    monkeypatch.setattr(java.sys, "prefix", str(tmp_path / "venv"))
    home = java._wrapped(real)
    assert home == java._wrapped(real) == tmp_path / "venv" / "holdfast-jre"
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:c", "it's", "", "Main"]
    done = subprocess.run([str(home / "bin/java"), *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[-Xmx1g]", "[-cp]", "[a b:c]", "[it's]", "[]", "[Main]"]
