"""Which rules are worth reading, why, and how they are said."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.discovery.search_options import SearchOptions
from holdfast.encoded_tables import EncodedTables
from holdfast.kernels.agreement import inversions
from holdfast.ranking import table_view
from holdfast.ranking.calculations import Calculations
from holdfast.ranking.rank import Ranked, rank
from holdfast.ranking.table_view import TableView
from holdfast.rules.rule import Dc, Fd, Key, Order, as_dc
from holdfast.rules.sentence import clash, sentence, standing
from holdfast.table.kind import Kind
from holdfast.table.options import Choices
from tests import naive
from tests import strategies as hs
from tests.conftest import cases

NULLS = ("equal", "distinct", "sql")


def shop(rows: int = 400, errors: int = 0) -> pa.Table:
    """Orders whose zip determines the city; in some rows the city is wrong."""
    rng = np.random.default_rng(3)
    zips, low = rng.integers(0, 40, rows), rng.integers(0, 50, rows)
    cities = [f"city {z // 2}" for z in zips]
    for row in rng.choice(rows, errors, replace=False):
        cities[row] = "elsewhere"
    return pa.table(
        {
            "id": np.arange(rows),
            "zip": zips,
            "city": cities,
            "country": ["DE"] * rows,
            "price": rng.integers(1, 500, rows) * 1.25,
            "low": low,
            "high": low + rng.integers(0, 9, rows),
            "day": rng.integers(0, 7, rows),
            "note": [None] * (rows - 2) + ["a", "b"],
        }
    )


def texts(ranked, kind=None):
    return [r.text for r in ranked if kind in (None, r.kind)]


def test_what_is_worth_reading_of_a_table():
    best = hf.discover(shop()).best()
    assert texts(best) == ["key(id)", "zip -> city", "() -> country", "not(t.low > t.high)"]
    assert all(0.4 <= r.score <= 1 and r.sentence.endswith(".") for r in best) and best[1].reasons


def test_a_rule_that_nearly_holds_stands_for_its_symptoms():
    """Rules that hold exactly because an unrelated column separates the exceptions are not shown."""
    rules = hf.discover(shop(errors=3), ("key", "fd"), max_size=2)
    patched = [t for t in rules.texts() if t.startswith("zip, ") and t.endswith("-> city")]
    found, _ = (r for r in rules.best() if r.kind == "fd")
    assert patched and found.text == "zip -> city" and found.text not in rules.texts()
    assert found.error == pytest.approx(3 / 400) and found.reasons[-1] == "3 rows of 400 disagree"
    assert texts(hf.discover(shop(errors=5), ("fd",)).best()) == ["() -> country"]  # more than one in a hundred
    assert "zip -> city" in texts(hf.discover(shop(errors=5), ("fd",), max_error=0.02).best())


def test_chance_is_told_from_meaning():
    rng = np.random.default_rng(0)
    noise = pa.table({f"c{i}": rng.integers(0, k, 300) for i, k in enumerate((2, 3, 8, 40, 250, 10**6))})
    assert len(hf.discover(noise, ("key", "fd"))) > 5 and hf.discover(noise).best() == []


def test_two_columns_determine_what_neither_does_alone():
    rng = np.random.default_rng(1)
    state, status, day = (rng.integers(0, k, 900) for k in (12, 3, 30))
    table = pa.table(
        {"state": [f"s{n}" for n in state], "status": status, "day": day, "tax": (state * 7 + status * 11) % 10 // 4}
    )
    assert texts(hf.discover(table, ("fd",)).best()) == ["state, status -> tax"]


def test_a_complete_design_is_identified_by_all_but_its_outcome():
    grid = np.array(np.meshgrid(*[np.arange(3)] * 6)).reshape(6, -1)
    outcome = np.random.default_rng(2).integers(0, 2, grid.shape[1])
    table = pa.table({**dict(zip("abcdef", grid, strict=True)), "outcome": outcome})
    assert texts(hf.discover(table).best()) == ["key(a, b, c, d, e, f)"]


def invoices(rows: int = 600) -> dict[str, object]:
    rng = np.random.default_rng(5)
    net, tax, count = rng.integers(50, 5000, rows), rng.integers(1, 900, rows), rng.integers(2, 9, rows)
    cents = rng.integers(101, 999, rows)
    price = [Decimal(int(c)) / 100 for c in cents]
    return {
        "net": net, "tax": tax, "gross": net + tax, "count": count, "price": price,
        "value": [int(n) * p for n, p in zip(count, price, strict=True)], "free": rng.integers(0, 99, rows),
        "flag": rng.integers(0, 2, rows), "zero": [0] * rows, "twin": net,
    }  # fmt: skip


def test_sums_and_products_are_found_and_stand_for_what_follows_from_them():
    best = hf.discover(pa.table(invoices())).best()
    assert texts(best, "row") == ["gross = net + tax", "value = count * price"]
    assert all("which both count" in one.reasons[0] for one in best if one.kind == "row")
    said = texts(best)
    assert not {"not(t.net > t.gross)", "net, tax -> gross", "price, count -> value"} & {*said}
    nearly = invoices()
    nearly["gross"] = nearly["gross"] + (np.arange(600) % 150 == 7)  # four rows are wrong
    (wrong,) = (one for one in hf.discover(pa.table(nearly)).best() if one.text == "gross = net + tax")
    assert wrong.error == 4 / 600 and wrong.reasons[-1] == "4 rows of 600 disagree"
    assert hf.check(pa.table(nearly), [wrong.text]).count(wrong.text) == 4


def test_a_sum_needs_rows_that_decide():
    """A column that is always zero, or a product with one, makes a copy and no sum."""
    table = {name: values for name, values in invoices().items() if name in ("net", "flag", "free")}
    table |= {"same": table["net"] + 1 - 1, "few": [0] * 597 + [7, 8, 9]}
    table["sum"] = table["net"] + table["few"]
    assert texts(hf.discover(pa.table(table)).best(), "row") == []


@given(data=st.data())
@settings(max_examples=cases(60))
def test_every_calculation_that_is_shown_follows_the_definition(data):
    schema = data.draw(hs.schemas(least=3, most=4, kinds=(Kind.INTEGER, Kind.DECIMAL)))
    numbers = st.one_of(st.none(), st.integers(-9, 9))
    rows = [
        {column.name: _number(column, n) for column, n in zip(schema.columns, drawn, strict=True)}
        for drawn in data.draw(st.lists(st.tuples(*[numbers] * len(schema)), min_size=6, max_size=20))
    ]
    first, second, third = schema.columns[:3]
    if first.scale >= max(second.scale, third.scale):  # make a sum
        for row in rows:
            if None not in (row[second.name], row[third.name]):
                total = Decimal(row[second.name]) + Decimal(row[third.name])
                row[first.name] = _number(first, int(total.scaleb(first.scale)))
    told = EncodedTables.of(hs.to_arrow(schema, rows), Choices()).rows["data"]
    for one in Calculations(TableView(schema, told.codes(), "equal")).rules():
        assert one.error == len(naive.violations(one.rule, rows, "sql")) / len(rows) <= 0.01


def _number(column, units):
    """So many units of the column's last place."""
    return units if units is None or column.kind is Kind.INTEGER else Decimal(units).scaleb(-column.scale)


def test_a_hierarchy_is_one_line_and_every_rule_is_on_some_line():
    number = np.arange(800)
    towns = pa.table({"id": number, "zip": number % 200, "city": number % 200 // 4, "region": number % 200 // 40})
    found = hf.discover(towns)
    (said,), _ = found.data.in_words(found.best())
    assert [str(line) for line in dict(said.sections)["what determines what"]] == ["zip -> city -> region"]
    assert len(dict(said.sections)["what determines what"][0].rules) == 3


@given(data=st.data())
@settings(max_examples=cases(40))
def test_the_sections_of_any_table_have_all_rules_once(data):
    schema = hs.Schema.of(a="integer", b="integer", c="integer", d="integer", e="integer")
    drawn = data.draw(st.lists(st.tuples(*[st.integers(0, 2)] * 5), min_size=8, max_size=12))
    rows = [dict(zip(schema.names, row, strict=True)) for row in drawn for _ in range(4)]
    loaded = EncodedTables.of(hs.to_arrow(schema, rows), Choices())
    rules = hf.discover(hs.to_arrow(schema, rows), ("fd",))
    ranked = [Ranked(rule, text, "", None, 1.0) for rule, text in rules.with_texts()]
    (said,), _ = loaded.in_words(ranked)
    on_lines = [one.text for _, lines in said.sections for line in lines for one in line.rules]
    assert {*on_lines} == {one.text for one in ranked if one.rule.left}
    for _, lines in said.sections:
        for line in lines:
            named = {*re.findall(r"\w+", line.text)}
            assert all({*one.rule.left, one.rule.right} <= named for one in line.rules)


def test_an_order_refines_a_dependency():
    rng = np.random.default_rng(4)
    minute = rng.integers(0, 1440, 800)
    table = pa.table({"minute": minute, "hour": minute // 60, "left": 1440 - minute // 10, "noise": rng.random(800)})
    found = texts(hf.discover(table).best(), "order")
    assert "{minute <} -> hour <=" in found and "{minute >} -> left <=" in found
    assert not any("noise" in text for text in found)


def test_an_order_counts_groups_of_nulls_as_the_policy_says():
    """Under `equal`, rows without a state are one group, and their order counts."""
    salary = np.tile(np.arange(50), 16)
    state = np.repeat(["a", "b", "c", None], 200)
    rate = np.where(state == None, 90 - salary, salary + np.repeat([0, 7, 11, 0], 200)) // 3  # noqa: E711
    table = pa.table({"state": pa.array(state), "salary": salary, "rate": rate})
    rule = "{state =, salary <} -> rate <="
    for nulls in NULLS:
        count = hf.check(table, [rule], nulls=nulls).count(rule)
        shown = [r.text for r in hf.discover(table, ("order",), nulls=nulls).best()]
        assert (rule in shown) == (count == 0) == (nulls != "equal")


def test_what_a_sample_does_not_show(monkeypatch):
    """Equal values, empty cells and repeated keys of rows that are not in the sample count."""
    monkeypatch.setattr(table_view, "MAX_SEARCHED_ROWS", 500)
    rng = np.random.default_rng(5)
    low = rng.integers(0, 1000, 5001)
    high = low + rng.integers(1, 200, 5001)
    high[1::1000] = low[1::1000]
    code = [None if i == 7 else f"c{i}" for i in range(5001)]
    best = hf.discover(pa.table({"code": code, "low": low, "high": high}), nulls="sql").best()
    assert texts(best) == ["not(t.low > t.high)"] and best[0].error == 0


def test_keys_of_several_columns_have_their_error():
    rng = np.random.default_rng(6)
    a, b = np.divmod(np.arange(400), 20)
    a, b = np.append(a, 3), np.append(b, 4)  # one row comes twice
    table = pa.table({"a_id": a, "b_id": b, "x": rng.integers(0, 9, 401)})
    (found,) = [r for r in hf.discover(table, ("key",), max_error=0.01).best() if r.text == "key(a_id, b_id)"]
    assert found.error == pytest.approx(naive.g3(found.rule, table.to_pylist(), "equal"))


def error_by_definition(rule, rows, nulls):
    if isinstance(rule, Key | Fd):
        return naive.g3(rule, rows, nulls)
    return naive.g1(rule, rows, nulls)


@pytest.mark.parametrize("nulls", NULLS)
@given(seed=st.integers(0, 10**6), errors=st.integers(0, 2))
@settings(max_examples=cases(5))
def test_the_error_of_what_is_shown_follows_the_definition(nulls, seed, errors):
    """On tables with errors and nulls: exact, at most one in a hundred, whatever the null policy."""
    rng, count = np.random.default_rng(seed), 240
    group, low = rng.integers(0, 12, count), rng.integers(0, 99, count)
    columns = {
        "id": np.arange(count),
        "group": group,
        "name": group * 3 % 12,
        "low": low,
        "high": low + rng.integers(0, 5, count),
    }
    table = {name: column.astype(object) for name, column in columns.items()}
    for name in ("name", "high", "id"):
        for row in rng.choice(count, errors, replace=False):
            table[name][row] = rng.choice([None, 0])
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    options = SearchOptions(nulls=nulls, max_size=1)
    loaded = EncodedTables.of(pa.Table.from_pylist(rows), Choices())
    shown = loaded.best(hf.RuleSet(), options, least=0.0)
    assert {r.kind for r in shown} >= {"fd", "dc"}
    for ranked in shown:
        assert ranked.error == pytest.approx(error_by_definition(ranked.rule, rows, nulls)) and ranked.error <= 0.01


def mu_plus(rows, left, right):
    """1 - (1 - pdep(X -> Y)) / (1 - pdep(Y)) * (n - 1) / (n - |X|), of Parciak et al., where it is defined."""
    rows = [(tuple(row[c] for c in left), row[right]) for row in rows if None not in [row[c] for c in left]]
    n, xs, ys = len(rows), [x for x, _ in rows], [y for _, y in rows]
    if not n or len(set(xs)) == n or len(set(ys)) == 1:
        return 0.0
    by_x = sum(rows.count((x, y)) ** 2 / xs.count(x) for x, y in set(rows)) / n
    by_y = sum((ys.count(y) / n) ** 2 for y in set(ys))
    return 1 - (1 - by_x) / (1 - by_y) * (n - 1) / (n - len(set(xs)))


@given(rows=st.lists(st.tuples(*[st.sampled_from([0, 1, 2, None])] * 3), min_size=1, max_size=12))
@settings(max_examples=cases(100))
def test_what_a_left_side_says_follows_the_definition(rows):
    table = pa.table(
        {name: pa.array(column, pa.int64()) for name, column in zip("abc", zip(*rows, strict=True), strict=True)}
    )
    loaded = EncodedTables.of(table, Choices()).rows["data"]
    view, dicts = TableView(loaded.schema, loaded.codes(), "equal"), table.to_pylist()
    for left in ("a", "b"), ("c",):
        side = view.left_side(loaded.schema.positions(left))
        valued = [row for row in dicts if None not in [row[c] for c in left]]
        for right in {*"abc"} - {*left}:
            place = loaded.schema.position(right)
            rule = Fd(frozenset(left), right)
            assert side.violating[place] == len(naive.violations(rule, valued, "equal"))
            assert side.removed[place] == pytest.approx(
                naive.rows_to_remove(rule, valued, "equal") / max(1, len(valued))
            )
            if len(valued):
                assert side.strength[place] == pytest.approx(mu_plus(dicts, left, right))


@given(values=st.lists(st.integers(0, 9)))
@settings(max_examples=cases(50))
def test_inversions(values):
    array = np.array(values, np.int64)
    expected = sum(a > b for i, a in enumerate(values) for b in values[i + 1 :])
    assert inversions(array, np.empty_like(array)) == expected and array.tolist() == sorted(values)


def test_a_tall_table_is_searched_in_a_sample_and_measured_as_a_whole(monkeypatch):
    monkeypatch.setattr(table_view, "MAX_SEARCHED_ROWS", 500)
    best = hf.discover(shop(5000, errors=40)).best()
    assert texts(best) == ["key(id)", "zip -> city", "() -> country", "not(t.low > t.high)"]
    assert best[1].error == 40 / 5000


def test_equal_columns_and_what_follows_come_once():
    table = shop()
    table = table.append_column("copy", table["zip"]).append_column("top", pa.array(np.array(table["high"]) + 1))
    found = texts(hf.discover(table).best(), "dc")
    assert found == ["not(t.zip != t.copy)", "not(t.low >= t.top)", "not(t.low > t.high)", "not(t.high >= t.top)"] or (
        {*found} >= {"not(t.zip != t.copy)", "not(t.low > t.high)", "not(t.high >= t.top)"}
    )


@given(data=st.data())
@settings(max_examples=cases(30))
def test_what_is_shown_of_any_table(data):
    """No table is too small or too odd, and nothing is said twice."""
    schema, rows = data.draw(hs.tables(rows=12))
    best = hf.discover(hs.to_arrow(schema, rows), time_budget=None, max_size=2).best(most=3, least=0.0)
    assert len({r.text for r in best}) == len(best) and all(0 <= r.score <= 1 and r.error <= 0.01 for r in best)
    assert all(len([r for r in best if r.kind == kind]) <= 4 for kind in ("key", "order", "dc"))
    for ranked in best:
        if not ranked.error and not isinstance(ranked.rule, Dc | Order):
            assert not naive.violations(ranked.rule, rows, "equal")


def test_ranking_of_some_kinds_only():
    loaded = EncodedTables.of(shop(), Choices())
    assert rank(hf.RuleSet(), {}, SearchOptions()) == []
    for kinds in (("fd",), ("order",), ("key", "ind")):
        assert {r.kind for r in loaded.best(hf.RuleSet(), SearchOptions(kinds))} <= {*kinds}


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
    """Rules that nearly hold are violated by the planted errors."""
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
    shown = texts(rules.best(), "ind")
    assert {f"flights_jan.{name} in airports.faa" for name in ("origin", "dest")} <= {*shown}
    assert "flights_jan.carrier in airlines.carrier" in shown and len(shown) == len({t.split(" in ")[0] for t in shown})
    assert "flights_jan.tailnum in planes.tailnum" in [str(key.rule) for key in rules.foreign_keys]
