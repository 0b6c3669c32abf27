"""Which rules are searched: one value that is passed from the caller to the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, TypedDict

from holdfast.errors import HoldfastError, RuleError, shown
from holdfast.rules.bind import require_policy
from holdfast.rules.rule import KINDS, SEARCHED_KINDS

DEFAULT_KINDS = SEARCHED_KINDS
OF_ONE_TABLE, OF_EVIDENCE = ("key", "fd"), ("order", "dc")
DEFAULT_SIZES: Mapping[str, int | None] = {"key": 5, "fd": 5, "order": 3, "dc": 4, "ind": 1}
DEFAULT_ERRORS: Mapping[str, str] = {"key": "g3", "fd": "g3", "order": "g1", "dc": "g1"}
MEMORY_BUDGET = 1 << 30  # bytes for the values of inclusions
CrossColumns = bool | Sequence[tuple[str, str]]
Sizes = int | None | str | Mapping[str, int | None]


class SearchKeywords(TypedDict, total=False):
    """The fields of `SearchOptions` but `kinds` as keyword arguments, as `discover` and `Rulebook.create` take them."""

    nulls: str
    max_size: Sizes
    max_error: float
    error: str | None
    compare: str
    cross_columns: CrossColumns
    evidence: str
    only_inserts: bool


@dataclass(frozen=True)
class SearchOptions:
    """Which rules are searched, and what counts as holding.

    `kinds`: `key`, `fd`, `ind`, `order`, `dc`; all by default. `nulls`: how nulls compare, `equal`, `distinct` or
    `sql`. `max_size`: the most columns of a key, of an FD's left side (5), of an order dependency's left side (3), of
    an inclusion (1), and the most compared pairs of columns of a denial constraint (4); a number, None for no limit,
    or a number for each kind. `max_error`: also find rules that hold up to this error; `error` says which one for
    keys and FDs, `g3` (rows to remove) or `g1` (violating pairs); for inclusions it is the share of distinct left
    values that are missing. `compare`: the values of inclusions by kind (`typed`) or all as `text`. `cross_columns`:
    which different columns a denial constraint may compare: those that share values (True), none (False), or these
    pairs. `evidence`: for order dependencies and denial constraints, count all pairs (`counted`) or only as many as
    the proof needs (`lean`); the answer is the same. `only_inserts`: a promise that no row is ever deleted or
    updated.

    >>> SearchOptions("fd", max_size=3).sizes
    {'fd': 3}
    """

    kinds: Sequence[str] = DEFAULT_KINDS
    nulls: str = "equal"
    max_size: Sizes = "default"
    max_error: float = 0.0
    error: str | None = None
    compare: str = "typed"
    cross_columns: CrossColumns = True
    evidence: str = "auto"
    only_inserts: bool = False

    def __post_init__(self) -> None:
        kinds = (self.kinds,) if isinstance(self.kinds, str) else tuple(dict.fromkeys(self.kinds))
        crossed = self.cross_columns
        crossed = crossed if isinstance(crossed, bool) else tuple((a, b) for a, b in crossed)
        self._check(kinds)
        for name, value in (
            ("kinds", kinds),
            ("nulls", require_policy(self.nulls)),
            ("max_error", float(self.max_error)),
            ("cross_columns", crossed),
        ):
            object.__setattr__(self, name, value)

    def _check(self, kinds: Sequence[str]) -> None:
        for kind in kinds:
            if kind not in KINDS:
                raise RuleError(f"{shown(kind)} is not one of the kinds of rule {', '.join(KINDS)}")
            if kind not in SEARCHED_KINDS:
                raise RuleError(f"rules of the kind {kind} are not searched; what is worth reading among them is shown")
            _size(self.max_size, kind)
        error = self.max_error
        if not isinstance(error, int | float) or isinstance(error, bool) or not 0 <= error < 1:
            raise HoldfastError(f"max_error is a share from 0 up to, but not, 1, not {shown(error)}")
        if self.error not in (None, "g1", "g3"):
            raise HoldfastError(f"error is 'g1' (pairs) or 'g3' (rows), not {shown(self.error)}")
        if self.compare not in ("typed", "text"):
            raise HoldfastError(f"compare is 'typed' or 'text', not {shown(self.compare)}")
        if self.evidence not in ("auto", "counted", "lean"):
            raise HoldfastError(f"evidence is 'auto', 'counted' or 'lean', not {shown(self.evidence)}")
        if self.evidence == "lean" and error and {*OF_EVIDENCE} & {*kinds}:
            raise HoldfastError("lean evidence finds only rules that hold exactly: max_error needs counts")

    @cached_property
    def sizes(self) -> dict[str, int | None]:
        """The size limit of each kind; None: no limit."""
        return {kind: _size(self.max_size, kind) for kind in self.kinds}

    @property
    def of_one_table(self) -> tuple[str, ...]:
        """The kinds that follow from agree-sets."""
        return tuple(kind for kind in self.kinds if kind in OF_ONE_TABLE)

    @property
    def of_evidence(self) -> tuple[str, ...]:
        """The kinds that follow from evidence."""
        return tuple(kind for kind in self.kinds if kind in OF_EVIDENCE)

    @property
    def has_facts(self) -> bool:
        """Whether tables have facts that a store keeps."""
        return bool(self.of_one_table or self.of_evidence)

    def measure(self, kind: str) -> str:
        """How the error of a kind is measured: as asked for keys and FDs, by pairs for the kinds of evidence."""
        return DEFAULT_ERRORS[kind] if kind in OF_EVIDENCE else self.error or DEFAULT_ERRORS[kind]

    @property
    def limits(self) -> tuple[str, ...]:
        """The size limits, in words."""
        what = {"dc": "compared pairs of columns"}
        sizes = ((kind, size) for kind, size in self.sizes.items() if size is not None)
        return tuple(f"{kind}: at most {size} {what.get(kind, 'columns')}" for kind, size in sizes)

    def to_json(self) -> dict[str, Any]:
        """The options as a JSON object, with a size for each kind."""
        record = asdict(self) | {"kinds": list(self.kinds), "sizes": self.sizes}
        del record["max_size"]
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> SearchOptions:
        return cls(**{name: value for name, value in record.items() if name != "sizes"}, max_size=record["sizes"])

    @classmethod
    def folded(cls, search: SearchOptions | None, keywords: Mapping[str, Any]) -> SearchOptions:
        """The options of a caller who gave a value or single keywords. Both at once is a mistake."""
        if search is None:
            return cls(**keywords)
        if keywords:
            raise HoldfastError(f"{', '.join(sorted(keywords))} and search= are given; put all of it into search=")
        return search


SEARCH_KEYWORDS = frozenset(field.name for field in fields(SearchOptions))


def _size(given: Sizes, kind: str) -> int | None:
    if isinstance(given, str) and given == "default":
        return DEFAULT_SIZES[kind]
    size = given.get(kind, DEFAULT_SIZES[kind]) if isinstance(given, Mapping) else given
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        raise HoldfastError(f"max_size is a number from 0 on, None, or a number for each kind, not {shown(given)}")
    return size
