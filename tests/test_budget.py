"""A time budget covers everything: what is proven when it ends is told, and nothing else is claimed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli.main import status_of
from holdfast.discovery.budget import Budget, spans
from holdfast.discovery.database import Searched
from holdfast.discovery.hitting_sets import minimal
from holdfast.discovery.ind.inclusions import Inclusions
from holdfast.discovery.ind.wide_inclusions import CodeTuples, WideInclusions
from holdfast.discovery.search_options import SearchOptions
from holdfast.encoded_tables import EncodedTables
from holdfast.executors.executor import Cancelled
from holdfast.finding import found_within
from holdfast.ranking.rank import NOT_ALL_RANKED
from holdfast.rules.plain import plain_minimal, plain_within
from holdfast.table.options import Choices
from tests import naive
from tests.clock import Ticking
from tests.conftest import LOOKS_AFTER, cases
from tests.slices import small_slices

KINDS = ("key", "fd", "ind", "order", "dc")
SMALL = {"key": 3, "fd": 3, "order": 2, "dc": 2, "ind": 1}


def two_tables(seed=0, rows=24):
    rng = np.random.default_rng(seed)
    first = {
        "id": np.arange(rows),
        "zip": rng.integers(0, 5, rows),
        "low": rng.integers(0, 9, rows),
        "note": [f"n{v}" for v in rng.integers(0, 3, rows)],
    }
    first["high"] = first["low"] + rng.integers(0, 3, rows)
    return {"r": pa.table(first), "s": pa.table({"zip": np.arange(6), "city": [f"c{v // 2}" for v in range(6)]})}


def looked(tables, wanted, seconds, *, plain=False):
    """What is found until a ticking clock has been looked at so often, and the clock."""
    clock = Ticking()
    budget = Budget(seconds, divided=True, clock=clock)
    rules = found_within(budget, lambda: EncodedTables.of(tables, Choices(), budget), wanted, plain=plain)
    return rules, clock


def test_a_part_of_a_budget():
    clock = Ticking()
    whole = Budget(100.0, divided=True, clock=clock)
    part = whole.part(0.5, reserve=20.0)
    assert part.seconds == pytest.approx(0.5 * (100 - 1 - 20)) and part.clock is clock
    while not part.spent():
        pass
    assert part.ended == "time budget of 100 s" and not whole.spent() and whole.ended is None
    whole.ended = "interrupted"
    part = whole.part()
    assert part.spent() and part.ended == "interrupted"
    rest = whole.rest()
    assert not rest.spent() and rest.seconds < 100 - 40
    some = Budget(100.0, divided=True, clock=lambda: 0.0)
    assert some.for_one_of(20).seconds == 20 and some.for_one_of(2).seconds == 100
    assert Budget(100.0).part(0.5).seconds is None  # a budget that is not divided gives all of it to each
    assert Budget(None, divided=True).part(0.5).left() is None


def test_slices_look_at_the_clock_between_them():
    assert list(spans(5, 2, None)) == [(0, 2), (2, 4), (4, 5)]
    some = spans(5, 2, Budget(0.0))
    assert next(some) == (0, 2)
    with pytest.raises(Cancelled, match="time budget of 0 s is spent"):
        next(some)


def test_comparing_edges_looks_at_the_clock_as_they_grow():
    """However many are kept: the edges of a slice are compared with those that were kept in it, too."""
    rng = np.random.default_rng(0)
    edges = minimal.pack(rng.random((6000, 64)) < rng.uniform(0.4, 0.6, (6000, 1)))
    clock, before = Ticking(), minimal._COMPARED
    minimal._COMPARED = 100_000
    try:
        kept = minimal.minimal_edges(edges, Budget(10**6, clock=clock))
    finally:
        minimal._COMPARED = before
    assert len(kept) > 5000 and clock.looks > 6000 * len(kept) / 2 / 100_000


@pytest.mark.parametrize("evidence_of", ["counted", "lean"])
@pytest.mark.parametrize("max_error", [0.0, 0.1])
@given(seed=st.integers(0, 10**6), rows=st.integers(2, 9))
@settings(max_examples=cases(5))
def test_slices_change_nothing(evidence_of, max_error, seed, rows):
    """Whatever is done piece by piece gives what it gives in one piece."""
    if max_error and evidence_of == "lean":
        return
    tables = two_tables(seed, rows)
    wanted = SearchOptions(KINDS, max_size=SMALL, max_error=max_error, evidence=evidence_of)
    expected, _ = looked(tables, wanted, None)
    with small_slices():
        found, clock = looked(tables, wanted, 10**9)
    assert found.complete and found == expected and found.texts() == expected.texts()
    assert clock.looks > 100


@pytest.mark.parametrize("options", [{}, {"evidence": "lean"}, {"max_error": 0.05}, {"max_error": 0.05, "error": "g1"}])
def test_what_is_known_when_time_is_up(options):
    """Whenever it ends: every rule is one of all rules, a kind that is said to be searched has all of its rules, what
    is missing is said to be unfinished, and soon after the end everything has returned."""
    tables, wanted = two_tables(rows=10), SearchOptions(KINDS, max_size=SMALL, **options)
    with small_slices():
        everything, clock = looked(tables, wanted, 10**9)
        assert everything.complete and not everything.unfinished
        for seconds in np.unique(np.geomspace(1, clock.looks, 40).astype(int)).tolist():
            rules, ticks = looked(tables, wanted, seconds)
            assert ticks.looks <= seconds + LOOKS_AFTER, seconds
            assert len(rules - everything) == 0
            assert {*rules.searched} | {*rules.unfinished} == {*everything.searched}
            assert not {*rules.searched} & {*rules.unfinished} and rules.complete == (not rules.unfinished)
            assert any("time budget" in limit for limit in rules.limits) or rules.complete
            for kind, table in rules.searched:
                mine, theirs = (
                    {rule for rule in some.of(kind) if kind == "ind" or rule.table == table}
                    for some in (rules, everything)
                )
                assert mine == theirs, (seconds, kind, table)


def test_no_phase_begins_after_the_end():
    """With no time at all nothing is read but the first bytes, and nothing is searched."""
    told = []
    budget = Budget(0.0, lambda what, share: told.append(what), divided=True)
    rules = found_within(budget, lambda: EncodedTables.of(two_tables(), Choices(), budget), SearchOptions(KINDS))
    assert told == ["reading"] and not len(rules) and not rules.searched
    assert rules.data.unread == ("r", "s") and "not read: r, s" in rules.limits
    assert rules.best() == [] and rules.foreign_keys == [] and len(rules.row_rules) == 0


def test_keys_do_not_wait_for_what_explodes():
    """Order dependencies and constraints get what keys and FDs leave, and not what ranking needs."""
    rng = np.random.default_rng(0)
    wide = pa.table({f"c{i}": rng.integers(0, 50, 60) for i in range(14)})
    with small_slices():
        rules, clock = looked(wide, SearchOptions(("key", "fd", "order", "dc"), max_size=2), 40_000)
    assert {some.kind for some in rules.searched} == {"key", "fd"} and rules.left > 0
    assert {some.kind for some in rules.unfinished} == {"order", "dc"}
    assert len(rules.of("key")) and clock.looks <= 40_000 + LOOKS_AFTER


def test_ranking_ends_in_time():
    rules = hf.discover(two_tables(rows=200)["r"], KINDS, max_size=SMALL)
    whole = rules.best(most=None, least=0.0)
    assert len(whole) > 1
    ended = replace(rules, clock=Budget(0.0))
    some = ended.best(most=None, least=0.0)
    assert 0 < len(some) < len(whole) and {r.text for r in some} <= {r.text for r in whole}
    assert NOT_ALL_RANKED in ended.limits and NOT_ALL_RANKED not in rules.limits
    few = ended.row_rules
    assert len(few) < len(rules.row_rules)
    assert "rules about single rows: not all pairs of columns were compared" in ended.limits


def test_constraints_as_in_the_papers_within_a_budget():
    """Of a search that did not finish, or where time was up while operators were strengthened, each rule is still one
    of the answer; that it is not all is said."""
    table, wanted = two_tables(3, 12)["r"], SearchOptions(("dc",), cross_columns=False)
    whole, clock = looked(table, wanted, 10**9, plain=True)
    assert whole.complete and len(whole) > len(looked(table, wanted, 10**9)[0])
    partial = 0
    for seconds in np.unique(np.geomspace(1, clock.looks, 25).astype(int)).tolist():
        rules, ticks = looked(table, wanted, seconds, plain=True)
        assert len(rules - whole) == 0 and ticks.looks <= seconds + LOOKS_AFTER
        assert rules.complete or Searched("dc", "data") in rules.unfinished
        assert not rules.complete or rules == whole
        partial += 0 < len(rules) < len(whole)
    assert partial
    schema, base = whole.data.schemas["data"], hf.discover(table, ("dc",), cross_columns=False)
    looks = iter([False] * (len(base) // 2) + [True])
    some, all_ = plain_within(base, schema, lambda: next(looks))
    assert not all_ and len(base) < len(some) < len(plain_minimal(base, schema))


def test_the_widest_inclusions_that_are_proven():
    """One that a wider one may contain is not told when there was no time to look."""
    rng = np.random.default_rng(1)
    base = {f"c{i}": rng.integers(0, 3, 30) for i in range(4)}
    tables = {"r": pa.table(base).slice(0, 10), "s": pa.table(base)}
    database = {name: table.to_pylist() for name, table in tables.items()}
    groups = {(name, column): "numbers" for name in tables for column in base}
    loaded = EncodedTables.of(tables, Choices())
    codes = {name: rows.codes() for name, rows in loaded.rows.items()}
    unary = Inclusions(loaded.schemas, loaded.dictionary)
    unary.load(codes)
    expected, told = naive.wide_inds(database, groups), 0
    for seconds in (1, 5, 20, 60, 150, 400, 1000, 10**9):
        wide = WideInclusions(unary, None)
        wide.begin(CodeTuples(unary, codes), Budget(seconds, clock=Ticking()))
        assert {*wide.found} <= expected
        told = len(wide.found)
    assert told == len(expected)


# --- on the command line -------------------------------------------------------------------------------------


@pytest.fixture
def orders(tmp_path):
    path = tmp_path / "orders.csv"
    path.write_text("id,zip,city\n1,10,B\n2,10,B\n3,20,H\n4,30,H\n")
    return str(path)


AT_ONCE = ["--time-budget", "0.000001"]


def test_an_unfinished_search_never_says_that_no_rules_hold(orders, capsys):
    assert status_of(["discover", orders, *AT_ONCE, *(option for kind in KINDS for option in ("--kind", kind))]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    for kind in KINDS:
        assert f"{kind}: none found (not finished)" in lines
    assert "no rules hold" not in out
    said = " ".join(out.split())
    assert "not complete: time budget of 1e-06 s" in said and "searched completely: nothing" in said
    assert "not complete: time budget of 1e-06 s" in err


def test_a_finished_search_says_that_no_rules_hold(tmp_path, capsys):
    path = tmp_path / "twice.csv"
    path.write_text("a,b\n1,x\n1,x\n2,y\n")
    assert status_of(["discover", str(path), "--kind", "key"]) == 0
    out, err = capsys.readouterr()
    assert "no rules hold" in out and not err


def test_several_tables_say_which_was_not_searched(orders, tmp_path, capsys):
    other = tmp_path / "cities.csv"
    other.write_text("city\nB\nH\n")
    assert status_of(["discover", orders, str(other), "--kind", "key", "--kind", "ind", *AT_ONCE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {f"key of {name}: none found (not finished)" for name in ("orders", "cities")} <= {*lines}
    assert "ind: none found (not finished)" in lines


def test_json_tells_what_was_searched_and_what_not(orders, capsys):
    assert status_of(["discover", orders, "--format", "json", "--kind", "key", "--kind", "ind", *AT_ONCE]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["complete"] is False and document["searched"] == [] and document["rules"] == []
    assert document["unfinished"] == [{"kind": "key", "table": "orders"}, {"kind": "ind", "table": None}]
    assert "time budget of 1e-06 s" in document["limits"]
    assert status_of(["discover", orders, "--format", "json", "--kind", "key"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["complete"] is True and document["unfinished"] == []
    assert document["searched"] == [{"kind": "key", "table": "orders"}]


def test_csv_tells_on_stderr_and_in_a_column(orders, capsys, monkeypatch):
    assert status_of(["discover", orders, "--format", "csv", *AT_ONCE]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == "id,kind,table,text,error,support,sentence,finished" and "not complete" in err
    from holdfast.discovery.fd.exact import FdRules

    update_right = FdRules._update_right

    def ends(self, right, *others):
        update_right(self, right, *others)
        others[-1].ended = "time budget" if right == 2 else None  # with the last right side

    monkeypatch.setattr(FdRules, "_update_right", ends)
    assert status_of(["discover", orders, "--format", "csv", "--all", "--kind", "key", "--kind", "fd"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert {line.rsplit(",", 1)[1] for line in lines if ",key," in line} == {"True"}
    assert {line.rsplit(",", 1)[1] for line in lines if ",fd," in line} == {"False"}
    assert status_of(["discover", orders, "--kind", "key", "--kind", "fd"]) == 0
    out = capsys.readouterr().out
    assert "every rule that holds (1 key, " in out and "not finished: fd of orders" in " ".join(out.split())


def test_all_rules_as_far_as_there_is_time(tmp_path, capsys, monkeypatch):
    """`--all` prints the shortest rules of each kind, and says how many are left."""
    rng = np.random.default_rng(0)
    path = tmp_path / "wide.csv"
    rows = rng.integers(0, 4, (30, 9))
    path.write_text("\n".join([",".join("abcdefghi"), *(",".join(map(str, row)) for row in rows)]))
    monkeypatch.setattr("holdfast.cli.discover._RULES_PER_STEP", 5)
    monkeypatch.setattr("holdfast.cli.discover._WORDING_SHARE", 0.0)
    assert status_of(["discover", str(path), "--kind", "fd", "--all", "--format", "csv"]) == 0
    out, err = capsys.readouterr()
    assert (
        len(out.splitlines()) == 6 and "not all is shown: 5 of " in err and "fd rules are listed, the shortest" in err
    )
