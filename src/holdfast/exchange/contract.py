"""What is exported: rules that were accepted, with their tables; and each as SQL, where it has no simpler form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import sqlglot.expressions as e

from holdfast.errors import RuleError
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import table_of
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Constant, IsNull
from holdfast.rules.rule import Dc, Ind, Key, Rule
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.sentence import sentence
from holdfast.rules.sql import SqlOptions, failing_rows
from holdfast.table.options import TableOptions
from holdfast.table.schema import Schema
from holdfast.workflow.decisions import ACCEPTED, Decisions

Files = dict[str, str]  # text by file name
Called = Callable[[str], str | None]  # what stands for a table; None for its name


@dataclass(frozen=True)
class Unique:
    columns: tuple[str, ...]


@dataclass(frozen=True)
class NotNull:
    column: str


@dataclass(frozen=True)
class Between:
    """A column against a constant."""

    column: str
    never: Op
    value: Constant


@dataclass(frozen=True)
class Below:
    """`smaller` is never above `larger`; `strictly`: nor equal to it."""

    smaller: str
    larger: str
    strictly: bool


Shape = Unique | NotNull | Between | Below | Ind | None


@dataclass(frozen=True)
class Contract:
    """Rules and tables. `dropped` collects what a form cannot say, and why."""

    name: str
    entries: Sequence[RuleEntry]
    tables: Mapping[str, TableOptions]
    dropped: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, book: Rulebook, name: str, status: Sequence[str] = (ACCEPTED,)) -> Contract:
        entries = Decisions.of(book).with_status(*status)
        lost = [
            f"{e.rule}: the tolerance of {e.tolerance:g}; every violation counts there" for e in entries if e.tolerance
        ]
        return cls(name, entries, book.tables, lost)

    def by_table(self) -> Iterator[tuple[str, TableOptions, list[RuleEntry]]]:
        for name, options in self.tables.items():
            yield name, options, [entry for entry in self.entries if self.table_of(entry) == name]

    def table_of(self, entry: RuleEntry) -> str:
        return table_of(entry.value, self.schemas)

    @property
    def schemas(self) -> dict[str, Schema]:
        return {name: options.schema for name, options in self.tables.items()}

    def query(
        self, entry: RuleEntry, dialect: str, called: Called | None = None, escaped: Callable[[str], str] = str
    ) -> str | None:
        """A query of the rows that fail; None where SQL cannot say it, which is then noted. `called`: what stands for a
        table, as it is; `escaped`: how the form writes the rest, so that it means the same there."""
        table = self.table_of(entry)
        try:
            options = SqlOptions(self.tables[table].key, entry.nulls, dialect, entry.predicates)
            query = failing_rows(entry.value, self.schemas, options)
        except RuleError as error:
            self.dropped.append(f"{entry.rule}: {error}")
            return None
        return _written(query, dialect, called or (lambda _: None), escaped)

    def leave_out(self, entry: RuleEntry, why: str) -> None:
        self.dropped.append(f"{entry.rule}: {why}")


def _written(query: e.Select, dialect: str, called: Called, escaped: Callable[[str], str]) -> str:
    """A query as text, with something else where tables stand. They are found in the tree, not in the text, where a
    name or a constant may look like one."""
    text = query.sql(dialect=dialect, identify=True)
    mark = next(name for i in count() if (name := f"holdfast_{i}_") not in text)
    instead: dict[str, str] = {}
    for number, table in enumerate(query.find_all(e.Table)):
        other = called(table.name)
        if other is not None:
            table.set("this", e.to_identifier(f"{mark}{number}_", quoted=True))
            instead[table.this.sql(dialect=dialect, identify=True)] = other
    text = escaped(query.sql(dialect=dialect, identify=True))
    for stand_in, other in instead.items():
        text = text.replace(stand_in, other)
    return text


def is_plain(name: str) -> bool:
    """Whether a name is a word that means nothing but itself in every form."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None


def shape_of(rule: Rule) -> Shape:
    """The simple form of a rule, which most tools know; None for others."""
    if isinstance(rule, Key):
        return Unique(tuple(sorted(rule.columns)))
    if isinstance(rule, Ind):
        return rule
    if not isinstance(rule, Dc) or len(rule.predicates) > 1:
        return None
    (only,) = rule.predicates
    if isinstance(only, IsNull):
        return None if only.negated else NotNull(only.cell.column)
    if isinstance(only.right, Constant):
        return Between(only.left.column, only.op, only.right) if only.op not in (Op.EQ, Op.NE) else None
    if not rule.is_one_row or not isinstance(only.right, Cell):
        return None
    if only.op in (Op.GT, Op.GE):
        return Below(only.left.column, only.right.column, only.op is Op.GE)
    if only.op in (Op.LT, Op.LE):
        return Below(only.right.column, only.left.column, only.op is Op.LE)
    return None


def words_of(entry: RuleEntry) -> str:
    """What people wrote about a rule; or the rule in words, where they wrote nothing but took the suggestion."""
    words = sentence(entry.value, where=entry.filter)
    suggested = entry.description is None or entry.description.startswith(sentence(entry.value)[:-1])
    return words if suggested or entry.description is None else entry.description
