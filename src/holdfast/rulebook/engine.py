"""What follows from the states: the indexes of the checked rules, and the found rules. Neither is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from holdfast.discovery.maintainer import RowChanges
from holdfast.executors.executor import Executor
from holdfast.indexes.pairs import Pairs
from holdfast.rulebook.discovered import DiscoveredRules
from holdfast.rulebook.options import BookOptions, Resources
from holdfast.rulebook.state import BookState, Facts
from holdfast.rules.rulefile import RuleEntry
from holdfast.store.log import Record
from holdfast.table.effect import Effect
from holdfast.table.net import Planner
from holdfast.table.rows import Rows
from holdfast.violations.delta import ViolationDelta
from holdfast.violations.detect import CheckedRule, Detector
from holdfast.violations.listing import BatchViolations, Listed, RuleNames, RuleViolations, pair_table


class Engine:
    """The checked and the found rules of some states. It is built anew when tables, rules or options change."""

    def __init__(
        self,
        state: BookState,
        entries: Sequence[RuleEntry],
        options: BookOptions,
        resources: Resources,
        facts: Facts | None = None,
    ) -> None:
        self.state, self.entries, self.options, self.resources = state, tuple(entries), options, resources
        checked = [CheckedRule(entry.value, entry.nulls, entry.predicates) for entry in entries]
        self.names = RuleNames(checked, [entry.id for entry in entries], state.tables)
        self.planners = {name: self.planner(name, rows) for name, rows in state.rows.items()}
        self.discovered = DiscoveredRules(
            options.search,
            state,
            is_lone=not options.named,
            resources=resources,
            facts=facts,
        )
        self._detector: Detector | None = None
        self._no_violations: dict[int, Listed] = {}

    def planner(self, name: str, rows: Rows) -> Planner:
        """Works out the net effect of changes of a table."""
        mask, table = frozenset(self.options.mask), self.state.tables[name]
        masked = any({column, f"{name}.{column}"} & mask for column in rows.schema.names)
        only_inserts = self.options.only_inserts
        dictionary = self.state.dictionary
        return Planner(name, rows, dictionary, table.declared, table.ignored, only_inserts=only_inserts, masked=masked)

    @property
    def is_indexed(self) -> bool:
        return self._detector is not None

    def detector(self) -> Detector:
        """The checked rules, with indexes of the current rows; built when first needed. O(rows)."""
        if self._detector is None:
            detector = Detector(self.names.checked, self.state.schemas, self.state.dictionary)
            detector.load(self.state.rows, self.resources.progress)
            self._detector = detector
        return self._detector

    def run_on(self, executor: Executor | None) -> None:
        """Lets violations and rules be searched on an executor, or in this process again."""
        self.resources, self._detector = replace(self.resources, executor=executor), None
        self.discovered.run_on(executor)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Forgets indexes and found rules if the work is interrupted: they may be ahead of the rows then."""
        try:
            yield
        except GeneratorExit:  # the caller of a listing stopped early
            raise
        except BaseException:
            self.forget()
            raise

    def forget(self) -> None:
        self._detector = None
        self.discovered.forget()

    def detect(self, changes: RowChanges) -> dict[int, ViolationDelta]:
        """What row changes do to the violations of each checked rule, by its number."""
        return self.detector().apply(changes) if self.entries else {}

    def listed(self, number: int, pairs: Pairs, effects: Mapping[str, Effect] | None = None) -> Listed:
        """Violations by the names of their rows. `effects`: net effects that are not merged into the rows yet."""
        if not len(pairs) and number in self._no_violations:
            return self._no_violations[number]
        name = self.detector().table_of(number)
        inserted = effects[name].delta.inserted_codes if effects is not None and name in effects else None
        listed = Listed.of(pairs, self.state.rows[name], self.state.dictionary, inserted)
        if not len(pairs):  # the same for every batch
            self._no_violations[number] = listed
        return listed

    def batch_violations(self, deltas: Mapping[int, ViolationDelta], effects: Mapping[str, Effect]) -> BatchViolations:
        """What a batch did to the violations, for its outcome."""
        by_rule = {}
        for number, count in enumerate(self.detector().counts if self.entries else []):
            delta = deltas.get(number)
            if delta is None:
                nothing = self.listed(number, Pairs.none(single=self.names.checked[number].is_single))
                by_rule[number] = RuleViolations(count, added=nothing, removed=nothing)
            else:
                sides = (delta.added, delta.removed)
                listed = [self.listed(number, pairs, effects) if delta.listed else None for pairs in sides]
                by_rule[number] = RuleViolations(count, delta.count_added, delta.count_removed, *listed)
        return BatchViolations(self.names, by_rule)

    def violation_record(self, changes: Mapping[int, tuple[int, int]]) -> Record:
        """{rule id: [added, removed, total]}, for the log."""
        counts = self.detector().counts if changes else []
        return {self.entries[number].id: [*change, counts[number]] for number, change in changes.items()}

    def row_names(self, table: str, pairs: Pairs, effects: Mapping[str, Effect]) -> list[Record]:
        """The names of pairs of rows, while the effects are not merged into the rows yet."""
        inserted = effects[table].delta.inserted_codes if table in effects else None
        names: list[Record] = pair_table(pairs, self.state.rows[table], self.state.dictionary, inserted).to_pylist()
        return names
