"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.output import Format
from holdfast.discovery.search_options import DEFAULT_KINDS
from holdfast.errors import HoldfastError

VIOLATED = 1  # the exit status

Files = Annotated[
    list[str], typer.Argument(help="Tables: files, or name=path to name a table yourself.", show_default=False)
]
Directory = Annotated[Path, typer.Argument(help="The directory of the rulebook.", show_default=False)]
RuleFileOption = Annotated[Path | None, typer.Option("--rules", help="A rule file (YAML).", show_default=False)]
RuleOption = Annotated[
    list[str] | None, typer.Option("--rule", help="A rule, such as 'zip -> city'. Repeatable.", show_default=False)
]
Key = Annotated[
    list[str] | None,
    typer.Option("--key", help="Columns that identify a row: id, or a,b; with several tables, orders=id."),
]
Types = Annotated[list[str] | None, typer.Option("--type", help="The type of a column: zip=text. Repeatable.")]
Delimiter = Annotated[
    str | None, typer.Option(help="What separates the cells of a text file: ; or \\t.", show_default="recognised")
]
Encoding = Annotated[
    str | None, typer.Option(help="The encoding of text files: utf-8, utf-16 or cp1252.", show_default="recognised")
]
DateFormat = Annotated[
    str | None,
    typer.Option(help="How dates are written: DD.MM.YYYY or %m/%d/%Y.", show_default="recognised if not ambiguous"),
]
NullValues = Annotated[
    list[str] | None,
    typer.Option(
        "--null-values",
        help="A text that means an empty cell, in every column. Repeatable.",
        show_default="NA, N/A, n/a, #N/A, NULL, Null, null, None, nan, -, ? where they are no values",
    ),
]
Nulls = Annotated[
    str,
    typer.Option(
        help="How nulls compare: sql (comparing with null is never true), equal (null equals null) or distinct "
        "(null differs from everything)."
    ),
]
Form = Annotated[Format, typer.Option("--format", help="The format of the output.")]
SafeCells = Annotated[
    bool,
    typer.Option(
        "--safe-cells", help="In csv, put an apostrophe before text that a spreadsheet would run as a formula."
    ),
]
AsPairs = Annotated[
    bool,
    typer.Option("--pairs", help="List pairs of rows, also for keys and FDs, whose groups of rows say it shorter."),
]
Limit = Annotated[
    int | None, typer.Option(min=0, help="Violations listed for each rule.", show_default="5; 100 in json and csv")
]
On = Annotated[
    str,
    typer.Option(
        "--on",
        help="Where: process, spark (Parquet, ORC, Delta, or tables of its catalog), or auto (by number of rows).",
    ),
]
Master = Annotated[
    str | None, typer.Option(help="The Spark master to start (local[*], spark://host:7077, yarn). Not with --remote.")
]
State = Annotated[
    str | None, typer.Option(help="On Spark, where it writes rows and states, if not in the rulebook's directory.")
]
Remote = Annotated[str | None, typer.Option(help="The address of a Spark Connect server (sc://host) to use instead.")]
Keep = Annotated[int, typer.Option(min=1, help="How many of the latest versions can still be opened.")]
FollowedKinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="A kind of rule to find and keep up to date: key, fd, ind, order or dc. Repeatable."),
]
FoundNulls = Annotated[
    str, typer.Option(help="How nulls compare in the rules that discovery finds: equal, distinct or sql.")
]
FailOn = Annotated[
    str,
    typer.Option("--fail-on", help="Exit with status 1 if a rule of this severity, or above, is violated: error, "
                 "warn or none."),
]  # fmt: skip
Suggest = Annotated[int, typer.Option(min=0, help="Suggest at most this many rules of each kind and table; 0: none.")]
Masked = Annotated[
    list[str] | None, typer.Option(help="A column whose values are never shown: ssn or people.ssn. Repeatable.")
]
OnlyInserts = Annotated[
    bool, typer.Option(help="Refuse batches that delete or update rows. Inclusions then need less memory.")
]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="A kind of rule to find. Repeatable.", show_default=", ".join(DEFAULT_KINDS)),
]
DiscoveryNulls = Annotated[
    str,
    typer.Option(
        "--nulls",
        help="How nulls compare: equal (null equals null), distinct (null differs from everything) or sql (comparing "
        "with null is never true).",
    ),
]
MaxError = Annotated[
    float,
    typer.Option(min=0.0, max=1.0, help="Also find rules with exceptions, up to this share (0.01: one percent)."),
]
Measure = Annotated[
    str | None,
    typer.Option("--error", help="How --max-error counts exceptions: g3 (rows to remove) or g1 (pairs of rows)."),
]
MaxSize = Annotated[
    str,
    typer.Option(
        help="The most columns of a key, of a rule's left side, or of one side of an inclusion; none: no limit. "
        "Default: 5, 5 and 1."
    ),
]

Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", help="Only these columns: zip,city or orders=zip,city. Repeatable."),
]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", help="Without these columns: note or orders=note. Repeatable.")
]
CrossColumns = Annotated[
    bool, typer.Option(help="Let denial constraints compare different columns, if the columns share values.")
]
EvidenceOf = Annotated[
    str,
    typer.Option(
        help="What order and dc rules are derived from: counted (all pairs of rows), lean (some pairs, less memory) or "
        "auto."
    ),
]
Compare = Annotated[
    str, typer.Option(help="How inclusions compare values: typed (numbers with numbers, dates with dates), or text.")
]


def listed(limit: int | None, format: Format) -> int:
    """How many violations to list: the limit, or 5 for people and 100 for programs."""
    return limit if limit is not None else 5 if format is Format.TABLE else 100


def fails(severities: set[str], fail_on: str) -> bool:
    """Whether violations of rules of these severities give exit status 1."""
    levels = {"error": {"error"}, "warn": {"error", "warn"}, "none": set()}
    if fail_on not in levels:
        raise HoldfastError(f"--fail-on is error, warn or none, not {fail_on!r}")
    return bool(severities & levels[fail_on])
