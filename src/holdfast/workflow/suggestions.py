"""The rules of a rulebook that are worth reading, ranked by what they survived, and suggested in its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.ranking.credible import MAX_EXCEPTIONS
from holdfast.ranking.most import DEFAULT_MOST
from holdfast.ranking.rank import WORTH_READING, Ranked
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import resolved
from holdfast.rules.rule import KINDS
from holdfast.rules.rulefile import RuleEntry
from holdfast.workflow.decisions import Decisions, look_at
from holdfast.workflow.survival import Survivals


def best_survivors(book: Rulebook, most: int | None = DEFAULT_MOST) -> list[Ranked]:
    """The rules worth reading, their scores with what they survived: by kind and table, the highest score first. Rules
    that came and went are left out once that makes them doubtful."""
    best = book.best(most)
    if len(book.records()) < 2 or not best:
        return best
    survivals = Survivals(book)
    told = [_told(one, survivals) for one in best]
    worth = [one for one in told if one.score >= WORTH_READING]
    return sorted(worth, key=lambda one: (KINDS.index(one.kind), one.table or "", -one.score))


def _told(one: Ranked, survivals: Survivals) -> Ranked:
    survival = None if one.error else survivals.of(one.rule)
    return one if survival is None else replace(one, score=survival.score(one.score), survived=str(survival))


def refresh_suggestions(decisions: Decisions, book: Rulebook, ranked: Sequence[Ranked]) -> tuple[list[str], list[str]]:
    """Adds rules worth reading to the suggestions of a file, ranks these again, and withdraws those that do not hold
    any more. Returns the texts of new and of withdrawn rules. O(rows) for each suggestion."""

    credible = {resolved(one.rule, tuple(book.schemas)) for one in ranked}

    def holds(entry: RuleEntry) -> bool:
        return resolved(entry.value, tuple(book.schemas)) in credible or _error(book, entry) <= MAX_EXCEPTIONS

    new = decisions.suggest(ranked, book.discovery_nulls)
    withdrawn = decisions.suggested_again(ranked, holds)
    return [entry.rule for entry in new], withdrawn


def _error(book: Rulebook, entry: RuleEntry) -> float:
    """The share of rows that must be removed so that a key or dependency holds; of other rules, their error."""
    look = look_at(book, entry.id)
    groups = look.groups(0) if look.count else None
    return look.error if groups is None else groups.fewest / book.count(look.table)
