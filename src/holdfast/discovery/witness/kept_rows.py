"""The rows in which partners are searched, kept from change to change."""

from __future__ import annotations

import numpy as np

from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.rules.masks import Numbers
from holdfast.table.compare import Form, derived, meeting
from holdfast.table.dictionary import Codes
from holdfast.table.keys import KeyMap
from holdfast.table.row_change import Ids

_MIN_ROOM = 16


class KeptRows:
    """Rows by place: the codes of all columns, followed by the operands that comparing different columns needs. Places
    only grow: an updated row gets a new one. Memory for a row: 8 bytes for each column or operand, and about 25."""

    def __init__(self, space: PredicateSpace) -> None:
        self.space = space
        self._derived: list[tuple[int, Form]] = []  # operands that are not codes as they are
        self.operands = [self._operands(c.left, c.right) for c in space.comparisons]  # columns of `values`
        self._clear(_MIN_ROOM)

    @classmethod
    def of(cls, space: PredicateSpace, ids: Ids, codes: Codes) -> KeptRows:
        """The rows of a table. They are not copied before they change, unless operands have to be derived."""
        rows = cls(space)
        operands = [derived(space.schema.columns[column], codes[column], form) for column, form in rows._derived]
        rows.values = np.concatenate([codes, operands]) if operands else np.ascontiguousarray(codes)
        rows._ids, rows.is_live = ids.reshape(1, -1), np.ones(len(ids), np.bool_)
        rows.used = rows._live = len(ids)
        return rows

    def _operands(self, left: int, right: int) -> tuple[int, int]:
        """The columns of `values` that a comparison looks at."""
        columns = self.space.schema.columns
        forms = (None, None) if left == right else meeting(columns[left], columns[right])
        places = []
        for column, form in zip((left, right), forms, strict=True):
            if form is not None and (column, form) not in self._derived:
                self._derived.append((column, form))
            places.append(column if form is None else len(columns) + self._derived.index((column, form)))
        return places[0], places[1]

    def _clear(self, room: int) -> None:
        columns = len(self.space.schema) + len(self._derived)
        self.values, self._ids = np.zeros((columns, room), np.int64), np.zeros((1, room), np.int64)
        self.is_live = np.zeros(room, np.bool_)
        self.used = self._live = 0
        self._by_id: KeyMap | None = None

    def __len__(self) -> int:
        return self._live

    @property
    def is_sparse(self) -> bool:
        """Whether most places are of rows that are gone."""
        return self.used > 2 * self._live + 64

    @property
    def _place_of(self) -> KeyMap:
        """The places by row id. O(rows) when first asked."""
        if self._by_id is None:
            self._by_id = KeyMap(np.array([0]))
            self._by_id.add(self._ids, self.live())
        return self._by_id

    def live(self) -> Numbers:
        """The places of all rows. O(places)."""
        return np.flatnonzero(self.is_live[: self.used])

    def ids(self, places: Numbers) -> Ids:
        ids: Ids = self._ids[0][places]
        return ids

    def codes(self, places: Numbers) -> Codes:
        return self.values[: len(self.space.schema), places]

    def add(self, ids: Ids, codes: Codes) -> Numbers:
        """Adds rows and returns their places. O(rows added), amortised."""
        known = self._place_of
        first, self.used = self.used, self.used + len(ids)
        self._live += len(ids)
        self._reserve(self.used)
        places, columns = np.arange(first, self.used), len(self.space.schema)
        self.values[:columns, first : self.used] = codes
        for place, (column, form) in enumerate(self._derived, columns):
            self.values[place, first : self.used] = derived(self.space.schema.columns[column], codes[column], form)
        self._ids[0, first : self.used], self.is_live[first : self.used] = ids, True
        known.add(self._ids, places)
        return places

    def remove(self, ids: Ids) -> None:
        """Removes rows. Their places stay, without a live row. O(rows removed)."""
        places = self._place_of.find(self._ids, ids.reshape(1, -1))
        assert (places >= 0).all(), "a row was removed that had not been added"
        self._place_of.remove(self._ids, places)
        self.is_live[places] = False
        self._live -= len(ids)

    def compact(self) -> None:
        """Gives the rows new places, without gaps. O(rows)."""
        places = self.live()
        ids, codes = self.ids(places), self.codes(places)
        self._clear(max(_MIN_ROOM, len(ids)))
        self.add(ids, codes)

    def _reserve(self, places: int) -> None:
        room = len(self.is_live)
        if places > room:
            more = max(places, room * 3 // 2) - room
            self.values = np.pad(self.values, ((0, 0), (0, more)))
            self._ids = np.pad(self._ids, ((0, 0), (0, more)))
            self.is_live = np.pad(self.is_live, (0, more))
