"""Sinks: none is told twice or not at all, none holds a stream up, and nothing goes where it was not sent."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdfast as hf
from holdfast.errors import ReadError, concealed
from holdfast.pipeline.config import Pipeline, load_pipeline
from holdfast.pipeline.delivery import Delivery
from holdfast.pipeline.follower import Follower
from holdfast.pipeline.new_book import make_book
from holdfast.pipeline.post import post
from holdfast.store.directory import LocalDirectory
from holdfast.store.marks import Marks
from tests.bad_input import Home, good

RULE = "zip -> city"


@contextlib.contextmanager
def server(answer):
    """A web server; `answer(handler)` answers, and what came is listed."""
    calls: list[dict] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            calls.append({"path": self.path, "body": body, **{k.lower(): v for k, v in self.headers.items()}})
            answer(self)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}", calls
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def status(code: int, **headers: str):
    def answer(handler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()

    return answer


def book_of(path, **options):
    people = pa.table({"id": [1, 2], "zip": [1, 2], "city": ["a", "b"]})
    return hf.Rulebook.create(path, people, key="id", rules=[RULE], outbox=True, **options)


def pipeline_of(home, *sinks) -> Pipeline:
    record = {"name": "test", "book": "book", "tables": {"people": {"base": "x"}}, "sinks": list(sinks)}
    return Pipeline.model_validate(record | {"source": {"kind": "files", "path": "in"}}).resolved(home)


def insert(book, number: int, zip_: int = 1) -> None:
    book.apply(hf.Change(inserts=pa.table({"id": [number], "zip": [zip_], "city": [f"c{number}"]})))


# --- one POST ---------------------------------------------------------------------------------------------------


def test_a_redirect_is_not_followed_and_credentials_go_nowhere_else():
    with server(status(200)) as (elsewhere, stolen), server(status(307, Location=elsewhere)) as (url, calls):
        with pytest.raises(OSError, match="307; redirects are not followed"):
            post(url + "/hook?a=1", {"Authorization": "Bearer s3cret"}, b"{}")
        assert not stolen and calls[0]["authorization"] == "Bearer s3cret" and calls[0]["path"] == "/hook?a=1"
        with pytest.raises(OSError, match="307"):
            post(url.replace("http://", "http://ana:pass%21@"), {}, b"{}")
        assert calls[1]["authorization"] == "Basic YW5hOnBhc3Mh" and not stolen


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "gopher://x", "http:///nobody", "x"])
def test_only_http_is_posted_to(url):
    with pytest.raises(OSError, match="only http"):
        post(url, {}, b"")


@pytest.mark.parametrize("drips", [True, False], ids=["drip", "silence"])
def test_a_deadline_is_for_all_of_it(drips):
    """A server that never ends its answer, but is never silent for long, or that says nothing; it gives up last."""
    over = threading.Event()

    def answer(handler) -> None:
        with contextlib.suppress(OSError):
            for _ in range(1000):
                if over.wait(0.05):
                    return
                if drips:
                    handler.wfile.write(b"H")
                    handler.wfile.flush()
            over.set()

    with server(answer) as (url, calls):
        with pytest.raises(OSError):
            post(url, {}, b"{}", deadline=0.5)
        assert calls and not over.is_set()
        over.set()


# --- delivery ---------------------------------------------------------------------------------------------------


def test_a_sink_that_hangs_holds_no_batch_up(tmp_path):
    """Batches go on while a webhook does not answer; when it does, it is told everything in order."""
    gate = threading.Event()

    def answer(handler) -> None:
        gate.wait(60)
        status(200)(handler)

    with server(answer) as (url, calls), book_of(tmp_path / "book") as book:
        delivery = Delivery.of(pipeline_of(tmp_path, {"kind": "webhook", "url": url}), None)
        for number in range(3, 9):
            insert(book, number)
            delivery.deliver(book)  # returns, although nobody answered yet
        assert book.version == 6 and delivery.needed_from == 1
        gate.set()
        delivery.close(book)
        assert [json.loads(call["body"])["version"] for call in calls] == [1, 2, 3, 4, 5, 6]
        assert delivery.needed_from == 7 and delivery.behind(6) == {} and delivery.failed() == {}


def test_a_message_that_failed_is_sent_again_in_order(tmp_path):
    codes = iter([500, 503, 200, 404, 200, 200, 200])
    with server(lambda handler: status(next(codes))(handler)) as (url, calls), book_of(tmp_path / "book") as book:
        pipeline = pipeline_of(tmp_path, {"kind": "webhook", "url": url})
        told: list[int] = []
        for number in range(3, 6):
            insert(book, number)
            delivery = Delivery.of(pipeline, None)
            delivery.deliver(book)
            delivery.close(book)
        while delivery.behind(book.version):
            delivery = Delivery.of(pipeline, None)
            delivery.deliver(book)
            delivery.close(book)
        told = [json.loads(call["body"])["version"] for call in calls]
        assert sorted(set(told)) == [1, 2, 3] and told == sorted(told) and len(told) >= 6


def test_what_waited_when_a_run_ended_is_handed_over_again_in_order(tmp_path):
    codes = iter([500, 200, 200])
    with server(lambda handler: status(next(codes))(handler)) as (url, calls), book_of(tmp_path / "book") as book:
        delivery = Delivery.of(pipeline_of(tmp_path, {"kind": "webhook", "url": url}), None)
        for number in (3, 4):
            insert(book, number)
            delivery.deliver(book)
            delivery.close(book)
        assert [json.loads(call["body"])["version"] for call in calls] == [1, 1, 2] and not delivery.failed()


def test_sinks_are_known_by_where_they_go_to(tmp_path):
    """A new sink that is put first, or another order, changes nothing for the others; marks by place are taken over."""
    with book_of(tmp_path / "book", keep=2) as book:
        (tmp_path / "old").mkdir()
        marks = Marks(LocalDirectory(tmp_path / "book"))
        one, two = {"kind": "parquet", "path": "one"}, {"kind": "parquet", "path": "two"}
        marks.put("parquet-0", 0)
        for number in range(3, 8):
            insert(book, number)
        Delivery.of(pipeline_of(tmp_path, one), None).deliver(book)
        assert [key.startswith("parquet-") for key in marks.all()] == [True] and "parquet-0" not in marks.all()
        told = {p.name for p in (tmp_path / "one/violations").iterdir()}
        book.forget()
        insert(book, 9)
        Delivery.of(pipeline_of(tmp_path, two, one), None).deliver(book)
        assert {p.name for p in (tmp_path / "one/violations").iterdir()} == told | {"version=6"}
        assert "version=6" in {p.name for p in (tmp_path / "two/violations").iterdir()}
        assert sorted(marks.all().values()) == [6, 6]
    with pytest.raises(ValueError, match="two of them are the same"):
        pipeline_of(tmp_path, one, one)


def test_an_unreachable_sink_is_named(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    with book_of(tmp_path / "book") as book:
        insert(book, 3)
        delivery = Delivery.of(pipeline_of(tmp_path, {"kind": "parquet", "id": "lake", "path": "file/x"}), None)
        with pytest.raises(hf.HoldfastError, match="sink lake, version 1: "):
            delivery.deliver(book)


def test_what_a_dead_sink_is_owed_is_not_dropped_by_others(tmp_path):
    """`holdfast apply` on the rulebook of a pipeline keeps what its sinks are still to be told."""
    with book_of(tmp_path / "book", keep=1) as book:
        pipeline = pipeline_of(tmp_path, {"kind": "webhook", "url": "http://127.0.0.1:9/"})
        insert(book, 3)
        delivery = Delivery.of(pipeline, None)
        delivery.deliver(book)
        delivery.close(book)
        Marks(LocalDirectory(tmp_path / "book")).put(next(iter(pipeline.named_sinks)), 0)
    with hf.Rulebook.open(tmp_path / "book") as other:
        for number in range(4, 8):
            insert(other, number)
        assert other.oldest_with_events == 1 and other.versions() == [5]
        assert [other.events_of(version)[0]["version"] for version in range(1, 6)] == [1, 2, 3, 4, 5]


def test_a_message_waits_while_what_is_masked_cannot_be_read(tmp_path):
    with server(status(200)) as (url, calls), book_of(tmp_path / "book") as book:
        delivery = Delivery.of(pipeline_of(tmp_path, {"kind": "webhook", "url": url}), None)
        (tmp_path / "book/rules.yml").write_text("mask: [ci\n")
        insert(book, 3)
        delivery.deliver(book)
        delivery.close(book)
        assert not calls and "rules.yml" in next(iter(delivery.failed().values()))
        (tmp_path / "book/rules.yml").write_text(f"version: 1\nmask: [id]\nrules: [{{rule: {RULE}}}]\n")
        delivery.deliver(book)
        delivery.close(book)
        assert len(calls) == 1 and json.loads(calls[0]["body"])["violations"][0]["pairs_added"] == []


# --- secrets ----------------------------------------------------------------------------------------------------

TEXT = """book: book
tables: {people: {base: people.csv, key: id}}
rules: ["people: zip -> age"]
source: {kind: files, path: landing}
sinks:
- {kind: webhook, url: "http://127.0.0.1:${HOOK_PORT}/in?token=${HOOK_TOKEN}", headers: {X-Cost: "$${5}"}}
"""


def test_secrets_come_from_the_environment_and_stay_there(tmp_path, monkeypatch):
    home = Home(tmp_path)
    home.write("pipeline.yml", TEXT)
    with pytest.raises(ReadError, match=r"pipeline.yml: sinks: 1: url: the environment variable HOOK_PORT is not set"):
        load_pipeline(tmp_path / "pipeline.yml")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HOOK_PORT", str(nobody.getsockname()[1]))
        monkeypatch.setenv("HOOK_TOKEN", "Zq7Secret")
        pipeline = load_pipeline(tmp_path / "pipeline.yml")
        assert pipeline.sinks[0].url.endswith("token=Zq7Secret") and pipeline.sinks[0].headers == {"X-Cost": "${5}"}
        make_book(pipeline, None)
        follower = Follower(pipeline, None)
        home.write("landing/a.csv", good(3).replace("80331", "10115"))
        from holdfast.pipeline.sources import stream_of

        for batch in stream_of(pipeline).batches(None, 0, follower.book.records()):
            follower.take(batch)
        follower.close()
        assert follower.delivery.failed()
        said = " ".join(follower.delivery.failed().values())
    assert "Zq7Secret" not in said and "Zq7Secret" not in concealed("at token=Zq7Secret")
    for file in (tmp_path / "book").rglob("*"):
        assert "Zq7Secret" not in file.name and (file.is_dir() or b"Zq7Secret" not in file.read_bytes())
    monkeypatch.setenv("HOOK_TOKEN", "another-token")
    assert [*load_pipeline(tmp_path / "pipeline.yml").named_sinks] == [*pipeline.named_sinks]


def test_an_alert_that_could_not_be_delivered_is_delivered_by_the_next_run(tmp_path):
    home = Home(tmp_path)
    home.init("--key", "id", "--rule", "zip -> age")
    codes = iter([500, 200, 200])
    with server(lambda handler: status(next(codes))(handler)) as (url, calls):
        address = url.replace("http://", "json://") + "/"
        change = "_change_type,id,zip,age\ninsert,3,10115,31\n"
        ran = home.change(change, "--alert", address)
        assert ran.status == 2 and "the alerts are kept" in ran.err and "Traceback" not in ran.err
        assert home.book().count() == 3 and len(calls) == 1
        ran = home.change(change, "--alert", address)  # the same file: nothing is applied, but the alert goes out
        assert len(calls) == 2 and "zip -> age" in calls[1]["body"].decode()
        assert home.book().count() == 3
        ran = home.change("_change_type,id,zip,age\ninsert,4,7,31\n", "--alert", address)
        assert ran.status == 0 and len(calls) == 2  # nothing is told twice


def test_parquet_sinks_of_old_books_go_on(tmp_path):
    """A rulebook that has no outbox yet gets one when an address is given."""
    pq.write_table(pa.table({"id": [1]}), tmp_path / "x.parquet")
    with hf.Rulebook.create(tmp_path / "book", pa.table({"id": [1]}), key="id") as book:
        assert not book.has_outbox
        version = book.alter(outbox=True)
        assert book.has_outbox and hf.Rulebook.open(tmp_path / "book").has_outbox
        book.apply(hf.Change(inserts=pa.table({"id": [2]})))
        assert book.events_of(version + 1)[0]["version"] == version + 1
