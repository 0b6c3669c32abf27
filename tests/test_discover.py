"""`discover`, rulebooks that find rules, the command line, Spark, and the real tables."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.discovery.fd.table_fds import TableFds
from holdfast.errors import HoldfastError, RuleError
from holdfast.executors.threads import ThreadExecutor
from holdfast.generate.tax import tax
from holdfast.rulebook.state import BookState
from holdfast.table.change import read_feed
from holdfast.table.row_change import RowChange
from tests import laws, naive
from tests import strategies as hs
from tests.conftest import CASES, LOOKS_AFTER, cases
from tests.test_agree import Table, changes, expected, rules_of, wanted
from tests.test_executors import FarThreads

BOTH = ("key", "fd")
ORDERS = pa.table({"id": [1, 2, 3, 4], "zip": [10, 10, 20, 30], "city": ["B", "B", "H", "H"], "land": ["DE"] * 4})


# --- in Python -----------------------------------------------------------------------------------------------


def test_discover_finds_what_holds():
    rules = hf.discover(ORDERS, BOTH)
    assert rules.texts() == ["() -> land", "id -> city", "id -> zip", "key(id)", "zip -> city"]
    assert rules.complete and rules.limits == ("key: at most 5 columns", "fd: at most 5 columns")
    assert hf.discover(ORDERS, ("key",), max_size=None).texts() == ["key(id)"]
    details = {r["text"]: r for r in rules.to_arrow().to_pylist()}
    assert details["zip -> city"]["support"] == 2 and details["zip -> city"]["error"] == 0.0


def test_rules_of_several_tables_say_which(tmp_path):
    rules = hf.discover({"a": ORDERS.select(["id"]), "b": ORDERS.select(["land"])}, BOTH)
    assert rules.texts() == ["a: key(id)", "b: () -> land"]


def test_nearly():
    spoilt = pa.concat_tables([ORDERS] * 5 + [pa.table({"id": [5], "zip": [10], "city": ["X"], "land": ["DE"]})])
    assert "zip -> city" not in hf.discover(spoilt).texts()
    rules = hf.discover(spoilt, ("fd",), max_error=0.05)
    found = {r["text"]: r["error"] for r in rules.to_arrow().to_pylist()}
    assert found["zip -> city"] == pytest.approx(1 / 21)
    pairs = {
        r["text"]: r["error"] for r in hf.discover(spoilt, ("fd",), max_error=0.05, error="g1").to_arrow().to_pylist()
    }
    assert pairs["zip -> city"] == pytest.approx(2 * 10 / (21 * 20))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kinds": ("dc",), "cross_columns": [("id", "x")]}, HoldfastError, "'x'"),
        ({"kinds": ("dc",), "evidence": "some"}, HoldfastError, "evidence is 'auto'"),
        ({"kinds": ("dc",), "evidence": "lean", "max_error": 0.1}, HoldfastError, "max_error needs counts"),
        ({"kinds": ("dc",), "minimal": "plainly"}, HoldfastError, "minimal is 'implication'"),
        ({"kinds": ("fds",)}, RuleError, "'fds' is not one of the kinds"),
        ({"max_error": 1.5}, HoldfastError, "max_error is a share"),
        ({"error": "g2"}, HoldfastError, "error is 'g1'"),
        ({"max_size": -1}, HoldfastError, "max_size is a number"),
        ({"max_size": {"fd": "x"}}, HoldfastError, "max_size is a number"),
        ({"nulls": "maybe"}, RuleError, "null policies"),
        ({"columns": ["idd"]}, HoldfastError, "did you mean 'id'"),
    ],
)
def test_what_cannot_be_asked(options, error, message):
    with pytest.raises(error, match=message):
        hf.discover(ORDERS, **options)


def test_no_rows_one_row_and_no_pairs():
    assert len(hf.discover(ORDERS.slice(0, 0))) == 0
    assert len(hf.discover(ORDERS.slice(0, 1))) == 0
    assert "key(id)" in hf.discover(ORDERS.slice(0, 2), BOTH).texts()


def test_constant_identical_unique_and_empty_columns():
    rows = pa.table({"u": [1, 2, 3], "same": [1, 1, 1], "a": [1, 1, 2], "b": ["x", "x", "y"],
                     "none": pa.nulls(3, pa.string()), "twice": [5, 5, 6]})  # fmt: skip
    for nulls in hs.POLICIES:
        dicts = rows.to_pylist()
        names = rows.column_names
        found = set(hf.discover(rows, BOTH, nulls=nulls, max_size=None))
        assert found == naive.keys(dicts, names, nulls) | naive.fds(dicts, names, nulls)


def test_duplicate_rows_leave_no_key():
    rows = pa.concat_tables([ORDERS, ORDERS.slice(0, 1)])
    assert len(hf.discover(rows, ("key",))) == 0
    assert "id -> zip" in hf.discover(rows, ("fd",)).texts()


@pytest.mark.parametrize("nulls", hs.POLICIES)
@given(data=st.data())
@settings(max_examples=cases(30))
def test_every_kind_of_value(nulls, data):
    schema, rows = data.draw(hs.tables(rows=7, most=3))
    table = laws.to_table(schema, rows)
    found = set(hf.discover(table, BOTH, nulls=nulls, types={c.name: c.type_text for c in schema.columns}))
    names = [c.name for c in schema.columns]
    assert found == naive.keys(rows, names, nulls) | naive.fds(rows, names, nulls)


def test_constraints_as_the_papers_count_them():
    rows = pa.table({"a": [1, 2, 3], "b": [1, 2, 3]})
    few = hf.discover(rows, ("dc",), cross_columns=False).texts()
    many = hf.discover(rows, ("dc",), cross_columns=False, minimal="plain").texts()
    assert few == ["not(t.a <= s.a and t.b >= s.b)", "not(t.a = s.a)", "not(t.b = s.b)"]
    assert many == sorted(
        [*few, "not(t.a < s.a and t.b > s.b)", "not(t.a < s.a and t.b >= s.b)", "not(t.a <= s.a and t.b > s.b)"]
    )


def test_a_time_budget_ends_the_search(ticking):
    rng = np.random.default_rng(0)
    wide = pa.table({f"c{i}": rng.integers(0, 3, 120) for i in range(60)})
    told = []
    rules = hf.discover(wide, max_size=None, time_budget=1.0, progress=lambda what, share: told.append((what, share)))
    assert ticking.looks <= 1000 + LOOKS_AFTER
    assert not rules.complete and "time budget of 1 s" in rules.limits and told
    assert all(0 <= share <= 1 for _, share in told)
    some = rules.of("fd").where(lambda block: np.arange(len(block)) < 20)
    assert all(not hf.check(wide, [rule], nulls="equal").count(rule) for rule in some)


def test_ctrl_c_returns_what_is_proven(tmp_path):
    """A process that is interrupted prints what it has and says so."""
    program = tmp_path / "long.py"
    program.write_text(
        "import numpy as np, pyarrow as pa, holdfast as hf\n"
        "rng = np.random.default_rng(0)\n"
        "wide = pa.table({f'c{i}': rng.integers(0, 3, 120) for i in range(60)})\n"
        "tell = lambda what, share: print(what, share, flush=True)\n"
        "rules = hf.discover(wide, max_size=None, time_budget=None, progress=tell)\n"
        "print(rules.complete, 'interrupted' in rules.limits, len(rules) > 0)\n"
    )
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    while process.stdout.readline() != "comparing values 1.0\n":
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.stdout.read().splitlines()[-1] == "False True True" and process.wait() == 0


# --- in a rulebook -------------------------------------------------------------------------------------------


def test_a_rulebook_tells_which_rules_came_and_went(tmp_path):
    book = hf.Rulebook.create(tmp_path / "book", ORDERS, kinds=("key", "fd"), key="id")
    assert book.rules("fd").texts() == ["() -> land", "id -> city", "id -> zip", "zip -> city"]
    out = book.apply(hf.Change(inserts=pa.table({"id": [9], "zip": [20], "city": ["K"], "land": ["DE"]})))
    assert out.rules.removed.texts() == ["zip -> city"] and len(out.rules.added) == 0
    assert out.rules.why(hf.parse("zip -> city")) == (2, 4)
    out = book.apply(hf.Change(deletes=pa.table({"id": [9]})))
    assert out.rules.added.texts() == ["zip -> city"] and not len(out.rules.removed)
    history = book.rule_history().to_pylist()
    assert [(r["change"], r["rule"], r["t"], r["s"]) for r in history] == [
        ("removed", "zip -> city", "3", "9"),
        ("added", "zip -> city", "3", "9"),
    ]
    assert book.history()["rules_removed"].to_pylist() == [0, 1, 0]
    with hf.Rulebook.open(tmp_path / "book") as again:
        assert again.rules() == book.rules() and again.rule_history().equals(book.rule_history())
    assert hf.Rulebook.open(tmp_path / "book", version=1).rules("fd").texts() == [
        "() -> land",
        "id -> city",
        "id -> zip",
    ]


def test_a_column_more_changes_the_rules(tmp_path):
    book = hf.Rulebook.create(tmp_path / "book", ORDERS, kinds=("fd",), key="id")
    book.alter(columns={"data": {"note": "text"}})
    assert book.rule_history()["rule"].to_pylist() == ["() -> note"]
    book.apply(hf.Change(inserts=pa.table({"id": [9], "zip": [1], "city": ["K"], "land": ["DE"], "note": ["x"]})))
    expected = hf.discover(book.table(), ("fd",))
    assert book.rules() == expected == hf.Rulebook.open(tmp_path / "book").rules()


def test_a_first_discovery_that_does_not_finish_is_refused():
    rng = np.random.default_rng(0)
    wide = pa.table({f"c{i}": rng.integers(0, 3, 300) for i in range(60)})
    with pytest.raises(HoldfastError, match="never partial"):
        hf.Rulebook.create(None, wide, kinds=("fd",), max_size=None, time_budget=0.5)


def test_found_rules_stand_beside_given_ones():
    book = hf.Rulebook.create(None, ORDERS, rules=["city -> zip"], kinds=("fd",))
    assert book.rules() == book.found() and book.found().texts() == [
        "() -> land",
        "id -> city",
        "id -> zip",
        "zip -> city",
    ]
    assert book.given().texts() == ["city -> zip"] and book.count_violations("city -> zip")


def test_an_interruption_leaves_rules_true(monkeypatch):
    book = hf.Rulebook.create(None, ORDERS, kinds=("key", "fd"))
    row = pa.table({"id": [9], "zip": [20], "city": ["K"], "land": ["DE"]})
    monkeypatch.setattr(BookState, "merge", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        book.apply(hf.Change(inserts=row))
    monkeypatch.undo()
    assert book.rules() == hf.discover(ORDERS, BOTH)
    book.apply(hf.Change(inserts=row))
    assert book.rules() == hf.discover(pa.concat_tables([ORDERS, row]), BOTH)


# --- on the command line -------------------------------------------------------------------------------------


@pytest.fixture
def orders(tmp_path):
    path = tmp_path / "orders.csv"
    path.write_text("id,zip,city,land\n1,10,B,DE\n2,10,B,DE\n3,20,H,DE\n4,30,H,DE\n")
    return str(path)


def test_discover_prints_json(orders, capsys):
    assert status_of(["discover", orders, "--format", "json", "--kind", "fd", "--max-size", "none"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1 and document["tables"] == ["orders"] and document["complete"] is True
    assert document["limits"] == [] and document["nulls"] == "equal"
    first = next(rule for rule in document["rules"] if rule["text"] == "() -> land")
    assert set(first) >= {"id", "kind", "table", "text", "error", "support", "sentence", "score", "reasons"}
    assert first["sentence"] == "land is the same in every row."
    shown = [
        {name: rule[name] for name in rule if name not in ("id", "support", "reasons")} for rule in document["rules"]
    ]
    assert document["shown"] == shown


def test_discover_shows_few(tmp_path, capsys):
    rng = np.random.default_rng(0)
    path = tmp_path / "wide.csv"
    rows = rng.integers(0, 4, (30, 9))
    path.write_text("\n".join([",".join("abcdefghi"), *(",".join(map(str, row)) for row in rows)]))
    assert status_of(["discover", str(path), "--kind", "fd", "--format", "csv"]) == 0
    some = capsys.readouterr().out.splitlines()
    assert status_of(["discover", str(path), "--kind", "fd", "--format", "csv", "--all"]) == 0
    every = capsys.readouterr().out.splitlines()
    assert len(some) <= 16 < len(every) and set(some) < set(every)
    assert status_of(["discover", str(path)]) == 0
    assert f"every rule that holds: holdfast discover {path} --all" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "dcs"], "kinds of rule"),
        (["--max-size", "many"], "--max-size is a number or none"),
        (["--format", "sarif"], "table, json or csv"),
        (["--error", "g9"], "g1"),
    ],
)
def test_discover_refuses(orders, arguments, message, capsys):
    assert status_of(["discover", orders, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_book_that_finds_rules_on_the_command_line(orders, tmp_path, capsys):
    book, changes = str(tmp_path / "book"), tmp_path / "changes.csv"
    assert status_of(["init", book, orders, "--kind", "fd", "--kind", "key", "--key", "id"]) == 0
    assert "5 found" in capsys.readouterr().out
    changes.write_text("_change_type,id,zip,city,land\ninsert,9,20,K,DE\n")
    assert status_of(["apply", book, str(changes), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rules"] == {"added": [], "removed": ["zip -> city"]}
    assert status_of(["rules", book, "--format", "json"]) == 0
    assert "zip -> city" not in {r["rule"] for r in json.loads(capsys.readouterr().out)["rules"]}
    assert status_of(["history", book, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["history"][-1]["rules_removed"] == 1


# --- elsewhere ------------------------------------------------------------------------------------------------


def sent_away(columns, asked, executor, strategy):
    """Everything goes to the executor, however little it is."""
    found = TableFds(columns, asked, executor, most_pairs=1e12 if strategy == "counted" else -1)
    if strategy == "counted":
        found.counted.few_pairs = 0
    else:
        found._give_up_counts()
        found.witnessed.few_visits = found.witnessed.most_claims = 0
    return found


@pytest.mark.parametrize("strategy", ["counted", "witnessed"])
@given(data=st.data())
@settings(max_examples=CASES // 50 if CASES else 20, suppress_health_check=[*HealthCheck], derandomize=not CASES)
def test_rules_on_a_far_executor(strategy, data):
    columns, nulls = data.draw(st.integers(1, 4)), data.draw(st.sampled_from(hs.POLICIES))
    table = Table(columns)
    found = sent_away(columns, wanted(nulls, None), FarThreads(2), strategy)
    for deletes, inserts in data.draw(changes(columns))[:3]:
        found.update(table.change(deletes, inserts))
        assert rules_of(found, table) == expected(table, nulls, None)


@pytest.mark.parametrize("strategy", ["counted", "witnessed"])
def test_larger_tables_on_a_far_executor(strategy):
    rng = np.random.default_rng(0)
    codes = np.ascontiguousarray(np.array([rng.integers(0, k, 6000) for k in (3, 8, 40, 500, 6000)]))
    nobody = np.arange(0), codes[:, :0]
    first = RowChange(*nobody, np.arange(5000), codes[:, :5000], *nobody)
    spans = (np.arange(50), np.arange(5000, 6000), np.arange(50, 5000))
    second = RowChange(*(x for span in spans for x in (span, np.ascontiguousarray(codes[:, span]))))
    there = sent_away(5, wanted("equal", None), FarThreads(2), strategy)
    here = TableFds(5, wanted("equal", None), ThreadExecutor(2))
    for change in (first, second):
        here.update(change)
        there.update(change)
        assert set(there.collapsed().ruleset("abcde", None)) == set(here.collapsed().ruleset("abcde", None))
        if strategy == "counted":
            assert len(here.counted) == len(there.counted) and here.counted.counts.sum() == there.counted.counts.sum()


# --- on the real tables --------------------------------------------------------------------------------------

KNOWN = {"iris": 4, "balance_scale": 1, "bridges": 142, "breast_cancer_wisconsin": 46, "abalone": 137, "nursery": 1,
         "chess_krk": 1, "adult": 78}  # fmt: skip
TABLES = [f"uci/{name}" for name in (*KNOWN, "echocardiogram_norm")] + ["mixed/saferparks", "papers/tax_10k"]
FLIGHT = "papers/flight_1k_109c_encoded"


class Grouped:
    """Whether FDs and keys hold, by NumPy: the number of a row's group for any columns."""

    def __init__(self, table):
        self.columns = {n: np.unique(np.array([str((v is None, v)) for v in c.to_pylist()]), return_inverse=True)[1]
                        for n, c in zip(table.column_names, table.columns, strict=True)}  # fmt: skip
        self.rows = table.num_rows
        self._known = {frozenset(): np.zeros(self.rows, np.int64)}

    def ids(self, names):
        names = frozenset(names)
        if names not in self._known:
            last = min(names)
            column = self.columns[last]
            mixed = self.ids(names - {last}) * (column.max(initial=0) + 1) + column
            self._known[names] = np.unique(mixed, return_inverse=True)[1]
        return self._known[names]

    def holds(self, rule, without=None):
        if isinstance(rule, hf.Key):
            return self.ids(rule.columns - {without}).max() + 1 == self.rows
        groups, ends = self.ids(rule.left - {without}), self.columns[rule.right]
        first = np.empty(groups.max() + 1, np.int64)
        first[groups[::-1]] = ends[::-1]
        return bool((first[groups] == ends).all())

    def is_minimal(self, rule):
        left = rule.columns if isinstance(rule, hf.Key) else rule.left
        return not any(self.holds(rule, without=c) for c in left if len(left) > 1 or isinstance(rule, hf.Fd))


def read(path, **options):
    return hf.Rulebook.create(None, path, **options).table()


@pytest.mark.data
@pytest.mark.parametrize("name", KNOWN)
def test_fd_counts_of_the_literature(real_data, name):
    assert len(hf.discover(real_data / "uci" / f"{name}.csv", ("fd",), max_size=None)) == KNOWN[name]


@pytest.mark.data
@pytest.mark.parametrize("name", TABLES)
def test_every_rule_of_the_real_tables_holds_and_is_minimal(real_data, name):
    path = real_data / f"{name}.csv"
    rules, table = hf.discover(path, BOTH, max_size=4), read(path)
    assert rules.complete
    grouped = Grouped(table)
    assert all(grouped.holds(rule) and grouped.is_minimal(rule) for rule in rules)
    _check_by_sql(rules, table, 200)


@pytest.mark.data
def test_the_rules_of_flight(real_data):
    """Peers are known to be wrong here. A sample in `make test`; all of them in `make test-long`."""
    path = real_data / f"{FLIGHT}.csv"
    rules, table = hf.discover(path, BOTH, max_size=None), read(path)
    assert (len(rules.of("fd")), len(rules.of("key"))) == (982_631, 26_652)
    chosen = rules if CASES else rules.where(lambda block: np.arange(len(block)) % 200 == 0)
    grouped = Grouped(table)
    for rule in chosen:
        assert grouped.holds(rule) and grouped.is_minimal(rule)
        if len(grouped._known) > 400_000:
            grouped = Grouped(table)
    _check_by_sql(rules, table, 2000 if CASES else 100)


def _check_by_sql(rules, table, count):
    """Some of the rules by DuckDB, whose groups take nulls as equal."""
    chosen = rules.where(lambda block: np.arange(len(block)) % max(1, len(rules) // count) == 0)
    with duckdb.connect() as engine:
        engine.register("data", table)
        for rule in chosen:
            key = isinstance(rule, hf.Key)
            left = ", ".join(f'"{name}"' for name in (rule.columns if key else rule.left)) or "1"
            end = "" if key else f'"{rule.right}"'
            many = "count(*)" if key else f"count(distinct {end}) + max(case when {end} is null then 1 else 0 end)"
            sql = f"select count(*) from (select 1 from data group by {left} having {many} > 1)"
            assert engine.execute(sql).fetchone() == (0,), str(rule)


@pytest.mark.data
@pytest.mark.parametrize(("name", "every"), [("countries", 1), ("regions", 8), ("navaids", 13), ("frequencies", 28)])
def test_real_histories_are_followed(real_data, name, every):
    """Every state of a history against discovery from nothing; every so many in `make test`."""
    folder = real_data / "history" / f"oa_{name}"
    book = hf.Rulebook.create(None, folder / "base.csv", kinds=("key", "fd"), max_size=3)
    tall = hf.Rulebook.create(None, folder / "base.csv", kinds=("key", "fd"), max_size=3)
    (maintainer,) = tall._engine.discovered.search().maintainers
    maintainer._kept._most_pairs = -1
    known = book.rules()
    for number, (batch, feeds) in enumerate(read_feed(folder / "changes.csv")):
        some = [type(feed)(feed.part, None) for feed in feeds]
        out = book.apply(some, batch_id=batch)
        tall.apply(some, batch_id=batch)
        known = (known - out.rules.removed) | out.rules.added
        if CASES or number % every == 0:
            types = {c.name: c.type_text for c in book.schemas["base"].columns}
            fresh = hf.discover(book.table(), BOTH, max_size=3, types=types, time_budget=None)
            assert book.rules() == known == fresh == tall.rules()


@pytest.mark.parametrize("most_pairs", [1e12, -1])
def test_a_generated_stream_is_followed(most_pairs):
    """Both strategies follow a stream of changes, and find what was planted."""
    stream = tax(2000)
    book = hf.Rulebook.create(None, stream.tables, kinds=("key", "fd"), max_size=2, key=stream.keys)
    (name,) = stream.tables
    (maintainer,) = book._engine.discovered.search().maintainers
    maintainer._kept._most_pairs = most_pairs
    planted = {f"{name}: {rule}" for rule in ("zip -> city", "zip -> state", "state, has_child -> child_exemption")}
    assert planted <= set(book.rules("fd").texts())
    for batch in stream.batches(6, 40):
        book.apply(batch.changes)
        types = {c.name: c.type_text for c in book.schemas[name].columns}
        assert book.rules() == hf.discover({name: book.table()}, BOTH, max_size=2, types={name: types})
