"""The decisions of an unchanged file are read once; every change is noticed."""

from __future__ import annotations

import os
import threading
import time

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.errors import RuleError
from holdfast.rules.rulefile import RuleFile
from holdfast.workflow import decisions as module
from holdfast.workflow.decisions import ACCEPTED, FILE, REJECTED, RETIRED, Decisions, deciding
from tests.conftest import cases

RULES = ["a -> b", "b -> a", "key(a)", "key(b)"]
_real_clock = time.time_ns


@pytest.fixture
def book(tmp_path):
    table = pa.table({"a": [1, 2], "b": [1, 2]})
    with hf.Rulebook.create(tmp_path / "book", table, rules=RULES[:1]) as made:
        with deciding(made):
            pass
        yield made


@pytest.fixture
def loads(monkeypatch):
    """How often a file was read, on a clock that is ahead: so that what was just written counts as settled."""
    monkeypatch.setattr(module.time, "time_ns", lambda: _real_clock() + 60_000_000_000)
    made = []
    real = RuleFile.load.__func__
    monkeypatch.setattr(RuleFile, "load", classmethod(lambda cls, path: made.append(path) or real(cls, path)))
    return made


def texts(book) -> list[str]:
    return [entry.rule for entry in Decisions.of(book).entries]


def test_an_unchanged_file_is_read_once_by_all(book, loads):
    threads = [threading.Thread(target=texts, args=(book,)) for _ in range(4)]
    assert texts(book) == RULES[:1] and len(loads) == 1
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with hf.Rulebook.open(book.path) as other:
        assert Decisions.of(other).entries == Decisions.of(book).entries
    assert len(loads) == 1


def test_a_changed_file_is_read_again(book, loads):
    assert texts(book) == ["a -> b"]
    path = book.path / FILE
    times, text = path.stat(), path.read_text()
    new = path.with_name("new.yml")
    new.write_text(text.replace("a -> b", "b -> a"))
    os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))
    new.replace(path)
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (times.st_mtime_ns, times.st_size)
    assert texts(book) == ["b -> a"] and len(loads) == 2
    with deciding(book) as decisions:
        decisions.decide("key(a)", ACCEPTED)
    assert texts(book) == ["b -> a", "key(a)"]


@pytest.mark.parametrize("clock", ["real", "stopped", "coarse"])
def test_edits_in_place_within_one_tick_are_noticed(book, clock, monkeypatch):
    """Same inode, same length, and as fast as possible: often the same time; always, where the clock stands still."""
    path = book.path / FILE
    text = path.read_text()
    if clock != "real":
        now = _real_clock()
        stamp = (now if clock == "stopped" else now // 10**9 * 10**9, now, len(text), 1, 1)
        monkeypatch.setattr(module, "_stamp", lambda _: stamp)
        monkeypatch.setattr(module.time, "time_ns", lambda: now + (50_000_000 if clock == "stopped" else 500_000_000))
    for n in range(60):
        rule = RULES[n % 2]
        path.write_text(text.replace("a -> b", rule))
        assert texts(book) == [rule]


def test_an_error_is_an_error_each_time(book, loads):
    path = book.path / FILE
    good = path.read_text()
    assert texts(book) == RULES[:1]
    path.write_text(good.replace("a -> b", "a -> "))
    for _ in range(2):
        with pytest.raises(RuleError, match=r"rules\.yml, line"):
            Decisions.of(book)
    path.write_text(good)
    assert texts(book) == RULES[:1]
    path.unlink()
    assert texts(book) == RULES[:1]  # what the book checks


def test_who_changes_decisions_reads_the_file_and_changes_only_his_own(book, loads, monkeypatch):
    mine, yours = Decisions.of(book), Decisions.of(book)
    mine.decide("key(a)", ACCEPTED)
    mine.decide("a -> b", REJECTED)
    mine.mask(["a"])
    assert [entry.status for entry in mine.entries] == [REJECTED, ACCEPTED] and mine.masked == {"a"}
    assert [entry.status for entry in yours.entries] == [ACCEPTED] and not yours.masked
    assert Decisions.of(book).entries == yours.entries and Decisions.of(book).known("key(a)") is None
    path = book.path / FILE
    monkeypatch.setattr(module, "_stamp", lambda _: (1, 2, 3, 4, 5))  # even if no change were noticed
    assert texts(book) == RULES[:1]
    path.write_text(path.read_text() + "  - rule: key(b)\n")
    with deciding(book):
        pass  # saves what it read
    assert [entry.rule for entry in RuleFile.load(path)] == ["a -> b", "key(b)"]
    with deciding(book) as decisions:
        decisions.decide("key(a)", ACCEPTED)
    assert [entry.rule for entry in RuleFile.load(path)] == ["a -> b", "key(b)", "key(a)"]


CHANGES = st.lists(
    st.tuples(st.sampled_from(["decide", "edit", "replace", "mask"]), st.sampled_from(RULES), st.booleans()), max_size=8
)


@given(changes=CHANGES)
@settings(max_examples=cases(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_remembered_is_what_is_read(book, loads, changes):
    """After any sequence of decisions and edits; ids and texts find the same entries too."""
    path = book.path / FILE
    for step, (how, rule, flag) in enumerate(changes):
        if how in ("decide", "mask"):
            with deciding(book) as decisions:
                decisions.mask([rule[-1]]) if how == "mask" else decisions.decide(rule, RETIRED if flag else ACCEPTED)
        else:
            content = f"rules:\n  - rule: {rule}\n    severity: {'warn' if flag else 'info'}\n" + "#" * 10 * step
            target = path if how == "edit" else path.with_name("other.yml")
            target.write_text(content)
            target.replace(path)
        read, remembered = Decisions.afresh(book), Decisions.of(book)
        assert remembered.entries == read.entries and remembered.masked == read.masked
        for asked in (*RULES, *(entry.id for entry in read.entries)):
            assert remembered.known(asked) == read.known(asked)
        assert remembered.rule_ids == read.rule_ids
