"""The net effect of a change on a table, checked against the current rows.

With a key, the signs of the events of one key must alternate; its first and its last event decide the net effect.
Without a key, rows are identified by their value: equal inserts and deletes cancel, and an update moves a row to its
new value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdfast.arrays import Positions
from holdfast.errors import ChangeRefused, SchemaError, ValueRefused, shown
from holdfast.table.change import CHANGE_TYPES, Part
from holdfast.table.dictionary import NULL, TextDictionary
from holdfast.table.effect import Bad, Drift, Effect, Reason, Reasons
from holdfast.table.encode import decode_table
from holdfast.table.keys import groups
from holdfast.table.net_by_value import cancel_equal, follow_updates
from holdfast.table.row_change import RowDelta
from holdfast.table.row_events import EventEncoder, RowEvents
from holdfast.table.rows import Rows

_MAX_SHOWN_COLUMNS = 8  # of a row without a key, in a message
_ONLY_INSERTS = "deletes or changes a row, but this rulebook was promised only inserts"
_PROMISED = Reason(_ONLY_INSERTS, _ONLY_INSERTS)
_NO_KEY = Reason("has no key: a key column is null", "has no key: a key column is null")


class Planner:
    """Computes the net effect of a change on `rows` without modifying them."""

    def __init__(
        self,
        name: str,
        rows: Rows,
        dictionary: TextDictionary,
        declared: Sequence[str] = (),
        ignored: Sequence[str] = (),
        *,
        only_inserts: bool = False,
        masked: bool = False,
    ) -> None:
        """`declared` columns are cast to their kind; `ignored` ones are skipped. `only_inserts` refuses updates and
        deletes. `masked` keeps values out of messages."""
        self.name, self.rows, self.dictionary = name, rows, dictionary
        self._only_inserts, self._masked = only_inserts, masked
        self._encoder = EventEncoder(rows, dictionary, declared, ignored)

    def plan(self, parts: list[Part], *, quarantine: bool = False) -> Effect:
        """The net effect of the parts.

        A bad row is an error that names it; with `quarantine`, the effect of the other rows is planned instead.
        """
        effect = self._plan_few(parts)
        return effect if effect is not None else self._plan_any(parts, quarantine=quarantine)

    def _plan_few(self, parts: list[Part]) -> Effect | None:
        """The effect of a few valid inserts of plain values; None if the change needs the general path."""
        codes = self._encoder.encode_few(parts[0]) if len(parts) == 1 else None
        if codes is None or not self.rows.can_enter(codes):
            return None
        return Effect(RowDelta.of_inserts(codes))

    def _plan_any(self, parts: list[Part], *, quarantine: bool) -> Effect:
        events = self._encoder.encode(parts)
        quarantined: list[Bad] = []
        while True:
            events = self._without_upserts(events)
            effect, reasons = self._attempt(events)
            if not reasons:
                effect.quarantined = quarantined
                return effect
            if not quarantine:
                self._refuse(parts, events, reasons)
            quarantined += self._bad_rows(parts, events, reasons)
            events = events.chosen(events.are_good(reasons))

    def _without_upserts(self, events: RowEvents) -> RowEvents:
        """The events with each upsert as an insert, after a delete if a row with its key exists at that point."""
        if not events.upsert.any() or events.reasons:
            return events
        if not self.rows.key:
            raise SchemaError(f"table {shown(self.name)} has no key, and its source does not say which rows change")
        key = self.rows.identity
        has_key = (events.codes[key] != NULL).all(axis=0)
        group, is_stored = groups(events.codes, key), self.rows.find(events.codes) >= 0
        exists: dict[int, bool] = {}  # by key, after the events so far
        replacing = []
        for i in np.flatnonzero(has_key).tolist():
            if events.upsert[i] and exists.get(group[i], bool(is_stored[i])):
                replacing.append(i)
            exists[group[i]] = bool(events.sign[i] > 0)
        settled = events.with_deletes_before(np.array(replacing, np.int64)) if replacing else events
        settled.upsert[:] = False
        return settled

    def _attempt(self, events: RowEvents) -> tuple[Effect, Reasons]:
        """The net effect, and the reason for each bad event. The effect is empty if there are bad events."""
        if events.reasons:
            return self._no_effect(), events.reasons
        if self._only_inserts and (events.sign < 0).any():
            return self._no_effect(), {int(i): _PROMISED for i in np.flatnonzero(events.sign < 0)}
        return self._by_key(events) if self.rows.key else self._by_value(events)

    def _no_effect(self) -> Effect:
        return Effect(RowDelta.nothing(len(self.rows.schema)))

    def _by_key(self, events: RowEvents) -> tuple[Effect, Reasons]:
        """The effect by key: signs alternate; the first and last event of a key decide. O(events log events)."""
        rows, key = self.rows, self.rows.identity
        reasons = {int(i): _NO_KEY for i in np.flatnonzero((events.codes[key] == NULL).any(axis=0))}
        if reasons or not len(events):
            return self._no_effect(), reasons
        group = groups(events.codes, key)
        if (events.sign > 0).all() and (group == np.arange(len(group))).all() and (rows.find(events.codes) < 0).all():
            return Effect(RowDelta.of_inserts(events.codes)), {}
        order = np.argsort(group, kind="stable")
        same = group[order][1:] == group[order][:-1]
        repeated = order[1:][same & (events.sign[order][1:] == events.sign[order][:-1])]
        reasons = {int(i): self._repeats(events, int(i)) for i in repeated}
        first, last = order[np.append(True, ~same)], order[np.append(~same, True)]
        ids = rows.find(events.codes[:, first])
        reasons |= {int(i): self._exists(events, int(i)) for i in first[(ids >= 0) & (events.sign[first] > 0)]}
        reasons |= {int(i): self._absent(events, int(i)) for i in first[(ids < 0) & (events.sign[first] < 0)]}
        if reasons:
            return self._no_effect(), reasons
        existed, remains = events.sign[first] < 0, events.sign[last] > 0
        inserted = last[~existed & remains][np.argsort(first[~existed & remains])]
        updated, new_codes = ids[existed & remains], events.codes[:, last[existed & remains]]
        changed = (rows.codes_of(updated) != new_codes).any(axis=0)
        delta = RowDelta(
            ids[existed & ~remains],
            updated[changed],
            np.ascontiguousarray(new_codes[:, changed]),
            events.codes[:, inserted],
        )
        with_values = existed & events.full[first]
        return Effect(delta, self._drift(events, first[with_values], ids[with_values])), {}

    def _by_value(self, events: RowEvents) -> tuple[Effect, Reasons]:
        """The effect by value: equal inserts and deletes cancel; the other deletes take the youngest equal rows."""
        if (events.sign > 0).all() and not (events.partner >= 0).any():
            return Effect(RowDelta.of_inserts(events.codes)), {}
        group = groups(events.codes, self.rows.identity)
        has_updates = (events.partner >= 0).any()
        taken, given = follow_updates(events, group) if has_updates else cancel_equal(events, group)
        ids = self.rows.take(events.codes[:, taken])
        absent = taken[ids < 0]
        if len(absent):
            return self._no_effect(), {int(i): self._absent(events, int(i)) for i in absent}
        after = given[: len(taken)]
        inserted = np.sort(given[len(taken) :])
        updated = (after >= 0) & (group[taken] != group[after])
        delta = RowDelta(
            ids[after < 0],
            ids[updated],
            events.codes[:, after[updated]],
            np.ascontiguousarray(events.codes[:, inserted]),
        )
        return Effect(delta), {}

    def _drift(self, events: RowEvents, preimages: Positions, ids: Positions) -> list[Drift]:
        """The cells in which a preimage differs from the stored row."""
        stored, expected = self.rows.codes_of(ids), events.codes[:, preimages]
        columns, places = np.nonzero(stored != expected)
        if not len(columns):
            return []
        stored_values = decode_table(self.rows.schema, stored[:, places], self.dictionary)
        expected_values = decode_table(self.rows.schema, expected[:, places], self.dictionary)
        drift = []
        for i, (column, place) in enumerate(zip(columns, places, strict=True)):
            name = self.rows.schema.names[column]
            values = (table.column(name)[i].as_py() for table in (expected_values, stored_values))
            drift.append(Drift(self.name, self._shown_key(events, int(preimages[place])), name, *values))
        return drift

    def _shown_key(self, events: RowEvents, event: int) -> str:
        """`id = 7`: the identity of an event's row in a message."""
        table = decode_table(self.rows.schema, events.codes[:, [event]], self.dictionary)
        return ", ".join(f"{name} = {shown(table.column(name)[0].as_py())}" for name in self._shown_columns())

    def _shown_columns(self) -> list[str]:
        return [self.rows.schema.names[i] for i in self.rows.identity][:_MAX_SHOWN_COLUMNS]

    def _keyed(self, events: RowEvents, event: int, text: str) -> Reason:
        """A reason with the row's key (or its values) in place of `{}`."""
        plain = f"({', '.join(self._shown_columns())})"
        return Reason(text.format(self._shown_key(events, event)), text.format(plain))

    def _repeats(self, events: RowEvents, event: int) -> Reason:
        verb = "inserts" if events.sign[event] > 0 else "deletes"
        return self._keyed(events, event, verb + " the key {} a second time")

    def _exists(self, events: RowEvents, event: int) -> Reason:
        return self._keyed(events, event, "inserts the key {}, which is already there")

    def _absent(self, events: RowEvents, event: int) -> Reason:
        verb = "updates" if events.partner[event] >= 0 else "deletes"
        return self._keyed(events, event, verb + " a row that is not there: {}")

    def _shown_reason(self, reason: Reason) -> str:
        """A reason for people, without values if any column is masked: a bad row may have values in wrong columns."""
        return reason.plain if self._masked else reason.full

    def _refuse(self, parts: list[Part], events: RowEvents, reasons: Reasons) -> None:
        first = min(reasons)
        place = parts[events.part[first]].source.place.row(int(events.row[first]))
        more = f" (and {len(reasons) - 1} more such rows)" if len(reasons) > 1 else ""
        error = ValueRefused if events.reasons else ChangeRefused
        raise error(
            f"{place}{', ' if events.reasons else ': '}{self._shown_reason(reasons[first])}{more}; "
            f"the batch was refused as a whole"
        )

    def _bad_rows(self, parts: list[Part], events: RowEvents, reasons: Reasons) -> list[Bad]:
        """The rows to quarantine: those with a reason, and the other halves of their updates."""
        bad = []
        for event in np.flatnonzero(~events.are_good(reasons)).tolist():
            part, row = parts[events.part[event]], int(events.row[event])
            written = part.source.table if part.source.written is None else part.source.written
            values = written.slice(row, 1).to_pylist()[0]
            reason = reasons.get(event) or reasons[int(events.partner[event])].prefixed("its other half: ")
            kind = int(part.types[row])
            change_type = CHANGE_TYPES[kind] if kind < len(CHANGE_TYPES) else "upsert"
            place = part.source.place.row(row)
            bad.append(Bad(self.name, place, change_type, values, self._shown_reason(reason), reason.plain))
        return bad
