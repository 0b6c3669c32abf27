"""`holdfast check`: the violations of rules in tables."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.checking import Found, check
from holdfast.cli.files import keys_of, reading_of, tables_of, tell_reading, types_of
from holdfast.cli.on_spark import frames_of, goes_to_spark
from holdfast.cli.options import (
    VIOLATED,
    AsPairs,
    DateFormat,
    Delimiter,
    Encoding,
    FailOn,
    Files,
    Form,
    Key,
    Limit,
    Master,
    Nulls,
    NullValues,
    On,
    Remote,
    RuleFileOption,
    RuleOption,
    SafeCells,
    Types,
    fails,
    listed,
)  # fmt: skip
from holdfast.cli.output import Format, RuleResult
from holdfast.cli.progress import announce, progress_bar
from holdfast.cli.results import print_results
from holdfast.errors import HoldfastError, NotAvailable
from holdfast.rules.bind import table_of
from holdfast.rules.rulefile import RuleEntry, entries_of
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.tolerance import exceeds_tolerance


def check_command(
    files: Files, rules: RuleFileOption = None, rule: RuleOption = None, key: Key = None, type: Types = None,
    nulls: Nulls = "sql", format: Form = Format.TABLE, limit: Limit = None, fail_on: FailOn = "error",
    delimiter: Delimiter = None, encoding: Encoding = None, date_format: DateFormat = None,
    null_values: NullValues = None, on: On = "auto", master: Master = None, remote: Remote = None,
    baseline: Annotated[
        Path | None,
        typer.Option(help="A file of known violations. They are listed, but do not change the exit status."),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Write the violations of this check to the baseline file.")
    ] = False,
    pairs: AsPairs = False, safe_cells: SafeCells = False,
) -> None:  # fmt: skip
    """Find every row and every pair of rows that violates a rule."""
    wanted: list[Any] = [*(entries_of(rules) if rules is not None else ()), *(rule or ())]
    fails(set(), fail_on)
    if not wanted:
        raise HoldfastError("say which rules to check: --rules rules.yml, or --rule 'zip -> city'")
    announce()
    options: dict[str, Any] = {"key": keys_of(key or []), "types": types_of(type or [])}
    tables = tables_of(files)
    with ExitStack() as stack:
        if goes_to_spark(tables, on):
            tables = stack.enter_context(frames_of(files, master, remote))
            options |= {"on": "spark", "types": None}
        else:
            options["reading"] = reading_of(delimiter, encoding, date_format, null_values)
            options["progress"] = stack.enter_context(progress_bar("checking"))
        found = check(tables, wanted, nulls=nulls, **options)
        if isinstance(found, Found):
            tell_reading({name: table.read_as for name, table in found.book.tables.items()})
        results = [_result(found, entry, listed(limit, format)) for entry in found.entries]
    print_results(results, format, files, safe_cells, pairs=pairs)
    broken = [entry for entry in found.entries if exceeds_tolerance(entry, found.count(entry.id), _rows(found, entry))]
    if baseline is not None:
        broken = _not_in_baseline(found, broken, baseline, record)
    if fails({entry.severity for entry in broken}, fail_on):
        raise typer.Exit(VIOLATED)


def _rows(found: Any, entry: RuleEntry) -> int:
    """The number of rows of the table that a rule is about, in this process or on Spark."""
    if isinstance(found, Found):
        return found.book.count(table_of(entry.value, found.book.schemas))
    return int(found.rows(table_of(entry.value, found.schemas)))


def _not_in_baseline(found: Any, broken: list[RuleEntry], path: Path, record: bool) -> list[RuleEntry]:
    """The rules with violations that the baseline does not have; none if they are recorded now."""
    if not isinstance(found, Found):
        raise NotAvailable("a baseline is for tables that are checked in this process: --on process")
    baseline = Baseline.load(path)
    if record:
        baseline.record(found.book, [entry.id for entry in found.entries]).save(path)
        print(f"holdfast: recorded these violations in {path}", file=sys.stderr)
        return []
    return [entry for entry in broken if baseline.new_violations(found.book, entry.id, 1).num_rows]


def _result(found: Any, entry: RuleEntry, limit: int) -> RuleResult:
    table = found.pairs(entry.id, limit)
    pairs = [list(pair) for pair in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    groups = found.groups(entry.id, limit) if isinstance(found, Found) else None
    return RuleResult.of(entry, found.count(entry.id), found.error(entry.id), pairs, groups)
