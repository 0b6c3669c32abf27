"""Finding the rules that hold on data that does not change."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any

import numpy as np

from holdfast.discovery.budget import Budget, Progress
from holdfast.discovery.database import DatabaseRules, Searched
from holdfast.discovery.fd.partitions import Partitions
from holdfast.discovery.search_options import DEFAULT_KINDS, OF_ONE_TABLE, CrossColumns, SearchOptions, Sizes
from holdfast.discovery.width import within_memory
from holdfast.encoded_tables import EncodedTables
from holdfast.errors import HoldfastError, shown
from holdfast.executors.executor import Cancellation, Cancelled, Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.html_table import html_table
from holdfast.ranking.foreign_keys import MAX_MISSING, ForeignKey
from holdfast.ranking.interest import TableMeasures, Weights
from holdfast.ranking.rank import DEFAULT_MOST, NOT_ALL_RANKED, WORTH_READING, Ranked
from holdfast.rules.plain import plain_within
from holdfast.rules.rule import Dc, Fd, Rule
from holdfast.rules.ruleset import RuleBlock, RuleSet
from holdfast.table.options import Choices, Names
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema

TIME_BUDGET = 60.0
_RESERVED = 0.2  # of the time, for what follows the search
_LISTING = 0.35  # the same where all rules are listed
_MAX_RESERVED, _FOR_TABLE = 3.0, 1.0  # seconds, and so many more for each table
_LEAST_LEFT = 1.0  # second, for each further question
_FOR_PLAIN = 0.4  # of the time, where constraints are minimised as in the papers
_SUPPORTED = 32  # rules between looks at the clock
INTERRUPTED = "interrupted"
_MAX_SUPPORTS = 1000
_WORTH_COMPARING = 0.01  # the share of pairs of rows that would violate a comparison within a row
_MAX_PAIRS = 2e7  # compared one by one: where rows do not change, with more it is faster to validate what stands
_MAX_COUNTED = 2e9  # pairs for denial constraints and order dependencies: some 60,000 rows


@dataclass(frozen=True, eq=False, repr=False)
class Profile(RuleSet):
    """The rules that hold on some data, with the data: so that it can say which are worth reading, and why.

    `searched` are the searches that finished: their rules are all there are. Of an `unfinished` one rules may be
    missing, so that it says nothing of what does not hold. `left`: how many seconds of the time budget are left for
    each further question; what it does not finish is told in `limits`. Questions on one `clock` share that time.
    """

    data: EncodedTables | None = field(default=None)
    wanted: SearchOptions | None = field(default=None)
    searched: tuple[Searched, ...] = ()
    unfinished: tuple[Searched, ...] = ()
    left: float | None = None
    clock: Budget | None = None

    @contextmanager
    def timed(self) -> Iterator[Budget]:
        """The time for a question; what it skips becomes a limit."""
        budget = self.clock or Budget(self.left, divided=True)
        yield budget
        new = tuple(text for text in budget.skipped if text not in self.limits)
        object.__setattr__(self, "limits", (*self.limits, *new))  # which questions are asked later is not known before

    def best(
        self, most: int | None = DEFAULT_MOST, weights: Weights | None = None, least: float = WORTH_READING
    ) -> list[Ranked]:
        """The rules of each kind that a person finds worth reading, the best first, each with its reasons."""
        if self.data is None or self.wanted is None:
            return []
        with self.timed() as budget:
            return self.data.best(self, self.wanted.nulls, most, weights, least, budget)

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
        with self.timed() as budget:
            return self.data.keys_within(budget)

    @cached_property
    def best_row_rules(self) -> list[Rule]:
        """Of the comparisons of two columns in each row, those worth reading, the best first: many rows have both
        values, and other rows' values would not do."""
        if self.data is None or self.wanted is None or not len(self.row_rules):
            return []
        measures = {n: TableMeasures(r.schema, r.codes(), self.wanted.nulls) for n, r in self.data.rows.items()}
        first, scored = next(iter(measures)), list[tuple[float, str, Dc]]()
        with self.timed() as budget:
            for rule, text in self.row_rules.with_texts():
                if len(scored) >= DEFAULT_MOST and budget.spent():
                    budget.skip(NOT_ALL_RANKED)
                    break
                if isinstance(rule, Dc):
                    scored.append((measures[rule.table or first].of_one_row(rule), text, rule))
        return [rule for score, _, rule in sorted(scored, key=lambda s: (-s[0], s[1])) if score >= _WORTH_COMPARING]

    @cached_property
    def row_rules(self) -> RuleSet:
        """Rules about single rows, where denial constraints were asked for."""
        if self.data is None or self.wanted is None or "dc" not in self.wanted.kinds:
            return RuleSet()
        with self.timed() as budget:
            return self.data.row_rules(self.wanted.nulls, self.wanted.max_error, budget=budget)


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
    some that others say already). `time_budget`: seconds, reading included, after which what is proven until then is
    the result; then `complete` is false, and `unfinished` and `limits` say what was not searched. Ctrl-C does the same.
    `progress` is told what is being done and how much of it is done. `executor`: where many rows are compared, threads
    of this process by default.

    >>> import pyarrow as pa
    >>> table = pa.table({"id": [1, 2, 3], "zip": [10115, 10115, 20095], "city": ["B", "B", "HH"]})
    >>> discover(table, ("key", "fd")).texts()
    ['city -> zip', 'id -> city', 'id -> zip', 'key(id)', 'zip -> city']
    """
    wanted = SearchOptions.of(
        kinds, nulls, max_size, max_error, error, compare, cross_columns=cross_columns, evidence=evidence
    )
    if minimal not in ("implication", "plain") or (minimal == "plain" and max_error):
        raise HoldfastError(f"minimal is 'implication' or, for rules that hold exactly, 'plain', not {shown(minimal)}")
    budget = Budget(time_budget, progress, divided=True)
    choices = Choices(key, types, columns, exclude)
    return found_within(
        budget, lambda: EncodedTables.of(data, choices, budget), wanted, executor, plain=minimal == "plain"
    )


def search(
    loaded: EncodedTables,
    wanted: SearchOptions,
    time_budget: float | None = TIME_BUDGET,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Profile:
    """The same of tables that are codes already."""
    return found_within(Budget(time_budget, progress, divided=True), lambda: loaded, wanted, executor)


def found_within(
    budget: Budget,
    load: Callable[[], EncodedTables],
    wanted: SearchOptions,
    executor: Executor | None = None,
    *,
    plain: bool = False,
    listed: bool = False,
) -> Profile:
    """The rules of tables that are read and searched within one budget. Some of it is kept for what follows the search,
    so that what is known when time is up can be told in time; more of it where all rules are `listed`."""
    cancellation = Cancellation()
    runs_on = executor or ThreadExecutor(cancellation=cancellation)
    with interruptible(budget, cancellation):
        loaded = load()
        reserve = _time_to_tell(loaded, budget.seconds or 0.0, listed)
        searching = budget.part(1 - _FOR_PLAIN if plain else 1.0, reserve)
        found = DatabaseRules(
            loaded.schemas,
            wanted,
            loaded.dictionary,
            runs_on,
            named=loaded.named,
            most_pairs=_MAX_PAIRS,
            most_counted=_MAX_COUNTED,
        )
        with within_memory(loaded.schemas):
            found.begin(loaded.rows, searching)
    after = budget.rest()
    with interruptible(after, again=budget.ended == INTERRUPTED):
        rules = found.rules()
        if plain:
            rules = _plainly(rules, found, loaded.schemas, after.part(1.0, reserve))
        rules = with_supports(rules, loaded.rows, wanted.nulls, after.part(0.5))
    open_ = [*found.unfinished, *(Searched(kind, name) for name in loaded.unread for kind in wanted.kinds)]
    open_ = list(dict.fromkeys(Searched("ind") if some.kind == "ind" else some for some in open_))
    done = tuple(some for some in found.searched() if some not in open_)
    limits = (*rules.limits, *_reasons(found, loaded, budget), *after.skipped)
    made = Profile(rules.blocks, not open_, limits, rules.how, rules.vacuous, loaded, wanted, done, tuple(open_))
    left = after.left()
    return replace(made, left=left if left is None else max(left, min(reserve, _LEAST_LEFT)))


def _time_to_tell(loaded: EncodedTables, seconds: float, listed: bool) -> float:
    """The seconds that are kept for supports, ranking and printing, or for listing all rules."""
    return _LISTING * seconds if listed else min(_RESERVED * seconds, _MAX_RESERVED + _FOR_TABLE * len(loaded.rows))


def _reasons(found: DatabaseRules, loaded: EncodedTables, budget: Budget) -> list[str]:
    """Why not everything was searched, and what not, in words."""
    made = list(dict.fromkeys(found.unfinished.values()))
    if loaded.unread:
        made = [str(budget.ended), f"not read: {', '.join(loaded.unread)}"]
    return [*made, f"not finished: {in_words(found.unfinished)}"] if found.unfinished else made


def in_words(searches: Iterable[Searched]) -> str:
    """`key, fd of orders; ind`."""
    by_table: dict[str | None, list[str]] = {}
    for kind, table in searches:
        by_table.setdefault(table, []).append(kind)
    return "; ".join(f"{', '.join(kinds)}{f' of {table}' if table else ''}" for table, kinds in by_table.items())


def _plainly(rules: RuleSet, found: DatabaseRules, schemas: Mapping[str, Schema], budget: Budget) -> RuleSet:
    """With the denial constraints as the papers count them. Of a search that did not finish, those that were found are
    minimal in this way too; which others are is not known."""
    blocks = []
    for block in rules.blocks:
        name = block.table or next(iter(schemas))
        if block.kind == "dc" and Searched("dc", name) not in found.unfinished:
            made, whole = plain_within(block, schemas[name], budget.spent)
            (block,) = made.blocks
            if not whole:
                found.unfinished[Searched("dc", name)] = str(budget.ended)
        blocks.append(block)
    return replace(rules, blocks=tuple(blocks))


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
    wanted = SearchOptions.of(("dc",), nulls, max_error=max_error)
    loaded = EncodedTables.of(data, Choices(None, types, columns, exclude))
    return loaded.row_rules(wanted.nulls, wanted.max_error, ranges=ranges)


def foreign_keys(
    data: Any,
    *,
    most_missing: float = MAX_MISSING,
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
    return EncodedTables.of(data, Choices(None, types, columns, exclude)).foreign_keys(most_missing=most_missing)


def with_supports(rules: RuleSet, rows: Mapping[str, Rows], nulls: str, budget: Budget | None = None) -> RuleSet:
    """The rules with the number of rows that each says something about: for an FD those that share their left values
    with another row, for a key all. Of a thousand rules at most; more are not looked at, nor are those of a table and
    kind for which there is no time."""
    if len(rules) > _MAX_SUPPORTS:
        return rules
    budget = budget or Budget()
    groups: dict[str, Partitions] = {}
    blocks = []
    for block in rules.blocks:
        name = block.table or next(iter(rows))
        if block.kind in OF_ONE_TABLE:
            try:
                budget.check()
                groups[name] = groups.get(name) or Partitions.of_codes(rows[name].codes(), nulls)
                block = _supported(block, groups[name], budget)
            except Cancelled:
                budget.skip(f"the support of {block.kind} rules was not counted")
        blocks.append(block)
    return replace(rules, blocks=tuple(blocks))


def _supported(block: RuleBlock, groups: Partitions, budget: Budget) -> RuleBlock:
    places = {name: i for i, name in enumerate(block.names)}
    counts = []
    for done, rule in enumerate(block):
        if done % _SUPPORTED == 0:
            budget.check()
        left = rule.left if isinstance(rule, Fd) else None
        counts.append(groups.rows if left is None else len(groups.of([places[c] for c in sorted(left)]).rows))
    return replace(block, supports=np.array(counts, np.int64))


@contextmanager
def interruptible(budget: Budget, cancellation: Cancellation | None = None, *, again: bool = False) -> Iterator[None]:
    """Lets the first Ctrl-C end the work with what it has; a second one is raised, and so is the first `again`."""

    def stop(number: int, frame: Any) -> None:
        if again or budget.ended == INTERRUPTED:
            raise KeyboardInterrupt
        budget.ended = INTERRUPTED
        if cancellation is not None:
            cancellation.cancel()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
