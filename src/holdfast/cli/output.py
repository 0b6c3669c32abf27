"""Results in the forms that people and programs read: table, json, csv, junit, sarif."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table

from holdfast.errors import HoldfastError

Record = dict[str, Any]


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    JUNIT = "junit"
    SARIF = "sarif"


@dataclass(frozen=True)
class RuleResult:
    """What a check found for one rule; pairs are lists of row names."""

    id: str
    rule: str
    kind: str
    severity: str
    count: int
    error: float
    pairs: list[list[Any]]

    @property
    def truncated(self) -> bool:
        return len(self.pairs) < self.count

    def record(self) -> Record:
        shown = {"id": self.id, "rule": self.rule, "kind": self.kind, "count": self.count, "error": self.error}
        return shown | {"pairs": self.pairs, "truncated": self.truncated}


def as_json(document: Record) -> str:
    return json.dumps({"version": 1} | document, default=str, indent=1)


def as_csv(records: Sequence[Record], columns: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue().rstrip("\n")


def print_table(console: Console, title: str, records: Sequence[Record], columns: Sequence[str]) -> None:
    shown = Table()
    for column in columns:
        numeric = all(isinstance(r.get(column), int | float) for r in records) and bool(records)
        shown.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for record in records:
        shown.add_row(*(_cell(record.get(column)) for column in columns))
    console.print(title, highlight=False, markup=False)
    console.print(shown)


def print_records(name: str, records: Sequence[Record], columns: Sequence[str], format: Format) -> None:
    """As table, json or csv."""
    if format is Format.JSON:
        print(as_json({name: [{c: r.get(c) for c in columns} for r in records]}))
    elif format is Format.CSV:
        print(as_csv(records, columns))
    elif format is Format.TABLE:
        print_table(Console(), name, records, columns)
    else:
        raise HoldfastError(f"{name} are printed as table, json or csv, not {format}")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else plain(str(value))


def as_junit(results: Sequence[RuleResult]) -> str:
    """One test case for each rule; a violated rule is a failure."""
    failures = sum(1 for r in results if r.count)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="holdfast" tests="{len(results)}" failures="{failures}">',
    ]
    for r in results:
        lines.append(f"  <testcase classname={quoteattr(r.kind)} name={quoteattr(r.rule)}>")
        if r.count:
            lines.append(f"    <failure message={quoteattr(_sentence(r))}>{escape(_listing(r))}</failure>")
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>"])


def as_sarif(results: Sequence[RuleResult], files: Sequence[str], version: str) -> str:
    """SARIF 2.1.0: one result for each violated rule."""
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
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1)


def _sentence(result: RuleResult) -> str:
    what = "pairs of rows violate" if result.pairs and len(result.pairs[0]) > 1 else "rows violate"
    return f"{result.count:,} {what} {result.rule}"


def _listing(result: RuleResult) -> str:
    lines = [" with ".join(str(name) for name in pair) for pair in result.pairs]
    return "\n".join([*lines, "..."] if result.truncated else lines)
