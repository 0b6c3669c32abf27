"""`holdfast discover`: the rules that hold, the shortest first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from holdfast.cli.books import Files, Form, Key, Types, announce
from holdfast.cli.files import keys_of, size_of, tables_of, types_of
from holdfast.cli.output import Format, as_csv, as_json, print_table
from holdfast.cli.rules import SHOWN, Compare, CrossColumns, EvidenceOf, MaxError, MaxSize, Measure, records_of
from holdfast.discover import TIME_BUDGET, discover, foreign_keys, row_rules
from holdfast.discovery.budget import Progress
from holdfast.discovery.foreign_keys import ForeignKey
from holdfast.discovery.wanted import DEFAULT_KINDS
from holdfast.errors import HoldfastError
from holdfast.rules.ruleset import RuleSet
from holdfast.table.read import read

Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="A kind of rule to find (repeatable).", show_default=", ".join(DEFAULT_KINDS)),
]
DiscoveryNulls = Annotated[
    str, typer.Option("--nulls", help="How nulls compare in discovered rules: equal, distinct or sql.")
]


def discover_command(
    files: Files,
    kind: Kinds = None,
    nulls: DiscoveryNulls = "equal",
    max_error: MaxError = 0.0,
    error: Measure = None,
    max_size: MaxSize = "default",
    compare: Compare = "typed",
    cross_columns: CrossColumns = True,
    evidence: EvidenceOf = "auto",
    time_budget: Annotated[
        float, typer.Option(help="Seconds, after which what is proven is shown; 0 for no limit.")
    ] = TIME_BUDGET,
    every: Annotated[bool, typer.Option("--all", help="All rules, not only the shortest of each kind.")] = False,
    key: Key = None,
    type: Types = None,
    format: Form = Format.TABLE,
) -> None:
    """Find the rules that hold, or nearly: keys, functional, inclusion and order dependencies, denial constraints."""
    if format not in (Format.TABLE, Format.JSON, Format.CSV):
        raise HoldfastError(f"rules are printed as table, json or csv, not {format}")
    announce()
    tables, kinds = tables_of(files), tuple(kind or DEFAULT_KINDS)
    with discovery_bar() as progress:
        sources = {n: read(file, n) for n, file in tables.items()} if isinstance(tables, dict) else read(tables)
        rules = discover(
            sources,
            kinds,
            nulls=nulls,
            max_error=max_error,
            error=error,
            max_size=size_of(max_size),
            compare=compare,
            cross_columns=cross_columns,
            evidence=evidence,
            time_budget=time_budget or None,
            key=keys_of(key or []),
            types=types_of(type or []),
            progress=progress,
        )
    if not rules.complete:
        print(f"holdfast: not complete: {', '.join(rules.limits)}; every rule shown holds", file=sys.stderr)
    names = list(tables) if isinstance(tables, dict) else [tables.stem]
    likely = foreign_keys(sources, types=types_of(type or [])) if "ind" in kinds and len(names) > 1 else []
    found = (
        row_rules(sources, nulls=nulls, max_error=max_error, types=types_of(type or [])) if "dc" in kinds else RuleSet()
    )
    _print(rules, likely, found, names, nulls, format, every)


@contextmanager
def discovery_bar() -> Iterator[Progress]:
    """What is being done, and how far it is, on stderr."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=1.0)
        yield lambda what, share: bar.update(task, description=what, completed=share)


def _print(
    rules: RuleSet,
    likely: list[ForeignKey],
    of_rows: RuleSet,
    names: list[str],
    nulls: str,
    format: Format,
    every: bool,
) -> None:
    by_block = records_of(rules, None if every else SHOWN)
    records = [record for some in by_block for record in some]
    if format is Format.JSON:
        shown = {
            "tables": names,
            "nulls": nulls,
            "complete": rules.complete,
            "limits": list(rules.limits),
            "how": list(rules.how),
            "vacuous": list(rules.vacuous),
            "row_rules": of_rows.texts(),
            "foreign_keys": [vars(key) | {"rule": str(key.rule)} for key in likely[: None if every else SHOWN]],
        }
        print(as_json(shown | {"rules": records}))
    elif format is Format.CSV:
        print(as_csv(records, ["id", "kind", "table", "text", "error", "support", "sentence"]))
    else:
        console = Console()
        for block, some in zip(rules.blocks, by_block, strict=True):
            about = f" of {block.table}" if block.table else ""
            more = f" (the shortest {len(some)} of {len(block):,}; all with --all)" if len(some) < len(block) else ""
            error = ["error"] if block.errors is not None else []
            columns = ["text", *error, "support", "sentence"]
            print_table(console, f"{block.kind}{about}: {len(some):,} rules{more}", some, columns)
        if not rules.blocks:
            console.print("no rules hold")
        if len(of_rows):
            texts = of_rows.texts()[: None if every else SHOWN]
            more = f" (the first {len(texts)} of {len(of_rows):,}; all with --all)" if len(texts) < len(of_rows) else ""
            print_table(console, f"about single rows{more}", [{"rule": text} for text in texts], ["rule"])
        if rules.vacuous:
            console.print(f"columns without values: {', '.join(rules.vacuous)}", highlight=False, markup=False)
        if likely:
            console.print("inclusions that look like foreign keys:")
        for key in likely[:SHOWN]:
            console.print(f"  {key}", highlight=False, markup=False)
