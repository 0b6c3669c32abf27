"""Prints all rules that `holdfast discover --all` found, as tables for people."""

from __future__ import annotations

from holdfast.cli.output import Record, print_table
from holdfast.cli.terminal import Console
from holdfast.discovery.database import Searched
from holdfast.profile import Profile
from holdfast.rules.predicate import IsNull
from holdfast.rules.rule import Dc
from holdfast.rules.rule_block import RuleBlock
from holdfast.rules.sentence import sentence
from holdfast.rules.wording import counted

_MAX_TABLE_ROWS = 500  # more rules are printed as lines
_LEGEND = {
    "fd": "fd: functional dependency (equal values on the left give equal values on the right)",
    "ind": "ind: inclusion (every value on the left occurs on the right)",
    "order": "order: order dependency (the order on the left gives the order on the right)",
    "dc": "dc: denial constraint (no two rows t and s satisfy all of its comparisons)",
}


def print_rules(rules: Profile, records: list[Record]) -> None:
    """Prints the rules of each kind and table, then what else the search found."""
    console = Console()
    for block in rules.blocks:
        _print_block(console, rules, block, records)
    for line in not_found(rules):
        console.print(line, highlight=False, markup=False)
    if not rules.blocks and rules.complete:
        console.print("no rules hold")
    if len(rules.row_rules):
        _print_row_rules(console, rules)
    incomplete_keys = [key for key in rules.foreign_keys if key.missing]
    if incomplete_keys:
        console.print("not quite included:")
    for key in incomplete_keys:
        console.print(f"  {key}", highlight=False, markup=False)
    if rules.vacuous:
        console.print(f"columns without values: {', '.join(rules.vacuous)}", highlight=False, markup=False)
    for kind in dict.fromkeys(block.kind for block in rules.blocks):
        if kind in _LEGEND:
            console.print(_LEGEND[kind], highlight=False, markup=False)


def not_found(rules: Profile) -> list[str]:
    """A line for each unfinished search that has found nothing."""
    printed = {(block.kind, block.label) for block in rules.blocks}
    lines = []
    for search in rules.unfinished:
        table = None if rules.data is None or rules.data.is_lone else search.table
        if (search.kind, table) not in printed:
            lines.append(f"{_search_name(search, rules)}: none found (not finished)")
    return lines


def _print_block(console: Console, rules: Profile, block: RuleBlock, records: list[Record]) -> None:
    """Prints the rules of one kind and table."""
    shown = [r for r in records if (r["kind"], r["table"]) == (block.kind, block.label)]
    about = f" of {block.label}" if block.label else ""
    title = f"{block.kind}{about}: {counted(len(block), 'rule')}"
    title += " (not finished)" if block.kind in _unfinished_kinds(rules, block.label) else ""
    if len(shown) > _MAX_TABLE_ROWS:
        _print_lines(console, title, shown)
    else:
        print_table(console, title, shown, ["text", "error", "support", "sentence"])


def _print_lines(console: Console, title: str, records: list[Record]) -> None:
    """Prints a line for each rule: a table of many rules takes longer to draw than to find."""
    console.print(title, highlight=False, markup=False)
    width = max(len(record["text"]) for record in records)
    for record in records:
        error = f"{record['error']:.3g}" if record["error"] else ""
        print(f"  {record['text']:<{width}}  {error:<8}  {record['sentence']}")


def _search_name(search: Searched, rules: Profile) -> str:
    if search.table is None or rules.data is None or rules.data.is_lone:
        return search.kind
    return f"{search.kind} of {search.table}"


def _unfinished_kinds(rules: Profile, table: str | None) -> set[str]:
    """The kinds whose search on a table (None: the only one) did not finish."""
    return {search.kind for search in rules.unfinished if table is None or search.table in (None, table)}


def _print_row_rules(console: Console, rules: Profile) -> None:
    """Prints the rules about single rows: comparisons as a table, columns that are never empty in one line."""
    records, never_empty = [], []
    for rule, text in rules.row_rules.with_texts():
        assert isinstance(rule, Dc)
        (predicate,) = rule.predicates
        if isinstance(predicate, IsNull):
            never_empty.append(predicate.cell.column if rule.table is None else f"{rule.table}.{predicate.cell.column}")
        else:
            records.append({"text": text, "sentence": sentence(rule)})
    if records:
        print_table(console, f"about single rows: {counted(len(records), 'rule')}", records, ["text", "sentence"])
    if never_empty:
        console.print(f"never empty: {', '.join(never_empty)}", highlight=False, markup=False)
