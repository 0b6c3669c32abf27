"""What was decided when a rulebook was made, and what its process gives it to work with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from holdfast.discovery.budget import Progress as SearchProgress
from holdfast.discovery.search_options import MEMORY_BUDGET, SEARCH_KEYWORDS, SearchKeywords, SearchOptions
from holdfast.errors import HoldfastError, RuleError, SchemaError, shown
from holdfast.executors.executor import Executor
from holdfast.rules.bind import require_fits, require_policy, require_predicates_fit, table_of
from holdfast.rules.rulefile import RuleEntry, require_distinct
from holdfast.store.disk import Disk
from holdfast.store.log import Record
from holdfast.table.options import CHOICE_KEYWORDS, Choices, Names, TableOptions, maskable, require_keywords
from holdfast.table.reading import Reading
from holdfast.table.schema import unknown_name
from holdfast.violations.detect import Progress

DEFAULT_KEEP = 10
TEXT_FORM = 2  # of values that inclusions compare as text; 1 wrote decimals at their column's scale


@dataclass(frozen=True)
class BookOptions:
    """What the store keeps of a rulebook's options.

    `search`: the rules that are found and kept; None: none. `rule_nulls`: the null policy of given rules that name
    none. `named`: rules print the name of their table. `keep`: how many versions stay open to readers. `outbox`:
    versions keep the events for sinks. `mask`: columns whose values are not shown. `text_form`: how the files write
    values that inclusions compare as text. `order`: the tables in the order in which they were given, by which the
    files number the columns of inclusions; empty in rulebooks of earlier releases, which did not keep it.
    """

    nulls: str = "equal"
    rule_nulls: str = "sql"
    search: SearchOptions | None = None
    named: bool = False
    keep: int = DEFAULT_KEEP
    outbox: bool = False
    only_inserts: bool = False
    mask: tuple[str, ...] = ()
    text_form: int = TEXT_FORM
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_policy(self.rule_nulls)
        if isinstance(self.keep, bool) or not isinstance(self.keep, int) or self.keep < 1:
            raise HoldfastError(f"keep is how many versions stay, 1 or more, not {shown(self.keep)}")

    @property
    def has_readable_values(self) -> bool:
        """Whether the values of inclusions in the files can be used. Those of an earlier release cannot if the form of
        texts changed since then, or if nobody knows the order of its tables: then values are taken from the rows."""
        has_form = self.search is None or self.search.compare != "text" or self.text_form == TEXT_FORM
        return has_form and (bool(self.order) or not self.named)

    def ordered(self, tables: Mapping[str, Any]) -> list[str]:
        """The names of the tables as they were given. A manifest sorts them."""
        return list(self.order or tables)

    def to_json(self) -> Record:
        record = {**vars(self), "mask": list(self.mask), "order": list(self.order)}
        search = record.pop("search")
        return {**record, "wanted": None if search is None else search.to_json()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> BookOptions:
        """Reads options of this release and of earlier ones."""
        search = record.get("wanted")
        return cls(
            nulls=record["nulls"],
            rule_nulls=record["rule_nulls"],
            search=None if search is None else SearchOptions.from_json(search),
            named=record.get("named", False),
            keep=record["keep"],
            outbox=record["outbox"],
            only_inserts=record.get("only_inserts", False),
            mask=tuple(record.get("mask", ())),
            text_form=record.get("text_form", 1),
            order=tuple(record.get("order", ())),
        )


@dataclass(frozen=True)
class Resources:
    """What a process gives a rulebook to work with.

    `progress` is called, while rows are indexed, with how many of how many are done; `search_progress`, while rules are
    searched, with the current step and the share of it that is done. On an `executor` (threads, Spark)
    indexes are in parts, which are searched side by side. `memory_budget`: the most bytes for the values of inclusions;
    the rest stays in files. `rule_budget`: the seconds that a batch may spend on found rules (None: any). Rules that
    would take longer are late, see `Rulebook.late`; violations never are.
    """

    progress: Progress | None = None
    search_progress: SearchProgress | None = None
    executor: Executor | None = None
    memory_budget: int = MEMORY_BUDGET
    rule_budget: float | None = None

    def __post_init__(self) -> None:
        seconds = self.rule_budget
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0):
            raise HoldfastError(f"rule_budget is a number of seconds, or None for any, not {shown(seconds)}")


class OpenKeywords(TypedDict, total=False):
    """The fields of `Resources` as keyword arguments of `Rulebook.open`."""

    progress: Progress | None
    search_progress: SearchProgress | None
    executor: Executor | None
    memory_budget: int
    rule_budget: float | None


class BookKeywords(SearchKeywords, OpenKeywords, total=False):
    """Keyword arguments of `Rulebook.create` beside those that it names: the fields of `SearchOptions` one by one,
    which columns of the tables, what the store keeps, and what to work with."""

    kinds: Sequence[str]
    types: Mapping[str, Any] | None
    columns: Names | Mapping[str, Names] | None
    exclude: Names | Mapping[str, Names] | None
    reading: Reading
    keep: int
    outbox: bool
    mask: Iterable[str]
    time_budget: float | None
    disk: Disk | None


_CHOICES, _STORED = CHOICE_KEYWORDS - {"key"}, ("keep", "outbox", "mask")
_RESOURCES, _OTHERS = tuple(field.name for field in fields(Resources)), ("time_budget", "disk")


@dataclass(frozen=True)
class Creation:
    """The keyword arguments of `Rulebook.create`, sorted by what they are for."""

    search: SearchOptions
    choices: Choices
    stored: dict[str, Any]
    resources: Resources
    time_budget: float | None
    disk: Disk | None

    @classmethod
    def of(
        cls, key: Names | Mapping[str, Names] | None, search: SearchOptions | None, given: Mapping[str, Any]
    ) -> Creation:
        """Sorts them. `kinds` decides whether rules are found: without it there are none."""
        require_keywords("Rulebook.create", given, {*SEARCH_KEYWORDS, *_CHOICES, *_STORED, *_RESOURCES, *_OTHERS})

        def chosen(names: Iterable[str]) -> dict[str, Any]:
            return {name: given[name] for name in names if name in given}

        keywords = {"kinds": (), **chosen(SEARCH_KEYWORDS)} if search is None else chosen(SEARCH_KEYWORDS)
        return cls(
            SearchOptions.folded(search, keywords),
            Choices(key, **chosen(_CHOICES)),
            chosen(_STORED),
            Resources(**chosen(_RESOURCES)),
            given.get("time_budget"),
            given.get("disk"),
        )


def require_entries(entries: Sequence[RuleEntry], tables: Mapping[str, TableOptions]) -> tuple[RuleEntry, ...]:
    """The rules, each with an id of its own and about columns that exist; else an error."""
    schemas = {name: table.schema for name, table in tables.items()}
    times = Counter(entry.id for entry in entries)
    for entry in entries:
        if times[entry.id] > 1:
            raise RuleError(f"`{entry.rule}`: the id {shown(entry.id)} is given twice")
        require_fits(entry.value, schemas)
        require_predicates_fit(entry.predicates, schemas[table_of(entry.value, schemas)])
    require_distinct(entries, schemas)
    return tuple(entries)


def require_mask(columns: Iterable[str], tables: Mapping[str, TableOptions]) -> tuple[str, ...]:
    """The masked columns, sorted. A name that no column has would hide nothing, and is an error."""
    known = maskable(tables)
    for column in columns:
        if column not in known:
            raise SchemaError(f"mask: {unknown_name('column', str(column), sorted(known))}; nothing would be hidden")
    return tuple(sorted(set(columns)))
