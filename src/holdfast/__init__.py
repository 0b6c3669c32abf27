"""Holdfast tells which rules hold on your data, and keeps that answer true while the data changes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.checking import Found, check
    from holdfast.discovery.database import Searched
    from holdfast.discovery.search_options import SearchOptions
    from holdfast.errors import (
        ChangeRefused,
        HoldfastError,
        NotAvailable,
        ParseError,
        ReadError,
        RuleError,
        SchemaError,
        StoreError,
        ValueRefused,
    )
    from holdfast.finding import discover, foreign_keys, row_rules
    from holdfast.profile import Profile
    from holdfast.ranking.foreign_keys import ForeignKey
    from holdfast.ranking.rank import Ranked
    from holdfast.rulebook import Rulebook
    from holdfast.rulebook.outcome import Outcome
    from holdfast.rulebook.publish import VersionEvents
    from holdfast.rules.change import RuleChange
    from holdfast.rules.grammar import parse
    from holdfast.rules.nulls import Nulls
    from holdfast.rules.rule import Calculation, Dc, Fd, Ind, Key, Order, Rule
    from holdfast.rules.rulefile import RuleEntry, RuleFile
    from holdfast.rules.ruleset import RuleSet
    from holdfast.rules.sql import violations_sql
    from holdfast.table.change import Change, Feed, read_feed
    from holdfast.table.effect import Bad, Drift
    from holdfast.table.kind import Kind
    from holdfast.table.options import TableOptions
    from holdfast.table.reading import Reading
    from holdfast.table.schema import Column, Schema
    from holdfast.violations.clashing_groups import Clashing, ClashingGroup, ClashingGroups
    from holdfast.violations.explain import Explanation
    from holdfast.violations.listing import BatchViolations, RuleViolations
    from holdfast.violations.look import Look, Violation

__version__ = "0.2.0"

__all__ = [
    "Bad",
    "BatchViolations",
    "Calculation",
    "Change",
    "ChangeRefused",
    "Clashing",
    "ClashingGroup",
    "ClashingGroups",
    "Column",
    "Dc",
    "Drift",
    "Explanation",
    "Fd",
    "Feed",
    "ForeignKey",
    "Found",
    "HoldfastError",
    "Ind",
    "Key",
    "Kind",
    "Look",
    "NotAvailable",
    "Nulls",
    "Order",
    "Outcome",
    "ParseError",
    "Profile",
    "Ranked",
    "ReadError",
    "Reading",
    "Rule",
    "RuleChange",
    "RuleEntry",
    "RuleError",
    "RuleFile",
    "RuleSet",
    "RuleViolations",
    "Rulebook",
    "Schema",
    "SchemaError",
    "SearchOptions",
    "Searched",
    "StoreError",
    "TableOptions",
    "ValueRefused",
    "VersionEvents",
    "Violation",
    "check",
    "discover",
    "foreign_keys",
    "parse",
    "read_feed",
    "row_rules",
    "violations_sql",
]

_HOMES = {  # the names of each module; a module is imported when one of its names is used
    "holdfast.checking": "Found check",
    "holdfast.finding": "discover foreign_keys row_rules",
    "holdfast.discovery.database": "Searched",
    "holdfast.discovery.search_options": "SearchOptions",
    "holdfast.errors": "ChangeRefused HoldfastError NotAvailable ParseError ReadError RuleError SchemaError StoreError "
    "ValueRefused",
    "holdfast.profile": "Profile",
    "holdfast.ranking.foreign_keys": "ForeignKey",
    "holdfast.ranking.rank": "Ranked",
    "holdfast.rulebook": "Rulebook",
    "holdfast.rulebook.outcome": "Outcome",
    "holdfast.rulebook.publish": "VersionEvents",
    "holdfast.rules.change": "RuleChange",
    "holdfast.rules.grammar": "parse",
    "holdfast.rules.nulls": "Nulls",
    "holdfast.rules.rule": "Calculation Dc Fd Ind Key Order Rule",
    "holdfast.rules.rulefile": "RuleEntry RuleFile",
    "holdfast.rules.ruleset": "RuleSet",
    "holdfast.rules.sql": "violations_sql",
    "holdfast.table.change": "Change Feed read_feed",
    "holdfast.table.effect": "Bad Drift",
    "holdfast.table.kind": "Kind",
    "holdfast.table.options": "TableOptions",
    "holdfast.table.reading": "Reading",
    "holdfast.table.schema": "Column Schema",
    "holdfast.violations.clashing_groups": "Clashing ClashingGroup ClashingGroups",
    "holdfast.violations.explain": "Explanation",
    "holdfast.violations.listing": "BatchViolations RuleViolations",
    "holdfast.violations.look": "Look Violation",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used: a program pays only for what it needs."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'holdfast' has no attribute '{name}'")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
