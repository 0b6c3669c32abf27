"""Finding the rules that hold on data that does not change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from holdfast.discovery.budget import Budget, Progress
from holdfast.discovery.database import DatabaseRules, PairLimits, Searched
from holdfast.discovery.fd.supports import with_supports
from holdfast.discovery.interrupt import INTERRUPTED, interruptible
from holdfast.discovery.search_options import SEARCH_KEYWORDS, SearchKeywords, SearchOptions
from holdfast.discovery.width import within_memory
from holdfast.encoded_tables import EncodedTables
from holdfast.errors import HoldfastError, shown
from holdfast.executors.executor import Cancellation, Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.places import is_for_spark
from holdfast.profile import Profile
from holdfast.ranking.foreign_keys import MAX_MISSING, ForeignKey
from holdfast.rules.plain import plain_within
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.wording import counted
from holdfast.table.options import CHOICE_KEYWORDS, ChoiceKeywords, Choices, require_keywords
from holdfast.table.schema import Schema

TIME_BUDGET = 60.0
_RESERVED = 0.2  # of the time, for what follows the search
_LISTING = 0.35  # the same if all rules are listed
_MAX_RESERVED, _FOR_TABLE = 3.0, 1.0  # seconds, and so many more for each table
_LEAST_LEFT = 1.0  # second, for each further question
_FOR_PLAIN = 0.4  # of the time, if constraints are minimised as in the papers
_MAX_PAIRS = 2e7  # compared one by one: if rows do not change, with more it is faster to validate claims
_MAX_COUNTED = 2e9  # pairs for denial constraints and order dependencies: some 60,000 rows


class DiscoverKeywords(SearchKeywords, ChoiceKeywords, total=False):
    """Keyword arguments of `discover`: the fields of `SearchOptions` one by one, and which columns of the tables."""


def discover(
    data: Any,
    kinds: Sequence[str] | None = None,
    *,
    search: SearchOptions | None = None,
    minimal: str = "implication",
    time_budget: float | None = TIME_BUDGET,
    progress: Progress | None = None,
    executor: Executor | None = None,
    on: str = "auto",
    **options: Unpack[DiscoverKeywords],
) -> Profile:
    """Finds all minimal rules that hold; `.best()` says which are worth reading, and why.

    `search` says which rules; its fields may be given one by one instead (`kinds=("key", "fd"), max_error=0.01`), see
    `SearchOptions`. `key`, `types`, `columns` and `exclude` are those of `Rulebook.create`. `minimal`: a denial
    constraint is listed if no other one implies it (`implication`), or, as in the papers, if no predicate can be left
    out (`plain`). `time_budget`: seconds, reading included, after which the result is what is proven until then;
    `complete` is false then, and `unfinished` and `limits` say what was not searched. Ctrl-C does the same. `progress`
    is called with what is being done and the share that is done. `executor`: where many rows are compared; threads of
    this process by default. `on`: where the rows are, `process` or `spark` (for Spark DataFrames); `auto` decides by
    their number. On Spark, only a sample of the rows comes to this process.

    >>> import pyarrow as pa
    >>> table = pa.table({"id": [1, 2, 3], "zip": [10115, 10115, 20095], "city": ["B", "B", "HH"]})
    >>> discover(table, ("key", "fd")).texts()
    ['city -> zip', 'id -> city', 'id -> zip', 'key(id)', 'zip -> city']
    """
    require_keywords("discover", options, SEARCH_KEYWORDS | CHOICE_KEYWORDS)
    keywords: dict[str, Any] = {name: value for name, value in options.items() if name in SEARCH_KEYWORDS}
    if kinds is not None:
        keywords["kinds"] = kinds
    asked = SearchOptions.folded(search, keywords)
    if minimal not in ("implication", "plain") or (minimal == "plain" and asked.max_error):
        raise HoldfastError(f"minimal is 'implication' or, for rules that hold exactly, 'plain', not {shown(minimal)}")
    budget = Budget(time_budget, progress, divided=True)
    choices = Choices(**{name: value for name, value in options.items() if name in CHOICE_KEYWORDS})  # type: ignore[arg-type]
    if is_for_spark(data, on):
        return found_on_spark(budget, data, asked, choices)
    is_plain = minimal == "plain"
    return found_within(budget, lambda: EncodedTables.of(data, choices, budget), asked, executor, plain=is_plain)


def found_on_spark(budget: Budget, data: Any, options: SearchOptions, choices: Choices) -> Profile:
    """The rules of Spark DataFrames. They are proven on all rows, and ranked by a sample."""
    from holdfast.spark.search import find_on_spark

    found = find_on_spark(data, options, choices, budget)
    rules = RuleSet.joined(found.rules)
    rules = rules.of_lone_table() if found.sample.is_lone else rules
    reasons = [str(budget.ended), f"not finished: {in_words(found.unfinished)}"] if found.unfinished else []
    reasons += [f"candidates from a sample of the rows: {in_words(found.partial)}"] if found.partial else []
    how = ("on Spark: a sample, then a search for pairs of rows that refute what holds there",)
    unfinished = (*found.unfinished, *found.partial)
    limits = (*options.limits, *reasons)
    data = (found.sample, options, tuple(found.finished), unfinished)
    return Profile(rules.blocks, not unfinished, limits, how, found.vacuous, *data)


def search(
    loaded: EncodedTables,
    options: SearchOptions,
    time_budget: float | None = TIME_BUDGET,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Profile:
    """The same on tables that are encoded already."""
    return found_within(Budget(time_budget, progress, divided=True), lambda: loaded, options, executor)


def found_within(
    budget: Budget,
    load: Callable[[], EncodedTables],
    options: SearchOptions,
    executor: Executor | None = None,
    *,
    plain: bool = False,
    listed: bool = False,
) -> Profile:
    """Reads tables and searches their rules within one budget. Some of the time is reserved for supports, ranking and
    printing; more of it if all rules are `listed`."""
    cancellation = Cancellation()
    runs_on = executor or ThreadExecutor(cancellation=cancellation)
    with interruptible(budget, cancellation):
        loaded = load()
        reserve = _reserved_seconds(loaded, budget.seconds or 0.0, listed)
        searching = budget.part(1 - _FOR_PLAIN if plain else 1.0, reserve)
        found = DatabaseRules(
            loaded.schemas,
            options,
            loaded.dictionary,
            runs_on,
            limits=PairLimits(_MAX_PAIRS, _MAX_COUNTED),
            static=True,
        )
        with within_memory(loaded.schemas):
            found.begin(loaded.rows, searching)
    after = budget.rest()
    with interruptible(after, again=budget.ended == INTERRUPTED):
        rules = found.rules()
        if plain:
            rules = _plainly(rules, found, loaded.schemas, after.part(1.0, reserve))
        rules = with_supports(rules, loaded.rows, options.nulls, after.part(0.5))
    rules = rules.of_lone_table() if loaded.is_lone else rules
    unread = [Searched(kind, name) for name in loaded.unread for kind in options.kinds]
    unfinished = [Searched("ind") if search.kind == "ind" else search for search in [*found.unfinished, *unread]]
    unfinished = list(dict.fromkeys(unfinished))
    done = tuple(search for search in found.searched() if search not in unfinished)
    limits = (*rules.limits, *_reasons(found, loaded, budget), *after.skipped)
    data = (loaded, options, done, tuple(unfinished))
    profile = Profile(rules.blocks, not unfinished, limits, rules.how, rules.vacuous, *data)
    left = after.left()
    return replace(profile, left=left if left is None else max(left, min(reserve, _LEAST_LEFT)))


def _reserved_seconds(loaded: EncodedTables, seconds: float, listed: bool) -> float:
    """The seconds that are reserved for supports, ranking and printing, or for listing all rules."""
    return _LISTING * seconds if listed else min(_RESERVED * seconds, _MAX_RESERVED + _FOR_TABLE * len(loaded.rows))


def _reasons(found: DatabaseRules, loaded: EncodedTables, budget: Budget) -> list[str]:
    """What was not searched, and why, in words."""
    made = list(dict.fromkeys(found.unfinished.values()))
    if loaded.unread:
        made = [str(budget.ended), f"not read: {', '.join(loaded.unread)}"]
    by_size: dict[tuple[int, bool], list[Searched]] = {}
    for searched, size in found.complete_up_to.items():
        if size >= 0:
            by_size.setdefault((size, searched.kind == "dc"), []).append(searched)
    for (size, is_dc), whole in sorted(by_size.items()):
        what = counted(size, "compared column") if is_dc else f"{counted(size, 'column')} on the left"
        made.append(f"all rules with up to {what} are found: {in_words(whole)}")
    return [*made, f"not finished: {in_words(found.unfinished)}"] if found.unfinished else made


def in_words(searches: Iterable[Searched]) -> str:
    """`key, fd of orders; ind`."""
    by_table: dict[str | None, list[str]] = {}
    for kind, table in searches:
        by_table.setdefault(table, []).append(kind)
    return "; ".join(f"{', '.join(kinds)}{f' of {table}' if table else ''}" for table, kinds in by_table.items())


def _plainly(rules: RuleSet, found: DatabaseRules, schemas: Mapping[str, Schema], budget: Budget) -> RuleSet:
    """The rules with denial constraints that are minimal as the papers define it. If a search did not finish, some of
    them are missing."""
    blocks = []
    for block in rules.blocks:
        name = block.table or ""
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
    **options: Unpack[ChoiceKeywords],
) -> RuleSet:
    """Finds rules about single rows: columns that are never null, and ordered columns of one kind of which one is
    never greater than the other; with `ranges` also their least and greatest values. Up to `max_error` of the rows
    may violate a rule.

    >>> import pyarrow as pa
    >>> row_rules(pa.table({"low": [1, 2], "high": [2, 2], "note": [None, "x"]})).texts()
    ['not(t.high is null)', 'not(t.low > t.high)', 'not(t.low is null)']
    """
    search = SearchOptions(("dc",), nulls, max_error=max_error)
    tables = EncodedTables.of(data, Choices.of("row_rules", options))
    return tables.row_rules(search.nulls, search.max_error, ranges=ranges)


def foreign_keys(
    data: Any,
    *,
    most_missing: float = MAX_MISSING,
    **options: Unpack[ChoiceKeywords],
) -> list[ForeignKey]:
    """Finds inclusions that look like foreign keys, the likeliest first, each with its reasons. The right column has no
    duplicates, and up to `most_missing` of the distinct left values are missing there.

    >>> import pyarrow as pa
    >>> orders, customers = pa.table({"customer": [7, 9, 7]}), pa.table({"id": [7, 8, 9], "name": ["x", "y", "x"]})
    >>> print(foreign_keys({"orders": orders, "customers": customers})[0].rule)
    orders.customer in customers.id
    """
    return EncodedTables.of(data, Choices.of("foreign_keys", options)).foreign_keys(most_missing=most_missing)
