"""What a rule has survived: the batches since it holds, and the new rows that could have broken it but did not.

Only who keeps rules true while rows change can know this. A rule that many rows could have broken is more credible than
its first measure says; one that comes and goes is less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from holdfast.arrays import Flags
from holdfast.discovery.witness.partitions import Partitions
from holdfast.rulebook import Rulebook
from holdfast.rulebook.outbox import ADDED
from holdfast.rules.bind import resolved, table_of
from holdfast.rules.general_forms import more_general
from holdfast.rules.grammar import parse
from holdfast.rules.implication import implies
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare
from holdfast.rules.rule import Calculation, Dc, Fd, Ind, Key, Order, Rule, as_dc
from holdfast.rules.wording import counted
from holdfast.table.dictionary import NULL
from holdfast.table.row_change import Ids
from holdfast.workflow.history import History

_MAX_PARTS = 8  # of a rule whose more general forms are all made; there may be 2 to the power of this and more
_HALF = 100  # so many new rows that could have broken a rule halve the doubt about it


@dataclass(frozen=True)
class Survival:
    """What a rule that holds has survived. `since`: the version since which it holds without a break, at the latest;
    `batches`: how many batches added or updated rows of its tables since then; `chances`: how many of the rows that
    came since then, and are still there, could have broken it; `breaks`: how often it was broken before."""

    since: int
    batches: int
    chances: int
    breaks: int

    def __str__(self) -> str:
        broken = f"broken {counted(self.breaks, 'time')} before" if self.breaks else ""
        if not self.batches:
            return broken
        could = f"{counted(self.chances, 'new row')} could have broken it" if self.chances else ""
        return "; ".join(
            part for part in (f"held through {counted(self.batches, 'batch', 'batches')}", could, broken) if part
        )

    def score(self, before: float) -> float:
        """The credibility of a rule that had this one before: doubt falls with each chance to break, and each break
        halves the credibility."""
        return round(float((1 - (1 - before) * _HALF / (_HALF + self.chances)) * 0.5**self.breaks), 3)


class Survivals:
    """Answers for one version of a rulebook, whose logs are read once."""

    def __init__(self, book: Rulebook) -> None:
        self._book, self._records = book, book.records()
        self._nulls = book.discovery_nulls
        self._partitions: dict[tuple[str, str], Partitions] = {}
        self._of_kind: dict[str, frozenset[Rule]] = {}

    @cached_property
    def history(self) -> History:
        """The history of the rulebook, read once."""
        return History(self._book)

    def of(self, rule: Rule) -> Survival | None:
        """What a found rule has survived; None if it does not hold exactly, or the book does not keep its kind.
        O(rows + rules of its kind, once + events of its kind)."""
        kept = self._kept(rule)
        return None if kept is None else self._survival(rule, *kept, self._nulls)

    def of_checked(self, rule_id: str) -> Survival | None:
        """What a checked rule has survived; None if it is violated now, or has a filter."""
        entry = self._book.entry(rule_id)
        if entry.filter or self._book.count_violations(rule_id):
            return None
        points = self.history.trend(rule_id)
        clean = [after.version for before, after in pairwise(points) if before.violations and not after.violations]
        adopted = [r["version"] for r in self._records if rule_id in r.get("altered", {}).get("rules", ())]
        since = max([0, *clean[-1:], *adopted[-1:]])
        return self._survival(entry.value, since, self.history.stability(rule_id)[1], entry.nulls)

    def _survival(self, rule: Rule, since: int, breaks: int, nulls: str) -> Survival:
        tables = {rule.left_table, rule.right_table} if isinstance(rule, Ind) else {self._table(rule)}
        later = [r["tables"] for r in self._records if r["version"] > since]
        batches = sum(any(t in of and (of[t]["inserted"] or of[t]["updated"]) for t in tables) for of in later)
        return Survival(since, batches, int(self._could_break(rule, since, nulls).sum()), breaks)

    # --- since when -----------------------------------------------------------------------------------------

    def _kept(self, rule: Rule) -> tuple[int, int] | None:
        """The version since which a found rule holds, and how often it was broken before. It held in a version if one
        of the shortest rules of that version implies it; these follow from those of now and the log, read backwards."""
        if rule.kind not in self._book.kept_kinds:
            return None
        stronger = self._stronger(rule)
        implying = set(stronger & self._found(rule.kind))
        if not implying:
            return None
        since, breaks = None, 0
        for version, events in self._backwards(rule.kind, stronger):
            if events is None:  # more rules came and went than the log lists
                return (version, 0) if since is None else (since, breaks)
            held = bool(implying)
            for was_added, one in events:
                (implying.discard if was_added else implying.add)(one)
            if held and not implying and since is None:
                since = version
            breaks += bool(implying) and not held
        return since or 0, breaks

    def _stronger(self, rule: Rule) -> frozenset[Rule]:
        """The rules that imply a rule: it, and all that are more general."""
        parts = () if isinstance(rule, Ind) else as_dc(rule).predicates
        if not 0 < len(parts) <= _MAX_PARTS or not all(isinstance(part, Compare) for part in parts):
            listed = {one for kinds in self._events.values() for _, one in kinds.get(rule.kind, ())}
            return frozenset(one for one in (*self._found(rule.kind), *listed) if implies(one, rule))
        schema = self._book.schemas[self._table(rule)]
        stronger, new = set[Rule]({rule}), set[Rule]({rule})
        while new:
            new = {one for general in new for one in more_general(general, schema) if one not in stronger}
            stronger |= new
        return frozenset(stronger)

    def _found(self, kind: str) -> frozenset[Rule]:
        """The rules of a kind that hold now."""
        if kind not in self._of_kind:
            self._of_kind[kind] = frozenset(self._book.found().of(kind))
        return self._of_kind[kind]

    def _backwards(self, kind: str, wanted: frozenset[Rule]) -> Iterator[tuple[int, list[tuple[bool, Rule]] | None]]:
        """The events of some rules of a kind, newest version first; None where the log is not complete."""
        for version in sorted(self._events, reverse=True):
            if version in self._cut:
                yield version, None
            events = [(was_added, one) for was_added, one in self._events[version].get(kind, ()) if one in wanted]
            if events:
                yield version, events[::-1]

    @cached_property
    def _events(self) -> dict[int, dict[str, list[tuple[bool, Rule]]]]:
        """Rules added and removed, by version and kind."""
        found: dict[int, dict[str, list[tuple[bool, Rule]]]] = defaultdict(lambda: defaultdict(list))
        for event in self._book.rule_history().to_pylist():
            found[event["version"]][event["kind"]].append((event["change"] == ADDED, parse(event["rule"])))
        return found

    @cached_property
    def _cut(self) -> set[int]:
        """Versions in which more rules came and went than the log lists."""
        listed = {version: sum(map(len, kinds.values())) for version, kinds in self._events.items()}
        counts = {r["version"]: sum(map(sum, r.get("rules", {}).values())) for r in self._records}
        return {version for version, count in counts.items() if version in listed and count > listed[version]}

    # --- which rows -----------------------------------------------------------------------------------------

    def _table(self, rule: Rule) -> str:
        return table_of(rule, self._book.schemas)

    def _could_break(self, rule: Rule, since: int, nulls: str) -> Flags:
        """Which rows came after a version and could have broken a rule: those that agree with another row where the
        rule asks for it; of keys and of rules that ask for nothing, all. Those without a value there cannot."""
        rule = resolved(rule, tuple(self._book.schemas))
        name = rule.left_table if isinstance(rule, Ind) else self._table(rule)
        rows = self._book.encoded.rows[name]
        new: Flags = rows.ids() >= self._next_id(name, since)
        columns = rows.schema.positions(_asked(rule))
        if isinstance(rule, Fd | Order | Dc) and columns:
            is_shared = np.zeros(len(rows), bool)
            is_shared[self._partition(name, columns, nulls)] = True
            return new & is_shared
        is_empty: Flags = (rows.codes()[list(columns)] == NULL).any(axis=0) if columns else np.zeros(len(rows), bool)
        return new & ~is_empty

    def _partition(self, table: str, columns: Iterable[int], nulls: str) -> Ids:
        """The rows that agree with another row on these columns."""
        if (table, nulls) not in self._partitions:
            self._partitions[table, nulls] = Partitions.of_codes(self._book.encoded.rows[table].codes(), nulls)
        return self._partitions[table, nulls].of(tuple(columns)).rows.astype(np.int64)

    def _next_id(self, table: str, version: int) -> int:
        """The id that the first row after a version got: an id is never used again, and an update keeps it."""
        earlier = (r["tables"].get(table) for r in self._records if r["version"] <= version)
        return sum(counts["inserted"] for counts in earlier if counts is not None)


def _asked(rule: Rule) -> list[str]:
    """The columns in which rows must agree, or have a value, before the rule says anything about them."""
    if isinstance(rule, Key):
        return sorted(rule.columns)
    if isinstance(rule, Fd):
        return sorted(rule.left)
    if isinstance(rule, Ind):
        return list(rule.left)
    if isinstance(rule, Order):
        return sorted(mark.column for mark in rule.left if mark.op is Op.EQ)
    if isinstance(rule, Calculation):
        return [rule.result, rule.formula.left, rule.formula.right]
    pairs = [p for p in rule.predicates if isinstance(p, Compare) and p.op is Op.EQ and isinstance(p.right, Cell)]
    return sorted({p.left.column for p in pairs if isinstance(p.right, Cell) and p.left.column == p.right.column})
