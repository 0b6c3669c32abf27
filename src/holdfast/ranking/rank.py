"""The few rules of each kind that a person finds worth reading, each with the reasons for its place.

A rule is left out where better ones say it already: an FD that follows from a key or, by transitivity, from FDs that
are shown; a denial constraint or an order dependency that restates one of these; what becomes the same rule when
columns with the same groups of values (a code and its name) are exchanged; further order dependencies and constraints
about just the same columns. Those of the last two kinds are named with the rule that stands for them. Where there are
few rules of a kind, all are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.discovery.budget import Budget
from holdfast.ranking.foreign_keys import ForeignKey
from holdfast.ranking.interest import Measures, TableMeasures, Weights, columns_of
from holdfast.rules.implication import Atom, atoms_of
from holdfast.rules.rule import KINDS, Dc, Fd, Ind, Key, Order, Rule, as_dc
from holdfast.rules.rule_block import RuleBlock
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sentence import sentence

DEFAULT_MOST = 10
WORTH_READING = 0.4  # the least score
LIKELY_KEY = 0.3  # the same of an inclusion
_LOOKED_AT = 1000  # of each kind and table, the shortest: longer ones are hardly ever worth reading
NOT_ALL_RANKED = "ranking: of some kinds only the shortest rules were looked at"
_NO_KEY = "the right side has duplicates: it is no foreign key"
_BLAND = Measures(1.0, 0.0, 0.0)


@dataclass(frozen=True)
class Ranked:
    """A rule with its place: a score from 0 to 1, why it has it, and what a reader must know before believing it.
    `also` are rules that it stands for."""

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
        return self.rule.id

    @property
    def kind(self) -> str:
        return self.rule.kind

    def record(self) -> dict[str, object]:
        """For JSON."""
        shown = {"id": self.id, "kind": self.kind, "table": self.table, "text": self.text, "error": self.error}
        shown |= {"support": self.support, "sentence": self.sentence, "score": self.score}
        return shown | {"reasons": list(self.reasons), "notes": list(self.notes), "also": list(self.also)}


def rank(
    rules: RuleSet,
    tables: Mapping[str, TableMeasures],
    keys: Iterable[ForeignKey] = (),
    weights: Weights | None = None,
    most: int | None = DEFAULT_MOST,
    least: float = WORTH_READING,
    budget: Budget | None = None,
) -> list[Ranked]:
    """The best rules of each kind and table with at least this score, at most so many (all that say something new for
    None), by kind, then by score. The same rules and rows give the same ranking; equal scores go by text. Where the
    budget is spent, of the shortest rules, and a note in it. O(candidates x rows looked at)."""
    weights, budget, made = weights or Weights(), budget or Budget(), []
    blocks: dict[str | None, dict[str, RuleBlock]] = {}
    for block in rules.blocks:
        blocks.setdefault(block.table, {})[block.kind] = block
    for number, (table, by_kind) in enumerate(blocks.items()):
        mine = budget.part(1 / (len(blocks) - number))
        if "ind" in by_kind:
            made += _inclusions(by_kind.pop("ind"), keys, most, min(least, LIKELY_KEY))
        if by_kind:
            measures = tables[table or next(iter(tables))]
            made += _Choice(by_kind, measures, weights, mine).chosen(most, least)
    return sorted(made, key=lambda r: (KINDS.index(r.kind), r.table or ""))


def _inclusions(block: RuleBlock, keys: Iterable[ForeignKey], most: int | None, least: float) -> list[Ranked]:
    """Those that look like foreign keys first, then the others."""
    likely, made = {key.rule: key for key in keys}, []
    for rule, text, error, support in block.shortest(max(_LOOKED_AT, len(likely))).with_details():
        key = likely.get(rule) if isinstance(rule, Ind) else None
        score, reasons = (0.0, (_NO_KEY,)) if key is None else (round(key.score, 3), key.reasons)
        made.append(Ranked(rule, text, sentence(rule, block.rank, error), None, score, error, support, reasons))
    ranked = sorted(made, key=lambda r: (-r.score, r.text))
    return [r for r in ranked if _are_few(block, most) or r.score >= least][:most]


def _are_few(block: RuleBlock, most: int | None) -> bool:
    return most is not None and len(block) <= most


class _Choice:
    """Chooses among the rules of one table, kind by kind: later kinds restate earlier ones, not the other way round."""

    def __init__(
        self, blocks: Mapping[str, RuleBlock], measures: TableMeasures, weights: Weights, budget: Budget
    ) -> None:
        self._blocks, self._measures, self._weights, self._budget = blocks, measures, weights, budget
        self._same = measures.same_groups()
        self._keys = [rule.columns for rule in self._exact("key") if isinstance(rule, Key)]
        self._fds: list[tuple[Fd, float]] = []  # shown, with their errors
        self._said: list[frozenset[Atom]] = []  # rules that hold, as weak atoms

    def chosen(self, most: int | None, least: float) -> list[Ranked]:
        made = []
        for kind in KINDS:
            if kind in self._blocks:
                made += self._of_kind(self._blocks[kind], most, least)
                held = (rule for rule in self._exact(kind) if not isinstance(rule, Ind))
                self._said += [atoms_of(as_dc(rule).predicates) for rule in held]
        return made

    def _exact(self, kind: str) -> list[Rule]:
        """The shortest rules of a kind that hold without exception: only these imply others."""
        if kind not in self._blocks:
            return []
        block = self._blocks[kind].shortest(_LOOKED_AT)
        return [rule for rule, _, error, _ in block.with_details() if not error]

    def _of_kind(self, block: RuleBlock, most: int | None, least: float) -> list[Ranked]:
        if _are_few(block, most):
            return self._candidates(block)
        made: dict[object, Ranked] = {}
        candidates = self._candidates(block)
        for place, candidate in enumerate(candidates):
            if place >= DEFAULT_MOST and len(made) and self._budget.spent():
                self._budget.skip(NOT_ALL_RANKED)
                break
            form = self._form(candidate.rule)
            if form in made:
                made[form] = replace(made[form], also=(*made[form].also, candidate.text))
            elif (
                candidate.score >= least
                and (most is None or len(made) < most)
                and not self._is_said(candidate.rule, candidate.error)
            ):
                made[form] = candidate
                if isinstance(candidate.rule, Fd):
                    self._fds.append((candidate.rule, candidate.error))
        return list(made.values())

    def _candidates(self, block: RuleBlock) -> list[Ranked]:
        made: list[Ranked] = []
        for rule, text, error, support in block.shortest(_LOOKED_AT).with_details():
            if len(made) >= DEFAULT_MOST and self._budget.spent():
                self._budget.skip(NOT_ALL_RANKED)
                break
            one_row = isinstance(rule, Dc) and rule.is_one_row
            found = _BLAND if one_row else self._measures.measure(rule, error)
            words, score = sentence(rule, block.rank, error), self._weights.score(found)
            made.append(Ranked(rule, text, words, block.table, score, error, support, found.reasons, found.notes))
        return sorted(made, key=lambda r: (-r.score, r.text))

    def _form(self, rule: Rule) -> object:
        """The same for rules of which one is enough."""
        if isinstance(rule, Order | Dc) and not (isinstance(rule, Dc) and rule.is_one_row):
            return frozenset(self._same.get(name, name) for name in columns_of(rule))
        if isinstance(rule, Fd):
            left, right = (
                frozenset(self._same.get(name, name) for name in rule.left),
                self._same.get(rule.right, rule.right),
            )
            return left | {right} if right in left else (left, right)
        return rule

    def _is_said(self, rule: Rule, error: float) -> bool:
        """Whether rules that hold as well, and are shown or keys, imply it."""
        if isinstance(rule, Fd):
            return any(key <= rule.left for key in self._keys) or rule.right in self._closure(rule.left, error)
        if isinstance(rule, Order | Dc):
            dc = as_dc(rule)
            sides = [atoms_of(side) for side in (dc.predicates, dc.mirrored())]
            return any(said <= side for said in self._said for side in sides)
        return False

    def _closure(self, left: frozenset[str], error: float) -> set[str]:
        """The columns that a left side determines, by the FDs that are shown (Armstrong's rules); nearly so by FDs that
        nearly hold, for one that does no more than that."""
        known, grew = set(left), True
        while grew:
            new = {fd.right for fd, wrong in self._fds if fd.left <= known and (error or not wrong)} - known
            known |= new
            grew = bool(new)
        return known
