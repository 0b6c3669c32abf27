"""What a batch did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from holdfast.html_table import html_table
from holdfast.rules.change import RuleChange
from holdfast.table.effect import Bad, Drift
from holdfast.violations.listing import BatchViolations, RuleNames


@dataclass(frozen=True, repr=False)
class Outcome:
    """What a batch did to rows, rules and violations. `skipped`: the batch was applied before, and nothing was done.
    `late`: the kinds of found rules, by table, that the batch had no time for."""

    version: int
    batch: str | int
    skipped: bool = False
    rules: RuleChange = field(default_factory=RuleChange)
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    drift: list[Drift] = field(default_factory=list)
    quarantined: list[Bad] = field(default_factory=list)
    late: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    violations: BatchViolations = field(default_factory=lambda: BatchViolations(RuleNames([], [])))

    def __repr__(self) -> str:
        return f"<Outcome: version {self.version}, batch {self.batch}; {'; '.join(self._summary())}>"

    def _summary(self) -> list[str]:
        """Rows, violations and rules in words."""
        if self.skipped:
            return ["skipped: applied before"]
        parts = []
        for table, counts in self.rows.items():
            changed = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
            parts.append(f"{table}: {changed or 'no change'}")
        parts.append(f"violations: +{self.violations.count_added():,} -{self.violations.count_removed():,}")
        parts.append(f"rules: +{len(self.rules.added):,} -{len(self.rules.removed):,}")
        parts += [f"late: {', '.join(kinds)} of {table}" for table, kinds in self.late.items()]
        return parts + ([f"{len(self.quarantined):,} rows quarantined"] if self.quarantined else [])

    def _repr_html_(self) -> str:
        changes = [("added", text) for text in self.rules.added.texts()]
        changes += [("removed", text) for text in self.rules.removed.texts()]
        rules = html_table(["change", "rule"], changes, len(changes)) if changes else ""
        title = f"version {self.version}, batch {self.batch} ({'; '.join(self._summary())})"
        return f"<p>{escape(title)}</p>{self.violations._repr_html_()}{rules}"
