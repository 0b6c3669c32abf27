"""Finding the rules that hold on data that does not change."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from holdfast.discovery.budget import Budget, Progress
from holdfast.discovery.database import DatabaseRules
from holdfast.discovery.foreign_keys import MOST_MISSING, ForeignKey
from holdfast.discovery.foreign_keys import foreign_keys as suggestions
from holdfast.discovery.inclusion import Inclusions
from holdfast.discovery.partitions import Partitions
from holdfast.discovery.row_rules import row_rules as rules_of_rows
from holdfast.discovery.wanted import DEFAULT_KINDS, OF_ONE_TABLE, CrossColumns, Sizes, Wanted
from holdfast.errors import HoldfastError, shown
from holdfast.executors.executor import Cancellation, Cancelled, Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.rules.plain import plain_minimal
from holdfast.rules.rule import Fd
from holdfast.rules.ruleset import Block, RuleSet
from holdfast.table.change import Part
from holdfast.table.dictionary import TextDictionary
from holdfast.table.net import Planner
from holdfast.table.options import Choices, Names, TableOptions
from holdfast.table.read import Source, read_all
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema

TIME_BUDGET = 60.0
_MOST_SUPPORTS = 1000
_MOST_PAIRS = 2e7  # compared one by one: where rows do not change, with more it is faster to validate what stands
_MOST_COUNTED = 2e9  # pairs for denial constraints and order dependencies: some 60,000 rows


def discover(
    data: Any,
    kinds: Sequence[str] = DEFAULT_KINDS,
    *,
    nulls: str = "equal",
    max_error: float = 0.0,
    error: str | None = None,
    key: Names | Mapping[str, Names] | None = None,
    columns: Names | Mapping[str, Names] | None = None,
    exclude: Names | Mapping[str, Names] | None = None,
    types: Mapping[str, Any] | None = None,
    max_size: Sizes = "default",
    compare: str = "typed",
    cross_columns: CrossColumns = True,
    evidence: str = "auto",
    minimal: str = "implication",
    time_budget: float | None = TIME_BUDGET,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> RuleSet:
    """All minimal rules of these kinds that hold.

    `max_error`: rules that are wrong up to this share, by `error`: g3 (rows to remove, the default for keys and FDs) or
    g1 (pairs); of inclusions, the share of distinct left values that are missing. `max_size`: the most columns of a key
    and of an FD's left side; a number, None for no limit, or one for each kind; 5 by default. `compare`: the values of
    inclusions by kind (`typed`), or all as `text`. `cross_columns`: which different columns a denial constraint may
    compare: those that share values (True), none, or these pairs. `evidence`: for order dependencies and denial
    constraints all pairs are `counted`, or, for tall tables, it is `lean`; the answer is the same. `minimal`: a denial
    constraint is listed if no other one implies it, or, as in the papers, if no predicate can be left out (`plain`:
    some that others say already). `time_budget`: seconds after which what is proven until then is the result, and
    `complete` is false; Ctrl-C does the same. `progress` is told what is being done and how much of it is done.
    `executor`: where many rows are compared, threads of this process by default.

    >>> import pyarrow as pa
    >>> table = pa.table({"id": [1, 2, 3], "zip": [10115, 10115, 20095], "city": ["B", "B", "HH"]})
    >>> discover(table, ("key", "fd")).texts()
    ['city -> zip', 'id -> city', 'id -> zip', 'key(id)', 'zip -> city']
    """
    wanted = Wanted.of(
        kinds, nulls, max_size, max_error, error, compare, cross_columns=cross_columns, evidence=evidence
    )
    if minimal not in ("implication", "plain") or (minimal == "plain" and max_error):
        raise HoldfastError(f"minimal is 'implication' or, for rules that hold exactly, 'plain', not {shown(minimal)}")
    settled = Choices(key, types, columns, exclude).settle(read_all(data))
    budget, cancellation = Budget(time_budget, progress), Cancellation()

    def tell(share: float) -> None:
        budget.tell("comparing rows", share)
        if budget.spent():
            cancellation.cancel()

    runs_on = executor or ThreadExecutor(progress=tell, cancellation=cancellation)
    words = TextDictionary()
    rows = {name: _rows_of(name, source, options, words) for name, (source, options) in settled.items()}
    schemas = {name: options.schema for name, (_, options) in settled.items()}
    found = DatabaseRules(
        schemas,
        wanted,
        words,
        runs_on,
        named=isinstance(data, Mapping),
        most_pairs=_MOST_PAIRS,
        most_counted=_MOST_COUNTED,
    )
    with _interruptible(budget, cancellation):
        _search(found, rows, budget)
    rules = with_supports(found.rules(), rows, wanted.nulls)
    if minimal == "plain":
        blocks = [block if block.kind != "dc" else _plainly(block, schemas) for block in rules.blocks]
        rules = replace(rules, blocks=tuple(blocks))
    limits = rules.limits if budget.ended is None else (*rules.limits, budget.ended)
    return replace(rules, complete=budget.ended is None, limits=limits)


def _plainly(block: Block, schemas: Mapping[str, Schema]) -> Block:
    """Denial constraints as the papers count them."""
    (made,) = plain_minimal(block, schemas[block.table or next(iter(schemas))]).blocks
    return made


def row_rules(
    data: Any,
    *,
    nulls: str = "equal",
    max_error: float = 0.0,
    ranges: bool = False,
    columns: Names | Mapping[str, Names] | None = None,
    exclude: Names | Mapping[str, Names] | None = None,
    types: Mapping[str, Any] | None = None,
) -> RuleSet:
    """Rules about single rows: columns that are never null, and ordered columns of one kind of which one is never above
    the other; with `ranges` also their least and greatest values. Up to `max_error` of the rows may violate them.

    >>> import pyarrow as pa
    >>> row_rules(pa.table({"low": [1, 2], "high": [2, 2], "note": [None, "x"]})).texts()
    ['not(t.high is null)', 'not(t.low > t.high)', 'not(t.low is null)']
    """
    wanted = Wanted.of(("dc",), nulls, max_error=max_error)
    settled = Choices(None, types, columns, exclude).settle(read_all(data))
    words = TextDictionary()
    found = []
    for name, (source, options) in settled.items():
        codes, table = _rows_of(name, source, options, words).codes(), name if isinstance(data, Mapping) else None
        found.append(rules_of_rows(options.schema, codes, wanted.nulls, wanted.max_error, ranges=ranges, table=table))
    return RuleSet.joined(found)


def foreign_keys(
    data: Any,
    *,
    most_missing: float = MOST_MISSING,
    columns: Names | Mapping[str, Names] | None = None,
    exclude: Names | Mapping[str, Names] | None = None,
    types: Mapping[str, Any] | None = None,
) -> list[ForeignKey]:
    """Which inclusions look like foreign keys, the likeliest first: into a column without duplicates, with up to
    `most_missing` of the distinct left values missing there; each with its reasons.

    >>> import pyarrow as pa
    >>> orders, customers = pa.table({"customer": [7, 9, 7]}), pa.table({"id": [7, 8, 9], "name": ["x", "y", "x"]})
    >>> print(foreign_keys({"orders": orders, "customers": customers})[0].rule)
    orders.customer in customers.id
    """
    settled = Choices(None, types, columns, exclude).settle(read_all(data))
    words = TextDictionary()
    rows = {name: _rows_of(name, source, options, words) for name, (source, options) in settled.items()}
    found = Inclusions({name: options.schema for name, (_, options) in settled.items()}, words)
    found.load({name: some.codes() for name, some in rows.items()})
    return suggestions(found, rows, most_missing)


def _rows_of(name: str, source: Source, options: TableOptions, words: TextDictionary) -> Rows:
    rows = Rows(options.schema, options.key)
    planner = Planner(name, rows, words, options.declared, options.ignored)
    rows.merge(planner.plan([Part.of(source, "insert")]).delta)
    return rows


def _search(found: DatabaseRules, rows: Mapping[str, Rows], budget: Budget) -> None:
    """Finds the rules. Where the rows of a table were still being compared when time was up, none are proven."""
    try:
        found.begin(rows, budget)
    except Cancelled:
        assert budget.ended is not None


def with_supports(rules: RuleSet, rows: Mapping[str, Rows], nulls: str) -> RuleSet:
    """The rules with the number of rows that each says something about: for an FD those that share their left values
    with another row, for a key all. Of a thousand rules at most; more are not looked at."""
    if len(rules) > _MOST_SUPPORTS:
        return rules
    tables = {block.table or next(iter(rows)) for block in rules.blocks if block.kind in OF_ONE_TABLE}
    groups = {name: Partitions.of_codes(rows[name].codes(), nulls) for name in tables}
    blocks = []
    for block in rules.blocks:
        name = block.table or next(iter(rows))
        blocks.append(_supported(block, groups[name]) if block.kind in OF_ONE_TABLE else block)
    return replace(rules, blocks=tuple(blocks))


def _supported(block: Block, groups: Partitions) -> Block:
    places = {name: i for i, name in enumerate(block.names)}
    lefts = [rule.left if isinstance(rule, Fd) else None for rule in block]
    counts = [groups.rows if x is None else len(groups.of([places[c] for c in sorted(x)]).rows) for x in lefts]
    return replace(block, supports=np.array(counts, np.int64))


@contextmanager
def _interruptible(budget: Budget, cancellation: Cancellation) -> Iterator[None]:
    """Lets the first Ctrl-C end the search with what it has; a second one is raised."""

    def stop(number: int, frame: Any) -> None:
        if budget.ended is not None:
            raise KeyboardInterrupt
        budget.ended = "interrupted"
        cancellation.cancel()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
