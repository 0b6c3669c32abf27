"""Generated data keeps its planted rules, and breaks them exactly where it says."""

from __future__ import annotations

import duckdb
import pytest

from holdfast import Rulebook, parse, read_feed, violations_sql
from holdfast.generate import orders, tax
from holdfast.rules.bind import table_of


def broken(book: Rulebook, stream) -> set[str]:
    """The planted rules that have violations now, by SQL."""
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        found = set()
        for name in book.schemas:
            duck.register(name, book.table(name))
        for text in stream.rules:
            rule = parse(text)
            query = violations_sql(rule, book.schemas, key=stream.keys[table_of(rule, book.schemas)])
            if duck.execute(f"SELECT count(*) FROM ({query})").fetchall()[0][0]:
                found.add(text)
        return found


@pytest.mark.parametrize("make", [orders, tax])
def test_breaks_are_where_they_are_said_to_be(make):
    stream = make(3000, seed=5)
    book = Rulebook.create(None, stream.tables, key=stream.keys, rules=stream.rules)
    assert broken(book, stream) == set()
    standing: set[str] = set()
    for batch in stream.batches(14, 100):
        out = book.apply(batch.changes, batch_id=batch.number)
        assert not out.drift
        standing = (standing - {b.rule for b in batch.repairs}) | {b.rule for b in batch.breaks}
        assert broken(book, stream) == standing
    assert sum(counts["inserted"] for counts in out.rows.values()) == 100


def test_the_same_seed_gives_the_same_data():
    assert tax(500, 1).tables["tax"].equals(tax(500, 1).tables["tax"])
    assert not tax(500, 1).tables["tax"].equals(tax(500, 2).tables["tax"])
    feeds = [[batch.feed() for batch in orders(500, 1).batches(4, 50)] for _ in range(2)]
    assert all(a.equals(b) for a, b in zip(*feeds, strict=True))


def test_a_batch_is_also_a_change_file():
    stream = orders(1000, 2)
    by_changes, by_feed = (Rulebook.create(None, stream.tables, key=stream.keys) for _ in range(2))
    for batch in stream.batches(6, 60):
        by_changes.apply(batch.changes)
        ((name, feeds),) = read_feed(batch.feed())
        assert name == str(batch.number)
        by_feed.apply(feeds)
    for name in stream.tables:
        assert sorted(map(str, by_feed.table(name).to_pylist())) == sorted(map(str, by_changes.table(name).to_pylist()))
