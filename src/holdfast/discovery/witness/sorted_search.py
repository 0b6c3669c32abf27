"""Witness search in rows that are kept sorted between changes.

Asked for pairs with an inserted row, it takes time that follows the change and not the table.
"""

from __future__ import annotations

from collections import deque
from copy import copy

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.witness.clashes import SWEPT
from holdfast.discovery.witness.kept_rows import KeptRows
from holdfast.discovery.witness.orders import MEMORY, Orders
from holdfast.discovery.witness.parts import Sampled, chosen_parts
from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.discovery.witness.search import Witnesses
from holdfast.rules.masks import Masks, Numbers, none
from holdfast.rules.operator import Op
from holdfast.table.dictionary import Codes
from holdfast.table.row_change import Ids, RowChange

COMPARED = 500  # inserted rows: comparing them with all rows takes as long as sorting all rows for a search
FEW = 16  # inserted rows that are always compared with all rows: they are too few to say which order suits
_SAMPLED = 1 << 15  # pairs that say which parts are rare
_PARTNERS = 16  # of a row, on average: with more, the claims of a part are asked one by one
_LEAST_PAIRS, _MOST_PAIRS = 1 << 14, 1 << 17  # of a part: some milliseconds; too many to be looked at
_VISITS = {True: 40, False: 400}  # for a row of the table, at most: in pairs with an inserted row, and in all pairs
_MANY_PASSES = 16  # times as many, if passes over all rows would have to be many


class SortedSearch:
    """Rows of a table, and which claims their pairs refute. `change` follows the table."""

    def __init__(self, space: PredicateSpace, ids: Ids, codes: Codes, lead: int = 0, memory: int = MEMORY) -> None:
        """The first `lead` rows are the inserted ones."""
        self._space, self._rows = space, KeptRows.of(space, ids, codes)
        self._orders = Orders(self._rows, lead, memory)
        self._parts = dict.fromkeys((True, False), none(len(space.atoms)))  # by whether a row is inserted
        self._common = dict(self._parts)  # parts that too many pairs satisfy
        self._answers: dict[tuple[bytes, bool], Numbers | None] = {}

    @property
    def in_words(self) -> str:
        orders = self._orders
        return f"rows sorted in {len(orders)} ways, {orders.nbytes / 1e6:,.0f} MB"

    def change(self, change: RowChange) -> None:
        """Removes and adds rows. O(rows of the change), amortised."""
        self._orders.change(change)
        self._answers = {}

    @property
    def changes(self) -> int:
        """The number of the last change."""
        return self._orders.changes

    def since(self, change: int) -> SortedSearch:
        """The same rows; all that were inserted with this change or later count as inserted."""
        recent = copy(self)
        recent._orders, recent._answers = self._orders.since(change), {}
        recent._parts, recent._common = dict(self._parts), dict(self._common)
        return recent

    def search(self, claims: Masks, budget: Budget, *, new: bool = False) -> Witnesses:
        """Pairs of all rows or, with `new`, those with an inserted row. Claims for which passes over all rows are
        faster are not settled."""
        if len(self._rows) < 2 or (new and not len(self._orders.new)):
            return Witnesses.nothing(self._space)._replace(settled=claims)
        claims = claims if new else claims[np.array([self._needs_many_passes(claim) for claim in claims], np.bool_)]
        if not len(claims):
            return Witnesses.nothing(self._space)
        self._parts[new] = self._needed_parts(claims, new)
        found, settled = Witnesses.nothing(self._space), np.ones(len(claims), np.bool_)
        waiting, parts = np.ones(len(claims), np.bool_), deque(self._parts[new])
        while parts:
            part = parts.popleft()
            mine = np.flatnonzero(waiting & ((claims & part) == part).all(axis=1))
            budget.report("searching pairs of rows", 1 - waiting.sum() / len(claims))
            if budget.spent():
                settled[waiting] = False
                break
            if not len(mine):
                continue
            waiting[mine] = False
            pairs = self._answer(part, new)
            if pairs is not None and len(pairs) <= self._most_pairs(new):
                found = found.joined(self._satisfying(pairs, claims[mine]))
                continue
            if pairs is None:  # then also for claims that one pass answers
                settled[[i for i in mine if not self._needs_many_passes(claims[i])]] = False
                mine = mine[settled[mine]]
            is_part = (claims[mine] == part).all(axis=1)
            if not is_part.all():
                waiting[mine[~is_part]] = True
                parts.extendleft(self._finer(part, claims[mine[~is_part]], new))
            for i in mine[is_part]:
                pairs = self._found(claims[i], 1, new)
                settled[i] = pairs is not None
                if pairs is not None:
                    found = found.joined(self._satisfying(pairs, claims[i : i + 1]))
        return found._replace(settled=claims[settled])

    def _finer(self, part: Masks, claims: Masks, new: bool) -> Masks:
        """Parts of claims that are asked from now on instead of a part that too many pairs satisfy."""
        self._common[new] = np.concatenate([self._common[new], part[None, :]])
        finer = chosen_parts(self._space, claims, self._sampled(new), self._common[new])
        others = (self._parts[new] != part).any(axis=1)
        self._parts[new] = np.concatenate([self._parts[new][others], finer])
        return finer

    def _needs_many_passes(self, claim: Masks) -> bool:
        return sum(op is not Op.EQ for _, op in self._space.terms(claim)) > SWEPT

    def _satisfying(self, pairs: Numbers, claims: Masks) -> Witnesses:
        """Those of the pairs of places that satisfy a claim, turned so that they do."""
        both = np.concatenate([pairs, pairs[:, ::-1]])
        return Witnesses(self._clues(pairs), self._rows.ids(both), claims[:0]).satisfying(self._space, claims)

    def _needed_parts(self, claims: Masks, new: bool) -> Masks:
        """The parts of before that still serve, and new ones for claims that contain none."""
        parts = self._parts[new]
        contains = np.array([((claims & part) == part).all(axis=1) for part in parts], np.bool_)
        contains = contains.reshape(len(parts), len(claims))
        kept, rest = parts[contains.any(axis=1)], claims[~contains.any(axis=0)]
        if not len(rest):
            return kept
        return np.concatenate([kept, chosen_parts(self._space, rest, self._sampled(new), self._common[new])])

    def _sampled(self, new: bool) -> list[Sampled]:
        """Samples of pairs. Inserted rows are also paired with each other: rows that come together have more in
        common."""
        rng, sample = np.random.default_rng(0), self._orders.sample()
        rows, samples = self._orders.new if new else sample, []
        for partners, count in ((sample, len(self._rows)), *([(rows, len(rows))] if new else [])):
            pairs = np.stack([rng.choice(rows, _SAMPLED // 2), rng.choice(partners, _SAMPLED // 2)], axis=1)
            lacked = self._space.lacks(self._clues(pairs[pairs[:, 0] != pairs[:, 1]]))
            samples.append(Sampled(lacked, count / len(pairs)))
        return samples

    def _clues(self, pairs: Numbers) -> Masks:
        """The clues of pairs of places, followed by those of the pairs turned around."""
        clues = self._space.clues(self._rows.codes(pairs.ravel()), np.arange(2 * len(pairs)).reshape(-1, 2))
        return self._space.both_ways(clues)

    def _most_pairs(self, new: bool) -> int:
        rows = len(self._orders.new) if new else len(self._rows)
        return min(_MOST_PAIRS, max(_LEAST_PAIRS, _PARTNERS * rows))

    def _answer(self, part: Masks, new: bool) -> Numbers | None:
        """All pairs (t, s) that satisfy a part, or as many as show that they are too many; None if finding them takes
        too long."""
        key = part.tobytes(), new
        if key not in self._answers:
            self._answers[key] = self._found(part, self._most_pairs(new) + 1, new)
        return self._answers[key]

    def _found(self, conjunction: Masks, most: int, new: bool) -> Numbers | None:
        """At most `most` pairs; None if finding them takes too long. Inserted rows are asked for as t and as s, unless
        these mean the same."""
        is_symmetric = (self._space.mirrored_atoms(conjunction[None, :])[0] == conjunction).all()
        found, limit = np.zeros((0, 2), np.int64), _VISITS[new] * max(1, len(self._rows))
        limit *= _MANY_PASSES if self._needs_many_passes(conjunction) else 1
        for as_t in (True, False) if new and not is_symmetric else (True,):
            if len(found) < most:
                pairs = self._orders.find(conjunction, most - len(found), limit, new=new, as_t=as_t)
                if pairs is None:
                    return None
                found = np.concatenate([found, pairs])
        return found


def in_words(kept: SortedSearch | None, by_passes: int) -> str:
    """How the last change was searched: `, rows sorted in 3 ways, 12 MB; 2 claims by passes over all rows`."""
    sorted_rows = f", {kept.in_words}" if kept is not None else ""
    return sorted_rows + (f"; {by_passes:,} claims by passes over all rows" if by_passes else "")
