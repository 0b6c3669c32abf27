"""The list of mutants fits the code; `python -m tests.mutants` runs them."""

from __future__ import annotations

import re

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant

FILES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("*.py")}
_NAMES = re.compile(r"^def (\w+)\(|\"(\w+)\"", flags=re.M)


def test_each_mutant_is_listed_once():
    assert len({(m.file, m.before, m.after) for m in MUTANTS}) == len(MUTANTS) > 50


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.file}: {m.before.strip()[:40]!a}")
def test_a_mutant_is_one_change_of_a_line_that_exists(mutant: Mutant):
    text = (ROOT / "src" / "holdfast" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.before) == 1
    compile(text.replace(mutant.before, mutant.after), mutant.file, "exec")


@pytest.mark.parametrize("tests", sorted({m.tests for m in MUTANTS}))
def test_the_tests_of_a_mutant_exist(tests: str):
    """Each word of `-k` is part of the name of a test, or of the name of one of its cases."""
    files, _, choice = tests.partition(" -k ")
    texts = [FILES[file] for file in files.split()] + [FILES["bad_input.py"]] * ("test_bad_input.py" in files)
    names = [name for text in texts for pair in _NAMES.findall(text) for name in pair]
    for word in re.findall(r"\w+", choice):
        assert word in ("and", "or", "not") or any(word in name for name in names), word
