"""The violations of all checked rules under change: added, removed, counted.

Three kinds of work: pair rules search shared indexes (`indexes/`), rules about one row test the row, inclusions count
tuples (`inclusion_index`). A delete re-queries its partners, so violating pairs need not be stored. Keys and FDs are
first counted by groups (`group_counts`); their rows are indexed when they change, or when their violations are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.arrays import Flags
from holdfast.indexes.box import BoxIndex
from holdfast.indexes.index import Counts, Index, MakeIndex
from holdfast.indexes.pairs import Ids, Pairs
from holdfast.indexes.plan import Group, compile_rule, describe, group_rules
from holdfast.indexes.rowtest import rows_that_satisfy
from holdfast.rules.bind import Schemas, require_fits, require_predicates_fit, table_of
from holdfast.rules.predicate import Predicate
from holdfast.rules.rule import Fd, Ind, Key, Rule, as_dc
from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.table.row_change import RowChange
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema
from holdfast.violations.delta import ViolationDelta
from holdfast.violations.group_counts import GroupCounts
from holdfast.violations.inclusion_index import InclusionIndex

DEFAULT_CAP = 1_000_000
LOADED_AT_ONCE = 1 << 22

Progress = Callable[[int, int], None]  # called with how many of how many rows are indexed, index by index


@dataclass(frozen=True)
class CheckedRule:
    """A rule that is checked, with its null policy and the filter on its rows."""

    rule: Rule
    nulls: str = "sql"
    where: frozenset[Predicate] = frozenset()

    @property
    def is_single(self) -> bool:
        """Whether single rows violate it, and not pairs."""
        return isinstance(self.rule, Ind) or self.rule.is_one_row

    def error(self, violations: int, rows: int) -> float:
        """g1: violating pairs / n(n-1), 0 for fewer than two rows; or rows / n for rules about single rows."""
        total = rows if self.is_single else rows * (rows - 1)
        return violations / total if total else 0.0


def rows_that_violate(item: CheckedRule, schema: Schema, codes: Codes, dictionary: TextDictionary) -> Flags:
    """Which rows violate a rule about single rows."""
    predicates = as_dc(item.rule).predicates  # type: ignore[arg-type]
    found = rows_that_satisfy(predicates, schema, codes, dictionary, item.nulls)
    return found & rows_that_satisfy(item.where, schema, codes, dictionary, "sql") if item.where else found


@dataclass
class _Shared:
    """An index, and the numbers of the rules that share it. `waits`: the current rows are not in it yet."""

    index: Index
    numbers: list[int]
    waits: bool = False


class Detector:
    """The violations of some rules. It begins with empty tables; the first load is a change like any other.

    `cap`: a rule with more violations than this is only counted in a change; `pairs` lists them on demand.
    `make_index` makes the indexes that pair rules search.
    """

    def __init__(
        self,
        checked: Sequence[CheckedRule],
        schemas: Schemas,
        dictionary: TextDictionary,
        cap: int | None = None,
        make_index: MakeIndex | None = None,
    ) -> None:
        self.checked, self.schemas, self.dictionary = list(checked), schemas, dictionary
        self.cap = DEFAULT_CAP if cap is None else cap
        self._make_index = make_index or BoxIndex
        self.counts = [0] * len(self.checked)
        for item in self.checked:
            require_fits(item.rule, schemas)
            require_predicates_fit(item.where, schemas[table_of(item.rule, schemas)])
        self._table = [table_of(item.rule, schemas) for item in self.checked]
        self._rows: Mapping[str, Rows] = {}  # where the rows of indexes that wait are
        self._groups: dict[str, list[_Shared]] = {}
        for name in schemas:
            mine = [i for i, item in enumerate(self.checked) if self._table[i] == name and not item.is_single]
            self._groups[name] = self._indexed(name, mine)
        self._singles = {
            name: [
                i
                for i, item in enumerate(self.checked)
                if item.is_single and self._table[i] == name and not isinstance(item.rule, Ind)
            ]
            for name in schemas
        }
        self._inclusions = {
            i: InclusionIndex(item.rule, schemas, item.where, dictionary)
            for i, item in enumerate(self.checked)
            if isinstance(item.rule, Ind)
        }

    def _indexed(self, name: str, numbers: list[int]) -> list[_Shared]:
        schema = self.schemas[name]
        compiled = {i: compile_rule(c.rule, schema, c.nulls, c.where) for i in numbers for c in [self.checked[i]]}
        places = {id(rule): i for i, rule in compiled.items()}
        groups: list[Group] = group_rules(compiled.values(), schema)
        return [
            _Shared(self._make_index(group, self.dictionary), [places[id(rule)] for rule in group.rules])
            for group in groups
        ]

    def describe(self) -> str:
        """The plan in words."""
        parts = []
        for name, groups in self._groups.items():
            if groups:
                parts.append(f"table {name}\n{describe([shared.index.group for shared in groups])}")
        parts += [
            f"{item.rule}: a test of each row"
            for item in self.checked
            if item.is_single and not isinstance(item.rule, Ind)
        ]
        parts += [f"{item.rule}: counts of tuples on both sides" for item in self.checked if isinstance(item.rule, Ind)]
        return "\n".join(parts)

    @property
    def nbytes(self) -> int:
        return sum(shared.index.nbytes for groups in self._groups.values() for shared in groups)

    def load(self, rows: Mapping[str, Rows], progress: Progress | None = None, *, may_wait: bool = True) -> None:
        """Counts the violations of the current rows, the first ones, without listing them. Keys and FDs are counted by
        groups, and their rows indexed later, if they `may_wait` for the next change; the other rows are indexed."""
        self._rows = rows
        total, done = sum(len(table) * len(self._groups[name]) for name, table in rows.items()), 0

        def advance(indexed: int) -> None:
            nonlocal done
            done += indexed
            if progress is not None:
                progress(done, total)

        arrivals = {name: RowChange.arrival(table.ids(), table.codes()) for name, table in rows.items()}
        for name, arrival in arrivals.items():
            by_groups = GroupCounts(self.schemas[name], arrival.added_codes, self.dictionary)
            for shared in self._groups[name]:
                self._count_first(shared, arrival, by_groups, advance)
                if not may_wait:
                    self._filled(shared, name)
            for i in self._singles[name]:
                self.counts[i] = self._rows_of(self.checked[i], name, arrival).count_added
        for i, inclusion in self._inclusions.items():
            self.counts[i] = self._inclusion(inclusion, arrivals).count_added

    def _count_first(
        self, shared: _Shared, arrival: RowChange, by_groups: GroupCounts, advance: Callable[[int], None]
    ) -> None:
        """Counts the violations of the rules of an index among the first rows of their table."""
        items = [self.checked[i] for i in shared.numbers]
        if all(isinstance(item.rule, Key | Fd) for item in items):
            for i, item in zip(shared.numbers, items, strict=True):
                self.counts[i] = by_groups.count(item.rule, item.nulls, item.where)  # type: ignore[arg-type]
            shared.waits = True
            advance(len(arrival.added))
            return
        for indexed, counts in self._fill(shared, arrival):
            for i, count in zip(shared.numbers, counts.tolist(), strict=True):
                self.counts[i] += count
            advance(indexed)

    def _fill(self, shared: _Shared, arrival: RowChange) -> Iterator[tuple[int, Counts]]:
        """Indexes the first rows of a table, millions at a time: an index has the best layout for rows that are
        inserted together. Yields how many rows were indexed, and the violations that they added to each rule."""
        ids, codes, count_only = arrival.added, arrival.added_codes, np.full(len(shared.numbers), -1)
        for start in range(0, len(ids), LOADED_AT_ONCE):
            part, part_codes = ids[start : start + LOADED_AT_ONCE], codes[:, start : start + LOADED_AT_ONCE]
            yield len(part), shared.index.change(ids[:0], codes[:, :0], part, part_codes, count_only).count_added

    def _filled(self, shared: _Shared, name: str) -> Index:
        """The index, with the current rows."""
        if shared.waits:
            table = self._rows[name]
            for _ in self._fill(shared, RowChange.arrival(table.ids(), table.codes())):
                pass
            shared.waits = False
        return shared.index

    def apply(self, changes: Mapping[str, RowChange]) -> dict[int, ViolationDelta]:
        """What row changes do to the violations of each rule, by its number."""
        deltas: dict[int, ViolationDelta] = {}
        for name, change in changes.items():
            for shared in self._groups[name]:
                index = self._filled(shared, name)
                deltas.update(zip(shared.numbers, self._pairs_of(index, shared.numbers, change), strict=True))
            for i in self._singles[name]:
                deltas[i] = self._rows_of(self.checked[i], name, change)
        for i, inclusion in self._inclusions.items():
            deltas[i] = self._inclusion(inclusion, changes)
        for i, delta in deltas.items():
            self.counts[i] += delta.count_added - delta.count_removed
        return deltas

    def _pairs_of(self, index: Index, numbers: list[int], change: RowChange) -> list[ViolationDelta]:
        effective = change.effective(index.group.columns)
        limits = np.array([self.cap if self.counts[i] <= self.cap else -1 for i in numbers])
        moved = index.change(effective.removed, effective.removed_codes, effective.added, effective.added_codes, limits)
        return [
            ViolationDelta.between(moved.added[k], moved.removed[k])
            if moved.listed[k]
            else ViolationDelta(
                Pairs.none(), Pairs.none(), int(moved.count_added[k]), int(moved.count_removed[k]), listed=False
            )
            for k in range(len(numbers))
        ]

    def _rows_of(self, item: CheckedRule, name: str, change: RowChange) -> ViolationDelta:
        removed = change.removed[self._violate(item, name, change.removed_codes)]
        added = change.added[self._violate(item, name, change.added_codes)]
        return ViolationDelta.between(Pairs(added), Pairs(removed))

    def _violate(self, item: CheckedRule, name: str, codes: Codes) -> np.ndarray:
        return rows_that_violate(item, self.schemas[name], codes, self.dictionary)

    def _inclusion(self, index: InclusionIndex, changes: Mapping[str, RowChange]) -> ViolationDelta:
        left, right = changes.get(index.rule.left_table), changes.get(index.rule.right_table)
        left = left or RowChange.nothing(len(self.schemas[index.rule.left_table]))
        right = right or RowChange.nothing(len(self.schemas[index.rule.right_table]))
        left, right = left.effective(index.left_columns), right.effective(index.right_columns)
        return ViolationDelta.between(
            *index.change(left.removed, left.added, left.added_codes, right.removed_codes, right.added_codes)
        )

    def pairs(self, number: int, rows: Rows, limit: int | None = None) -> Pairs:
        """The current violations of one rule, by t then s; the first `limit` of them."""
        parts = list(self.parts(number, rows, limit))
        if self.checked[number].is_single:
            return parts[0]
        return Pairs.joined(parts)

    def parts(self, number: int, rows: Rows, limit: int | None = None) -> Iterator[Pairs]:
        """The same in parts. Each part queries some rows, so that only their violations are in memory."""
        item = self.checked[number]
        if number in self._inclusions:
            yield self._inclusions[number].violating().first(limit)
            return
        ids = rows.ids()
        if item.is_single:
            yield Pairs(ids[self._violate(item, self._table[number], rows.codes())][:limit])
            return
        index, place = self._index_of(number)
        most, left = index.asked_at_once, self.counts[number]
        step = most if limit is None else max(index.least_asked, min(most, limit))
        left = left if limit is None else min(left, limit)
        for start in range(0, len(ids), step):
            if not left:
                return
            part = ids[start : start + step]
            found = index.partners(part, rows.codes_of(part), place)[0].ordered().first(left)
            left -= len(found)
            yield found

    def _index_of(self, number: int) -> tuple[Index, int]:
        """The index of a pair rule, and the rule's position among those that share it."""
        name = self._table[number]
        shared = next(shared for shared in self._groups[name] if number in shared.numbers)
        return self._filled(shared, name), shared.numbers.index(number)

    def partners(self, number: int, ids: Ids, rows: Rows) -> Pairs:
        """The violations of one rule in which these rows are t."""
        if self.checked[number].is_single:
            return Pairs(ids[np.isin(ids, self.pairs(number, rows).t)])
        index, place = self._index_of(number)
        return index.partners(ids, rows.codes_of(ids), place)[0]

    def per_row(self, number: int, rows: Rows) -> tuple[Ids, np.ndarray]:
        """The current rows, and in how many violations each is t (1 or 0 for rules about single rows)."""
        ids = rows.ids()
        if self.checked[number].is_single:
            return ids, np.isin(ids, self.pairs(number, rows).t).astype(np.int64)
        index, place = self._index_of(number)
        return ids, index.partners(ids, rows.codes(), place, emit=False)[1]

    def table_of(self, number: int) -> str:
        return self._table[number]
