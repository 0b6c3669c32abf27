"""The rulebook on Spark tells what the definition says, as the rulebook in the process does.

Random rules of every kind, null policies, filters, changes and numbers of partitions; `make test-long` runs many, and
HOLDFAST_SPARK=connect runs them through Spark Connect.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.rules.predicate import Compare, conjunction_text
from holdfast.rules.rule import Dc, Fd, Ind, Key, Rule
from holdfast.rules.rulefile import RuleEntry
from holdfast.spark import batch
from holdfast.spark.identity import identity
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema
from tests import laws, naive
from tests import strategies as hs
from tests.conftest import CASES

pytestmark = pytest.mark.spark
ID = laws.ID
FEW = settings(
    max_examples=CASES // 100 if CASES else 2,
    suppress_health_check=[*HealthCheck],
    deadline=None,
    derandomize=not CASES,
)


COMPARED = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP)  # kinds that other kinds can equal


def in_spark(spark, table: pa.Table, partitions: int):
    from holdfast.spark.frames import frame_of

    return frame_of(spark, table).repartition(partitions)


@st.composite
def stories(draw: st.DrawFn, *, keyed: bool, kernels: bool = True, kinds: tuple[Kind, ...] = tuple(Kind)):
    """Two tables under change, and rules of every kind about them; or only those that need no `kernels`."""
    schemas = {name: draw(hs.schemas(most=3, kinds=kinds)) for name in ("left", "right")}
    told = {
        name: laws.story(schema, draw(hs.rows_of(schema, 6)), draw(hs.histories(schema, 2)), keyed=keyed)
        for name, schema in schemas.items()
    }
    made = draw((rules_of_any_kind if kernels else rules_without_kernels)(schemas["left"]))
    made += draw(with_one_left_side(schemas["left"]))
    inclusion = draw(hs.inclusions(schemas["left"], schemas["right"]))
    made += [inclusion] if inclusion is not None else []
    entries = []
    for i, rule in enumerate(made):
        where = draw(st.one_of(st.just(frozenset()), hs.one_row_filters(schemas["left"])))
        text = rule.as_written if isinstance(rule, Ind) else f"left: {rule.as_written}"
        fields = {"id": f"r{i}", "rule": text, "nulls": draw(st.sampled_from(hs.POLICIES))}
        if where and not ((isinstance(rule, Ind) or not kernels) and mixes(where, schemas["left"])):
            fields["filter"] = conjunction_text(where)
        entries.append(RuleEntry.model_validate(fields))
    return told, entries, draw(st.integers(1, 8)), draw(st.booleans()), draw(st.sampled_from([1, 2, 12]))


@st.composite
def rules_of_any_kind(draw: st.DrawFn, schema: Schema) -> list[Rule]:
    return [draw(hs.one_table_rules(schema)) for _ in range(2)] + [draw(hs.dcs(schema))]


@st.composite
def rules_without_kernels(draw: st.DrawFn, schema: Schema) -> list[Rule]:
    """A dependency, and a rule about single rows that Spark can test itself."""
    test = draw(hs.one_row_filters(schema))
    return [draw(hs.fds(schema)), *([Dc(test)] if test and not mixes(test, schema) else [])]


@st.composite
def with_one_left_side(draw: st.DrawFn, schema: Schema) -> list[Rule]:
    """A key and the dependencies on it, which share groups."""
    left = draw(st.sets(st.sampled_from(schema.names), min_size=1, max_size=2))
    rights = [name for name in schema.names if name not in left]
    return [Key(frozenset(left)), *(Fd(frozenset(left), name) for name in rights)]


def mixes(where, schema) -> bool:
    kinds = [{schema.column(cell.column).kind for cell in p.cells} for p in where if isinstance(p, Compare)]
    return any(kind == {Kind.DECIMAL, Kind.FLOAT} for kind in kinds)


def expected(entry: RuleEntry, rows: dict[str, list]) -> list:
    """The violations by the rows' keys, or by their positions."""
    rule, left = entry.value, rows["left"]
    found = naive.violations(rule, rows if isinstance(rule, Ind) else left, entry.nulls, entry.predicates)
    name = [row.get(ID, i) for i, row in enumerate(left)]
    return sorted((name[p[0]], name[p[1]]) if isinstance(p, tuple) else (name[p],) for p in found)


def listed(frame) -> list:
    return sorted(tuple(row) for row in frame.collect())


def as_frames(spark, change: hf.Change, partitions: int) -> hf.Change:
    """The change as DataFrames: a row that keeps its key is updated."""
    before, after = change.updates or (None, None)
    gone, came = ([t for t in some if t is not None] for some in ((change.deletes, before), (change.inserts, after)))
    made = [in_spark(spark, pa.concat_tables(some), partitions) if some else None for some in (came, gone)]
    return hf.Change(inserts=made[0], deletes=made[1], table=change.table)


def follows_the_definition(spark, case, *, keyed: bool, state: str | None = None) -> None:
    """Applies a story to a rulebook, and compares. `state` is a place of Spark's own for rows and states."""
    with patch.object(batch, "MOST_WAITING", case[-1]):
        _follows(spark, case[:-1], keyed=keyed, state=state)


def _follows(spark, case, *, keyed: bool, state: str | None) -> None:
    told, entries, partitions, with_frames = case
    place = Path(tempfile.mkdtemp())
    try:
        frames = {n: in_spark(spark, laws.to_table(t.schema, t.base), partitions) for n, t in told.items()}
        key = ID if keyed else None
        outbox = partitions % 2 == 0
        made = {"rules": entries, "on": "spark", "state": state, "outbox": outbox}
        book = hf.Rulebook.create(place / "book", frames, key=key, **made)
        rows = {name: t.base for name, t in told.items()}
        before, started = {e.id: expected(e, rows) for e in entries}, {name: list(some) for name, some in rows.items()}
        assert {e.id: book.count_violations(e.id) for e in entries} == {i: len(v) for i, v in before.items()}
        for step, changes in enumerate(batches_of(spark, told, rows, partitions, with_frames)):
            ended = {name: list(some) for name, some in rows.items()}
            out = book.apply(changes)
            if outbox and keyed:
                sinks_get_the_groups(
                    book, entries, (started, before), (ended, {e.id: expected(e, rows) for e in entries})
                )
            started = ended
            before = {e.id: agrees(book, out, e, before[e.id], expected(e, rows), keyed) for e in entries}
            if step == 0:
                book.close()
                book = hf.Rulebook.open(place / "book")
        book.compact()
        assert all(listed_or_counted(book.violations(e.id), keyed) == told_of(before[e.id], keyed) for e in entries)
        for name in rows:
            assert book.count(name) == book.table(name).count() == len(rows[name])
        book.close()
    finally:
        shutil.rmtree(place)


def batches_of(spark, told, rows, partitions: int, with_frames: bool) -> Iterator[list[hf.Change]]:
    """The changes of each step; `rows` are then those after it."""
    for step in range(max(len(t.changes) for t in told.values())):
        changes = []
        for name, t in told.items():
            if step < len(t.changes):
                change = t.changes[step]
                change = hf.Change(change.inserts, change.deletes, change.updates, name)
                changes.append(as_frames(spark, change, partitions) if with_frames else change)
                rows[name] = t.states[step]
        yield changes


def sinks_get_the_groups(book, entries, before, now) -> None:
    """How many violations of a key or dependency were added and removed, by group."""
    frames = book.table_events(book.version)
    told = (
        [tuple(r) for r in frames["groups"].select("rule_id", "change", "count").collect()]
        if "groups" in frames
        else []
    )
    sides = (("removed", before, now), ("added", now, before))
    for entry in entries:
        if isinstance(entry.value, Key | Fd):
            left, made = sorted(entry.value.columns if isinstance(entry.value, Key) else entry.value.left), []
            for change, (rows, some), (_, others) in sides:
                pairs = {*some[entry.id]} - {*others[entry.id]}
                made += [(entry.id, change, n) for n in by_group(rows["left"], left, pairs)]
            assert sorted(event for event in told if event[0] == entry.id) == sorted(made), entry


def by_group(rows, left: list[str], pairs) -> list[int]:
    """The number of pairs in each group of rows with the same left side."""
    by_id, groups = {row[ID]: row for row in rows}, []
    for t, _ in pairs:
        values = [by_id[t][name] for name in left]
        mine = next((g for g in groups if all(naive.same(a, b) for a, b in zip(g[0], values, strict=True))), None)
        if mine is None:
            groups.append([values, 1])
        else:
            mine[1] += 1
    return [n for _, n in groups]


def listed_or_counted(frame, keyed: bool):
    return listed(frame) if keyed else frame.count()


def told_of(violations: list, keyed: bool):
    return violations if keyed else len(violations)


def agrees(book, out, entry: RuleEntry, before: list, now: list, keyed: bool) -> list:
    """Counts and lists of one rule after a batch. Without a key, an update is a delete and an insert."""
    rule, changes = entry.id, out.violations
    assert book.count_violations(rule) == len(now), entry
    if keyed:
        added, removed = sorted(set(now) - set(before)), sorted(set(before) - set(now))
        assert (changes.count_added(rule), changes.count_removed(rule)) == (len(added), len(removed)), entry
        assert listed(changes.added(rule)) == added, entry
        assert listed(changes.removed(rule)) == removed, entry
    else:
        assert changes.count_added(rule) - changes.count_removed(rule) == len(now) - len(before)
        assert changes.added(rule).count() == changes.count_added(rule)
        assert changes.removed(rule).count() == changes.count_removed(rule)
    return now


@given(case=stories(keyed=True))
@FEW
def test_spark_follows_the_definition(spark, case):
    follows_the_definition(spark, case, keyed=True)


@given(case=stories(keyed=False))
@settings(FEW, max_examples=CASES // 100 if CASES else 2)
def test_spark_follows_the_definition_without_a_key(spark, case):
    follows_the_definition(spark, case, keyed=False)


@given(case=stories(keyed=True, kinds=COMPARED), widest=st.sampled_from([1, None]), error=st.sampled_from([0.0, 0.5]))
@settings(FEW, max_examples=CASES // 100 if CASES else 2)
def test_found_inclusions_follow_the_definition(spark, case, widest, error):
    """Inclusions of one column, also approximate ones, and of several, under inserts, updates and deletes."""
    told, _, partitions, with_frames, waiting = case
    search = {"kinds": ["ind"], "max_size": widest, "max_error": error}
    with tempfile.TemporaryDirectory() as place, patch.object(batch, "MOST_WAITING", waiting):
        in_any_order = sorted(told, reverse=partitions % 2 == 0)
        frames = {n: in_spark(spark, laws.to_table(told[n].schema, told[n].base), partitions) for n in in_any_order}
        book = hf.Rulebook.create(Path(place) / "book", frames, key=ID, on="spark", **search)
        rows = {name: t.base for name, t in told.items()}
        known = found_inclusions(told, rows, widest, error)
        assert {*book.found()} == {*book.rules("ind")} == known
        for changes in batches_of(spark, told, rows, partitions, with_frames):
            out = book.apply(changes)
            now = found_inclusions(told, rows, widest, error)
            assert {*book.found()} == now
            assert ({*out.rules.added}, {*out.rules.removed}) == (now - known, known - now)
            assert all((naive.missing(rule, rows)[1] == 0) == (rule in out.rules.vacuous) for rule in known - now)
            known = now
            book.close()
            book = hf.Rulebook.open(Path(place) / "book")
            assert {*book.found()} == now
        changed = sum(r["rules_added"] + r["rules_removed"] for r in book.history().to_pylist())
        assert book.rule_history().num_rows == changed
        book.close()


def found_inclusions(told, rows, widest: int | None, error: float) -> set[Ind]:
    """All inclusions by the definition; those of several columns hold exactly."""
    groups = {(name, c.name): c.kind.group for name, t in told.items() for c in t.schema.columns}
    wide = naive.wide_inds(rows, groups, widest) if widest != 1 else set()
    return naive.inds(rows, groups, error) | wide


def test_numbers_of_all_kinds_have_one_identity(spark):
    """Equal numbers have equal texts, and only they: exact decimals and floats, whole and not, small and large."""
    wholes = [0, 1, -1, 10, -(10**17), 2**53, 2**53 + 1, 2**62, 10**18 - 1]
    decimals = [Decimal(n).scaleb(-places) for n in (1, 5, -25, 10**17 + 1, 375) for places in (1, 3, 7, 18)]
    floats = [0.1, 0.5, -2.5, 0.375, 1e-7, 2.0**-18, 2.0**-19, 2.0**53, 2.0**62, 2.0**63, 1e300, math.inf, math.nan]
    numbers = [*wholes, *decimals, *floats, *map(Decimal, wholes), *map(float, decimals), *map(float, wholes)]
    made = []
    for number in numbers:
        kind = {int: Kind.INTEGER, float: Kind.FLOAT, Decimal: Kind.DECIMAL}[type(number)]
        type_ = {Kind.INTEGER: "bigint", Kind.FLOAT: "double", Kind.DECIMAL: "decimal(38,18)"}[kind]
        column = Column("c", kind, 18 if kind is Kind.DECIMAL else 0)
        cell = f"cast('{number}' as {type_})"
        made.append(f"select {identity(column, cell)} as text")
    spark.conf.set("spark.sql.ansi.enabled", "false")  # decimals have exponents then
    try:
        texts = [row["text"] for row in spark.sql(" union all ".join(made)).collect()]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    for a, text in zip(numbers, texts, strict=True):
        for b, other in zip(numbers, texts, strict=True):
            assert (text == other) == (naive.same(a, b)), (a, b, text, other)


def test_a_change_without_rows(spark, tmp_path):
    """Spark Connect cannot tell the columns of a table without rows."""
    rows = pa.table({"id": [1, 2], "a": [1, 1]})
    book = hf.Rulebook.create(tmp_path / "book", in_spark(spark, rows, 1), key="id", rules=["key(a)"], on="spark")
    book.apply(hf.Change(inserts=rows.slice(0, 0), deletes=rows.slice(0, 0)))
    assert (book.version, book.count(), book.count_violations("key(a)")) == (1, 2, 2)
    book.close()
