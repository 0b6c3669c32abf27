"""`holdfast violations`: the violations that a rulebook has now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from holdfast.cli.on_spark import listed_pairs, session_of_book
from holdfast.cli.options import AsPairs, Directory, Form, Limit, Master, Remote, SafeCells, listed
from holdfast.cli.output import Format, Record, RuleResult, csv_lines, print_csv, print_records
from holdfast.cli.progress import announce, progress_bar
from holdfast.cli.results import print_results
from holdfast.cli.row_names import hides_names, named_violations
from holdfast.cli.terminal import print_exact
from holdfast.errors import HIDDEN, HoldfastError
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import table_of
from holdfast.rules.rulefile import RuleEntry
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.masking import Mask

_COLUMNS = ["id", "rule", "t", "s"]


def violations_command(
    directory: Directory,
    rule: Annotated[str | None, typer.Option("--rule", help="Only this rule: its id or text.")] = None,
    format: Form = Format.TABLE,
    limit: Limit = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every violation, however many there are. Needs --format csv.")
    ] = False,
    new: Annotated[bool, typer.Option("--new", help="Only violations that are not in the baseline.")] = False,
    pairs: AsPairs = False,
    safe_cells: SafeCells = False,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Show the violations that a rulebook has now."""
    if every and format is not Format.CSV:
        raise HoldfastError("--all prints csv: add --format csv")
    announce()
    with (
        session_of_book(directory, "auto", master, remote),
        progress_bar("loading") as progress,
        Rulebook.open(directory, progress=progress) as book,
    ):
        chosen, mask = book.entries if rule is None else (book.entry(rule),), Mask.of(book)
        if every:
            _print_every(book, chosen, mask, safe_cells)
        elif new:
            _print_new(book, chosen, mask, limit, format, safe_cells)
        else:
            results = [_result(book, entry, mask, listed(limit, format)) for entry in chosen]
            print_results(results, format, [str(directory)], safe_cells, pairs=pairs)


def _result(book: Any, entry: RuleEntry, mask: Mask, limit: int) -> RuleResult:
    if not isinstance(book, Rulebook):
        pairs = [] if hides_names(book, entry, mask) else listed_pairs(book.violations(entry.id), limit)
        return RuleResult.of(entry, book.count_violations(entry.id), book.error(entry.id), pairs)
    pairs = [list(pair.values()) for part in named_violations(book, entry, mask, limit) for pair in part]
    is_masked = mask.hides_any(table_of(entry.value, book.schemas))  # groups show values
    groups = None if is_masked else book.violating_groups(entry.id, limit)
    return RuleResult.of(entry, book.count_violations(entry.id), book.error(entry.id), pairs, groups)


def _print_new(
    book: Rulebook, chosen: Iterable[RuleEntry], mask: Mask, limit: int | None, format: Format, safe_cells: bool
) -> None:
    baseline, most = Baseline.of(book), listed(limit, Format.JSON)
    records: list[Record] = []
    for entry in chosen:
        new = baseline.new_violations(book, entry.id, most).to_pylist()
        if hides_names(book, entry, mask):
            new = [{"t": HIDDEN, "s": HIDDEN} for _ in new]
        records += [{"id": entry.id, "rule": entry.rule, "t": row["t"], "s": row["s"]} for row in new]
    if not records and format is Format.TABLE:
        print("no violations that are not in the baseline")
        return
    print_records("violations", records, _COLUMNS, format, safe_cells)


def _print_every(book: Rulebook, chosen: Iterable[RuleEntry], mask: Mask, safe_cells: bool) -> None:
    """Prints all violations as CSV, a part at a time."""
    print_csv([], _COLUMNS)
    for entry in chosen:
        for part in named_violations(book, entry, mask):
            records = [{"id": entry.id, "rule": entry.rule} | pair for pair in part]
            for line in csv_lines(records, _COLUMNS, safe_cells):
                print_exact(line)
