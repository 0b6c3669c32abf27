"""`holdfast discover`: the rules that hold, those worth reading first."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated

import numpy as np
import typer

from holdfast.cli.files import columns_of, keys_of, size_of, tables_of, types_of
from holdfast.cli.options import (
    Columns,
    Compare,
    CrossColumns,
    DiscoveryNulls,
    EvidenceOf,
    Exclude,
    Files,
    Form,
    Key,
    Kinds,
    MaxError,
    MaxSize,
    Measure,
    SafeCells,
    Types,
)  # fmt: skip
from holdfast.cli.output import Format, Record, as_json, print_csv, print_table
from holdfast.cli.progress import announce, discovery_bar
from holdfast.cli.terminal import Console
from holdfast.discover import TIME_BUDGET, found_within, in_words
from holdfast.discovery.budget import Budget
from holdfast.discovery.database import Searched
from holdfast.discovery.interrupt import INTERRUPTED, interruptible
from holdfast.discovery.search_options import DEFAULT_KINDS, SearchOptions
from holdfast.encoded_tables import EncodedTables
from holdfast.errors import HoldfastError
from holdfast.profile import Profile
from holdfast.ranking.rank import DEFAULT_MOST
from holdfast.rules.predicate import IsNull
from holdfast.rules.rule import KINDS, Dc, Rule
from holdfast.rules.rule_block import RuleBlock
from holdfast.rules.sentence import sentence
from holdfast.rules.wording import counted
from holdfast.table.options import Choices

_ALSO = 3  # rules named, for which one stands
_AT_ONCE = 1024  # rules that are told between looks at the clock
_MANY = 500  # rules, from which on they are printed in lines
_TELLING = 0.7  # of the time that is left: the rest is for printing


def discover_command(
    files: Files,
    kind: Kinds = None,
    nulls: DiscoveryNulls = "equal",
    max_error: MaxError = 0.0,
    error: Measure = None,
    max_size: MaxSize = "default",
    compare: Compare = "typed",
    cross_columns: CrossColumns = True,
    evidence: EvidenceOf = "auto",
    time_budget: Annotated[
        float, typer.Option(help="Seconds for everything, after which what is proven is shown; 0 for no limit.")
    ] = TIME_BUDGET,
    every: Annotated[bool, typer.Option("--all", help="All rules, not only those worth reading.")] = False,
    most: Annotated[int, typer.Option(min=1, help="The most rules of each kind and table.")] = DEFAULT_MOST,
    why: Annotated[bool, typer.Option("--why", help="Say why each rule has its place.")] = False,
    key: Key = None,
    type: Types = None,
    columns: Columns = None,
    exclude: Exclude = None,
    format: Form = Format.TABLE,
    safe_cells: SafeCells = False,
) -> None:
    """Find the rules that hold, or nearly: keys, functional, inclusion and order dependencies, denial constraints."""
    if format not in (Format.TABLE, Format.JSON, Format.CSV):
        raise HoldfastError(f"rules are printed as table, json or csv, not {format}")
    announce()
    tables = tables_of(files)
    with discovery_bar() as progress:
        wanted = SearchOptions(
            tuple(kind or DEFAULT_KINDS),
            nulls,
            size_of(max_size),
            max_error,
            error,
            compare,
            cross_columns=cross_columns,
            evidence=evidence,
        )
        choices = Choices(keys_of(key or []), types_of(type or []), columns_of(columns), columns_of(exclude))
        budget = Budget(time_budget or None, progress, divided=True)
        rules = found_within(budget, lambda: EncodedTables.of(tables, choices, budget), wanted, listed=every)
        progress("ranking", 1.0)
        clock = Budget(rules.left, divided=True)
        rules = replace(rules, clock=clock)
        with interruptible(clock, again=INTERRUPTED in rules.limits):
            records = _every(rules) if every else [ranked.record() for ranked in rules.best(most)]
            names = list(tables) if isinstance(tables, dict) else [tables.stem]
            document = _document(rules, names, nulls, records) if format is not Format.CSV else {}
            comparisons = rules.best_row_rules if format is Format.TABLE and not every else []
    unfinished = _unfinished(rules)
    if unfinished:
        print(f"holdfast: {unfinished}", file=sys.stderr)
    if format is Format.JSON:
        print(as_json(document))
    elif format is Format.CSV:
        of_kind = {(some.kind, some.table) for some in rules.unfinished}
        lone = None if isinstance(tables, dict) else names[0]
        for r in records:
            r["finished"] = (r["kind"], None if r["kind"] == "ind" else r["table"] or lone) not in of_kind
        columns = ["id", "kind", "table", "text", "error", "support", "sentence", "finished"]
        print_csv(records, columns, safe_cells)
    else:
        _print(rules, records, comparisons, every, why)
        if unfinished:
            Console().print(unfinished, highlight=False, markup=False)


def _every(rules: Profile) -> list[Record]:
    """All rules for people, or, where there is no time for that, the shortest of each kind and table."""
    made: list[Record] = []
    with rules.timed() as budget:
        for number, block in enumerate(rules.blocks):
            made += _records(block, budget.part(_TELLING / (len(rules.blocks) - number)))
    return made


def _records(block: RuleBlock, budget: Budget) -> list[Record]:
    """The rules of a block, the shortest first, as far as there is time."""
    order, told, made = np.argsort(block.sizes(), kind="stable"), 0, list[tuple[int, Record]]()
    while told < len(block) and (told == 0 or not budget.spent()):
        some = block.chosen(order[told : told + _AT_ONCE])
        details = zip(some.sizes().tolist(), some.with_details(), strict=True)
        made += [(size, _record(block, *detail)) for size, detail in details]
        told += _AT_ONCE
    if told < len(block):
        about = f" of {block.table}" if block.table else ""
        budget.skip(f"{told:,} of {len(block):,} {block.kind} rules{about} are listed, the shortest")
    return [record for _, record in sorted(made, key=lambda item: (item[0], item[1]["text"]))]


def _record(block: RuleBlock, rule: Rule, text: str, error: float, support: int | None) -> Record:
    shown = {"id": rule.id, "kind": block.kind, "table": block.table, "text": text, "error": error}
    return shown | {"support": support, "sentence": sentence(rule, block.rank, error)}


def _unfinished(rules: Profile) -> str | None:
    """What was not done in time, in one line; what is missing is not said to be absent."""
    if rules.complete and not (rules.clock is not None and rules.clock.skipped):
        return None
    sizes = rules.options.limits if rules.options is not None else ()
    reasons = "; ".join(limit for limit in rules.limits if limit not in sizes)
    searched = f"searched completely: {in_words(rules.searched) or 'nothing'}"
    word = "not complete" if not rules.complete else "not all is shown"
    return f"{word}: {reasons}; {searched}; every rule shown holds"


def _shown(some: Searched, rules: Profile) -> str:
    named = some.table is not None and rules.data is not None and rules.data.named
    return f"{some.kind} of {some.table}" if named else some.kind


def _document(rules: Profile, names: list[str], nulls: str, records: list[Record]) -> Record:
    made: Record = {
        "tables": names,
        "nulls": nulls,
        "complete": rules.complete,
        "limits": [],
        "searched": [some._asdict() for some in rules.searched],
        "unfinished": [some._asdict() for some in rules.unfinished],
        "how": list(rules.how),
        "vacuous": list(rules.vacuous),
        "counts": {kind: len(rules.of(kind)) for kind in KINDS if len(rules.of(kind))},
        "row_rules": rules.row_rules.texts(),
        "foreign_keys": [vars(key) | {"rule": str(key.rule)} for key in rules.foreign_keys],
        "rules": records,
    }
    return made | {"limits": list(rules.limits)}  # as the questions above left them


def _print(rules: Profile, records: list[Record], comparisons: list[Rule], every: bool, why: bool) -> None:
    console = Console()
    for block in rules.blocks:
        mine = [r for r in records if (r["kind"], r["table"]) == (block.kind, block.table)]
        about = f" of {block.table}" if block.table else ""
        title = f"{block.kind}{about}: {len(block):,} {'rule' if len(block) == 1 else 'rules'}"
        title += " (not finished)" if block.kind in _open_kinds(rules, block.table) else ""
        if len(mine) > _MANY:
            _print_lines(console, title, mine)
        elif every or len(mine) == len(block):
            print_table(console, title, mine, ["text", "error", "support", "sentence"])
        elif mine:
            print_table(
                console, f"{title}, {len(mine)} worth reading (--all: all)", mine, ["score", "text", "sentence"]
            )
        else:
            console.print(f"{title}, none worth reading (--all: all)", highlight=False, markup=False)
        _print_asides(console, mine, why)
    there = {(block.kind, block.table) for block in rules.blocks}
    for some in rules.unfinished:
        table = some.table if rules.data is not None and rules.data.named else None
        if (some.kind, table) not in there:
            console.print(f"{_shown(some, rules)}: none found (not finished)", highlight=False, markup=False)
    if not rules.blocks and rules.complete:
        console.print("no rules hold")
    if len(rules.row_rules):
        _print_row_rules(console, rules, comparisons, every)
    nearly = [key for key in rules.foreign_keys if key.missing][:DEFAULT_MOST]
    if nearly:
        console.print("not quite included, but alike enough to be meant as foreign keys:")
    for key in nearly:
        console.print(f"  {key}", highlight=False, markup=False)
    if rules.vacuous:
        console.print(f"columns without values: {', '.join(rules.vacuous)}", highlight=False, markup=False)


def _print_lines(console: Console, title: str, records: list[Record]) -> None:
    """Many rules, one in each line: a table of them would take longer to draw than to find."""
    console.print(title, highlight=False, markup=False)
    width = max(len(record["text"]) for record in records)
    for record in records:
        error = f"{record['error']:.3g}" if record["error"] else ""
        print(f"  {record['text']:<{width}}  {error:<8}  {record['sentence']}")


def _open_kinds(rules: Profile, table: str | None) -> set[str]:
    """The kinds of a table, or of the only one, whose search did not finish."""
    return {some.kind for some in rules.unfinished if table is None or some.table in (None, table)}


def _print_asides(console: Console, records: list[Record], why: bool) -> None:
    """What is to be known about rules beside their sentences."""
    for record in records:
        lines = [*record.get("notes", ()), *(record.get("reasons", ()) if why else ())]
        if record.get("also"):
            others = "; ".join(record["also"][:_ALSO])
            more = f" and {len(record['also']) - _ALSO} more" if len(record["also"]) > _ALSO else ""
            lines.append(f"it stands for {others}{more}")
        for line in lines:
            console.print(f"  {record['text']}: {line}", highlight=False, markup=False)


def _print_row_rules(console: Console, rules: Profile, comparisons: list[Rule], every: bool) -> None:
    """Rules about single rows: comparisons one by one, columns that are never empty in one line."""
    tests, filled = [], []
    for rule, text in rules.row_rules.with_texts():
        assert isinstance(rule, Dc)
        (predicate,) = rule.predicates
        if isinstance(predicate, IsNull):
            filled.append(predicate.cell.column if rule.table is None else f"{rule.table}.{predicate.cell.column}")
        else:
            tests.append((rule, text))
    texts = dict(tests)
    chosen = [(rule, texts[rule]) for rule in comparisons if rule in texts] if not every else tests
    shown = [{"text": text, "sentence": sentence(rule)} for rule, text in chosen[: None if every else DEFAULT_MOST]]
    title = f"about single rows: {counted(len(tests), 'rule')}"
    if shown:
        more = f", {len(shown)} worth reading (--all: all)" if len(shown) < len(tests) else ""
        print_table(console, f"{title}{more}", shown, ["text", "sentence"])
    elif tests:
        console.print(f"{title}, none worth reading (--all: all)", highlight=False, markup=False)
    if filled:
        console.print(f"never empty: {', '.join(filled)}", highlight=False, markup=False)
