"""Every subject under every law, on random change sequences."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import laws
from tests import strategies as hs
from tests.conftest import CASES, cases


@st.composite
def stories(draw: st.DrawFn) -> laws.Story:
    schema, base = draw(hs.tables(rows=6, most=3))
    return laws.story(schema, base, draw(hs.histories(schema)), keyed=draw(st.booleans()))


@pytest.fixture(params=sorted(laws.SUBJECTS), scope="module")
def make(request):
    return laws.SUBJECTS[request.param]


@given(told=stories())
@settings(max_examples=cases(35))
def test_maintained_equals_rediscovered(make, told):
    laws.maintained_equals_rediscovered(make, told)


@pytest.mark.parametrize("name", [name for name, make in laws.SUBJECTS.items() if make.durable])
@given(told=stories())
@settings(max_examples=cases(25))
def test_reload_equals_continue(name, told):
    laws.reload_equals_continue(laws.SUBJECTS[name], told)


@given(data=st.data())
@settings(max_examples=cases(25))
def test_insert_then_delete_is_identity(make, data):
    schema, base = data.draw(hs.tables(rows=6, most=3))
    told = laws.story(schema, base, [], keyed=data.draw(st.booleans()))
    laws.insert_then_delete_is_identity(make, told, data.draw(hs.rows_of(schema, 4)))


@given(told=stories())
@settings(max_examples=cases(20))
def test_split_equals_whole(make, told):
    laws.split_equals_whole(make, told)


@given(data=st.data())
@settings(max_examples=cases(25))
def test_a_crash_changes_nothing(tmp_path_factory, data):
    schema, base = data.draw(hs.tables(rows=4, most=2))
    told = laws.story(schema, base, data.draw(hs.histories(schema, 3)), keyed=data.draw(st.booleans()))
    laws.crash_changes_nothing(told, tmp_path_factory.mktemp("book") / "book", data.draw(st.integers(0, 30)))


def fixed_story(keyed: bool = True) -> laws.Story:
    schema = hs.Schema.of(a="integer", b="text")
    rows = [{"a": i, "b": "xy"[i % 2]} for i in range(6)]
    steps = [hs.Step([0], [(1, {"a": 9, "b": "z"})], rows[:2]), hs.Step([], [], rows), hs.Step([1, 2], [], [])]
    return laws.story(schema, rows, steps, keyed=keyed)


def test_every_crash_point_of_a_story(tmp_path):
    """All elementary operations, one after the other, until a run has none left to crash at."""
    told, at = fixed_story(), 0
    while laws.crash_changes_nothing(told, tmp_path / str(at), at):
        at += 1
    assert at > 20  # three publications of at least a file and a manifest each


def kill_at(path: Path, at: int) -> int:
    """Runs the story in another process that is killed, for real, at an elementary operation."""
    code = "import sys; from tests.test_laws import play_and_die; play_and_die(sys.argv[1], int(sys.argv[2]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(at)], check=False, cwd=Path(__file__).parent.parent
    )
    return done.returncode


def play_and_die(path: str, at: int) -> None:
    told = fixed_story()
    disk = laws.CrashingDisk(at, lambda: os.kill(os.getpid(), signal.SIGKILL))
    book = laws.Rulebook.open(path, disk)
    for number, change in enumerate(told.changes, start=1):
        book.apply(change, batch_id=number)


def survives_kill(path: Path, at: int) -> bool:
    told = fixed_story()
    laws.Rulebook.create(path, laws.to_table(told.schema, told.base), key=told.key).close()
    killed = kill_at(path, at) == -signal.SIGKILL
    book = laws.Rulebook.open(path)
    assert laws.rows_of(book) == laws.plain(told, [told.base, *told.states][book.version])
    for number, change in enumerate(told.changes, start=1):
        out = book.apply(change, batch_id=number)
        assert out.skipped == (number < out.version or (number == out.version and not out.rows))
    assert laws.rows_of(book) == laws.plain(told, told.states[-1])
    return killed


@pytest.mark.parametrize("at", [3, 11, 16])
def test_a_killed_process_reopens(tmp_path, at):
    assert survives_kill(tmp_path / "book", at)


@pytest.mark.long
def test_a_process_killed_at_every_point_reopens(tmp_path):
    at = 0
    while survives_kill(tmp_path / str(at), at):
        at += 1 if CASES else 3
    assert at > 20
