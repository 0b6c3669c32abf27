"""Finds what identifies the rows of a table: its credible keys, the likeliest primary key first.

A key of one column is weak evidence in a small table: measurements and free texts often differ in all rows. A key of
several columns is credible only if rows would often share its values had each column nothing to do with the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from holdfast.ranking.column_names import names_a_key
from holdfast.ranking.credible import MAX_EXCEPTIONS, Credible
from holdfast.ranking.table_view import TableView
from holdfast.rules.rule import Key
from holdfast.rules.wording import counted
from holdfast.table.kind import Kind

_MOST_ALONE, _MOST_TOGETHER = 4, 3  # keys of one column, and of several, that are shown
_EXPECTED = 30.0  # pairs of rows that would share the values of a key by chance
_NATURAL = 0.3  # the same for each row, where one column is a key: then a key of several must be a natural one


class Identifiers:
    """The credible keys of a table. `keys`: the minimal keys that hold, of several columns too."""

    def __init__(
        self, view: TableView, keys: Iterable[frozenset[str]], most_exceptions: float = MAX_EXCEPTIONS
    ) -> None:
        self._view, self._most_exceptions = view, most_exceptions
        together = {tuple(sorted(view.schema.positions(key))) for key in keys if len(key) > 1}
        self._together = sorted(together or self._widest())

    def _widest(self) -> set[tuple[int, ...]]:
        """A key of many columns, if all columns together are one: in a complete design, all but the outcome."""
        columns = [c for c in range(len(self._view)) if self._view.distinct[c] > 1 and not self._view.is_measurement(c)]
        if len(columns) < 2 or self._view.error(columns, None):
            return set()
        for column in reversed(columns[:]):
            rest = [c for c in columns if c != column]
            if rest and not self._view.error(rest, None):
                columns = rest
        return {tuple(columns)} if len(columns) > 1 else set()

    def rules(self) -> list[Credible]:
        alone = sorted(self._alone(), key=lambda f: -f.score)
        exact = [f for f in alone if not f.error]
        chosen = (exact or alone[:1])[:_MOST_ALONE]
        together = sorted(self._of_several(_NATURAL if exact else 0.0), key=lambda f: -f.score)
        return sorted([*chosen, *together[: 1 if exact else _MOST_TOGETHER]], key=lambda one: -one.score)

    def _alone(self) -> Iterator[Credible]:
        """Columns in which all rows, or nearly all, differ."""
        view = self._view
        for column in range(len(view)):
            if view.distinct[column] < (1 - self._most_exceptions) * view.searched or view.rows < 2:
                continue
            if view.is_measurement(column) or view.has_empty(column) or view.is_copy(column):
                continue
            error = view.error([column], None)
            if error > self._most_exceptions:
                continue
            score, reasons = self._credibility(column)
            if error:
                reasons.append(f"{counted(round(error * view.rows), 'row')} of {view.rows:,} repeat a value")
            if score > 0:
                yield Credible(Key(frozenset({view.name(column)})), round(score, 3), error, tuple(reasons))

    def _credibility(self, column: int) -> tuple[float, list[str]]:
        """From 0 to 1, with reasons."""
        view = self._view
        kind, score, reasons = view.schema.columns[column].kind, 0.7, ["all rows have a value here"]
        if names_a_key(view.name(column)):
            score, reasons = 0.95, [*reasons, "the name looks like that of a key"]
        elif (kind is Kind.INTEGER and self._is_accidental(column)) or kind is Kind.FLOAT or kind is Kind.DECIMAL:
            return 0.0, reasons
        return score - 0.1 * column / len(view), reasons

    def _is_accidental(self, column: int) -> bool:
        """Whether random numbers of this range would also differ in all rows."""
        codes = self._view.codes[column]
        width = float(codes.max()) - float(codes.min()) + 1
        expected = len(codes) * (len(codes) - 1) / 2 / width
        return expected < _EXPECTED / 10 and width > 2 * len(codes)

    def _of_several(self, for_each_row: float) -> Iterator[Credible]:
        """Keys of several columns. `for_each_row`: pairs of rows for each row that would agree by chance."""
        for columns in self._together:
            if any(self._view.is_measurement(c) or self._view.is_copy(c) for c in columns):
                continue
            expected, least = self._expected(columns), max(_EXPECTED, for_each_row * self._view.searched)
            if expected < least or any(map(self._view.has_empty, columns)):
                continue
            error = self._view.error(columns, None)
            if error > self._most_exceptions:
                continue
            named = float(np.mean([names_a_key(self._view.name(c)) for c in columns]))
            score = (0.75 - 0.03 * (len(columns) - 2)) * (0.85 + 0.15 * named)
            score -= 0.05 * float(np.mean(columns)) / len(self._view)
            reasons = [f"with columns unrelated to each other, about {expected:,.0f} pairs of rows would agree"]
            if error:
                reasons.append(f"{counted(round(error * self._view.rows), 'row')} repeat the values of others")
            yield Credible(Key(frozenset(map(self._view.name, columns))), round(score, 3), error, tuple(reasons))

    def _expected(self, columns: tuple[int, ...]) -> float:
        """How many pairs of rows would agree on all columns if each column were unrelated to the others together."""
        expected = []
        for column in columns:
            rest = self._view.left_side([c for c in columns if c != column], [column])
            expected.append(rest.agreeing * float(rest.alike[column]))
        return min(expected)
