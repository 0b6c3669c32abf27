"""Bad input is refused whole, quarantined, or named: every kind of it, as `tests/bad_input.py` lists them."""

from __future__ import annotations

import pytest

from tests.bad_input import CASES, Case, Home, page, written


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.test.__name__)
def test_what_happens_to_bad_input(case: Case, tmp_path):
    case.test(Home(tmp_path))


def test_the_documentation_has_the_same_table():
    text = page().read_text(encoding="utf-8")
    assert "What happens to bad input" in text and written(text) == text, "run `python -m tests.bad_input`"
