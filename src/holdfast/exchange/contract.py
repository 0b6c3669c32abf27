"""What an export contains: rules with their tables, the simple shape of a rule if it has one, and its SQL."""

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
from holdfast.rules.predicate import Cell, Compare, Constant, IsNull
from holdfast.rules.rule import Dc, Ind, Key, Rule
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.sentence import sentence
from holdfast.rules.sql import SqlOptions, failing_rows
from holdfast.table.options import TableOptions
from holdfast.table.schema import Schema
from holdfast.workflow.decisions import ACCEPTED, Decisions

Files = dict[str, str]  # text by file name
TableText = Callable[[str], str | None]  # the text to write for a table; None: its name


@dataclass(frozen=True)
class Unique:
    """No two rows agree on all of these columns."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class NotNull:
    """The column is never null."""

    column: str


@dataclass(frozen=True)
class Between:
    """No row has `column <never> value`, such as `age < 0`."""

    column: str
    never: Op
    value: Constant


@dataclass(frozen=True)
class Below:
    """`smaller` is never greater than `larger`; with `strictly`, it is always less."""

    smaller: str
    larger: str
    strictly: bool


Shape = Unique | NotNull | Between | Below | Ind | None


@dataclass(frozen=True)
class Contract:
    """The rules and tables of an export. `dropped` collects what a format cannot express, and why."""

    name: str
    entries: Sequence[RuleEntry]
    tables: Mapping[str, TableOptions]
    dropped: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, book: Rulebook, name: str, status: Sequence[str] = (ACCEPTED,)) -> Contract:
        entries = Decisions.of(book).with_status(*status)
        dropped = [
            f"{e.rule}: the tolerance of {e.tolerance:g}; every violation counts there" for e in entries if e.tolerance
        ]
        return cls(name, entries, book.tables, dropped)

    def by_table(self) -> Iterator[tuple[str, TableOptions, list[RuleEntry]]]:
        for name, options in self.tables.items():
            yield name, options, [entry for entry in self.entries if self.table_of(entry) == name]

    def table_of(self, entry: RuleEntry) -> str:
        return table_of(entry.value, self.schemas)

    @property
    def schemas(self) -> dict[str, Schema]:
        return {name: options.schema for name, options in self.tables.items()}

    def query(
        self, entry: RuleEntry, dialect: str, table_text: TableText | None = None, escape: Callable[[str], str] = str
    ) -> str | None:
        """A query for the rows that violate a rule. None, with a note in `dropped`, if SQL cannot express it.

        `table_text`: the text to write for a table, unescaped; `escape`: escapes the rest for the format.
        """
        table = self.table_of(entry)
        try:
            options = SqlOptions(self.tables[table].key, entry.nulls, dialect, entry.predicates)
            query = failing_rows(entry.value, self.schemas, options)
        except RuleError as error:
            self.dropped.append(f"{entry.rule}: {error}")
            return None
        return _query_text(query, dialect, table_text or (lambda _: None), escape)

    def leave_out(self, entry: RuleEntry, why: str) -> None:
        self.dropped.append(f"{entry.rule}: {why}")


def _query_text(query: e.Select, dialect: str, table_text: TableText, escape: Callable[[str], str]) -> str:
    """A query as text, with other texts for its tables.

    Replaces tables in the syntax tree, because in the text a name or constant may look like a table.
    """
    text = query.sql(dialect=dialect, identify=True)
    mark = next(name for i in count() if (name := f"holdfast_{i}_") not in text)
    replacements: dict[str, str] = {}
    for number, table in enumerate(query.find_all(e.Table)):
        replacement = table_text(table.name)
        if replacement is not None:
            table.set("this", e.to_identifier(f"{mark}{number}_", quoted=True))
            replacements[table.this.sql(dialect=dialect, identify=True)] = replacement
    text = escape(query.sql(dialect=dialect, identify=True))
    for placeholder, replacement in replacements.items():
        text = text.replace(placeholder, replacement)
    return text


def is_plain(name: str) -> bool:
    """Whether a name is a plain identifier, which no format has to quote."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None


def shape_of(rule: Rule) -> Shape:
    """The simple shape of a rule, which most tools support; None if it has none."""
    if isinstance(rule, Key):
        return Unique(tuple(sorted(rule.columns)))
    if isinstance(rule, Ind):
        return rule
    if not isinstance(rule, Dc) or len(rule.predicates) > 1:
        return None
    (predicate,) = rule.predicates
    if isinstance(predicate, IsNull):
        return None if predicate.negated else NotNull(predicate.cell.column)
    if not isinstance(predicate, Compare):
        return None
    if isinstance(predicate.right, Constant):
        return (
            Between(predicate.left.column, predicate.op, predicate.right)
            if predicate.op not in (Op.EQ, Op.NE)
            else None
        )
    if not rule.is_one_row or not isinstance(predicate.right, Cell):
        return None
    if predicate.op in (Op.GT, Op.GE):
        return Below(predicate.left.column, predicate.right.column, predicate.op is Op.GE)
    if predicate.op in (Op.LT, Op.LE):
        return Below(predicate.right.column, predicate.left.column, predicate.op is Op.LE)
    return None


def words_of(entry: RuleEntry) -> str:
    """The description of a rule, or its sentence if there is none or only the suggested one."""
    is_suggested = entry.description is None or entry.description.startswith(sentence(entry.value)[:-1])
    if is_suggested or entry.description is None:
        return sentence(entry.value, where=entry.filter)
    return entry.description
