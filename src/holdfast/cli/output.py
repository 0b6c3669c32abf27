"""The output formats: table for people; json, csv, junit and sarif for programs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from rich.console import Console as AnyConsole
from rich.markup import escape as plain
from rich.table import Table

from holdfast.cli.terminal import Console, print_exact
from holdfast.errors import HoldfastError
from holdfast.plain_text import plain_text
from holdfast.rules.rulefile import RuleEntry
from holdfast.violations.clashing_groups import ClashingGroups

Record = dict[str, Any]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet reads text that begins so as a formula
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?")


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    JUNIT = "junit"
    SARIF = "sarif"


@dataclass(frozen=True)
class RuleResult:
    """The violations of one rule. Each of `pairs` is a list of row names: [t] or [t, s]."""

    id: str
    rule: str
    kind: str
    severity: str
    count: int
    error: float
    pairs: list[list[Any]]
    groups: ClashingGroups | None = None

    @classmethod
    def of(
        cls,
        entry: RuleEntry,
        count: int,
        error: float,
        pairs: list[list[Any]],
        groups: ClashingGroups | None = None,
    ) -> RuleResult:
        return cls(entry.id, entry.rule, entry.value.kind, entry.severity, count, error, pairs, groups)

    @property
    def truncated(self) -> bool:
        return len(self.pairs) < self.count

    def record(self) -> Record:
        fields = {"id": self.id, "rule": self.rule, "kind": self.kind, "count": self.count, "error": self.error}
        groups = [] if self.groups is None else [group.record() for group in self.groups.groups]
        return fields | {"pairs": self.pairs, "truncated": self.truncated, "groups": groups}


def as_json(document: Record) -> str:
    return json_text({"version": 1} | document, indent=1)


def json_text(document: Any, indent: int | None = None) -> str:
    """JSON in ASCII: exact, and without characters that could control a terminal."""
    return json.dumps(document, default=str, indent=indent)


def as_csv(records: Sequence[Record], columns: Sequence[str], safe: bool = False) -> str:
    """The header and a line for each record. `safe`: put an apostrophe before text that looks like a formula.

    >>> print(as_csv([{"a": "=1+1", "b": -1}, {"a": "-5", "b": None}], ["a", "b"], safe=True))
    a,b
    '=1+1,-1
    -5,
    """
    return "\n".join([_csv_line(columns), *csv_lines(records, columns, safe)])


def csv_lines(records: Sequence[Record], columns: Sequence[str], safe: bool = False) -> list[str]:
    """A line for each record, without the header."""
    cells = [[record.get(column) for column in columns] for record in records]
    return [_csv_line([_safe_cell(value) for value in line] if safe else line) for line in cells]


def _csv_line(cells: Sequence[Any]) -> str:
    """One line. Cells with line breaks of any kind are quoted."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(cells)
    return out.getvalue().removesuffix("\r\n")


def _safe_cell(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(_FORMULA) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def print_csv(records: Sequence[Record], columns: Sequence[str], safe: bool = False) -> None:
    print_exact(as_csv(records, columns, safe))


def print_table(console: AnyConsole, title: str, records: Sequence[Record], columns: Sequence[str]) -> None:
    table = Table()
    for column in columns:
        numeric = all(isinstance(r.get(column), int | float) for r in records) and bool(records)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for record in records:
        table.add_row(*(_cell(record.get(column)) for column in columns))
    console.print(plain_text(title), highlight=False, markup=False)
    console.print(table)


def print_records(
    name: str, records: Sequence[Record], columns: Sequence[str], format: Format, safe_cells: bool = False
) -> None:
    """Prints records as table, json or csv."""
    if format is Format.JSON:
        print(as_json({name: [{c: r.get(c) for c in columns} for r in records]}))
    elif format is Format.CSV:
        print_csv(records, columns, safe_cells)
    elif format is Format.TABLE:
        print_table(Console(), name, records, columns)
    else:
        raise HoldfastError(f"{name} are printed as table, json or csv, not {format}")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else plain(plain_text(str(value)))


def as_junit(results: Sequence[RuleResult]) -> str:
    """JUnit XML: a test case for each rule, failed if the rule is violated."""
    failures = sum(1 for r in results if r.count)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="holdfast" tests="{len(results)}" failures="{failures}">',
    ]
    for r in results:
        lines.append(f"  <testcase classname={quoteattr(r.kind)} name={quoteattr(plain_text(r.rule))}>")
        if r.count:
            message, listing = plain_text(_sentence(r)), plain_text(_listing(r))
            lines.append(f"    <failure message={quoteattr(message)}>{escape(listing)}</failure>")
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>"])


def as_sarif(results: Sequence[RuleResult], files: Sequence[str], version: str) -> str:
    """SARIF 2.1.0: a result for each violated rule."""
    levels = {"error": "error", "warn": "warning", "info": "note"}
    location = [{"physicalLocation": {"artifactLocation": {"uri": file}}} for file in files]
    run = {
        "tool": {
            "driver": {
                "name": "holdfast",
                "version": version,
                "rules": [{"id": r.id, "shortDescription": {"text": r.rule}} for r in results],
            }
        },
        "results": [
            {"ruleId": r.id, "level": levels[r.severity], "message": {"text": _sentence(r)}, "locations": location}
            for r in results
            if r.count
        ],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json_text({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1)


def _sentence(result: RuleResult) -> str:
    what = "pairs of rows violate" if result.pairs and len(result.pairs[0]) > 1 else "rows violate"
    return f"{result.count:,} {what} {result.rule}"


def _listing(result: RuleResult) -> str:
    lines = [" with ".join(str(name) for name in pair) for pair in result.pairs]
    return "\n".join([*lines, "..."] if result.truncated else lines)
