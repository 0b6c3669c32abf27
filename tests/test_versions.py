"""Rulebooks that live long: kept versions, what is forgotten, writers, readers, columns and rules that come later."""

from __future__ import annotations

import shutil
import threading

import numpy as np
import pyarrow as pa
import pytest

from holdfast import Change, Rulebook, SchemaError, StoreError
from holdfast.rulebook.follow import catch_up
from holdfast.store.directory import LocalDirectory, RemoteDirectory
from holdfast.store.disk import Disk
from holdfast.store.store import Store


def rows(*values: int, word: str = "w") -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64()), "w": [f"{word}{v}" for v in values]})


def files_of(path) -> set[str]:
    return {p.name for p in (path / "files").iterdir()}


def named_by(path) -> set[str]:
    directory = LocalDirectory(path)
    versions = [int(name[:10]) for name in directory.names("manifests")]
    return {name for v in versions for name in Store.open(directory, v).manifest.files}


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_versions_are_kept_and_forgotten(tmp_path, keep):
    path = tmp_path / "book"
    book = Rulebook.create(path, rows(*range(50)), rules=["key(n)"], keep=keep)
    for i in range(1, 30):
        book.apply(Change(inserts=rows(100 + i), deletes=rows(i)))
        first = max(0, i - keep + 1)
        assert book.versions() == list(range(first, i + 1))
        assert files_of(path) == named_by(path)
        for version in book.versions():
            old = Rulebook.open(path, version=version)
            assert old.version == version
            assert sorted(old.table()["n"].to_pylist()) == [0, *range(version + 1, 50), *range(101, 101 + version)]
    assert book.history().num_rows == 30
    if keep < 29:
        with pytest.raises(StoreError, match=rf"has no version 0 \(any more\); it keeps {'' if keep > 1 else '29'}"):
            Rulebook.open(path, version=0)


def test_an_old_version_is_only_looked_at(tmp_path):
    with Rulebook.create(tmp_path / "book", rows(1)) as book:
        book.apply(Change(inserts=rows(2)))
    old = Rulebook.open(tmp_path / "book", version=0)
    assert old.count() == 1 and old.rules().texts() == []
    with pytest.raises(StoreError, match="opened to be looked at"):
        old.apply(Change(inserts=rows(3)))
    with pytest.raises(StoreError, match="opened to be looked at"):
        old.alter(rules=["key(n)"])


def test_tables_that_did_not_change_are_carried_by_reference(tmp_path):
    path = tmp_path / "book"
    book = Rulebook.create(path, {"a": rows(*range(2000)), "b": rows(*range(2000))}, keep=1)
    (unchanged,) = (path / "files").glob("*-table-b-*")
    for i in range(40):
        book.apply(Change(inserts=rows(*range(100 * i, 100 * i + 100), word=f"{i}/"), table="a"))
    assert unchanged.exists() and len(list((path / "files").glob("*-table-a-*"))) == 1
    assert len(list((path / "files").glob("*-words-*"))) > 1  # one behind the other
    again = Rulebook.open(path)
    assert again.count("a") == 6000 and again.table("a").equals(book.table("a")) and again.history().num_rows == 42


def test_needed_versions_stay(tmp_path):
    book = Rulebook.create(tmp_path / "book", rows(1), rules=["key(n)"], keep=1, outbox=True)
    book.needed_from = 2
    for i in range(2, 8):
        book.apply(Change(inserts=rows(i, 1)))
    assert book.versions() == [6]  # of older ones sinks need only what they changed
    assert Store.open(LocalDirectory(tmp_path / "book")).versions_with_change() == [2, 3, 4, 5, 6]
    with pytest.raises(StoreError, match="keeps of version 3 only what it changed; it keeps 6 in full"):
        Rulebook.open(tmp_path / "book", version=3)
    record, events, bad, _ = book.events_of(3)
    assert record["version"] == 3 and bad == []
    assert events.select(["change", "t", "s", "rule"]).slice(0, 2).to_pylist() == [
        {"change": "added", "t": "0", "s": "6", "rule": "key(n)"},
        {"change": "added", "t": "2", "s": "6", "rule": "key(n)"},
    ]
    book.needed_from = None
    book.apply(Change(inserts=rows(9)))
    assert book.versions() == [7]
    assert [p.name for p in (tmp_path / "book" / "manifests").iterdir()] == ["0000000007.json"]
    with pytest.raises(StoreError, match=r"has no version 3 \(any more\); it keeps 7"):
        book.events_of(3)


def test_what_a_killed_writer_left_is_swept(tmp_path):
    path = tmp_path / "book"
    Rulebook.create(path, rows(1)).close()
    (path / "files" / "0000000000-change-dead.arrow").write_bytes(b"half")
    (path / "files" / ".0000000001-change-dead.arrow.beef").write_bytes(b"half")
    (path / "files" / "0000000007-change-dead.arrow").write_bytes(b"of another writer, perhaps")
    with Rulebook.open(path) as book:
        book.apply(Change(inserts=rows(2)))
    names = {p.name for p in (path / "files").iterdir()}
    assert names - named_by(path) == {"0000000007-change-dead.arrow"}


def test_readers_while_a_writer_forgets(tmp_path):
    """A reader that found a manifest finds its files, or goes on to a newer version."""
    path, stop, counts = tmp_path / "book", threading.Event(), []
    book = Rulebook.create(path, rows(0), keep=1)

    def read() -> None:
        while not stop.is_set():
            reader = Rulebook.open(path)
            counts.append((reader.version, reader.count()))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(1, 150):
        book.apply(Change(inserts=rows(i)))
    stop.set()
    for thread in threads:
        thread.join()
    assert len(counts) > 10 and all(count == version + 1 for version, count in counts)


def test_columns_and_rules_that_come_later(tmp_path):
    path = tmp_path / "book"
    book = Rulebook.create(path, rows(1, 2), key="n", rules=["key(w)"])
    book.apply(Change(inserts=rows(3)))
    with pytest.raises(SchemaError, match="there is a column 'w' already"):
        book.alter(columns={"data": {"w": "text"}})
    assert book.alter(columns={"data": {"price": "decimal(2)"}}, rules=["price -> w", "not(t.price < 0)"]) == 2
    new = pa.table({"n": [4, 5], "w": ["x", "y"], "price": ["1.50", "1.5"]})
    for some in (book, Rulebook.open(path)):
        assert some.table()["price"].to_pylist() == [None] * 3
        assert some.rules().texts() == ["key(w)", "not(t.price < 0)", "price -> w"]
    out = book.apply(Change(inserts=new))
    assert out.violations.added("price -> w").to_pylist() == [{"t": 4, "s": 5}, {"t": 5, "s": 4}]
    book.close()
    again = Rulebook.open(path)
    assert again.count_violations("price -> w") == 2 and again.count() == 5
    assert Rulebook.open(path, version=1).rules().texts() == ["key(w)"]
    told = again._store.manifest_of(2).record["altered"]
    assert told["columns"] == {"data": {"price": "decimal(2)"}} and len(told["rules"]) == 2
    assert again.history()["version"].to_pylist() == [0, 1, 2, 3]
    again.apply(Change(deletes=[(5,)]))
    assert again.count_violations("price -> w") == 0


def test_an_alteration_before_any_change_survives_reopening(tmp_path):
    with Rulebook.create(tmp_path / "book", rows(1, 2), key="n") as book:
        book.alter(columns={"data": {"price": "integer"}})
        book.apply(Change(inserts=[(3, "x", 7)]))
    assert Rulebook.open(tmp_path / "book").table()["price"].to_pylist() == [None, None, 7]


def test_an_alteration_that_fails_changes_nothing(tmp_path):
    book = Rulebook.create(None, rows(1, 2), key="n", rules=["key(w)"])
    with pytest.raises(Exception, match="zip"):
        book.alter(columns={"data": {"more": "text"}}, rules=["zip -> w"])
    assert book.schemas["data"].names == ("n", "w") and book.version == 0
    book.apply(Change(inserts=rows(3)))
    assert book.count() == 3


def test_a_rulebook_in_an_object_store():
    """In fsspec's memory: put-if-absent, no lock; the second writer loses."""
    pytest.importorskip("fsspec")
    place = "memory://bucket/book"
    book = Rulebook.create(place, rows(*range(20)), rules=["key(w)"], keep=2)
    other = Rulebook.open(place)
    for i in range(20, 30):
        book.apply(Change(inserts=rows(i, i, word="same")))
    assert book.versions() == [9, 10] and book.count_violations("key(w)") == 20
    with pytest.raises(StoreError, match="exists already"):
        Rulebook.create(place, rows(1))
    for late in (Rulebook.open(place), other):
        book.apply(Change(inserts=rows(77)))
        with pytest.raises(StoreError, match="published this version first"):
            late.apply(Change(inserts=rows(78)))
    other.apply(Change(inserts=rows(78)))
    assert Rulebook.open(place).count() == 43
    names = RemoteDirectory(place).names("files")
    assert len(names) == len(set(names)) < 45


class ClientError(Exception):
    """Of a client of an object store: no OSError."""


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("then", ["works", "asks again", "is out"])
def test_a_lost_put_in_an_object_store(monkeypatch, is_written, then):
    """`tests/connectors/test_object_store.py` does this with a real server."""
    fsspec = pytest.importorskip("fsspec")
    place = f"memory://bucket/{is_written}-{then}"
    book, fs = Rulebook.create(place, rows(1)), type(fsspec.filesystem("memory"))
    put = fs.pipe_file

    def fail(*_, **__):
        raise ClientError("no answer")

    def lose(self, path, value, mode):
        if "manifests" not in path:
            return put(self, path, value, mode)
        if is_written:
            put(self, path, value, mode)
        if then == "asks again":
            return put(self, path, value, mode)
        if then == "is out":
            monkeypatch.setattr(fs, "cat_file", fail)
        return fail()

    with monkeypatch.context() as patch:
        patch.setattr(fs, "pipe_file", lose)
        if then == "asks again" or (is_written and then == "works"):
            assert book.apply(Change(inserts=rows(2)), "a").version == 1
        else:
            told = "may be published or not: .*no answer.*; open" if then == "is out" else "no answer; nothing changed"
            with pytest.raises(StoreError, match=told):
                book.apply(Change(inserts=rows(2)), "a")
    monkeypatch.undo()
    was_published = is_written or then == "asks again"
    again = Rulebook.open(place)
    assert again.apply(Change(inserts=rows(2)), "a").skipped == was_published
    assert again.version == 1 and again.count() == 2


def test_many_small_batches_make_few_files(tmp_path):
    book = Rulebook.create(tmp_path / "book", rows(1), keep=1)
    for i in range(2, 80):
        book.apply(Change(inserts=rows(i)))
        assert len(files_of(tmp_path / "book")) < 40
    again = Rulebook.open(tmp_path / "book")
    assert again.table().equals(book.table()) and again.history().num_rows == 79


# --- versions that a sink waits for ------------------------------------------------------------------------------


def publish_next(store: Store) -> None:
    """A version that adds its number to the state `a`."""
    number = store.version + 1
    states = {"a": {"x": np.arange(number)}}
    due = store.due()
    snapshot = None if due is None else states
    store.publish({"a": {"x": np.array([number])}}, {"version": number}, snapshot=snapshot, due=due)


def made(directory: LocalDirectory) -> Store:
    """With a state that does not change, large enough for three changes between snapshots."""
    states = {"a": {"x": np.arange(1)}, "b": {"x": np.arange(1500)}}
    return Store.create(directory, states, {}, {"version": 0})


def content(store: Store) -> list[int]:
    states, changes = store.load()
    arrays = [part["x"] for part in states["a"]] + [change["a"]["x"] for change in changes]
    return np.concatenate(arrays).tolist()


def require_consistent(path, needed_from: int, keep: int) -> None:
    """What is kept can be read, and no version that somebody needs is missing."""
    store = Store.open(LocalDirectory(path))
    whole, told = store.versions(), store.versions_with_change()
    assert whole == list(range(whole[0], store.version + 1)) and len(whole) >= min(keep, store.version + 1)
    assert told == list(range(told[0], store.version + 1)) and told[0] <= max(needed_from, 1)
    for version in whole:
        assert content(Store.open(LocalDirectory(path), version)) == list(range(version + 1))
    for version in filter(None, told):
        assert store.change(version)["a"]["x"].tolist() == [version]


def needed_files(path) -> set[str]:
    store = Store.open(LocalDirectory(path))
    manifests = [store.manifest_of(version) for version in store.versions_with_change()]
    whole = {name for m in manifests if m.version in store.versions() for name in m.files}
    return whole | {m.changes[-1].name for m in manifests if m.changes}


def test_a_dead_sink_costs_changes_not_tables(tmp_path):
    store = made(LocalDirectory(tmp_path / "book"))
    for _ in range(500):
        publish_next(store)
        store.collect(keep=3, needed_from=1)
    assert store.versions() == [498, 499, 500] and store.versions_with_change() == list(range(1, 501))
    require_consistent(tmp_path / "book", 1, 3)
    assert files_of(tmp_path / "book") == needed_files(tmp_path / "book")
    states = {name for name in files_of(tmp_path / "book") if "-change-" not in name}
    assert len(states) <= 3 and len(files_of(tmp_path / "book")) <= 503
    for first in (400, 496, 497):
        store.collect(keep=3, needed_from=first)
        assert store.versions_with_change()[0] == first
        assert files_of(tmp_path / "book") == needed_files(tmp_path / "book")
        require_consistent(tmp_path / "book", first, 3)
    store.collect(keep=3)
    assert store.versions_with_change() == store.versions() == [498, 499, 500]
    assert files_of(tmp_path / "book") == named_by(tmp_path / "book")
    require_consistent(tmp_path / "book", 498, 3)


class Killed(BaseException):
    """A process that ends here."""


class MortalDisk(Disk):
    """Dies before the n-th operation; inside it, where that writes."""

    def __init__(self, operations: int) -> None:
        self.left = operations

    def _live(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def write(self, path, data):
        if self.left == 0:
            path.write_bytes(bytes(data)[: len(bytes(data)) // 2])
        self._live()
        super().write(path, data)

    def link(self, source, target):
        self._live()
        super().link(source, target)

    def remove(self, path):
        self._live()
        super().remove(path)

    def sync_directory(self, path):
        self._live()
        super().sync_directory(path)


NEEDED = [1, 1, 1, 1, 3, 3, 7]  # from which version on, after each version


def follow(store: Store, reached: list[int]) -> None:
    while store.version < len(NEEDED):
        publish_next(store)
        reached.append(NEEDED[store.version - 1])
        store.collect(2, reached[-1])


def test_killed_anywhere_while_versions_are_forgotten(tmp_path):
    """Every version that a reader or a sink needs is whole after a kill at each operation of the disk."""
    path, operations, killed, lengths = tmp_path / "book", 0, True, set()
    while killed:
        shutil.rmtree(path, ignore_errors=True)
        made(LocalDirectory(path))
        store = Store.open(LocalDirectory(path, MortalDisk(operations)))
        reached = [1]
        try:
            follow(store, reached)
            killed = False
        except Killed:
            store.release()
        require_consistent(path, reached[-1], 2)
        again = Store.open(LocalDirectory(path))
        again.acquire()
        assert {name for name in files_of(path) if int(name[:10]) <= again.version} == needed_files(path)
        lengths.add(len(again.manifest.changes))
        follow(again, [])
        again.collect(2, NEEDED[-1])
        again.release()
        again.acquire()
        again.release()
        assert Store.open(LocalDirectory(path)).versions_with_change() == [6, 7]
        assert len(list((path / "manifests").iterdir())) == 2 and files_of(path) == named_by(path)
        operations += 1
    assert operations > 80
    assert max(lengths) > 2 and 1 in lengths  # versions share changes, and snapshots end that


def test_a_reader_goes_on_when_only_the_change_of_its_version_is_left(tmp_path):
    book = Rulebook.create(tmp_path / "book", rows(*range(5)), keep=1, outbox=True)
    book.needed_from = 1
    reader = Rulebook.open(tmp_path / "book")
    for i in range(10, 30):
        book.apply(Change(inserts=rows(i)))
    old = Store(LocalDirectory(tmp_path / "book"), book._store.manifest_of(3))
    assert old.is_superseded() and not book._store.is_superseded()
    assert len(reader.refresh()) == 20 and reader.count() == 25


def test_a_refresh_that_was_interrupted_goes_on_where_it_was(tmp_path, monkeypatch):
    with Rulebook.create(tmp_path / "book", pa.table({"a": ["x"]}), kinds=("key",)) as writer:
        reader = Rulebook.open(tmp_path / "book")
        for text in ("y", "z", "x"):
            writer.apply(Change(inserts=pa.table({"a": [text]})))
        merged = []

        def once(engine, change):
            if merged:
                raise KeyboardInterrupt
            merged.append(catch_up(engine, change))
            return merged[-1]

        monkeypatch.setattr("holdfast.rulebook.book.catch_up", once)
        with pytest.raises(KeyboardInterrupt):
            reader.refresh()
        monkeypatch.undo()
        assert reader.version == 1 and len(reader.refresh()) == 2
        assert reader.table().equals(writer.table()) and reader.found() == writer.found() and reader.version == 3


def test_a_batch_may_be_named_by_an_empty_text():
    book = Rulebook.create(None, pa.table({"a": [1]}))
    assert not book.apply(Change(inserts=pa.table({"a": [2]})), batch_id="").skipped
    again = book.apply(Change(inserts=pa.table({"a": [2]})), batch_id="")
    assert again.skipped and again.batch == "" and book.count() == 2
