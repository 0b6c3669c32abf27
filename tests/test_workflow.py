"""From suggestion to alert: decisions, baselines, masks, history, explanations."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.errors import HoldfastError, RuleError, StoreError
from holdfast.pipeline.config import load_pipeline
from holdfast.pipeline.debezium import feeds_of
from holdfast.pipeline.follower import Follower
from holdfast.pipeline.new_book import make_book
from holdfast.pipeline.sources import stream_of
from holdfast.report.facts import lines_of, shown_violation
from holdfast.report.page import report_html
from holdfast.rules.rulefile import RuleEntry, RuleFile
from holdfast.violations.look import of_row
from holdfast.workflow.alerts import alerts_of_batch, body_of, send
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.decisions import ACCEPTED, FILE, REJECTED, SUGGESTED, Decisions, adopt, deciding, look_at
from holdfast.workflow.history import History
from holdfast.workflow.masking import HIDDEN, Mask
from tests import naive
from tests import strategies as hs
from tests.conftest import cases

PEOPLE = pa.table(
    {
        "id": [1, 2, 3, 4],
        "zip": ["10115", "20095", "20095", "80331"],
        "city": ["Berlin", "Hamburg", "Hamburg", "Munich"],
        "ssn": ["a", "b", "c", "d"],
    }
)
RULE = "zip -> city"


@pytest.fixture
def book(tmp_path):
    with hf.Rulebook.create(
        tmp_path / "book", PEOPLE, key="id", rules=[RULE], kinds=("key", "fd"), outbox=True
    ) as made:
        yield made


def row(id_, zip_, city, ssn):
    return pa.table({"id": [id_], "zip": [zip_], "city": [city], "ssn": [ssn]})


def texts(entries):
    return [entry.rule for entry in entries]


# --- decisions --------------------------------------------------------------------------------------------------


def test_what_was_decided_is_checked_and_the_rest_is_not(book):
    with deciding(book) as decisions:
        made = decisions.suggest(book.best(), "equal")
        assert made and all(entry.status == SUGGESTED and entry.description for entry in made)
        decisions.decide("key(ssn)", ACCEPTED, severity="warn", owner="ana", tolerance=0.1)
        decisions.decide(RULE, "retired")
    assert texts(book.entries) == [RULE]  # a decision counts when the writer takes it over
    assert adopt(book) == 1 and texts(book.entries) == ["key(ssn)"]
    assert adopt(book) is None
    entry = book.entry("key(ssn)")
    assert (entry.severity, entry.owner, entry.tolerance) == ("warn", "ana", 0.1)
    with hf.Rulebook.open(book.path) as again:
        assert texts(again.entries) == ["key(ssn)"] and again.count_violations("key(ssn)") == 0
    what = {(event.what, event.rule if event.what == "adopted" else event.id) for event in History(book).events()}
    assert what == {("adopted", "key(ssn)"), ("retired", hf.parse(RULE).id)}


def test_a_rejected_rule_is_never_suggested_again(book):
    wanted = next(r for r in book.best() if r.text == "city -> zip")
    with deciding(book) as decisions:
        decisions.decide("city -> zip", REJECTED)
        assert wanted.text not in texts(decisions.suggest(book.best(), "equal"))
    with deciding(book) as decisions:
        assert decisions.suggest(book.best(), "equal") == []


def test_comments_and_hand_edits_of_the_file_survive(book):
    with deciding(book):
        pass
    path = book.path / FILE
    path.write_text(path.read_text().replace("rules:", "# ours\nrules:") + "  - rule: key(ssn)  # ask ana\n")
    assert adopt(book) is not None and texts(book.entries) == [RULE, "key(ssn)"]
    with deciding(book) as decisions:
        decisions.decide("key(ssn)", "retired")
    assert "# ours" in path.read_text() and "# ask ana" in path.read_text()
    assert adopt(book) is not None and texts(book.entries) == [RULE]


@pytest.mark.parametrize("wrong", ["  - rule: zip -> town\n", "  - rule: zip ->\n", "nonsense: 1\n"])
def test_a_bad_file_changes_nothing(book, wrong):
    with deciding(book):
        pass
    path = book.path / FILE
    path.write_text(path.read_text() + wrong)
    with pytest.raises(HoldfastError, match=r"rules\.yml"):
        adopt(book)
    assert texts(book.entries) == [RULE] and book.version == 0


def test_decisions_need_a_place_and_a_rule(book):
    with pytest.raises(StoreError, match="memory"), deciding(hf.Rulebook.create(None, PEOPLE)):
        pass
    with deciding(book) as decisions, pytest.raises(RuleError, match="town"):
        decisions.decide("zip -> town", ACCEPTED, book=book)
    with deciding(book) as decisions, pytest.raises(RuleError, match="no rule with the id"):
        decisions.decide("fd-nothing", ACCEPTED, book=book)
    found = next(iter(book.found().of("key")))
    with deciding(book) as decisions:
        assert decisions.decide(found.id, ACCEPTED, book=book).value == found


def test_decisions_of_several_threads_are_all_kept(book):
    rules = [f"not(t.id < {n})" for n in range(8)]

    def decide(rule):
        with deciding(book) as decisions:
            decisions.decide(rule, ACCEPTED)

    threads = [threading.Thread(target=decide, args=(rule,)) for rule in rules]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(texts(Decisions.of(book).entries)) == {RULE, *rules}


def test_an_emptied_file_is_refused_and_a_wrong_rule_is_named_with_its_line(book, capsys):
    with deciding(book):
        pass
    path = book.path / FILE
    text = path.read_text()
    path.write_text("version: 1\nrules: []\n")
    with pytest.raises(HoldfastError, match="no rules any more"):
        adopt(book)
    path.write_text(text + "  - rule: zip -> town\n")
    with pytest.raises(HoldfastError, match=r"rules\.yml, line 5: .*town"):
        adopt(book)
    assert status_of(["rules", str(book.path), "--format", "json"]) == 0
    assert "does not fit the tables" in capsys.readouterr().out
    path.write_text(text.replace("rule:", "statuss: accepted\n    rule:"))
    with pytest.raises(RuleError, match="did you mean 'status'"):
        adopt(book)
    for wrong in (["rules", str(book.path), "--status", "acepted"], ["history", str(book.path), "--rule", "nope"]):
        path.write_text(text)
        assert status_of(wrong) == 2


def test_a_rule_is_checked_as_it_was_found(tmp_path):
    """A found rule was found under the book's null policy; accepting it, by id or text, keeps that."""
    table = pa.table({"zip": ["1", None, None], "city": ["a", "b", "b"]})
    with hf.Rulebook.create(tmp_path / "b", table, kinds=("fd",)) as book:
        found = next(rule for rule in book.found() if str(rule) == RULE)
        with deciding(book) as decisions:
            assert decisions.decide(found.id, ACCEPTED, book=book).nulls == "equal"
        adopt(book)
        book.apply(hf.Change(inserts=pa.table({"zip": pa.array([None], pa.string()), "city": ["c"]})))
        assert book.count_violations(RULE) == 4 and look_at(book, RULE).count == 4


def test_one_text_under_two_ids(tmp_path):
    rules = [RuleEntry(id="de", rule=RULE, filter="t.zip = '1'"), RuleEntry(id="all", rule=RULE)]
    table = pa.table({"zip": ["1", "2", "2"], "city": ["a", "b", "c"]})
    with hf.Rulebook.create(tmp_path / "b", table, rules=rules) as book:
        assert (look_at(book, "de").count, look_at(book, "all").count) == (0, 2)
        with deciding(book) as decisions:
            decisions.decide("all", "retired")
        adopt(book)
        assert [entry.id for entry in book.entries] == ["de"]
        assert "(only rows with t.zip = '1')" in lines_of(book)[0].sentence


# --- baseline, tolerance, alerts --------------------------------------------------------------------------------


def test_an_alert_names_the_largest_groups_that_have_something_new():
    rows = [{"id": n, "zip": n % 8, "city": f"town {n % 8}"} for n in range(400 - 200)]
    with hf.Rulebook.create(None, pa.Table.from_pylist(rows), key="id", rules=["zip -> city"]) as book:
        new = [{"id": 900 + n, "zip": n, "city": "elsewhere"} for n in range(7)]
        more = [{"id": 990 + n, "zip": 6, "city": "town 6"} for n in range(9)]
        (alert,) = alerts_of_batch(book, book.apply(hf.Change(inserts=pa.Table.from_pylist(new + more))))
        assert alert.groups[0] == "6: town 6 34 rows, elsewhere 1 row (906)"
        assert len(alert.groups) == 6 and alert.groups[-1] == "and 2 groups more" and len(alert.examples) == 5
        assert body_of([alert]).count("elsewhere 1 row") == 5


def test_only_what_is_not_known_alerts(book):
    out = book.apply(hf.Change(inserts=row(5, "10115", "Bonn", "e")))
    (alert,) = alerts_of_batch(book, out)
    assert (alert.rule, alert.added, alert.total) == (RULE, 2, 2) and alert.examples == ((1, 5),)
    assert alert.groups == ("10115: Berlin 1 row, Bonn 1 row (5)",)
    known = Baseline.of(book).record(book, [RULE])
    known.save(book.path / "baseline.parquet")
    assert Baseline.of(book).count(hf.parse(RULE).id) == 2
    book.apply(hf.Change(deletes=pa.table({"id": [5]})))
    assert alerts_of_batch(book, book.apply(hf.Change(inserts=row(5, "10115", "Bonn", "e")))) == []  # known already
    (alert,) = alerts_of_batch(book, book.apply(hf.Change(inserts=row(6, "10115", "Bern", "f"))))
    assert alert.added == 4 and {frozenset(pair) for pair in alert.examples} == {frozenset({1, 6}), frozenset({5, 6})}
    assert Baseline.of(book).new_violations(book, hf.parse(RULE).id, 10).num_rows == 4


def test_a_tolerance_keeps_quiet_and_a_rule_that_discovery_lost_does_not(book):
    with deciding(book) as decisions:
        decisions.decide(RULE, ACCEPTED, tolerance=0.5)
    adopt(book)
    assert alerts_of_batch(book, book.apply(hf.Change(inserts=row(5, "10115", "Bonn", "e")))) == []
    book.apply(hf.Change(deletes=pa.table({"id": [5]})))
    out = book.apply(hf.Change(inserts=row(6, "10115", None, "f")))  # no violation in SQL; one where nulls are equal
    (alert,) = alerts_of_batch(book, out)
    assert alert.added == 0 and "no longer" in alert.message


def test_a_generalised_rule_is_no_alert(tmp_path):
    table = pa.table({"a": [1, 1, 2], "b": [1, 2, 1], "c": [1, 2, 3]})
    with hf.Rulebook.create(tmp_path / "b", table, rules=["a, b -> c"], kinds=("fd",)) as book:
        assert "a, b -> c" in book.found().texts()
        out = book.apply(hf.Change(deletes=table.slice(1, 1)))
        assert "a, b -> c" in out.rules.removed.texts() and alerts_of_batch(book, out) == []


@contextmanager
def listening():
    """A real HTTP server that keeps what it is sent."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port, got
    finally:
        server.shutdown()
        server.server_close()


def test_alerts_are_told_through_apprise(book):
    alerts = alerts_of_batch(book, book.apply(hf.Change(inserts=row(5, "10115", "Bonn", "e"))))
    with listening() as (port, got):
        send("people", alerts, [f"json://127.0.0.1:{port}"])
    assert "1 rule of people needs attention" in got[0]["title"] and RULE in got[0]["message"]
    with pytest.raises(OSError, match="not be delivered"):
        send("people", alerts, ["json://127.0.0.1:1"])
    with pytest.raises(HoldfastError, match="does not know"):
        send("people", alerts, ["nonsense"])


# --- masks ------------------------------------------------------------------------------------------------------


def test_masked_values_are_not_shown(tmp_path, capsys):
    people = tmp_path / "people.csv"
    people.write_text("id,zip,city,ssn\n1,10115,Berlin,secret1\n2,10115,Bonn,secret2\n")
    book = str(tmp_path / "book")
    options = ["--key", "ssn", "--rule", RULE, "--mask", "ssn", "--suggest", "0"]
    assert status_of(["init", book, str(people), *options]) == 0
    capsys.readouterr()
    for arguments in (
        ["explain", book, RULE],
        ["explain", book, RULE, "--format", "json"],
        ["explain", book, "--row", "#0"],
    ):
        assert status_of(arguments) == 0
        shown = capsys.readouterr().out
        assert "secret" not in shown and "Bonn" in shown
    with hf.Rulebook.open(book) as opened:
        mask = Mask(Decisions.of(opened).masked, opened.tables)
        assert mask.row("people", {"ssn": "x", "zip": 1}) == {"ssn": HIDDEN, "zip": 1}
        assert mask.hides_names("people") and mask.name("people", "x", 3) == "#3" and mask.name("people", "x") == HIDDEN
        insert = pa.table({"id": [3], "zip": [10115], "city": ["Ulm"], "ssn": ["secret3"]})
        (alert,) = alerts_of_batch(opened, opened.apply(hf.Change(inserts=insert)))
        assert alert.examples == () and "secret" not in alert.message


def test_a_mask_hides_wherever_names_are_told(tmp_path, capsys):
    people = pa.table({"ssn": ["secret1", "secret2"], "zip": [1, 2], "code": ["secret1", "secret2"]})
    codes = pa.table({"code": ["secret1", "secret2", "secret3"]})
    tables, place = {"people": people, "codes": codes}, tmp_path / "b"
    with hf.Rulebook.create(
        place, tables, key={"people": "ssn"}, rules=["people: zip -> code"], kinds=("key", "ind")
    ) as book:
        with deciding(book) as decisions:
            decisions.mask(["people.ssn", "code"])
        new = pa.table({"ssn": ["secret9"], "zip": [1], "code": ["secret8"]})
        book.apply(hf.Change(inserts=new, table="people"))
        assert {event.by for event in History(book).events() if event.by} >= {"two rows", "a value"}
        assert "secret" not in json.dumps([event.record() for event in History(book).events()])
        assert "secret" not in report_html(book, "people")
        (violation, _) = book.look("people: zip -> code").page(0, 2)
        words = shown_violation(hf.parse("people: zip -> code"), "people", violation, Mask.of(book)).words
        assert words == f"Rows #0 and #2 have the same zip (1), but code '{HIDDEN}' and '{HIDDEN}'."
    for arguments in (["history", str(place), "--events"], ["explain", str(place), "people: zip -> code"]):
        assert status_of(arguments) == 0
    assert "secret" not in capsys.readouterr().out
    with deciding(hf.Rulebook.open(place)) as decisions:
        decisions.mask(["snn"])
    with hf.Rulebook.open(place) as book, pytest.raises(HoldfastError, match="no column 'snn'"):
        Mask.of(book)
    (tmp_path / "p.csv").write_text("a\n1\n")
    assert status_of(["init", str(tmp_path / "none"), str(tmp_path / "p.csv"), "--mask", "b"]) == 2
    assert not (tmp_path / "none").exists()


def test_a_pipeline_takes_decisions_over_and_tells_masked_alerts(tmp_path):
    """Without Spark: the sinks are real HTTP, and a decision that was made meanwhile counts with the next batch."""
    people = pa.table({"ssn": ["secret1", "secret2"], "zip": [1, 2], "city": ["a", "b"]})
    pq.write_table(people, tmp_path / "people.parquet")
    (tmp_path / "landing").mkdir()
    with listening() as (port, got):
        (tmp_path / "pipeline.yml").write_text(
            "book: book\ntables: {people: {base: people.parquet, key: ssn}}\n"
            f"rules: [{{id: towns, rule: 'people: {RULE}'}}]\nmask: [ssn]\nkinds: [key]\n"
            "source: {kind: files, path: landing}\nsinks:\n"
            f"  - {{kind: webhook, url: 'http://127.0.0.1:{port}'}}\n  - {{kind: alert, urls: ['json://127.0.0.1:{port}']}}\n"
        )
        pipeline = load_pipeline(tmp_path / "pipeline.yml")
        assert make_book(pipeline, None) and not make_book(pipeline, None)
        follower = Follower(pipeline, None)
        for number, (ssn, zip_, city) in enumerate([("secret3", 1, "b"), ("secret4", 2, "b")]):
            file = tmp_path / "landing" / f"{number}.csv"
            file.write_text(f"_change_type,ssn,zip,city\ninsert,{ssn},{zip_},{city}\n")
            for batch in stream_of(pipeline).batches(None, 0, follower.book.records()):
                follower.take(batch)
            with deciding(follower.book) as decisions:
                decisions.decide("people: key(city)", ACCEPTED)
        follower.close()
    told = [message["alerts"][0]["rule_id"] for message in got if "alerts" in message]
    assert told == ["towns", hf.parse("people: key(city)").id]
    assert len(got) == 4 and "secret" not in json.dumps(got)
    with hf.Rulebook.open(tmp_path / "book") as book:
        assert [entry.rule for entry in book.entries] == [f"people: {RULE}", "people: key(city)"]
        assert Decisions.of(book).masked == {"ssn"} and book.count_violations("people: key(city)") == 6


# --- history ----------------------------------------------------------------------------------------------------


def test_rules_are_born_broken_specialised_and_generalised(tmp_path):
    table = pa.table({"a": [1, 2, 3], "b": [1, 1, 2], "c": [1, 1, 2]})
    with hf.Rulebook.create(tmp_path / "b", table, kinds=("fd",), max_size=2) as book:
        book.apply(hf.Change(inserts=pa.table({"a": [4], "b": [1], "c": [2]})))  # b -> c breaks
        book.apply(hf.Change(inserts=pa.table({"a": [1], "b": [2], "c": [2]})))  # a -> b breaks; a, c -> b holds
        book.apply(hf.Change(deletes=pa.table({"a": [1], "b": [2], "c": [2]})))  # and back
        history = History(book)
        by_version = {v: {(e.what, e.rule, e.into) for e in history.events() if e.version == v} for v in (1, 2, 3)}
    assert ("broken", "b -> c", None) in by_version[1] or ("specialised", "b -> c", "a, b -> c") in by_version[1]
    assert ("specialised", "a -> b", "a, c -> b") in by_version[2]
    assert ("generalised", "a, c -> b", "a -> b") in by_version[3]
    assert [e.version for e in history.events("a -> b")] == [2, 3]
    broken = next(e for e in history.events() if e.version == 2 and e.rule == "a -> b")
    assert broken.by == "rows 0 and 4"


def test_violations_weaken_and_improve_a_rule(book):
    book.apply(hf.Change(inserts=row(5, "10115", "Bonn", "e")))
    book.apply(hf.Change(inserts=row(6, "10115", "Bern", "f")))
    book.apply(hf.Change(deletes=pa.table({"id": [6]})))
    book.apply(hf.Change(deletes=pa.table({"id": [5]})))
    history = History(book)
    mine = [(e.what, e.by) for e in history.events(hf.parse(RULE).id) if e.by and "now" in e.by]
    assert mine == [
        ("broken", "1 pair of rows added, 0 removed, 1 now"),
        ("weakened", "2 pairs of rows added, 0 removed, 3 now"),
        ("improved", "0 pairs of rows added, 2 removed, 1 now"),
        ("recovered", "0 pairs of rows added, 1 removed, 0 now"),
    ]
    assert [(p.version, p.violations) for p in history.trend(RULE)] == [(0, 0), (1, 2), (2, 6), (3, 2), (4, 0)]
    assert history.trend(RULE)[1].error == pytest.approx(2 / 20)
    assert history.stability(RULE) == (2 / 5, 1)
    assert [r["violations"] for r in history.counts()] == [0, 2, 6, 2, 0]


@pytest.mark.parametrize(
    "times",
    [
        pa.array([1600000000000000001], pa.timestamp("ns")),
        pa.array(["noon"]),
        pa.array(["x"]).dictionary_encode(),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([None], pa.timestamp("s")),
    ],
    ids=str,
)
def test_metadata_of_a_feed_never_refuses_a_batch(times):
    with hf.Rulebook.create(None, pa.table({"id": [0]}), key="id") as book:
        for _, feeds in hf.read_feed(pa.table({"_change_type": ["insert"], "_time": times, "id": [1]})):
            book.apply(feeds)
        event = {"op": "c", "ts_ms": True, "source": "mysql", "after": {"id": 9}}
        book.apply(feeds_of([("topic", json.dumps(event))], book.tables, "topic"))
        assert book.count() == 3
        happened = [record["happened"] for record in History(book).counts()]
        assert happened[1:] == [(str(times.type) == "timestamp[ns]" and "2020-09-13T12:26:40+00:00") or None, None]


def test_the_history_has_the_time_that_a_feed_gives():
    made = [datetime(2026, 3, 1, 8, 30, tzinfo=UTC), datetime(2026, 3, 1, 9, 15, tzinfo=UTC)]
    feed = pa.table({"_change_type": ["insert"] * 2, "_commit_timestamp": made, "id": [1, 2]})
    with hf.Rulebook.create(None, pa.table({"id": [0]}), key="id") as book:
        for _, feeds in hf.read_feed(feed):
            book.apply(feeds)
        event = {"op": "c", "ts_ms": 1, "source": {"ts_ms": 1772359200000}, "after": {"id": 9}}
        book.apply(feeds_of([("topic", json.dumps(event))], book.tables, "topic"))
        book.apply(hf.Change(inserts=pa.table({"id": [5]})))
        counts = History(book).counts()
    assert [record["happened"] for record in counts] == [
        None, "2026-03-01T09:15:00+00:00", "2026-03-01T10:00:00+00:00", None,
    ]  # fmt: skip


# --- looking ----------------------------------------------------------------------------------------------------


@given(data=st.data(), nulls=st.sampled_from(hs.POLICIES))
@settings(max_examples=cases(60))
def test_pages_and_rows_are_those_of_the_definition(data, nulls):
    schema, rows = data.draw(hs.tables(rows=9))
    rule = data.draw(hs.one_table_rules(schema))
    book = hf.Rulebook.create(None, hs.to_arrow(schema, rows))
    look = book.look(rule, nulls)
    expected = [pair if isinstance(pair, tuple) else (pair,) for pair in naive.violations(rule, rows, nulls)]
    assert look.count == len(expected)
    size = data.draw(st.integers(1, 5))
    pages = [v for start in range(0, len(expected) + size, size) for v in look.page(start, size)]
    assert [(v.t, v.s)[: len(pair)] for v, pair in zip(pages, expected, strict=True)] == expected
    for id_ in range(len(rows)):
        partners = {p for pair in expected if id_ in pair for p in pair if len(pair) == 1 or p != id_}
        pairs = of_row(look.item, id_, book.encoded.rows, book.encoded.dictionary)
        shown = look.shown(pairs)
        assert len(pairs) == len(shown) == len(partners)
        assert {v.t if v.s is None or v.s == id_ else v.s for v in shown} == partners


def test_any_rule_can_be_looked_at(book):
    assert book.look("city -> zip").count == 0 and book.look("key(zip)").count == 2
    assert book.look(RULE).count == book.count_violations(RULE)
    assert book.row_named("3") == 2
    with pytest.raises(HoldfastError, match="no row '9'"):
        book.row_named("9")
    (violation,) = book.look("key(zip)").page(1, 1)
    assert violation.names == (3, 2) and violation.values == {"zip": ("20095", "20095")}


# --- on the command line ----------------------------------------------------------------------------------------


def test_a_steward_at_work(tmp_path, capsys):
    def run(*arguments):
        status = status_of([str(a) for a in arguments])
        return status, capsys.readouterr().out

    people, book = tmp_path / "people.csv", tmp_path / "book"
    people.write_text("id,zip,city\n" + "".join(f"{n},{n % 5},town{n % 5}\n" for n in range(30)))
    status, out = run("init", book, people, "--key", "id", "--kind", "fd", "--kind", "key")
    assert status == 0 and "suggested" in out
    suggested = [entry.rule for entry in RuleFile.load(book / FILE) if entry.status == SUGGESTED]
    assert "key(id)" not in suggested and "zip -> city" in suggested  # rows go by the id anyway
    status, out = run("rules", "accept", book, RULE, "--owner", "ana", "--severity", "warn")
    assert status == 0 and "version 1 checks 1 rule" in out
    assert run("rules", "reject", book, "city -> zip")[0] == 0
    rules = json.loads(run("rules", book, "--format", "json")[1])["rules"]
    assert {r["rule"]: r["status"] for r in rules if r["status"] not in ("suggested", "found")} == {
        RULE: "accepted",
        "city -> zip": "rejected",
    }
    (tmp_path / "new.csv").write_text("_change_type,id,zip,city\ninsert,99,1,elsewhere\n")
    with listening() as (port, got):
        status, out = run(
            "apply", book, tmp_path / "new.csv", "--fail-on", "warn", "--alert", f"json://127.0.0.1:{port}"
        )
    assert status == 1 and "6 pairs of rows came\n  1: town1 6 rows, elsewhere 1 row (99)\n" in out
    assert len(got) == 1
    assert run("rules", "baseline", book)[1] == f"{RULE}: 12 violations known\n"
    assert json.loads(run("violations", book, "--new", "--format", "json")[1])["violations"] == []
    events = json.loads(run("history", book, "--rule", RULE, "--format", "json")[1])["events"]
    assert [e["what"] for e in events] == ["adopted", "broken", "broken"] or len(events) >= 2
    assert "█" in run("history", book, "--chart")[1]
    explained = json.loads(run("explain", book, "--row", "99", "--format", "json")[1])
    assert explained["rules"][0]["count"] == 6
    assert 'JOIN "people" AS "s"' in run("explain", book, RULE, "--sql", "duckdb")[1]
    for wrong in (["rules", "accept", book], ["rules", "accept"], ["rules", book, "x"], ["explain", book]):
        assert run(*wrong)[0] == 2


def test_check_with_a_baseline(tmp_path, capsys):
    people, known = tmp_path / "people.csv", tmp_path / "known.parquet"
    people.write_text("id,zip,city\n1,1,a\n2,1,b\n")
    check = ["check", str(people), "--rule", RULE, "--key", "id", "--baseline", str(known)]
    assert status_of([*check, "--record"]) == 0 and known.exists()
    assert status_of(check) == 0
    people.write_text("id,zip,city\n1,1,a\n2,1,b\n3,1,c\n")
    assert status_of(check) == 1
    capsys.readouterr()
