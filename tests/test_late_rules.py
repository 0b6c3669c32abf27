"""Found rules for which a batch has no time: they are late, they say so, and they catch up."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from tests import laws
from tests import strategies as hs
from tests.conftest import cases
from tests.disks import UNSYNCED

KINDS = {"kinds": ("key", "fd", "order", "dc"), "max_size": 2, "cross_columns": False}
ROWS = pa.table({"id": [1, 2, 3], "zip": [7, 7, 8], "city": ["B", "B", "H"]})
BREAKS = hf.Change(inserts=pa.table({"id": [4], "zip": [7], "city": ["K"]}))


def rediscovered(told: laws.Story, rows: list, **options) -> list[str]:
    return hf.Rulebook.create(None, laws.to_table(told.schema, rows), key=told.key, **KINDS, **options).found().texts()


@st.composite
def stories(draw: st.DrawFn):
    schema, keyed = draw(hs.schemas(most=3)), draw(st.booleans())
    return laws.story(schema, draw(hs.rows_of(schema, 6)), draw(hs.histories(schema, 4)), keyed=keyed)


@given(
    told=stories(),
    patient=st.lists(st.sampled_from(["late", "in time", "catch up", "reopen"]), min_size=8, max_size=8),
    evidence=st.sampled_from(["counted", "lean"]),
    max_error=st.sampled_from([0.0, 0.0, 0.2]),
    nulls=st.sampled_from(hs.POLICIES),
)
@settings(max_examples=cases(30))
def test_late_rules_catch_up(told, patient, evidence, max_error, nulls, tmp_path_factory):
    """Whatever waits, and for how long: what is listed holds, and after catching up all rules are those of the rows.
    Opening the rulebook changes nothing."""
    options = {"nulls": nulls, "evidence": evidence if not max_error else "auto", "max_error": max_error}
    path = tmp_path_factory.mktemp("book") / "book"
    base = laws.to_table(told.schema, told.base)
    hf.Rulebook.create(path, base, key=told.key, disk=UNSYNCED, **KINDS, **options).close()
    book = hf.Rulebook.open(path, UNSYNCED)
    for what, change, rows in zip(patient, told.changes, told.states, strict=False):
        budget = None if what == "in time" else 0.0
        book.close()
        book = hf.Rulebook.open(path, UNSYNCED, rule_budget=budget)
        out = book.apply(change)
        expected = rediscovered(told, rows, **options)
        assert set(book.found().texts()) <= set(expected)
        assert book.found().complete == (not book.late()) == (not out.late)
        if what == "catch up":
            book.catch_up()
        if what in ("in time", "catch up") and out.rows["data"] != {"inserted": 0, "deleted": 0, "updated": 0}:
            assert not book.late()
            assert book.found().texts() == expected
    book.catch_up()
    assert book.found().texts() == rediscovered(told, (told.states or [told.base])[-1], **options)
    assert book.catch_up() == book.version
    book.close()


def test_what_is_late_is_said(tmp_path):
    book = hf.Rulebook.create(
        tmp_path / "book", ROWS, key="id", kinds=["key", "fd", "ind"], rules=["zip -> city"], rule_budget=0
    )
    assert "zip -> city" in book.found().texts() and not book.late()
    out = book.apply(BREAKS)
    assert out.late == {"data": ("key", "fd")} and "late: key, fd of data" in repr(out)
    assert out.violations.count_added("zip -> city") == 4  # never late
    assert book.late() == {"data": {"key": 0, "fd": 0}}
    assert "fd of data: rules as of version 0" in book.found().limits
    assert "zip -> city" not in book.rules().texts() and not book.found().complete
    book.apply(hf.Change(deletes=pa.table({"id": [3]})))
    assert book.late() == {"data": {"key": 0, "fd": 0}}
    assert "zip -> city: one question" in book.plan() and "2 changes of rows wait" in book.plan()
    book.close()
    book = hf.Rulebook.open(tmp_path / "book")
    assert book.late() and book.catch_up() == 3 and not book.late()
    assert book.found().complete and "zip -> city" not in book.found().texts()
    events = [e for e in book.rule_history().to_pylist() if e["rule"] == "zip -> city"]
    assert [(e["version"], e["change"]) for e in events] == [(3, "removed")]
    assert {events[0]["t"], events[0]["s"]} & {"4"}
    book.close()


def test_adding_a_column_catches_up_first(tmp_path):
    book = hf.Rulebook.create(tmp_path / "book", ROWS, key="id", kinds=["fd"], rule_budget=0)
    book.apply(BREAKS)
    book.alter(rules=["key(id)"])
    assert book.late()
    book.alter(columns={"data": {"note": "text"}})
    assert not book.late() and "zip -> city" not in book.found().texts()
    book.close()


def test_a_failed_batch_loses_no_change_that_waits(tmp_path):
    book = hf.Rulebook.create(tmp_path / "book", ROWS, key="id", kinds=["fd"], rule_budget=0)
    book.apply(BREAKS)
    with pytest.raises(hf.HoldfastError):
        book.apply(BREAKS)  # the key is there already
    assert book.late() == {"data": {"fd": 0}}
    book.catch_up()
    assert "zip -> city" not in book.found().texts() and "id -> city" in book.found().texts()
    book.close()


def test_a_rule_budget_is_a_number_of_seconds():
    for wrong in (-1, "1 s", True):
        with pytest.raises(hf.HoldfastError, match="rule_budget is a number of seconds"):
            hf.Rulebook.create(None, ROWS, kinds=["fd"], rule_budget=wrong)
