"""Violations as tables for people: rows by their key, or by their id where there is none."""

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
    """What rows are called: their key (a struct where it is composite), or their id. `coming` are the codes of the rows
    that are about to come, with the next ids; an update leaves a row its key."""
    if not rows.key:
        return pa.array(ids, pa.int64())
    fresh = ids >= rows.next_id
    if coming is not None and fresh.any():
        codes = np.empty((len(rows.schema), len(ids)), np.int64)
        codes[:, ~fresh], codes[:, fresh] = rows.codes_of(ids[~fresh]), coming[:, ids[fresh] - rows.next_id]
    else:
        codes = rows.codes_of(ids)
    return keys_of(rows.schema, rows.key, codes, dictionary)


def keys_of(schema: Schema, key: Sequence[str], codes: Codes, dictionary: TextDictionary) -> pa.Array:
    """The keys of rows given by all their codes; a struct where the key is composite."""
    parts = [decode_column(schema.column(name), codes[schema.position(name)], dictionary) for name in key]
    return parts[0] if len(parts) == 1 else pa.StructArray.from_arrays(parts, names=list(key))


def row_named(table: str, rows: Rows, dictionary: TextDictionary, text: str) -> int:
    """The id of the row that is called so: by its key as people write it, or by its id where there is no key."""
    if not rows.key:
        found = int(text) if re.fullmatch("[0-9]{1,18}", text) else -1
        there = bool(np.isin(found, rows.ids()))
    else:
        wanted = np.full((len(rows.schema), 1), NULL)
        for name, part in zip(rows.key, text.split(",") if len(rows.key) > 1 else [text], strict=False):
            column = rows.schema.column(name)
            wanted[rows.schema.position(name)] = _code(column, part, dictionary)
        found = int(rows.find(wanted)[0])
        there = found >= 0
    if not there:
        raise HoldfastError(f"{table} has no row {shown(text)} (rows go by {', '.join(rows.key) or 'their id'})")
    return found


def _code(column: Column, text: str, dictionary: TextDictionary) -> int:
    """The code of a value as people write it; that of null, which no key has, where there is none."""
    if column.kind is Kind.TEXT:
        found = dictionary.find(text)
        return NULL if found is None else found
    try:
        return parse_one(column, text)
    except ValueError:
        return NULL


def pair_table(pairs: Pairs, rows: Rows, dictionary: TextDictionary, coming: Codes | None = None) -> pa.Table:
    """t and s of each pair; only t for rules about rows."""
    columns = {"t": names_of(pairs.t, rows, dictionary, coming)}
    if pairs.s is not None:
        columns["s"] = names_of(pairs.s, rows, dictionary, coming)
    return pa.table(columns)


def id_table(pairs: Pairs) -> pa.Table:
    """The same by row ids."""
    columns = {"t": pa.array(pairs.t, pa.int64())}
    return pa.table(columns if pairs.s is None else columns | {"s": pa.array(pairs.s, pa.int64())})


@dataclass(frozen=True)
class Asked:
    """The number of a checked rule, and whether it was asked for with t and s the other way round."""

    number: int
    mirrored: bool

    def turned(self, pairs: Pairs) -> Pairs:
        """The pairs as the asker's text says them."""
        return Pairs(pairs.s, pairs.t).ordered() if self.mirrored and pairs.s is not None else pairs


class RuleNames:
    """Finds checked rules by id, by text, or by value. Where there is one table, its name makes no difference."""

    def __init__(self, checked: Sequence[CheckedRule], ids: Sequence[str], tables: Collection[str] = ()) -> None:
        self.checked, self.ids, self._tables = list(checked), list(ids), list(tables)
        self._by_id = {id_: number for number, id_ in enumerate(self.ids)}
        self._by_rule: dict[Rule, int] = {}
        for number, item in enumerate(self.checked):
            self._by_rule.setdefault(resolved(item.rule, self._tables), number)

    def known(self, wanted: str | Rule) -> int | None:
        """The number of a rule, or None where it is not checked."""
        if isinstance(wanted, str) and wanted in self._by_id:
            return self._by_id[wanted]
        rule = parse(wanted) if isinstance(wanted, str) else wanted
        return self._by_rule.get(resolved(rule, self._tables))

    def find(self, wanted: str | Rule) -> Asked:
        number = self.known(wanted)
        if number is not None:
            by_id = isinstance(wanted, str) and wanted in self._by_id
            rule = self.checked[number].rule if by_id else parse(wanted) if isinstance(wanted, str) else wanted
            return Asked(number, _flipped(rule) != _flipped(self.checked[number].rule))
        known = ", ".join(str(item.rule) for item in self.checked[:8])
        raise RuleError(f"{shown(str(wanted))} is not among the rules that are checked: {known}")


def _flipped(rule: Rule) -> bool:
    return isinstance(rule, Dc | Order) and rule.flipped


@dataclass(frozen=True)
class Listed:
    """Some violations, by id for their order and by name for people."""

    pairs: Pairs
    table: pa.Table

    @classmethod
    def of(cls, pairs: Pairs, rows: Rows, dictionary: TextDictionary, coming: Codes | None = None) -> Listed:
        return cls(pairs, pair_table(pairs, rows, dictionary, coming))

    def as_asked(self, asked: Asked) -> pa.Table:
        """The table with t and s as in the asker's text, by t then s."""
        if not asked.mirrored or self.pairs.s is None:
            return self.table
        order = np.lexsort((self.pairs.t, self.pairs.s))
        return self.table.take(order).select(["s", "t"]).rename_columns(["t", "s"])


@dataclass(frozen=True)
class RuleViolations:
    """What one batch did to the violations of one rule. None where there were too many to list."""

    count: int
    count_added: int = 0
    count_removed: int = 0
    added: Listed | None = None
    removed: Listed | None = None


@dataclass(frozen=True)
class BatchViolations:
    """What one batch did to the violations of all checked rules."""

    names: RuleNames
    by_rule: dict[int, RuleViolations] = field(default_factory=dict)

    def of(self, rule: str | Rule) -> RuleViolations:
        return self.by_rule[self.names.find(rule).number]

    def added(self, rule: str | Rule) -> pa.Table:
        """The violating pairs (or rows) that came, by t then s."""
        asked = self.names.find(rule)
        return self._listed(asked, self.by_rule[asked.number].added)

    def removed(self, rule: str | Rule) -> pa.Table:
        """Those that went."""
        asked = self.names.find(rule)
        return self._listed(asked, self.by_rule[asked.number].removed)

    def _listed(self, asked: Asked, listed: Listed | None) -> pa.Table:
        if listed is not None:
            return listed.as_asked(asked)
        rule, found = self.names.checked[asked.number].rule, self.by_rule[asked.number]
        raise RuleError(
            f"`{rule}`: {found.count_added:,} violations came and {found.count_removed:,} went, too many to list; "
            f"the numbers are exact, and Rulebook.violations lists those that stand, with a limit"
        )

    def _repr_html_(self) -> str:
        rows = [
            (found.count_added, found.count_removed, found.count, str(self.names.checked[number].rule))
            for number, found in self.by_rule.items()
            if found.count_added or found.count_removed
        ]
        return (
            html_table(["came", "went", "now", "rule"], rows, len(rows))
            if rows
            else "<p>no violations came or went</p>"
        )

    @property
    def count_added(self) -> int:
        return sum(found.count_added for found in self.by_rule.values())
