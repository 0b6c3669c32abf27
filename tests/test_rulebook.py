"""Changes to tables: net effect, keys, bags, refusals, quarantine, drift, batches, history."""

from __future__ import annotations

import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Change, ChangeRefused, HoldfastError, Rulebook, SchemaError, ValueRefused, read_feed
from tests import naive
from tests.conftest import cases
from tests.disks import UNSYNCED


def people(*rows: tuple) -> pa.Table:
    ids, names = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())})


def names(*values: str) -> pa.Table:
    return pa.table({"name": pa.array(values, pa.string())})


def keys(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


@pytest.fixture
def book() -> Rulebook:
    return Rulebook.create(None, people((1, "a"), (2, "b"), (3, "c")), key="id")


def state(book: Rulebook) -> list[tuple]:
    return list(zip(book.row_ids().to_pylist(), *(c.to_pylist() for c in book.table().columns), strict=True))


# --- a few rows as a list -------------------------------------------------------------------------------------


def test_rows_as_tuples_and_mappings(book):
    book.apply(Change(inserts=[(4, "d"), (5, None)]))
    book.apply(Change(inserts=[{"name": "e", "id": 6}], deletes=[(1,), (2,)]))
    book.apply(Change(updates=([(3, "c")], [(3, "C")])))
    book.apply(Change(deletes=[{"id": 5}]))
    assert state(book) == [(2, 3, "C"), (3, 4, "d"), (5, 6, "e")]


def test_empty_lists_are_no_change(book):
    bag = Rulebook.create(None, people((1, "a")))
    assert bag.apply(Change(deletes=[], inserts=[(2, "b")])).rows["data"]["inserted"] == 1
    for some in (bag, book):
        some.apply(Change(deletes=[], inserts=[], updates=([], [])))
    assert bag.count() == 2 and book.count() == 3


@pytest.mark.parametrize(
    "far",
    [pa.array([3_000_001], pa.int32()).cast(pa.date32()), pa.array([3 * 10**17], pa.timestamp("us", "UTC"))],
    ids=["date", "timestamp"],
)
def test_times_that_python_has_no_value_for(far):
    book = Rulebook.create(None, pa.table({"id": [1], "when": far}), key="id")
    for i in (2, 3):
        book.apply(Change(inserts=pa.table({"id": [i], "when": far})))
    assert book.table().column("when").combine_chunks().equals(pa.concat_arrays([far] * 3))


def test_updates_of_types_that_do_not_go_together(book):
    message = "column 'name' is string before the update and int64 after it"
    for on_error in ("refuse", "quarantine"):
        with pytest.raises(SchemaError, match=message):
            book.apply(Change(updates=([(1, "a")], [(1, 5)])), on_error=on_error)
    assert book.count() == 3 and book.version == 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(4,)], r"row 1: \(4,\) is not a row; 2 values or a mapping are expected"),
        ([(4, "d"), "x"], "row 2: 'x' is not a row"),
        ([("four", "d")], "column 'id' is integer"),
        ([(4, "d"), (4, "e")], "a second time"),
        ([(1, "d")], "inserts the key id = 1, which is already there"),
        ([(None, "d")], "has no key"),
        ([(4, "d"), (5, 6)], "column 'name'"),
        ([(2**70, "d")], "column 'id'"),
        ([{"id": 4}], "column 'name' is missing"),
        ([{"id": 4, "name": "x", "nam": 1}], "unknown column 'nam'"),
    ],
)
def test_bad_rows_in_a_list_are_refused(book, rows, message):
    before = state(book), len(book._engine.state.dictionary)
    with pytest.raises(HoldfastError, match=message):
        book.apply(Change(inserts=rows))
    assert (state(book), len(book._engine.state.dictionary)) == before


def test_one_row_from_arrow_again_and_again(book):
    """The second time the types are known, and the row goes the short way; with other types it does not."""
    for i in range(4, 8):
        book.apply(Change(inserts=people((i, "d"))))
    book.apply(Change(inserts=pa.table({"id": pa.array([8], pa.int16()), "name": pa.array(["e"], pa.large_string())})))
    with pytest.raises(SchemaError, match="column 'id' is integer, but the input has the type string"):
        book.apply(Change(inserts=pa.table({"id": pa.array([None], pa.string()), "name": ["f"]})))
    with pytest.raises(SchemaError, match="column 'name' is text, but the input has the type int64"):
        book.apply(Change(inserts=pa.table({"id": [9], "name": pa.array([None], pa.int64())})))
    with pytest.raises(ChangeRefused, match="already there"):
        book.apply(Change(inserts=people((8, "d"))))
    assert [row[1] for row in state(book)] == [1, 2, 3, 4, 5, 6, 7, 8]


# --- keyed ----------------------------------------------------------------------------------------------------


def test_deletes_by_key_and_inserts(book):
    out = book.apply(Change(inserts=people((4, "d")), deletes=keys(2)))
    assert state(book) == [(0, 1, "a"), (2, 3, "c"), (3, 4, "d")]
    assert out.rows == {"data": {"inserted": 1, "deleted": 1, "updated": 0}}


def test_an_update_keeps_its_row_id(book):
    book.apply(Change(deletes=keys(2), inserts=people((2, "B"))))
    book.apply(Change(updates=(people((3, "c")), people((3, "C")))))
    assert state(book) == [(0, 1, "a"), (1, 2, "B"), (2, 3, "C")]


def test_a_key_that_changes_is_another_row(book):
    book.apply(Change(updates=(people((2, "b")), people((9, "b")))))
    assert state(book) == [(0, 1, "a"), (2, 3, "c"), (3, 9, "b")]


def test_keys_may_be_exchanged_in_one_change(book):
    book.apply(Change(updates=(people((1, "a"), (2, "b")), people((2, "a"), (1, "b")))))
    assert state(book) == [(0, 1, "b"), (1, 2, "a"), (2, 3, "c")]


def test_an_update_that_changes_nothing(book):
    out = book.apply(Change(updates=(people((2, "b")), people((2, "b")))))
    assert out.rows == {"data": {"inserted": 0, "deleted": 0, "updated": 0}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(deletes=keys(7)), r"data, deletes', row 1: deletes a row that is not there: id = 7"),
        (Change(deletes=keys(1, 1)), r"row 2: deletes the key id = 1 a second time"),
        (Change(inserts=people((1, "x"))), r"inserts', row 1: inserts the key id = 1, which is already there"),
        (Change(inserts=people((7, "x"), (7, "y"))), r"row 2: inserts the key id = 7 a second time"),
        (Change(inserts=people((None, "x"))), r"row 1: has no key"),
        (Change(updates=(people((7, "x")), people((7, "y")))), r"row 1: updates a row that is not there"),
    ],
)
def test_contradictions_are_refused_whole(book, change, message):
    before, words = state(book), len(book._engine.state.dictionary)
    with pytest.raises(ChangeRefused, match=message):
        book.apply(change)
    assert state(book) == before and book.version == 0 and len(book._engine.state.dictionary) == words


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (Change(inserts=pa.table({"id": [7], "nam": ["x"]})), SchemaError, "column 'name' is missing"),
        (Change(inserts=people((7, "x")).append_column("z", [[1]])), SchemaError, "unknown column 'z'"),
        (
            Change(inserts=pa.table({"id": ["7"], "name": ["x"]})),
            SchemaError,
            "'id' is integer, but the input has the type string",
        ),
        (
            Change(inserts=pa.table({"id": [7.5], "name": ["x"]})),
            ValueRefused,
            "row 1, column 'id': 7.5 is not a 64-bit integer",
        ),
        (Change(inserts=people((7, "x")), table="other"), SchemaError, "unknown table 'other'"),
        (Change(deletes=names("a")), SchemaError, "column 'id' is missing"),
        (Change(updates=(people((1, "a")), people())), SchemaError, "1 rows before and 0 after"),
    ],
)
def test_rows_that_do_not_fit_are_refused(book, change, error, message):
    with pytest.raises(error, match=message):
        book.apply(change)
    assert book.count() == 3 and book.version == 0


def test_quarantine_keeps_bad_rows_apart(book):
    rows = pa.table({"id": [7.0, 1.0, 8.5, 9.0], "name": ["g", "twice", "half", "h"]})
    out = book.apply(Change(inserts=rows, deletes=keys(2, 77)), on_error="quarantine")
    assert [row[1] for row in state(book)] == [1, 3, 7, 9]
    assert [(b.change_type, b.values["id"]) for b in out.quarantined] == [
        ("insert", 8.5),
        ("delete", 77),
        ("insert", 1.0),
    ]
    reasons = book.quarantined()["reason"].to_pylist()
    assert "8.5 is not a 64-bit integer" in reasons[0] and "not there" in reasons[1] and "already there" in reasons[2]
    assert book.history()["quarantined"].to_pylist() == [0, 3]


def test_quarantine_takes_both_halves_of_an_update(book):
    out = book.apply(Change(updates=(people((7, "x"), (1, "a")), people((7, "y"), (1, "A")))), on_error="quarantine")
    assert [b.change_type for b in out.quarantined] == ["update_preimage", "update_postimage"]
    assert state(book)[0] == (0, 1, "A")


def test_drift_is_reported_and_the_update_applied(book):
    out = book.apply(Change(updates=(people((2, "other")), people((2, "B"))), deletes=people((3, "c"))))
    assert [(d.row, d.column, d.expected, d.stored) for d in out.drift] == [("id = 2", "name", "other", "b")]
    assert state(book) == [(0, 1, "a"), (1, 2, "B")]


def test_a_delete_that_has_only_its_key_is_no_drift(book):
    """In a change file all columns are there; a delete may leave the others empty."""
    table = pa.table({"_change_type": ["delete", "delete"], "id": [1, 2], "name": [None, "other"]})
    ((_, feeds),) = read_feed(table)
    out = book.apply(feeds)
    assert [(d.column, d.expected, d.stored) for d in out.drift] == [("name", "other", "b")]


def test_composite_keys():
    table = pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "c": [0, 0, 0]})
    book = Rulebook.create(None, table, key=["a", "b"])
    book.apply(Change(deletes=pa.table({"b": ["x"], "a": [2]})))
    with pytest.raises(ChangeRefused, match=r"a = 1, b = 'y'"):
        book.apply(Change(inserts=pa.table({"a": [1], "b": ["y"], "c": [5]})))
    with pytest.raises(ChangeRefused, match="a second time"):
        Rulebook.create(None, pa.table({"a": [1, 1], "b": ["x", "x"]}), key=["a", "b"])


# --- without a key --------------------------------------------------------------------------------------------


def test_a_delete_takes_the_youngest_equal_row():
    book = Rulebook.create(None, names("x", "y", "x", "x"))
    book.apply(Change(deletes=names("x", "x")))
    assert state(book) == [(0, "x"), (1, "y")]


def test_equal_deletes_and_inserts_cancel():
    book = Rulebook.create(None, names("x"))
    book.apply(Change(deletes=names("new", "x"), inserts=names("new", "x", "y")))
    assert state(book) == [(0, "x"), (1, "y")]


def test_an_update_by_value_keeps_the_row_id_and_its_age():
    book = Rulebook.create(None, names("a", "x", "x"))
    book.apply(Change(updates=(names("a"), names("x"))))
    assert state(book) == [(0, "x"), (1, "x"), (2, "x")]
    book.apply(Change(deletes=names("x", "x")))
    assert state(book) == [(0, "x")]  # the updated row is the oldest


def test_updates_hand_rows_on():
    book = Rulebook.create(None, names("a", "b"))
    book.apply(Change(updates=(names("a", "x"), names("x", "y")), deletes=names("b"), inserts=names("y")))
    assert state(book) == [(0, "y"), (2, "y")]
    with pytest.raises(ChangeRefused, match="not there"):
        book.apply(Change(updates=(names("q"), names("q"))))


VALUES = st.sampled_from(["x", "y", "z", "w"])


@given(
    base=st.lists(VALUES, max_size=6),
    changes=st.lists(st.tuples(st.lists(VALUES, max_size=4), st.lists(VALUES, max_size=4)), max_size=5),
)
@settings(max_examples=cases(300))
def test_bags_follow_the_definition(base, changes):
    book, model = Rulebook.create(None, names(*base)), list(base)
    for deletes, inserts in changes:
        after = naive.apply_by_value(model, deletes, inserts)
        change = Change(deletes=names(*deletes), inserts=names(*inserts))
        if after is None:
            with pytest.raises(ChangeRefused):
                book.apply(change)
        else:
            book.apply(change)
            model = after
        assert book.table()["name"].to_pylist() == model
        book._engine.state.rows["data"]._check()


ROWS = st.tuples(st.one_of(st.integers(0, 4), st.none()), st.sampled_from("ab"))


@given(
    base=st.dictionaries(st.integers(0, 4), st.sampled_from("ab")),
    changes=st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=3), st.lists(ROWS, max_size=3)), max_size=5),
)
@settings(max_examples=cases(300))
def test_keyed_tables_follow_the_definition(base, changes):
    book = Rulebook.create(None, people(*base.items()), key="id")
    model = {(k,): {"id": k, "name": v} for k, v in base.items()}
    for deletes, inserts in changes:
        rows = [{"id": k, "name": v} for k, v in inserts]
        after = naive.apply_by_key(model, ["id"], [(k,) for k in deletes], rows)
        change = Change(deletes=keys(*deletes), inserts=people(*inserts))
        if after is None:
            with pytest.raises(ChangeRefused):
                book.apply(change)
        else:
            book.apply(change)
            model = after
        assert sorted(book.table().to_pylist(), key=str) == sorted(model.values(), key=str)
        book._engine.state.rows["data"]._check()


# --- ordered feeds --------------------------------------------------------------------------------------------


def feed(*events: tuple) -> pa.Table:
    kinds, ids, texts = zip(*events, strict=True)
    return pa.table(
        {"_change_type": kinds, "_commit": [0] * len(kinds), "id": pa.array(ids, pa.int64()), "name": texts}
    )


def apply_feed(book: Rulebook, *events: tuple):
    ((_, feeds),) = read_feed(feed(*events))
    return book.apply(feeds)


def test_a_feed_is_reduced_to_its_net_effect(book):
    out = apply_feed(
        book,
        ("insert", 7, "x"),
        ("update_preimage", 7, "x"),
        ("update_postimage", 7, "y"),
        ("insert", 8, "x"),
        ("delete", 8, "x"),
        ("delete", 1, "a"),
        ("insert", 1, "A"),
        ("update_preimage", 1, "A"),
        ("update_postimage", 1, "AA"),
        ("delete", 2, "b"),
    )
    assert state(book) == [(0, 1, "AA"), (2, 3, "c"), (3, 7, "y")]
    assert out.rows == {"data": {"inserted": 1, "deleted": 1, "updated": 1}} and not out.drift


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "delete", "update"]), st.integers(0, 3), st.sampled_from("ab"), st.sampled_from("ab")
    ),
    max_size=8,
)


@given(events=EVENTS, base=st.dictionaries(st.integers(0, 3), st.sampled_from("ab")))
@settings(max_examples=cases(300))
def test_a_feed_equals_its_events_one_by_one(events, base):
    """Played on a dict; where an event is impossible, the whole feed is refused."""
    model, possible, rows = dict(base), True, []
    for kind, key, old, new in events:
        possible &= (key in model) != (kind == "insert")
        if kind == "insert":
            rows.append(("insert", key, new))
        else:
            rows.append(("delete" if kind == "delete" else "update_preimage", key, model.get(key, old)))
            rows += [("update_postimage", key, new)] if kind == "update" else []
        model.pop(key, None)
        if kind != "delete":
            model[key] = new
    book = Rulebook.create(None, people(*base.items()), key="id")
    if not rows:
        return
    if possible:
        apply_feed(book, *rows)
        assert Counter(zip(*(c.to_pylist() for c in book.table().columns), strict=True)) == Counter(model.items())
    else:
        with pytest.raises(ChangeRefused):
            apply_feed(book, *rows)


BAG_EVENTS = st.lists(st.tuples(st.sampled_from(["insert", "delete", "update"]), VALUES, VALUES), max_size=8)


@given(events=BAG_EVENTS, base=st.lists(VALUES, max_size=5))
@settings(max_examples=cases(300))
def test_a_feed_without_a_key_equals_its_events_one_by_one(events, base):
    whole, single = (Rulebook.create(None, names(*base)) for _ in range(2))
    rows, possible = [], True
    for kind, old, new in events:
        if kind == "update":
            rows += [("update_preimage", old), ("update_postimage", new)]
            step = Change(updates=(names(old), names(new)))
        else:
            rows.append((kind, old))
            step = Change(**{f"{kind}s": names(old)})
        try:
            single.apply(step)
        except ChangeRefused:
            possible = False
            break
    if rows and possible:
        kinds, values = zip(*rows, strict=True)
        ((_, feeds),) = read_feed(pa.table({"_change_type": kinds, "name": values}))
        whole.apply(feeds)
        assert Counter(whole.table()["name"].to_pylist()) == Counter(single.table()["name"].to_pylist())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"id": [1]}), "needs a column _change_type"),
        (pa.table({"_change_type": ["upsert"], "id": [1]}), "row 1: 'upsert' is not a _change_type"),
        (pa.table({"_change_type": ["update_preimage"], "id": [1]}), "row 1: there is no update_postimage after it"),
        (
            pa.table({"_change_type": ["insert", "update_postimage"], "id": [1, 1]}),
            "row 2: there is no update_preimage",
        ),
        (pa.table({"_change_type": ["insert"] * 3, "_batch": [1, 2, 1], "id": [1, 2, 3]}), "must stand together"),
        (pa.table({"_change_type": ["insert"] * 2, "_batch": [1, None], "id": [1, 2]}), "row 2: the _batch is empty"),
        (pa.table({"_change_type": ["insert"] * 2, "_table": ["a", None], "id": [1, 2]}), "row 2: the _table is empty"),
    ],
)
def test_bad_feeds_are_refused(table, message):
    with pytest.raises(HoldfastError, match=message):
        list(read_feed(table))


def test_feeds_name_batches_tables_and_places(tmp_path):
    path = tmp_path / "changes.csv"
    path.write_text(
        "_change_type,_batch,_table,_ts,id,name\n"
        "insert,monday,people,x,4,d\ninsert,monday,others,x,1,o\ndelete,tuesday,people,x,9,z\n"
    )
    book = Rulebook.create(None, {"people": people((1, "a")), "others": people()}, key="id")
    batches = list(read_feed(path))
    assert [(name, [f.table for f in feeds]) for name, feeds in batches] == [
        ("monday", ["people", "others"]),
        ("tuesday", ["people"]),
    ]
    book.apply(batches[0][1], batch_id="monday")
    assert (book.count("people"), book.count("others")) == (2, 1)
    with pytest.raises(ChangeRefused, match=r"changes.csv, row 3: deletes a row that is not there: id = 9"):
        book.apply(batches[1][1])


# --- batches, tables, options ---------------------------------------------------------------------------------


def test_batches_are_idempotent_per_source(tmp_path):
    book = Rulebook.create(tmp_path / "book", people(), key="id")
    assert book.apply(Change(inserts=people((1, "a")))).batch == 1
    assert book.apply(Change(inserts=people((2, "a"))), batch_id=5).batch == 5
    assert book.apply(Change(inserts=people((3, "a")))).batch == 6
    book = Rulebook.open(tmp_path / "book")
    for known in (1, 3, 5, 6):
        out = book.apply(Change(inserts=people((9, "a"))), batch_id=known)
        assert out.skipped and out.version == 3
    assert not book.apply(Change(inserts=people((9, "a"))), batch_id=5, source="other").skipped
    assert not book.apply(Change(inserts=people((10, "a"))), batch_id="monday").skipped
    assert book.apply(Change(inserts=people((11, "a"))), batch_id="monday").skipped
    assert book.history()["batch"].to_pylist() == ["base", "1", "5", "6", "5", "monday"]
    assert book.history()["version"].to_pylist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_id": ("a", 1)}, "a batch id is a text or an integer"),
        ({"batch_id": 1.5}, "a batch id is a text or an integer"),
        ({"batch_id": True}, "a batch id is a text or an integer"),
        ({"source": None}, "a source is a text"),
    ],
)
def test_batch_ids_are_checked_before_anything_happens(tmp_path, arguments, message):
    book = Rulebook.create(tmp_path / "book", people((1, "a")), key="id")
    with pytest.raises(HoldfastError, match=message):
        book.apply(Change(deletes=keys(1)), **arguments)
    assert Rulebook.open(tmp_path / "book").count() == 1


@pytest.mark.parametrize("batch", [None, "x", people((1, "a")), [people((1, "a"))]])
def test_a_batch_is_made_of_changes(book, batch):
    with pytest.raises(HoldfastError, match="a batch is a Change"):
        book.apply(batch)


def test_updates_have_the_same_columns_on_both_sides(book):
    with pytest.raises(SchemaError, match="'name' stands on one side"):
        book.apply(Change(updates=(people((1, "a")), keys(1))))


def test_a_batch_over_several_tables_is_atomic():
    book = Rulebook.create(None, {"a": people((1, "x")), "b": people((1, "x"))}, key={"a": "id", "b": "id"})
    with pytest.raises(ChangeRefused):
        book.apply([Change(inserts=people((2, "y")), table="a"), Change(deletes=keys(5), table="b")])
    assert (book.count("a"), book.count("b"), book.version) == (1, 1, 0)
    book.apply(
        [
            Change(inserts=people((2, "y")), table="a"),
            Change(deletes=keys(1), table="b"),
            Change(deletes=keys(1), table="a"),
        ]
    )
    assert (book.count("a"), book.count("b")) == (1, 0)
    with pytest.raises(SchemaError, match="say which table"):
        book.apply(Change(inserts=people((3, "y"))))
    with pytest.raises(SchemaError, match="unknown table 'c'"):
        book.table("c")


def test_columns_that_were_left_out_are_passed_over():
    table = people((1, "a")).append_column("note", [["n"]])
    book = Rulebook.create(None, table, key="id", exclude=["note"])
    book.apply(Change(inserts=people((2, "b")).append_column("note", [["m"]])))
    book.apply(Change(inserts=people((3, "c"))))
    assert book.table().column_names == ["id", "name"] and book.count() == 3
    assert Rulebook.create(None, table, columns=["name"]).table().column_names == ["name"]


def test_rules_are_kept_and_must_fit(tmp_path):
    Rulebook.create(tmp_path / "book", people((1, "a")), key="id", rules=["name -> id", "key(id)"]).close()
    book = Rulebook.open(tmp_path / "book")
    assert book.rules().texts() == ["key(id)", "name -> id"] and book.rules("fd").texts() == ["name -> id"]
    for rule, message in (
        ("nam -> id", "did you mean 'name'"),
        ("{name <} -> id <", "has no order"),
        ("name > id", "expected"),
    ):
        with pytest.raises(HoldfastError, match=message):
            Rulebook.create(None, people(), rules=[rule])


def test_an_unknown_way_to_treat_errors_is_refused():
    book = Rulebook.create(None, people(), rules=["key(id)"])
    with pytest.raises(HoldfastError, match="on_error"):
        book.apply(Change(), on_error="ignore")


def test_the_first_load_is_refused_like_any_change(tmp_path):
    with pytest.raises(ChangeRefused, match=r"row 2: inserts the key id = 1 a second time"):
        Rulebook.create(tmp_path / "book", people((1, "a"), (1, "b")), key="id")
    assert not (tmp_path / "book").exists()


@pytest.mark.data
@pytest.mark.parametrize("name", ["oa_countries", "oa_regions", "oa_navaids", "oa_frequencies"])
@pytest.mark.parametrize("key", ["id", None])
def test_real_histories_replay(real_data, name, key, tmp_path):
    """Row counts after each batch are as recorded, with and without the key, and no preimage drifts."""
    import csv

    folder = real_data / "history" / name
    with (folder / "batches.csv").open() as file:
        expected = {record["batch"]: int(record["rows_after"]) for record in csv.DictReader(file)}
    book = Rulebook.create(tmp_path / "book", folder / "base.csv", key=key)
    for batch, feeds in read_feed(folder / "changes.csv"):
        out = book.apply([type(f)(f.part, None) for f in feeds], batch_id=batch)
        assert book.count() == expected[batch] and not out.drift
    again = Rulebook.open(tmp_path / "book")
    assert again.table().equals(book.table()) and again.row_ids().equals(book.row_ids())


# --- columns that become wider ----------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.decimals(-1000, 1000, places=2, allow_nan=False).map(str),
    st.decimals(-1000, 1000, places=5, allow_nan=False).map(str),
    st.none(),
)


def csv_change(home, number: int, rows: list[tuple[int, str | None, str | None]]) -> str:
    path = home / f"c{number}.csv"
    lines = [f"insert,{i},{a or ''},{b or ''}" for i, a, b in rows]
    path.write_text("_change_type,id,a,b\n" + "".join(line + "\n" for line in lines))
    return str(path)


@settings(max_examples=cases(25), deadline=None)
@given(st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=4), min_size=1, max_size=4), st.booleans())
def test_a_column_that_widens_is_the_column_it_would_have_been(batches, durable):
    """Values, rules and violations are those of a rulebook that knew the widest type from the start; batch by batch."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        base = pa.table({"id": [0, 1], "a": [1, 2], "b": [2, 2]})
        rules = ["a -> b", "not(t.a > t.b)", "key(a)", "{a <} -> b <="]
        options = {"key": "id", "rules": rules, "kinds": ("key", "fd", "ind", "order"), "max_size": 2, "disk": UNSYNCED}
        wide = Rulebook.create(None, base, types={"a": "decimal(5)", "b": "decimal(5)"}, **options)
        book = Rulebook.create(home / "book" if durable else None, base, **options)
        for number, rows in enumerate(batches):
            ids = [(100 * number + 10 + i, a, b) for i, (a, b) in enumerate(rows)]
            file = csv_change(home, number, ids)
            for some in (book, wide):
                ((_, feeds),) = read_feed(file)
                some.apply(feeds)
            if durable:
                book.close()
                book = Rulebook.open(home / "book", UNSYNCED)
            assert book.found().texts() == wide.found().texts()
            for rule in rules:
                assert book.violations(rule).equals(wide.violations(rule))
            for column in ("a", "b"):
                mine, theirs = (
                    [None if v is None else Decimal(v) for v in b.table()[column].to_pylist()] for b in (book, wide)
                )
                assert mine == theirs
        told = [change for r in book.records() for change in r.get("altered", {}).get("types", {}).values()]
        places = [
            max((len(x.partition(".")[2].rstrip("0")) for rows in batches for row in rows if (x := row[i])), default=0)
            for i in (0, 1)
        ]
        for column, most in zip("ab", places, strict=True):
            assert book.schemas["data"].column(column).scale == most
            assert (most > 0) == any(column in change for change in told)


def test_a_declared_type_is_not_widened_and_a_refused_batch_widens_nothing(tmp_path):
    base = pa.table({"id": [1], "a": [1], "b": [1]})
    book = Rulebook.create(tmp_path / "book", base, key="id", types={"a": "integer"})
    for text in ("2,7.5,1", "1,1,7.5"):  # a declared type; a key that is there
        (tmp_path / "c.csv").write_text(f"_change_type,id,a,b\ninsert,{text}\n")
        ((_, feeds),) = read_feed(tmp_path / "c.csv")
        with pytest.raises(HoldfastError):
            book.apply(feeds)
    assert book.version == 0 and [c.type_text for c in book.schemas["data"].columns] == ["integer"] * 3
    (tmp_path / "c.csv").write_text("_change_type,id,a,b\ninsert,2,7.5,1\ninsert,3,1,7.25\n")
    ((_, feeds),) = read_feed(tmp_path / "c.csv")
    out = book.apply(feeds, on_error="quarantine")
    assert len(out.quarantined) == 1 and "'7.5'" in out.quarantined[0].reason
    assert book.version == 2 and book.schemas["data"].column("b").type_text == "decimal(2)"
    history = book.records()[1]["altered"]["types"]
    assert history == {"data": {"b": ["integer", "decimal(2)"]}}


def test_rules_that_hold_and_rules_that_are_given():
    """`rules` lists what holds, once; `found` and `given` are the two apart."""
    rows = pa.table({"id": [1, 2, 3], "zip": [1, 1, 2], "city": ["a", "b", "c"]})
    given = ["people: zip -> city", "people: key(id)", "people: id -> zip"]
    book = Rulebook.create(None, {"people": rows}, key={"people": "id"}, rules=given, kinds=("fd",))
    assert book.found("fd").texts() == [
        f"people: {t}" for t in ("city -> id", "city -> zip", "id -> city", "id -> zip")
    ]
    assert book.given().texts() == sorted(given) and book.given("key").texts() == ["people: key(id)"]
    assert book.rules("fd").texts() == book.found("fd").texts()
    assert book.rules().texts() == sorted([*book.found().texts(), "people: key(id)"])
    plain = Rulebook.create(None, {"people": rows}, rules=["id -> zip", "zip -> city"], kinds=("fd",))
    assert plain.rules("fd").texts() == book.found("fd").texts()
