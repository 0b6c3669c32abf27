"""The life of a rulebook on Spark: refusals and quarantine as in the process, crashes, two writers, old files."""

from __future__ import annotations

import json
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.rules.rulefile import RuleEntry
from holdfast.spark import groups
from holdfast.spark import stage_progress as progress
from holdfast.spark.events import FrameFeed
from holdfast.spark.jobs import described
from holdfast.store.disk import Disk
from holdfast.table.change import read_feed

pytestmark = pytest.mark.spark
RULES = ["zip -> city", "key(email)", "not(t.low > t.high)", "not(t.low < s.low and t.high > s.high)"]
COLUMNS = ("id", "zip", "city", "email", "low", "high")


def rows(*values) -> pa.Table:
    return pa.table({name: [row[i] for row in values] for i, name in enumerate(COLUMNS)})


BASE = rows((1, "a", "x", "m1", 1, 2), (2, "a", "x", "m2", 2, 3), (3, "b", "y", "m3", 3, 1), (4, "b", "z", "m3", 4, 5))


@pytest.fixture
def both(spark, tmp_path):
    """The same rulebook in the process and on Spark."""
    here = hf.Rulebook.create(None, BASE, key="id", rules=RULES)
    frame = spark.createDataFrame(BASE).repartition(3)
    there = hf.Rulebook.create(tmp_path / "book", frame, key="id", rules=RULES, on="spark")
    yield here, there
    there.close()


def counts(book) -> list[int]:
    return [book.count_violations(rule) for rule in RULES]


def stored(book) -> list[tuple]:
    table = book.table()
    table = table if isinstance(table, pa.Table) else table.toArrow()
    return sorted(tuple(row.values()) for row in table.to_pylist())


BAD = [
    {"inserts": rows((4, "a", "x", "m9", 1, 1))},
    {"deletes": [(9,)]},
    {"inserts": rows((7, "a", "x", "m9", 1, 1), (7, "a", "x", "m9", 1, 1))},
    {"inserts": rows((None, "a", "x", "m9", 1, 1))},
]


@pytest.mark.parametrize("change", BAD, ids=["exists", "absent", "twice", "no key"])
def test_contradictions_are_refused_or_quarantined_as_in_the_process(both, change):
    here, there = both
    messages = []
    for book in both:
        with pytest.raises(hf.ChangeRefused) as refused:
            book.apply(hf.Change(**change))
        messages.append(str(refused.value))
    assert "the batch was refused as a whole" in messages[1]
    good = rows((8, "b", "y", "m8", 3, 3))
    batch = [hf.Change(**change), hf.Change(inserts=good)]
    one, other = (book.apply(batch, on_error="quarantine") for book in both)
    assert [bad.values["id"] for bad in one.quarantined if "id" in bad.values] == [
        bad.values["id"] for bad in other.quarantined if "id" in bad.values
    ]
    assert len(one.quarantined) == len(other.quarantined) >= 1
    assert counts(here) == counts(there) and stored(here) == stored(there)
    assert there.quarantined().num_rows == len(other.quarantined)


UPDATES = """_change_type,id,zip,city,email,low,high
update_preimage,9,a,x,m9,1,1
update_postimage,10,a,w,m9,1,1
update_preimage,1,a,x,m1,1,2
update_postimage,1,b,q,m1,1,2
update_preimage,2,a,WRONG,m2,2,3
update_postimage,20,a,x,m2,2,3
insert,30,a,x,m30,oops,3
"""


def test_both_halves_of_an_update_share_their_fate(both, tmp_path):
    here, there = both
    (tmp_path / "changes.csv").write_text(UPDATES)
    ((_, feeds),) = read_feed(tmp_path / "changes.csv")
    one, other = (book.apply(feeds, on_error="quarantine") for book in both)
    reasons = [sorted((bad.place, bad.reason.partition(":")[0]) for bad in out.quarantined) for out in (one, other)]
    assert [place for place, _ in reasons[0]] == [place for place, _ in reasons[1]] and len(reasons[1]) == 3
    assert sum(reason == "its other half" for _, reason in reasons[1]) == 1
    assert [drift.column for drift in one.drift] == [drift.column for drift in other.drift] == ["city"]
    assert counts(here) == counts(there) and stored(here) == stored(there)


def test_a_file_with_changes_of_several_tables(spark, tmp_path):
    """It has the columns of all tables; those of the others are null."""
    tables = {"a": pa.table({"id": [1], "x": [1]}), "b": pa.table({"id": [1], "y": ["p"]})}
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    (tmp_path / "c.csv").write_text("_change_type,_table,id,x,y\ninsert,b,2,,p\ninsert,a,2,1,\ndelete,a,1,,\n")
    ((_, feeds),) = read_feed(tmp_path / "c.csv")
    with hf.Rulebook.create(tmp_path / "book", frames, key="id", rules=["b: key(y)"], on="spark") as book:
        book.apply(feeds)
        assert (book.count("a"), book.count("b"), book.count_violations("b: key(y)")) == (1, 2, 2)
        assert book.history()["table"].to_pylist()[-2:] == ["a", "b"]


def test_a_feed_on_spark_applies_in_its_order(spark, both):
    """Insert, update and delete of one key by commits; an upsert of a row that is there."""
    here, there = both
    feed = pa.table({
        "_change_type": ["insert", "delete", "update_preimage", "update_postimage", "insert"],
        "_commit_version": [1, 3, 2, 2, 1],
    } | dict(zip(COLUMNS, rows(
        (7, "a", "x", "m7", 1, 1), (7, "a", "q", "m7", 1, 1), (7, "a", "x", "m7", 1, 1), (7, "a", "q", "m7", 1, 1),
        (1, "b", "y", "m1", 5, 5),
    ).columns, strict=True)))  # fmt: skip
    there.apply(FrameFeed(spark.createDataFrame(feed).repartition(4), order="_commit_version", upserts=True))
    here.apply(hf.Change(deletes=[(1,)]))
    here.apply(hf.Change(inserts=rows((1, "b", "y", "m1", 5, 5))))
    assert counts(here) == counts(there) and stored(here) == stored(there)


def test_groups_that_are_too_large_for_64_bits(spark, monkeypatch):
    monkeypatch.setattr(groups, "LARGE", 2)
    table = pa.table({"a": [1] * 5 + [2] * 2, "b": [1, 1, 1, 2, 2, 3, 3], "c": [1, 2, 3, 4, 5, 6, 7]})
    rules = ["a -> b", "a -> c", "key(a)", "key(b)"]
    here, there = hf.check(table, rules), hf.check(spark.createDataFrame(table).repartition(3), rules, on="spark")
    assert [here.count(rule) for rule in rules] == [there.count(rule) for rule in rules]


class DeadDisk(Disk):
    """A disk whose next manifest is lost, before or after it is written."""

    armed: str | None = None

    def put(self, path, data, attempt):
        if self.armed == "before" and path.parent.name == "manifests":
            raise OSError("the put was lost")
        super().put(path, data, attempt)
        if self.armed == "after" and path.parent.name == "manifests":
            raise OSError("the answer was lost")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_lost_put_leaves_a_consistent_rulebook(spark, tmp_path, moment):
    """[monday, CRASH, tuesday] is [monday, tuesday], or [monday, the crashed batch, tuesday] if it was published."""
    disk, frame = DeadDisk(), spark.createDataFrame(BASE).repartition(2)
    book = hf.Rulebook.create(tmp_path / "book", frame, key="id", rules=RULES, on="spark", disk=disk)
    book.apply(hf.Change(inserts=rows((5, "a", "q", "m5", 1, 1))), "monday", source="s")
    disk.armed = moment
    lost = hf.Change(inserts=rows((6, "b", "y", "m6", 9, 1)), deletes=[(1,)])
    with pytest.raises((OSError, hf.HoldfastError)):
        book.apply(lost, "crash", source="s")
    disk.armed = None
    again = book.apply(lost, "crash", source="s")
    assert again.skipped == (moment == "after")
    book.apply(hf.Change(deletes=[(5,)]), "tuesday", source="s")
    expected = hf.Rulebook.create(None, BASE, key="id", rules=RULES)
    expected.apply(lost)
    assert counts(book) == counts(expected) and stored(book) == stored(expected) and book.version == 3
    book.close()
    with hf.Rulebook.open(tmp_path / "book") as book:
        assert counts(book) == counts(expected) and stored(book) == stored(expected)


def test_of_two_writers_one_loses(spark, tmp_path):
    frame = spark.createDataFrame(BASE)
    first = hf.Rulebook.create(tmp_path / "book", frame, key="id", rules=RULES, on="spark")
    second = hf.Rulebook.open(tmp_path / "book")
    first.apply(hf.Change(deletes=[(1,)]))
    with pytest.raises(hf.StoreError, match="open the rulebook again"):
        second.apply(hf.Change(deletes=[(2,)]))
    second = hf.Rulebook.open(tmp_path / "book")
    second.apply(hf.Change(deletes=[(2,)]))
    assert stored(second) == [tuple(row.values()) for row in BASE.slice(2).to_pylist()]


def test_old_files_are_removed(spark, tmp_path):
    """Only what kept versions list is there, and what the last batch worked out on the way."""
    frame = spark.createDataFrame(BASE)
    with hf.Rulebook.create(tmp_path / "book", frame, key="id", rules=RULES, on="spark", keep=2) as book:
        for i in range(4):
            book.apply(hf.Change(inserts=rows((10 + i, "a", "x", f"n{i}", 1, 1))))
        book.compact()
        book.apply(hf.Change(deletes=[(10,)]))
        data = tmp_path / "book" / "data"
        there = {f"{f.parent.name}/{f.name}" for f in data.glob("*/*")}
        versions = {name: int(name.partition("/")[2][:10]) for name in there}
        old = {name for name, version in versions.items() if version < 4}
        assert all(name.startswith("rows") or (name.startswith("moves") and versions[name] == 0) for name in old)
        assert stored(book) == sorted(stored(book)) and book.versions() == [5, 6]
    with hf.Rulebook.open(tmp_path / "book", version=5) as old:
        assert old.table().count() == 8


def test_rules_are_added_and_retired(both):
    here, there = both
    for book in both:
        book.alter(rules=[RuleEntry(id="new", rule="zip -> high", nulls="equal")], retire=[book.entries[0].id])
        book.apply(hf.Change(inserts=rows((7, "a", None, "m7", 1, 9))))
        assert book.count_violations("new") == here.count_violations("new")
    assert [e.id for e in here.entries] == [e.id for e in there.entries]
    altered = [next(r["altered"] for r in book.records() if "altered" in r) for book in both]
    assert altered[0] == altered[1]
    assert not any("c2" in name for name in there.state() if name.startswith("groups"))


def test_a_session_is_left_as_it_was(spark, tmp_path):
    before = dict(spark.conf.getAll)
    with hf.Rulebook.create(tmp_path / "book", spark.createDataFrame(BASE), key="id", rules=RULES, on="spark") as book:
        book.apply(hf.Change(deletes=[(1,)]))
        book.violations(RULES[0]).collect()
    assert dict(spark.conf.getAll) == before
    assert spark.range(3).count() == 3


def test_what_is_not_available_says_so(both, tmp_path, spark):
    _, there = both
    with pytest.raises(hf.NotAvailable, match="on Spark, where `look` is not available"):
        there.look(RULES[0])
    with pytest.raises(hf.NotAvailable, match="keeps fd that hold exactly"):
        hf.Rulebook.create(tmp_path / "other", spark.createDataFrame(BASE), kinds=("fd",), max_error=0.1, on="spark")
    with pytest.raises(hf.HoldfastError, match="durable"):
        hf.Rulebook.create(None, spark.createDataFrame(BASE), on="spark")
    assert there.explain(RULES[0]).count == 2


def test_the_commands(spark, tmp_path, capsys):
    """init, apply, violations, explain, history, rules and doctor of a rulebook whose rows are on Spark."""
    pq.write_table(BASE, tmp_path / "people.parquet")
    change = rows((5, "a", "q", "m5", 1, 9)).append_column("_change_type", pa.array(["insert"]))
    pq.write_table(change, tmp_path / "change.parquet")
    book, rules = str(tmp_path / "book"), [word for rule in RULES for word in ("--rule", rule)]
    assert status_of(["init", book, str(tmp_path / "people.parquet"), "--key", "id", *rules, "--on", "spark"]) == 0
    assert "people (4 rows); 4 rules checked" in capsys.readouterr().out
    assert status_of(["apply", book, str(tmp_path / "change.parquet"), "--format", "json"]) == 1
    told = {v["rule"]: (v["added"], len(v["pairs_added"])) for v in json.loads(capsys.readouterr().out)["violations"]}
    assert told["zip -> city"] == (4, 4) and told["not(t.low > t.high)"] == (0, 0)
    assert status_of(["apply", book, str(tmp_path / "change.parquet")]) == 2  # the same content again
    assert status_of(["violations", book, "--rule", "key(email)", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["violations"][0]["count"] == 2
    assert status_of(["explain", book, "zip -> city"]) == 0
    assert "3 rows share a cause" in capsys.readouterr().out
    for command in (["history", book], ["rules", book], ["doctor", book, "--spark"]):
        assert status_of(command) == 0
    assert "both see" in capsys.readouterr().out
    assert status_of(["apply", book, str(tmp_path / "change.parquet"), "--on", "process"]) == 2
    assert "kept on Spark" in capsys.readouterr().err
    assert spark.range(2).count() == 2  # the session of the tests is used, and left alone


def test_progress_comes_from_the_status_of_stages(spark):
    """Jobs run until one is seen; what is reported are words, and tasks that are done of those that there are."""
    reports: list[tuple[str, int, int]] = []
    with patch.object(progress, "_SECONDS", 0.01), progress.stage_progress(spark, lambda *told: reports.append(told)):
        for _ in range(200):
            with described(spark, "zip -> city"):
                spark.range(0, 2_000_000, 1, 4).selectExpr("sum(hash(id))").collect()
            if reports:
                break
    work, done, tasks = reports[0]
    assert work == "zip -> city" and 0 <= done <= tasks and tasks > 0
