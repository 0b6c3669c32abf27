"""What a batch did."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from holdfast.html_table import html_table
from holdfast.rules.change import RuleChange
from holdfast.table.effect import Bad, Drift
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

    def _repr_html_(self) -> str:
        changes = [("came", text) for text in self.rules.added.texts()]
        changes += [("went", text) for text in self.rules.removed.texts()]
        found = html_table(["change", "rule"], changes, len(changes)) if changes else ""
        title = f"version {self.version}, batch {escape(str(self.batch))} ({self._state()})"
        return f"<p>{title}</p>{self.violations._repr_html_()}{found}"

    def _state(self) -> str:
        if self.skipped:
            return "skipped: known already"
        parts = []
        for table, counts in self.rows.items():
            moved = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
            parts.append(f"{escape(table)}: {moved or 'nothing'}")
        return "; ".join(parts)
