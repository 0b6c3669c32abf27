"""Holdfast tells which rules hold on your data, and keeps that answer true while the data changes."""

from holdfast.check import Found, check
from holdfast.discover import discover, foreign_keys, row_rules
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
from holdfast.profile import Profile
from holdfast.ranking.foreign_keys import ForeignKey
from holdfast.ranking.interest import Weights
from holdfast.ranking.rank import Ranked
from holdfast.rulebook import Rulebook
from holdfast.rulebook.outcome import Outcome
from holdfast.rulebook.publish import VersionEvents
from holdfast.rules.change import RuleChange
from holdfast.rules.grammar import parse
from holdfast.rules.nulls import Nulls
from holdfast.rules.rule import Dc, Fd, Ind, Key, Order, Rule
from holdfast.rules.rulefile import RuleEntry, RuleFile
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sql import violations_sql
from holdfast.table.change import Change, Feed, read_feed
from holdfast.table.effect import Bad, Drift
from holdfast.table.kind import Kind
from holdfast.table.options import TableOptions
from holdfast.table.schema import Column, Schema
from holdfast.violations.explain import Explanation
from holdfast.violations.listing import BatchViolations, RuleViolations
from holdfast.violations.look import Look, Violation

__version__ = "0.2.0"

__all__ = [
    "Bad",
    "BatchViolations",
    "Change",
    "ChangeRefused",
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
    "Weights",
    "check",
    "discover",
    "foreign_keys",
    "parse",
    "read_feed",
    "row_rules",
    "violations_sql",
]
