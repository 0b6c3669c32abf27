"""Questions to a rulebook about its tables, rows, history and versions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from holdfast.errors import SchemaError
from holdfast.rulebook.engine import Engine
from holdfast.rulebook.publish import VersionEvents, events_of
from holdfast.store.directory import LocalDirectory
from holdfast.store.log import Record
from holdfast.store.store import Store
from holdfast.table.encode import decode_table
from holdfast.table.options import TableOptions
from holdfast.table.schema import Schema, unknown_name
from holdfast.violations.listing import row_named

if TYPE_CHECKING:
    from holdfast.encoded_tables import EncodedTables


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
        return (
            f"<Rulebook: {where}, version {self.version}; {tables}; {len(self._engine.entries):,} checked rules{kept}>"
        )

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
    def kept_kinds(self) -> tuple[str, ...]:
        """The kinds of rules that are found and kept true to the rows."""
        search = self._engine.options.search
        return () if search is None else tuple(search.kinds)

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
        from holdfast.encoded_tables import EncodedTables

        engine = self._ready()
        return EncodedTables(engine.state.rows, engine.state.dictionary, not engine.options.named)

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

    # --- versions and sinks ---------------------------------------------------------------------------------

    def versions(self) -> list[int]:
        """The versions that can be opened."""
        return self._store.versions() if self._store is not None else [self.version]

    @property
    def oldest_with_events(self) -> int:
        """The oldest version, after that of the first rows, whose events are still kept."""
        return max(1, self._store.versions_with_change()[0]) if self._store is not None else self.version + 1

    def events_of(self, version: int) -> VersionEvents:
        """The events of a kept version for sinks. For rulebooks with an outbox."""
        return events_of(self._store, version, has_outbox=self.has_outbox)
