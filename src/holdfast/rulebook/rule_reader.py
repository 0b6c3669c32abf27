"""Questions to a rulebook about its rules and their violations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from holdfast.discovery.budget import Budget
from holdfast.errors import HoldfastError, shown
from holdfast.indexes.pairs import Pairs
from holdfast.ranking.most import DEFAULT_MOST
from holdfast.rulebook.reader import RulebookReader
from holdfast.rules.bind import forms, resolved, table_of
from holdfast.rules.grammar import parse
from holdfast.rules.names import by_position
from holdfast.rules.predicate import Predicate
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.ruleset import RuleSet
from holdfast.violations.clashing_groups import ClashingGroups, clashing_groups
from holdfast.violations.detect import CheckedRule
from holdfast.violations.explain import Explanation
from holdfast.violations.listing import Asked, Listed, id_table
from holdfast.violations.look import LOOK_AT, Look, Violation, of_row
from holdfast.violations.look import shown as shown_violations

if TYPE_CHECKING:
    from holdfast.ranking.rank import Ranked


def holding_rules(book: Any, kind: str | None) -> RuleSet:
    """The found rules of a rulebook, and the given rules without violations; a rule that is both once."""
    found: RuleSet = book.found(kind)
    given: RuleSet = book.given(kind)
    schemas = book.schemas
    written = RuleSet.from_rules([form for rule in given for form in forms(rule, schemas)])
    twice = {resolved(rule, schemas) for rule in written - (written - found)}  # found in either form

    def holds(rule: Rule) -> bool:
        return resolved(rule, schemas) not in twice and not book.count_violations(rule)

    holding = given.where(lambda block: np.array([holds(rule) for rule in block], bool))
    return holding | found if len(holding) else found


_RANKING_SECONDS = 20.0  # of a table with very many columns, not all pairs are looked at


class RuleReader(RulebookReader):
    """What can be asked about the rules of a rulebook. Every answer is about its current version."""

    # --- rules ----------------------------------------------------------------------------------------------

    def rules(self, kind: str | None = None) -> RuleSet:
        """The rules that hold now, all or of one kind: found rules, and given rules without violations. `found` and
        `given` list them separately, the latter whether they hold or not."""
        return holding_rules(self, kind)

    def given(self, kind: str | None = None) -> RuleSet:
        """The checked rules, all or of one kind, whether they hold or not; `entries` has more about each."""
        rules = RuleSet.from_rules([entry.value for entry in self.entries], self._column_order())
        return rules if kind is None else rules.of(kind)

    def found(self, kind: str | None = None) -> RuleSet:
        """The found rules, all or of one kind: the minimal ones of the kinds that are kept. Rules that are `late` are
        not listed, since they may not hold any more; `limits` says so."""
        rules = self._ready().discovered.rules()
        late = self.late()
        if late:
            limits = [
                f"{k} of {name}: rules as of version {v}" for name, kinds in late.items() for k, v in kinds.items()
            ]
            rules = replace(rules, complete=False, limits=(*rules.limits, *limits))
        return rules if kind is None else rules.of(kind)

    def late(self) -> dict[str, dict[str, int]]:
        """The kinds of found rules, by table, for which a `rule_budget` left no time, and the version of the rows for
        which they were proven last. `catch_up` updates them."""
        return self._ready().state.chronicle.late()

    def best(self, most: int | None = DEFAULT_MOST) -> list[Ranked]:
        """The rules worth reading, of the kinds that are found and kept, the best first, each with its reasons; also
        rules with which up to 1 % of the rows disagree."""
        search = self._engine.options.search
        if search is None:
            return []
        return self.encoded.best(self.found(), search, most, budget=Budget(_RANKING_SECONDS))

    def text_of(self, rule: Rule) -> str:
        """A rule's text, with columns in the order of the schema of the only table."""
        names = self._column_order()
        return rule.text(by_position(names)) if names else rule.text()

    def _column_order(self) -> tuple[str, ...]:
        schemas = list(self.schemas.values())
        return schemas[0].names if len(schemas) == 1 else ()

    @property
    def entries(self) -> tuple[RuleEntry, ...]:
        """The checked rules with id, severity, null policy and filter."""
        return self._engine.entries

    def entry(self, rule: str | Rule) -> RuleEntry:
        """A checked rule by its id, text or value."""
        return self.entries[self._engine.names.find(rule).number]

    def plan(self) -> str:
        """How rules are checked, and how found rules are kept, in words."""
        engine = self._ready()
        return "\n".join(text for text in (engine.detector().describe(), *engine.discovered.rules().how) if text)

    # --- violations -----------------------------------------------------------------------------------------

    def count_violations(self, rule: str | Rule) -> int:
        """The exact number of violating ordered pairs; of rows, for rules about single rows."""
        engine = self._ready()
        number = engine.names.find(rule).number
        if not engine.is_indexed:
            rule_id = engine.entries[number].id
            for record in reversed(engine.state.chronicle.log.records):
                if rule_id in record.get("violations", {}):
                    return int(record["violations"][rule_id][2])
        return engine.detector().counts[number]

    def error(self, rule: str | Rule) -> float:
        """g1: violating pairs / n(n-1), 0 for fewer than two rows; or rows / n for rules about single rows."""
        checked = self._engine.names.checked[self._engine.names.find(rule).number]
        return checked.error(self.count_violations(rule), self.count(table_of(checked.rule, self.schemas)))

    def violations(self, rule: str | Rule, limit: int | None = None) -> pa.Table:
        """The violating pairs (t, s) of a rule as it is written, by t then s; rows (t) for rules about single rows."""
        return pa.concat_tables(self.violation_parts(rule, limit))

    def violating_groups(
        self, rule: str | Rule, limit: int | None = None, newcomers: Sequence[int] | None = None
    ) -> ClashingGroups | None:
        """The violations of a key or an FD as groups of rows that agree on its left side, the largest group first; None
        for other rules. `newcomers`: only groups with one of the rows that have these ids, and they are named first.
        O(rows)."""
        engine = self._ready()
        asked = engine.names.find(rule)
        item = engine.names.checked[asked.number]
        rows = engine.state.rows[table_of(item.rule, self.schemas)]
        among = None if newcomers is None else np.array(newcomers, np.int64)
        return clashing_groups(item, rows, engine.state.dictionary, limit, among)

    def violation_parts(self, rule: str | Rule, limit: int | None = None) -> Iterator[pa.Table]:
        """The same in parts: for more violations than fit into memory."""
        return (listed.as_asked(asked) for asked, listed in self._listed_parts(rule, limit))

    def violation_ids(self, rule: str | Rule, limit: int | None = None) -> Iterator[pa.Table]:
        """The same by row ids, also if the table has a key."""
        return (id_table(asked.turned(listed.pairs)) for asked, listed in self._listed_parts(rule, limit))

    def _listed_parts(self, rule: str | Rule, limit: int | None) -> Iterator[tuple[Asked, Listed]]:
        engine = self._ready()
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise HoldfastError(f"a limit is a number from 0 on, or None, not {shown(limit)}")
        asked = engine.names.find(rule)
        with engine.guarded():
            detector = engine.detector()
            rows = engine.state.rows[detector.table_of(asked.number)]
            yield asked, engine.listed(asked.number, Pairs.none(single=engine.names.checked[asked.number].is_single))
            if asked.mirrored:  # the other order needs all of them
                pairs = asked.turned(detector.pairs(asked.number, rows)).first(limit)
                yield Asked(asked.number, mirrored=False), engine.listed(asked.number, pairs)
                return
            for pairs in detector.parts(asked.number, rows, limit):
                if len(pairs):
                    yield asked, engine.listed(asked.number, pairs)

    def row_violations(self, table: str, row: int, most: int = 100) -> list[tuple[RuleEntry, int, list[Violation]]]:
        """The checked rules that a row violates, with the number of partners, and the first of them. O(rows) each."""
        engine = self._ready()
        rows, dictionary, violated = engine.state.rows, engine.state.dictionary, []
        for entry, item in zip(engine.entries, engine.names.checked, strict=True):
            if table_of(item.rule, self.schemas) == table:
                pairs = of_row(item, row, rows, dictionary)
                if len(pairs):
                    first = shown_violations(item, pairs.first(most), rows[table], dictionary)
                    violated.append((entry, len(pairs), first))
        return violated

    def look(self, rule: str | Rule, nulls: str | None = None) -> Look:
        """The violations of any rule on the current rows. A rule that is not checked is searched now, under the null
        policy of given rules unless another is named."""
        engine = self._ready()
        number = engine.names.known(rule)
        if number is not None and nulls is None:
            with engine.guarded():
                return Look(engine.detector(), number, engine.state.rows, engine.state.dictionary)
        return self.look_alone(rule, nulls or self.rule_nulls)

    def look_alone(self, rule: str | Rule, nulls: str, where: frozenset[Predicate] = frozenset()) -> Look:
        """The same, always searched now, without the checked rules."""
        state = self._ready().state
        item = CheckedRule(parse(rule) if isinstance(rule, str) else rule, nulls, where)
        return Look.at(item, self.schemas, state.rows, state.dictionary)

    def explain(self, rule: str | Rule, limit: int = 10, look_at: int = LOOK_AT) -> Explanation:
        """The worst rows, their clashes and causes, from the first `look_at` violations."""
        engine = self._ready()
        asked = engine.names.find(rule)
        text = None if isinstance(rule, str) and rule in engine.names.ids else str(rule)
        with engine.guarded():
            look = Look(engine.detector(), asked.number, engine.state.rows, engine.state.dictionary)
            return look.explain(limit, look_at, text, mirrored=asked.mirrored)
