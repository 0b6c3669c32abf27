"""Alerts: the accepted rules that need attention after a batch.

A rule alerts if it got violations that exceed its tolerance and are not in the baseline. It also alerts if discovery no
longer finds it. That can happen without a new violation, because discovery may compare nulls differently.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import HoldfastError, NotAvailable
from holdfast.rulebook import Rulebook
from holdfast.rulebook.outbox import ADDED, REMOVED, VIOLATIONS, violation_events
from holdfast.rulebook.outcome import Outcome
from holdfast.rules.bind import forms, table_of
from holdfast.rules.grammar import parse
from holdfast.rules.implication import implies
from holdfast.rules.sentence import sentence, standing, violations_in_words
from holdfast.rules.wording import counted
from holdfast.workflow.baseline import Baseline
from holdfast.workflow.masking import Mask
from holdfast.workflow.tolerance import is_beyond_tolerance

Record = dict[str, Any]
_MAX_EXAMPLES, _MAX_LOOKED_AT = 5, 10_000


@dataclass(frozen=True)
class Alert:
    """A rule that needs attention. `added`: new violations that are not in the baseline; `total`: all violations;
    `groups`: of a key or an FD, the groups of rows that clash now and have one of the new violations, in words. They
    are not told of a table with masked columns."""

    rule_id: str
    rule: str
    severity: str
    message: str
    added: int
    total: int
    examples: tuple[tuple[Any, ...], ...] = ()
    groups: tuple[str, ...] = ()

    def record(self) -> Record:
        return vars(self) | {"examples": [list(pair) for pair in self.examples], "groups": list(self.groups)}


def alerts_of(
    book: Rulebook,
    changed: Mapping[str, Sequence[int]],
    violations: pa.Table,
    found: Sequence[Record] = (),
    masked: Collection[str] = (),
) -> list[Alert]:
    """The alerts of a version.

    `changed`: {rule id: (added, removed, total)}; `violations`: the added and removed violations, as sinks get them;
    `found`: the added and removed found rules; `masked`: columns to mask besides those of the book.
    """
    return [*_violated(book, changed, violations, masked), *_no_longer_found(book, changed, found)]


def _violated(
    book: Rulebook, changed: Mapping[str, Sequence[int]], violations: pa.Table, masked: Collection[str]
) -> Iterator[Alert]:
    """Alerts for new violations beyond tolerance and baseline."""
    baseline, mask = Baseline.of(book), Mask.of(book, masked)
    accepted = {entry.id: entry for entry in book.entries}
    for rule_id, (added, _, total) in changed.items():
        entry = accepted.get(rule_id)
        if entry is None or not added or not is_beyond_tolerance(book, entry):
            continue
        events = violations.filter(pc.equal(violations["rule_id"], rule_id))
        added_events = events.filter(pc.equal(events["change"], ADDED))
        new = baseline.new(added_events)
        count = int(pc.sum(new["count"]).as_py() or 0) if len(added_events) else added
        if count:
            table = table_of(entry.value, book.schemas)
            text = f"{standing(entry.value, total, where=entry.filter)} {violations_in_words(entry.value, count)} came"
            pairs = [] if mask.hides_names(table) else _pairs(new)
            groups = () if mask.hides_any(table) else _groups(book, rule_id, table, pairs)
            yield Alert(rule_id, entry.rule, entry.severity, text, count, total, tuple(pairs[:_MAX_EXAMPLES]), groups)


def _no_longer_found(book: Rulebook, changed: Mapping[str, Sequence[int]], found: Sequence[Record]) -> Iterator[Alert]:
    """Alerts for accepted rules that discovery no longer finds, although they got no violations."""
    values = {form.id: entry for entry in book.entries for form in forms(entry.value, book.schemas)}
    for event in found:
        entry = values.get(event["id"])
        if entry is None or event["change"] != REMOVED or changed.get(entry.id, (0,))[0]:
            continue
        removed = parse(event["rule"])
        added_rules = (parse(other["rule"]) for other in found if other["change"] == ADDED)
        if not any(implies(added, removed) for added in added_rules):
            text = f"{sentence(entry.value)} Discovery no longer finds that it holds"
            yield Alert(entry.id, entry.rule, entry.severity, text, 0, book.count_violations(entry.id))


def alerts_of_batch(book: Any, out: Outcome) -> list[Alert]:
    """The alerts of a batch that was just applied."""
    if out.skipped:
        return []
    if not isinstance(book, Rulebook):  # on Spark: numbers, and no examples
        told = out.violations
        numbers = {e.id: (told.count_added(e.id), told.count_removed(e.id)) for e in book.entries}
        now = {id_: (*change, book.count_violations(id_)) for id_, change in numbers.items()}
        return alerts_of(book, now, VIOLATIONS.empty_table())
    counts = {e.id: out.violations.of(e.id) for e in book.entries}
    changed = {id_: (c.count_added, c.count_removed, c.count) for id_, c in counts.items()}
    found = [
        {"id": rule.id, "rule": text, "change": change}
        for change, rules in ((ADDED, out.rules.added), (REMOVED, out.rules.removed))
        for rule, text in rules.with_texts()
    ]
    return alerts_of(book, changed, violation_events(out.violations, book.entries), found)


def _pairs(events: pa.Table) -> list[tuple[Any, ...]]:
    """The names of the rows of the first violations, each pair once."""
    found: dict[frozenset[str], tuple[Any, ...]] = {}
    for row in events.slice(0, _MAX_LOOKED_AT).to_pylist():
        names = [row[side] for side in ("t", "s") if row[side] is not None]
        if names:
            found.setdefault(frozenset(names), tuple(map(json.loads, names)))
    return list(found.values())


def _groups(book: Rulebook, rule_id: str, table: str, pairs: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """The groups of these violations, the largest first; in each, the row that came last is named first."""
    newcomers = [max(rows) for pair in pairs if (rows := [*_row_ids(book, table, pair)])]
    found = book.violating_groups(rule_id, _MAX_EXAMPLES, newcomers) if newcomers else None
    if found is None:
        return ()
    rest = found.count - len(found.groups)
    return (*map(str, found.groups), *([f"and {counted(rest, 'group')} more"] if rest else []))


def _row_ids(book: Rulebook, table: str, names: Sequence[Any]) -> Iterator[int]:
    """The ids of rows that are still there."""
    for name in names:
        with suppress(HoldfastError):
            yield book.row_named(",".join(map(str, name.values())) if isinstance(name, dict) else str(name), table)


def send(name: str, alerts: Sequence[Alert], urls: Sequence[str]) -> None:
    """Sends alerts to Apprise addresses. Raises OSError if one of them could not be reached."""
    apprise, notifier = require_addresses(urls)
    kind = apprise.NotifyType.FAILURE if any(a.severity == "error" for a in alerts) else apprise.NotifyType.WARNING
    title = f"Holdfast: {counted(len(alerts), 'rule')} of {name} {'needs' if len(alerts) == 1 else 'need'} attention"
    if alerts and not notifier.notify(title=title, body=body_of(alerts), notify_type=kind):
        raise OSError("an alert could not be delivered")


def require_addresses(urls: Sequence[str]) -> tuple[Any, Any]:
    """The apprise module and a notifier for these addresses. Raises an error for an address that Apprise rejects."""
    try:
        import apprise
    except ImportError:
        raise NotAvailable("alerts need Apprise: pip install 'holdfast-data[alerts]'") from None
    notifier = apprise.Apprise()
    for url in urls:
        if not notifier.add(url):
            raise HoldfastError(f"Apprise does not know what to do with the address {url.partition('://')[0]}://...")
    return apprise, notifier


def body_of(alerts: Sequence[Alert]) -> str:
    """The text of a message about alerts."""
    lines = []
    for alert in alerts:
        lines.append(f"[{alert.severity}] {alert.rule}: {alert.message}.")
        pairs = (" with ".join(str(name) for name in pair) for pair in alert.examples)
        lines += [f"  {example}" for example in alert.groups or pairs]
    return "\n".join(lines)
