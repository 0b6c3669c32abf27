"""Which rules are looked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import HoldfastError, NotAvailable, RuleError, shown
from holdfast.rules.bind import require_policy
from holdfast.rules.rule import KINDS

AVAILABLE = ("key", "fd", "ind", "order", "dc")
DEFAULT_KINDS = AVAILABLE
OF_ONE_TABLE, OF_EVIDENCE = ("key", "fd"), ("order", "dc")
DEFAULT_SIZES: Mapping[str, int | None] = {"key": 5, "fd": 5, "order": 3, "dc": 4, "ind": 1}
DEFAULT_ERRORS: Mapping[str, str] = {"key": "g3", "fd": "g3", "order": "g1", "dc": "g1"}
CrossColumns = bool | Sequence[tuple[str, str]]
Sizes = int | None | str | Mapping[str, int | None]


@dataclass(frozen=True)
class SearchOptions:
    """The kinds of rule, the null policy, the most columns of each kind, and how much error is allowed.

    >>> SearchOptions.of(("fd",), max_size=3).sizes
    {'fd': 3}
    """

    kinds: tuple[str, ...]
    nulls: str = "equal"
    sizes: dict[str, int | None] = field(default_factory=dict)
    max_error: float = 0.0
    error: str | None = None
    compare: str = "typed"  # the values of inclusions, or as `text`
    cross_columns: bool | tuple[tuple[str, str], ...] = True  # which a DC may compare with each other
    evidence: str = "auto"  # of order dependencies and DCs: all pairs `counted`, or `lean`: some of them
    only_inserts: bool = False  # the promise that nothing is ever deleted or updated

    @classmethod
    def of(
        cls,
        kinds: Sequence[str],
        nulls: str = "equal",
        max_size: Sizes = "default",
        max_error: float = 0.0,
        error: str | None = None,
        compare: str = "typed",
        *,
        cross_columns: CrossColumns = True,
        evidence: str = "auto",
        only_inserts: bool = False,
    ) -> SearchOptions:
        """Checked, with defaults for what was left open."""
        kinds = (kinds,) if isinstance(kinds, str) else tuple(dict.fromkeys(kinds))
        for kind in kinds:
            if kind not in KINDS:
                raise RuleError(f"{shown(kind)} is not one of the kinds of rule {', '.join(KINDS)}")
            if kind not in AVAILABLE:
                raise NotAvailable(f"discovery of {kind} is not in this version; it finds {' and '.join(AVAILABLE)}")
        if not isinstance(max_error, int | float) or isinstance(max_error, bool) or not 0 <= max_error < 1:
            raise HoldfastError(f"max_error is a share from 0 up to, but not, 1, not {shown(max_error)}")
        if error not in (None, "g1", "g3"):
            raise HoldfastError(f"error is 'g1' (pairs) or 'g3' (rows), not {shown(error)}")
        if compare not in ("typed", "text"):
            raise HoldfastError(f"compare is 'typed' or 'text', not {shown(compare)}")
        if evidence not in ("auto", "counted", "lean"):
            raise HoldfastError(f"evidence is 'auto', 'counted' or 'lean', not {shown(evidence)}")
        if evidence == "lean" and max_error and {*OF_EVIDENCE} & {*kinds}:
            raise HoldfastError(
                "lean evidence tells rules that hold, not those that nearly hold: max_error needs counts"
            )
        sizes = {kind: _size(max_size, kind) for kind in kinds}
        crossed = cross_columns if isinstance(cross_columns, bool) else tuple((a, b) for a, b in cross_columns)
        return cls(
            kinds, require_policy(nulls), sizes, float(max_error), error, compare, crossed, evidence, only_inserts
        )

    @property
    def of_one_table(self) -> tuple[str, ...]:
        """The kinds that are read from agree-sets."""
        return tuple(kind for kind in self.kinds if kind in OF_ONE_TABLE)

    @property
    def of_evidence(self) -> tuple[str, ...]:
        """The kinds that are read from evidence."""
        return tuple(kind for kind in self.kinds if kind in OF_EVIDENCE)

    def measure(self, kind: str) -> str:
        """How the error of a kind is measured: as asked for keys and FDs, by pairs for what is read from evidence."""
        return DEFAULT_ERRORS[kind] if kind in OF_EVIDENCE else self.error or DEFAULT_ERRORS[kind]

    @property
    def limits(self) -> tuple[str, ...]:
        """The size limits, in words."""
        what = {"dc": "compared pairs of columns"}
        sizes = ((kind, size) for kind, size in self.sizes.items() if size is not None)
        return tuple(f"{kind}: at most {size} {what.get(kind, 'columns')}" for kind, size in sizes)

    def to_json(self) -> dict[str, Any]:
        return {
            "kinds": list(self.kinds),
            "nulls": self.nulls,
            "sizes": self.sizes,
            "max_error": self.max_error,
            "error": self.error,
            "compare": self.compare,
            "cross_columns": self.cross_columns,
            "evidence": self.evidence,
            "only_inserts": self.only_inserts,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> SearchOptions:
        crossed = record["cross_columns"]
        crossed = crossed if isinstance(crossed, bool) else tuple((a, b) for a, b in crossed)
        return cls(**{**record, "kinds": tuple(record["kinds"]), "cross_columns": crossed})


def _size(given: Sizes, kind: str) -> int | None:
    if given == "default":
        return DEFAULT_SIZES[kind]
    size = given.get(kind, DEFAULT_SIZES[kind]) if isinstance(given, Mapping) else given
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        raise HoldfastError(f"max_size is a number from 0 on, None, or a number for each kind, not {shown(given)}")
    return size
