"""From signed rows in order to what happens to the table: the net effect, checked against the rows that are there.

An insert is +, a delete -, an update - then +. With a key, the signs of one key must alternate, and its first and
last row tell the net effect. Without one, rows are told by their value: equal + and - cancel, and an update hands
the row it took on to its new value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import ChangeRefused, SchemaError, ValueRefused, shown
from holdfast.table.change import BEFORE, CHANGE_TYPES, DELETE, UPSERT, Part
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.encode import decode_table, encode_table
from holdfast.table.fast_rows import MAX_FAST_ROWS, FewRows
from holdfast.table.keys import groups
from holdfast.table.read import RowsSource, Source, conform
from holdfast.table.row_change import RowDelta
from holdfast.table.rows import Rows
from holdfast.table.schema import unknown_name

Index = npt.NDArray[np.int64]
Reasons = dict[int, "Reason"]


@dataclass(frozen=True)
class Drift:
    """An update or delete whose preimage is not what was stored."""

    table: str
    row: str
    column: str
    expected: object
    stored: object


@dataclass(frozen=True)
class Reason:
    """Why a row cannot be applied: in full, and without the values that the full text quotes."""

    full: str
    plain: str

    def prefixed(self, dictionary: str) -> Reason:
        return Reason(dictionary + self.full, dictionary + self.plain)


@dataclass(frozen=True)
class Bad:
    """Something that cannot be applied: a row, or a whole file: where it stands, what it is, why. `plain` is the reason
    without values, for who must not see them."""

    table: str | None
    place: str
    change_type: str
    values: dict[str, object]
    reason: str
    plain: str

    @classmethod
    def unread(cls, place: str, reason: str, values: dict[str, object] | None = None) -> Bad:
        """Something that is not even a row."""
        return cls(None, place, "unreadable", values or {}, reason, "cannot be read as changes of rows")


@dataclass
class Effect:
    """The net effect of a change on one table."""

    delta: RowDelta
    drift: list[Drift] = field(default_factory=list)
    quarantined: list[Bad] = field(default_factory=list)


@dataclass
class _Events:
    """Signed rows as codes, in order. `full[i]`: all columns are known, not only the key."""

    codes: Codes
    sign: npt.NDArray[np.int8]
    full: npt.NDArray[np.bool_]
    partner: Index  # of an update's two events, the other one; else -1
    part: Index  # which part, and which of its rows, an event came from
    row: Index
    reasons: Reasons
    upsert: npt.NDArray[np.bool_]  # rows that come, or replace the one with their key

    def __len__(self) -> int:
        return len(self.sign)

    def kept(self, keep: npt.NDArray[np.bool_]) -> _Events:
        place = np.cumsum(keep) - 1
        partner = np.where(self.partner[keep] >= 0, place[self.partner[keep]], -1)
        return _Events(
            self.codes[:, keep],
            self.sign[keep],
            self.full[keep],
            partner,
            self.part[keep],
            self.row[keep],
            {},
            self.upsert[keep],
        )

    def with_departures(self, before: Index) -> _Events:
        """The same with, before each of these upserts, the departure of the row that it replaces."""
        order = np.sort(np.concatenate([np.arange(len(self)), before]), kind="stable")
        departs = np.zeros(len(order), bool)
        departs[np.searchsorted(order, before, side="left")] = True
        place = np.flatnonzero(~departs)
        partner = self.partner[order]
        partner = np.where(departs | (partner < 0), -1, place[np.maximum(partner, 0)])
        return _Events(
            self.codes[:, order],
            np.where(departs, -1, self.sign[order]).astype(np.int8),
            self.full[order] & ~departs,
            partner,
            self.part[order],
            self.row[order],
            {},
            self.upsert[order] & ~departs,
        )


_ONLY_INSERTS = "deletes or changes a row, but this rulebook was promised only inserts"
_PROMISED = Reason(_ONLY_INSERTS, _ONLY_INSERTS)
_NO_KEY = Reason("has no key: a key column is null", "has no key: a key column is null")


class Planner:
    """Works out what a change does to `rows` without touching them."""

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
        """`declared` columns are cast to their kind, `ignored` ones are passed over. `only_inserts`: nothing may be
        deleted or changed. `masked`: messages quote no values."""
        self.name, self.rows, self.dictionary, self._only_inserts = name, rows, dictionary, only_inserts
        self._masked = masked
        self.declared, self.ignored = declared, frozenset(ignored)
        self._few = FewRows(rows.schema, dictionary)
        self._known_types: pa.Schema | None = None  # Arrow types that were seen to fit, in the order of the columns

    def plan(self, parts: list[Part], *, quarantine: bool = False) -> Effect:
        """The net effect, or an error that names the first bad row; with `quarantine`, without the bad rows."""
        effect = self._plan_few(parts)
        return effect if effect is not None else self._plan_any(parts, quarantine=quarantine)

    def _plan_few(self, parts: list[Part]) -> Effect | None:
        """The effect of a few plain inserts that nothing speaks against; None: to be planned like any other change."""
        if len(parts) != 1 or parts[0].all_of != "insert" or not 0 < parts[0].count <= MAX_FAST_ROWS:
            return None
        rows = self._plain_rows(parts[0].source)
        codes = self._few.encode(rows) if rows is not None else None
        if codes is None or not self.rows.can_enter(codes):
            return None
        return Effect(RowDelta.of_inserts(codes))

    def _plain_rows(self, source: Source) -> Sequence[tuple[object, ...]] | None:
        """The values by row, where the source has exactly the columns and types that came before."""
        if isinstance(source, RowsSource):
            return source.tuples() if source.names == self.rows.schema.names else None
        if self._known_types is None or source.rounded or not source.table.schema.equals(self._known_types):
            return None
        batches = source.table.to_batches()
        if len(batches) != 1:
            return None
        try:
            return list(zip(*[column.to_pylist() for column in batches[0].columns], strict=True))
        except (OverflowError, ValueError):  # dates and times that Python has no value for
            return None

    def _plan_any(self, parts: list[Part], *, quarantine: bool) -> Effect:
        events = self._events(parts)
        quarantined: list[Bad] = []
        while True:
            events = self._settled_upserts(events)
            effect, reasons = self._attempt(events)
            if not reasons:
                effect.quarantined = quarantined
                return effect
            if not quarantine:
                self._refuse(parts, events, reasons)
            quarantined += self._bad_rows(parts, events, reasons)
            events = events.kept(_without(events, reasons))

    def _events(self, parts: list[Part]) -> _Events:
        made = [self._part_events(i, part) for i, part in enumerate(parts)] or [_no_events(len(self.rows.schema))]
        starts = np.cumsum([0] + [len(events) for events in made])
        partner = [np.where(e.partner >= 0, e.partner + s, -1) for e, s in zip(made, starts, strict=False)]
        reasons = {row + int(s): r for e, s in zip(made, starts, strict=False) for row, r in e.reasons.items()}
        return _Events(
            np.concatenate([e.codes for e in made], axis=1),
            np.concatenate([e.sign for e in made]),
            np.concatenate([e.full for e in made]),
            np.concatenate(partner),
            np.concatenate([e.part for e in made]),
            np.concatenate([e.row for e in made]),
            reasons,
            np.concatenate([e.upsert for e in made]),
        )

    def _part_events(self, number: int, part: Part) -> _Events:
        schema, source = self.rows.schema, conform(part.source, self.rows.schema, self.declared)
        by_key = self._by_key_only(part)
        self._require_columns(part, by_key)
        table = source.table
        if by_key:
            for column in schema.columns:
                if column.name not in table.schema.names:
                    table = table.append_column(column.name, pa.nulls(table.num_rows))
        try:
            encoded = encode_table(
                schema,
                table,
                self.dictionary,
                textual=source.textual or self.declared,
                declared=self.declared,
                most_problems=None,
            )
        except SchemaError as error:
            raise SchemaError(f"{source.place.source}: {error}") from None
        if tuple(source.table.schema.names) == schema.names and not source.textual and not self.declared:
            self._known_types = source.table.schema
        reasons = {problem.row: Reason(str(problem), problem.without_value()) for problem in reversed(encoded.problems)}
        count, types = len(encoded), part.types
        sign = np.where((types == DELETE) | (types == BEFORE), -1, 1).astype(np.int8)
        return _Events(
            encoded.codes,
            sign,
            self._is_full(encoded.codes, types, by_key or part.by_key) | (sign > 0),
            part.partner,
            np.full(count, number),
            np.arange(count),
            reasons,
            types == UPSERT,
        )

    def _is_full(self, codes: Codes, types: npt.NDArray[np.int8], by_key: bool) -> npt.NDArray[np.bool_]:
        """Whether more than the key of each row is known; a delete that has nothing else names the row by key."""
        rest = np.setdiff1d(np.arange(len(codes)), self.rows.identity)
        if by_key or not len(rest):
            return np.full(len(types), not by_key)
        return np.asarray((types != DELETE) | (codes[rest] != NULL).any(axis=0))

    def _by_key_only(self, part: Part) -> bool:
        only_deletes = bool((part.types == DELETE).all())
        missing = set(self.rows.schema.names) - set(part.source.table.schema.names)
        return bool(self.rows.key) and only_deletes and bool(missing)

    def _require_columns(self, part: Part, by_key: bool) -> None:
        schema, names, place = self.rows.schema, part.source.table.schema.names, part.source.place.source
        wanted = self.rows.key if by_key else schema.names
        missing = [name for name in wanted if name not in names]
        if missing:
            raise SchemaError(f"{place}: column {shown(missing[0])} is missing")
        unknown = [name for name in names if name not in schema and name not in self.ignored]
        if part.source.shared:
            unknown = [name for name in unknown if part.source.table.column(name).null_count < len(part.types)]
        if unknown:
            raise SchemaError(f"{place}: {unknown_name('column', unknown[0], schema.names)}")

    def _settled_upserts(self, events: _Events) -> _Events:
        """Each upsert as an insert, after the departure of the row with its key, where there is one by then."""
        if not events.upsert.any() or events.reasons:
            return events
        if not self.rows.key:
            raise SchemaError(f"table {shown(self.name)} has no key, and its source does not say which rows change")
        key = self.rows.identity
        known = (events.codes[key] != NULL).all(axis=0)
        group, found = groups(events.codes, key), self.rows.find(events.codes) >= 0
        there: dict[int, bool] = {}
        before = []
        for i in np.flatnonzero(known).tolist():
            if events.upsert[i] and there.get(group[i], bool(found[i])):
                before.append(i)
            there[group[i]] = bool(events.sign[i] > 0)
        made = events.with_departures(np.array(before, np.int64)) if before else events
        made.upsert[:] = False
        return made

    def _attempt(self, events: _Events) -> tuple[Effect, Reasons]:
        """The net effect, and the reason for each event that stands in its way."""
        if events.reasons:
            return Effect(RowDelta.nothing(len(self.rows.schema))), events.reasons
        if self._only_inserts and (events.sign < 0).any():
            reasons = {int(i): _PROMISED for i in np.flatnonzero(events.sign < 0)}
            return Effect(RowDelta.nothing(len(self.rows.schema))), reasons
        if self.rows.key:
            return self._by_key(events)
        return self._by_value(events)

    def _by_key(self, events: _Events) -> tuple[Effect, Reasons]:
        """Alternating signs per key; the first and the last event of a key tell its net effect."""
        rows, key = self.rows, self.rows.identity
        reasons = {int(i): _NO_KEY for i in np.flatnonzero((events.codes[key] == NULL).any(axis=0))}
        if reasons or not len(events):
            return Effect(RowDelta.nothing(len(rows.schema))), reasons
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
            return Effect(RowDelta.nothing(len(rows.schema))), reasons
        was, stays = events.sign[first] < 0, events.sign[last] > 0
        inserted = last[~was & stays][np.argsort(first[~was & stays])]
        updated, new = ids[was & stays], events.codes[:, last[was & stays]]
        different = (rows.codes_of(updated) != new).any(axis=0)
        delta = RowDelta(
            ids[was & ~stays],
            updated[different],
            np.ascontiguousarray(new[:, different]),
            events.codes[:, inserted],
        )
        checked = was & events.full[first]
        return Effect(delta, self._drift(events, first[checked], ids[checked])), {}

    def _by_value(self, events: _Events) -> tuple[Effect, Reasons]:
        """Equal inserts and deletes cancel; what is left takes the youngest equal rows."""
        group = groups(events.codes, self.rows.identity)
        if (events.partner >= 0).any():
            taken, given = _follow_updates(events, group)
        else:
            taken, given = _count_signs(events, group)
        ids = self.rows.take(events.codes[:, taken])
        absent = taken[ids < 0]
        if len(absent):
            return Effect(RowDelta.nothing(len(self.rows.schema))), {
                int(i): self._absent(events, int(i)) for i in absent
            }
        moved = given[: len(taken)]
        fresh = np.sort(given[len(taken) :])
        updated = (moved >= 0) & (group[taken] != group[moved])
        delta = RowDelta(
            ids[moved < 0],
            ids[updated],
            events.codes[:, moved[updated]],
            np.ascontiguousarray(events.codes[:, fresh]),
        )
        return Effect(delta), {}

    def _drift(self, events: _Events, at: Index, ids: Index) -> list[Drift]:
        stored, expected = self.rows.codes_of(ids), events.codes[:, at]
        columns, places = np.nonzero(stored != expected)
        if not len(columns):
            return []
        here = decode_table(self.rows.schema, stored[:, places], self.dictionary)
        there = decode_table(self.rows.schema, expected[:, places], self.dictionary)
        return [
            Drift(
                self.name, self._shown_key(events, int(at[place])), name,
                there.column(name)[i].as_py(), here.column(name)[i].as_py(),
            )
            for i, (column, place) in enumerate(zip(columns, places, strict=True))
            for name in [self.rows.schema.names[column]]
        ]  # fmt: skip

    def _shown_key(self, events: _Events, event: int) -> str:
        """`id = 7`: the identity of an event's row in a message."""
        table = decode_table(self.rows.schema, events.codes[:, [event]], self.dictionary)
        names = self._identity()[:8]
        return ", ".join(f"{name} = {shown(table.column(name)[0].as_py())}" for name in names)

    def _identity(self) -> list[str]:
        return [self.rows.schema.names[i] for i in self.rows.identity]

    def _keyed(self, events: _Events, event: int, text: str) -> Reason:
        """A reason with the row's key (or its values) where `{}` stands."""
        plain = f"({', '.join(self._identity()[:8])})"
        return Reason(text.format(self._shown_key(events, event)), text.format(plain))

    def _repeats(self, events: _Events, event: int) -> Reason:
        verb = "inserts" if events.sign[event] > 0 else "deletes"
        return self._keyed(events, event, verb + " the key {} a second time")

    def _exists(self, events: _Events, event: int) -> Reason:
        return self._keyed(events, event, "inserts the key {}, which is already there")

    def _absent(self, events: _Events, event: int) -> Reason:
        verb = "updates" if events.partner[event] >= 0 else "deletes"
        return self._keyed(events, event, verb + " a row that is not there: {}")

    def _told(self, reason: Reason) -> str:
        """A reason for people. Where a column is masked it has no values: a bad row may have them in wrong columns."""
        return reason.plain if self._masked else reason.full

    def _refuse(self, parts: list[Part], events: _Events, reasons: Reasons) -> None:
        first = min(reasons)
        place = parts[events.part[first]].source.place.row(int(events.row[first]))
        more = f" (and {len(reasons) - 1} more such rows)" if len(reasons) > 1 else ""
        error = ValueRefused if events.reasons else ChangeRefused
        raise error(
            f"{place}{', ' if events.reasons else ': '}{self._told(reasons[first])}{more}; "
            f"the batch was refused as a whole"
        )

    def _bad_rows(self, parts: list[Part], events: _Events, reasons: Reasons) -> list[Bad]:
        made = []
        for event in np.flatnonzero(~_without(events, reasons)).tolist():
            part, row = parts[events.part[event]], int(events.row[event])
            values = part.source.table.slice(row, 1).to_pylist()[0]
            reason = reasons.get(event) or reasons[int(events.partner[event])].prefixed("its other half: ")
            kind = int(part.types[row])
            change_type = CHANGE_TYPES[kind] if kind < len(CHANGE_TYPES) else "upsert"
            place, text = part.source.place.row(row), self._told(reason)
            made.append(Bad(self.name, place, change_type, values, text, reason.plain))
        return made


def _no_events(width: int) -> _Events:
    none = np.zeros(0, np.int64)
    no = none.astype(bool)
    return _Events(np.zeros((width, 0), np.int64), none.astype(np.int8), no, none, none, none, {}, no)


def _without(events: _Events, reasons: Reasons) -> npt.NDArray[np.bool_]:
    """Which events remain when the bad ones and the other halves of bad updates are taken out."""
    keep = np.ones(len(events), dtype=bool)
    bad = np.fromiter(reasons, dtype=np.int64)
    keep[bad] = False
    partners = events.partner[bad]
    keep[partners[partners >= 0]] = False
    return keep


def _count_signs(events: _Events, group: Index) -> tuple[Index, Index]:
    """Events that take a row from the table, and what becomes of each (-1: deleted), then fresh inserts."""
    total = np.zeros(len(events), dtype=np.int64)
    np.add.at(total, group, events.sign)
    kept = []
    for sign in (-1, 1):
        mine = np.flatnonzero(events.sign == sign)
        rank = _rank_within(group[mine])
        kept.append(mine[rank < sign * total[group[mine]]])
    return kept[0], np.concatenate([np.full(len(kept[0]), -1), kept[1]])


def _rank_within(group: Index) -> Index:
    """For each place, how many earlier places have the same group."""
    order = np.argsort(group, kind="stable")
    sorted_group = group[order]
    starts = np.flatnonzero(np.diff(sorted_group, prepend=-1)) if len(group) else order
    rank = np.empty(len(group), dtype=np.int64)
    lengths = np.diff(np.append(starts, len(group)))
    rank[order] = np.arange(len(group)) - np.repeat(starts, lengths)
    return rank


def _follow_updates(events: _Events, group: Index) -> tuple[Index, Index]:
    """As `_count_signs`, where updates hand rows on: a row keeps its id through a chain of updates.

    Each value has a stack of rows in hand: an origin is the event that took the row from the table, or -1 for a
    row that this change inserted, with the event that gave it its present value.
    """
    hand: dict[int, list[tuple[int, int]]] = defaultdict(list)
    gone: list[int] = []
    for event, value in enumerate(group.tolist()):
        if events.sign[event] > 0 and events.partner[event] < 0:
            hand[value].append((-1, event))
        elif events.sign[event] < 0:
            origin, _ = hand[value].pop() if hand[value] else (event, event)
            after = int(events.partner[event])
            if after >= 0:
                hand[int(group[after])].append((origin, after))
            elif origin >= 0:
                gone.append(origin)
    return _settled(hand, gone, group)


def _settled(hand: dict[int, list[tuple[int, int]]], gone: list[int], group: Index) -> tuple[Index, Index]:
    deleted: dict[int, list[int]] = defaultdict(list)
    for event in gone:
        deleted[int(group[event])].append(event)
    moved: list[tuple[int, int]] = []
    fresh: list[int] = []
    for value, rows in hand.items():
        for origin, event in rows:
            if origin < 0 and deleted[value]:
                deleted[value].pop()  # an equal delete and insert cancel
            elif origin < 0:
                fresh.append(event)
            else:
                moved.append((origin, event))
    lost = [(event, -1) for events in deleted.values() for event in events]
    both = sorted(lost + moved)
    taken = np.array([origin for origin, _ in both], dtype=np.int64)
    return taken, np.array([event for _, event in both] + fresh, dtype=np.int64)
