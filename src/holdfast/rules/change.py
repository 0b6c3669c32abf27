"""What a change of rows did to the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.rules.rule import Rule
from holdfast.rules.ruleset import RuleSet

Pair = tuple[int, int]


def _nobody(_: Rule) -> Pair | None:
    return None


@dataclass(frozen=True)
class RuleChange:
    """Rules that came and rules that went.

    `why` names the two rows, by id, that decided about a rule: of one that went, a pair that violates it; of one that
    came, a pair that violated it, of which a row was deleted. None where many rows went at once, and no single pair
    was looked at.
    """

    added: RuleSet = field(default_factory=RuleSet)
    removed: RuleSet = field(default_factory=RuleSet)
    why: Callable[[Rule], Pair | None] = _nobody

    def __bool__(self) -> bool:
        return bool(len(self.added) or len(self.removed))
