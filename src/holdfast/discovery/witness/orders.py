"""The orders in which kept rows are sorted, and which of them answers a question about pairs of rows.

Which order suits a question is measured in a sample of the rows. (IncPOD and IncDC choose indexes by the operators of a
rule and by the selectivity of its columns; any order answers any question here, so they can be compared.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from itertools import permutations
from typing import NamedTuple

import numpy as np

from holdfast.discovery.witness.clashes import OPS
from holdfast.discovery.witness.kept_rows import KeptRows
from holdfast.discovery.witness.sorted_rows import SortedRows
from holdfast.kernels import bounds
from holdfast.kernels.bounds import Question
from holdfast.rules.masks import Masks, Numbers
from holdfast.rules.operator import Op
from holdfast.table.row_change import RowChange

MEMORY = 1 << 30  # bytes of sorted rows, at most
_SAMPLED = 1 << 14  # rows in which orders are tried
_SMALLER = 4  # times as few rows, to see how the visits grow
_TRIED, _VISITS_TRIED = 128, 2_000  # rows whose partners are searched there, and visits for each, at most
_BUILDING, _BATCHES = 40, 20  # visits that take as long as sorting a row; changes in which an order has to pay for that
_MISJUDGED = 4.0  # times as many visits as expected, for the order of a question to be chosen again
Order = tuple[int, ...]
Asked = tuple[bytes, bool]  # a conjunction, and whether the rows are asked for as t


class Placed(NamedTuple):
    """A question, the orders in which rows and their partners are searched, and the visits that a row should take."""

    question: Question
    mine: Order
    theirs: Order
    expected: float


class Orders:
    """Sorts rows as questions need it. `find` looks at pairs of an inserted and any row, or at all pairs."""

    def __init__(self, rows: KeptRows, lead: int, memory: int = MEMORY) -> None:
        """The first `lead` rows are the inserted ones."""
        self.rows, self._memory = rows, memory
        self._sorted: dict[Order, SortedRows] = {}
        self._placed: dict[Asked, Placed] = {}
        self._measured: dict[Asked, dict[Order, float]] = {}  # visits that a row took
        self._last_used: dict[Order, int] = {}  # the number of a change
        self._starts = [0]  # the place of the first row of each change
        self._begin(np.arange(lead))

    def _begin(self, new: Numbers) -> None:
        self.new = new
        self._new_sorted: dict[Order, Numbers] = {}
        self._tried: dict[Order, list[SortedRows]] = {}  # in samples that have some of the inserted rows
        self._samples: list[Numbers] = []

    def __len__(self) -> int:
        return len(self._sorted)

    @property
    def changes(self) -> int:
        """The number of the last change."""
        return len(self._starts) - 1

    def since(self, change: int) -> Orders:
        """The same orders; all rows that were inserted with this change or later count as inserted."""
        recent, live = copy(self), self.rows.live()
        recent._begin(live[np.searchsorted(live, self._starts[change]) :])
        return recent

    @property
    def nbytes(self) -> int:
        return sum(order.nbytes for order in self._sorted.values())

    def change(self, change: RowChange) -> None:
        """Removes and adds rows, and forgets orders that no question needed for a while. O(rows of the change),
        amortised."""
        self.rows.remove(change.removed)
        self._starts.append(self.rows.used)
        new = self.rows.add(change.added, change.added_codes)
        idle = [order for order, last in self._last_used.items() if self.changes - last > _BATCHES]
        for order in idle:
            del self._sorted[order], self._last_used[order]
        self._placed = {key: placed for key, placed in self._placed.items() if placed.theirs not in idle}
        if self.rows.is_sparse:
            self._starts = np.searchsorted(self.rows.live(), self._starts).tolist()
            self.rows.compact()
            new = np.arange(self.rows.used - len(new), self.rows.used)
            self._sorted, self._last_used = {}, {}
        for rows in self._sorted.values():
            rows.add(new)
        self._begin(new)

    def find(self, conjunction: Masks, most: int, most_visits: int, *, new: bool, as_t: bool) -> Numbers | None:
        """At most `most` pairs (t, s) of places that satisfy a conjunction; None if that takes more visits. With `new`,
        one of the rows is inserted, t or s."""
        key = conjunction.tobytes(), as_t
        placed = self._placed.get(key) or self._place(self._question(conjunction, as_t), new, {})
        pairs, visits = self._visited(placed, most, most_visits, new)
        taken = visits / max(1, len(self.new) if new else len(self.rows))
        if visits > most_visits or taken > _MISJUDGED * max(1.0, placed.expected):
            measured = self._measured.setdefault(key, {})
            measured[placed.theirs] = float("inf") if visits > most_visits else taken
            again = self._place(placed.question, new, measured)
            if visits > most_visits and again.theirs != placed.theirs:
                pairs, visits = self._visited(again, most, most_visits, new)
            placed = again
        self._placed[key] = placed
        if visits > most_visits:
            return None
        return pairs if as_t else pairs[:, ::-1]

    def _visited(self, placed: Placed, most: int, most_visits: int, new: bool) -> tuple[Numbers, int]:
        question, mine, theirs, _ = placed
        if new:
            return self._kept(theirs).partners(self._new_by(theirs), question, most, most_visits)
        return self._kept(mine).pairs(self._kept(theirs), question, most, most_visits)

    def _kept(self, order: Order) -> SortedRows:
        """All rows in an order, which is kept."""
        if order not in self._sorted:
            self._sorted[order] = SortedRows(self.rows, order, self.rows.live())
        self._last_used[order] = self.changes
        return self._sorted[order]

    def _new_by(self, order: Order) -> Numbers:
        """The inserted rows in an order: neighbours look at the same blocks."""
        if order not in self._new_sorted:
            self._new_sorted[order] = self._sorted[order].sorted(self.new)
        return self._new_sorted[order]

    # --- questions ------------------------------------------------------------------------------------------

    def _question(self, conjunction: Masks, as_t: bool) -> Question:
        """A conjunction as a question about rows, as t or as s, and their partners."""
        compared = []
        for i, op in self.rows.space.terms(conjunction):
            left, right = self.rows.operands[i]
            ours, theirs, our_op = (left, right, op) if as_t else (right, left, op.mirror)
            compared.append((ours, theirs, OPS[our_op], self._null_mode(op)))
        return Question(*np.array(compared, np.int64).reshape(-1, 4).T.copy())

    def _null_mode(self, op: Op) -> int:
        nulls = self.rows.space.nulls
        if nulls == "equal":
            return bounds.VALUE if op in (Op.EQ, Op.NE) else bounds.APART
        return bounds.DIFFERS if op is Op.NE and nulls == "distinct" else bounds.NEVER

    # --- which order ----------------------------------------------------------------------------------------

    def _place(self, question: Question, new: bool, measured: Mapping[Order, float]) -> Placed:
        """The question with the order that answers it with the fewest visits, as `measured` or else as expected. An
        order that is there already is preferred, unless a new one pays for being built."""
        there = [order for order in self._sorted if order[0] in question.theirs]
        visits = {order: self._visits(order, question, new) for order in (*there, *self._candidates(question))}
        visits |= {order: taken for order, taken in measured.items() if order in visits}
        best = min(visits, key=lambda order: (visits[order], order))
        cheapest = min(there, key=lambda order: (visits[order], order), default=best)
        asked = _BATCHES * len(self.new) if new else len(self.rows)
        pays = best != cheapest and (visits[cheapest] - visits[best]) * asked > _BUILDING * len(self.rows)
        order = best if pays and self.nbytes <= self._memory else cheapest
        first = np.argsort([order.index(c) if c in order else len(order) for c in question.theirs], kind="stable")
        ordered = Question(*(column[first] for column in question))
        return Placed(ordered, _ours(order, question), order, visits[order])

    def _candidates(self, question: Question) -> Iterator[Order]:
        """Orders by the columns of equalities, most values first, and then by up to two others."""
        is_equal = question.ops == OPS[Op.EQ]
        equal = sorted(set(question.theirs[is_equal].tolist()), key=lambda c: (-self._values(c), c))
        others = sorted(set(question.theirs[~is_equal].tolist()) - set(equal))
        for size in range(min(1, len(others)), min(2, len(others)) + 1):
            for some in permutations(others, size):
                yield (*equal, *some)

    def _values(self, column: int) -> int:
        """The number of values of a column, in the sample."""
        return len(np.unique(self.rows.values[column][self.sample()]))

    def sample(self) -> Numbers:
        """Places of some rows, evenly spaced."""
        if not self._samples:
            places = np.linspace(0, self.rows.used - 1, min(self.rows.used, 2 * _SAMPLED)).astype(np.int64)
            places = places[self.rows.is_live[places]]
            sample = places[:: max(1, len(places) // _SAMPLED)]
            self._samples = [sample[::_SMALLER], sample]
        return self._samples[1]

    def _visits(self, order: Order, question: Question, new: bool) -> float:
        """Visits for a row, estimated: how they grow from a small sample of partners to a larger one says how many
        there are among all. Infinite if even the sample takes too many."""
        if order not in self._tried:
            self.sample()
            self._tried[order] = [SortedRows(self.rows, order, sample) for sample in self._samples]
        asked = self.new if new else self.sample()
        some = asked[:: max(1, len(asked) // _TRIED)][:_TRIED]
        limits = len(some), _VISITS_TRIED * len(some)
        few, many = (partners.partners(some, question, *limits)[1] for partners in self._tried[order])
        if many > limits[1]:
            return float("inf")
        growth = max(0.0, np.log(max(1, many) / max(1, few)) / np.log(_SMALLER))
        return float(many / max(1, len(some)) * (len(self.rows) / len(self.sample())) ** growth)


def _ours(order: Order, question: Question) -> Order:
    """The order of rows that matches an order of their partners."""
    compared = dict(zip(question.theirs.tolist(), question.ours.tolist(), strict=True))
    return tuple(compared.get(column, column) for column in order)
