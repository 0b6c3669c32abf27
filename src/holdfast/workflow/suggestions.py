"""The rules of a rulebook that are worth reading, ranked by what they survived, and suggested in its file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.discovery.budget import Budget
from holdfast.discovery.search_options import SearchOptions
from holdfast.ranking.credible import MAX_EXCEPTIONS
from holdfast.ranking.most import DEFAULT_MOST
from holdfast.ranking.rank import WORTH_READING, Ranked
from holdfast.rulebook import Rulebook
from holdfast.rules.bind import resolved, table_of
from holdfast.rules.names import by_position
from holdfast.rules.rule import KINDS, Ind, Key, Rule
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.sentence import sentence
from holdfast.workflow.decisions import SUGGESTED, Decisions, look_at
from holdfast.workflow.survival import Survivals

_SURVIVED = (
    r"(held through [\d,]+ batch(es)?)?(; )?([\d,]+ new rows? could have broken it)?(; )?(broken [\d,]+ times? before)?"
)
_AFTER_WORDS = rf"(, nearly always \(error [^()]*\))?\.( \({_SURVIVED}\))?"  # of a description that was made
_SECONDS = 20.0  # for what is worth reading of all kinds


def best_survivors(book: Any, most: int | None = DEFAULT_MOST) -> list[Ranked]:
    """The rules worth reading of the kinds that the book keeps, of all kinds if it keeps none: their scores with what
    they survived, by kind and table, the highest score first. Rules that came and went are left out once that makes
    them doubtful."""
    if not isinstance(book, Rulebook):  # on Spark nothing is ranked
        return []
    best = book.best(most) if book.kept_kinds else of_all_kinds(book, most)
    if len(book.records()) < 2 or not best:
        return best
    survivals = Survivals(book)
    told = [_told(one, survivals) for one in best]
    worth = [one for one in told if one.score >= WORTH_READING]
    return sorted(worth, key=lambda one: (KINDS.index(one.kind), one.table or "", -one.score))


def of_all_kinds(book: Rulebook, most: int | None = DEFAULT_MOST) -> list[Ranked]:
    """The rules worth reading, also of kinds that the book does not keep, as `holdfast discover` shows them."""
    options = SearchOptions(nulls=book.discovery_nulls)
    return book.encoded.best(book.found(), options, most, budget=Budget(_SECONDS))


def _told(one: Ranked, survivals: Survivals) -> Ranked:
    survival = None if one.error else survivals.of(one.rule)
    return one if survival is None else replace(one, score=survival.score(one.score), survived=str(survival))


def refresh_suggestions(decisions: Decisions, book: Rulebook, ranked: Sequence[Ranked]) -> tuple[list[str], list[str]]:
    """Adds rules worth reading to the suggestions of a file, except declared keys; ranks these again, and withdraws
    those that were exact when they were suggested, and with which more rows disagree now than with any rule that is
    shown. Returns the texts of new and of withdrawn rules. O(rows) for each suggestion."""
    tables = tuple(book.schemas)
    credible = {resolved(one.rule, tables) for one in ranked}

    def is_ours(entry: RuleEntry) -> bool:
        words = re.escape(_sentence(entry.value, book).removesuffix("."))
        return re.fullmatch(words + _AFTER_WORDS, entry.description or "") is not None

    def holds(entry: RuleEntry) -> bool:
        is_exact = (entry.description or "").startswith(_sentence(entry.value, book))
        return not is_exact or resolved(entry.value, tables) in credible or _error(book, entry) <= MAX_EXCEPTIONS

    new = decisions.suggest([one for one in ranked if not is_declared_key(one.rule, book)], book.discovery_nulls)
    withdrawn = decisions.suggested_again([*ranked, *_others(decisions, book, credible)], holds, is_ours)
    return [entry.rule for entry in new], withdrawn


def is_declared_key(rule: Rule, book: Rulebook) -> bool:
    """Whether this is the key that the user declared for the table."""
    if not isinstance(rule, Key):
        return False
    return any(set(table.key) == rule.columns and rule.table in (None, name) for name, table in book.tables.items())


def _others(decisions: Decisions, book: Rulebook, credible: set[Rule]) -> list[Ranked]:
    """Exact suggestions that are not worth reading any more, with what they survived: some came and went."""
    survivals, tables, found = Survivals(book), tuple(book.schemas), list[Ranked]()
    for entry in decisions.with_status(SUGGESTED):
        survival = None if resolved(entry.value, tables) in credible else survivals.of(entry.value)
        if survival is not None:
            words = _sentence(entry.value, book)
            found.append(Ranked(entry.value, entry.rule, words, entry.value.table, 0.0, survived=str(survival)))
    return found


def _sentence(rule: Rule, book: Rulebook) -> str:
    """The sentence of a suggestion, with columns in the order of their table."""
    if isinstance(rule, Ind):
        return sentence(rule)
    return sentence(rule, by_position(book.schemas[table_of(rule, book.schemas)].names))


def _error(book: Rulebook, entry: RuleEntry) -> float:
    """The share of rows that must be removed so that a key or dependency holds; of other rules, their error."""
    look = look_at(book, entry.id)
    groups = look.groups(0) if look.count else None
    return look.error if groups is None else groups.fewest / book.count(look.table)
