"""The laws that every state, maintainer and executor is run against.

A subject follows a table under change and can be asked for its answer. Whatever it is, the answer must not depend on
how the rows came to be there: maintained == rediscovered; insert then delete is identity; one batch == split batches
== row by row; reload == continue; and a crash, written as data, changes nothing: [monday, CRASH, tuesday] ==
[monday, tuesday].

A new engine joins by adding a subject to `SUBJECTS`.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from holdfast import Change, Rulebook, RuleError, parse
from holdfast.rules.bind import require_fits
from holdfast.rules.names import quoted
from holdfast.rules.rulefile import RuleEntry
from holdfast.store.disk import Disk
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema
from tests import strategies as hs
from tests.disks import UNSYNCED

ID = "row id"
Row = dict[str, Any]


class Subject(Protocol):
    """Something that follows one table."""

    def apply(self, change: Change) -> None: ...
    def answer(self) -> Any: ...
    def reloaded(self) -> Subject: ...


class BookSubject:
    """A rulebook: its answer is its rows in order of arrival, its rules, and its invariants."""

    def __init__(
        self,
        schema: Schema,
        rows: list[Row],
        key: str | None,
        *,
        durable: bool,
        checked: bool = False,
        found: dict[str, Any] | None = None,
    ) -> None:
        path = None
        if durable:
            place = tempfile.mkdtemp()
            weakref.finalize(self, shutil.rmtree, place)
            path = Path(place) / "book"
        types = {c.name: c.type_text for c in schema.columns}
        rules = rules_for(schema) if checked else []
        data, more = to_table(schema, rows), found or {}
        self.book = Rulebook.create(path, data, key=key, types=types, rules=rules, disk=UNSYNCED, **more)
        self.path = path

    def apply(self, change: Change) -> None:
        self.book.apply(change)

    def answer(self) -> Any:
        for rows in self.book._engine.state.rows.values():
            rows._check()
        self.book._engine.state.dictionary._check()
        violations = {e.id: self._violations(e.id) for e in self.book.entries}
        return sorted(map(repr, self.book.table().to_pylist())), self.book.rules().texts(), violations

    def _violations(self, rule: str) -> Any:
        """The pairs where rows have names that survive a rediscovery, else how many there are."""
        pairs = self.book.violations(rule)
        assert pairs.num_rows == self.book.count_violations(rule)
        return sorted(map(str, pairs.to_pylist())) if self.book.tables["data"].key else pairs.num_rows

    def reloaded(self) -> BookSubject:
        if self.path is not None:
            self.book.close()
            self.book = Rulebook.open(self.path, UNSYNCED)
        return self


def rules_for(schema: Schema) -> list[RuleEntry]:
    """A rule of each shape that the schema allows, under different null policies."""
    names = [quoted(c.name) for c in schema.columns if c.name != ID]
    ordered = [quoted(c.name) for c in schema.columns if c.kind.ordered and c.name != ID]
    texts = [f"key({names[0]})", f"data.{names[0]} in data.{names[-1]}", f"not(t.{names[0]} is null)"]
    texts = [t for t in texts if len(names) > 1 or " in " not in t]
    texts += [f"{names[0]} -> {names[-1]}"] if len(names) > 1 else []
    texts += (
        [f"not(t.{ordered[0]} < s.{ordered[0]} and t.{ordered[-1]} >= s.{ordered[-1]})"] if len(ordered) > 1 else []
    )
    made = []
    for i, text in enumerate(texts):
        try:
            require_fits(parse(text), {"data": schema})
        except RuleError:
            continue
        made.append(RuleEntry.model_validate({"id": f"r{i}", "rule": text, "nulls": hs.POLICIES[i % 3]}))
    return made


PAIRS = {"kinds": ("order", "dc"), "max_size": 2, "cross_columns": False, "evidence": "lean"}
NEARLY = {
    "kinds": ("key", "fd", "order", "dc"),
    "max_size": {"order": 1, "dc": 1},
    "cross_columns": False,
    "max_error": 0.1,
    "error": "g1",
}


@dataclass(frozen=True)
class Books:
    """Rulebooks of one sort."""

    durable: bool = True
    checked: bool = False
    found: dict[str, Any] | None = None

    def __call__(self, schema: Schema, rows: list[Row], key: str | None, *, in_memory: bool = False) -> BookSubject:
        durable = self.durable and not in_memory
        return BookSubject(schema, rows, key, durable=durable, checked=self.checked, found=self.found)


class Make(Protocol):
    """Makes subjects of one sort. Durable ones can be reloaded; `in_memory` makes one to compare them with."""

    @property
    def durable(self) -> bool: ...
    def __call__(self, schema: Schema, rows: list[Row], key: str | None, *, in_memory: bool = False) -> Subject: ...


SUBJECTS: dict[str, Make] = {
    "rulebook in memory": Books(durable=False),
    "durable rulebook": Books(),
    "rulebook with rules": Books(durable=False, checked=True),
    "durable rulebook with rules": Books(checked=True),
    "durable rulebook that finds rules": Books(checked=True, found={"kinds": ("key", "fd", "ind"), "max_size": None}),
    "durable rulebook that finds rules about pairs": Books(found=PAIRS),
    "durable rulebook that finds rules that nearly hold": Books(found=NEARLY),
}


# --- change sequences, made concrete --------------------------------------------------------------------------


def to_table(schema: Schema, rows: list[Row]) -> pa.Table:
    return pa.table({c.name: pa.array([row[c.name] for row in rows], hs.narrow_type(c)) for c in schema.columns})


@dataclass
class Story:
    """A base table, the changes after it, and the rows after each: the plain model of what should be."""

    schema: Schema
    key: str | None
    base: list[Row]
    changes: list[Change]
    states: list[list[Row]]


def story(schema: Schema, base: list[Row], steps: list[hs.Step], *, keyed: bool) -> Story:
    """Plays the steps on a list of rows. With a key, a column of numbers tells the rows apart."""
    if keyed:
        schema = Schema((*schema.columns, Column(ID, Kind.INTEGER)))
    numbers = iter(range(10**6))

    def fresh(row: Row) -> Row:
        return row | {ID: next(numbers)} if keyed else dict(row)

    rows = [fresh(row) for row in base]
    told = Story(schema, ID if keyed else None, list(rows), [], [])
    for step in steps:
        rows = _play(told, rows, step, fresh)
        told.states.append(list(rows))
    return told


def _play(told: Story, rows: list[Row], step: hs.Step, fresh: Callable[[Row], Row]) -> list[Row]:
    live = list(range(len(rows)))
    gone = [live.pop(i % len(live)) for i in step.deletes if live]
    moved = {live.pop(i % len(live)): row for i, row in step.updates if live}
    inserts = [fresh(row) for row in step.inserts]
    before = [rows[i] for i in moved]
    after = [row | ({ID: rows[i][ID]} if told.key else {}) for i, row in moved.items()]
    schema = told.schema
    told.changes.append(
        Change(
            inserts=to_table(schema, inserts) if inserts else None,
            deletes=to_table(schema, [rows[i] for i in gone]) if gone else None,
            updates=(to_table(schema, before), to_table(schema, after)) if moved else None,
        )
    )
    replaced = dict(zip(moved, after, strict=True))
    return [replaced.get(i, row) for i, row in enumerate(rows) if i not in gone] + inserts


# --- the laws -------------------------------------------------------------------------------------------------


def maintained_equals_rediscovered(make: Make, told: Story) -> None:
    subject = make(told.schema, told.base, told.key)
    for change, rows in zip(told.changes, told.states, strict=True):
        subject.apply(change)
        assert subject.answer() == make(told.schema, rows, told.key, in_memory=True).answer()


def reload_equals_continue(make: Make, told: Story) -> None:
    kept = make(told.schema, told.base, told.key, in_memory=True)
    reloaded = make(told.schema, told.base, told.key)
    for change in told.changes:
        kept.apply(change)
        reloaded = reloaded.reloaded()
        reloaded.apply(change)
        assert reloaded.reloaded().answer() == kept.answer()


def insert_then_delete_is_identity(make: Make, told: Story, rows: list[Row]) -> None:
    subject = make(told.schema, told.base, told.key)
    before = subject.answer()
    extra = [row | ({ID: 10**9 + i} if told.key else {}) for i, row in enumerate(rows)]
    subject.apply(Change(inserts=to_table(told.schema, extra)))
    subject.apply(Change(deletes=to_table(told.schema, extra)))
    assert subject.answer() == before


def split_equals_whole(make: Make, told: Story) -> None:
    """Deletes, updates and inserts of each change one after the other, then row by row, with a file for each row."""
    whole, parts = (make(told.schema, told.base, told.key, in_memory=True) for _ in range(2))
    single = make(told.schema, told.base, told.key)
    for change in told.changes:
        whole.apply(change)
        for part in _kinds(change):
            parts.apply(part)
            for row in _rows(part):
                single.apply(row)
    assert whole.answer() == parts.answer() == single.reloaded().answer()


def _kinds(change: Change) -> list[Change]:
    made = [Change(deletes=change.deletes), Change(updates=change.updates), Change(inserts=change.inserts)]
    return [c for c in made if c != Change()]


def _rows(change: Change) -> list[Change]:
    if change.updates is not None:
        before, after = change.updates
        return [Change(updates=(before.slice(i, 1), after.slice(i, 1))) for i in range(before.num_rows)]
    name = "deletes" if change.deletes is not None else "inserts"
    rows = getattr(change, name)
    return [Change(**{name: rows.slice(i, 1)}) for i in range(rows.num_rows)]


# --- crashes as data ------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process is gone."""


class CrashingDisk(Disk):
    """Fails at its n-th elementary operation, half-way through a write; afterwards nothing works any more."""

    def __init__(self, at: int, die: Callable[[], None]) -> None:
        self.left, self._die = at, die

    def _tick(self) -> None:
        self.left -= 1
        if self.left < 0:
            self._die()

    def write(self, path, data):
        if self.left == 0:
            path.write_bytes(bytes(data)[: len(bytes(data)) // 2])
        self._tick()
        super().write(path, data)

    def link(self, source, target):
        self._tick()
        super().link(source, target)

    def remove(self, path):
        self._tick()
        super().remove(path)

    def sync_directory(self, path):
        self._tick()
        super().sync_directory(path)


def raise_crash() -> None:
    raise Crash


def crash_changes_nothing(told: Story, path: Path, crash_at: int) -> bool:
    """Runs a story with a crash at one elementary operation of its applies; True if it came to that.

    After the crash the rulebook reopens before or after the batch; sending that batch again gives the same end.
    """
    types = {c.name: c.type_text for c in told.schema.columns}
    Rulebook.create(path, to_table(told.schema, told.base), key=told.key, types=types).close()
    states = [told.base, *told.states]
    disk, crashed = CrashingDisk(crash_at, raise_crash), False
    book = Rulebook.open(path, disk)
    for number, change in enumerate(told.changes, start=1):
        try:
            book.apply(change, batch_id=number)
        except Crash:
            crashed = True
            book.close()  # the lock of a process that is gone is free
            book = Rulebook.open(path)
            assert rows_of(book) in (plain(told, states[number - 1]), plain(told, states[number]))
            assert book.version in (number - 1, number)
            book.apply(change, batch_id=number)
        assert rows_of(book) == plain(told, states[number])
    assert rows_of(Rulebook.open(path)) == plain(told, states[-1])
    return crashed


def rows_of(book: Rulebook) -> list[str]:
    return sorted(map(repr, book.table().to_pylist()))


def plain(told: Story, rows: list[Row]) -> list[str]:
    """The rows as a rulebook shows them."""
    return rows_of(Rulebook.create(None, to_table(told.schema, rows), key=told.key))
