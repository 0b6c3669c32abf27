"""`holdfast explain`: why a rule is violated, or which rules a row violates."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli.on_spark import session_of_book
from holdfast.cli.options import Directory, Form, Master, Remote
from holdfast.cli.output import Format, Record, as_json
from holdfast.cli.progress import announce
from holdfast.cli.results import print_groups
from holdfast.cli.row_names import hides_names
from holdfast.cli.terminal import Console, print_exact
from holdfast.errors import HoldfastError, NotAvailable
from holdfast.plain_text import plain_text
from holdfast.report.facts import Shown, query_of, shown_violation
from holdfast.rulebook import Rulebook
from holdfast.rules.sentence import standing
from holdfast.rules.wording import counted
from holdfast.violations.clashing_groups import ClashingGroups
from holdfast.violations.look import Look, Violation
from holdfast.workflow.decisions import Decisions, look_at
from holdfast.workflow.masking import Mask

_STYLES = {"clash": ("bold red", " ≠"), "same": ("bold", " ="), "other": ("dim", "")}


def explain_command(
    directory: Directory,
    rule: Annotated[
        str | None, typer.Argument(help="The id or text of a rule. The rulebook need not check it.")
    ] = None,
    row: Annotated[
        str | None, typer.Option("--row", help="Explain a row instead: its key (a,b for two columns), or #17 (its id).")
    ] = None,
    table: Annotated[str | None, typer.Option(help="The table of the row, if there are several.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="List at most this many violations and causes.")] = 10,
    whole: Annotated[
        bool, typer.Option("--whole", help="Show all columns of the rows, not only those of the rule.")
    ] = False,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Of a key or dependency, show pairs of rows beside the groups that clash.")
    ] = False,
    sql: Annotated[
        str | None, typer.Option(help="Print a query that finds the violations, in this SQL dialect.")
    ] = None,
    format: Form = Format.TABLE,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Explain why a rule is violated, or which rules a row violates.

    Shows the groups of rows that clash; of other rules the violating rows side by side, the causes, and which rows to
    remove.
    """
    announce()
    if (rule is None) == (row is None):
        raise HoldfastError("give either a rule or a row: holdfast explain DIR RULE, or holdfast explain DIR --row KEY")
    if format not in (Format.TABLE, Format.JSON):
        raise HoldfastError(f"explain prints table or json, not {format}")
    with session_of_book(directory, "auto", master, remote), Rulebook.open(directory) as book:
        mask = Mask.of(book)
        if not isinstance(book, Rulebook):
            _explain_on_spark(book, rule, limit, mask, format)
            return
        if row is not None:
            name = table or next(iter(book.schemas))
            _explain_row(book, _row_id(book, row, name, mask), name, limit, mask, format, whole)
            return
        assert rule is not None
        look = look_at(book, rule)
        if sql is not None:
            print_exact(query_of(book, look, sql))
            return
        entry = Decisions.of(book).known(rule)
        _explain_rule(look, None if entry is None else entry.filter, limit, mask, format, whole=whole, pairs=pairs)


def _explain_on_spark(book: Any, rule: str | None, limit: int, mask: Mask, format: Format) -> None:
    """The explanation of a checked rule of a rulebook on Spark, from its first violations."""
    if rule is None:
        raise NotAvailable("the rows of this rulebook are on Spark: there, rules can be explained, not rows")
    entry = book.entry(rule)
    found, hidden = book.explain(rule, limit), hides_names(book, entry, mask)
    if format is Format.JSON:
        causes = [
            {"rows": rows, "pairs": pairs, "exact": exact, "remove": remove}
            for rows, pairs, remove, exact in (() if hidden else found.causes)
        ]
        document = {"rule": found.rule, "count": found.count, "error": book.error(rule), "looked_at": found.looked_at}
        print(as_json(document | {"causes": causes}))
        return
    console = Console()
    console.print(standing(entry.value, found.count, where=entry.filter), highlight=False, markup=False)
    if not hidden and found.count:
        console.print(found.summary(), highlight=False, markup=False)


def _row_id(book: Rulebook, text: str, table: str, mask: Mask) -> int:
    """The id of a row that is given as #17 or by its key."""
    if re.fullmatch("#[0-9]{1,18}", text):
        if book.row(table, int(text[1:])) is None:
            raise HoldfastError(f"{table} has no row {text}")
        return int(text[1:])
    mask.require_by_key(table)
    return book.row_named(text, table)


def _explain_rule(
    look: Look, where: str | None, limit: int, mask: Mask, format: Format, *, whole: bool, pairs: bool
) -> None:
    groups = None if mask.hides_any(look.table) else look.groups(limit)
    if format is Format.JSON:
        print(as_json(_document(look, limit, mask, groups)))
        return
    console = Console()
    console.print(standing(look.item.rule, look.count, where=where), highlight=False, markup=False)
    if groups is not None and groups.count:
        print_groups(console, "", groups)
    elif not mask.hides_names(look.table) and look.count:
        console.print(look.explain(limit).summary(), highlight=False, markup=False)
    for violation in look.page(0, limit) if pairs or groups is None else ():
        _print(console, shown_violation(look.item.rule, look.table, violation, mask), whole)
    if groups is not None and groups.count and not pairs:
        console.print("  --pairs shows the rows side by side", highlight=False)


def _document(look: Look, limit: int, mask: Mask, groups: ClashingGroups | None) -> Record:
    explanation = look.explain(limit)
    causes = [
        {"rows": [mask.name(look.table, r) for r in rows], "pairs": pairs, "exact": exact}
        | {"remove": [mask.name(look.table, r) for r in remove]}
        for rows, pairs, remove, exact in explanation.causes
    ]
    document = {"rule": explanation.rule, "count": look.count, "error": look.error}
    document |= {"looked_at": explanation.looked_at, "causes": causes}
    document |= {"groups": None if groups is None else [group.record() for group in groups.groups]}
    return document | {"violations": [_record(v, look.table, mask) for v in look.page(0, limit)]}


def _explain_row(book: Rulebook, row: int, table: str, limit: int, mask: Mask, format: Format, whole: bool) -> None:
    violated = book.row_violations(table, row, limit)
    if format is Format.JSON:
        rules = [
            {"rule": entry.rule, "count": count, "violations": [_record(v, table, mask) for v in violations]}
            for entry, count, violations in violated
        ]
        print(as_json({"row": row, "rules": rules}))
        return
    console = Console()
    for entry, count, violations in violated:
        partners = "" if violations[0].s is None else f": with {counted(count, 'row')}"
        console.print(f"{entry.rule}{partners}", highlight=False, markup=False)
        for violation in violations:
            _print(console, shown_violation(entry.value, table, violation, mask), whole)
    if not violated:
        console.print(f"the row violates no rule; {counted(len(book.entries), 'rule')} checked", highlight=False)


def _record(violation: Violation, table: str, mask: Mask) -> Record:
    rows = [mask.row(table, row) for row in violation.rows if row is not None]
    names = [mask.name(table, n, i) for n, i in zip(violation.names, (violation.t, violation.s), strict=True)]
    return {"rows": names[: len(rows)], "values": json.loads(json.dumps(rows, default=str))}


def _print(console: Console, shown: Shown, whole: bool) -> None:
    """Prints the rows of a violation as columns and marks the cells that clash."""
    console.print(shown.words, highlight=False, markup=False)
    table = Table("", *(f"row {name}" for name in shown.names), show_edge=False, pad_edge=False)
    for cell in shown.cells:
        if whole or cell.state != "other":
            style, mark = _STYLES[cell.state]
            values = [cell.t] if cell.s is None else [cell.t, cell.s]
            table.add_row(
                Text(plain_text(cell.column) + (mark if cell.s is not None else ""), style),
                *(Text(plain_text(v), style) for v in values),
            )
    console.print(table)
