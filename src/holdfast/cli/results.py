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
from holdfast.violations.clashing_groups import ClashingGroups


def print_results(
    results: list[RuleResult], format: Format, files: list[str], safe_cells: bool, *, pairs: bool = False
) -> None:
    """Prints the violations of each rule. `pairs`: as a table, one by one, also where groups of rows say it better."""
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
        _print_tables(results, pairs)


def _print_tables(results: list[RuleResult], pairs: bool) -> None:
    console = Console()
    print_table(console, "rules", [r.record() for r in results], ["rule", "count", "error"])
    for r in results:
        if r.groups is not None and r.groups.groups and not pairs:
            print_groups(console, f"{r.rule}: ", r.groups)
        elif r.pairs:
            rows = [{side: str(name) for side, name in _sides(pair).items()} for pair in r.pairs]
            print_table(
                console, f"{r.rule}: the first {len(rows):,} of {counted(r.count, 'violation')}", rows, list(rows[0])
            )


def print_groups(console: Console, about: str, found: ClashingGroups) -> None:
    """Prints a line for each group of rows that clash."""
    what = f"{counted(found.count, 'group')} of rows that clash, {counted(found.rows, 'row')} in all"
    shown = len(found.groups)
    first = f"; the largest {counted(shown, 'group')}" if shown < found.count else ""
    first += f"; fewest rows to change or remove: {found.fewest:,}"
    console.print(f"{about}{what}{first}", highlight=False, markup=False, soft_wrap=True)
    for group in found.groups:
        console.print(f"  {group}", highlight=False, markup=False, soft_wrap=True)


def _sides(pair: list[Any]) -> Record:
    return dict(zip(("t", "s"), pair, strict=False))
