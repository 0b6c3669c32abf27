"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.output import Format
from holdfast.discovery.search_options import DEFAULT_KINDS
from holdfast.errors import HoldfastError

VIOLATED = 1  # the exit status

Files = Annotated[list[str], typer.Argument(help="Tables: files, or name=path.", show_default=False)]
Directory = Annotated[Path, typer.Argument(help="The rulebook's directory.", show_default=False)]
RuleFileOption = Annotated[Path | None, typer.Option("--rules", help="A rule file (YAML).", show_default=False)]
RuleOption = Annotated[
    list[str] | None, typer.Option("--rule", help="A rule's text; may be repeated.", show_default=False)
]
Key = Annotated[list[str] | None, typer.Option("--key", help="Columns that tell rows apart: id, a,b or table=id.")]
Types = Annotated[list[str] | None, typer.Option("--type", help="A column's type: zip=text. May be repeated.")]
Nulls = Annotated[str, typer.Option(help="How nulls compare: sql, equal or distinct.")]
Form = Annotated[Format, typer.Option("--format", help="How results are printed.")]
SafeCells = Annotated[
    bool, typer.Option("--safe-cells", help="In csv, an apostrophe before what a spreadsheet would take for a formula.")
]
Limit = Annotated[
    int | None, typer.Option(min=0, help="Violations listed for each rule.", show_default="5; 100 in json and csv")
]
On = Annotated[str, typer.Option("--on", help="Where: auto (by size), process, or spark (Parquet files).")]
Keep = Annotated[int, typer.Option(min=1, help="How many versions stay open to readers.")]
FollowedKinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="A kind of rule to find and keep true: key, fd, ind, order, dc. May be repeated."),
]
FoundNulls = Annotated[str, typer.Option(help="How nulls compare in rules that are found: equal, distinct or sql.")]
FailOn = Annotated[
    str, typer.Option("--fail-on", help="Exit with 1 for violations of this severity: error, warn, none.")
]
Suggest = Annotated[int, typer.Option(min=0, help="Most rules suggested of each kind and table; 0 for none.")]
Masked = Annotated[
    list[str] | None, typer.Option(help="A column whose values are not shown to people: ssn or people.ssn. Repeatable.")
]
OnlyInserts = Annotated[
    bool, typer.Option(help="A promise: what deletes or updates rows is refused, and inclusions need less memory.")
]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="A kind of rule to find (repeatable).", show_default=", ".join(DEFAULT_KINDS)),
]
DiscoveryNulls = Annotated[
    str, typer.Option("--nulls", help="How nulls compare in discovered rules: equal, distinct or sql.")
]
MaxError = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Also rules that are wrong up to this share (0.01: one percent).")
]
Measure = Annotated[
    str | None, typer.Option("--error", help="How error is measured: g3 (rows to remove) or g1 (pairs).")
]
MaxSize = Annotated[
    str, typer.Option(help="Most columns of a key, a left side or an inclusion; none: no limit. Default: 5, 5 and 1.")
]

Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", help="Only these columns: zip,city or orders=zip,city. Repeatable."),
]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", help="Not these columns: note or orders=note. Repeatable.")
]
CrossColumns = Annotated[
    bool, typer.Option(help="Whether denial constraints compare different columns, where these share values.")
]
EvidenceOf = Annotated[
    str, typer.Option(help="For order and dc: all pairs of rows counted, some of them (lean), or auto.")
]
Compare = Annotated[str, typer.Option(help="How inclusions compare values: typed (by kind), or all as text.")]


def listed(limit: int | None, format: Format) -> int:
    """How many violations are listed: as many as were asked for, else a few for people and more for programs."""
    return limit if limit is not None else 5 if format is Format.TABLE else 100


def fails(severities: set[str], fail_on: str) -> bool:
    levels = {"error": {"error"}, "warn": {"error", "warn"}, "none": set()}
    if fail_on not in levels:
        raise HoldfastError(f"--fail-on is error, warn or none, not {fail_on!r}")
    return bool(severities & levels[fail_on])
