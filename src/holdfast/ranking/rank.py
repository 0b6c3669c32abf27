"""Chooses the few rules that are worth reading, with the reasons for their scores.

What is shown of a table: what identifies a row (`identifiers`), what determines what (`dependencies`), what rises with
what (`orders`), what holds in each row (`comparisons`), and between tables what refers where (`foreign_keys`). Rules
that hold for all but a few rows count as rules: real data has errors, and a rule that is patched with an unrelated
column until it holds exactly is not the rule. Denial constraints about pairs of rows are hardly ever more than symptoms
of these; they are listed on request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.discovery.budget import Budget
from holdfast.discovery.search_options import SearchOptions
from holdfast.ranking.calculations import Calculations
from holdfast.ranking.comparisons import Comparisons
from holdfast.ranking.credible import MAX_EXCEPTIONS, Credible
from holdfast.ranking.dependencies import Dependencies
from holdfast.ranking.foreign_keys import ForeignKey, best_targets
from holdfast.ranking.identifiers import Identifiers
from holdfast.ranking.most import DEFAULT_MOST
from holdfast.ranking.orders import orders
from holdfast.ranking.table_view import TableView
from holdfast.rules.names import by_position
from holdfast.rules.rule import KINDS, Calculation, Dc, Fd, Key, Rule, as_dc
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sentence import sentence

WORTH_READING = 0.4  # the lowest score that is shown
LIKELY_KEY = 0.5  # the lowest score of an inclusion
_MAX_MISSING = 0.05  # share of the distinct left values of a foreign key that is shown
_MOST_KEYS = 200  # the shortest
NOT_ALL_RANKED = "worth reading: not everything was looked at"


@dataclass(frozen=True)
class Ranked:
    """A rule with its score (0 to 1) and the reasons for it. `error`: the share of rows that disagree (for order
    dependencies, of pairs of rows)."""

    rule: Rule
    text: str
    sentence: str
    table: str | None
    score: float
    error: float = 0.0
    support: int | None = None
    reasons: tuple[str, ...] = ()
    survived: str = ""  # what a rulebook knows: `held through 51 batches`

    @property
    def id(self) -> str:
        """The id of the rule."""
        return self.rule.id

    @property
    def kind(self) -> str:
        """The kind of the rule."""
        return self.rule.kind

    def record(self) -> dict[str, object]:
        """The fields for JSON."""
        fields = {"id": self.id, "kind": self.kind, "table": self.table, "text": self.text, "error": self.error}
        fields |= {"support": self.support, "sentence": self.sentence, "score": self.score}
        return fields | {"reasons": list(self.reasons)}


def rank(
    rules: RuleSet,
    tables: Mapping[str, TableView],
    options: SearchOptions,
    foreign_keys: Iterable[ForeignKey] = (),
    most: int | None = DEFAULT_MOST,
    least: float = WORTH_READING,
    budget: Budget | None = None,
    *,
    is_lone: bool = False,
) -> list[Ranked]:
    """The rules worth reading, by kind and table, then by score. `rules`: those that were found to hold; a lone table
    is not named. `most`: the most of each kind and table, left sides for FDs. `least`: the lowest score.

    Deterministic. If the budget runs out, some rules are missing, and the budget notes it.
    """
    budget = budget or Budget()
    found: list[Ranked] = []
    for name, view in tables.items():
        label, ranks = None if is_lone else name, by_position(view.schema.names)
        for one in _of_table(view, _keys(rules, name), options, most, budget):
            rule = replace(one.rule, table=label)
            words, (score, error) = sentence(rule, ranks, one.error), (one.score, one.error)
            found.append(Ranked(rule, rule.text(ranks), words, label, score, error, None, one.reasons))
    found += _references(foreign_keys) if "ind" in options.kinds else []
    return sorted((r for r in found if r.score >= least), key=lambda r: (KINDS.index(r.kind), r.table or ""))


def _keys(rules: RuleSet, table: str) -> list[frozenset[str]]:
    """The shortest keys of a table that were found."""
    blocks = [block.shortest(_MOST_KEYS) for block in rules.blocks if block.kind == "key" and block.table == table]
    return [rule.columns for block in blocks for rule in block if isinstance(rule, Key)]


def _of_table(
    view: TableView, keys: list[frozenset[str]], options: SearchOptions, most: int | None, budget: Budget
) -> list[Credible]:
    """What is worth reading about one table."""
    exceptions, kinds, credible = max(MAX_EXCEPTIONS, options.max_error), options.kinds, list[Credible]()
    if "key" in kinds:
        credible += Identifiers(view, keys, exceptions).rules()[:most]
    if "fd" in kinds or "order" in kinds:
        dependencies = Dependencies(view, options.sizes.get("fd"), exceptions, budget).rules(most)
        credible += dependencies if "fd" in kinds else []
        if "order" in kinds:
            credible += orders(view, [f.rule for f in dependencies if isinstance(f.rule, Fd)], exceptions, budget)[
                :most
            ]
    if "dc" in kinds:
        calculations = Calculations(view, exceptions, budget).rules()[:most]
        comparisons = Comparisons(view, exceptions, budget).rules()
        credible = calculations + [one for one in credible if not _follows(one, calculations)]
        credible += [one for one in comparisons if not _follows(one, calculations)][:most]
    if budget.ended is not None:
        budget.skip(NOT_ALL_RANKED)
    return credible


def _follows(one: Credible, calculations: Sequence[Credible]) -> bool:
    """Whether a dependency or comparison only says what a sum or product of the same columns says."""
    if not isinstance(one.rule, Fd | Dc):
        return False
    columns = {cell.column for p in as_dc(one.rule).predicates for cell in p.cells}
    for calculation in calculations:
        rule = calculation.rule
        if isinstance(rule, Calculation):
            parts = {rule.formula.left, rule.formula.right}
            is_same = columns == parts | {rule.result} if isinstance(one.rule, Fd) else rule.result in columns
            if is_same and columns <= parts | {rule.result}:
                return True
    return False


def _references(foreign_keys: Iterable[ForeignKey]) -> Iterator[Ranked]:
    """The inclusions that look like foreign keys: one target for each left side."""
    for key in best_targets(foreign_keys):
        if key.score >= LIKELY_KEY and key.missing <= _MAX_MISSING:
            words = sentence(key.rule, error=key.missing)
            yield Ranked(key.rule, str(key.rule), words, None, round(key.score, 3), key.missing, None, key.reasons)
