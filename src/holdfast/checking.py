"""Checking rules on data that does not change: a rulebook in memory, asked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from holdfast.html_table import html_table
from holdfast.places import is_for_spark
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import require_policy
from holdfast.rules.rule import Ind, Rule, as_dc
from holdfast.rules.rulefile import RuleEntry, Rules, as_entry, entries_of
from holdfast.rules.sentence import standing
from holdfast.table.options import ChoiceKeywords, Choices
from holdfast.table.read import read_all
from holdfast.table.source import Needed
from holdfast.violations.clashing_groups import ClashingGroups
from holdfast.violations.detect import Progress
from holdfast.violations.explain import Explanation

if TYPE_CHECKING:
    from holdfast.spark.check import SparkFound

_SUMMARY = pa.schema(
    [(name, pa.string()) for name in ("id", "rule", "kind")] + [("violations", pa.int64()), ("error", pa.float64())]
)


def check(
    data: Any,
    rules: Rules,
    *,
    nulls: str = "sql",
    progress: Progress | None = None,
    on: str = "auto",
    **options: Unpack[ChoiceKeywords],
) -> Found | SparkFound:
    """Finds the rows and pairs that violate rules.

    `rules`: texts, rules, or a rule file (a path, or `RuleFile`), of which the accepted and suggested rules are
    checked. `key`, `types`, `columns` and `exclude` are those of `Rulebook.create`; without `columns` and `exclude`,
    only the columns that rules, keys and types name are read. `on`: where Spark DataFrames are checked, `process` or
    `spark`; `auto` decides by their size.

    >>> people = pa.table({"zip": ["1", "1", "2"], "city": ["x", "y", "z"]})
    >>> found = check(people, ["zip -> city"])
    >>> found.count("zip -> city"), found.pairs("zip -> city").to_pylist()
    (2, [{'t': 0, 's': 1}, {'t': 1, 's': 0}])
    """
    choices = Choices.of("check", options)
    if is_for_spark(data, on):
        return _checked_on_spark(data, rules, nulls, choices)
    entries = [as_entry(rule, require_policy(nulls)) for rule in entries_of(rules)]
    is_alone = not isinstance(data, Mapping) or len(data) == 1
    sources = read_all(data, _needed(entries, choices, is_alone), choices.reading)
    tables = sources if isinstance(data, Mapping) else next(iter(sources.values()))
    return Found(Rulebook.create(None, tables, rules=entries, rule_nulls=nulls, progress=progress, **options))


def _needed(entries: Iterable[RuleEntry], choices: Choices, is_alone: bool) -> Needed | None:
    """The columns of a table that rules, their filters, the key and types name; None if the user chooses columns."""
    if choices.columns is not None or choices.exclude is not None:
        return None
    named: dict[str | None, set[str]] = {}  # a rule need not name the only table
    for entry in entries:
        rule, compared, table = entry.value, entry.predicates, entry.value.table
        if isinstance(rule, Ind):
            table = rule.left_table
            named.setdefault(table, set()).update(rule.left)
            named.setdefault(rule.right_table, set()).update(rule.right)
        else:
            compared |= as_dc(rule).predicates
        named.setdefault(table, set()).update(cell.column for p in compared for cell in p.cells)

    def needed(table: str) -> set[str] | None:
        columns = named.get(table, set()) | named.get(None, set())
        columns |= {*choices.key_of(table), *choices.types_of(table, is_alone)}
        return columns or None

    return needed


def _checked_on_spark(data: Any, rules: Rules, nulls: str, choices: Choices) -> SparkFound:
    from holdfast.spark.check import check_on_spark

    return check_on_spark(data, rules, nulls=nulls, choices=choices)


class Found:
    """The violations of some rules on some tables."""

    def __init__(self, book: Rulebook) -> None:
        self.book = book

    @property
    def entries(self) -> tuple[RuleEntry, ...]:
        """The checked rules with id, severity, null policy and filter."""
        return self.book.entries

    def count(self, rule: str | Rule) -> int:
        """The exact number of violating ordered pairs; rows, for one-row rules and inclusions."""
        return self.book.count_violations(rule)

    def pairs(self, rule: str | Rule, limit: int | None = None) -> pa.Table:
        """t and s of the violating pairs, by key, or by row id in order of arrival; only t for rules about rows."""
        return self.book.violations(rule, limit)

    def groups(self, rule: str | Rule, limit: int | None = None) -> ClashingGroups | None:
        """The violations of a key or an FD as groups of rows, the largest first; None for other rules."""
        return self.book.violating_groups(rule, limit)

    def explain(self, rule: str | Rule, limit: int = 10) -> Explanation:
        """Which rows are worst, what they clash about, and which rows to remove."""
        return self.book.explain(rule, limit)

    def error(self, rule: str | Rule) -> float:
        """Violating pairs / n(n-1); rows / n for rules about rows."""
        return self.book.error(rule)

    @property
    def ok(self) -> bool:
        """Whether no rule is violated."""
        return not any(self.count(entry.id) for entry in self.entries)

    def __bool__(self) -> bool:
        """Whether some rule is violated."""
        return not self.ok

    def to_arrow(self) -> pa.Table:
        """id, rule, kind, violations and error of each checked rule."""
        rows = [
            {
                "id": e.id,
                "rule": e.rule,
                "kind": e.value.kind,
                "violations": self.count(e.id),
                "error": self.error(e.id),
            }
            for e in self.entries
        ]
        return pa.Table.from_pylist(rows, schema=_SUMMARY)

    def to_pandas(self) -> Any:
        """The same as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def __repr__(self) -> str:
        lines = [f"{self.count(entry.id):>12,}  {entry.rule}" for entry in self.entries]
        return "\n".join(["  violations  rule", *lines])

    def _repr_html_(self) -> str:
        rows = [(self.count(e.id), self.error(e.id), e.rule, standing(e.value, self.count(e.id))) for e in self.entries]
        return html_table(["violations", "error", "rule", "sentence"], rows, len(rows))
