"""The commands that check tables and keep rulebooks: check, init, apply, violations."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

import holdfast
from holdfast.check import Found, check
from holdfast.cli.files import columns_of, frames_of, goes_to_spark, keys_of, size_of, tables_of, types_of
from holdfast.cli.options import (
    VIOLATED,
    Columns,
    Compare,
    CrossColumns,
    Directory,
    EvidenceOf,
    Exclude,
    FailOn,
    Files,
    FollowedKinds,
    Form,
    FoundNulls,
    Keep,
    Key,
    Limit,
    Masked,
    MaxError,
    MaxSize,
    Measure,
    Nulls,
    On,
    OnlyInserts,
    RuleFileOption,
    RuleOption,
    SafeCells,
    Suggest,
    Types,
    fails,
    listed,
)  # fmt: skip
from holdfast.cli.output import (
    Format,
    Record,
    RuleResult,
    as_json,
    as_junit,
    as_sarif,
    csv_lines,
    print_csv,
    print_records,
    print_table,
)  # fmt: skip
from holdfast.cli.progress import announce, discovery_bar, progress_bar
from holdfast.cli.terminal import Console, print_exact
from holdfast.discover import search
from holdfast.discovery.budget import Progress as SearchProgress
from holdfast.discovery.search_options import DEFAULT_KINDS, SearchOptions
from holdfast.errors import HIDDEN, HoldfastError, NotAvailable, ReadError, discreet
from holdfast.pipeline.addresses import AlertAddresses
from holdfast.pipeline.landing import content_hash
from holdfast.ranking.rank import DEFAULT_MOST, Ranked
from holdfast.rulebook import DEFAULT_KEEP, Rulebook
from holdfast.rules.bind import table_of
from holdfast.rules.rule import Key as RuleKey
from holdfast.rules.rulefile import RuleEntry, entries_of
from holdfast.rules.wording import counted
from holdfast.table.change import read_feed
from holdfast.violations.listing import Listed, id_table
from holdfast.workflow.alerts import Alert, alerts_of_batch
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.decisions import ACCEPTED, SUGGESTED, Decisions, adopt, deciding, file_of, write
from holdfast.workflow.masking import Mask

_SHOWN = 5  # rules that a batch changed


def rules_of(file: Path | None, texts: list[str] | None) -> list[Any]:
    made: list[Any] = entries_of(file) if file is not None else []
    return made + list(texts or [])


def check_command(
    files: Files, rules: RuleFileOption = None, rule: RuleOption = None, key: Key = None, type: Types = None,
    nulls: Nulls = "sql", format: Form = Format.TABLE, limit: Limit = None, fail_on: FailOn = "error",
    on: On = "auto",
    baseline: Annotated[
        Path | None, typer.Option(help="A file of known violations: only others count for the exit status.")
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Write what is found into the baseline.")] = False,
    safe_cells: SafeCells = False,
) -> None:  # fmt: skip
    """Find every row and pair of rows that violates a rule."""
    wanted = rules_of(rules, rule)
    fails(set(), fail_on)
    if not wanted:
        raise HoldfastError("say which rules to check: --rules rules.yml, or --rule 'zip -> city'")
    announce()
    options: dict[str, Any] = {"key": keys_of(key or []), "types": types_of(type or [])}
    tables = tables_of(files)
    with ExitStack() as stack:
        if goes_to_spark(tables, on):
            tables = stack.enter_context(frames_of(tables))
            options["on"] = "spark"
        progress = stack.enter_context(progress_bar("checking"))
        found = check(tables, wanted, nulls=nulls, progress=progress, **options)
        results = [_result(found, entry, listed(limit, format)) for entry in found.entries]
        stack.callback(getattr(found, "close", bool))
    _print_results(results, format, files, safe_cells)
    broken = [e for e, r in zip(found.entries, results, strict=True) if r.count and r.error > e.tolerance]
    if baseline is not None:
        broken = _unknown(found, broken, baseline, record)
    if fails({entry.severity for entry in broken}, fail_on):
        raise typer.Exit(VIOLATED)


def _unknown(found: Any, broken: list[RuleEntry], path: Path, record: bool) -> list[RuleEntry]:
    """The rules that have violations which are not known; none, where they are recorded now."""
    if not isinstance(found, Found):
        raise NotAvailable("a baseline is for tables that are checked in this process: --on process")
    known = Baseline.load(path)
    if record:
        known.record(found.book, [entry.id for entry in found.entries]).save(path)
        print(f"holdfast: {path} knows these violations now", file=sys.stderr)
        return []
    new = {entry.id: known.new_violations(found.book, entry.id, 1).num_rows for entry in broken}
    return [entry for entry in broken if new[entry.id]]


def _result(found: Any, entry: RuleEntry, limit: int) -> RuleResult:
    table = found.pairs(entry.id, limit)
    pairs = [list(pair) for pair in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    count, error = found.count(entry.id), found.error(entry.id)
    return RuleResult(entry.id, entry.rule, entry.value.kind, entry.severity, count, error, pairs)


def _print_results(results: list[RuleResult], format: Format, files: list[str], safe_cells: bool) -> None:
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
            shown = [{side: str(name) for side, name in _sides(pair).items()} for pair in r.pairs]
            print_table(console, f"{r.rule}: the first {len(shown)} of {r.count:,}", shown, list(shown[0]))


def _sides(pair: list[Any]) -> Record:
    return dict(zip(("t", "s"), pair, strict=False))


def init_command(
    directory: Directory, files: Files, rules: RuleFileOption = None, rule: RuleOption = None, key: Key = None,
    type: Types = None, columns: Columns = None, exclude: Exclude = None, nulls: Nulls = "sql",
    keep: Keep = DEFAULT_KEEP, kind: FollowedKinds = None, found_nulls: FoundNulls = "equal", max_error: MaxError = 0.0,
    error: Measure = None, max_size: MaxSize = "default", compare: Compare = "typed",
    cross_columns: CrossColumns = True, evidence: EvidenceOf = "auto", only_inserts: OnlyInserts = False,
    suggest: Suggest = DEFAULT_MOST, mask: Masked = None,
) -> None:  # fmt: skip
    """Make a rulebook: tables, rules whose violations are followed from now on, kinds of rules to find and keep true.

    What people decide about rules is in its file rules.yml: those given are accepted, those worth reading suggested.
    """
    announce()
    found: dict[str, Any] = {"nulls": found_nulls, "max_error": max_error, "error": error, "compare": compare}
    found |= {"max_size": size_of(max_size), "cross_columns": cross_columns, "evidence": evidence}
    options: dict[str, Any] = {"key": keys_of(key or []), "types": types_of(type or []), "rule_nulls": nulls}
    options |= {"columns": columns_of(columns), "exclude": columns_of(exclude)}
    options |= {"keep": keep, "kinds": kind or (), "only_inserts": only_inserts}
    decided = file_of(rule or [], rules)
    accepted = [entry for entry in decided if entry.status == ACCEPTED]
    masked = sorted({*decided.mask, *(mask or ())})
    if masked:
        decided.set_mask(masked)
    options |= {"mask": masked}
    with progress_bar("checking") as progress:
        book = Rulebook.create(directory, tables_of(files), rules=accepted, progress=progress, **options, **found)
    with book:
        write(directory, decided)
        if suggest:
            with deciding(book) as decisions, discovery_bar() as progress_of_search:
                decisions.suggest(_worth_suggesting(book, kind or (), found, suggest, progress_of_search), found_nulls)
        tables = ", ".join(f"{name} ({book.count(name):,} rows)" for name in book.schemas)
        followed = f"; {len(book.found()):,} found and followed" if kind else ""
        print(f"{directory}: {tables}; {counted(len(book.entries), 'rule')} checked{followed}")
        suggested = len(Decisions.of(book).with_status(SUGGESTED))
        if suggested:
            print(f"{counted(suggested, 'rule')} suggested in {directory}/rules.yml: holdfast rules {directory}")


def _worth_suggesting(
    book: Rulebook, kinds: Sequence[str], options: Record, most: int, progress: SearchProgress
) -> list[Ranked]:
    """Of the rules that the book follows; where it follows none, of a search of a minute at most."""
    if kinds:
        best = book.best(most)
    else:
        best = search(book.encoded, SearchOptions(DEFAULT_KINDS, **options), progress=progress).best(most)
    keys = {(table.key, name) for name, table in book.tables.items()}
    return [r for r in best if not (isinstance(r.rule, RuleKey) and _is_declared(r.rule, keys))]


def _is_declared(rule: RuleKey, keys: set[tuple[tuple[str, ...], str]]) -> bool:
    """Whether it is the key by which a table's rows go anyway."""
    return any(set(key) == rule.columns and rule.table in (None, table) for key, table in keys)


def apply_command(
    directory: Directory,
    changes: Annotated[str, typer.Argument(help="A change file: the table's columns and _change_type.")],
    batch: Annotated[str | None, typer.Option(help="The batch id, where the file has no _batch.")] = None,
    source: Annotated[str, typer.Option(help="Who sends the batches; ids are counted per source.")] = "default",
    quarantine: Annotated[bool, typer.Option(help="Keep bad rows apart instead of refusing the batch.")] = False,
    format: Form = Format.TABLE,
    limit: Limit = None,
    fail_on: FailOn = "error",
    alert: Annotated[
        list[str] | None, typer.Option(help="Tell this Apprise address of alerts (mailto://, slack://, json://, ...).")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Apply a file that was applied before once more.")] = False,
    safe_cells: SafeCells = False,
) -> None:
    """Apply the batches of a change file and show which violations came and went.

    The book first takes over what was accepted or retired in its rules.yml. Alerts are violations of accepted rules
    beyond their tolerance that the baseline does not know; one that cannot be delivered is kept, and delivered by the
    next `apply --alert` to that address. A file without batch ids is known by its content: it is applied twice only
    with --again.
    """
    fails(set(), fail_on)
    if format not in (Format.TABLE, Format.JSON, Format.CSV):
        raise HoldfastError(f"apply prints table, json or csv, not {format}")
    announce()
    alerts: list[Alert] = []
    records: list[Record] = []
    with progress_bar("loading") as progress, Rulebook.open(directory, progress=progress) as book:
        _take_decisions(book)
        Baseline.of(book)  # a damaged one is said before anything is applied
        addresses = AlertAddresses(book, directory, alert or ())
        alerts += addresses.deliver()  # what earlier commands could not
        with discreet(bool(book.masked)):
            content = _content_of(Path(changes))
            batches = read_feed(changes, batch=batch)
        how: Record = {"source": source, "on_error": "quarantine" if quarantine else "refuse"}
        for name, feeds in batches:
            if name is None and not again:
                _require_new(book, content, changes)
            offsets = content if name is None or name == batch else None  # a file of many batches may grow
            out = book.apply(feeds, _batch_id(name), offsets=offsets, **how)
            mine = alerts_of_batch(book, out)
            record = _batch_record(book, out, listed(limit, Format.JSON)) | {"alerts": [a.record() for a in mine]}
            alerts += mine
            records.append(record)
            if format is not Format.JSON:
                _print_batch(record, format, safe_cells)
        if format is Format.JSON:
            print(as_json(records[0] if len(records) == 1 else {"batches": records}))
        addresses.deliver()
        addresses.require_delivered()
    if fails({a.severity for a in alerts}, fail_on):
        raise typer.Exit(VIOLATED)


def _content_of(path: Path) -> str:
    """What a change file is known by."""
    try:
        return json.dumps({"sha256": content_hash(path)})
    except OSError as error:
        raise ReadError(f"{path}: cannot be read: {error.strerror}") from None


def _require_new(book: Rulebook, content: str, file: str) -> None:
    """Refuses a file whose content the book has already, from whatever source."""
    digest = json.loads(content)["sha256"]
    for record in book.records():
        if digest in (record.get("offsets") or ""):
            raise HoldfastError(
                f"{file}: this content was applied already, as batch {record['batch']} (version {record['version']}); "
                f"nothing was applied. To apply it once more: --again"
            )


def _take_decisions(book: Rulebook) -> None:
    """Lets the book check what is accepted now, and says so where that changed."""
    before = {entry.id: entry.rule for entry in book.entries}
    if adopt(book) is not None:
        after = {entry.id: entry.rule for entry in book.entries}
        came = [after[id_] for id_ in after if id_ not in before]
        went = [before[id_] for id_ in before if id_ not in after]
        told = [f"{what}: {'; '.join(rules)}" for what, rules in (("accepted", came), ("retired", went)) if rules]
        print(f"holdfast: rules.yml changed: {', '.join(told) or 'fields of rules'}", file=sys.stderr)


def _batch_id(name: str | None) -> str | int | None:
    """Numbers are numbers, so that they must grow."""
    return int(name) if name is not None and re.fullmatch(r"-?[0-9]{1,18}", name) else name


def _batch_record(book: Rulebook, out: holdfast.Outcome, limit: int) -> Record:
    made, mask = [], Mask.of(book)
    for entry in book.entries if not out.skipped else ():
        found = out.violations.of(entry.id)
        hidden = mask.hides_names(table_of(entry.value, book.schemas))
        pairs = {
            f"pairs_{which}": _pairs(listed, hidden, limit) if listed else []
            for which, listed in (("added", found.added), ("removed", found.removed))
        }
        made.append({"rule": entry.rule, "added": found.count_added, "removed": found.count_removed, **pairs})
    rules = {"added": out.rules.added.texts(), "removed": out.rules.removed.texts()}
    rows: Record = {"rows": out.rows, "quarantined": len(out.quarantined), "drift": len(out.drift)}
    reasons = [mask.quarantined(vars(bad)) for bad in out.quarantined[:_SHOWN]]
    rows["reasons"] = [f"{bad['place']}: {bad['reason']}" for bad in reasons]
    return {"batch": out.batch, "skipped": out.skipped, "rules": rules, "violations": made, **rows}


def _pairs(listed: Listed, hidden: bool, limit: int) -> list[list[Any]]:
    """Rows by name; by #id where their key is masked."""
    table = id_table(listed.pairs) if hidden else listed.table
    rows = [list(pair.values()) for pair in table.slice(0, limit).to_pylist()]
    return [[f"#{row}" for row in pair] for pair in rows] if hidden else rows


def _print_batch(record: Record, format: Format, safe_cells: bool) -> None:
    if format is Format.CSV:
        rows = [{"batch": record["batch"]} | v for v in record["violations"]]
        print_csv(rows, ["batch", "rule", "added", "removed"], safe_cells)
        return
    changed = [v for v in record["violations"] if v["added"] or v["removed"]]
    moved = ", ".join(f"{t} +{n['inserted']:,} -{n['deleted']:,} ~{n['updated']:,}" for t, n in record["rows"].items())
    state = "skipped: known already" if record["skipped"] else f"{moved} rows"
    for what in ("quarantined", "drift"):
        state += f"; {what}: {record[what]} rows" if record[what] else ""
    title = f"batch {record['batch']}: {state}"
    if changed:
        print_table(Console(), title, changed, ["rule", "added", "removed"])
    else:
        print(title)
    for reason in record["reasons"]:
        print(f"quarantined: {reason}")
    for alert in record["alerts"]:
        examples = "; ".join(" with ".join(map(str, pair)) for pair in alert["examples"][:_SHOWN])
        print(f"[{alert['severity']}] {alert['rule']}: {alert['message']}{f': rows {examples}' if examples else ''}")
    for change, texts in record["rules"].items():
        if texts:
            more = "" if len(texts) <= _SHOWN else f", and {len(texts) - _SHOWN:,} more"
            print(f"rules {change}: {'; '.join(texts[:_SHOWN])}{more}")


def violations_command(
    directory: Directory,
    rule: Annotated[str | None, typer.Option("--rule", help="Only this rule: its id or text.")] = None,
    format: Form = Format.TABLE,
    limit: Limit = None,
    every: Annotated[bool, typer.Option("--all", help="Every violation, however many (csv).")] = False,
    new: Annotated[bool, typer.Option("--new", help="Only those that the baseline does not know.")] = False,
    safe_cells: SafeCells = False,
) -> None:
    """Show the violations that a rulebook has now."""
    if every and format is not Format.CSV:
        raise HoldfastError("--all prints csv: add --format csv")
    announce()
    with progress_bar("loading") as progress, Rulebook.open(directory, progress=progress) as book:
        chosen = book.entries if rule is None else (book.entry(rule),)
        if every:
            _print_every(book, chosen, safe_cells)
            return
        if new:
            _print_new(book, chosen, limit, format, safe_cells)
            return
        found, mask = Found(book), Mask.of(book)
        results = [_hiding(book, mask, _result(found, e, listed(limit, format))) for e in chosen]
        _print_results(results, format, [str(directory)], safe_cells)


def _hiding(book: Rulebook, mask: Mask, result: RuleResult) -> RuleResult:
    """A result with rows by #id, where their key is masked."""
    if not mask.hides_names(table_of(book.entry(result.id).value, book.schemas)):
        return result
    parts = pa.concat_tables(book.violation_ids(result.id, len(result.pairs))).to_pylist()
    return replace(result, pairs=[[f"#{row}" for row in pair.values()] for pair in parts])


def _print_new(
    book: Rulebook, chosen: Iterable[RuleEntry], limit: int | None, format: Format, safe_cells: bool
) -> None:
    known, most, mask = Baseline.of(book), listed(limit, Format.JSON), Mask.of(book)
    rows = []
    for entry in chosen:
        new = known.new_violations(book, entry.id, most).to_pylist()
        if mask.hides_names(table_of(entry.value, book.schemas)):
            new = [{"t": HIDDEN, "s": HIDDEN} for _ in new]
        rows += [{"id": entry.id, "rule": entry.rule, "t": row["t"], "s": row["s"]} for row in new]
    if not rows and format is Format.TABLE:
        print("no violations that the baseline does not know")
        return
    print_records("violations", rows, ["id", "rule", "t", "s"], format, safe_cells)


def _print_every(book: Rulebook, chosen: Iterable[RuleEntry], safe_cells: bool) -> None:
    """All violations, some at a time."""
    columns, mask = ["id", "rule", "t", "s"], Mask.of(book)
    print_csv([], columns)
    for entry in chosen:
        hidden = mask.hides_names(table_of(entry.value, book.schemas))
        for part in book.violation_ids(entry.id) if hidden else book.violation_parts(entry.id):
            rows = part.to_pylist()
            if hidden:
                rows = [{side: f"#{row}" for side, row in pair.items()} for pair in rows]
            records = [{"id": entry.id, "rule": entry.rule} | pair for pair in rows]
            for line in csv_lines(records, columns, safe_cells):
                print_exact(line)


COMMANDS: dict[str, Callable[..., None]] = {
    "check": check_command,
    "init": init_command,
    "apply": apply_command,
    "violations": violations_command,
}
