"""Checking rules on data that does not change: a rulebook in memory, asked once."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from holdfast.indexes.named import DEFAULT
from holdfast.rulebook import Rulebook
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry, Rules, entries_of
from holdfast.table.options import Names
from holdfast.violations.detect import Progress
from holdfast.violations.explain import Explanation


def check(
    data: Any,
    rules: Rules,
    *,
    nulls: str = "sql",
    key: Names | Mapping[str, Names] | None = None,
    types: Mapping[str, Any] | None = None,
    columns: Names | Mapping[str, Names] | None = None,
    exclude: Names | Mapping[str, Names] | None = None,
    index: str = DEFAULT,
    progress: Progress | None = None,
) -> Found:
    """Which rows and pairs violate which rules.

    `rules`: texts, rules, or a rule file (a path, or `RuleFile`), of which the accepted and suggested ones are checked.

    >>> people = pa.table({"zip": ["1", "1", "2"], "city": ["x", "y", "z"]})
    >>> found = check(people, ["zip -> city"])
    >>> found.count("zip -> city"), found.pairs("zip -> city").to_pylist()
    (2, [{'t': 0, 's': 1}, {'t': 1, 's': 0}])
    """
    options: dict[str, Any] = {"key": key, "types": types, "columns": columns, "exclude": exclude}
    options |= {"index": index, "progress": progress}
    return Found(Rulebook.create(None, data, rules=entries_of(rules), rule_nulls=nulls, **options))


class Found:
    """The violations of some rules on some tables."""

    def __init__(self, book: Rulebook) -> None:
        self.book = book

    @property
    def entries(self) -> tuple[RuleEntry, ...]:
        return self.book.entries

    def count(self, rule: str | Rule) -> int:
        """The exact number of violating ordered pairs; rows, for one-row rules and inclusions."""
        return self.book.count_violations(rule)

    def pairs(self, rule: str | Rule, limit: int | None = None) -> pa.Table:
        """t and s of the violating pairs, by key, or by row id in order of arrival; only t for rules about rows."""
        return self.book.violations(rule, limit)

    def explain(self, rule: str | Rule, limit: int = 10) -> Explanation:
        """Which rows are worst, what they clash about, and which rows to remove."""
        return self.book.explain(rule, limit)

    def error(self, rule: str | Rule) -> float:
        """Violating pairs / n(n-1); rows / n for rules about rows."""
        return self.book.error(rule)

    def __bool__(self) -> bool:
        """Whether anything violates anything."""
        return any(self.count(entry.id) for entry in self.entries)

    def __repr__(self) -> str:
        lines = [f"{self.count(entry.id):>12,}  {entry.rule}" for entry in self.entries]
        return "\n".join(["  violations  rule", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{self.count(e.id):,}</td><td><code>{html.escape(e.rule)}</code></td></tr>" for e in self.entries
        )
        return f"<table><tr><th>violations</th><th>rule</th></tr>{rows}</table>"
