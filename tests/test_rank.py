"""Which rules are worth reading, why, and how they are said."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.encoded_tables import EncodedTables
from holdfast.ranking.interest import MAX_SAMPLED_ROWS, TableMeasures, Weights
from holdfast.ranking.rank import rank
from holdfast.rules.implication import implies
from holdfast.rules.rule import as_dc
from holdfast.rules.sentence import clash, sentence, standing
from tests import strategies as hs
from tests.conftest import cases


def shop(rows: int = 400) -> pa.Table:
    rng = np.random.default_rng(3)
    zips = rng.integers(0, 40, rows)
    return pa.table(
        {
            "id": np.arange(rows),
            "zip": zips,
            "city": [f"city {z // 2}" for z in zips],
            "city_code": zips // 2,
            "country": ["DE"] * rows,
            "price": rng.integers(1, 500, rows) * 1.25,
            "note": [None] * (rows - 2) + ["a", "b"],
        }
    )


@pytest.fixture(scope="module")
def found():
    return hf.discover(shop())


def texts(ranked, kind):
    return [r.text for r in ranked if r.kind == kind]


def test_what_others_say_is_left_out(found):
    fds = texts(found.best(), "fd")
    assert not any(text.startswith("id ->") for text in fds)  # follows from key(id)
    together = next(r for r in found.best() if r.kind == "fd" and {"city", "city_code"} == set(r.text.split(" -> ")))
    assert len(together.also) == 1  # the other way round
    assert (
        len([text for text in fds if text.startswith("zip ->")]) == 1
    )  # the other follows, or is the same in other words
    dcs = [as_dc(r.rule) for r in found.best() if r.kind == "dc"]
    assert not any(implies(as_dc(rule), dc) for rule in found.of("fd") for dc in dcs)
    assert texts(found.best(), "key")[0] == "key(id)"


def test_a_constant_and_nulls_are_said(found):
    every = {r.text: r for r in found.best(most=None, least=0.0)}
    assert every["() -> country"].notes == ("the column has one value only",)
    assert found.best(most=None, least=0.0) == sorted(
        every.values(), key=lambda r: ["key", "fd", "ind", "order", "dc"].index(r.kind)
    )
    empty = hf.discover(pa.table({"a": ["x", "x", "y"], "b": pa.nulls(3, pa.string())}), ("fd",))
    assert {r.text: r.notes for r in empty.best()}["() -> b"] == ("the column has no values at all",)
    sparse = pa.table({"a": ["x", "y", None, None], "b": [1, 2, None, None], "c": [1, 1, 2, 2]})
    notes = {r.text: r.notes for r in hf.discover(sparse, ("fd",)).best()}
    assert notes["a -> b"] and "only because of nulls" in notes["a -> b"][0]


def test_ranking_is_stable_and_weights_change_it(found):
    assert found.best() == found.best()
    rows = shop().to_pylist()
    random.Random(1).shuffle(rows)
    shuffled = hf.discover(pa.Table.from_pylist(rows))
    assert [r.text for r in shuffled.best()] == [r.text for r in found.best()]
    short = found.best(weights=Weights(succinct=1, coverage=0, surprise=0, names=0, strength=0), most=None, least=0.0)
    assert all(r.score == 1 for r in short if r.kind == "fd" and len(r.rule.left) == 1)
    assert all(r.reasons for r in found.best() if r.kind in ("fd", "order"))


def test_chance_is_told_from_meaning():
    """Columns that have nothing to do with each other: what holds, holds by chance, and none of it is worth reading."""
    rng = np.random.default_rng(0)
    noise = hf.discover(pa.table({name: rng.integers(0, 6, 60) for name in "abcdef"}), ("key", "fd", "dc"))
    meant = hf.discover(shop(), ("fd",))
    best = max(r.score for r in meant.best())
    assert len(noise) > 20 and all(r.score < best - 0.2 for r in noise.best(most=None, least=0.0) if r.kind == "fd")
    assert len(noise.best()) < len(noise) / 3


def test_what_chance_lets_nearly_hold_is_not_worth_reading():
    """Few pairs agree on the code, so hardly any pair violates anything that begins with it: that says nothing."""
    rows = pa.table({"id": np.arange(300), "code": np.arange(300) % 100, "name": [f"n{n % 100}" for n in range(300)]})
    rules = hf.discover(rows, ("fd", "order"), max_error=0.02)
    scores = {r.text: r.score for r in rules.best(most=None, least=0.0)}
    assert scores["{code =} -> id <"] < 0.05 < 0.5 < scores["code -> name"]


def test_what_follows_step_by_step_is_left_out():
    """zip -> city -> state -> land: zip -> state is no news."""
    zips = np.arange(400) % 80
    columns = {"id": np.arange(400), "zip": zips, "city": zips // 2, "state": zips // 10, "land": zips // 40}
    rules = hf.discover(
        pa.table(columns | {f"x{n}": (np.arange(400) * (n + 3)) % 7 for n in range(4)}), ("fd", "key"), max_size=2
    )
    fds = texts(rules.best(most=8), "fd")
    assert {"zip -> city", "city -> state", "state -> land"} <= set(fds) and len(rules.of("fd")) > 10
    assert not {"zip -> state", "zip -> land", "city -> land"} & set(fds)


def test_expected_pairs_are_what_shuffled_columns_have():
    """The number of pairs that would violate `x -> y` by chance, beside that of shuffled columns."""
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 9, 300), rng.integers(0, 4, 300)
    loaded = hf.discover(pa.table({"x": x, "y": y}), ("fd",)).data
    rows = loaded.rows["data"]
    expected = TableMeasures(rows.schema, rows.codes(), "equal").expected(hf.parse("x -> y"))
    counts = []
    for _ in range(20):
        rng.shuffle(y)
        counts.append(hf.check(pa.table({"x": x, "y": y}), ["x -> y"]).count("x -> y"))
    assert abs(np.mean(counts) - expected) < 0.02 * expected


def test_more_rows_than_are_looked_at():
    rows = 3 * MAX_SAMPLED_ROWS
    rules = hf.discover(
        pa.table({"id": np.arange(rows), "a": np.arange(rows) % 50, "b": np.arange(rows) % 10}), ("key", "fd")
    )
    assert texts(rules.best(), "fd")[:1] == ["a -> b"] and texts(rules.best(), "key") == ["key(id)"]


@given(data=st.data())
@settings(max_examples=cases(30))
def test_the_best_rules_are_rules_and_say_nothing_twice(data):
    schema, rows = data.draw(hs.tables(rows=12))
    rules = hf.discover(hs.to_arrow(schema, rows), time_budget=None, max_size=2)
    best = rules.best(most=3, least=0.0)
    known = set(rules)
    assert {r.rule for r in best} <= known
    assert all(len([r for r in best if r.kind == kind]) <= 3 for kind in ("key", "fd", "order", "dc"))
    assert len({r.text for r in best}) == len(best) and all(0 <= r.score <= 1 for r in best)
    for r in best:
        assert set(r.also) <= set(rules.texts()) and r.sentence.endswith(".")


def test_ranking_of_some_rules_only():
    loaded = EncodedTables.of(shop(), hf.discover.__globals__["Choices"]())
    assert rank(hf.RuleSet(), {}) == [] and loaded.best(hf.RuleSet(), "equal") == []


# --- words ------------------------------------------------------------------------------------------------------

SENTENCES = {
    "key(area, phone)": "No two rows have the same area and phone.",
    "zip -> city": "Rows with the same zip have the same city.",
    "() -> country": "country is the same in every row.",
    "orders(a, b) in items(x, y)": "Every a and b of orders occurs as x and y of items.",
    "{salary <} -> tax <=": "A row with a smaller salary than another has a smaller or equal tax.",
    "{a =, b <} -> c <": "Of two rows with the same a, one with a smaller b than the other has a smaller c.",
    "{a =} -> b =": "Rows with the same a have the same b.",
    "{a =} -> b <": "No two rows with the same a have values of b that can be compared.",
    "{} -> b <=": "No row has a larger b than another.",
    "not(t.a = s.a and t.b < s.b and t.c > s.c)": (
        "Of two rows with the same a, the one with a larger b never has a smaller c."
    ),
    "not(t.a < s.a and t.b != s.b)": "Of two rows that differ in b, none has a larger a.",
    "not(t.low > s.high and t.id = s.id)": (
        "There are no two rows of which id is the same and one's low is larger than the other's high."
    ),
    "not(t.a = s.a and t.b != s.b and t.c != s.c)": "Rows with the same a that differ in b have the same c.",
    "t1: not(t.A > t.B)": "In t1, A is never larger than B.",
    "t1: {A <} -> B <": "In t1, A row with a smaller A than another has a smaller B.",
    "not(t.low > t.high)": "high is never smaller than low.",
    "not(t.age < 0)": "age is never smaller than 0.",
    "not(t.a is null)": "a is never empty.",
    "not(t.a = 'x' and t.b is null)": "Where a is equal to 'x', b is never empty.",
    "not(t.a != t.b)": "a is always equal to b.",
}


@pytest.mark.parametrize(("text", "words"), SENTENCES.items())
def test_sentences(text, words):
    assert sentence(hf.parse(text)) == words


@given(data=st.data())
@settings(max_examples=cases(200))
def test_every_rule_has_a_sentence_with_its_columns(data):
    schema, _ = data.draw(hs.tables(rows=2))
    rule = data.draw(hs.pair_rules(schema))
    words = sentence(rule)
    columns = {cell.column for p in as_dc(rule).predicates for cell in p.cells}
    assert words.endswith(".") and all(column in words for column in columns)
    assert standing(rule, 4).endswith("disagree.") or standing(rule, 4).endswith("comply.")


def test_sentences_of_violations():
    assert standing(hf.parse("a.x in b.y"), 1) == "Every x of a occurs as y of b; 1 row has no partner."
    assert standing(hf.parse("not(t.a < 0)"), 2) == "a is never smaller than 0; 2 rows do not comply."
    assert clash(hf.parse("a.x in b.y"), 7, None, {"x": ("k", None)}) == "Row 7 has x 'k', which b does not have."
    assert clash(hf.parse("key(a)"), 1, 2, {"a": (5, 5)}) == "Rows 1 and 2 have the same a (5)."
    assert clash(hf.parse("not(t.a < 0)"), 1, None, {"a": (-1, None)}) == "Row 1 has a -1."


# --- real tables ------------------------------------------------------------------------------------------------


@pytest.mark.data
def test_the_rules_of_hospital_are_about_the_columns_with_planted_errors(real_data):
    """Of the rules that nearly hold, the best are violated by the planted errors."""
    place = real_data / "dirtyclean" / "hospital"
    dirty, clean = (pa.csv.read_csv(place / f"{name}.csv") for name in ("dirty", "clean"))
    planted = {
        name
        for name, right in zip(dirty.column_names, clean.column_names, strict=True)
        if dirty[name].cast(pa.string()) != clean[right].cast(pa.string())
    }
    best = [r for r in hf.discover(place / "dirty.csv", ("fd",), max_error=0.05).best() if r.error]
    assert len(best) >= 8 and all({*r.rule.left, r.rule.right} & planted for r in best)
    assert len(planted & {name for r in best for name in (*r.rule.left, r.rule.right)}) >= 5


@pytest.mark.data
def test_the_foreign_keys_of_nycflights_are_shown(real_data):
    files = {file.stem: file for file in (real_data / "multi" / "nycflights13").glob("*.csv")}
    rules = hf.discover(files, ("ind",))
    assert "flights_jan.carrier in airlines.carrier" in texts(rules.best(), "ind")
    suggested = [str(key.rule) for key in rules.foreign_keys]
    assert {"flights_jan.tailnum in planes.tailnum", "flights_jan.dest in airports.faa"} <= set(suggested)
