"""Whether a rule has more violations than its tolerance allows."""

from __future__ import annotations

from holdfast.rulebook import Rulebook
from holdfast.rules.bind import table_of
from holdfast.rules.limit import exceeds
from holdfast.rules.rulefile import RuleEntry
from holdfast.violations.detect import CheckedRule


def exceeds_tolerance(entry: RuleEntry, violations: int, rows: int) -> bool:
    """Whether this many violations in a table of `rows` rows exceed the tolerance of a rule. Exact, without floats.

    The tolerance is a share of all ordered pairs of rows, or of the rows for a rule about single rows.

    >>> exceeds_tolerance(RuleEntry(id="city", rule="zip -> city", tolerance=0.3), 378, 36)
    False
    >>> exceeds_tolerance(RuleEntry(id="city", rule="zip -> city", tolerance=0.3), 379, 36)
    True
    """
    is_single = CheckedRule(entry.value, entry.nulls, entry.predicates).is_single
    return exceeds(violations, rows if is_single else rows * (rows - 1), entry.tolerance)


def is_beyond_tolerance(book: Rulebook, entry: RuleEntry) -> bool:
    """Whether the current violations of a checked rule exceed its tolerance."""
    rows = book.count(table_of(entry.value, book.schemas))
    return exceeds_tolerance(entry, book.count_violations(entry.id), rows)
