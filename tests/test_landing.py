"""Landing directories of any content: every file is applied once, quarantined, or named. Driven through `watch`."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from holdfast import Rulebook
from holdfast.pipeline.config import Pipeline
from holdfast.pipeline.stream import watch
from holdfast.store.disk import Disk
from tests.conftest import cases

NO_TEXT = "\udcff"  # a byte that is not UTF-8
NAMES = ("A", "%41", "a b", "ü", "a#b", "a?b", "x:y", "[1]", "{a,b}", "a\\b", "line\nbreak", NO_TEXT, "+", "*", "'\"")
FOLDERS = ("", "", "day=1/", "day=2/", "deep/er/", "%2e%2e/", "a*/")
FORMS = ("csv", "jsonl", "parquet")
POISON = ("torn.parquet", "note.txt", "deep.json", "bad.csv", "column.csv", "empty.parquet", "type.csv")
DAY = 86_400
NOW = 1_790_000_000
DATES = (NOW, NOW + 1, NOW - 8 * DAY, NOW - 20 * 365 * DAY, NOW + 400 * DAY)


class Crash(Exception):
    """The process ends here."""


class Disks:
    """Lets the n-th elementary operation of the disk fail, as the end of the process would."""

    def __init__(self, die_at: int | None) -> None:
        self._left = die_at

    def __enter__(self) -> None:
        self._before = {n: getattr(Disk, n) for n in ("write", "link", "remove", "sync_directory", "make_directory")}
        for name, method in self._before.items():
            setattr(Disk, name, self._ticking(method))

    def _ticking(self, method):
        def ticking(disk, *arguments):
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    raise Crash
            return method(disk, *arguments)

        return ticking

    def __exit__(self, *_: object) -> None:
        for name, method in self._before.items():
            setattr(Disk, name, method)


class World:
    """A landing directory and its rulebook, beside what must be true of them. Each content has a token of its own,
    which is the one row that it inserts; the table has no key, so a file that is applied twice shows."""

    def __init__(self, home: Path, spark) -> None:
        self.home, self.spark, self.tokens = home, spark, 0
        self.files: dict[str, tuple[str | None, bytes]] = {}  # token (None: poison) and content of what lies there
        self.taken: dict[str, bytes] = {}  # content that the rulebook has, or has quarantined, by path
        pq.write_table(pa.table({"token": ["base"]}), home / "data.parquet")
        (home / "landing").mkdir()

    def pipeline(self, on_error: str) -> Pipeline:
        record = {"book": "book", "tables": {"data": {"base": "data.parquet"}}, "rules": ["key(token)"]}
        record |= {"source": {"kind": "files", "path": "landing"}, "on_error": on_error, "keep": 3}
        return Pipeline.model_validate(record | {"sinks": [{"kind": "parquet", "path": "told"}]}).resolved(self.home)

    def content(self, form: str) -> tuple[str | None, bytes]:
        self.tokens += 1
        token = f"token{self.tokens:04d}"
        if form == "csv":
            return token, f"_change_type,token\ninsert,{token}\n".encode()
        if form == "jsonl":
            return token, json.dumps({"_change_type": "insert", "token": token}).encode() + b"\n"
        table = pa.table({"_change_type": ["insert"], "token": [token]})
        out = pa.BufferOutputStream()
        pq.write_table(table, out)
        whole = out.getvalue().to_pybytes()
        poison = {
            "torn.parquet": whole[: len(whole) // 2],
            "empty.parquet": b"",
            "note.txt": b"hello",
            "deep.json": b'{"_change_type": "insert", "token": ' + b"[" * 100_000 + b"\n",
            "bad.csv": b"_change_type,token\ninsert,a,b,c\n",
            "column.csv": b"_change_type,other\ninsert,a\n",
            "type.csv": f"_change_type,token\nupsert,{token}\n".encode(),
        }
        return (None, poison[form] + b" " * (form == "note.txt")) if form in poison else (token, whole)

    def drop(self, name: str, form: str, date: int) -> None:
        token, content = self.content(form)
        self.write(name, token, content, date)

    def write(self, name: str, token: str | None, content: bytes, date: int) -> None:
        path = self.home / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.home / "part"
        temporary.write_bytes(content)
        os.utime(temporary, (date, date))
        temporary.replace(path)
        self.files[name] = token, content

    def rewrite(self, name: str, date: int) -> None:
        """New content of the same length; of Parquet and poison one byte more, which breaks it."""
        token, content = self.files[name]
        if token is None or name.endswith("parquet"):
            self.write(name, None, content + b" ", date)
            return
        self.tokens += 1
        new = f"token{self.tokens:04d}"
        self.write(name, new, content.replace(token.encode(), new.encode()), date)

    def remove(self, name: str) -> None:
        (self.home / "landing" / name).unlink()
        del self.files[name]

    def run(self, on_error: str, die_at: int | None) -> None:
        """Lets `watch` take what is there, and compares."""
        poison = [n for n, (t, _) in self.files.items() if t is None and n not in self.taken and NO_TEXT not in n]
        try:
            with Disks(die_at):
                problems = watch(self.pipeline(on_error), self.spark)
        except Exception as error:
            assert die_at is not None or (on_error == "refuse" and poison), error
            if die_at is None:
                assert any(f"landing/{name}".partition("\n")[0] in str(error) for name in poison), error
            self.observe()
            return
        for name, (_, content) in self.files.items():
            if NO_TEXT not in name:
                self.taken.setdefault(name, content)
        told = [problem.replace("\\xff", NO_TEXT) for problem in problems]
        named = {name for name in self.files if any(f"landing/{name}: " in problem for problem in told)}
        assert named == {name for name, (_, content) in self.files.items() if self.taken.get(name) != content}
        self.check()

    def observe(self) -> None:
        """After a run that did not end, what was taken is what the rulebook shows."""
        for name, (token, content) in self.files.items():
            rows, bad = self.rulebook()
            if name not in self.taken and (token in rows if token else f"{self.home}/landing/{name}" in bad):
                self.taken[name] = content
        self.check()

    def rulebook(self) -> tuple[Counter[str], Counter[str]]:
        if not (self.home / "book/manifests").exists() or not any((self.home / "book/manifests").glob("[0-9]*")):
            return Counter(), Counter()
        with Rulebook.open(self.home / "book") as book:
            assert book.quarantined()["change_type"].to_pylist() == ["unreadable"] * book.quarantined().num_rows
            return Counter(book.table()["token"].to_pylist()), Counter(book.quarantined()["place"].to_pylist())

    def check(self) -> None:
        """Nothing is applied or quarantined twice, and all that was taken is there."""
        rows, bad = self.rulebook()
        assert max(rows.values(), default=1) == 1 and max(bad.values(), default=1) == 1
        for name, content in self.taken.items():
            found = [t for t in rows if t is not None and t.encode() in content]
            poison = self.files.get(name, ("", b""))[0] is None and self.files[name][1] == content
            assert f"{self.home}/landing/{name}" in bad if poison else found or f"{self.home}/landing/{name}" in bad


ANY_FOLDER, ANY_NAME, ANY_DATE = st.sampled_from(FOLDERS), st.sampled_from(NAMES), st.sampled_from(DATES)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("drop"), ANY_FOLDER, ANY_NAME, st.sampled_from(FORMS), ANY_DATE),
        st.tuples(st.just("poison"), ANY_FOLDER, ANY_NAME, st.sampled_from(POISON), ANY_DATE),
        st.tuples(st.just("rewrite"), st.integers(0, 99), st.sampled_from(DATES)),
        st.tuples(st.just("remove"), st.integers(0, 99)),
        st.tuples(st.just("copy"), st.integers(0, 99), st.sampled_from(FOLDERS), st.sampled_from(DATES)),
        st.tuples(st.just("run"), st.sampled_from(["quarantine", "refuse"]), st.none() | st.integers(0, 60)),
    ),
    min_size=1,
    max_size=9,
)  # fmt: skip


def play(world: World, steps) -> None:
    for step in steps:
        there = sorted(world.files)
        if step[0] in ("drop", "poison"):
            name = f"{step[1]}{step[2]}{'.' if step[0] == 'drop' else '-'}{step[3]}"
            if name not in world.files and name not in world.taken:
                world.drop(name, step[3], step[4])
        elif step[0] == "run":
            world.run(step[1], step[2])
        elif not there:
            continue
        elif step[0] == "rewrite":
            world.rewrite(there[step[1] % len(there)], step[2])
        elif step[0] == "remove":
            world.remove(there[step[1] % len(there)])
        else:  # the same content under another name is another file
            name = there[step[1] % len(there)]
            copy = f"{step[2]}copy-{name.rpartition('/')[2]}"
            token, content = world.files[name]
            if copy not in world.files and copy not in world.taken and token is None:
                world.write(copy, token, content, step[3])
    world.run("quarantine", None)
    world.run("quarantine", None)  # and nothing changes any more


@pytest.mark.spark
def test_every_file_is_applied_once_quarantined_or_named(spark):
    @settings(max_examples=cases(4), deadline=None, phases=[Phase.generate])
    @given(STEPS)
    def law(steps):
        with tempfile.TemporaryDirectory() as home:
            play(World(Path(home), spark), steps)

    law()
