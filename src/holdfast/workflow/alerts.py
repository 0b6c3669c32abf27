"""What is worth waking somebody for: accepted rules that got violations beyond their tolerance and beyond what is
known, and accepted rules that discovery had found to hold and no longer does, though they have no new violations: what
they say of nulls differs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import HoldfastError, NotAvailable
from holdfast.rulebook import Rulebook
from holdfast.rulebook.outbox import ADDED, REMOVED, violation_events
from holdfast.rulebook.outcome import Outcome
from holdfast.rules.bind import forms, table_of
from holdfast.rules.grammar import parse
from holdfast.rules.implication import implies
from holdfast.rules.sentence import sentence, standing, violations_in_words
from holdfast.rules.wording import counted
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.masking import Mask

Record = dict[str, Any]
_EXAMPLES = 5


@dataclass(frozen=True)
class Alert:
    """One rule that needs attention: how many violations came that nobody knew, how many there are, some of them."""

    rule_id: str
    rule: str
    severity: str
    message: str
    added: int
    total: int
    examples: tuple[tuple[Any, ...], ...] = ()

    def record(self) -> Record:
        return vars(self) | {"examples": [list(pair) for pair in self.examples]}


def alerts_of(
    book: Rulebook,
    changed: Mapping[str, Sequence[int]],
    violations: pa.Table,
    found: Sequence[Record] = (),
    masked: Collection[str] = (),
) -> list[Alert]:
    """The alerts of a version. `changed`: {rule id: (added, removed, total)}; `violations`: those that came and went,
    as sinks are told them; `found`: the rules that came and went among those that were found."""
    baseline, mask = Baseline.of(book), Mask.of(book, masked)
    accepted = {entry.id: entry for entry in book.entries}
    made = []
    for rule_id, (added, _, total) in changed.items():
        entry = accepted.get(rule_id)
        if entry is None or not added or book.error(rule_id) <= entry.tolerance:
            continue
        mine = violations.filter(pc.equal(violations["rule_id"], rule_id))
        came = mine.filter(pc.equal(mine["change"], ADDED))
        new = baseline.new(came)
        count = int(pc.sum(new["count"]).as_py() or 0) if len(came) else added
        if count:
            hidden = mask.hides_names(table_of(entry.value, book.schemas))
            text = f"{standing(entry.value, total, where=entry.filter)} {violations_in_words(entry.value, count)} came"
            made.append(
                Alert(rule_id, entry.rule, entry.severity, text, count, total, () if hidden else _examples(new))
            )
    values = {form.id: entry for entry in accepted.values() for form in forms(entry.value, book.schemas)}
    for event in found:
        entry = values.get(event["id"])
        if entry is None or event["change"] != REMOVED or changed.get(entry.id, (0,))[0]:
            continue
        lost, new_rules = parse(event["rule"]), (parse(other["rule"]) for other in found if other["change"] == ADDED)
        if not any(implies(other, lost) for other in new_rules):
            text = f"{sentence(entry.value)} Discovery no longer finds that it holds"
            made.append(Alert(entry.id, entry.rule, entry.severity, text, 0, book.count_violations(entry.id)))
    return made


def alerts_of_batch(book: Rulebook, out: Outcome) -> list[Alert]:
    """The alerts of a batch that was just applied."""
    if out.skipped:
        return []
    counts = {e.id: out.violations.of(e.id) for e in book.entries}
    changed = {id_: (c.count_added, c.count_removed, c.count) for id_, c in counts.items()}
    found = [
        {"id": rule.id, "rule": text, "change": change}
        for change, rules in ((ADDED, out.rules.added), (REMOVED, out.rules.removed))
        for rule, text in rules.with_texts()
    ]
    return alerts_of(book, changed, violation_events(out.violations, book.entries), found)


def _examples(events: pa.Table) -> tuple[tuple[Any, ...], ...]:
    rows = [row for row in events.slice(0, _EXAMPLES).to_pylist() if row["t"] is not None]
    return tuple(tuple(json.loads(row[side]) for side in ("t", "s") if row[side] is not None) for row in rows)


def send(name: str, alerts: Sequence[Alert], urls: Sequence[str]) -> None:
    """Tells people through Apprise, by any of its addresses; an error where one could not be told."""
    apprise, teller = require_addresses(urls)
    kind = apprise.NotifyType.FAILURE if any(a.severity == "error" for a in alerts) else apprise.NotifyType.WARNING
    title = f"Holdfast: {counted(len(alerts), 'rule')} of {name} {'needs' if len(alerts) == 1 else 'need'} attention"
    if alerts and not teller.notify(title=title, body=body_of(alerts), notify_type=kind):
        raise OSError("an alert could not be delivered")


def require_addresses(urls: Sequence[str]) -> tuple[Any, Any]:
    """Apprise, and its teller of these addresses; an error where it does not know what to do with one."""
    try:
        import apprise
    except ImportError:
        raise NotAvailable("alerts need Apprise: pip install 'holdfast-data[alerts]'") from None
    teller = apprise.Apprise()
    for url in urls:
        if not teller.add(url):
            raise HoldfastError(f"Apprise does not know what to do with the address {url.partition('://')[0]}://...")
    return apprise, teller


def body_of(alerts: Sequence[Alert]) -> str:
    lines = []
    for alert in alerts:
        lines.append(f"[{alert.severity}] {alert.rule}: {alert.message}.")
        lines += [f"  {' with '.join(str(name) for name in pair)}" for pair in alert.examples]
    return "\n".join(lines)
