"""Checking rules on data that does not change: a rulebook in memory, asked once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.errors import HoldfastError, NotAvailable, shown
from holdfast.html_table import html_table
from holdfast.rulebook import Rulebook
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry, Rules, entries_of
from holdfast.rules.sentence import standing
from holdfast.table.options import Names
from holdfast.violations.detect import Progress
from holdfast.violations.explain import Explanation

if TYPE_CHECKING:
    from holdfast.pipeline.whole.check import SparkFound

SPARK_CHECKS_ABOVE = 5_000_000  # of Spark DataFrames, before Spark checks them itself


def check(
    data: Any,
    rules: Rules,
    *,
    nulls: str = "sql",
    key: Names | Mapping[str, Names] | None = None,
    types: Mapping[str, Any] | None = None,
    columns: Names | Mapping[str, Names] | None = None,
    exclude: Names | Mapping[str, Names] | None = None,
    progress: Progress | None = None,
    on: str = "auto",
) -> Found | SparkFound:
    """Which rows and pairs violate which rules.

    `rules`: texts, rules, or a rule file (a path, or `RuleFile`), of which the accepted and suggested ones are checked.
    `on`: where Spark DataFrames are checked, `process` or `spark`; `auto` goes by their size.

    >>> people = pa.table({"zip": ["1", "1", "2"], "city": ["x", "y", "z"]})
    >>> found = check(people, ["zip -> city"])
    >>> found.count("zip -> city"), found.pairs("zip -> city").to_pylist()
    (2, [{'t': 0, 's': 1}, {'t': 1, 's': 0}])
    """
    if _on_spark(data, on):
        return _checked_on_spark(data, rules, nulls, key, types or columns or exclude)
    options: dict[str, Any] = {"key": key, "types": types, "columns": columns, "exclude": exclude}
    return Found(Rulebook.create(None, data, rules=entries_of(rules), rule_nulls=nulls, progress=progress, **options))


def _on_spark(data: Any, on: str) -> bool:
    """Whether the executors of Spark do it: they can for its own frames, and should for large ones."""
    if on not in ("auto", "process", "spark"):
        raise HoldfastError(f"on is auto, process or spark, not {shown(on)}")
    frames = list(data.values()) if isinstance(data, Mapping) else [data]
    ours = all(type(frame).__module__.startswith("pyspark.") for frame in frames)
    if on == "spark" and not ours:
        raise HoldfastError("on='spark' is for Spark DataFrames; read the data with Spark first")
    return ours and (on == "spark" or (on == "auto" and sum(f.count() for f in frames) > SPARK_CHECKS_ABOVE))


def _checked_on_spark(data: Any, rules: Rules, nulls: str, key: Any, others: Any) -> SparkFound:
    from holdfast.pipeline.whole.check import check_on_spark

    if others:
        raise NotAvailable("on Spark, choose columns and types in the DataFrame itself: types=, columns=, exclude=")
    frame = next(iter(data.values())) if isinstance(data, Mapping) else data
    home = os.environ.get("HOLDFAST_SHARED", tempfile.gettempdir())
    return check_on_spark(data, rules, nulls=nulls, key=key, spark=frame.sparkSession, directory=home)


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
        rows = [(self.count(e.id), self.error(e.id), e.rule, standing(e.value, self.count(e.id))) for e in self.entries]
        return html_table(["violations", "error", "rule", "sentence"], rows, len(rows))
