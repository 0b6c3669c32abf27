"""The names of the rows in violations: their keys, or `#17` (row ids) if the key is masked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from holdfast.cli.output import Record
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import table_of
from holdfast.rules.rulefile import RuleEntry
from holdfast.violations.listing import Listed, id_table
from holdfast.workflow.masking import Mask


def hides_names(book: Rulebook, entry: RuleEntry, mask: Mask) -> bool:
    """Whether the rows that a rule is about must not be named by their key."""
    return mask.hides_names(table_of(entry.value, book.schemas))


def named_violations(book: Rulebook, entry: RuleEntry, mask: Mask, limit: int | None = None) -> Iterator[list[Record]]:
    """The current violations of a rule as {t, s}, in parts that fit into memory."""
    hidden = hides_names(book, entry, mask)
    parts = book.violation_ids(entry.id, limit) if hidden else book.violation_parts(entry.id, limit)
    return (_names(part, hidden) for part in parts)


def named_pairs(listed: Listed, hidden: bool, limit: int) -> list[list[Any]]:
    """The first violations of a list, each as [t] or [t, s]."""
    table = id_table(listed.pairs) if hidden else listed.table
    return [list(pair.values()) for pair in _names(table.slice(0, limit), hidden)]


def _names(table: pa.Table, hidden: bool) -> list[Record]:
    rows: list[Record] = table.to_pylist()
    return [{side: f"#{row}" for side, row in pair.items()} for pair in rows] if hidden else rows
