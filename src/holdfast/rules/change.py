"""The effect of a row change on the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from holdfast.rules.rule import Rule
from holdfast.rules.ruleset import RuleSet

Pair = tuple[int, int]


def _no_pair(_: Rule) -> Pair | None:
    return None


def _no_value(_: Rule) -> object:
    return None


@dataclass(frozen=True)
class RuleChange:
    """Rules added and removed.

    `why` gives the ids of the two rows that decided: for a removed rule, a pair that violates it; for an added rule, a
    pair that violated it and of which a row was deleted; None if no single pair is known, as after many deletes.
    `value` gives the value that broke or completed an inclusion. `vacuous` are the removed inclusions whose left side
    lost its last value; no row violates them. `table` is the table of the rules; None: of several tables.
    """

    added: RuleSet = field(default_factory=RuleSet)
    removed: RuleSet = field(default_factory=RuleSet)
    why: Callable[[Rule], Pair | None] = _no_pair
    value: Callable[[Rule], object] = _no_value
    vacuous: frozenset[Rule] = frozenset()
    table: str | None = None

    @classmethod
    def joined(cls, changes: Iterable[RuleChange], table: str | None = None) -> RuleChange:
        """Changes of different rules as one."""
        parts = [change for change in changes if change]
        if len(parts) < 2:
            return parts[0] if parts else cls(table=table)

        def why(rule: Rule) -> Pair | None:
            return next((pair for part in parts if (pair := part._why_of(rule)) is not None), None)

        def value(rule: Rule) -> object:
            return next((value for part in parts if (value := part.value(rule)) is not None), None)

        added, removed = (RuleSet.joined(part.added for part in parts), RuleSet.joined(part.removed for part in parts))
        vacuous = frozenset(rule for part in parts for rule in part.vacuous)
        return cls(added, removed, why, value, vacuous, table)

    def _why_of(self, rule: Rule) -> Pair | None:
        """`why`, for a rule that may be of another table."""
        return self.why(rule) if rule.table is None or rule.table == self.table or self.table is None else None

    def of_lone_table(self) -> RuleChange:
        """The same change; its rules do not print the name of their table."""
        return replace(self, added=self.added.of_lone_table(), removed=self.removed.of_lone_table())

    def __bool__(self) -> bool:
        return bool(len(self.added) or len(self.removed))
