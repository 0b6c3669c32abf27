"""The commands for who looks after rules: rules (accept, reject, retire, ...), history, explain."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.options import Directory, Form
from holdfast.cli.output import Format, Record, as_json, print_records
from holdfast.cli.progress import announce
from holdfast.cli.records import every_record
from holdfast.discovery.rank import DEFAULT_MOST
from holdfast.errors import HoldfastError, StoreError
from holdfast.rulebook import Rulebook
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sentence import clash, standing
from holdfast.rules.sql import violations_sql
from holdfast.rules.wording import counted
from holdfast.violations.explain import Explanation
from holdfast.violations.look import Look, Violation
from holdfast.workflow.baseline import FILE as BASELINE
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.decisions import ACCEPTED, REJECTED, RETIRED, SUGGESTED, Decisions, adopt, deciding
from holdfast.workflow.history import History
from holdfast.workflow.masking import Mask

FOUND = "found"  # the status of rules that nobody decided about
_STATUS = {"accept": ACCEPTED, "reject": REJECTED, "retire": RETIRED}
_ACTIONS = (*_STATUS, "suggest", "baseline")
_BAR = 40  # characters of a chart


def rules_command(
    words: Annotated[
        list[str],
        typer.Argument(
            help="DIR: list its rules. Or `accept DIR RULE...`, `reject`, `retire`, `baseline` (violations of accepted "
            "rules are known from now on), `suggest DIR`; a rule by id or text.",
            metavar="[accept|reject|retire|baseline|suggest] DIR [RULE...]",
            show_default=False,
        ),
    ],
    severity: Annotated[str | None, typer.Option(help="With accept: error, warn or info.")] = None,
    owner: Annotated[str | None, typer.Option(help="With accept: who looks after the rule.")] = None,
    tolerance: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="With accept: the error up to which violations are accepted.")
    ] = None,
    status: Annotated[
        str | None, typer.Option(help="List only: accepted, suggested, rejected, retired, found.")
    ] = None,
    format: Form = Format.TABLE,
    version: Annotated[int | None, typer.Option(help="As of this version, if it is kept.", show_default=False)] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All rules that were found, not only those worth reading.")
    ] = False,
) -> None:
    """List the rules of a rulebook, or decide about them.

    Decisions are in the rulebook's file rules.yml, which may be edited too. A rejected rule is never suggested again.
    """
    if words[0] not in _ACTIONS:
        if len(words) > 1:
            raise HoldfastError(f"{words[0]} is not one of {', '.join(_ACTIONS)}")
        _list(Path(words[0]), status, format, version, every)
        return
    action, *rest = words
    if not rest:
        raise HoldfastError(f"say which rulebook: holdfast rules {action} DIR")
    fields = {"severity": severity, "owner": owner, "tolerance": tolerance}
    _decide(action, Path(rest[0]), rest[1:], fields)


def _decide(action: str, directory: Path, rules: list[str], fields: Record) -> None:
    with Rulebook.open(directory) as book:
        if action == "baseline":
            _record_baseline(book, rules)
            return
        if action == "suggest":
            with deciding(book) as decisions:
                made = decisions.suggest(book.best(), book.discovery_nulls)
            print(f"{counted(len(made), 'rule')} suggested")
            return
        if not rules:
            raise HoldfastError(f"say which rules to {action}: by id or text")
        with deciding(book) as decisions:
            entries = [decisions.decide(rule, _STATUS[action], book=book, **fields) for rule in rules]
        for entry in entries:
            print(f"{entry.status}: {entry.id} {entry.rule}")
        _adopt_now(book)


def _adopt_now(book: Rulebook) -> None:
    """Lets decisions count at once, unless another process writes: then they do with its next batch."""
    try:
        version = adopt(book)
    except StoreError as error:
        print(f"holdfast: counts with the next batch of who writes the rulebook now ({error})", file=sys.stderr)
        return
    if version is not None:
        print(f"version {version} checks {counted(len(book.entries), 'rule')}")


def _record_baseline(book: Rulebook, rules: list[str]) -> None:
    if book.path is None:
        raise StoreError("a baseline needs a rulebook in a local directory")
    chosen = [book.entry(rule).id for rule in rules] or [entry.id for entry in book.entries]
    known = Baseline.of(book).record(book, chosen)
    known.save(book.path / BASELINE)
    for id_ in chosen:
        print(f"{book.entry(id_).rule}: {counted(known.count(id_), 'violation')} known")


def _list(directory: Path, status: str | None, format: Format, version: int | None, every: bool) -> None:
    with Rulebook.open(directory, version=version) as book:
        found = book.found()
        records = [_entry_record(book, entry) for entry in _entries(book, version) if _stands(entry, found)]
        known = {record["rule"] for record in records}
        best = every_record(found) if every else [ranked.record() for ranked in book.best(DEFAULT_MOST)]
        records += [
            {"id": r["id"], "kind": r["kind"], "rule": r["text"], "status": FOUND, "nulls": book.discovery_nulls}
            | {"sentence": r["sentence"], "error": r["error"]}
            for r in best
            if r["text"] not in known
        ]
    shown = [record for record in records if status is None or record["status"] == status]
    if not every and len(found) > len(best):
        print(f"holdfast: the best {len(best)} of {len(found):,} rules that were found; --all: all", file=sys.stderr)
    columns = ["id", "kind", "rule", "severity", "status", "owner", "nulls", "violations", "sentence"]
    if format is Format.TABLE:
        columns = ["id", "status", "rule", "violations", "sentence"]
    print_records("rules", shown, columns, format)


def _stands(entry: RuleEntry, found: RuleSet) -> bool:
    """Whether it is to be listed: not a suggestion of which the book knows that it no longer holds."""
    followed = found.of(entry.value.kind)
    return entry.status != SUGGESTED or not len(followed) or entry.value in followed


def _entries(book: Rulebook, version: int | None) -> list[RuleEntry]:
    """What was decided; of an older version, what it checked."""
    return list(book.entries) if version is not None else Decisions.of(book).entries


def _entry_record(book: Rulebook, entry: RuleEntry) -> Record:
    checked = any(entry.id == other.id for other in book.entries)
    count = book.count_violations(entry.id) if checked else None
    words = standing(entry.value, count) if count is not None else entry.description
    return entry.model_dump() | {"kind": entry.value.kind, "violations": count, "sentence": words}


def history_command(
    directory: Directory,
    rule: Annotated[str | None, typer.Option("--rule", help="Only this rule, by id or text: events and trend.")] = None,
    events: Annotated[bool, typer.Option("--events", help="What happened to each rule, not only counts.")] = False,
    chart: Annotated[bool, typer.Option("--chart", help="Violations after each version, as a chart.")] = False,
    format: Form = Format.TABLE,
) -> None:
    """Show what each batch did: rows, rules that came and went, violations; or the history of a rule.

    Rules are born, broken (by which rows), generalised, specialised; weakened or improved as violations come and go.
    """
    with Rulebook.open(directory) as book:
        history = History(book)
        if chart:
            _chart(history, rule)
            return
        if rule is not None or events:
            records: list[Record] = [event.record() for event in history.events(rule)]
            if format is Format.TABLE:
                records = [r | {"time": r["time"][:19].replace("T", " ")} for r in records]
            columns = ["version", "batch", "time", "what", "rule", "by", "into"]
            print_records("events", records, columns if format is Format.TABLE else [*columns, "id", "kind"], format)
            if rule is not None and any(rule in (e.id, e.rule, str(e.value)) for e in book.entries):
                held, breaks = history.stability(rule)
                print(f"held in {held:.0%} of the versions; broke {counted(breaks, 'time')}", file=sys.stderr)
            return
        records = book.history().to_pylist()
    columns = ["version", "batch", "source", "time", "table", "inserted", "deleted", "updated", "quarantined", "drift"]
    print_records("history", records, [*columns, "rules_added", "rules_removed"], format)


def _chart(history: History, rule: str | None) -> None:
    if rule is None:
        points = [(r["version"], r["time"], r["violations"]) for r in history.counts()]
    else:
        points = [(p.version, p.time, p.violations) for p in history.trend(rule)]
    most = max((count for _, _, count in points), default=0)
    for version, time, count in points:
        bar = "█" * (round(_BAR * count / most) if most else 0) or ("▏" if count else "")
        print(f"{version:>6}  {time[:19]}  {bar} {count:,}")


def explain_command(
    directory: Directory,
    rule: Annotated[str | None, typer.Argument(help="A rule, by id or text; any, not only those checked.")] = None,
    row: Annotated[
        str | None,
        typer.Option("--row", help="A row instead, by its key (a,b for two columns) or id: what it violates."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="The row's table, where there are several.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many rows, causes and clashes.")] = 10,
    sql: Annotated[
        str | None, typer.Option(help="Print the query instead, in this dialect: duckdb, spark, ...")
    ] = None,
    format: Form = Format.TABLE,
) -> None:
    """Say why a rule is violated, or what a row violates: partner rows side by side, causes, what to remove."""
    announce()
    if (rule is None) == (row is None):
        raise HoldfastError("explain a rule, or a row: holdfast explain DIR RULE, or holdfast explain DIR --row KEY")
    if format not in (Format.TABLE, Format.JSON):
        raise HoldfastError(f"explain prints table or json, not {format}")
    with Rulebook.open(directory) as book:
        mask = Mask(Decisions.of(book).masked, book.tables)
        if row is not None:
            found = book.row_named(row, table)
            _explain_row(book, found, table or next(iter(book.schemas)), limit, mask, format)
            return
        assert rule is not None
        known = next((entry for entry in Decisions.of(book).entries if entry.id == rule), None)
        look = book.look(rule if known is None else known.rule)
        if sql is not None:
            print(_query(book, look, sql))
            return
        _explain_rule(look, look.explain(limit), limit, mask, format)


def _query(book: Rulebook, look: Look, dialect: str) -> str:
    key = book.tables[look.table].key
    if not key:
        raise HoldfastError(f"{look.table} has no key: SQL has no other way to tell rows apart")
    item = look.item
    return violations_sql(item.rule, book.schemas, key=key, nulls=item.nulls, dialect=dialect, where=item.where)


def _explain_rule(look: Look, found: Explanation, limit: int, mask: Mask, format: Format) -> None:
    shown = look.page(0, limit)
    if format is Format.JSON:
        causes = [
            {"rows": [mask.name(look.table, r) for r in rows], "pairs": pairs, "exact": exact}
            | {"remove": [mask.name(look.table, r) for r in remove]}
            for rows, pairs, remove, exact in found.causes
        ]
        document = {"rule": found.rule, "count": look.count, "error": look.error, "causes": causes}
        print(as_json(document | {"violations": [_violation(v, look.table, mask) for v in shown]}))
        return
    console = Console()
    console.print(standing(look.item.rule, look.count), highlight=False, markup=False)
    if not mask.hides_names(look.table):
        console.print(found.summary(), highlight=False, markup=False)
    for violation in shown:
        _print_side_by_side(console, look, violation, mask)


def _violation(violation: Violation, table: str, mask: Mask) -> Record:
    rows = [mask.row(table, row) for row in violation.rows if row is not None]
    names = [mask.name(table, n, i) for n, i in zip(violation.names, (violation.t, violation.s), strict=True)]
    return {"rows": names[: len(rows)], "values": json.loads(json.dumps(rows, default=str))}


def _print_side_by_side(console: Console, look: Look, violation: Violation, mask: Mask) -> None:
    """The two rows (or the one) as columns; cells that clash are marked."""
    ids = (violation.t, violation.s)
    names = [mask.name(look.table, n, i) for n, i in zip(violation.names, ids, strict=True) if i is not None]
    rows = [mask.row(look.table, row) for row in violation.rows if row is not None]
    values = {c: tuple(row[c] for row in rows) + (None,) * (2 - len(rows)) for c in violation.compared}
    second = names[1] if len(names) > 1 else None
    console.print(clash(look.item.rule, names[0], second, values), highlight=False, markup=False)
    shown = Table("", *(f"row {name}" for name in names), show_edge=False, pad_edge=False)
    for column in rows[0]:
        cells = [row[column] for row in rows]
        differs = column in violation.compared and len(set(map(repr, cells))) > 1
        style = "bold red" if differs else "bold" if column in violation.compared else "dim"
        mark = " ≠" if differs else " =" if column in violation.compared and len(rows) > 1 else ""
        shown.add_row(Text(column + mark, style), *(Text("" if c is None else str(c), style) for c in cells))
    console.print(shown)


def _explain_row(book: Rulebook, row: int, table: str, limit: int, mask: Mask, format: Format) -> None:
    console, made = Console(), []
    for entry in book.entries:
        look = book.look(entry.id)
        if look.table != table:
            continue
        count, violations = look.of_row(row, limit)
        if not count:
            continue
        made.append(
            {"rule": entry.rule, "count": count, "violations": [_violation(v, look.table, mask) for v in violations]}
        )
        if format is Format.TABLE:
            console.print(f"{entry.rule}: in {counted(count, 'violation')}", highlight=False, markup=False)
            for violation in violations:
                _print_side_by_side(console, look, violation, mask)
    if format is Format.JSON:
        print(as_json({"row": row, "rules": made}))
    elif not made:
        console.print(f"violates none of the {counted(len(book.entries), 'rule')} that are checked", highlight=False)


COMMANDS: dict[str, Callable[..., Any]] = {
    "rules": rules_command,
    "history": history_command,
    "explain": explain_command,
}
