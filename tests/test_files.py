"""What is written, where and for whom: links, permissions, foreign files, full and read-only disks, damage."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdfast.store.disk
import holdfast.whole_file
from holdfast import Change, Rulebook, RuleError, RuleFile, StoreError
from holdfast.cli.main import status_of
from holdfast.store.disk import Disk
from holdfast.whole_file import replace_whole
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.decisions import deciding

PEOPLE = pa.table({"id": [1, 2, 3], "zip": ["1", "1", "2"], "city": ["x", "y", "z"]})


def more(*ids: int) -> Change:
    return Change(inserts=pa.table({"id": [*ids], "zip": ["9"] * len(ids), "city": ["w"] * len(ids)}))


@pytest.fixture
def path(tmp_path) -> Path:
    with Rulebook.create(tmp_path / "book", PEOPLE, key="id", rules=["zip -> city"]) as book, deciding(book):
        pass
    return tmp_path / "book"


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def modes(place: Path) -> set[int]:
    return {stat.S_IMODE(p.lstat().st_mode) for p in [place, *place.rglob("*")]}


# --- links and permissions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lock", ".rules.lock"])
def test_locks_do_not_follow_links(path, name):
    victim = path.parent / "victim"
    victim.write_text("precious")
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(victim)
    book = Rulebook.open(path)
    use = (lambda: book.apply(more(4))) if name == "lock" else deciding(book).__enter__
    with pytest.raises(StoreError, match="it is a symbolic link: remove it"):
        use()
    assert victim.read_text() == "precious"


def test_new_files_do_not_follow_links(tmp_path):
    victim = tmp_path / "victim"
    (tmp_path / "trap").symlink_to(victim)
    with pytest.raises(FileExistsError):
        Disk().write(tmp_path / "trap", b"x")
    assert not victim.exists()


def test_a_replaced_file_does_not_follow_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "rules.yml").symlink_to(victim)
    replace_whole(tmp_path / "rules.yml", b"new")
    assert victim.read_text() == "precious" and (tmp_path / "rules.yml").read_text() == "new"
    assert not (tmp_path / "rules.yml").is_symlink() and len(list(tmp_path.iterdir())) == 2


def test_no_name_in_a_book_can_be_prepared(path):
    """Names of temporary files are random: links under the old fixed names are left alone."""
    victim = path.parent / "victim"
    victim.write_text("precious")
    for name in (".rules.yml.new", ".baseline.parquet.new"):
        (path / name).symlink_to(victim)
    assert status_of(["rules", "accept", str(path), "key(city)"]) == 0
    assert status_of(["rules", "baseline", str(path)]) == 0
    assert victim.read_text() == "precious" and (path / "baseline.parquet").exists()


def test_a_private_book_stays_private(tmp_path, umask):
    umask(0o077)
    (tmp_path / "people.csv").write_text("id,zip,city\n1,1,x\n2,1,y\n")
    book = tmp_path / "book"
    assert status_of(["init", str(book), str(tmp_path / "people.csv"), "--key", "id", "--rule", "zip -> city"]) == 0
    assert status_of(["rules", "baseline", str(book)]) == 0
    assert status_of(["report", str(book), "--out", str(tmp_path / "r.csv")]) == 0
    assert modes(book) == {0o700, 0o600} and stat.S_IMODE((tmp_path / "r.csv").stat().st_mode) == 0o600
    umask(0o022)  # what is replaced later stays as it was
    assert status_of(["rules", "retire", str(book), "zip -> city"]) == 0
    assert status_of(["rules", "accept", str(book), "zip -> city"]) == 0
    assert status_of(["rules", "baseline", str(book)]) == 0
    assert status_of(["report", str(book), "--out", str(tmp_path / "r.csv")]) == 0
    for file in (book / "rules.yml", book / "baseline.parquet", tmp_path / "r.csv"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE(book.stat().st_mode) == 0o700


def test_nothing_is_wider_than_the_umask(tmp_path, umask):
    umask(0o027)
    with Rulebook.create(tmp_path / "book", PEOPLE, key="id", rules=["zip -> city"]) as book, deciding(book):
        pass
    assert modes(tmp_path / "book") == {0o750, 0o640}


def test_what_is_replaced_is_synced_before_and_after_the_rename(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append("sync"))
    rename = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, target: (done.append("rename"), rename(self, target))[1])
    replace_whole(tmp_path / "a", b"x")
    assert done == ["sync", "rename", "sync"]


WAREHOUSE = """
import os, sys, tempfile
from pathlib import Path
from holdfast.spark import session
made = Path(session._private_directory())
assert made.parent == Path(tempfile.gettempdir()) and made.stat().st_mode & 0o777 == 0o700
session._remove(tempfile.gettempdir())
assert made.exists()
print(made)
"""


def test_sparks_warehouse_is_a_private_directory_that_goes(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WAREHOUSE], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().startswith(str(tmp_path / "holdfast-warehouse-")) and not list(tmp_path.iterdir())


# --- files of others ------------------------------------------------------------------------------------------------

FOREIGN = [
    "manifests/.DS_Store",
    "manifests/notes.txt",
    "manifests/12 copy.json",
    "manifests/0000000000 (1).json",
    "manifests/7",
    "manifests/._0000000000.json",
    "files/readme",
    "files/-1-x",
    "files/.DS_Store",
    "files/0000000000",
    "files/0000000000-notes.txt",
    "files/.cafe",
    "notes.md",
]


def test_files_of_others_are_ignored_and_never_removed(path):
    for name in FOREIGN:
        (path / name).write_text("mine")
    (path / "files" / ".0000000009-x.arrow.deadbeef").mkdir()
    with Rulebook.open(path) as book:
        for i in range(10, 30):
            book.apply(more(i))
        assert book.versions() == list(range(11, 21))
    with Rulebook.open(path) as book:
        book.apply(more(99))
        assert book.count() == 24
    assert all((path / name).read_text() == "mine" for name in FOREIGN)


def test_a_missing_book_says_what_to_do(path, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert status_of(["rules", "bok"]) == 2
    assert "did you mean book?" in capsys.readouterr().err
    assert status_of(["rules", "book/files"]) == 2
    assert "did you mean book?" in capsys.readouterr().err
    assert status_of(["report", "elsewhere/else"]) == 2
    told = capsys.readouterr().err
    assert "not a rulebook" in told and "`holdfast init elsewhere/else FILE...` makes one" in told
    assert told.count("\n") == 1
    (tmp_path / "plain").write_text("x")
    assert status_of(["apply", "plain", "x.csv"]) == 2
    assert "not a rulebook" in capsys.readouterr().err


# --- disks that refuse ----------------------------------------------------------------------------------------------


def refusing(code: int):
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code), "/some/where")

    return fail


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize(
    "what",
    [
        (["apply", "BOOK", "CHANGES"], "write_new"),
        (["apply", "BOOK", "CHANGES"], "os.open"),
        (["apply", "BOOK", "CHANGES"], "unlink"),
        (["rules", "accept", "BOOK", "key(city)"], "write_new"),
        (["rules", "accept", "BOOK", "key(city)"], "rename"),
        (["rules", "baseline", "BOOK"], "write_new"),
        (["report", "BOOK", "--out", "OUT.csv"], "write_new"),
        (["export", "BOOK", "--to", "dbt", "--out", "OUT"], "write_new"),
        (["export", "BOOK", "--to", "dbt", "--out", "OUT"], "mkdir"),
        (["import", "DCS", "--out", "OUT.yml"], "write_new"),
    ],
    ids=lambda x: f"{x[0][0]}-{x[0][1]}-{x[1]}" if isinstance(x, tuple) else str(x),
)
def test_a_disk_that_refuses_is_one_line(path, tmp_path, monkeypatch, capsys, what, code):
    command, where = what
    (tmp_path / "changes.csv").write_text("id,zip,city,_change_type\n4,9,w,insert\n")
    (tmp_path / "dcs.txt").write_text("zip -> city\n")
    (path / "files" / "0000000000-left-deadbeef.arrow").write_bytes(b"for the sweep")
    places = {"BOOK": str(path), "CHANGES": str(tmp_path / "changes.csv"), "DCS": str(tmp_path / "dcs.txt")}
    before = {
        p: p.read_bytes() for p in path.rglob("*") if p.is_file() and "left" not in p.name and "lock" not in p.name
    }
    fail = refusing(code)
    if where == "write_new":
        for module in (holdfast.whole_file, holdfast.store.disk):
            monkeypatch.setattr(module, "write_new", fail)
    elif where == "os.open":
        real = os.open
        monkeypatch.setattr(os, "open", lambda p, *a, **k: (fail if str(p).endswith("lock") else real)(p, *a, **k))
    elif where == "unlink":
        monkeypatch.setattr(Path, "unlink", fail)
    elif where == "rename":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        monkeypatch.setattr(Path, "mkdir", fail)
    arguments = [places.get(part, part.replace("OUT", str(tmp_path / "out"))) for part in command]
    assert status_of(arguments) == 2
    told = capsys.readouterr().err
    monkeypatch.undo()
    assert os.strerror(code) in told and "Traceback" not in told and told.count("\n") == 1 and "holdfast: " in told
    assert before.items() <= {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}.items()
    assert Rulebook.open(path).count() == 3


def test_versions_that_cannot_be_removed_stop_nothing(path, monkeypatch, caplog):
    book = Rulebook.open(path)
    for i in range(10, 20):
        book.apply(more(i))
    real = Path.unlink

    def stuck(self: Path, missing_ok: bool = False) -> None:
        if self.suffix == ".arrow" and not self.name.startswith("."):
            raise OSError(errno.EACCES, "Permission denied", str(self))
        real(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", stuck)
    for i in range(20, 40):
        assert book.apply(more(i)).version == i - 9
    assert "files of old ones could not be removed" in caplog.text and "Permission denied" in caplog.text
    monkeypatch.undo()
    for i in range(40, 60):
        book.apply(more(i))
    book.close()
    with Rulebook.open(path) as again:
        again.apply(more(99))
        assert again.count() == 54 and len(again.versions()) == 10
    store = again._store
    named = {name for version in store.versions() for name in store.manifest_of(version).files}
    assert {p.name for p in (path / "files").iterdir()} == named


def test_a_book_that_cannot_be_read_is_one_line(path, monkeypatch, capsys):
    monkeypatch.setattr("holdfast.store.directory.map_file", refusing(errno.EIO))
    assert status_of(["rules", str(path)]) == 2
    told = capsys.readouterr().err
    assert "cannot be read" in told and told.count("\n") == 1


# --- damage ---------------------------------------------------------------------------------------------------------


def known(path: Path) -> Path:
    with Rulebook.open(path) as book:
        Baseline.of(book).record(book, ["zip -> city"]).save(path / "baseline.parquet")
    return path / "baseline.parquet"


def test_a_damaged_baseline_says_what_to_do(path, capsys):
    file = known(path)
    good = file.read_bytes()
    rule = Rulebook.open(path).entries[0].id
    assert Baseline.load(file).count(rule) == 2
    for i in range(len(good)):  # whichever byte it is
        file.write_bytes(good[:i] + bytes([good[i] ^ 0x20]) + good[i + 1 :])
        try:
            assert Baseline.load(file).count(rule) == 2
        except StoreError as error:
            assert "damaged; restore it from a backup" in str(error) and "holdfast rules baseline" in str(error)
    for torn in (b"", good[: len(good) // 2], b"PAR1"):
        file.write_bytes(torn)
        with pytest.raises(StoreError, match="is damaged"):
            Baseline.load(file)
    assert status_of(["rules", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_changed_cell_of_the_baseline_is_noticed(path):
    file = known(path)
    table = pq.read_table(file)
    assert table.schema.metadata
    for column, cells in (("t", ["7", "2"]), ("s", [None, "1"]), ("rule_id", ["x", "y"])):
        changed = table.set_column(table.column_names.index(column), column, pa.array(cells, pa.string()))
        pq.write_table(changed.replace_schema_metadata(table.schema.metadata), file)
        with pytest.raises(StoreError, match="is damaged"):
            Baseline.load(file)
    pq.write_table(pa.table({"other": [1]}), file)
    with pytest.raises(StoreError, match="is damaged"):
        Baseline.load(file)


def test_a_baseline_without_checksum_still_loads(path):
    file = known(path)
    pq.write_table(pq.read_table(file).replace_schema_metadata(None), file)  # as version 0.1 wrote it
    with Rulebook.open(path) as book:
        assert Baseline.load(file).count(book.entries[0].id) == 2
        Baseline.load(file).record(book, ["zip -> city"]).save(file)
        assert Baseline.load(file).count(book.entries[0].id) == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"version: 1\nrules:\n  - rule: zip -> city\n  - rule: 'key(", 4),
        (b"version: 1\nrules:\n  - rule: zip -> city\n\xff\xfe\n", 4),
        (b"version: 1\nrules:\n  - rule: a\x00b\n", 3),
        (b"version: 1\nrules: [\n", 3),
    ],
)
def test_a_torn_rule_file_names_the_line_and_says_what_to_do(tmp_path, text, line):
    (tmp_path / "rules.yml").write_bytes(text)
    with pytest.raises(RuleError, match=rf"rules\.yml, line {line}: .*restore the file from version control") as told:
        RuleFile.load(tmp_path / "rules.yml")
    assert "\n" not in str(told.value)
