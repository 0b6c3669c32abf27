"""What a batch did."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.rules.change import RuleChange
from holdfast.table.net import Bad, Drift
from holdfast.violations.listing import BatchViolations, RuleNames


@dataclass(frozen=True)
class Outcome:
    """What a batch did. `skipped`: it was known already and nothing was done."""

    version: int
    batch: str | int
    skipped: bool = False
    rules: RuleChange = field(default_factory=RuleChange)
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    drift: list[Drift] = field(default_factory=list)
    quarantined: list[Bad] = field(default_factory=list)
    violations: BatchViolations = field(default_factory=lambda: BatchViolations(RuleNames([], [])))
