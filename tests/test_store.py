"""Files, manifests, snapshots, damage and lost races."""

from __future__ import annotations

import errno
import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Change, Rulebook, StoreError
from holdfast.arrays import from_buffer, joined, split, to_buffer
from holdfast.store.directory import LocalDirectory
from holdfast.store.disk import Disk
from holdfast.store.interrupt import uninterrupted
from holdfast.store.store import Store
from tests.conftest import cases

DTYPES = [np.int64, np.uint64, np.int32, np.uint8, np.bool_, np.float64]


@given(data=st.data())
@settings(max_examples=cases(100))
def test_arrays_survive_a_file(data):
    arrays = {}
    for name in data.draw(st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=4)):
        shape = data.draw(st.sampled_from([(0,), (3,), (2, 3), (2, 0), (1, 2, 2), ()]))
        values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        arrays[name] = values.astype(data.draw(st.sampled_from(DTYPES)))
    back = from_buffer(to_buffer(arrays))
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype and back[name].shape == array.shape and np.array_equal(back[name], array)


def test_states_join_and_split():
    states = {"a/b": {"x": np.array([1])}, "c": {"x": np.array([2]), "y": np.array([3])}}
    assert split(joined(states)) == states


HEARD: list[int] = []


def numbers(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


@pytest.fixture
def path(tmp_path):
    Rulebook.create(tmp_path / "book", numbers(*range(1000))).close()
    return tmp_path / "book"


def test_a_new_snapshot_when_changes_exceed_a_quarter(path):
    book = Rulebook.open(path)
    seen = []
    for i in range(12):
        book.apply(Change(inserts=numbers(*range(100))))
        manifest = Store.open(LocalDirectory(path)).manifest
        seen.append(len(manifest.changes))
        before = sum(ref.size for ref in manifest.changes[:-1])
        assert 4 * before <= manifest.state_size and manifest.version == i + 1
    assert max(seen) > 1 and seen.count(1) > 1  # both happened: changes piled up, snapshots were made
    assert Rulebook.open(path).count() == 2200


def test_unnamed_files_are_ignored(path):
    (path / "files" / "0000000009-change-dead.arrow").write_bytes(b"half")
    (path / "manifests" / ".0000000001.json.beef").write_bytes(b"half")
    assert Rulebook.open(path).count() == 1000


def test_damage_is_an_error_that_says_what_to_do(path):
    (snapshot,) = (path / "files").glob("*-table-*")
    good = snapshot.read_bytes()
    snapshot.write_bytes(good[:-30] + bytes(30))
    with pytest.raises(StoreError, match=r"table-data.*damaged \(wrong checksum\); restore it"):
        Rulebook.open(path)
    snapshot.unlink()
    with pytest.raises(StoreError, match="is missing; restore it"):
        Rulebook.open(path)
    snapshot.write_bytes(good)
    assert Rulebook.open(path).count() == 1000


def test_damaged_and_newer_manifests(path):
    (manifest,) = (path / "manifests").iterdir()
    record = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(record | {"format": 99}))
    with pytest.raises(StoreError, match="has format 99; this Holdfast reads up to 1: install a newer one"):
        Rulebook.open(path)
    record["manifest"]["version"] = 5
    manifest.write_text(json.dumps(record))
    with pytest.raises(StoreError, match="damaged"):
        Rulebook.open(path)
    manifest.write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        Rulebook.open(path)


def test_directories_that_are_not_rulebooks(tmp_path, path):
    with pytest.raises(StoreError, match="not a rulebook"):
        Rulebook.open(tmp_path / "none")
    with pytest.raises(StoreError, match="exists already"):
        Rulebook.create(path, numbers(1))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious.txt").write_text("x")
    with pytest.raises(StoreError, match="exists already"):
        Rulebook.create(tmp_path / "other", numbers(1))
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="exists already"):
        Rulebook.create(tmp_path / "file", numbers(1))
    (tmp_path / "empty").mkdir()
    assert Rulebook.create(tmp_path / "empty", numbers(1)).count() == 1


def test_an_interrupted_create_can_be_repeated(path):
    (manifest,) = (path / "manifests").iterdir()
    manifest.unlink()
    with pytest.raises(StoreError, match="not a rulebook"):
        Rulebook.open(path)
    assert Rulebook.create(path, numbers(1)).count() == 1


def test_the_second_writer_loses_and_can_go_on(path):
    first, second = Rulebook.open(path), Rulebook.open(path)
    first.apply(Change(inserts=numbers(1)))
    with pytest.raises(StoreError, match="another process published this version first"):
        second.apply(Change(inserts=numbers(2)))
    assert second.count() == 1001  # it has read the other's version
    second.apply(Change(inserts=numbers(3)))
    with pytest.raises(StoreError, match="another process published this version first"):
        first.apply(Change(inserts=numbers(2)))
    first.apply(Change(inserts=numbers(2)))
    assert Rulebook.open(path).table()["n"].to_pylist()[-3:] == [1, 3, 2]


WRITER = """
import sys, holdfast
book = holdfast.Rulebook.open(sys.argv[1])
book.apply(holdfast.Change(inserts=[(1,)]))
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_while_the_first_writes(path):
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "ready\n"
        book = Rulebook.open(path)
        with pytest.raises(StoreError, match=f"process {first.pid} on .* is writing to this rulebook; wait"):
            book.apply(Change(inserts=numbers(2)))
        assert book.count() == 1001  # looking is allowed
        first.stdin.close()
        first.wait()
    book.apply(Change(inserts=numbers(2)))
    assert Rulebook.open(path).count() == 1002


def test_a_file_is_put_once(tmp_path):
    """The second put of a name fails and keeps the first content: that is how a second writer loses."""
    Disk().put(tmp_path / "manifest", b"first", "a")
    with pytest.raises(FileExistsError):
        Disk().put(tmp_path / "manifest", b"second", "b")
    assert (tmp_path / "manifest").read_bytes() == b"first" and len([*tmp_path.iterdir()]) == 1


class FullDisk(Disk):
    def write(self, path, data):
        path.write_bytes(bytes(data)[:10])
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_changes_nothing(path):
    book = Rulebook.open(path, FullDisk())
    with pytest.raises(StoreError, match="No space left"):
        book.apply(Change(inserts=numbers(1)))
    assert book.count() == 1000
    book = Rulebook.open(path)
    book.apply(Change(inserts=numbers(1)))
    assert book.count() == 1001
    with pytest.raises(StoreError, match="No space left"):
        Rulebook.create(path.parent / "new", numbers(1), disk=FullDisk())


class InterruptedDisk(Disk):
    def sync_directory(self, path):
        super().sync_directory(path)
        if path.name == "manifests":
            raise KeyboardInterrupt


def test_ctrl_c_after_publication_leaves_memory_and_disk_equal(path):
    book = Rulebook.open(path, InterruptedDisk())
    with pytest.raises(KeyboardInterrupt):
        book.apply(Change(inserts=numbers(1)), batch_id=1)
    assert book.count() == 1001 and book.version == 1
    assert book.apply(Change(inserts=numbers(1)), batch_id=1).skipped


def test_ctrl_c_waits_for_the_states(monkeypatch):
    book = Rulebook.create(None, numbers(1))
    state = book._engine.state
    merge = state.merge

    def interrupted(states):
        signal.raise_signal(signal.SIGINT)
        merge(states)

    monkeypatch.setattr(state, "merge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        book.apply(Change(inserts=numbers(2)))
    assert book.count() == 2 and book.version == 1


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: HEARD.append(1)])
def test_ctrl_c_goes_where_the_program_wants_it(handler):
    HEARD.clear()
    before = signal.signal(signal.SIGINT, handler)
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            assert not HEARD
        assert len(HEARD) == (handler is not signal.SIG_IGN) and signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_copied_directory_is_a_rulebook(path, tmp_path):
    shutil.copytree(path, tmp_path / "copy")
    assert Rulebook.open(tmp_path / "copy").count() == 1000


def test_a_closed_rulebook_refuses_use(path):
    with Rulebook.open(path) as book:
        pass
    with pytest.raises(StoreError, match="closed"):
        book.table()
