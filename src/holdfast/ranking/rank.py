"""Chooses the few rules of each kind that are worth reading, with the reasons for their scores.

A rule is left out if a better rule already says it:

- an FD that follows from a key, or by transitivity from FDs that are shown;
- a denial constraint or order dependency that restates one of these;
- a rule that differs only by columns with the same groups of values (a code and its name);
- a further order dependency or denial constraint about the same columns.

Rules of the last two cases are listed as similar to the rule that is shown. If a kind has few rules, all are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.discovery.budget import Budget
from holdfast.ranking.foreign_keys import ForeignKey
from holdfast.ranking.interest import Measures, TableMeasures, Weights, columns_of
from holdfast.ranking.most import DEFAULT_MOST
from holdfast.rules.implication import Atom, atoms_of
from holdfast.rules.rule import KINDS, Dc, Fd, Ind, Key, Order, Rule, as_dc
from holdfast.rules.rule_block import RuleBlock
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sentence import sentence

WORTH_READING = 0.4  # the lowest score that is shown
LIKELY_KEY = 0.3  # the lowest score of an inclusion
_MAX_CANDIDATES = 1000  # the shortest of each kind and table: longer rules are hardly ever worth reading
NOT_ALL_RANKED = "ranking: of some kinds only the shortest rules were looked at"
_NO_KEY = "the right side has duplicates, so it is no foreign key"
_ROW_RULE = Measures(1.0, 0.0, 0.0)


@dataclass(frozen=True)
class Ranked:
    """A rule with its score (0 to 1) and the reasons for it.

    `notes`: warnings about the rule; `also`: similar rules that are left out.
    """

    rule: Rule
    text: str
    sentence: str
    table: str | None
    score: float
    error: float = 0.0
    support: int | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    also: tuple[str, ...] = field(default=(), compare=False)

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
        return fields | {"reasons": list(self.reasons), "notes": list(self.notes), "also": list(self.also)}


def rank(
    rules: RuleSet,
    tables: Mapping[str, TableMeasures],
    keys: Iterable[ForeignKey] = (),
    weights: Weights | None = None,
    most: int | None = DEFAULT_MOST,
    least: float = WORTH_READING,
    budget: Budget | None = None,
) -> list[Ranked]:
    """The best rules of each kind and table, by kind, then by score; equal scores by text.

    `most`: the most rules of each kind and table (None: all that say something new); `least`: the lowest score. The
    ranking is deterministic. If the budget runs out, only the shortest rules are ranked, and the budget notes it.
    O(candidates x sampled rows).
    """
    weights, budget, ranked = weights or Weights(), budget or Budget(), list[Ranked]()
    blocks: dict[str | None, dict[str, RuleBlock]] = {}
    for block in rules.blocks:
        blocks.setdefault(block.table, {})[block.kind] = block
    for number, (table, by_kind) in enumerate(blocks.items()):
        share = budget.part(1 / (len(blocks) - number))
        if "ind" in by_kind:
            ranked += _inclusions(by_kind.pop("ind"), keys, most, min(least, LIKELY_KEY))
        if by_kind:
            ranked += _Choice(by_kind, tables[table or ""], weights, share).chosen(most, least)
    return sorted(ranked, key=lambda r: (KINDS.index(r.kind), r.table or ""))


def _inclusions(block: RuleBlock, keys: Iterable[ForeignKey], most: int | None, least: float) -> list[Ranked]:
    """The inclusions that look like foreign keys, then the others."""
    likely, candidates = {key.rule: key for key in keys}, []
    for rule, text, error, support in block.shortest(max(_MAX_CANDIDATES, len(likely))).with_details():
        key = likely.get(rule) if isinstance(rule, Ind) else None
        score, reasons = (0.0, (_NO_KEY,)) if key is None else (round(key.score, 3), key.reasons)
        candidates.append(Ranked(rule, text, sentence(rule, block.rank, error), None, score, error, support, reasons))
    ranked = sorted(candidates, key=lambda r: (-r.score, r.text))
    return [r for r in ranked if _are_few(block, most) or r.score >= least][:most]


def _are_few(block: RuleBlock, most: int | None) -> bool:
    return most is not None and len(block) <= most


class _Choice:
    """Chooses among the rules of one table, kind by kind. Later kinds may restate earlier ones, never the reverse."""

    def __init__(
        self, blocks: Mapping[str, RuleBlock], measures: TableMeasures, weights: Weights, budget: Budget
    ) -> None:
        self._blocks, self._measures, self._weights, self._budget = blocks, measures, weights, budget
        self._same = measures.same_groups()
        self._keys = [rule.columns for rule in self._exact("key") if isinstance(rule, Key)]
        self._shown_fds: list[tuple[Fd, float]] = []  # with their errors
        self._shown_atoms: list[frozenset[Atom]] = []  # the exact rules of earlier kinds, as weak atoms

    def chosen(self, most: int | None, least: float) -> list[Ranked]:
        ranked = []
        for kind in KINDS:
            if kind in self._blocks:
                ranked += self._of_kind(self._blocks[kind], most, least)
                exact = (rule for rule in self._exact(kind) if not isinstance(rule, Ind))
                self._shown_atoms += [atoms_of(as_dc(rule).predicates) for rule in exact]
        return ranked

    def _exact(self, kind: str) -> list[Rule]:
        """The shortest rules of a kind that hold exactly: only exact rules imply others."""
        if kind not in self._blocks:
            return []
        block = self._blocks[kind].shortest(_MAX_CANDIDATES)
        return [rule for rule, _, error, _ in block.with_details() if not error]

    def _of_kind(self, block: RuleBlock, most: int | None, least: float) -> list[Ranked]:
        if _are_few(block, most):
            return self._candidates(block)
        chosen: dict[object, Ranked] = {}
        for place, candidate in enumerate(self._candidates(block)):
            if place >= DEFAULT_MOST and len(chosen) and self._budget.spent():
                self._budget.skip(NOT_ALL_RANKED)
                break
            form = self._form(candidate.rule)
            if form in chosen:
                chosen[form] = replace(chosen[form], also=(*chosen[form].also, candidate.text))
            elif (
                candidate.score >= least
                and (most is None or len(chosen) < most)
                and not self._is_implied(candidate.rule, candidate.error)
            ):
                chosen[form] = candidate
                if isinstance(candidate.rule, Fd):
                    self._shown_fds.append((candidate.rule, candidate.error))
        return list(chosen.values())

    def _candidates(self, block: RuleBlock) -> list[Ranked]:
        candidates: list[Ranked] = []
        for rule, text, error, support in block.shortest(_MAX_CANDIDATES).with_details():
            if len(candidates) >= DEFAULT_MOST and self._budget.spent():
                self._budget.skip(NOT_ALL_RANKED)
                break
            is_row_rule = isinstance(rule, Dc) and rule.is_one_row
            measures = _ROW_RULE if is_row_rule else self._measures.measure(rule, error)
            words, score = sentence(rule, block.rank, error), self._weights.score(measures)
            candidates.append(
                Ranked(rule, text, words, block.label, score, error, support, measures.reasons, measures.notes)
            )
        return sorted(candidates, key=lambda r: (-r.score, r.text))

    def _form(self, rule: Rule) -> object:
        """A value that is equal for rules of which one is enough."""
        if isinstance(rule, Order | Dc) and not (isinstance(rule, Dc) and rule.is_one_row):
            return frozenset(self._same.get(name, name) for name in columns_of(rule))
        if isinstance(rule, Fd):
            left, right = (
                frozenset(self._same.get(name, name) for name in rule.left),
                self._same.get(rule.right, rule.right),
            )
            return left | {right} if right in left else (left, right)
        return rule

    def _is_implied(self, rule: Rule, error: float) -> bool:
        """Whether a key, a shown FD or an exact rule of an earlier kind implies a rule."""
        if isinstance(rule, Fd):
            return any(key <= rule.left for key in self._keys) or rule.right in self._closure(rule.left, error)
        if isinstance(rule, Order | Dc):
            dc = as_dc(rule)
            sides = [atoms_of(side) for side in (dc.predicates, dc.mirrored())]
            return any(shown <= side for shown in self._shown_atoms for side in sides)
        return False

    def _closure(self, left: frozenset[str], error: float) -> set[str]:
        """The columns that a left side determines by the shown FDs (Armstrong's axioms).

        FDs that hold only nearly count only for a rule that holds only nearly.
        """
        closure, grew = set(left), True
        while grew:
            new = {
                fd.right for fd, fd_error in self._shown_fds if fd.left <= closure and (error or not fd_error)
            } - closure
            closure |= new
            grew = bool(new)
        return closure
