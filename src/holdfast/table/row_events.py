"""Signed row events: the rows of a change as codes, in order. An insert is +, a delete -, an update - then +."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.arrays import Flags, Positions
from holdfast.errors import SchemaError, shown
from holdfast.table.change import BEFORE, DELETE, UPSERT, Part
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.effect import Reason, Reasons
from holdfast.table.encode import Encoded, Problem, encode_table
from holdfast.table.fast_rows import MAX_FAST_ROWS, FewRows
from holdfast.table.read import conform
from holdfast.table.rows import Rows
from holdfast.table.schema import unknown_name
from holdfast.table.source import RowsSource, Source


@dataclass
class RowEvents:
    """Signed rows as codes, in the order in which they apply."""

    codes: Codes
    sign: npt.NDArray[np.int8]
    full: Flags  # all columns are given, not only the key
    partner: Positions  # the other event of the same update, or -1
    part: Positions  # the part of the change that an event comes from
    row: Positions  # its row in that part
    reasons: Reasons
    upsert: Flags  # inserts a row, or replaces the row with the same key

    def __len__(self) -> int:
        return len(self.sign)

    @classmethod
    def none(cls, width: int) -> RowEvents:
        index = np.zeros(0, np.int64)
        flags = index.astype(bool)
        return cls(np.zeros((width, 0), np.int64), index.astype(np.int8), flags, index, index, index, {}, flags)

    @classmethod
    def joined(cls, events: Sequence[RowEvents]) -> RowEvents:
        """The events of several parts as one sequence."""
        starts = np.cumsum([0] + [len(e) for e in events[:-1]]).tolist()
        shifted = list(zip(events, starts, strict=True))
        return cls(
            np.concatenate([e.codes for e in events], axis=1),
            np.concatenate([e.sign for e in events]),
            np.concatenate([e.full for e in events]),
            np.concatenate([np.where(e.partner >= 0, e.partner + start, -1) for e, start in shifted]),
            np.concatenate([e.part for e in events]),
            np.concatenate([e.row for e in events]),
            {event + start: reason for e, start in shifted for event, reason in e.reasons.items()},
            np.concatenate([e.upsert for e in events]),
        )

    def chosen(self, keep: Flags) -> RowEvents:
        """The kept events, without reasons."""
        position = np.cumsum(keep) - 1
        partner = np.where(self.partner[keep] >= 0, position[self.partner[keep]], -1)
        return RowEvents(
            self.codes[:, keep],
            self.sign[keep],
            self.full[keep],
            partner,
            self.part[keep],
            self.row[keep],
            {},
            self.upsert[keep],
        )

    def are_good(self, bad: Collection[int]) -> Flags:
        """Which events remain without the bad ones and the other halves of bad updates."""
        keep = np.ones(len(self), dtype=bool)
        index = np.fromiter(bad, dtype=np.int64)
        keep[index] = False
        partners = self.partner[index]
        keep[partners[partners >= 0]] = False
        return keep

    def with_deletes_before(self, upserts: Positions) -> RowEvents:
        """The events with a delete of the replaced row before each of these upserts."""
        order = np.sort(np.concatenate([np.arange(len(self)), upserts]), kind="stable")
        is_delete = np.zeros(len(order), bool)
        is_delete[np.searchsorted(order, upserts, side="left")] = True
        position = np.flatnonzero(~is_delete)
        partner = self.partner[order]
        partner = np.where(is_delete | (partner < 0), -1, position[np.maximum(partner, 0)])
        return RowEvents(
            self.codes[:, order],
            np.where(is_delete, -1, self.sign[order]).astype(np.int8),
            self.full[order] & ~is_delete,
            partner,
            self.part[order],
            self.row[order],
            {},
            self.upsert[order] & ~is_delete,
        )


class EventEncoder:
    """Encodes the parts of a change of one table as row events.

    `declared` columns are cast to their kind; `ignored` ones are skipped.
    """

    def __init__(
        self, rows: Rows, dictionary: TextDictionary, declared: Sequence[str] = (), ignored: Sequence[str] = ()
    ) -> None:
        self._schema, self._key, self._identity = rows.schema, rows.key, rows.identity
        self._dictionary, self._declared, self._ignored = dictionary, declared, frozenset(ignored)
        self._few = FewRows(rows.schema, dictionary)
        self._known_types: pa.Schema | None = None  # the Arrow types of the last input that needed no cast

    def encode_few(self, part: Part) -> Codes | None:
        """The codes of a few inserted rows of plain values; None if the part needs the general path."""
        if part.all_of != "insert" or not 0 < part.count <= MAX_FAST_ROWS:
            return None
        rows = self._plain_rows(part.source)
        return self._few.encode(rows) if rows is not None else None

    def _plain_rows(self, source: Source) -> Sequence[tuple[object, ...]] | None:
        """The rows as tuples, if the source has exactly the columns and types of earlier input."""
        if isinstance(source, RowsSource):
            return source.tuples() if source.names == self._schema.names else None
        if self._known_types is None or source.rounded or not source.table.schema.equals(self._known_types):
            return None
        batches = source.table.to_batches()
        if len(batches) != 1:
            return None
        try:
            return list(zip(*[column.to_pylist() for column in batches[0].columns], strict=True))
        except (OverflowError, ValueError):  # a date or time beyond Python's range
            return None

    def encode(self, parts: Sequence[Part]) -> RowEvents:
        """All rows of all parts. O(rows x columns)."""
        events = [self._encode_part(i, part) for i, part in enumerate(parts)]
        return RowEvents.joined(events or [RowEvents.none(len(self._schema))])

    def _encode_part(self, number: int, part: Part) -> RowEvents:
        source = conform(part.source, self._schema, self._declared)
        only_keys = self._has_only_keys(part)
        self._require_columns(part, only_keys)
        encoded = self._encoded(source, only_keys)
        if tuple(source.table.schema.names) == self._schema.names and not source.textual and not self._declared:
            self._known_types = source.table.schema
        problems = [_as_written(problem, part.source) for problem in reversed(encoded.problems)]
        reasons = {problem.row: Reason(str(problem), problem.without_value()) for problem in problems}
        count, types = len(encoded), part.types
        sign = np.where((types == DELETE) | (types == BEFORE), -1, 1).astype(np.int8)
        full = self._are_full(encoded.codes, types, only_keys or part.by_key) | (sign > 0)
        origin = np.full(count, number)
        return RowEvents(encoded.codes, sign, full, part.partner, origin, np.arange(count), reasons, types == UPSERT)

    def _encoded(self, source: Source, only_keys: bool) -> Encoded:
        table = source.table
        if only_keys:
            for column in self._schema.columns:
                if column.name not in table.schema.names:
                    table = table.append_column(column.name, pa.nulls(table.num_rows))
        try:
            return encode_table(
                self._schema,
                table,
                self._dictionary,
                textual=source.textual or self._declared,
                declared=self._declared,
                max_problems=None,
            )
        except SchemaError as error:
            raise SchemaError(f"{source.place.source}: {error}") from None

    def _are_full(self, codes: Codes, types: npt.NDArray[np.int8], only_keys: bool) -> Flags:
        """Which rows give more than their key. A delete whose other columns are all null gives its key only."""
        others = np.setdiff1d(np.arange(len(codes)), self._identity)
        if only_keys or not len(others):
            return np.full(len(types), not only_keys)
        return np.asarray((types != DELETE) | (codes[others] != NULL).any(axis=0))

    def _has_only_keys(self, part: Part) -> bool:
        """Whether a part consists of deletes that lack columns, so that they name rows by key."""
        only_deletes = bool((part.types == DELETE).all())
        missing = set(self._schema.names) - set(part.source.table.schema.names)
        return bool(self._key) and only_deletes and bool(missing)

    def _require_columns(self, part: Part, only_keys: bool) -> None:
        names, place = part.source.table.schema.names, part.source.place.source
        required = self._key if only_keys else self._schema.names
        missing = [name for name in required if name not in names]
        if missing:
            raise SchemaError(f"{place}: column {shown(missing[0])} is missing")
        unknown = [name for name in names if name not in self._schema and name not in self._ignored]
        if part.source.shared:
            unknown = [name for name in unknown if part.source.table.column(name).null_count < len(part.types)]
        if unknown:
            raise SchemaError(f"{place}: {unknown_name('column', unknown[0], self._schema.names)}")


def _as_written(problem: Problem, source: Source) -> Problem:
    """The problem with the cell as it is written in the file, if cells were put into plain form."""
    if source.written is None or problem.column not in source.written.column_names:
        return problem
    return replace(problem, value=source.written.column(problem.column)[problem.row].as_py())
