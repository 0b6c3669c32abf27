"""The commands about rules and rulebooks: check, init, apply, violations, rules, history, explain."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

import holdfast
from holdfast.check import Found, check
from holdfast.cli.files import frames_of, goes_to_spark, keys_of, size_of, tables_of, types_of
from holdfast.cli.output import Format, Record, RuleResult, as_csv, as_json, as_junit, as_sarif, print_table
from holdfast.cli.rules import SHOWN, Compare, CrossColumns, EvidenceOf, MaxError, MaxSize, Measure, records_of
from holdfast.errors import HoldfastError
from holdfast.indexes.named import DEFAULT, INDEXES
from holdfast.rulebook import DEFAULT_KEEP, Rulebook
from holdfast.rules.rulefile import RuleEntry, entries_of
from holdfast.rules.ruleset import RuleSet
from holdfast.table.change import read_feed
from holdfast.violations.detect import Progress
from holdfast.warm import is_warm

VIOLATED = 1
FOUND = "found"  # the status of rules that nobody gave
_SHOWN = 5  # rules that a batch changed

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
IndexName = Annotated[str, typer.Option("--index", help=f"What finds the pairs: {', '.join(INDEXES)}.")]
Limit = Annotated[int, typer.Option(min=0, help="Violations listed for each rule.")]
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


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """A bar on stderr for work that takes a while; none where stderr is not a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows in indexes"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def announce() -> None:
    """Says that the first use takes a while."""
    if not is_warm():
        print("holdfast: compiling the kernels once, about half a minute", file=sys.stderr, flush=True)


def rules_of(file: Path | None, texts: list[str] | None) -> list[Any]:
    made: list[Any] = entries_of(file) if file is not None else []
    return made + list(texts or [])


def check_command(
    files: Files, rules: RuleFileOption = None, rule: RuleOption = None, key: Key = None, type: Types = None,
    nulls: Nulls = "sql", format: Form = Format.TABLE, limit: Limit = 100, fail_on: FailOn = "error",
    index: IndexName = DEFAULT, on: On = "auto",
) -> None:  # fmt: skip
    """Find every row and pair of rows that violates a rule."""
    wanted = rules_of(rules, rule)
    fails(set(), fail_on)
    if not wanted:
        raise HoldfastError("say which rules to check: --rules rules.yml, or --rule 'zip -> city'")
    announce()
    options: dict[str, Any] = {"key": keys_of(key or []), "types": types_of(type or []), "index": index}
    tables = tables_of(files)
    with ExitStack() as stack:
        if goes_to_spark(tables, on):
            tables = stack.enter_context(frames_of(tables))
            options["on"] = "spark"
        progress = stack.enter_context(progress_bar("checking"))
        found = check(tables, wanted, nulls=nulls, progress=progress, **options)
        results = [_result(found, entry, limit) for entry in found.entries]
        stack.callback(getattr(found, "close", bool))
    _print_results(results, format, files)
    broken: set[str] = {
        e.severity for e, r in zip(found.entries, results, strict=True) if r.count and r.error > e.tolerance
    }
    if fails(broken, fail_on):
        raise typer.Exit(VIOLATED)


def _result(found: Any, entry: RuleEntry, limit: int) -> RuleResult:
    table = found.pairs(entry.id, limit)
    pairs = [list(pair) for pair in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    count, error = found.count(entry.id), found.error(entry.id)
    return RuleResult(entry.id, entry.rule, entry.value.kind, entry.severity, count, error, pairs)


def _print_results(results: list[RuleResult], format: Format, files: list[str]) -> None:
    if format is Format.JSON:
        print(as_json({"violations": [r.record() for r in results]}))
    elif format is Format.JUNIT:
        print(as_junit(results))
    elif format is Format.SARIF:
        print(as_sarif(results, files, holdfast.__version__))
    elif format is Format.CSV:
        rows = [{"id": r.id, "rule": r.rule, **_sides(pair)} for r in results for pair in r.pairs]
        print(as_csv(rows, ["id", "rule", "t", "s"]))
    else:
        _print_tables(results)


def _print_tables(results: list[RuleResult], examples: int = 5) -> None:
    console = Console()
    print_table(console, "rules", [r.record() for r in results], ["rule", "count", "error"])
    for r in results:
        if r.pairs:
            shown = [_sides(pair) for pair in r.pairs[:examples]]
            print_table(console, f"{r.rule}: the first {len(shown)} of {r.count:,}", shown, list(shown[0]))


def _sides(pair: list[Any]) -> Record:
    return dict(zip(("t", "s"), pair, strict=False))


def fails(severities: set[str], fail_on: str) -> bool:
    levels = {"error": {"error"}, "warn": {"error", "warn"}, "none": set()}
    if fail_on not in levels:
        raise HoldfastError(f"--fail-on is error, warn or none, not {fail_on!r}")
    return bool(severities & levels[fail_on])


OnlyInserts = Annotated[
    bool, typer.Option(help="A promise: what deletes or updates rows is refused, and inclusions need less memory.")
]


def init_command(
    directory: Directory, files: Files, rules: RuleFileOption = None, rule: RuleOption = None, key: Key = None,
    type: Types = None, nulls: Nulls = "sql", keep: Keep = DEFAULT_KEEP, kind: FollowedKinds = None,
    found_nulls: FoundNulls = "equal", max_error: MaxError = 0.0, error: Measure = None, max_size: MaxSize = "default",
    compare: Compare = "typed", cross_columns: CrossColumns = True, evidence: EvidenceOf = "auto",
    only_inserts: OnlyInserts = False,
) -> None:  # fmt: skip
    """Make a rulebook: tables, rules whose violations are followed from now on, and kinds of rules to find and keep."""
    announce()
    options: dict[str, Any] = {"key": keys_of(key or []), "types": types_of(type or []), "rule_nulls": nulls}
    options |= {"keep": keep, "kinds": kind or (), "nulls": found_nulls}
    options |= {"max_error": max_error, "error": error, "max_size": size_of(max_size)}
    options |= {"compare": compare, "only_inserts": only_inserts, "cross_columns": cross_columns, "evidence": evidence}
    with progress_bar("checking") as progress:
        book = Rulebook.create(directory, tables_of(files), rules=rules_of(rules, rule), progress=progress, **options)
    with book:
        tables = ", ".join(f"{name} ({book.count(name):,} rows)" for name in book.schemas)
        found = f"; {len(book.found()):,} found" if kind else ""
        print(f"{directory}: {tables}; {len(book.entries)} rules{found}")


def apply_command(
    directory: Directory,
    changes: Annotated[str, typer.Argument(help="A change file: the table's columns and _change_type.")],
    batch: Annotated[str | None, typer.Option(help="The batch id, where the file has no _batch.")] = None,
    source: Annotated[str, typer.Option(help="Who sends the batches; ids are counted per source.")] = "default",
    quarantine: Annotated[bool, typer.Option(help="Keep bad rows apart instead of refusing the batch.")] = False,
    format: Form = Format.TABLE,
    limit: Limit = 100,
    fail_on: FailOn = "error",
) -> None:
    """Apply the batches of a change file and show which violations came and went."""
    fails(set(), fail_on)
    if format not in (Format.TABLE, Format.JSON, Format.CSV):
        raise HoldfastError(f"apply prints table, json or csv, not {format}")
    announce()
    broken: set[str] = set()
    records: list[Record] = []
    with progress_bar("loading") as progress, Rulebook.open(directory, progress=progress) as book:
        for name, feeds in read_feed(changes, batch=batch):
            out = book.apply(feeds, _batch_id(name), source=source, on_error="quarantine" if quarantine else "refuse")
            record = _batch_record(book, out, limit)
            broken |= {e.severity for e in book.entries if not out.skipped and _breaks(book, e, out)}
            records.append(record)
            if format is not Format.JSON:
                _print_batch(record, format)
    if format is Format.JSON:
        print(as_json(records[0] if len(records) == 1 else {"batches": records}))
    if fails(broken, fail_on):
        raise typer.Exit(VIOLATED)


def _batch_id(name: str | None) -> str | int | None:
    """Numbers are numbers, so that they must grow."""
    return int(name) if name is not None and re.fullmatch(r"-?[0-9]{1,18}", name) else name


def _breaks(book: Rulebook, entry: RuleEntry, out: holdfast.Outcome) -> bool:
    """Whether violations came that the rule's tolerance does not cover."""
    return out.violations.of(entry.id).count_added > 0 and book.error(entry.id) > entry.tolerance


def _batch_record(book: Rulebook, out: holdfast.Outcome, limit: int) -> Record:
    made = []
    for entry in book.entries if not out.skipped else ():
        found = out.violations.of(entry.id)
        pairs = {
            f"pairs_{which}": [list(p.values()) for p in listed.table.slice(0, limit).to_pylist()] if listed else []
            for which, listed in (("added", found.added), ("removed", found.removed))
        }
        made.append({"rule": entry.rule, "added": found.count_added, "removed": found.count_removed, **pairs})
    rules = {"added": out.rules.added.texts(), "removed": out.rules.removed.texts()}
    rows = {"rows": out.rows, "quarantined": len(out.quarantined), "drift": len(out.drift)}
    return {"batch": out.batch, "skipped": out.skipped, "rules": rules, "violations": made, **rows}


def _print_batch(record: Record, format: Format) -> None:
    if format is Format.CSV:
        rows = [{"batch": record["batch"]} | v for v in record["violations"]]
        print(as_csv(rows, ["batch", "rule", "added", "removed"]))
        return
    changed = [v for v in record["violations"] if v["added"] or v["removed"]]
    state = "skipped: known already" if record["skipped"] else str(record["rows"])
    for what in ("quarantined", "drift"):
        state += f"; {what}: {record[what]} rows" if record[what] else ""
    print_table(Console(), f"batch {record['batch']} ({state})", changed, ["rule", "added", "removed"])
    for change, texts in record["rules"].items():
        if texts:
            more = "" if len(texts) <= _SHOWN else f", and {len(texts) - _SHOWN:,} more"
            print(f"rules {change}: {'; '.join(texts[:_SHOWN])}{more}")


def violations_command(
    directory: Directory,
    rule: Annotated[str | None, typer.Option("--rule", help="Only this rule: its id or text.")] = None,
    format: Form = Format.TABLE,
    limit: Limit = 100,
    every: Annotated[bool, typer.Option("--all", help="Every violation, however many (csv).")] = False,
) -> None:
    """Show the violations that a rulebook has now."""
    if every and format is not Format.CSV:
        raise HoldfastError("--all prints csv: add --format csv")
    announce()
    with progress_bar("loading") as progress, Rulebook.open(directory, progress=progress) as book:
        chosen = book.entries if rule is None else (book.entry(rule),)
        if every:
            _print_every(book, chosen)
            return
        found = Found(book)
        _print_results([_result(found, entry, limit) for entry in chosen], format, [str(directory)])


def _print_every(book: Rulebook, chosen: Iterable[RuleEntry]) -> None:
    """All violations, some at a time."""
    write = csv.DictWriter(sys.stdout, ["id", "rule", "t", "s"], lineterminator="\n")
    write.writeheader()
    for entry in chosen:
        for part in book.violation_parts(entry.id):
            write.writerows({"id": entry.id, "rule": entry.rule} | pair for pair in part.to_pylist())


def rules_command(
    directory: Directory,
    format: Form = Format.TABLE,
    version: Annotated[int | None, typer.Option(help="As of this version, if it is kept.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="All rules that were found, not only the shortest.")] = False,
) -> None:
    """List the rules of a rulebook: those it checks with the number of their violations, then those it found."""
    with Rulebook.open(directory, version=version) as book:
        records = [
            e.model_dump() | {"kind": e.value.kind, "violations": book.count_violations(e.id)} for e in book.entries
        ]
        found = book.found()
        records += _found_records(found, None if every else SHOWN, book.discovery_nulls)
    if not every and len(found) > sum(record["status"] == FOUND for record in records):
        print(f"holdfast: the shortest of {len(found):,} rules that were found; --all lists them all", file=sys.stderr)
    _print_records("rules", records, ["id", "kind", "rule", "severity", "status", "nulls", "violations"], format)


def _found_records(found: RuleSet, most: int | None, nulls: str) -> list[Record]:
    return [
        {"id": r["id"], "kind": r["kind"], "rule": r["text"], "status": FOUND, "nulls": nulls, "error": r["error"]}
        for block in records_of(found, most)
        for r in block
    ]


def history_command(directory: Directory, format: Form = Format.TABLE) -> None:
    """Show what each batch did."""
    with Rulebook.open(directory) as book:
        records = book.history().to_pylist()
    columns = ["version", "batch", "source", "time", "table", "inserted", "deleted", "updated", "quarantined", "drift"]
    columns += ["rules_added", "rules_removed"]
    _print_records("history", records, columns, format)


def _print_records(name: str, records: list[Record], columns: list[str], format: Format) -> None:
    if format is Format.JSON:
        print(as_json({name: [{c: r.get(c) for c in columns} for r in records]}))
    elif format is Format.CSV:
        print(as_csv(records, columns))
    elif format is Format.TABLE:
        print_table(Console(), name, records, columns)
    else:
        raise HoldfastError(f"{name} are printed as table, json or csv, not {format}")


def explain_command(
    directory: Directory,
    rule: Annotated[str, typer.Argument(help="The rule's id or text.")],
    limit: Annotated[int, typer.Option(min=1, help="How many rows, causes and clashes.")] = 10,
) -> None:
    """Say why a rule is violated: the worst rows, what they clash about, which rows to remove."""
    announce()
    with Rulebook.open(directory) as book:
        print(book.explain(rule, limit))


COMMANDS: dict[str, Callable[..., None]] = {
    "check": check_command,
    "init": init_command,
    "apply": apply_command,
    "violations": violations_command,
    "rules": rules_command,
    "history": history_command,
    "explain": explain_command,
}
