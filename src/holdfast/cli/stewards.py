"""`holdfast rules` and `holdfast history`: decide about rules, and see what happened to them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Directory, Form, SafeCells
from holdfast.cli.output import Format, Record, print_records
from holdfast.cli.records import every_record
from holdfast.errors import HoldfastError, NotAvailable, RuleError, StoreError, shown
from holdfast.report.facts import Line, lines_of
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import forms
from holdfast.rules.grammar import parse
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sentence import standing
from holdfast.rules.wording import counted
from holdfast.table.schema import unknown_name
from holdfast.workflow.baseline import FILE as BASELINE
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.decisions import ACCEPTED, REJECTED, RETIRED, SUGGESTED, Decisions, adopt, deciding, found_as
from holdfast.workflow.history import History
from holdfast.workflow.masking import Mask
from holdfast.workflow.suggestions import best_survivors, refresh_suggestions

FOUND = "found"  # the status of rules without a decision
STATUS = (ACCEPTED, SUGGESTED, REJECTED, RETIRED, FOUND)
_HISTORY_COLUMNS = ["version", "batch", "when", "rows", "rules", "violations", "now"]
_STATUS_AFTER = {"accept": ACCEPTED, "reject": REJECTED, "retire": RETIRED}
_ACTIONS = (*_STATUS_AFTER, "suggest", "baseline", "mask", "unmask")
_MAX_BAR = 40  # characters


def rules_command(
    words: Annotated[
        list[str],
        typer.Argument(
            help="`DIR` lists the rules. `accept DIR RULE...`, `reject`, `retire` decide about rules, by id or text. "
            "`baseline DIR [RULE...]` records the current violations as known. `suggest DIR` suggests found rules, "
            "ranks suggestions by what they survived, and withdraws those that do not hold any more. "
            "`mask DIR COLUMN...` hides the values of columns, `unmask` shows them again.",
            metavar="[accept|reject|retire|baseline|suggest|mask|unmask] DIR [RULE|COLUMN...]",
            show_default=False,
        ),
    ],
    severity: Annotated[str | None, typer.Option(help="With accept: error, warn or info.")] = None,
    owner: Annotated[str | None, typer.Option(help="With accept: the owner of the rule.")] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="With accept: the share of pairs of rows (or of rows) that may violate it."
        ),
    ] = None,
    status: Annotated[
        str | None, typer.Option(help="List only rules that are accepted, suggested, rejected, retired or found.")
    ] = None,
    format: Form = Format.TABLE,
    version: Annotated[
        int | None, typer.Option(help="List the rules as of this version, if it is kept.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List all found rules, not only those worth reading.")] = False,
    safe_cells: SafeCells = False,
) -> None:
    """List the rules of a rulebook, or decide about them.

    Decisions are in the file rules.yml of the rulebook; you may also edit it. A rejected rule is never suggested again.
    """
    if words[0] not in _ACTIONS:
        if len(words) > 1:
            raise HoldfastError(f"{words[0]} is not one of {', '.join(_ACTIONS)}")
        _list(Path(words[0]), status, format, version, every, safe_cells)
        return
    action, *arguments = words
    if not arguments:
        raise HoldfastError(f"say which rulebook: holdfast rules {action} DIR")
    fields = {"severity": severity, "owner": owner, "tolerance": tolerance}
    _decide(action, Path(arguments[0]), arguments[1:], fields)


def _decide(action: str, directory: Path, rules: list[str], fields: Record) -> None:
    with Rulebook.open(directory) as book:
        if action == "baseline":
            _record_baseline(book, rules)
            return
        if action in ("mask", "unmask"):
            _mask(book, action, rules)
            return
        if action == "suggest":
            if not isinstance(book, Rulebook):
                raise NotAvailable("the rows of this rulebook are on Spark, where nothing is suggested")
            with deciding(book) as decisions:
                new, withdrawn = refresh_suggestions(decisions, book, best_survivors(book))
            print(f"{counted(len(new), 'rule')} suggested")
            for rule in withdrawn:
                print(f"withdrawn, because it does not hold any more: {rule}")
            return
        if not rules:
            raise HoldfastError(f"say which rules to {action}: by id or text")
        with deciding(book) as decisions:
            entries = [decisions.decide(rule, _STATUS_AFTER[action], book=book, **fields) for rule in rules]
        for entry in entries:
            print(f"{entry.status}: {entry.id} {entry.rule}")
        _adopt_now(book)


def _mask(book: Rulebook, action: str, columns: list[str]) -> None:
    """Hides the values of columns, or shows them again. Changes both the manifest and rules.yml."""
    if not columns:
        raise HoldfastError(f"say which columns to {action}: ssn, or people.ssn for one table")
    with deciding(book) as decisions:
        masked = book.masked | decisions.masked
        for column in columns:
            if action == "unmask" and column not in masked:
                raise HoldfastError(f"{unknown_name('masked column', column, sorted(masked))}")
        masked = masked | {*columns} if action == "mask" else masked - {*columns}
        version = book.alter(mask=masked)
        decisions.mask(masked)
    print(f"version {version} masks {', '.join(sorted(masked)) or 'nothing'}")


def _adopt_now(book: Rulebook) -> None:
    """Makes decisions take effect at once. If the rulebook cannot be written now, the next batch does it."""
    try:
        version = adopt(book)
    except StoreError as error:
        message = f"saved in rules.yml; takes effect with the next batch (the rulebook cannot be written now: {error})"
        print(f"holdfast: {message}", file=sys.stderr)
        return
    if version is not None:
        print(f"version {version} checks {counted(len(book.entries), 'rule')}")


def _record_baseline(book: Rulebook, rules: list[str]) -> None:
    if book.path is None:
        raise StoreError("a baseline needs a rulebook in a local directory")
    chosen = [book.entry(rule).id for rule in rules] or [entry.id for entry in book.entries]
    baseline = Baseline.of(book).record(book, chosen)
    baseline.save(book.path / BASELINE)
    for id_ in chosen:
        print(f"{book.entry(id_).rule}: {counted(baseline.count(id_), 'violation')} known")


def _list(
    directory: Path, status: str | None, format: Format, version: int | None, every: bool, safe_cells: bool
) -> None:
    if status is not None and status not in STATUS:
        raise HoldfastError(unknown_name("status", status, list(STATUS)))
    with Rulebook.open(directory, version=version) as book:
        found = book.found()
        lines = lines_of(book) if version is None else []
        survivors = [] if every else best_survivors(book)
        survived = {one.id: one.survived for one in survivors}
        records = [
            _line_record(line) | {"survived": survived.get(line.id, "")}
            for line in lines
            if _is_current(line, found, book)
        ]
        if version is not None:
            records = [_entry_record(book, entry) for entry in book.entries]
        decided = {entry.value.id for entry in book.entries} if version is not None else Decisions.of(book).rule_ids
        best = every_record(found) if every else [one.record() | {"survived": one.survived} for one in survivors]
        records += [
            {"id": r["id"], "kind": r["kind"], "rule": r["text"], "status": FOUND, "nulls": book.discovery_nulls}
            | {"sentence": r["sentence"], "error": r["error"], "survived": r.get("survived", "")}
            for r in best
            if r["id"] not in decided
        ]
    chosen = [record for record in records if status is None or record["status"] == status]
    if not every and len(found) > len(best):
        print(f"holdfast: the best {len(best)} of {len(found):,} found rules (--all: all)", file=sys.stderr)
    columns = [
        "id",
        "kind",
        "rule",
        "severity",
        "status",
        "owner",
        "nulls",
        "filter",
        "violations",
        "known",
        "sentence",
        "survived",
    ]
    if format is Format.TABLE:
        columns = ["id", "status", "violations", "rule", "sentence"]
        columns += ["survived"] if any(record.get("survived") for record in chosen) else []
        chosen = [record | {"violations": _violations(record)} for record in chosen]
    print_records("rules", chosen, columns, format, safe_cells)


def _violations(record: Record) -> str:
    if record.get("violations") is None:
        return ""
    known = f" ({record['known']:,} known)" if record.get("known") else ""
    return f"{record['violations']:,}{known}"


def _is_current(line: Line, found: RuleSet, book: Rulebook) -> bool:
    """Whether to list a line: yes, except a suggestion that the book found to hold no longer."""
    found_of_kind = found.of(line.kind)
    if line.status != SUGGESTED or not len(found_of_kind):
        return True
    return any(rule in found_of_kind for rule in forms(parse(line.rule), book.schemas))


def _line_record(line: Line) -> Record:
    return vars(line) | {"owner": line.owner or None, "filter": line.filter or None}


def _entry_record(book: Rulebook, entry: RuleEntry) -> Record:
    count = book.count_violations(entry.id)
    words = standing(entry.value, count, where=entry.filter)
    return entry.model_dump() | {"kind": entry.value.kind, "violations": count, "sentence": words}


def history_command(
    directory: Directory,
    rule: Annotated[
        str | None, typer.Option("--rule", help="Show the events of one rule, by id or text, and its trend.")
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="Show what happened to each rule, not only counts.")] = False,
    chart: Annotated[bool, typer.Option("--chart", help="Show the violations after each version as a chart.")] = False,
    quarantined: Annotated[bool, typer.Option("--quarantined", help="Show the quarantined rows, and why.")] = False,
    format: Form = Format.TABLE,
    safe_cells: SafeCells = False,
) -> None:
    """Show what each batch added and removed: rows, found rules, violations; or the history of a rule.

    Events of a rule: born (found), broken (by which rows), generalised or specialised (a shorter or longer rule holds
    instead); weakened or improved (more or fewer violations).
    """
    with Rulebook.open(directory) as book:
        if quarantined:
            columns = ["version", "batch", "table", "place", "change_type", "reason", "values"]
            print_records("quarantined", _quarantined(book), columns, format, safe_cells)
            return
        history = History(book)
        if rule is not None and not _knows(book, history, rule):
            raise HoldfastError(
                f"the rulebook does not know the rule {shown(rule)}; holdfast rules {directory} lists them"
            )
        if chart:
            _chart(history, rule)
            return
        if rule is not None or events:
            _print_events(book, history, rule, format, safe_cells)
            return
        if format is Format.TABLE:
            lines = [_line(record) for record in history.counts()]
            columns = [*_HISTORY_COLUMNS, "schema"] if any(line["schema"] for line in lines) else _HISTORY_COLUMNS
            print_records("history", lines, columns, format, safe_cells)
            return
        records = book.history().to_pylist()
    columns = ["version", "batch", "source", "time", "table", "inserted", "deleted", "updated", "quarantined", "drift"]
    print_records("history", records, [*columns, "rules_added", "rules_removed"], format, safe_cells)


def _quarantined(book: Rulebook) -> list[Record]:
    mask = Mask.of(book)
    records = [mask.quarantined(record) for record in book.quarantine_records()]
    values = [json.dumps(record["values"], default=str, ensure_ascii=False) for record in records]
    return [r | {"batch": str(r["batch"]), "values": text} for r, text in zip(records, values, strict=True)]


def _knows(book: Rulebook, history: History, rule: str) -> bool:
    return Decisions.of(book).known(rule) is not None or bool(history.events(rule)) or _is_found(book, rule)


def _is_found(book: Rulebook, rule: str) -> bool:
    try:
        return found_as(book, parse(rule)) is not None
    except RuleError:
        return False


def _line(record: Record) -> Record:
    """A version as a row of the table."""
    return {
        "version": record["version"],
        "batch": "" if record["batch"] == "None" else record["batch"],
        "when": _when(record["happened"] or record["time"]),
        "rows": f"+{record['inserted']:,} -{record['deleted']:,} ~{record['updated']:,}",
        "rules": f"+{record['rules_added']:,} -{record['rules_removed']:,}",
        "violations": f"+{record['violations_added']:,} -{record['violations_removed']:,}",
        "now": record["violations"],
        "schema": record["schema"],
    }


def _when(time: str) -> str:
    return time[:19].replace("T", " ")


def _print_events(book: Rulebook, history: History, rule: str | None, format: Format, safe_cells: bool) -> None:
    records: list[Record] = [event.record() for event in history.events(rule)]
    if format is Format.TABLE:
        records = [r | {"time": _when(r["time"]), "batch": "" if r["batch"] == "None" else r["batch"]} for r in records]
    columns = ["version", "batch", "time", "what", "rule", "by", "into"]
    columns = columns if format is Format.TABLE else [*columns, "id", "kind"]
    print_records("events", records, columns, format, safe_cells)
    if rule is not None and _is_checked(book, rule):
        points = history.trend(rule)
        held, breaks = history.stability(rule)
        versions = f"{round(held * len(points))} of {counted(len(points), 'version')}"
        print(f"without violations in {versions}; broken {counted(breaks, 'time')}", file=sys.stderr)


def _is_checked(book: Rulebook, rule: str) -> bool:
    try:
        return bool(book.entry(rule))
    except RuleError:
        return False


def _chart(history: History, rule: str | None) -> None:
    if rule is None:
        points = [(r["version"], r["time"], r["violations"]) for r in history.counts()]
    else:
        points = [(p.version, p.time, p.violations) for p in history.trend(rule)]
    most = max((count for _, _, count in points), default=0)
    for version, time, count in points:
        bar = "█" * (round(_MAX_BAR * count / most) if most else 0) or ("▏" if count else "")
        print(f"{version:>6}  {time[:19]}  {bar} {count:,}")
