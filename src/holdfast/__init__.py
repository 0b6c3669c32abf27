"""Holdfast tells which rules hold on your data, and keeps that answer true while the data changes."""

from holdfast.check import Found, check
from holdfast.discover import discover, foreign_keys, row_rules
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
from holdfast.rulebook import Rulebook
from holdfast.rulebook.outcome import Outcome
from holdfast.rules.change import RuleChange
from holdfast.rules.grammar import parse
from holdfast.rules.rule import Dc, Fd, Ind, Key, Order
from holdfast.rules.rulefile import RuleFile
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sql import violations_sql
from holdfast.table.change import Change, read_feed
from holdfast.table.schema import Schema

__version__ = "0.2.0"

__all__ = [
    "Change",
    "ChangeRefused",
    "Dc",
    "Fd",
    "Found",
    "HoldfastError",
    "Ind",
    "Key",
    "NotAvailable",
    "Order",
    "Outcome",
    "ParseError",
    "ReadError",
    "RuleChange",
    "RuleError",
    "RuleFile",
    "RuleSet",
    "Rulebook",
    "Schema",
    "SchemaError",
    "StoreError",
    "ValueRefused",
    "check",
    "discover",
    "foreign_keys",
    "parse",
    "read_feed",
    "row_rules",
    "violations_sql",
]
