"""Prints the violations of rules in every format of `check` and `violations`."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast.cli.output import (
    Format,
    Record,
    RuleResult,
    as_json,
    as_junit,
    as_sarif,
    print_csv,
    print_table,
)  # fmt: skip
from holdfast.cli.terminal import Console
from holdfast.rules.wording import counted


def print_results(results: list[RuleResult], format: Format, files: list[str], safe_cells: bool) -> None:
    if format is Format.JSON:
        print(as_json({"violations": [r.record() for r in results]}))
    elif format is Format.JUNIT:
        print(as_junit(results))
    elif format is Format.SARIF:
        print(as_sarif(results, files, holdfast.__version__))
    elif format is Format.CSV:
        rows = [{"id": r.id, "rule": r.rule, **_sides(pair)} for r in results for pair in r.pairs]
        print_csv(rows, ["id", "rule", "t", "s"], safe_cells)
    else:
        _print_tables(results)


def _print_tables(results: list[RuleResult]) -> None:
    console = Console()
    print_table(console, "rules", [r.record() for r in results], ["rule", "count", "error"])
    for r in results:
        if r.pairs:
            rows = [{side: str(name) for side, name in _sides(pair).items()} for pair in r.pairs]
            print_table(
                console, f"{r.rule}: the first {len(rows):,} of {counted(r.count, 'violation')}", rows, list(rows[0])
            )


def _sides(pair: list[Any]) -> Record:
    return dict(zip(("t", "s"), pair, strict=False))
