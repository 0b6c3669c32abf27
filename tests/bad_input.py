"""What happens to bad input: one case for each kind, run for real. `docs/reliability.md` has the same table, made by
`python -m tests.bad_input`."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast import HoldfastError, Rulebook
from holdfast.cli.main import status_of
from holdfast.pipeline.config import load_pipeline
from holdfast.pipeline.follower import Follower
from holdfast.pipeline.landing import Applied
from holdfast.pipeline.new_book import make_book
from holdfast.pipeline.sources import stream_of

BEGIN, END = "<!-- made by python -m tests.bad_input -->", "<!-- end -->"


@dataclass(frozen=True)
class Ran:
    """A command that ended."""

    status: int
    out: str
    err: str


class Home:
    """A directory with a table, a rulebook of it, and what a case puts there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("people.csv", "id,zip,age\n1,10115,30\n2,20095,41\n")

    def write(self, name: str, content: str | bytes) -> Path:
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return place

    def run(self, *arguments: object) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        before = Path.cwd()
        os.chdir(self.path)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = status_of([str(a) for a in arguments])
        finally:
            os.chdir(before)
        return Ran(status, out.getvalue(), err.getvalue())

    def init(self, *options: str) -> None:
        made = self.run("init", "book", "people.csv", "--suggest", "0", *options)
        assert made.status == 0, made.err

    def book(self) -> Rulebook:
        return Rulebook.open(self.path / "book")

    def refused(self, ran: Ran, *words: str) -> None:
        """Exit status 2, one line that has these words, and nothing changed."""
        lines = [line for line in ran.err.splitlines() if line.startswith("holdfast: ")]
        assert ran.status == 2 and len(lines) == 1 and "Traceback" not in ran.err, ran
        for word in words:
            assert word in lines[0], (word, ran.err)
        if (self.path / "book").exists():
            with self.book() as book:
                assert book.count() == 2 and not book.quarantined().num_rows

    def change(self, text: str, *options: str) -> Ran:
        self.write("change.csv", text)
        return self.run("apply", "book", "change.csv", *options)

    def follow(self, on_error: str = "quarantine", **more: object) -> list[str]:
        """The pipeline without Spark: what is in `landing` is taken; what needs somebody to look at it is returned."""
        record = {"book": "book", "tables": {"people": {"base": "people.csv", "key": "id"}}, "on_error": on_error}
        record |= {"source": {"kind": "files", "path": "landing"}, "rules": ["people: zip -> age"], **more}
        self.write("pipeline.yml", json.dumps(record))
        (self.path / "landing").mkdir(exist_ok=True)
        pipeline = load_pipeline(self.path / "pipeline.yml")
        make_book(pipeline, None)
        follower, files = Follower(pipeline, None), stream_of(pipeline)
        try:
            for batch in files.batches(None, 0, follower.book.records()):
                follower.take(batch)
            return files.landing.problems(Applied(follower.book.records(), pipeline.name))
        finally:
            follower.close()

    def quarantined(self) -> list[dict]:
        with self.book() as book:
            return book.quarantined().to_pylist()


@dataclass(frozen=True)
class Case:
    """A kind of input, where it arrives, what becomes of it, and the test."""

    where: str
    what: str
    outcome: str
    test: Callable[[Home], None]


CASES: list[Case] = []


def case(where: str, what: str, outcome: str) -> Callable[[Callable[[Home], None]], Callable[[Home], None]]:
    def register(test: Callable[[Home], None]) -> Callable[[Home], None]:
        CASES.append(Case(where, what, outcome, test))
        return test

    return register


FILE, CHANGE, LANDING, BOOK, PIPELINE = "a table", "a change file", "a landing directory", "a rulebook", "a pipeline"
REFUSED = "refused as a whole, exit status 2; "

# --- tables -----------------------------------------------------------------------------------------------------


@case(FILE, "a row with too many or too few cells", REFUSED + "the message has file, line and cells")
def ragged(home: Home) -> None:
    home.write("bad.csv", "a,b\n1,2\n1,2,3\n")
    home.refused(home.run("discover", "bad.csv"), "bad.csv, line 3", "3 cells instead of 2")


@case(FILE, "text that is partly UTF-8 and partly not", REFUSED + "the message has file, line and byte")
def encoding(home: Home) -> None:
    home.write("bad.csv", "a,b\nö,1\n".encode() + b"2,\xff\n")
    home.refused(home.run("discover", "bad.csv"), "bad.csv, line 3", "UTF-8")


@case(FILE, "text in UTF-16 or Windows-1252", "read; the command says so")
def other_encodings(home: Home) -> None:
    for name in ("utf-16", "cp1252"):
        home.write("odd.csv", "a,b\nö,1\nä,2\n".encode(name))
        ran = home.run("discover", "odd.csv", "--format", "json")
        assert ran.status == 0 and f"encoding {name}" in ran.err


@case(FILE, "a header with a quoted line break", "read: the line break is part of the name")
def header(home: Home) -> None:
    home.write("odd.csv", '"a\nb",c\n1,2\n3,4\n')
    ran = home.run("discover", "odd.csv", "--kind", "key", "--all", "--format", "json")
    assert ran.status == 0 and "key(`a\\nb`)" in ran.out


@case(
    FILE, "a decimal that neither 64 bits nor a float hold exactly", REFUSED + "the message has the `--type` that helps"
)
def wide_decimal(home: Home) -> None:
    home.write("bad.csv", "a,b\n12345678901234567.81,x\n0.000001,y\n")
    ran = home.run("check", "bad.csv", "--rule", "key(a)")
    home.refused(ran, "bad.csv, row", "column 'a'", "--type a=text")
    assert home.run("check", "bad.csv", "--rule", "key(a)", "--type", "a=text").status == 0


@case(FILE, "an integer beyond 64 bits", REFUSED + "the message has the `--type` that helps")
def wide_integer(home: Home) -> None:
    home.write("bad.csv", "a\n99999999999999999999\n1\n")
    home.refused(home.run("check", "bad.csv", "--rule", "key(a)"), "bad.csv, row 1, column 'a'", "--type a=text")


@case(FILE, "integers above 2^61 beside other numbers", "compared exactly; an automatic choice never fails a run")
def large_integers(home: Home) -> None:
    rows = "".join(f"{2**62 + i},{i}.5\n" for i in range(4))
    home.write("big.csv", "a,b\n" + rows)
    assert home.run("discover", "big.csv").status == 0
    ran = home.run("check", "big.csv", "--rule", "not(t.a < t.b)", "--format", "json")
    assert ran.status == 0 and json.loads(ran.out)["violations"][0]["count"] == 0


@case(FILE, "a truncated Parquet file", REFUSED + "the message has the file")
def torn_parquet(home: Home) -> None:
    pq.write_table(pa.table({"a": [1]}), home.path / "bad.parquet")
    whole = (home.path / "bad.parquet").read_bytes()
    home.write("bad.parquet", whole[: len(whole) // 2])
    home.refused(home.run("discover", "bad.parquet"), "bad.parquet")


@case(FILE, "JSON nested 100,000 deep", REFUSED + "the message has file, line and depth")
def deep_json(home: Home) -> None:
    home.write("bad.json", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    home.refused(home.run("discover", "bad.json"), "bad.json, line 1")


@case(FILE, "a name that ends in nothing that is known", REFUSED + "the message lists the endings")
def suffix(home: Home) -> None:
    home.write("note.txt", "x")
    home.refused(home.run("discover", "note.txt"), "note.txt", ".parquet")


@case(FILE, "20,000 columns", REFUSED + "the message says how to choose columns")
def many_columns(home: Home) -> None:
    names = [f"c{i}" for i in range(20_000)]
    home.write("wide.csv", ",".join(names) + "\n" + ",".join("1" * 20_000) + "\n" + ",".join("2" * 20_000) + "\n")
    home.refused(home.run("discover", "wide.csv"), "20,000 columns", "columns")


# --- change files -----------------------------------------------------------------------------------------------


@case(
    CHANGE,
    "a value that its column's kind cannot hold",
    REFUSED + "or, with `--quarantine`, only the row is quarantined",
)
def bad_value(home: Home) -> None:
    home.init("--key", "id")
    text = "_change_type,id,zip,age\ninsert,3,80331,old\ninsert,4,80331,50\n"
    home.refused(home.change(text), "change.csv, row 1, column 'age': 'old'")
    assert home.change(text, "--quarantine").status == 0
    (bad,) = home.quarantined()
    assert bad["place"].endswith("row 1") and home.book().count() == 3


@case(
    CHANGE, "more decimal places than the column has, or 7.5 for an integer", "applied: the column is widened exactly"
)
def widening(home: Home) -> None:
    home.init("--key", "id")
    assert home.change("_change_type,id,zip,age\ninsert,3,80331,7.5\n").status == 0
    assert home.change("_change_type,id,zip,age\ninsert,4,80331,7.125\n").status == 0
    with home.book() as book:
        assert [str(a) for a in book.table()["age"].to_pylist()] == ["30.000", "41.000", "7.500", "7.125"]
    ran = home.run("history", "book")
    assert (
        "integer -> decimal(1)" in ran.out.replace("\n", "")
        or "decimal(1)" in home.run("history", "book", "--events", "--format", "json").out
    )


@case(
    CHANGE, "a number that no wider column can hold", REFUSED + "or, with `--quarantine`, only the row is quarantined"
)
def cannot_widen(home: Home) -> None:
    home.init("--key", "id")
    text = "_change_type,id,zip,age\ninsert,3,80331,0.1234567890123456789\ninsert,4,80331,50\n"
    home.refused(home.change(text), "change.csv, row 1, column 'age'")
    assert home.change(text, "--quarantine").status == 0 and len(home.quarantined()) == 1


@case(
    CHANGE, "a key that is there already, twice, or null; a delete of nothing", REFUSED + "the message has row and key"
)
def contradictions(home: Home) -> None:
    home.init("--key", "id")
    for line, word in (
        ("insert,1,10115,3", "already there"),
        ("insert,,10115,3", "key column is null"),
        ("delete,9,,", "not there"),
        ("insert,7,1,1\ninsert,7,1,2", "a second time"),
    ):
        home.refused(home.change(f"_change_type,id,zip,age\n{line}\n"), "change.csv, row", word)


@case(CHANGE, "a column that is missing or unknown; a change type that is unknown", REFUSED + "the message names it")
def columns(home: Home) -> None:
    home.init("--key", "id")
    home.refused(home.change("_change_type,id,zip\ninsert,3,1\n"), "'age' is missing")
    home.refused(home.change("_change_type,id,zip,age,x\ninsert,3,1,1,1\n"), "'x'")
    home.refused(home.change("_change_type,id,zip,age\nupsert,3,1,1\n"), "row 1", "'upsert'")


@case(CHANGE, "the same file a second time, by hand", REFUSED + "`--again` applies it once more")
def twice(home: Home) -> None:
    home.init()
    text = "_change_type,id,zip,age\ninsert,3,80331,50\n"
    assert home.change(text).status == 0
    ran = home.change(text)
    assert ran.status == 2 and "applied already, as batch 1 (version 1)" in ran.err and "--again" in ran.err
    assert home.book().count() == 3
    assert home.change(text, "--again").status == 0 and home.book().count() == 4


@case(CHANGE, "a batch id that was used for another file", REFUSED + "nothing is passed over")
def reused_batch(home: Home) -> None:
    home.init()
    assert home.change("_change_type,id,zip,age\ninsert,3,80331,50\n", "--batch", "monday").status == 0
    assert home.change("_change_type,id,zip,age\ninsert,3,80331,50\n", "--batch", "monday").status == 0  # known
    ran = home.change("_change_type,id,zip,age\ninsert,4,80331,50\n", "--batch", "monday")
    assert ran.status == 2 and "made of something else" in ran.err and home.book().count() == 3


# --- landing directories ----------------------------------------------------------------------------------------


def good(token: int) -> str:
    return f"_change_type,id,zip,age\ninsert,{token},80331,{token}\n"


@case(LANDING, "a file with bad rows, `on_error: quarantine`", "its good rows are applied, its bad rows quarantined")
def bad_rows(home: Home) -> None:
    home.write("landing/a.csv", "_change_type,id,zip,age\ninsert,3,1,1\ninsert,3,1,1\ninsert,x,1,1\n")
    assert home.follow() == []
    assert len(home.quarantined()) == 2 and home.book().count() == 3


@case(
    LANDING, "a file that cannot be read at all, `on_error: quarantine`", "quarantined as a whole; the stream goes on"
)
def poison(home: Home) -> None:
    home.write("landing/a.parquet", b"PAR1 torn")
    home.write("landing/b.txt", "what is this")
    home.write("landing/c.json", '{"_change_type": ' + "[" * 100_000)
    home.write("landing/d.csv", "_change_type,id\ninsert,3\n")
    home.write("landing/e.csv", good(7))
    assert home.follow() == []
    assert {Path(bad["place"]).name for bad in home.quarantined()} == {"a.parquet", "b.txt", "c.json", "d.csv"}
    assert all(bad["reason"] for bad in home.quarantined()) and home.book().count() == 3


@case(
    LANDING,
    "a file that cannot be read at all, `on_error: refuse`",
    "the stream stops before it, and names it; exit status 2",
)
def poison_refused(home: Home) -> None:
    home.write("landing/a.parquet", b"PAR1 torn")
    try:
        home.follow("refuse")
    except HoldfastError as error:
        assert "a.parquet" in str(error)
    else:
        raise AssertionError("nothing was said")
    assert home.book().count() == 2


@case(LANDING, "files of any age or date, in sub-directories, with the same name or length", "each is applied once")
def anywhere(home: Home) -> None:
    for number, name in enumerate(("A.csv", "%41.csv", "day=1/x.csv", "day=2/x.csv", "old/x.csv"), start=3):
        os.utime(home.write(f"landing/{name}", good(number)), (number * 10**8, number * 10**8))
    assert home.follow() == [] and home.follow() == []
    assert sorted(home.book().table()["id"].to_pylist()) == [1, 2, 3, 4, 5, 6, 7]


@case(LANDING, "a file that was written again after it was applied", "not applied; named by every run, exit status 2")
def rewritten(home: Home) -> None:
    home.write("landing/a.csv", good(3))
    assert home.follow() == []
    home.write("landing/a.csv", good(4))
    for _ in range(2):
        (problem,) = home.follow()
        assert "a.csv: was written again after it was applied" in problem
    assert home.book().count() == 3


@case(LANDING, "links to directories, pipes, names that are not UTF-8", "not read; named by every run, exit status 2")
def not_regular(home: Home) -> None:
    home.write("landing/a.csv", good(3))
    home.write("other/b.csv", good(4))
    (home.path / "landing/link").symlink_to(home.path / "other")
    os.mkfifo(home.path / "landing/pipe.csv")
    Path(os.fsdecode(bytes(home.path) + b"/landing/\xff.csv")).write_text(good(5))
    named = home.follow()
    assert len(named) == 3 and home.book().count() == 3
    assert any("link: a link" in p for p in named) and any("pipe.csv: is not a regular" in p for p in named)
    assert any("\\xff.csv: the name is not UTF-8" in p for p in named)


@case(
    LANDING,
    "names that begin with a dot or an underscore",
    "left, as files that are not finished; `watch` says that they are there",
)
def hidden(home: Home) -> None:
    home.write("landing/_part.csv", good(3))
    home.write("landing/.tmp/x.csv", good(4))
    assert home.follow() == [] and home.book().count() == 2


@case(
    LANDING,
    "a new column, `new_columns: accept`",
    "added, null in the rows that are there; ordinary files are applied as ever",
)
def new_column(home: Home) -> None:
    home.write("landing/a.csv", good(3))
    home.write("landing/b.csv", "_change_type,id,zip,age,note\ninsert,4,1,1,hello\n")
    os.utime(home.path / "landing/a.csv", (1, 1))
    assert home.follow(new_columns="accept") == []
    assert home.book().table()["note"].to_pylist() == [None, None, None, "hello"]


@case(LANDING, "files that an earlier release applied, known by name and length", "not applied again")
def upgraded(home: Home) -> None:
    home.write("landing/a.csv", good(3))
    home.write("landing/day=1/b.csv", good(40))
    home.follow()
    with Rulebook.create(home.path / "old", home.path / "people.csv", key="id") as book:
        for name in ("a.csv", "b.csv"):
            size = (home.path / "landing" / ("day=1/b.csv" if name == "b.csv" else name)).stat().st_size
            book.apply([], name, source="pipeline", offsets=f"{size} bytes")
        files = stream_of(load_pipeline(home.path / "pipeline.yml"))
        assert files.batches(None, 0, book.records()) == []
        home.write("landing/day=2/b.csv", good(50))  # of the same name and length: nobody can tell
        applied = Applied(book.records(), "pipeline")
        assert files.new_batches(applied) == [] and len(files.landing.problems(applied)) == 2
        home.write("landing/a.csv", good(3333))
        assert "a.csv: was written again" in "".join(files.landing.problems(applied))


# --- rulebooks and pipelines ------------------------------------------------------------------------------------


@case(BOOK, "a damaged or missing file of its data", REFUSED + "the message has the file")
def damaged(home: Home) -> None:
    home.init("--key", "id")
    file = sorted((home.path / "book/files").glob("*table*"))[0]
    file.write_bytes(b"\0" * file.stat().st_size)
    ran = home.run("violations", "book")
    assert ran.status == 2 and file.name in ran.err and "Traceback" not in ran.err


@case(BOOK, "a damaged baseline", REFUSED + "before anything is applied")
def damaged_baseline(home: Home) -> None:
    home.init("--key", "id", "--rule", "zip -> age")
    home.write("book/baseline.parquet", b"torn")
    ran = home.change(good(3))
    assert ran.status == 2 and "baseline" in ran.err and "Traceback" not in ran.err and home.book().count() == 2


@case(
    BOOK,
    "an alert that cannot be delivered",
    "the batch is applied, exit status 2; the alert is kept, and the next `apply --alert` delivers it",
)
def undelivered(home: Home) -> None:
    home.init("--key", "id", "--rule", "zip -> age")
    ran = home.change("_change_type,id,zip,age\ninsert,3,10115,31\n", "--alert", "json://127.0.0.1:9/")
    assert ran.status == 2 and "alerts are kept" in ran.err and "Traceback" not in ran.err
    assert home.book().count() == 3


@case(BOOK, "a directory that is none", REFUSED + "the message says how to make one")
def no_book(home: Home) -> None:
    ran = home.run("rules", "nothing")
    home.refused(ran, "nothing", "holdfast init")


@case(
    BOOK, "a rule with a number such as 1e999999999, or nested without end", REFUSED + "the message points at the place"
)
def hostile_rule(home: Home) -> None:
    for text in ("not(t.age > 1e999999999)", "not(" * 5000, "not(t.age > " + "9" * 100_000 + ")"):
        ran = home.run("check", "people.csv", "--rule", text)
        assert ran.status == 2 and "Traceback" not in ran.err and "expected" in ran.err


@case(PIPELINE, "a `${VARIABLE}` that is not set", REFUSED + "the message has its place in the file")
def unset(home: Home) -> None:
    text = "book: b\ntables: {t: {base: people.csv}}\nsource: {kind: files, path: in}\nsinks:\n"
    home.write("pipeline.yml", text + "- {kind: webhook, url: 'https://x/${HOLDFAST_NO_SUCH}'}\n")
    home.refused(home.run("watch", "pipeline.yml"), "pipeline.yml: sinks: 1: url", "HOLDFAST_NO_SUCH is not set")


@case(
    PIPELINE, "a webhook that is not http(s), or a time that is none", REFUSED + "the message has its place in the file"
)
def bad_fields(home: Home) -> None:
    text = "book: b\ntables: {t: {base: people.csv}}\nsource: {kind: files, path: in}\n"
    home.write("pipeline.yml", text + "sinks:\n- {kind: webhook, url: 'file:///etc/passwd'}\n")
    home.refused(home.run("watch", "pipeline.yml"), "sinks.0.webhook.url", "http://")
    home.write("pipeline.yml", text + "trigger: {every: soon}\n")
    home.refused(home.run("watch", "pipeline.yml"), "trigger.every", "not a time")


def table() -> str:
    """The cases, for people."""
    lines = ["| where | input | outcome |", "|---|---|---|"]
    lines += [f"| {c.where} | {c.what} | {c.outcome} |".replace("|---", "|---") for c in CASES]
    return "\n".join([BEGIN, *lines, END])


def page() -> Path:
    return Path(__file__).resolve().parent.parent / "docs/reliability.md"


def written(text: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return before + table() + rest.partition(END)[2]


if __name__ == "__main__":
    page().write_text(written(page().read_text(encoding="utf-8")), encoding="utf-8")
