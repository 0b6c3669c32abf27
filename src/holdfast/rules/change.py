"""What a change of rows did to the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.rules.rule import Rule
from holdfast.rules.ruleset import RuleSet

Pair = tuple[int, int]


def _nobody(_: Rule) -> Pair | None:
    return None


def _nothing(_: Rule) -> object:
    return None


@dataclass(frozen=True)
class RuleChange:
    """Rules that came and rules that went.

    `why` names the two rows, by id, that decided about a rule: of one that went, a pair that violates it; of one that
    came, a pair that violated it, of which a row was deleted. None where many rows went at once, and no single pair
    was looked at. `value` is the value that broke or completed an inclusion. `vacuous` are the inclusions among those
    removed that nothing broke: their left side has lost its last value.
    """

    added: RuleSet = field(default_factory=RuleSet)
    removed: RuleSet = field(default_factory=RuleSet)
    why: Callable[[Rule], Pair | None] = _nobody
    value: Callable[[Rule], object] = _nothing
    vacuous: frozenset[Rule] = frozenset()

    def __bool__(self) -> bool:
        return bool(len(self.added) or len(self.removed))
