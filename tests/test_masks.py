"""A masked value appears nowhere: every command, format, page, route, export, alert and error is walked with markers in
masked columns."""

from __future__ import annotations

import json
import re
import socket
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
import typer.main
import uvicorn
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import app_of
from holdfast.cli.output import Format
from holdfast.exchange.forms import FORMS
from holdfast.pipeline.config import AlertSink, WebhookSink
from holdfast.pipeline.sink_events import SinkEvents
from holdfast.pipeline.writers import AlertSender, WebhookSender
from holdfast.web.app import make_app
from holdfast.workflow.alerts import body_of
from holdfast.workflow.decisions import FILE
from tests.bad_input import Home
from tests.conftest import cases

TEXT, NUMBER = "Zq7Marker", 918273645
NOT_WALKED = {"demo", "doctor", "discover", "check", "import", "watch", "serve"}  # no rulebook, or walked below
FORMATS = [format.value for format in Format]
ONE_FORM = ("report", "export", "apply", "init")


def leaks(text: str) -> str | None:
    """What of a marker stands in a text, also with separators, and cut."""
    flat = text.replace(",", "").replace("_", "").replace("\u202f", "")
    for marker in (TEXT[:6], str(NUMBER)[:7]):
        at = flat.find(marker)
        if at >= 0:
            return flat[max(0, at - 200) : at + 80]
    return None


class Masked(Home):
    """A rulebook of people: their numbers (the key) and their names are masked, and both are markers."""

    def __init__(self, path: Path, mask: list[str], *, text_key: bool) -> None:
        super().__init__(path)
        self.text_key, self.said = text_key, 0
        rows = [(i, 10 + i % 3, TEXT + str(i % 4), 20 + i) for i in range(8)]
        self.write("people.csv", "ssn,zip,name,age\n" + "".join(self.row(*row) + "\n" for row in rows))
        self.write("names.csv", "name,zip\n" + "".join(f"{TEXT}{i},{i}\n" for i in range(4)))
        options = [word for column in mask for word in ("--mask", column)]
        options += [word for kind in ("key", "fd", "ind", "order") for word in ("--kind", kind)]
        rules = ["people: zip -> name", "people: key(name)", "people.name in names.name", "people: not(t.age > 60)"]
        options += [word for rule in rules for word in ("--rule", rule)]
        self.walk("init", "book", "people.csv", "names.csv", "--key", "people=ssn", "--max-size", "2", *options)

    def row(self, number: int, zip_: int, name: str, age: object) -> str:
        return f"{self.ssn(number)},{zip_},{name},{age}"

    def ssn(self, number: int) -> str:
        return f"{TEXT}{number}" if self.text_key else str(NUMBER * 10 + number)

    def walk(self, *arguments: object) -> str:
        """Runs a command; nothing of a marker is in what it says."""
        ran = self.run(*arguments)
        self.quiet(ran.out + ran.err, arguments)
        self.said += len(ran.out)
        return ran.out

    def quiet(self, text: str, what: object) -> None:
        found = leaks(text)
        assert found is None, f"{what}: {found!r}"

    def changes(self) -> None:
        """Batches that violate, that are refused, and that are quarantined, each with markers in them."""
        head = "_change_type,_table,ssn,zip,name,age\n"
        lines = [
            f"insert,people,{self.row(20, 10, TEXT + '9', 99)}",
            f"insert,people,{self.row(1, 10, TEXT + '9', 30)}",  # a key that is there
            f"insert,people,{self.row(21, 10, TEXT + '9', TEXT)}",  # not a number
            f"delete,people,{self.ssn(77)},,,",  # nobody
            f"insert,people,{self.row(22, 10, TEXT, 1)},{TEXT}",  # ragged
            f"{TEXT},people,{self.row(23, 10, TEXT, 1)}",  # not a change type
            f"insert,{TEXT},{self.row(24, 10, TEXT, 1)}",  # not a table
        ]
        if not self.text_key:
            lines.append(f"insert,people,{TEXT},1,{TEXT},1")  # not an integer
            lines.append(f"insert,people,{NUMBER}{'0' * 30},1,{TEXT},1")
        self.write("first.csv", head + f"insert,people,{self.row(19, 10, TEXT + '8', 98)}\n")
        self.walk("apply", "book", "first.csv", "--alert", "json://127.0.0.1:9/")
        for number, line in enumerate(lines):
            self.write(f"c{number}.csv", head + line + "\n")
            for more in (["--format", "json"], ["--quarantine", "--again", "--format", ("table", "json")[number % 2]]):
                self.walk("apply", "book", f"c{number}.csv", *more)
        self.write("c.json", '{"_change_type": "insert", "_table": "people", "ssn": [["' + TEXT + '"]]}\n{"' + TEXT)
        self.walk("apply", "book", "c.json")
        self.walk("apply", "book", "c.json", "--quarantine")
        self.write("c.parquet", TEXT.encode() * 20)
        self.walk("apply", "book", "c.parquet")

    def commands(self) -> None:
        rules = ["people: zip -> name", "people: key(name)", "people.name in names.name", "people: not(t.age > 60)"]
        walks: dict[str, list[list[str]]] = {
            "violations": [[], ["--new"], ["--all", "--format", "csv"], ["--limit", "1000"]],
            "rules": [[], ["--all"]],
            "history": [[], ["--events"], ["--quarantined"], ["--chart"], *(["--rule", r, "--events"] for r in rules)],
            "explain": [
                *([r] for r in rules),
                *([r, "--whole", "--pairs"] for r in rules),
                *([r, "--sql", "duckdb"] for r in rules),
                ["--row", self.ssn(1), "--table", "people"],
                ["--row", self.ssn(78), "--table", "people"],
                ["--row", "1", "--table", "people"],
                ["--row", "#1", "--table", "people"],
            ],
            "report": [["--out", "r.html"], ["--out", "r.csv"]],
            "export": [["--to", form, "--out", f"out-{form}"] for form in FORMS],
            "apply": [["people.csv"], ["nothing.csv"]],
            "init": [["people.csv"]],
        }
        known = set(typer.main.get_command(app_of()).commands)
        assert set(walks) | NOT_WALKED == known, "a command is not walked"
        for name, ways in walks.items():
            for way in ways:
                for format in FORMATS if name in ("violations", "rules", "history") else ("table", "json"):
                    more = [] if name in ONE_FORM or "--format" in way else ["--format", format]
                    if "--row" in way and way[1] in (self.ssn(1), self.ssn(78)):
                        ran = self.run(name, "book", *way, *more)  # who asks by key has typed it; nothing else is told
                        assert ran.status == 2 and "masked" in ran.err
                        continue
                    self.walk(name, "book", *way, *more)
        for file in [*self.path.glob("r.*"), *self.path.glob("out-*/**/*")]:
            if file.is_file():
                self.quiet(file.read_text(), file)
        self.walk("rules", "accept", "book", "people: zip -> age")
        self.walk("rules", "baseline", "book")
        self.walk("rules", "suggest", "book")

    def messages(self) -> None:
        """What message sinks send of every version."""
        with self.book() as book:
            for version in range(book.oldest_with_events, book.version + 1):
                events = SinkEvents("people", book, version)
                sink = WebhookSink(kind="webhook", url="http://127.0.0.1:9/")
                self.quiet(repr(WebhookSender(sink).message(events)), "webhook")
                self.quiet(
                    repr(AlertSender(tuple(AlertSink(kind="alert", urls=["json://x"]).urls)).message(events)), "alert"
                )
                self.quiet(body_of(events.alerts), "alert")

    def pages(self) -> None:
        """Every page and route of the web server, with every rule, row and page number."""
        with serving(self.path / "book") as ask:
            self.every_page(ask)

    def every_page(self, ask) -> None:
        paths = [
            "/",
            "/rules",
            "/graph",
            "/tables/people",
            "/tables/names",
            "/api/tables/people",
            "/rules?search=ssn+name",
            "/history",
            "/api/summary",
            "/api/rules?size=200",
            "/api/openapi.json",
            "/nothing",
        ]
        lines = json.loads(ask("/api/rules?size=200"))["rules"]
        for line in lines:
            rule = urllib.parse.quote(line["id"], safe="")
            paths += [f"/rules/{rule}", f"/rules/{rule}?page=2", f"/api/rules/{rule}"]
            paths += [f"/api/rules/{rule}/violations", f"/api/rules/{rule}/history"]
        for row in range(12):
            paths += [f"/tables/people/rows/{row}", f"/api/tables/people/rows/{row}", f"/tables/names/rows/{row}"]
        answers = {path: ask(path) for path in paths}
        for path, text in answers.items():
            self.quiet(text, path)
        assert len("".join(answers.values())) > 20_000
        there, nobody = (ask(f"/api/tables/people/rows?key={self.ssn(number)}") for number in (1, 78))
        assert there.replace(self.ssn(1), "") == nobody.replace(self.ssn(78), "")  # no oracle
        self.quiet(ask("/api/tables/people/rows?key=x"), "rows?key=")


@contextmanager
def serving(directory: Path):
    """The application over real HTTP, in this process."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        served = make_app(directory, "token")
        server = uvicorn.Server(uvicorn.Config(served, log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def ask(path: str) -> str:
            try:
                with urllib.request.urlopen(address + path, timeout=60) as answer:
                    return answer.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.read().decode()

        try:
            yield ask
        finally:
            server.should_exit = True
            thread.join()


@settings(max_examples=cases(2), deadline=None, phases=[Phase.generate])
@given(st.booleans(), st.booleans(), st.sampled_from(["kept", "unmasked", "removed"]))
def test_a_marker_in_a_masked_column_appears_nowhere(text_key, by_table, decisions):
    mask = ["people.ssn", "name"] if by_table else ["ssn", "name"]
    with tempfile.TemporaryDirectory() as path:
        home = Masked(Path(path), mask, text_key=text_key)
        file = Path(path) / "book" / FILE
        if decisions == "removed":  # the manifest knows the mask, whatever becomes of the file
            file.unlink()
        elif decisions == "unmasked":
            file.write_text(re.sub(r"(?m)^mask:.*\n(- .*\n|  - .*\n)*", "", file.read_text()))
            assert "mask" not in file.read_text()
        home.changes()
        home.commands()
        home.messages()
        home.pages()
        assert home.said > 10_000


def test_a_mask_that_comes_while_pages_are_served(tmp_path):
    """What was made before, events that name rows for example, is not shown any more."""
    people = pa.table({"ssn": [f"{TEXT}{i}" for i in range(4)], "zip": [1, 2, 3, 4], "name": ["a", "b", "c", "d"]})
    with hf.Rulebook.create(
        tmp_path / "book", {"people": people}, key={"people": "ssn"}, rules=["people: zip -> name"], kinds=("fd", "key")
    ) as book:
        new = pa.table({"ssn": [f"{TEXT}7"], "zip": [1], "name": ["x"]})
        book.apply(hf.Change(inserts=new, table="people"))
    with serving(tmp_path / "book") as ask:
        before = "".join(ask(path) for path in ("/", "/history", "/tables/people/rows/0"))
        assert leaks(before)
        (tmp_path / "book" / FILE).write_text("version: 1\nmask: [ssn]\nrules:\n- {rule: 'people: zip -> name'}\n")
        for path in ("/", "/history", "/tables/people/rows/0", "/api/rules", "/tables/people/rows?key=x"):
            assert leaks(ask(path)) is None, path


def test_masks_stay_until_they_are_taken_away(tmp_path, capsys):
    home = Home(tmp_path)
    home.init("--mask", "zip")
    with home.book() as book:
        assert book.masked == {"zip"}
    assert home.run("rules", "mask", "book", "age").status == 0
    (tmp_path / "book" / FILE).unlink()
    with home.book() as book:
        assert book.masked == {"age", "zip"}
    assert "there is no" not in home.run("rules", "book").err
    assert home.run("rules", "unmask", "book", "zip").status == 0
    assert home.run("rules", "mask", "book", "aeg").status == 2
    with home.book() as book:
        assert book.masked == {"age"}


def test_an_empty_file_of_decisions_unmasks_nothing(tmp_path):
    home = Home(tmp_path)
    home.init("--rule", "zip -> age", "--mask", "id", "--key", "id")
    home.write(f"book/{FILE}", "")
    home.write("change.csv", f"_change_type,id,zip,age\ninsert,{NUMBER},10115,31\n")
    home.run("apply", "book", "change.csv")
    with home.book() as book:
        assert book.masked == {"id"}
    for command in (["violations", "book"], ["history", "book", "--events"], ["rules", "book"]):
        assert leaks(home.run(*command).out) is None


@pytest.mark.parametrize("text", ["mask: [nothing]\nrules: []\n", "mask: 7\n", "mask: [ssn\n"])
def test_a_mask_that_cannot_be_read_shows_nothing(tmp_path, text):
    home = Home(tmp_path)
    home.init("--rule", "zip -> age")
    home.write(f"book/{FILE}", "version: 1\n" + text)
    for command in (["violations", "book"], ["explain", "book", "zip -> age"], ["history", "book", "--quarantined"]):
        ran = home.run(*command)
        assert ran.status == 2 and not ran.out and "Traceback" not in ran.err, (command, ran)
