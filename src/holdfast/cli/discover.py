"""`holdfast discover`: finds the rules that hold on tables."""

from __future__ import annotations

import sys
from dataclasses import replace
from shlex import quote
from typing import Annotated

import numpy as np
import typer

from holdfast.cli.files import columns_of, keys_of, reading_of, size_of, tables_of, tell_reading, types_of, written
from holdfast.cli.found_rules import print_rules
from holdfast.cli.on_spark import frames_of, goes_to_spark
from holdfast.cli.options import (
    Columns,
    Compare,
    CrossColumns,
    DateFormat,
    Delimiter,
    DiscoveryNulls,
    Encoding,
    EvidenceOf,
    Exclude,
    Files,
    Form,
    Key,
    Kinds,
    Master,
    MaxError,
    MaxSize,
    Measure,
    NullValues,
    On,
    Remote,
    SafeCells,
    Types,
)  # fmt: skip
from holdfast.cli.output import Format, Record, as_json, print_csv
from holdfast.cli.progress import announce, discovery_bar
from holdfast.cli.screen import print_screen
from holdfast.cli.terminal import Console
from holdfast.discovery.budget import Budget
from holdfast.discovery.interrupt import INTERRUPTED, interruptible
from holdfast.discovery.search_options import DEFAULT_KINDS, SearchOptions
from holdfast.encoded_tables import EncodedTables
from holdfast.errors import HoldfastError
from holdfast.finding import TIME_BUDGET, found_on_spark, found_within, in_words
from holdfast.profile import Profile
from holdfast.ranking.most import DEFAULT_MOST
from holdfast.ranking.rank import Ranked
from holdfast.rules.rule import KINDS, Rule
from holdfast.rules.rule_block import RuleBlock
from holdfast.rules.sentence import sentence
from holdfast.table.file_places import name_of
from holdfast.table.options import Choices

_RULES_PER_STEP = 1024  # rules that are put into words between two looks at the clock
_QUICK = "of fd, order and dc, only rules that are worth reading were looked for; --kind or --all: every rule"
_MOST_KEY_COLUMNS = 3  # of keys that are searched for one screen
_SHOWN_FIELDS = ("table", "kind", "text", "error", "score", "sentence")
_WORDING_SHARE = 0.7  # of the time that is left; the rest is for printing


def discover_command(
    files: Files, kind: Kinds = None, nulls: DiscoveryNulls = "equal", max_error: MaxError = 0.0,
    error: Measure = None, max_size: MaxSize = "default", compare: Compare = "typed",
    cross_columns: CrossColumns = True, evidence: EvidenceOf = "auto",
    time_budget: Annotated[
        float,
        typer.Option(help="Seconds for the whole command; then the rules proven so far are shown. 0: no limit."),
    ] = TIME_BUDGET,
    every: Annotated[bool, typer.Option("--all", help="List all rules, not only those worth reading.")] = False,
    most: Annotated[
        int, typer.Option(min=1, help="Show at most this many rules of each kind and table; of FDs, left sides.")
    ] = DEFAULT_MOST,
    why: Annotated[bool, typer.Option("--why", help="Give the reasons for each rule.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Show rules as text that other commands take.")] = False,
    key: Key = None, type: Types = None, columns: Columns = None, exclude: Exclude = None,
    delimiter: Delimiter = None, encoding: Encoding = None, date_format: DateFormat = None,
    null_values: NullValues = None,
    on: On = "auto", master: Master = None, remote: Remote = None,
    format: Form = Format.TABLE, safe_cells: SafeCells = False,
) -> None:  # fmt: skip
    """Find the rules that hold on tables, or nearly hold.

    Shows what is worth reading on one screen for each table. With --kind or --all, all rules of these kinds are
    searched and counted; --all lists them. The kinds of rules are: keys (key), functional dependencies (fd), inclusions
    (ind), order dependencies (order) and denial constraints (dc).
    """
    if format not in (Format.TABLE, Format.JSON, Format.CSV):
        raise HoldfastError(f"rules are printed as table, json or csv, not {format}")
    announce()
    tables = tables_of(files)
    names = list(tables) if isinstance(tables, dict) else [name_of(str(tables))]
    search = SearchOptions(
        tuple(kind or DEFAULT_KINDS), nulls, size_of(max_size), max_error, error, compare,
        cross_columns=cross_columns, evidence=evidence,
    )  # fmt: skip
    is_quick = not every and not kind
    wanted = for_screen(search) if is_quick else search
    reading = reading_of(delimiter, encoding, date_format, null_values)
    choices = Choices(keys_of(key or []), types_of(type or []), columns_of(columns), columns_of(exclude), reading)
    with discovery_bar() as progress:
        budget = Budget(time_budget or None, progress, divided=True)
        if goes_to_spark(tables, on):
            with frames_of(files, master, remote) as frames:
                data = frames if isinstance(tables, dict) else next(iter(frames.values()))
                rules = found_on_spark(budget, data, search, choices)
        else:
            rules = found_within(budget, lambda: EncodedTables.of(tables, choices, budget), wanted, listed=every)
            rules = replace(rules, options=search, limits=(*rules.limits, *([_QUICK] if is_quick else [])))
        progress("ranking", 1.0)
        clock = Budget(rules.left, divided=True)
        rules = replace(rules, clock=clock)
        with interruptible(clock, again=INTERRUPTED in rules.limits):
            shown = [] if every and format is Format.TABLE else rules.best(most)
            records = _every(rules) if every else [one.record() for one in shown if one.error <= max_error]
            document = _document(rules, names, nulls, records, shown) if format is Format.JSON else {}
    tell_reading(rules.data.read_as if rules.data is not None else {})
    unfinished = _unfinished(rules)
    if unfinished:
        print(f"holdfast: {unfinished}", file=sys.stderr)
    if format is Format.JSON:
        print(as_json(document))
    elif format is Format.CSV:
        _print_csv(rules, records, None if isinstance(tables, dict) else names[0], safe_cells)
    elif every:
        print_rules(rules, records)
    else:
        how = {"--type": type, "--delimiter": delimiter, "--encoding": encoding, "--date-format": date_format}
        read = " ".join(map(quote, files)) + written({**how, "--null-values": null_values})
        asked = {"--kind": kind, "--max-error": f"{max_error:g}" if max_error else None}
        asked |= {"--nulls": nulls if nulls != "equal" else None, "--columns": columns, "--exclude": exclude}
        print_screen(rules, shown, read, written(asked), texts=text, why=why, whole=bool(kind))
    if unfinished and format is Format.TABLE:
        Console().print(unfinished, highlight=False, markup=False)


def for_screen(search: SearchOptions) -> SearchOptions:
    """What must be searched for one screen: short keys, and inclusions. The rest is looked for where it is credible."""
    kinds = tuple(kind for kind in search.kinds if kind in ("key", "ind"))
    columns = min(size for size in (search.sizes["key"], _MOST_KEY_COLUMNS) if size is not None)
    return replace(search, kinds=kinds, max_size={**search.sizes, "key": columns}, max_error=0.0, error=None)


def _print_csv(rules: Profile, records: list[Record], only_table: str | None, safe_cells: bool) -> None:
    unfinished = {(search.kind, search.table) for search in rules.unfinished}
    for record in records:
        table = None if record["kind"] == "ind" else record["table"] or only_table
        record["finished"] = (record["kind"], table) not in unfinished
    columns = ["id", "kind", "table", "text", "error", "support", "sentence", "finished"]
    print_csv(records, columns, safe_cells)


def _every(rules: Profile) -> list[Record]:
    """All rules with their sentences; of each kind and table only the shortest if the time budget runs out."""
    records: list[Record] = []
    with rules.timed() as budget:
        for number, block in enumerate(rules.blocks):
            records += _records(block, budget.part(_WORDING_SHARE / (len(rules.blocks) - number)))
    return records


def _records(block: RuleBlock, budget: Budget) -> list[Record]:
    """The rules of a block, the shortest first, until the time budget runs out."""
    order, done, records = np.argsort(block.sizes(), kind="stable"), 0, list[tuple[int, Record]]()
    while done < len(block) and (done == 0 or not budget.spent()):
        part = block.chosen(order[done : done + _RULES_PER_STEP])
        details = zip(part.sizes().tolist(), part.with_details(), strict=True)
        records += [(size, _record(block, *detail)) for size, detail in details]
        done += _RULES_PER_STEP
    if done < len(block):
        about = f" of {block.label}" if block.label else ""
        budget.skip(f"{done:,} of {len(block):,} {block.kind} rules{about} are listed, the shortest")
    return [record for _, record in sorted(records, key=lambda item: (item[0], item[1]["text"]))]


def _record(block: RuleBlock, rule: Rule, text: str, error: float, support: int | None) -> Record:
    record = {"id": rule.id, "kind": block.kind, "table": block.label, "text": text, "error": error}
    return record | {"support": support, "sentence": sentence(rule, block.rank, error)}


def _unfinished(rules: Profile) -> str | None:
    """What the search could not finish, in one line; None if it finished."""
    if rules.complete and not (rules.clock is not None and rules.clock.skipped):
        return None
    sizes = rules.options.limits if rules.options is not None else ()
    reasons = "; ".join(limit for limit in rules.limits if limit not in sizes)
    searched = f"searched completely: {in_words(rules.searched) or 'nothing'}"
    word = "not complete" if not rules.complete else "not all is shown"
    return f"{word}: {reasons}; {searched}; every rule found holds"


def _document(rules: Profile, names: list[str], nulls: str, records: list[Record], shown: list[Ranked]) -> Record:
    tables, references = ([], []) if rules.data is None else rules.data.in_words(shown)
    document: Record = {
        "tables": names,
        "nulls": nulls,
        "complete": rules.complete,
        "limits": [],
        "searched": [search._asdict() for search in rules.searched],
        "unfinished": [search._asdict() for search in rules.unfinished],
        "how": list(rules.how),
        "vacuous": list(rules.vacuous),
        "counts": {kind: len(rules.of(kind)) for kind in KINDS if len(rules.of(kind))},
        "row_rules": rules.row_rules.texts(),
        "foreign_keys": [vars(key) | {"rule": str(key.rule)} for key in rules.foreign_keys],
        "shown": [{name: getattr(one, name) for name in _SHOWN_FIELDS} for one in shown],
        "screen": [table.record() for table in tables],
        "references": [line.record() for line in references],
        "rules": records,
    }
    return document | {"limits": list(rules.limits)}  # last: the fields above may add limits
