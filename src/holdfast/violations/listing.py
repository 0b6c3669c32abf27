"""Violations as tables: names of rows, lookup of rules by name, and what a batch added and removed."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from holdfast.errors import HoldfastError, RuleError, shown
from holdfast.html_table import html_table
from holdfast.indexes.pairs import Ids, Pairs
from holdfast.rules.bind import resolved
from holdfast.rules.grammar import parse
from holdfast.rules.rule import Dc, Order, Rule
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.encode import decode_column
from holdfast.table.kind import Kind
from holdfast.table.parse import parse_one
from holdfast.table.rows import Rows
from holdfast.table.schema import Column, Schema
from holdfast.violations.detect import CheckedRule


def names_of(ids: Ids, rows: Rows, dictionary: TextDictionary, coming: Codes | None = None) -> pa.Array:
    """The names of rows: their key (a struct if it is composite), or their id if there is no key.

    `coming` are the codes of rows that will get the next ids. Updates need no such codes: they keep the key.
    """
    if not rows.key:
        return pa.array(ids, pa.int64())
    is_new = ids >= rows.next_id
    if coming is not None and is_new.any():
        codes = np.empty((len(rows.schema), len(ids)), np.int64)
        codes[:, ~is_new], codes[:, is_new] = rows.codes_of(ids[~is_new]), coming[:, ids[is_new] - rows.next_id]
    else:
        codes = rows.codes_of(ids)
    return keys_of(rows.schema, rows.key, codes, dictionary)


def keys_of(schema: Schema, key: Sequence[str], codes: Codes, dictionary: TextDictionary) -> pa.Array:
    """The keys of rows given by their codes; structs if the key is composite."""
    parts = [decode_column(schema.column(name), codes[schema.position(name)], dictionary) for name in key]
    return parts[0] if len(parts) == 1 else pa.StructArray.from_arrays(parts, names=list(key))


def row_named(table: str, rows: Rows, dictionary: TextDictionary, text: str) -> int:
    """The id of the row with this name: its key as text (parts separated by commas), or its id without a key."""
    if not rows.key:
        row = int(text) if re.fullmatch("[0-9]{1,18}", text) else -1
        exists = bool(np.isin(row, rows.ids()))
    else:
        key_codes = np.full((len(rows.schema), 1), NULL)
        for name, part in zip(rows.key, text.split(",") if len(rows.key) > 1 else [text], strict=False):
            column = rows.schema.column(name)
            key_codes[rows.schema.position(name)] = _code(column, part, dictionary)
        row = int(rows.find(key_codes)[0])
        exists = row >= 0
    if not exists:
        named_by = ", ".join(rows.key) or "their id"
        raise HoldfastError(f"{table} has no row {shown(text)} (rows are named by {named_by})")
    return row


def _code(column: Column, text: str, dictionary: TextDictionary) -> int:
    """The code of a value given as text. A value that the column cannot have gets the code of null: no key has it."""
    if column.kind is Kind.TEXT:
        code = dictionary.find(text)
        return NULL if code is None else code
    try:
        return parse_one(column, text)
    except ValueError:
        return NULL


def pair_table(pairs: Pairs, rows: Rows, dictionary: TextDictionary, coming: Codes | None = None) -> pa.Table:
    """A table with the names of t and s of each pair; only t for rules about single rows."""
    columns = {"t": names_of(pairs.t, rows, dictionary, coming)}
    if pairs.s is not None:
        columns["s"] = names_of(pairs.s, rows, dictionary, coming)
    return pa.table(columns)


def id_table(pairs: Pairs) -> pa.Table:
    """A table with the row ids of t and s of each pair; only t for rules about single rows."""
    columns = {"t": pa.array(pairs.t, pa.int64())}
    return pa.table(columns if pairs.s is None else columns | {"s": pa.array(pairs.s, pa.int64())})


@dataclass(frozen=True)
class Asked:
    """The number of a checked rule that a caller asked for, and whether the caller's text has t and s swapped."""

    number: int
    mirrored: bool

    def turned(self, pairs: Pairs) -> Pairs:
        """The pairs with t and s as in the caller's text."""
        return Pairs(pairs.s, pairs.t).ordered() if self.mirrored and pairs.s is not None else pairs


class RuleNames:
    """Finds checked rules by id, by text, or by value. If there is only one table, its name may be left out."""

    def __init__(self, checked: Sequence[CheckedRule], ids: Sequence[str], tables: Collection[str] = ()) -> None:
        self.checked, self.ids, self._tables = list(checked), list(ids), list(tables)
        self._by_id = {id_: number for number, id_ in enumerate(self.ids)}
        self._by_rule: dict[Rule, int] = {}
        for number, item in enumerate(self.checked):
            self._by_rule.setdefault(resolved(item.rule, self._tables), number)

    def known(self, wanted: str | Rule) -> int | None:
        """The number of a rule, or None if it is not checked."""
        if isinstance(wanted, str) and wanted in self._by_id:
            return self._by_id[wanted]
        rule = parse(wanted) if isinstance(wanted, str) else wanted
        return self._by_rule.get(resolved(rule, self._tables))

    def find(self, wanted: str | Rule) -> Asked:
        """The rule that a caller means; RuleError if it is not checked."""
        number = self.known(wanted)
        if number is not None:
            by_id = isinstance(wanted, str) and wanted in self._by_id
            rule = self.checked[number].rule if by_id else parse(wanted) if isinstance(wanted, str) else wanted
            return Asked(number, _flipped(rule) != _flipped(self.checked[number].rule))
        examples = ", ".join(str(item.rule) for item in self.checked[:8])
        raise RuleError(f"{shown(str(wanted))} is not among the rules that are checked: {examples}")


def _flipped(rule: Rule) -> bool:
    return isinstance(rule, Dc | Order) and rule.flipped


@dataclass(frozen=True)
class Listed:
    """A list of violations, by row id (for sorting) and by name (for display)."""

    pairs: Pairs
    table: pa.Table

    @classmethod
    def of(cls, pairs: Pairs, rows: Rows, dictionary: TextDictionary, coming: Codes | None = None) -> Listed:
        return cls(pairs, pair_table(pairs, rows, dictionary, coming))

    def as_asked(self, asked: Asked) -> pa.Table:
        """The table with t and s as in the caller's text, sorted by t, then s."""
        if not asked.mirrored or self.pairs.s is None:
            return self.table
        order = np.lexsort((self.pairs.t, self.pairs.s))
        return self.table.take(order).select(["s", "t"]).rename_columns(["t", "s"])


@dataclass(frozen=True)
class RuleViolations:
    """Violations of one rule after a batch, and those it added and removed. None: too many to list."""

    count: int
    count_added: int = 0
    count_removed: int = 0
    added: Listed | None = None
    removed: Listed | None = None


@dataclass(frozen=True)
class BatchViolations:
    """Violations that one batch added and removed, for all checked rules."""

    names: RuleNames
    by_rule: dict[int, RuleViolations] = field(default_factory=dict)

    def of(self, rule: str | Rule) -> RuleViolations:
        """What the batch did to the violations of one rule."""
        return self.by_rule[self.names.find(rule).number]

    def added(self, rule: str | Rule) -> pa.Table:
        """The violating pairs (or rows) that the batch added, sorted by t, then s."""
        asked = self.names.find(rule)
        return self._listed(asked, self.by_rule[asked.number].added)

    def removed(self, rule: str | Rule) -> pa.Table:
        """The violating pairs (or rows) that the batch removed, sorted by t, then s."""
        asked = self.names.find(rule)
        return self._listed(asked, self.by_rule[asked.number].removed)

    def _listed(self, asked: Asked, listed: Listed | None) -> pa.Table:
        if listed is not None:
            return listed.as_asked(asked)
        rule, change = self.names.checked[asked.number].rule, self.by_rule[asked.number]
        raise RuleError(
            f"`{rule}`: the batch added {change.count_added:,} violations and removed {change.count_removed:,}, too "
            f"many to list; both numbers are exact. Rulebook.violations lists the current violations, with a limit"
        )

    def _repr_html_(self) -> str:
        rows = [
            (change.count_added, change.count_removed, change.count, str(self.names.checked[number].rule))
            for number, change in self.by_rule.items()
            if change.count_added or change.count_removed
        ]
        if not rows:
            return "<p>no violations added or removed</p>"
        return html_table(["added", "removed", "now", "rule"], rows, len(rows))

    def count_added(self, rule: str | Rule | None = None) -> int:
        """How many violations of a rule, or of all rules, the batch added."""
        return self.of(rule).count_added if rule is not None else sum(c.count_added for c in self.by_rule.values())

    def count_removed(self, rule: str | Rule | None = None) -> int:
        """How many violations of a rule, or of all rules, the batch removed."""
        return self.of(rule).count_removed if rule is not None else sum(c.count_removed for c in self.by_rule.values())
