"""Some rows of a table in the memory of this process, and the minimal rules that hold on them.

Rows are known by their values. A row joins the sample together with the row with which it refutes a claim: a sample
never has a row more often than the table, because it gets a row twice only if two equal rows were found together. So a
rule that holds on the table holds on the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.discovery.budget import Budget
from holdfast.discovery.database import DatabaseRules, PairLimits
from holdfast.discovery.search_options import SearchOptions
from holdfast.discovery.witness.predicate_space import PredicateSpace, Term
from holdfast.executors.executor import Cancelled
from holdfast.rules.masks import Masks, none
from holdfast.rules.predicate import Compare
from holdfast.rules.rule import Rule, as_dc
from holdfast.rules.ruleset import RuleSet
from holdfast.spark.pair_tasks import codes_of
from holdfast.table.dictionary import Codes, TextDictionary
from holdfast.table.row_change import RowChange, RowDelta
from holdfast.table.rows import Rows
from holdfast.table.schema import Schema

_PAIRS = PairLimits(2e7, 2e9)  # as for tables that do not change


class FoundPairs(NamedTuple):
    """Pairs of rows of the table: rows[side, column, pair], the atoms that they lack, and the codes of those rows that
    the sample has to get."""

    rows: npt.NDArray[np.int64]
    lacked: Masks
    missing: Codes


class SampledRules:
    """The sample of one table. `crossed`: pairs of different columns that are compared."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        options: SearchOptions,
        crossed: Sequence[tuple[int, int]],
        rows: Rows,
        dictionary: TextDictionary,
    ) -> None:
        self.name, self.schema, self.rows, self.dictionary = name, schema, rows, dictionary
        self.space = PredicateSpace.of(schema, options.nulls, crossed)
        names = tuple((schema.names[a], schema.names[b]) for a, b in crossed)
        self._found = DatabaseRules({name: schema}, replace(options, cross_columns=names), dictionary, limits=_PAIRS)
        self._is_cancelled = False

    def begin(self, budget: Budget) -> None:
        """Finds the rules of the rows that are there."""
        self._found.begin({self.name: self.rows}, budget)

    @property
    def is_finished(self) -> bool:
        """Whether no budget ended the search on the sample."""
        return not (self._found.unfinished or self._is_cancelled)

    def encoded(self, cells: pa.Table, prefix: str = "") -> Codes:
        return codes_of(self.schema, cells, self.dictionary, prefix)

    def add(self, cells: pa.Table) -> None:
        """Adds rows before `begin`."""
        self.rows.merge(RowDelta.of_inserts(self.encoded(cells)))

    def update(self, delta: RowDelta, budget: Budget | None = None) -> None:
        """Changes rows, and the rules with them."""
        try:
            self._found.update({self.name: RowChange.of(self.rows, delta)}, {self.name: self.rows}, budget)
        except Cancelled:
            self._is_cancelled = True
        self.rows.merge(delta)

    # --- pairs that refute claims -----------------------------------------------------------------------------

    def compared(self, t: pa.Table, s: pa.Table) -> FoundPairs:
        """What pairs (t, s) of rows of the table refute."""
        count = t.num_rows
        codes = np.concatenate([self.encoded(t), self.encoded(s)], axis=1)
        pairs = np.arange(2 * count).reshape(2, -1).T
        lacked = self.space.lacks(self.space.clues(codes, pairs))
        is_twice = (codes[:, :count] == codes[:, count:]).all(axis=0)
        twice = np.unique(codes[:, :count][:, is_twice], axis=1)
        wanted = np.concatenate([np.unique(codes, axis=1), twice], axis=1)
        rows = np.stack([codes[:, :count], codes[:, count:]])
        return FoundPairs(rows, lacked, wanted[:, self.rows.take(wanted) < 0])

    # --- claims -----------------------------------------------------------------------------------------------

    def rules(self) -> RuleSet:
        """The minimal rules of the sample."""
        return self._found.rules()

    def claims(self) -> tuple[list[Rule], Masks]:
        """The rules, and for each the claim that it makes: a conjunction that no pair satisfies."""
        rules = list(self.rules())
        return rules, np.concatenate([none(len(self.space.atoms)), *map(self.claim_of, rules)])

    def claim_of(self, rule: Rule) -> Masks:
        """The claim of one rule."""
        return self.space.turned(self.space.conjunction(self._terms(rule)))

    def _terms(self, rule: Rule) -> list[Term]:
        """The comparisons of a pair that refutes a rule, with their operators."""
        places = {(c.left, c.right): i for i, c in enumerate(self.space.comparisons)}
        terms = []
        for p in as_dc(rule).predicates:  # type: ignore[arg-type]
            assert isinstance(p, Compare), p
            left, right = (self.schema.position(cell.column) for cell in p.cells)
            op = p.op if p.cells[0].row == "t" else p.op.mirror
            terms.append((places[(left, right) if p.cells[0].row == "t" else (right, left)], op))
        return terms
