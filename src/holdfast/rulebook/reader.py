"""Questions to a rulebook: about its rules, rows, violations and history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.encoded_tables import EncodedTables
from holdfast.errors import HoldfastError, SchemaError, shown
from holdfast.indexes.pairs import Pairs
from holdfast.ranking.interest import Weights
from holdfast.ranking.rank import DEFAULT_MOST, Ranked
from holdfast.rulebook.engine import Engine
from holdfast.rules.bind import forms, resolved, table_of
from holdfast.rules.grammar import parse
from holdfast.rules.names import by_position
from holdfast.rules.predicate import Predicate
from holdfast.rules.rule import Rule
from holdfast.rules.rulefile import RuleEntry
from holdfast.rules.ruleset import RuleSet
from holdfast.store.directory import LocalDirectory
from holdfast.store.log import Record
from holdfast.store.store import Store
from holdfast.table.encode import decode_table
from holdfast.table.options import TableOptions
from holdfast.table.schema import Schema, unknown_name
from holdfast.violations.detect import CheckedRule
from holdfast.violations.explain import Explanation
from holdfast.violations.listing import Asked, Listed, id_table, row_named
from holdfast.violations.look import LOOK_AT, Look, Violation, of_row
from holdfast.violations.look import shown as shown_violations


class RulebookReader:
    """What can be asked of a rulebook. Every answer is about its current version."""

    _engine: Engine
    _store: Store | None

    def _ready(self) -> Engine:
        """The engine, of a rulebook that is open and up to date with its store."""
        raise NotImplementedError

    def __repr__(self) -> str:
        state, where = self._engine.state, self.path or (self._store.directory if self._store else "in memory")
        tables = ", ".join(f"{name} ({len(rows):,} rows)" for name, rows in state.rows.items())
        search = self._engine.options.search
        kept = f"; keeps {', '.join(search.kinds)}" if search is not None else ""
        return f"<Rulebook: {where}, version {self.version}; {tables}; {len(self.entries):,} checked rules{kept}>"

    # --- the rulebook ---------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        return self._engine.state.chronicle.version

    @property
    def path(self) -> Path | None:
        """Its directory, if that is on a local disk."""
        directory = self._store.directory if self._store is not None else None
        return directory.path if isinstance(directory, LocalDirectory) else None

    @property
    def masked(self) -> frozenset[str]:
        """Columns whose values are not shown: `ssn`, or `people.ssn` for one table."""
        return frozenset(self._engine.options.mask)

    @property
    def has_outbox(self) -> bool:
        """Whether versions keep the events for sinks."""
        return self._engine.options.outbox

    @property
    def discovery_nulls(self) -> str:
        """How nulls compare in found rules."""
        return self._engine.options.nulls

    @property
    def rule_nulls(self) -> str:
        """How nulls compare in given rules that name no policy."""
        return self._engine.options.rule_nulls

    # --- tables and rows ------------------------------------------------------------------------------------

    @property
    def tables(self) -> dict[str, TableOptions]:
        """The tables, with their columns and keys."""
        return dict(self._engine.state.tables)

    @property
    def schemas(self) -> dict[str, Schema]:
        return self._engine.state.schemas

    def _table_name(self, name: str | None) -> str:
        tables = self._engine.state.tables
        if name is None and len(tables) == 1:
            return next(iter(tables))
        if name not in tables:
            raise SchemaError(unknown_name("table", str(name), list(tables)))
        return name

    def table(self, name: str | None = None) -> pa.Table:
        """The current rows of a table, in order of arrival."""
        state, name = self._ready().state, self._table_name(name)
        return decode_table(state.schemas[name], state.rows[name].codes(), state.dictionary)

    def row_ids(self, name: str | None = None) -> pa.Array:
        """The ids of those rows."""
        return pa.array(self._ready().state.rows[self._table_name(name)].ids())

    def count(self, name: str | None = None) -> int:
        """The number of rows."""
        return len(self._ready().state.rows[self._table_name(name)])

    def row(self, table: str, row: int) -> Record | None:
        """One row by its id; None if there is none."""
        state = self._ready().state
        rows = state.rows[self._table_name(table)]
        if not np.isin(row, rows.ids()):
            return None
        (cells,) = decode_table(rows.schema, rows.codes_of(np.array([row], np.int64)), state.dictionary).to_pylist()
        return dict(cells)

    def row_named(self, text: str, table: str | None = None) -> int:
        """The id of the row with a key given as text (`17`, or `a,b` for two columns); the id itself if the table has
        no key."""
        state, name = self._ready().state, self._table_name(table)
        return row_named(name, state.rows[name], state.dictionary, text)

    @property
    def encoded(self) -> EncodedTables:
        """The rows as codes, for further questions about them."""
        engine = self._ready()
        return EncodedTables(engine.state.rows, engine.state.dictionary, not engine.options.named)

    # --- rules ----------------------------------------------------------------------------------------------

    def rules(self, kind: str | None = None) -> RuleSet:
        """The rules that hold now, all or of one kind: found rules, and given rules without violations. `found` and
        `given` list them separately, the latter whether they hold or not."""
        found, given = self.found(kind), self.given(kind)
        written = RuleSet.from_rules([form for rule in given for form in forms(rule, self.schemas)])
        twice = {resolved(rule, self.schemas) for rule in written - (written - found)}  # found in either form

        def holds(rule: Rule) -> bool:
            return resolved(rule, self.schemas) not in twice and not self.count_violations(rule)

        holding = given.where(lambda block: np.array([holds(rule) for rule in block], bool))
        return holding | found if len(holding) else found

    def given(self, kind: str | None = None) -> RuleSet:
        """The checked rules, all or of one kind, whether they hold or not; `entries` has more about each."""
        rules = RuleSet.from_rules([entry.value for entry in self.entries], self._column_order())
        return rules if kind is None else rules.of(kind)

    def found(self, kind: str | None = None) -> RuleSet:
        """The found rules, all or of one kind: the minimal ones of the kinds that are kept."""
        rules = self._ready().discovered.rules()
        return rules if kind is None else rules.of(kind)

    def best(self, most: int | None = DEFAULT_MOST, weights: Weights | None = None) -> list[Ranked]:
        """The found rules worth reading, the best first, each with its reasons."""
        return self.encoded.best(self.found(), self.discovery_nulls, most, weights)

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
        """How the rules are checked, in words."""
        return self._engine.detector().describe()

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

    # --- history --------------------------------------------------------------------------------------------

    def history(self) -> pa.Table:
        """What each batch did to each table, oldest first."""
        return self._ready().state.chronicle.history()

    def records(self) -> list[Record]:
        """The log record of each version, oldest first."""
        return list(self._ready().state.chronicle.log.records)

    def rule_history(self) -> pa.Table:
        """The rules added and removed, oldest first, with the two rows that decided, by name, as JSON: a pair that
        violates a removed rule, or violated an added rule until one of its rows was deleted. At most a thousand for
        each table and version; `history` counts all."""
        return self._ready().state.chronicle.rule_history()

    def quarantined(self) -> pa.Table:
        """The quarantined rows with the reason; their values as JSON. Nothing is masked."""
        return self._ready().state.chronicle.quarantined()

    def quarantine_records(self) -> list[Record]:
        """The log records of the quarantined rows."""
        return list(self._ready().state.chronicle.quarantine.records)

    def next_batch(self, source: str) -> int:
        """The number that follows the last batch of a source."""
        return self._engine.state.chronicle.next_batch(source)

    def last_offsets(self, source: str) -> str | None:
        """What the last batch of a source was made of."""
        return self._engine.state.chronicle.last_offsets(source)

    def knows(self, source: str, batch: str | int, offsets: str | None = None) -> bool:
        """Whether this batch was applied already; an error if it was made of something else then."""
        return self._engine.state.chronicle.knows(source, batch, offsets)
