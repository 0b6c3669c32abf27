"""Agree-sets of tables with too many rows to compare all pairs: some sets, each with a live pair as its witness.

The sets suffice if every rule that they do not refute holds. From nothing: sample pairs, derive the rules, validate
them, and add the pairs that refute one, until none is refuted. Inserted rows: search pairs of them that violate a rule,
in rows that are kept sorted. Deleted rows: drop the sets whose witness lost a row, and validate the rules that this
frees. A rule is validated by grouping the rows by its left side. (DynFD and EAIFD keep negative covers in this way; the
witness tells whether a set survives a delete.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from holdfast.arrays import Array, Arrays
from holdfast.discovery.budget import Budget
from holdfast.discovery.fd.agree_sets import AgreeSets
from holdfast.discovery.fd.exact import FdRules
from holdfast.discovery.fd.maximal_sets import MaximalSets
from holdfast.discovery.fd.proof import Claims, Proof, claims_of
from holdfast.discovery.pair_sets import sampled_neighbours
from holdfast.discovery.pair_tiles import known_columns
from holdfast.discovery.witness.partitions import DEFAULT_MEMORY, Partitions
from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.discovery.witness.sorted_search import COMPARED, FEW, SortedSearch, in_words
from holdfast.executors.executor import Block, Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.kernels.agree_match import sets_of_pairs
from holdfast.kernels.handle import as_compiled
from holdfast.rules.masks import Masks, Numbers, among, none, numbered, pack, unpack
from holdfast.table.dictionary import Codes
from holdfast.table.row_change import RowChange

MAX_CLAIMS = 20_000  # that are searched in sorted rows; more are validated
_SAMPLED = 20_000  # pairs of neighbours in the order of each column
_CLASHES = 16  # pairs taken from one refuted rule
_CLAIMS = 8  # between budget checks
_TILES = 32  # tiles of claims on an executor
_FEW_VISITS = 100_000_000  # claims x rows: too few to pay for a round trip to the executor


@dataclass
class WitnessedAgreeSets:
    """Agree-sets with a pair of row ids each.

    >>> table, rules = WitnessedAgreeSets(columns=2), FdRules(columns=2)
    >>> no_rows = np.arange(0), np.zeros((2, 0), np.int64)
    >>> table.update(RowChange(*no_rows, np.arange(3), np.array([[1, 1, 2], [5, 5, 5]]), *no_rows), rules)
    >>> rules.collapsed().ruleset(["a", "b"], None).texts()
    ['() -> b']
    """

    columns: int
    nulls: str = "equal"
    executor: Executor = field(default_factory=ThreadExecutor)
    memory: int = DEFAULT_MEMORY
    most_compared: int = COMPARED
    most_claims: int = MAX_CLAIMS
    few_visits: int = _FEW_VISITS

    def __post_init__(self) -> None:
        self._pairs_of = AgreeSets(self.columns, self.nulls, self.executor)
        self._space = PredicateSpace.of_equality(self.columns, self.nulls)
        self._kept: SortedSearch | None = None
        self._compared = 0
        self._by_passes = 0  # claims, in the last change
        self.sets = np.zeros((0, self._pairs_of.width), np.uint64)
        self.pairs = np.zeros((0, 2), np.int64)

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def strategy(self) -> str:
        """In words."""
        return f"{len(self):,} agree-sets with a pair each{in_words(self._kept, self._by_passes)}"

    def update(self, change: RowChange, rules: FdRules, budget: Budget | None = None) -> None:
        """Updates the sets and the rules to the rows after a change. Inserted rows cost what the change costs, rules
        that lose their witness O(rows) each."""
        budget, before, self._by_passes = budget or Budget(), rules.collapsed(), 0
        lost = np.isin(self.pairs, change.removed).any(axis=1)
        self._take(self.sets[~lost], self.pairs[~lost])
        if len(self.pairs) and len(before) <= self.most_claims and 2 * len(change.added) < change.rows_after:
            following, proof = self._following(change, budget), Proof(before, complete=not lost.any())
        else:
            following, proof, self._kept = None, Proof(), None
            self._add(*self._sample(*change.after), budget)
        self._prove(change, rules, proof, following, budget)

    def _following(self, change: RowChange, budget: Budget) -> SortedSearch | None:
        """The search among pairs with an inserted row. None: they are few, and all were compared and added."""
        if self._kept is not None:
            self._kept.change(change)
            if len(change.added) > min(FEW, self.most_compared):
                return self._kept
        self._compared += len(change.added)
        if self._kept is not None or self._compared <= self.most_compared:
            self._pairs_of.executor = self.executor
            tally = self._pairs_of.pairs(change.added, change.added_codes, change.kept, change.kept_codes)
            self._add(tally.sets, tally.pairs, budget)
            return None
        self._kept = SortedSearch(self._space, *change.after, len(change.added))
        return self._kept

    def _take(self, sets: Masks, pairs: Numbers) -> None:
        self.sets, self.pairs = sets, pairs

    def _add(self, sets: Masks, pairs: Numbers, budget: Budget) -> None:
        """Adds sets with their pairs and keeps the maximal ones; of equal sets, the first keeps its pair. If the budget
        runs out some more are dropped, which is sound: the rules that they refute are not proven then."""
        sets, pairs = np.concatenate([self.sets, sets]), np.concatenate([self.pairs, pairs])
        distinct, numbers = numbered(sets)
        first = np.full(len(distinct), len(sets))
        np.minimum.at(first, numbers, np.arange(len(sets)))
        agree, differ = self._pairs_of.split(distinct)
        useful = among(agree, MaximalSets.of(agree, differ, self.columns, budget).sets)
        self._take(distinct[useful], pairs[first[useful]])

    def _sample(self, ids: Numbers, codes: Codes) -> tuple[Masks, Numbers]:
        """The sets of pairs of neighbours, in the given order of rows and in the order of each column."""
        pairs = [sampled_neighbours(np.arange(len(ids)), _SAMPLED)]
        pairs += [sampled_neighbours(np.argsort(column, kind="stable"), _SAMPLED) for column in codes]
        places = np.concatenate(pairs)
        return self._sets_of(codes, places), ids[places]

    def _sets_of(self, codes: Codes, places: Numbers) -> Masks:
        """The sets of pairs of rows, by position."""
        out = np.empty((len(places), self._pairs_of.width), np.uint64)
        if 2 * places.size < codes.shape[1]:
            rows, where = np.unique(places, return_inverse=True)
            codes, places = codes[:, rows], where.reshape(places.shape)
        codes, places = as_compiled(codes), np.ascontiguousarray(places, np.int64)
        sets_of_pairs(codes, known_columns(codes, self.nulls), places, self.nulls == "sql", out)
        return out

    def _prove(
        self, change: RowChange, rules: FdRules, proof: Proof, following: SortedSearch | None, budget: Budget
    ) -> None:
        """Derives rules, searches and validates them, and adds the sets that refute one, until none is refuted."""
        partitions: Partitions | None = None
        searched: set[tuple[bytes, int]] = set()  # claims that hold for pairs with an inserted row
        while True:
            rules.update(*self.split(), change.rows_after, budget)
            claims = Claims(none(self.columns), np.zeros(0, np.int64))
            if following is not None:
                refuted, claims = self._search(following, claims_of(rules), searched, budget)
                if refuted and not budget.spent():
                    continue
            claims = claims.joined(proof.open_claims(rules))
            if not len(claims.lefts):
                return
            self._by_passes += len(claims.lefts)
            if partitions is None:
                partitions = Partitions.of_codes(change.after[1], self.nulls, self.memory)
            clashes = self._clashes(partitions, claims, proof, budget)
            if budget.spent():
                (proof if following is None else Proof()).keep_proven(rules, budget)
                return
            if not len(clashes):
                return
            ids, codes = change.after
            self._add(self._sets_of(codes, clashes), ids[clashes], budget)

    def _search(
        self, following: SortedSearch, claims: Claims, searched: set[tuple[bytes, int]], budget: Budget
    ) -> tuple[bool, Claims]:
        """Whether pairs with an inserted row refute some of the claims that were not `searched` yet; their sets are
        added. And the claims that have to be validated instead."""
        is_open = np.array([claim not in searched for claim in claims.values()], np.bool_)
        claims = claims.where(is_open) if len(is_open) else claims
        if not len(claims.lefts):
            return False, claims
        masks = self._as_atoms(claims)
        found = following.search(masks, budget, new=True)
        settled = among(masks, found.settled)
        searched.update(claims.where(settled & ~found.refuted(self._space, masks)).values())
        if len(found.pairs):
            self._add(self._sets_with(found.clues), found.pairs, budget)
        return len(found.pairs) > 0, claims.where(~settled)

    def _as_atoms(self, claims: Claims) -> Masks:
        """Pairs that refute a claim are equal in its left side and differ in its right side."""
        atoms = np.zeros((len(claims.lefts), len(self._space.atoms)), np.bool_)
        atoms[:, 0::2] = unpack(claims.lefts, self.columns)
        is_fd = np.flatnonzero(claims.rights < self.columns)
        atoms[is_fd, 2 * claims.rights[is_fd] + 1] = True
        return pack(atoms)

    def _sets_with(self, clues: Masks) -> Masks:
        """The agree-sets of pairs with these clues."""
        bits = unpack(clues, len(self._space.bits))
        if self.nulls != "sql":
            return pack(~bits)
        differs, unknown = bits[:, 0::2], bits[:, 1::2]
        return np.concatenate([pack(~differs), pack(differs & ~unknown)], axis=1)

    def _clashes(self, partitions: Partitions, claims: Claims, proof: Proof, budget: Budget) -> Numbers:
        """Pairs of rows, by position, that refute claims. Claims that no pair refutes are added to the proof. Claims
        are sorted, so that those with the same left side share a partition."""
        order = np.lexsort(claims.lefts.T)
        lefts, rights = claims.lefts[order], claims.rights[order]
        elsewhere = self.executor.elsewhere and len(lefts) * partitions.rows > self.few_visits
        size = max(1, -(-len(lefts) // _TILES)) if elsewhere else _CLAIMS
        blocks = [
            Block({"lefts": lefts[i : i + size], "rights": rights[i : i + size]}) for i in range(0, len(lefts), size)
        ]
        if elsewhere:
            answers = self.executor.map(refute_tile, blocks, partitions.shared)
        else:
            answers = []
            for block in blocks:
                if budget.spent():
                    break
                answers.append(refuted_by(partitions, block.arrays))
        for block, answer in zip(blocks, answers, strict=False):
            holds = ~np.isin(np.arange(len(block.arrays["rights"])), answer["claim"])
            for i in np.flatnonzero(holds).tolist():
                proof.add(np.asarray(block.arrays["lefts"], np.uint64)[i], int(np.asarray(block.arrays["rights"])[i]))
        return np.concatenate([np.zeros((0, 2), np.int64), *(np.asarray(a["pairs"], np.int64) for a in answers)])

    def split(self) -> tuple[Masks, Masks]:
        """The columns in which the pairs agree, and those in which they differ."""
        return self._pairs_of.split(self.sets)

    def to_arrays(self) -> dict[str, Array]:
        return {"sets": self.sets, "pairs": self.pairs}

    def load(self, arrays: Arrays) -> None:
        self._take(np.asarray(arrays["sets"], np.uint64), np.asarray(arrays["pairs"], np.int64))


def refute_tile(block: Arrays, shared: Arrays) -> Arrays:
    """Pairs that refute claims, by grouping the rows. O(rows) for each left side, less if few rows share their
    values."""
    return refuted_by(Partitions.from_shared(shared), block)


def refuted_by(partitions: Partitions, claims: Arrays) -> dict[str, Array]:
    """Pairs of rows, by position, that refute claims, and which claim each refutes."""
    pairs, places = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.int64)]
    columns = partitions.columns
    for i, left in enumerate(unpack(np.asarray(claims["lefts"], np.uint64), columns)):
        right = int(np.asarray(claims["rights"])[i])
        clashes = partitions.clashes(np.flatnonzero(left).tolist(), right if right < columns else None, _CLASHES)
        pairs.append(clashes)
        places.append(np.full(len(clashes), i))
    return {"pairs": np.concatenate(pairs), "claim": np.concatenate(places)}
