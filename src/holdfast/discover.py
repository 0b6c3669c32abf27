"""Finding the rules that hold on data that does not change."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any

import numpy as np

from holdfast.discovery.budget import Budget, Progress
from holdfast.discovery.database import DatabaseRules
from holdfast.discovery.foreign_keys import MOST_MISSING, ForeignKey
from holdfast.discovery.interest import TableMeasures, Weights
from holdfast.discovery.partitions import Partitions
from holdfast.discovery.rank import DEFAULT_MOST, WORTH_READING, Ranked
from holdfast.discovery.wanted import DEFAULT_KINDS, OF_ONE_TABLE, CrossColumns, Sizes, Wanted
from holdfast.discovery.width import within_memory
from holdfast.errors import HoldfastError, shown
from holdfast.executors.executor import Cancellation, Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.html_table import html_table
from holdfast.loaded import Loaded
from holdfast.rules.plain import plain_minimal
from holdfast.rules.rule import Dc, Fd, Rule
from holdfast.rules.ruleset import Block, RuleSet
from holdfast.table.options import Choices, Names
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema

TIME_BUDGET = 60.0
_MOST_SUPPORTS = 1000
_WORTH_COMPARING = 0.01  # the share of pairs of rows that would violate a comparison within a row
_MOST_PAIRS = 2e7  # compared one by one: where rows do not change, with more it is faster to validate what stands
_MOST_COUNTED = 2e9  # pairs for denial constraints and order dependencies: some 60,000 rows


@dataclass(frozen=True, eq=False, repr=False)
class Profile(RuleSet):
    """The rules that hold on some data, with the data: so that it can say which are worth reading, and why."""

    data: Loaded | None = field(default=None)
    wanted: Wanted | None = field(default=None)

    def best(
        self, most: int | None = DEFAULT_MOST, weights: Weights | None = None, least: float = WORTH_READING
    ) -> list[Ranked]:
        """The rules of each kind that a person finds worth reading, the best first, each with its reasons."""
        if self.data is None or self.wanted is None:
            return []
        return self.data.best(self, self.wanted.nulls, most, weights, least)

    def _repr_html_(self) -> str:
        best = self.best()
        rows = [(r.kind, r.score, r.text, r.sentence, "; ".join((*r.notes, *r.reasons))) for r in best]
        shown = html_table(["kind", "score", "rule", "sentence", "why"], rows, len(rows), most=len(rows))
        return f"<p>{escape(repr(self))}; those worth reading:</p>{shown}"

    @property
    def foreign_keys(self) -> list[ForeignKey]:
        """Inclusions between tables that look like foreign keys, the likeliest first; also some that nearly hold."""
        if self.data is None or self.wanted is None or "ind" not in self.wanted.kinds:
            return []
        return self.data.likely_keys

    @cached_property
    def best_row_rules(self) -> list[Rule]:
        """Of the comparisons of two columns in each row, those worth reading, the best first: many rows have both
        values, and other rows' values would not do."""
        if self.data is None or self.wanted is None:
            return []
        measures = {n: TableMeasures(r.schema, r.codes(), self.wanted.nulls) for n, r in self.data.rows.items()}
        first = next(iter(measures))
        scored = [
            (measures[rule.table or first].of_one_row(rule), text, rule)
            for rule, text in self.row_rules.with_texts()
            if isinstance(rule, Dc)
        ]
        return [rule for score, _, rule in sorted(scored, key=lambda s: (-s[0], s[1])) if score >= _WORTH_COMPARING]

    @cached_property
    def row_rules(self) -> RuleSet:
        """Rules about single rows, where denial constraints were asked for."""
        if self.data is None or self.wanted is None or "dc" not in self.wanted.kinds:
            return RuleSet()
        return self.data.row_rules(self.wanted.nulls, self.wanted.max_error)


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
) -> Profile:
    """All minimal rules of these kinds that hold; `.best()` says which are worth reading, and why.

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
    loaded = Loaded.of(data, Choices(key, types, columns, exclude))
    rules = search(loaded, wanted, time_budget, progress, executor)
    if minimal == "plain":
        blocks = [block if block.kind != "dc" else _plainly(block, loaded.schemas) for block in rules.blocks]
        rules = replace(rules, blocks=tuple(blocks))
    return rules


def search(
    loaded: Loaded,
    wanted: Wanted,
    time_budget: float | None = TIME_BUDGET,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Profile:
    """The same of tables that are codes already."""
    budget, cancellation = Budget(time_budget, progress), Cancellation()

    def tell(share: float) -> None:
        budget.tell("comparing rows", share)
        if budget.spent():
            cancellation.cancel()

    runs_on = executor or ThreadExecutor(progress=tell, cancellation=cancellation)
    rows = loaded.rows
    found = DatabaseRules(
        loaded.schemas,
        wanted,
        loaded.words,
        runs_on,
        named=loaded.named,
        most_pairs=_MOST_PAIRS,
        most_counted=_MOST_COUNTED,
    )
    with _interruptible(budget, cancellation), within_memory(loaded.schemas):
        found.begin(rows, budget)
    rules = with_supports(found.rules(), rows, wanted.nulls)
    limits = rules.limits if budget.ended is None else (*rules.limits, budget.ended)
    limits += (f"not finished: {'; '.join(found.unfinished)}",) if found.unfinished else ()
    return Profile(rules.blocks, budget.ended is None, limits, rules.how, rules.vacuous, loaded, wanted)


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
    loaded = Loaded.of(data, Choices(None, types, columns, exclude))
    return loaded.row_rules(wanted.nulls, wanted.max_error, ranges=ranges)


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
    return Loaded.of(data, Choices(None, types, columns, exclude)).foreign_keys(most_missing=most_missing)


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
