"""`holdfast serve`: the API over a real server, and the pages in a real Chromium (skipped where there is none)."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.report.graph import graph_svg
from holdfast.report.page import report_html
from holdfast.web.app import TOKEN_HEADER
from holdfast.workflow.decisions import Decisions, adopt
from tests.conftest import cases
from tests.test_masks import serving as serving_here
from tests.tools import called, tool

ZIP, HOSTILE = "zip -> city", "<script>document.title = 'broken'</script>"
RULE_ID = hf.parse(ZIP).id


def people(rows: int = 60) -> pa.Table:
    numbers = np.arange(rows)
    cities = [f"town {n % 6}" for n in numbers]
    cities[7] = HOSTILE
    return pa.table(
        {"id": numbers, "zip": numbers % 6, "city": cities, "boss": (numbers * 7) % rows, "code": numbers % 3}
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The command itself, in a process of its own: its directory, address and token."""
    place = tmp_path_factory.mktemp("served") / "people.book"
    tables = {"people": people(), "codes": pa.table({"code": [0, 1, 2], "name": ["a", "b", "c"]})}
    rules = ["people: zip -> city", "people.code in codes.code"]
    hf.Rulebook.create(place, tables, key={"people": "id"}, rules=rules, kinds=("key", "fd", "ind"), max_size=2).close()
    with serving(place) as (address, token):
        yield place, address, token


@contextmanager
def serving(place: Path):
    command = [sys.executable, "-m", "holdfast.cli.main", "serve", str(place), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        line = process.stdout.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+/)\?token=(\S+)", line)
        assert found, line
        yield found[1], found[2]
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def ask(address, path, *, token=None, body=None, method=None, headers=None):
    """(status, text)"""
    request = urllib.request.Request(
        urllib.parse.urljoin(address, path),
        None if body is None else json.dumps(body).encode(),
        headers or {},
        method=method,
    )
    if token is not None:
        request.add_header(TOKEN_HEADER, token)
    if body is not None:
        request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def got(address, path):
    status, text = ask(address, path)
    assert status == 200, text
    return json.loads(text)


def rule_id(text: str) -> str:
    return hf.parse(text).id


FD, IND = "people: zip -> city", "people.code in codes.code"


# --- the API ----------------------------------------------------------------------------------------------------


def test_the_api_tells_what_the_rulebook_knows(served):
    place, address, _ = served
    with hf.Rulebook.open(place) as book:
        summary = got(address, "api/summary")
        assert summary["tables"][0] == {"name": "people", "rows": 60, "columns": 5}
        assert (summary["accepted"], summary["violated"]) == (2, 1)
        assert summary["violations"] == book.count_violations(FD)
        found = got(address, f"api/rules/{rule_id(FD)}/violations?size=200")
        pairs = [[v["t"], v["s"]] for v in found["violations"]]
        assert found["total"] == len(pairs) and pairs == [list(p.values()) for p in book.violations(FD).to_pylist()]
        second = got(address, f"api/rules/{rule_id(FD)}/violations?size=5&page=2")["violations"]
        assert [[v["t"], v["s"]] for v in second] == pairs[5:10]
        status, text = ask(address, f"rules/{rule_id(FD)}")
        assert status == 200 and "1 group of rows that clash, 10 rows in all" in " ".join(text.split())
        row = got(address, "api/tables/people/rows/7")
        assert row["values"]["city"] == HOSTILE and row["rules"][0]["violations"] == 9
        every = got(address, "api/rules?size=200")
        assert every["total"] == len(book.found() - book.rules().of("dc")) + 1 or every["total"] >= len(book.found())
        assert [r["rule"] for r in got(address, "api/rules?status=accepted")["rules"]] == [FD, IND]
        assert all(r["kind"] == "key" for r in got(address, "api/rules?kind=key")["rules"])
        assert all("boss" in r["rule"] for r in got(address, "api/rules?column=boss&size=200")["rules"])
        assert got(address, "api/rules?search=no+such+thing")["rules"] == []
        named = got(address, "api/rules?search=CODE+zip&size=200")["rules"]
        assert named and all({"code", "zip"} <= set(re.findall(r"\w+", r["rule"])) for r in named)
        table = got(address, "api/tables/people")
        assert [c["name"] for c in table["columns"]] == ["id", "zip", "city", "boss", "code"]
        zip_code = table["columns"][1]
        assert (zip_code["distinct"], zip_code["empty"], zip_code["range"]) == (6, 0, ["0", "5"])
        assert ask(address, "api/tables/nobody")[0] == 404
    history = got(address, f"api/rules/{rule_id(FD)}/history")
    assert history["trend"][0]["violations"] == summary["violations"]


def test_deciding_needs_the_token_and_the_right_host(served):
    _, address, token = served
    path = f"api/rules/{rule_id(FD)}/decision"
    for wrong in (None, "", "wrong", token[:-1]):
        assert ask(address, path, token=wrong, body={"status": "rejected"})[0] == 403
    assert ask(address, path, token=token, body={"status": "loved"})[0] == 422
    assert ask(address, "api/rules/fd-00000000/decision", token=token, body={"status": "accepted"})[0] == 404
    assert ask(address, "api/summary", headers={"Host": "elsewhere.example"})[0] == 400
    status, page = ask(address, "")
    assert status == 200 and token not in page
    with urllib.request.urlopen(address) as answer:
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]


def test_paths_cannot_leave_and_values_are_escaped(served):
    place, address, _ = served
    for path in (
        "static/../app.py",
        "static/%2e%2e/app.py",
        "static/..%2f..%2frules.yml",
        "static/manifests",
        "rules.yml",
    ):
        assert ask(address, path)[0] in (404, 422)
    status, page = ask(address, "tables/people")
    assert status == 200 and HOSTILE not in page
    for path in ("tables/people/rows/7", f"rules/{rule_id(FD)}"):
        status, page = ask(address, path)
        assert status == 200 and HOSTILE not in page and "&lt;script&gt;" in page
    status, page = ask(address, "rules?search=" + urllib.parse.quote('"><script>x</script>'))
    assert status == 200 and "<script>x" not in page
    for path in (
        "rules/none",
        "tables/nobody/rows/1",
        "tables/people/rows/99999",
        "tables/people/rows?key=zzz",
        "nothing",
    ):
        assert 400 <= ask(address, path)[0] < 500
    assert (place / "rules.yml").exists() is False


@given(
    names=st.lists(st.text("<>&'\"`{}% äß\u202e", min_size=1, max_size=6), min_size=3, max_size=3, unique=True),
    value=st.text("<script>&'\"\x1b\u202e", min_size=1, max_size=12),
)
@settings(max_examples=cases(12), deadline=None)
def test_names_and_values_are_text_on_the_page_of_a_table_and_in_the_report(names, value):
    """Whatever a table, its columns and its cells are called: they are text, and every link leads somewhere."""
    table, left, right = names
    cells = pa.table({left: [1, 1, 2, 2, 3, 3], right: [value, value, value, "x", "y", "y"]})
    rule = hf.Fd(frozenset({left}), right, table)
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "b"
        with hf.Rulebook.create(home, {table: cells, "other": cells}, rules=[rule], kinds=("key", "fd", "ind")) as book:
            book.apply(hf.Change(inserts=cells, table=table))
            told = report_html(book, "b")
        with serving_here(home) as ask_here:
            pages = {path: ask_here(path) for path in ("/", "/graph", f"/tables/{urllib.parse.quote(table, safe='')}")}
            for page in pages.values():
                for link in re.findall(r'href="(/(?:tables|rules)[^"]*)"', page):
                    assert "Not found" not in ask_here(html.unescape(link)), link
    for page in (told, *pages.values()):
        elements = Elements()
        elements.feed(page)
        assert elements.names <= KNOWN, elements.names - KNOWN
        for text in names:
            assert "<" not in text or f">{text}<" not in page


KNOWN = {
    *re.findall(
        r"\w+",
        "html head meta title link script body a header nav span main h1 h2 h3 p ul li strong div figure figcaption "
        "table thead tr th tbody td code br button form label input select option datalist footer kbd dialog dl dt dd "
        "section details summary pre style svg g path rect text defs clippath line",
    )
}


class Elements(HTMLParser):
    """The names of the elements of a page."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)


def test_a_decision_is_written_and_counts(tmp_path):
    place = tmp_path / "book"
    hf.Rulebook.create(place, people(), key="id", kinds=("key", "fd"), max_size=1).close()
    with serving(place) as (address, token):
        found = next(r for r in got(address, "api/rules?status=found&size=200")["rules"] if r["rule"] == "zip -> code")
        status, told = ask(
            address, f"api/rules/{found['id']}/decision", token=token, body={"status": "accepted", "owner": "ana"}
        )
        assert status == 200 and json.loads(told)["said"] == "counts from now on"
        assert got(address, f"api/rules/{found['id']}")["status"] == "accepted"
        assert got(address, "api/summary")["version"] == 1
    with hf.Rulebook.open(place) as book:
        assert [e.rule for e in book.entries] == ["zip -> code"] and book.entries[0].owner == "ana"


def test_a_decision_while_another_process_writes(tmp_path):
    """It is written, and counts with the next batch of who writes."""
    place = tmp_path / "book"
    with hf.Rulebook.create(place, people(), key="id", kinds=("fd",), max_size=1) as book:
        book.hold()
        with serving(place) as (address, token):
            chosen = next(r for r in got(address, "api/rules?size=200")["rules"] if r["rule"] == "zip -> code")
            _, told = ask(address, f"api/rules/{chosen['id']}/decision", token=token, body={"status": "accepted"})
            assert "next batch" in json.loads(told)["said"]
            assert got(address, f"api/rules/{chosen['id']}")["status"] == "accepted"
            assert adopt(book) == 1
            wait_for(lambda: got(address, "api/summary")["version"] == 1)
        assert [e.rule for e in book.entries] == ["zip -> code"]


def wait_for(test, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < until, "it did not come in time"
        time.sleep(0.1)


def test_pages_stay_responsive_while_a_stream_writes(tmp_path):
    """Some thirty batches a second come, and every page answers in between, of a version that was there."""
    place = tmp_path / "book"
    book = hf.Rulebook.create(
        place, people(2000), key="id", rules=[ZIP, "key(id)"], kinds=("key", "fd"), max_size=2, keep=50
    )
    stop, versions = threading.Event(), []

    def write():
        for number in range(10_000, 10_400):
            if stop.is_set():
                return
            new = pa.table({"id": [number], "zip": [number % 6], "city": ["x"], "boss": [number], "code": [number % 3]})
            versions.append(book.apply(hf.Change(inserts=new)).version)
            time.sleep(0.02)

    with serving(place) as (address, _):
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for path in ["", "rules", f"rules/{RULE_ID}", "history", "tables/data/rows/7"] * 4:
                assert ask(address, path)[0] == 200
            wait_for(lambda: got(address, "api/summary")["version"] > 0)
            seen = got(address, "api/summary")
        finally:
            stop.set()
            writer.join()
        assert 0 < seen["version"] <= versions[-1]
        wait_for(lambda: got(address, "api/summary")["version"] == versions[-1])
        assert got(address, f"api/rules/{RULE_ID}/violations")["total"] == book.count_violations(ZIP)
    book.close()


def test_events_are_sent(served):
    _, address, _ = served
    with urllib.request.urlopen(address + "api/events", timeout=10) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert stream.readline() == b"event: version\n"
        assert json.loads(stream.readline().decode().removeprefix("data: "))["accepted"] == 2


def _values(schema):
    """Some values for a parameter, most of them wrong."""
    odd = st.one_of(
        st.text(max_size=20), st.integers(-(2**70), 2**70).map(str), st.sampled_from(["", "null", "%00", "../..", "'"])
    )
    known = st.sampled_from([rule_id(FD), rule_id(IND), "people", "7", "accepted", "fd", "zip"])
    return st.one_of(odd, known)


@given(data=st.data())
@settings(max_examples=cases(150))
def test_nothing_makes_the_api_fail(served, data):
    """Any values for any parameter of any operation of the OpenAPI document: never an answer of 500 and more."""
    _, address, token = served
    document = _document(address)
    path = data.draw(st.sampled_from([p for p in document["paths"] if p != "/api/events"]))
    method = data.draw(st.sampled_from(sorted(document["paths"][path])))
    operation = document["paths"][path][method]
    query, filled = {}, path
    for parameter in operation.get("parameters", ()):
        value = data.draw(_values(parameter["schema"]))
        if parameter["in"] == "path":
            filled = filled.replace("{" + parameter["name"] + "}", urllib.parse.quote(value, safe="") or "x")
        elif parameter["in"] == "query" and data.draw(st.booleans()):
            query[parameter["name"]] = value
    body = None
    if method == "post":
        body = data.draw(
            st.one_of(
                st.none(),
                st.dictionaries(st.sampled_from(["status", "owner", "x"]), st.text(max_size=5)),
                st.lists(st.integers()),
            )
        )
        body = {} if body is None else body
    given_token = data.draw(st.sampled_from([None, "wrong", token]))
    status, text = ask(
        address, f"{filled}?{urllib.parse.urlencode(query)}", token=given_token, body=body, method=method.upper()
    )
    assert status < 500, text
    if status == 200:
        json.loads(text)


_DOCUMENTS: dict[str, dict] = {}


def _document(address):
    if address not in _DOCUMENTS:
        _DOCUMENTS[address] = got(address, "api/openapi.json")
    return _DOCUMENTS[address]


@pytest.mark.tools
def test_schemathesis_finds_no_failure(served):
    _, address, token = served
    program = tool("schemathesis") / "schemathesis"
    called([program, "run", f"{address}api/openapi.json", "--checks", "not_a_server_error", "--max-examples", "100",
            "--exclude-path", "/api/events", "-H", f"{TOKEN_HEADER}: {token}"])  # fmt: skip


def test_a_port_that_is_taken_and_a_directory_that_is_no_rulebook(tmp_path, served, capsys):
    port = urllib.parse.urlsplit(served[1]).port
    assert status_of(["serve", str(served[0]), "--port", str(port)]) == 2
    assert status_of(["serve", str(tmp_path), "--port", "0"]) == 2
    assert "is not a rulebook" in capsys.readouterr().err


# --- a book that follows another process ------------------------------------------------------------------------


def test_a_refreshed_book_is_a_book_opened_anew(tmp_path):
    rng = np.random.default_rng(0)
    place = tmp_path / "book"
    made = pa.table(
        {"id": np.arange(30), "a": rng.permutation(30) // 2, "b": [f"w{n}" for n in rng.integers(0, 3, 30)]}
    )
    options = {"key": "id", "rules": ["a -> b", "data.a in data.id"], "kinds": ("key", "fd", "ind", "dc", "order")}
    with hf.Rulebook.create(place, made, max_size=2, keep=3, **options) as writer, hf.Rulebook.open(place) as reader:
        look = reader.look("a -> b")
        alone = reader.look_alone("key(a)", "sql")
        seen = set()
        for step in range(12):
            if step == 6:
                writer.alter(rules=["key(b)"])
            ids = rng.choice(writer.table().column("id").to_numpy(), 3, replace=False)
            new = pa.table({"id": [100 + step], "a": [int(rng.integers(0, 60))], "b": [f"new{step % 2}"]})
            writer.apply(hf.Change(inserts=new, deletes=pa.table({"id": ids[:2]})))
            if step % 5 == 4:  # some versions are not kept any more
                continue
            changes = reader.refresh()
            with hf.Rulebook.open(place) as fresh:
                assert reader.version == fresh.version and reader.table() == fresh.table()
                assert reader.found() == fresh.found() and reader.entries == fresh.entries
                seen.add(tuple(fresh.found().texts()))
                for entry in fresh.entries:
                    assert reader.violations(entry.id) == fresh.violations(entry.id)
                    assert reader.count_violations(entry.id) == fresh.count_violations(entry.id)
                assert reader.history() == fresh.history() and reader.rule_history() == fresh.rule_history()
            if changes is None:
                look, alone = reader.look("a -> b"), reader.look_alone("key(a)", "sql")
            else:
                for change in changes:
                    alone.follow(change)
            assert look.count == writer.count_violations("a -> b")
            assert alone.count == hf.check(writer.table(), ["key(a)"]).count("key(a)")
            assert len(alone.page(0, 10_000)) == alone.count
        assert reader.refresh() == [] and len(seen) > 1  # rules came and went


def test_a_refreshed_book_writes_what_a_book_opened_anew_would(tmp_path):
    """A reader that followed another process past new files of the states, and then writes itself."""
    place = tmp_path / "book"

    def batch(book, number):
        words = [f"{number} {n}" for n in range(200)]
        book.apply(hf.Change(inserts=pa.table({"id": [number * 1000 + n for n in range(200)], "word": words})))

    with hf.Rulebook.create(place, pa.table({"id": [1], "word": ["a"]}), key="id", kinds=("key",)) as writer:
        reader = hf.Rulebook.open(place)
        for number in range(1, 20):
            batch(writer, number)
            reader.refresh()
    for number in range(20, 40):
        batch(reader, number)
    expected, version = reader.table(), reader.version
    reader.close()
    with hf.Rulebook.open(place) as again:
        assert again.table() == expected and again.version == version == 39
        assert [record["version"] for record in again.records()] == list(range(40))
        assert again.table().column("word")[-1].as_py() == "39 199"


def test_a_table_whose_name_has_a_slash_and_one_that_is_alone(tmp_path):
    table = pa.table({"a": [1, 1], "b": [1, 2]})
    hf.Rulebook.create(tmp_path / "b", {"x/y": table, "z": table}, rules=["`x/y`: key(a)"]).close()
    with serving(tmp_path / "b") as (address, _):
        assert "accepted" in ask(address, "tables/x%2Fy")[1] and "row 1" in ask(address, "tables/x%2Fy/rows/0")[1]
        assert got(address, "api/tables/x%2Fy")["rows"] == 2 and got(address, "api/tables/x%2Fy/rows/1")["row"] == 1
        assert got(address, "api/tables/x%2Fy/rows?key=1")["row"] == 1
        assert ask(address, "tables/z/nothing")[0] == 404
    hf.Rulebook.create(tmp_path / "d", {"x": table, "x/rows": table.slice(1)}, rules=["x: key(a)"]).close()
    with serving(tmp_path / "d") as (address, _):
        assert "1 row, 2 columns" in ask(address, "tables/x%2Frows")[1]
    hf.Rulebook.create(tmp_path / "c", table, rules=["a -> b"]).close()
    with serving(tmp_path / "c") as (address, _):
        page = ask(address, "tables/data")[1]
        assert "accepted" in page and page.count("a -&gt; b") >= 3  # the rule, and beside both columns


def test_the_graph_of_very_many_tables_in_a_chain_and_in_a_circle():
    names = [f"t{n}" for n in range(1500)]
    chain = [(hf.parse(f"{a}.x in {b}.y"), "found") for a, b in pairwise([*names, names[0]])]
    assert graph_svg(names, chain).count('class="table"') == 1500


def test_rows_of_a_table_without_a_key(tmp_path):
    hf.Rulebook.create(tmp_path / "b", pa.table({"a": [1, 1]}), rules=["key(a)"]).close()
    with serving(tmp_path / "b") as (address, _):
        assert got(address, "api/tables/data/rows?key=1")["rules"][0]["violations"] == 1
        for wrong in ("%C2%B2", "--5", "2", "99999999999999999999", ""):
            assert 400 <= ask(address, f"api/tables/data/rows?key={wrong}")[0] < 500
        assert ask(address, "api/rules?status=acepted")[0] == 422


def test_a_mistake_in_the_rule_file_does_not_stop_the_pages(tmp_path):
    place = tmp_path / "b"
    with hf.Rulebook.create(place, people(), key="id", rules=[ZIP]) as book:
        with serving(place) as (address, _):
            (place / "rules.yml").write_text(
                "version: 1\nrules:\n  - {rule: data.code in nowhere.id, status: suggested}\n  - {rule: zip -> city}\n"
            )
            wait_for(lambda: got(address, "api/rules?search=nowhere")["total"] == 1)
            (place / "rules.yml").write_text("nonsense")
            assert got(address, "api/rules?search=nowhere")["total"] == 1  # as before
            (place / "rules.yml").write_text("version: 1\nrules:\n  - {rule: zip -> city, owner: ana}\n")
            wait_for(lambda: got(address, f"api/rules/{RULE_ID}")["owner"] == "ana")
            assert ask(address, "")[0] == 200
        assert book.version == 0


# --- the report -------------------------------------------------------------------------------------------------


def test_the_report_is_one_file_that_needs_nothing(tmp_path, capsys):
    place = tmp_path / "people.book"
    tables = {"people": people(), "codes": pa.table({"code": [0, 1], "name": ["a", "b"]})}
    with hf.Rulebook.create(
        place, tables, key={"people": "id"}, rules=[FD, IND], kinds=("key", "fd"), max_size=1
    ) as book:
        book.apply(hf.Change(deletes=pa.table({"id": [7]}), table="people"))
        book.apply(hf.Change(inserts=people(61).slice(60), table="people"))
    assert status_of(["report", str(place)]) == 0
    file = Path(capsys.readouterr().out.strip())
    assert file == tmp_path / "people.html"
    text = file.read_text()
    assert HOSTILE not in text and "http" not in text.replace("http://www.w3.org", "") and "<script" not in text
    for part in (
        "Top violations",
        "Tables and foreign keys",
        "what identifies a row",
        "Rows of each batch",
        "Every code of people occurs as code of codes",
    ):
        assert part in text
    assert text.count("<svg") >= 2


# --- in the browser ---------------------------------------------------------------------------------------------

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
SHOTS = Path(os.environ.get("HOLDFAST_SHOTS", "artifacts/screenshots"))


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    sync = pytest.importorskip("playwright.sync_api")
    with sync.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(params=[(1280, "light"), (390, "dark"), (1280, "dark"), (390, "light")], ids=str)
def page(browser, request):
    width, made_for = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=made_for)
    made = context.new_page()
    made.scheme = made_for
    made.problems = []
    made.on("pageerror", lambda error: made.problems.append(str(error)))
    made.on("console", lambda message: made.problems.append(message.text) if message.type == "error" else None)
    yield made
    assert made.problems == []
    context.close()


def shot(page, name):
    SHOTS.mkdir(parents=True, exist_ok=True)
    scheme = getattr(page, "scheme", "light")
    page.screenshot(path=SHOTS / f"{name}-{page.viewport_size['width']}-{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"], (
        f"{name} scrolls sideways"
    )


FAINT = """() => {
  // Texts whose contrast with the page is below WCAG AA: 4.5, and 3 for large letters.
  const parts = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => [0, 1, 2].map((i) => linear(c[i] / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const page = parts(getComputedStyle(document.body).backgroundColor);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parts(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0.99) return c;
    }
    return page;
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, style = getComputedStyle(element);
    if (!walk.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    const ink = parts(element.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(element))].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) found.push(walk.currentNode.textContent.trim().slice(0, 40));
  }
  return found;
}"""


def test_every_page_in_the_browser(served, page):
    _, address, _ = served
    places = {
        "overview": "", "rules": "rules", "rule": f"rules/{rule_id(FD)}", "row": "tables/people/rows/7",
        "table": "tables/people", "graph": "graph", "history": "history",
    }  # fmt: skip
    for name, path in places.items():
        page.goto(address + path)
        assert page.locator("h1").count() == 1 and "broken" not in page.title()
        shot(page, name)
        assert page.evaluate(FAINT) == []
    assert page.locator("[data-decide]:visible").count() == 0  # nothing can be decided without the token
    page.goto(f"{address}rules/{rule_id(FD)}")
    assert page.get_by_text(HOSTILE).first.is_visible()  # as text


def test_searching_paging_and_the_keyboard(served, page):
    _, address, _ = served
    page.goto(f"{address}rules/{rule_id(FD)}")
    page.get_by_text("Pairs of rows", exact=True).click()  # pairs are for those who ask
    first = page.locator(".violation").first.inner_text()
    page.get_by_role("link", name="Next").click()
    page.wait_for_url("**page=2")
    assert page.locator(".violation").first.inner_text() != first
    page.goto(address)
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to content"
    page.keyboard.press("/")
    page.wait_for_url("**/rules")
    page.keyboard.press("/")
    page.keyboard.type("boss")
    page.keyboard.press("Enter")
    page.wait_for_url("**search=boss**")
    rules = page.locator("tbody code").all_inner_texts()
    assert rules and all("boss" in rule for rule in rules)
    page.get_by_label("Kind").select_option("key")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**kind=key**")
    page.locator("tbody a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/rules/key-*")


def test_deciding_with_the_keyboard_alone_and_undoing(browser, tmp_path):
    place = tmp_path / "keys"
    hf.Rulebook.create(place, people(), key="id", rules=["zip -> city"], kinds=("key", "fd"), max_size=1).close()

    def statuses():
        with hf.Rulebook.open(place) as book:
            return {entry.rule: entry.status for entry in Decisions.of(book).entries}

    with serving(place) as (address, token):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{address}?token={token}")
        page.goto(f"{address}rules?status=found&column=code")
        rules = [row.get_attribute("data-rule") for row in page.locator("tr[data-rule]").all()]
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        focused = "document.activeElement.closest('tr[data-rule]').dataset.rule"
        assert page.evaluate(focused) == rules[0]
        text = page.locator("tr[data-rule] code").first.inner_text()
        page.keyboard.press("a")
        page.get_by_text("accepted: counts from now on").wait_for()
        assert statuses() == {"zip -> city": "accepted", text: "accepted"}
        wait_for(lambda: page.evaluate(focused) == rules[1])  # the next one
        page.keyboard.press("r")
        page.get_by_text("rejected: counts from now on").wait_for()
        assert sorted(statuses().values()) == ["accepted", "accepted", "rejected"]
        page.keyboard.press("u")
        page.get_by_text("undone, now found").wait_for()
        page.get_by_role("button", name="Undo").click()
        wait_for(lambda: statuses() == {"zip -> city": "accepted"})
        page.goto(f"{address}rules/{RULE_ID}")  # the last rule of the file is retired, not taken out
        page.keyboard.press("?")
        assert page.get_by_role("dialog").is_visible()
        page.keyboard.press("Escape")
        page.close()


def test_the_page_of_a_table_says_what_its_columns_hold(served, page):
    _, address, _ = served
    page.goto(f"{address}graph")
    page.locator("main").get_by_role("link", name="people", exact=True).click()
    page.wait_for_url("**/tables/people")
    row = page.locator(".columns tr", has_text="zip").first
    assert "0 to 5" in row.inner_text() and "zip -> city" in row.inner_text()
    assert "aaaa 9" in page.locator(".columns tr", has_text="city").nth(1).inner_text()
    assert page.get_by_text(HOSTILE).count() <= 1
    page.get_by_label("id", exact=True).fill("7")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tables/people/rows/7")


def test_twelve_tables_in_the_graph(browser, tmp_path):
    """No two tables overlap, each arrow ends at the table it refers to, and the page does not scroll sideways."""
    refers = {
        "country": [], "city": ["country"], "supplier": ["city"], "category": [], "product": ["supplier", "category"],
        "warehouse": ["city"], "customer": ["city"], "order": ["customer", "warehouse"], "item": ["order", "product"],
        "shipment": ["order"], "invoice": ["order"], "payment": ["invoice"],
    }  # fmt: skip
    numbers = np.arange(1, 60)
    tables = {
        name: pa.table({"id": numbers} | {f"{other}_id": numbers[::-1] for other in others})
        for name, others in refers.items()
    }
    rules = [f"{name}.{other}_id in {other}.id" for name, others in refers.items() for other in others]
    hf.Rulebook.create(tmp_path / "b", tables, key=dict.fromkeys(tables, "id"), rules=rules).close()
    with serving(tmp_path / "b") as (address, _):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{address}graph")
        boxes = [box.bounding_box() for box in page.locator("svg.graph .table rect").all()]
        assert len(boxes) == 12 and page.locator("svg.graph .reference").count() == len(rules)
        for number, a in enumerate(boxes):
            for b in boxes[:number]:
                beside = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
                assert beside or a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"]
        shot(page, "twelve")
        page.close()


def test_accepting_a_rule_and_live_updates(browser, tmp_path):
    place = tmp_path / "live"
    book = hf.Rulebook.create(place, people(), key="id", rules=[ZIP], kinds=("key", "fd"), max_size=1)
    with serving(place) as (address, token):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{address}?token={token}")
        assert "token" not in page.url
        page.goto(f"{address}rules?search=code")
        row = page.locator("tr", has_text="zip -> code")
        row.get_by_role("button", name="Accept").click()
        page.locator("tr", has_text="zip -> code").get_by_text("accepted").wait_for()
        assert page.locator("#said").inner_text().startswith("accepted")
        shot(page, "accepted")
        with hf.Rulebook.open(place) as now:
            assert "zip -> code" in [e.rule for e in now.entries] and Decisions.of(now)
        page.goto(f"{address}rules/{RULE_ID}")
        before = page.locator("h2", has_text="Violations").last.inner_text()
        with hf.Rulebook.open(place) as writer:
            new = pa.table({"id": [900], "zip": [0], "city": ["elsewhere"], "boss": [1], "code": [0]})
            writer.apply(hf.Change(inserts=new))
            version = writer.version
        page.locator("[data-live=version]", has_text=str(version)).wait_for()
        page.locator("h2", has_text=before).wait_for(state="detached")
        shot(page, "live")
        page.close()
    book.close()
