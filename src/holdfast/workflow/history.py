"""The history of rules: born, broken, weakened, recovered, generalised, specialised; by which batch and rows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from holdfast.errors import RuleError
from holdfast.rulebook import Rulebook
from holdfast.rulebook.discovered import VACUOUS
from holdfast.rulebook.outbox import ADDED, REMOVED
from holdfast.rules.bind import forms, table_of
from holdfast.rules.grammar import parse
from holdfast.rules.implication import implies
from holdfast.rules.names import by_name, by_position
from holdfast.rules.rule import Fd, Ind, Order, Rule
from holdfast.rules.sentence import unordered, violations_in_words
from holdfast.violations.detect import CheckedRule
from holdfast.workflow.masking import Mask

BORN, BROKEN, WEAKENED, IMPROVED, CHANGED = "born", "broken", "weakened", "improved", "changed"
GENERALISED, SPECIALISED, RECOVERED = "generalised", "specialised", "recovered"
ADOPTED, RETIRED, WIDENED, ADDED_COLUMN = "adopted", "retired", "widened", "column added"
Record = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """What happened to one rule in one version.

    `by`: the rows, the value or the number of violations that caused it; `into`: the rule that holds instead.
    """

    version: int
    batch: str
    time: str
    what: str
    id: str
    kind: str
    rule: str
    by: str | None = None
    into: str | None = None

    def record(self) -> Record:
        return asdict(self)


@dataclass(frozen=True)
class Point:
    """The violations and the error of a rule after a version."""

    version: int
    time: str
    violations: int
    error: float


class History:
    """The history of a rulebook, read once from its log."""

    def __init__(self, book: Rulebook) -> None:
        self._book, self._mask = book, Mask.of(book)
        self._records = book.records()
        self._rules = {entry.id: entry.rule for entry in book.entries}
        for record in self._records:
            self._rules |= record.get("altered", {}).get("retired", {})
        self._times = {r["version"]: r["time"] for r in self._records}
        self._found: dict[int, list[Record]] = defaultdict(list)
        for event in book.rule_history().to_pylist():
            self._found[event["version"]].append(event)

    def events(self, rule: str | None = None, after: int = -1) -> list[Event]:
        """The events after a version, oldest first; of one rule if given, by id or text. Masked names are hidden."""
        events = [event for record in self._records if record["version"] > after for event in self._events_of(record)]
        if rule is None:
            return events
        texts = self._texts(rule)
        return [event for event in events if rule == event.id or event.rule in texts or event.into in texts]

    def _texts(self, rule: str) -> set[str]:
        """The texts that the log may use for a rule: as it was given, and as discovery prints it."""
        text = self._rules.get(rule, rule)
        try:
            same_rules = forms(parse(text), self._book.schemas)
        except RuleError:
            return {text}
        schemas = list(self._book.schemas.values())
        rank = by_position(schemas[0].names) if len(schemas) == 1 else by_name
        given = {other for other in self._rules.values() if parse(other) in same_rules}
        return {text, *given, *(form.text(rank) for form in same_rules)}

    def _events_of(self, record: Record) -> Iterator[Event]:
        yield from self._altered_columns(record)
        yield from self._found_rules(record)
        yield from self._checked_rules(record)

    def _altered_columns(self, record: Record) -> Iterator[Event]:
        """Events of added columns and of columns whose type became wider."""
        altered = record.get("altered", {})
        for table, types in altered.get("columns", {}).items():
            for column, text in types.items():
                yield Event(*_when(record), ADDED_COLUMN, "", "schema", f"{table}.{column}", None, text)
        for table, changes in altered.get("types", {}).items():
            for column, (before, after) in changes.items():
                yield Event(*_when(record), WIDENED, "", "schema", f"{table}.{column}", before, after)

    def _found_rules(self, record: Record) -> Iterator[Event]:
        """Events of the rules that discovery found.

        A removed rule is specialised if a weaker rule was added, generalised if a stronger one was, else broken. An
        added rule that replaces another one in this way has no event of its own; any other is born.
        """
        events = self._found.get(record["version"], [])
        values = {event["rule"]: parse(event["rule"]) for event in events}
        by_change: dict[object, list[Record]] = defaultdict(list)
        for event in events:
            by_change[event["change"], _subject(values[event["rule"]])].append(event)
        for event in events:
            value, change = values[event["rule"]], event["change"]
            if change == VACUOUS:
                yield self._event(record, event, VACUOUS)
                continue
            opposite = by_change[REMOVED if change == ADDED else ADDED, _subject(value)]
            stronger = next((e["rule"] for e in opposite if implies(values[e["rule"]], value)), None)
            weaker = next((e["rule"] for e in opposite if implies(value, values[e["rule"]])), None)
            if change == REMOVED:
                what = GENERALISED if stronger is not None else SPECIALISED if weaker is not None else BROKEN
                yield self._event(record, event, what, stronger or weaker)
            elif stronger is None and weaker is None:
                yield self._event(record, event, BORN)

    def _event(self, record: Record, event: Record, what: str, into: str | None = None) -> Event:
        by = None
        if event["t"] is not None:
            hidden = self._mask.hides_names(event["table"])
            by = "two rows" if hidden else f"rows {_name(event['t'])} and {_name(event['s'])}"
        elif event["value"] is not None:
            by = "a value" if self._hides_value(event["rule"]) else f"value {event['value']}"
        return Event(*_when(record), what, event["id"], event["kind"], event["rule"], by, into)

    def _hides_value(self, rule: str) -> bool:
        value = parse(rule)
        return isinstance(value, Ind) and any(self._mask.hides(value.left_table, column) for column in value.left)

    def _checked_rules(self, record: Record) -> Iterator[Event]:
        altered = record.get("altered", {})
        for what, ids in ((ADOPTED, altered.get("rules", ())), (RETIRED, altered.get("retired", ()))):
            for id_ in ids:
                yield self._checked(record, what, id_)
        for id_, (added, removed, total) in record.get("violations", {}).items():
            if record["version"] and (added or removed):
                yield self._checked(
                    record, _change(added, removed, total), id_, self._counts(id_, added, removed, total)
                )

    def _counts(self, id_: str, added: int, removed: int, total: int) -> str:
        """`2 pairs of rows added, 0 removed, 5 now`."""
        if id_ not in self._rules:
            return f"{added:,} violations added, {removed:,} removed, {total:,} now"
        rule = parse(self._rules[id_])
        went, now = unordered(rule, removed), unordered(rule, total)
        return f"{violations_in_words(rule, added)} added, {went:,} removed, {now:,} now"

    def _checked(self, record: Record, what: str, id_: str, by: str | None = None) -> Event:
        rule = self._rules.get(id_, id_)
        kind = parse(rule).kind if id_ in self._rules else id_.partition("-")[0]
        return Event(*_when(record), what, id_, kind, rule, by)

    def trend(self, rule: str) -> list[Point]:
        """The violations and the error of a checked rule after each version that touched it or its table."""
        entry = self._book.entry(rule)
        item = CheckedRule(entry.value, entry.nulls, entry.predicates)
        table = table_of(entry.value, self._book.schemas)
        rows, total, points = 0, None, []
        for record in self._records:
            counts = record["tables"].get(table)
            rows += counts["inserted"] - counts["deleted"] if counts else 0
            changed = record.get("violations", {}).get(entry.id)
            total = changed[2] if changed is not None else total
            if total is not None and (counts or changed is not None):
                points.append(Point(record["version"], record["time"], total, item.error(total, rows)))
        return points

    def stability(self, rule: str) -> tuple[float, int]:
        """The share of versions without violations since the rule is checked, and how often it broke."""
        points = self.trend(rule)
        held = [point.violations == 0 for point in points]
        breaks = sum(before and not after for before, after in pairwise(held))
        return (sum(held) / len(held) if held else 1.0), breaks

    def counts(self) -> list[Record]:
        """For each version: the rows, rules and violations that it added and removed, and all current violations."""
        totals: dict[str, int] = {}
        versions = []
        for record in self._records:
            changed = record.get("violations", {})
            for id_ in record.get("altered", {}).get("retired", ()):
                totals.pop(id_, None)
            totals |= {id_: counts[2] for id_, counts in changed.items()}
            rows = {w: sum(t[w] for t in record["tables"].values()) for w in ("inserted", "deleted", "updated")}
            rules = [sum(c[i] for c in record.get("rules", {}).values()) for i in (0, 1)]
            versions.append(
                {"version": record["version"], "batch": str(record["batch"]), "time": record["time"]}
                | {"happened": record.get("happened")}
                | rows
                | {"rules_added": rules[0], "rules_removed": rules[1]}
                | {"violations_added": sum(c[0] for c in changed.values())}
                | {"violations_removed": sum(c[1] for c in changed.values())}
                | {"violations": sum(totals.values())}
                | {"schema": schema_in_words(record.get("altered", {}))}
            )
        return versions


def schema_in_words(altered: Record) -> str:
    """Added columns and changed types, as in `orders.price: integer -> decimal(2)`; empty if there are none."""
    changes_in_words = [
        f"{t}.{c}: {text}" for t, types in altered.get("columns", {}).items() for c, text in types.items()
    ]
    for table, changes in altered.get("types", {}).items():
        changes_in_words += [f"{table}.{column}: {before} -> {after}" for column, (before, after) in changes.items()]
    return "; ".join(changes_in_words)


def _when(record: Record) -> tuple[int, str, str]:
    return record["version"], str(record["batch"]), record["time"]


def _change(added: int, removed: int, total: int) -> str:
    before = total - added + removed
    if not before:
        return BROKEN
    if not total:
        return RECOVERED
    return CHANGED if total == before else WEAKENED if total > before else IMPROVED


def _subject(rule: Rule) -> object:
    """A value that a rule shares with every rule that implies it: kind, table and right side."""
    if isinstance(rule, Fd):
        return rule.kind, rule.table, rule.right
    if isinstance(rule, Order):
        return rule.kind, rule.table, rule.right.column
    return rule.kind, rule.table


def _name(text: str) -> str:
    """The name of a row, from JSON."""
    value = json.loads(text)
    return " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
