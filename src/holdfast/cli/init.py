"""`holdfast init`: makes a rulebook from tables and rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.cli.files import columns_of, keys_of, reading_of, size_of, tables_of, tell_reading, types_of
from holdfast.cli.on_spark import frames_of, goes_to_spark
from holdfast.cli.options import (
    Columns,
    Compare,
    CrossColumns,
    DateFormat,
    Delimiter,
    Directory,
    Encoding,
    EvidenceOf,
    Exclude,
    Files,
    FollowedKinds,
    FoundNulls,
    Keep,
    Key,
    Masked,
    Master,
    MaxError,
    MaxSize,
    Measure,
    Nulls,
    NullValues,
    On,
    OnlyInserts,
    Remote,
    RuleFileOption,
    RuleOption,
    State,
    Suggest,
    Types,
)  # fmt: skip
from holdfast.cli.output import Record
from holdfast.cli.progress import announce, as_step, discovery_bar
from holdfast.discovery.budget import Progress as SearchProgress
from holdfast.discovery.search_options import DEFAULT_KINDS, SearchOptions
from holdfast.finding import search as search_tables
from holdfast.ranking.most import DEFAULT_MOST
from holdfast.ranking.rank import Ranked
from holdfast.rulebook import DEFAULT_KEEP, Rulebook
from holdfast.rules.rulefile import RuleFile
from holdfast.rules.wording import counted
from holdfast.workflow.decisions import ACCEPTED, SUGGESTED, Decisions, deciding, file_of, write
from holdfast.workflow.suggestions import is_declared_key


def init_command(
    directory: Directory, files: Files, rules: RuleFileOption = None, rule: RuleOption = None, key: Key = None,
    type: Types = None, columns: Columns = None, exclude: Exclude = None, nulls: Nulls = "sql",
    keep: Keep = DEFAULT_KEEP, kind: FollowedKinds = None, found_nulls: FoundNulls = "equal", max_error: MaxError = 0.0,
    error: Measure = None, max_size: MaxSize = "default", compare: Compare = "typed",
    cross_columns: CrossColumns = True, evidence: EvidenceOf = "auto", only_inserts: OnlyInserts = False,
    delimiter: Delimiter = None, encoding: Encoding = None, date_format: DateFormat = None,
    null_values: NullValues = None, suggest: Suggest = DEFAULT_MOST, mask: Masked = None, on: On = "auto",
    master: Master = None, remote: Remote = None, state: State = None,
) -> None:  # fmt: skip
    """Make a rulebook: a directory that keeps tables, their rules and the violations up to date.

    Rules given with --rule or --rules are accepted: every batch is checked against them. The best rules that discovery
    finds are suggested. The file rules.yml in the directory lists both; accept or reject suggestions there, or with
    `holdfast rules`.
    """
    announce()
    search = SearchOptions(
        kind or (), found_nulls, size_of(max_size), max_error, error, compare,
        cross_columns=cross_columns, evidence=evidence, only_inserts=only_inserts,
    )  # fmt: skip
    options: Record = {"key": keys_of(key or []), "types": types_of(type or []), "rule_nulls": nulls}
    options |= {"columns": columns_of(columns), "exclude": columns_of(exclude)}
    options |= {"keep": keep, "search": search}
    rule_file = file_of(rule or [], rules)
    accepted = [entry for entry in rule_file if entry.status == ACCEPTED]
    masked = sorted({*rule_file.mask, *(mask or ())})
    if masked:
        rule_file.set_mask(masked)
    options |= {"mask": masked, "rules": accepted}
    tables = tables_of(files)
    if goes_to_spark(tables, on):
        with frames_of(files, master, remote) as frames:
            _init_on_spark(directory, frames, rule_file, options | {"on": "spark", "state": state, "types": None})
        return
    options["reading"] = reading_of(delimiter, encoding, date_format, null_values)
    with discovery_bar() as show:
        book = Rulebook.create(directory, tables, progress=as_step("indexing", show), search_progress=show, **options)
    with book:
        tell_reading({name: table.read_as for name, table in book.tables.items()})
        write(directory, rule_file)
        if suggest:
            with deciding(book) as decisions, discovery_bar() as search_progress:
                best = _suggestions(book, search, suggest, search_progress)
                decisions.suggest(best, found_nulls)
        _print_summary(book, directory, bool(kind))


def _init_on_spark(directory: Path, frames: Any, rule_file: RuleFile, options: Record) -> None:
    """A rulebook whose rows stay on Spark. Nothing is suggested."""
    with Rulebook.create(directory, frames, **options) as book:
        write(directory, rule_file)
        _print_summary(book, directory, is_following=bool(options["search"].kinds))


def _print_summary(book: Any, directory: Path, is_following: bool) -> None:
    tables = ", ".join(f"{name} ({book.count(name):,} rows)" for name in book.schemas)
    followed = f"; {len(book.found()):,} found and followed" if is_following else ""
    print(f"{directory}: {tables}; {counted(len(book.entries), 'rule')} checked{followed}")
    suggested = len(Decisions.of(book).with_status(SUGGESTED))
    if suggested:
        print(f"{counted(suggested, 'rule')} suggested in {directory}/rules.yml: holdfast rules {directory}")


def _suggestions(book: Rulebook, search: SearchOptions, most: int, progress: SearchProgress) -> list[Ranked]:
    """The best rules that the book keeps up to date; if it keeps none, of a search that takes at most a minute."""
    if search.kinds:
        best = book.best(most)
    else:
        best = search_tables(book.encoded, replace(search, kinds=DEFAULT_KINDS), progress=progress).best(most)
    return [one for one in best if not is_declared_key(one.rule, book)]
