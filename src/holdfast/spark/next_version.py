"""The next version of a rulebook on Spark: what the net effect of a batch does to rules, numbers and states."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

from holdfast.rulebook.batch import BatchInfo, rule_log
from holdfast.rulebook.discovered import RuleUpdate
from holdfast.rulebook.outcome import Outcome
from holdfast.rules.change import RuleChange
from holdfast.spark.batch import NetEffect, add_moves, compact, is_due
from holdfast.spark.batch_listing import SparkBatchViolations
from holdfast.spark.facts import BookFacts
from holdfast.spark.found_rules import FoundRules, RuleStep
from holdfast.spark.jobs import described, rules_in_words
from holdfast.spark.outbox import Outbox
from holdfast.store.log import Log, Record
from holdfast.store.step import Step

log = logging.getLogger("holdfast")
Counted = dict[int, tuple[int, int]]  # violations added and removed, by the number of the rule


class NextVersion(NamedTuple):
    """The facts to publish, the step that the store keeps, and what the caller is told once both are durable."""

    facts: BookFacts
    step: Step
    outcome: Outcome


def next_version(
    before: BookFacts, effect: NetEffect, batch: BatchInfo, version: int, found_rules: FoundRules
) -> NextVersion:
    """Works out the version that follows `before`. Its files are written, but count only once it is published; found
    rules about pairs are changed at once."""
    started = time.monotonic()
    outbox = Outbox(before.files, version)
    counted = _counted(before, effect, outbox)
    after = _numbered(before, effect, counted)
    found, changed_inclusions = after.rules.found_inclusions(effect.moves, before.rules)
    steps = found_rules.update(effect.moves, before.rules, after.rules, after.rows)
    after = replace(after, found=found, events=outbox.states)
    compacts = is_due(after.files, after.tables)
    if compacts:
        compact(after.files, after.rules, version, after.rows)
    update = _rule_update(changed_inclusions, steps, effect.rows, is_lone=not before.options.named)
    bad = [*batch.bad, *effect.bad]
    record = after.record(batch, version, effect.rows, counted)
    record |= {"quarantined": len(bad), "drift": len(effect.drift), "rules": update.counts()}
    record["spark"] = _metrics(effect, compacts, time.monotonic() - started)
    log.info("%s: version %s: %s", before.files.root, version, record["spark"])
    logged = [{"version": version, "batch": batch.id} | vars(row) for row in bad]
    deltas = {name: step.delta for name, step in steps.items()}
    changed = rule_log(update, record, found_rules.row_names)
    step = Step(deltas, record, Log.delta(logged) if logged else None, changed)
    told = SparkBatchViolations(
        before.names, counted, lambda rule, what: before.rules.changed(rule, what, effect.moves)
    )
    outcome = Outcome(
        version,
        batch.id,
        rules=update.change,
        rows=effect.rows,
        drift=effect.drift,
        quarantined=bad,
        violations=cast(Any, told),
    )
    return NextVersion(after, step, outcome)


def _counted(before: BookFacts, effect: NetEffect, outbox: Outbox) -> Counted:
    """The violations that the batch adds and removes. For sinks, they are also written."""
    rules, words = before.rules, rules_in_words([entry.rule for entry in before.entries])
    with described(before.files.spark, f"{words}: touched groups"):
        groups = rules.changed_groups(effect.moves)
        if not before.options.outbox:
            return rules.added_and_removed(effect.moves, groups)
        groups = outbox.keep_groups(groups) if groups is not None else None
        counted = rules.added_and_removed(effect.moves, groups)
        outbox.keep_violations(rules, before.entries, effect.moves, counted)
        return counted


def _numbered(before: BookFacts, effect: NetEffect, counted: Counted) -> BookFacts:
    """The facts with the moves of the batch, and with the numbers after it."""
    files = before.files.copy()
    add_moves(files, effect)
    rows = {name: before.rows[name] + c["inserted"] - c["deleted"] for name, c in effect.rows.items()}
    changes = [counted.get(number, (0, 0)) for number in range(len(before.counts))]
    counts = tuple(n + added - removed for n, (added, removed) in zip(before.counts, changes, strict=True))
    next_ids = before.next_ids | effect.next_ids
    return replace(before, files=files, next_ids=next_ids, rows=before.rows | rows, counts=counts)


def _rule_update(
    inclusions: RuleChange, steps: Mapping[str, RuleStep], tables: Iterable[str], *, is_lone: bool
) -> RuleUpdate:
    """The changes of found rules. History counts those of inclusions with the first changed table."""
    changes = {}
    for i, name in enumerate(tables):
        parts = [inclusions] if i == 0 else []
        change = RuleChange.joined([*([steps[name].change] if name in steps else []), *parts], name)
        changes[name] = change.of_lone_table() if is_lone else change
    return RuleUpdate({}, changes)


def _metrics(effect: NetEffect, compacts: bool, seconds: float) -> Record:
    moved = {name: moves.count for name, moves in effect.moves.items()}
    return {"moved": moved, "compacted": compacts, "seconds": round(seconds, 3)}
