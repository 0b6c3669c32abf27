"""The rules about pairs of rows that a rulebook on Spark finds, and keeps true to its rows.

The driver keeps a sample of each table, among the rows of the rulebook's own state, and the minimal rules of the
sample; these are the rules of the table. A batch deletes and updates rows of the sample, as it does in the table. Then
what the sample leaves standing is proven again: rules that contain one of before by the inserted rows alone, in one
scan; rules that a lost row frees by all rows. So nothing is kept for each rule, and a sample row that is gone is missed
only if no other pair shows what it showed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from holdfast.arrays import table_to_buffer
from holdfast.discovery.budget import Budget
from holdfast.discovery.search_options import SearchOptions
from holdfast.errors import HoldfastError, NotAvailable
from holdfast.indexes.pairs import Pairs
from holdfast.rulebook.state import BookState
from holdfast.rules.change import Pair, RuleChange
from holdfast.rules.masks import Masks
from holdfast.rules.rule import Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.spark.claims import InsertedRows
from holdfast.spark.frames import cells
from holdfast.spark.kept_rules import KeptRules, TableMoves
from holdfast.spark.pair_change import MOVES_AT_ONCE
from holdfast.spark.proof import SampleProof
from holdfast.spark.row_sample import sampled_rows
from holdfast.spark.sampled_rules import SampledRules
from holdfast.spark.state_files import union
from holdfast.spark.table_search import Crossed, SearchedTable
from holdfast.store.log import Record
from holdfast.table.dictionary import Codes
from holdfast.table.row_change import RowDelta
from holdfast.table.schema import Schema
from holdfast.violations.listing import pair_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def require_exact(search: SearchOptions) -> None:
    """Raises an error if rules about pairs that nearly hold are to be kept."""
    others = [kind for kind in search.kinds if kind != "ind"]
    if others and search.max_error:
        raise NotAvailable(
            f"a rulebook on Spark keeps {', '.join(others)} that hold exactly: each row moves the number of exceptions "
            f"that max_error allows, so all rules near that border would have to be counted again; use max_error=0, or "
            f"hf.discover(..., on='spark', max_error={search.max_error})"
        )


class RuleStep(NamedTuple):
    """What a batch did to the sample of a table, and to the rules."""

    delta: RowDelta
    change: RuleChange


class FoundRules:
    """The samples of all tables of a rulebook, which are the rows of its `state`, and their rules. `crossed`: by table,
    the pairs of different columns that are compared."""

    def __init__(self, search: SearchOptions, state: BookState, crossed: Mapping[str, Crossed]) -> None:
        kinds = tuple(kind for kind in search.kinds if kind != "ind")
        self._search, self._state, self.crossed = replace(search, kinds=kinds), state, dict(crossed)
        self._samples: dict[str, SampledRules] = {}

    def begin(self, rules: KeptRules, counts: Mapping[str, int], budget: Budget) -> None:
        """Finds the rules of all tables. A search that the budget ends is refused."""
        if not self._search.kinds:
            return
        for name in rules.options:
            table = self._searched(name, rules, counts[name])
            self.crossed[name] = table.crossed()
            sample = table.begin(self._state.rows[name], self._state.dictionary, self.crossed[name], budget)
            self._run(table.proof(sample), budget)
            self._samples[name] = sample

    @staticmethod
    def _run(proof: SampleProof, budget: Budget) -> None:
        if not proof.run(budget):
            raise HoldfastError(
                "discovery did not finish. A rulebook is never partial; give it more time (time_budget), fewer kinds, "
                "or a smaller max_size"
            )

    def _searched(self, name: str, rules: KeptRules, count: int) -> SearchedTable:
        rows = rules.rows(name).current()
        return SearchedTable(name, rows, count, rules.options[name].schema, self._search)

    def _sample(self, name: str) -> SampledRules:
        """The sample of a table; its rules are found again when the rulebook was opened. O(rows of the sample)."""
        if name not in self._samples:
            rows, dictionary = self._state.rows[name], self._state.dictionary
            sample = SampledRules(name, rows.schema, self._search, self.crossed[name], rows, dictionary)
            sample.begin(Budget())
            self._samples[name] = sample
        return self._samples[name]

    def rules(self) -> RuleSet:
        """All rules."""
        if not self._search.kinds:
            return RuleSet()
        found = RuleSet.joined(self._sample(name).rules() for name in self._state.rows)
        return RuleSet(found.blocks, True, self._search.limits)

    def update(
        self, moves: Mapping[str, TableMoves], before: KeptRules, after: KeptRules, counts: Mapping[str, int]
    ) -> dict[str, RuleStep]:
        """Changes samples and rules as a batch asks for. `before` and `after`: the rows; `counts`: how many there are
        after it."""
        steps = {}
        for name, moved in moves.items() if self._search.kinds else ():
            if not moved.count:
                continue
            followed = _Followed(self._sample(name), moved, before)
            steps[name] = followed.step(self._searched(name, after, counts[name]))
        return steps

    def row_names(self, table: str, pairs: Pairs) -> list[Record]:
        """The keys of sampled rows, for history."""
        names: list[Record] = pair_table(pairs, self._state.rows[table], self._state.dictionary).to_pylist()
        return names


@dataclass(frozen=True)
class _Followed:
    """The sample of a table, and what a batch does to the table."""

    sample: SampledRules
    moved: TableMoves
    before: KeptRules

    def step(self, table: SearchedTable) -> RuleStep:
        rules_before, (_, held) = self.sample.rules(), self.sample.claims()
        delta = self._changed_rows()
        if len(self.sample.rows) < 2 <= table.count:
            missing = self.sample.encoded(sampled_rows(table.cells, table.count))
            missing = missing[:, self.sample.rows.take(missing) < 0]
            self.sample.update(RowDelta.of_inserts(missing))
            delta = replace(delta, inserted_codes=missing)
        proof = table.proof(self.sample, *self._known(held))
        FoundRules._run(proof, Budget())
        delta = replace(delta, inserted_codes=np.concatenate([delta.inserted_codes, *proof.joined], axis=1))
        now, keyed = self.sample.rules(), bool(self.before.options[self.sample.name].key)
        why = partial(self._why, proof.witnesses) if keyed else RuleChange().why
        return RuleStep(delta, RuleChange(now - rules_before, rules_before - now, why, table=self.sample.name))

    # --- sampled rows that change -----------------------------------------------------------------------------

    def _changed_rows(self) -> RowDelta:
        """Deletes and updates rows of the sample."""
        schema = self.sample.schema
        delta, columns = RowDelta.nothing(len(schema)), ["remains", *_ends(schema, "old"), *_ends(schema, "new")]
        for chunk in self._chunks(self.moved.frame.where("existed")):
            part = self._part(chunk.select(columns).toArrow())
            self.sample.update(part)
            delta = RowDelta(
                np.concatenate([delta.deleted, part.deleted]),
                np.concatenate([delta.updated, part.updated]),
                np.concatenate([delta.updated_codes, part.updated_codes], axis=1),
                delta.inserted_codes,
            )
        return delta

    def _part(self, moves: pa.Table) -> RowDelta:
        """What some moves do to the sample. Texts of other rows do not stay in its dictionary."""
        texts = len(self.sample.dictionary)
        ids = self.sample.rows.take(self.sample.encoded(moves, "old_"))
        self.sample.dictionary.truncate(texts)
        mine, remains = ids >= 0, moves.column("remains").to_numpy(zero_copy_only=False)
        stays = np.flatnonzero(mine & remains)
        codes = self.sample.encoded(moves.take(pa.array(stays)), "new_")
        return RowDelta(ids[mine & ~remains], ids[stays], codes, codes[:, :0])

    def _chunks(self, moves: DataFrame) -> Iterator[DataFrame]:
        """The moves, so many at a time as fit into this process."""
        count = max(1, -(-self.moved.count // MOVES_AT_ONCE))
        chunk = F.pmod(F.xxhash64(*self.before.rows(self.sample.name).identity), F.lit(count))
        for number in range(count):
            yield moves.where(chunk == number)

    # --- inserted rows ----------------------------------------------------------------------------------------

    def _known(self, held: Masks) -> tuple[Masks | None, list[InsertedRows]]:
        """What held before, and the rows that can refute it; nothing if the batch is large."""
        if self.moved.many:
            return None, []
        names, schema = cells(self.sample.schema), self.sample.schema
        chunks = [
            chunk.selectExpr(*(f"{end} as {name}" for end, name in zip(_ends(schema, "new"), names, strict=True)))
            for chunk in self._chunks(self.moved.frame.where("remains"))
        ]
        unmoved = self.before.rows(self.sample.name).without(self.moved.frame, many=False).select(names)
        parts = []
        for number, chunk in enumerate(chunks):
            inserted = chunk.toArrow()
            if inserted.num_rows:
                others = union([unmoved, *chunks[number + 1 :]])
                parts.append(InsertedRows(table_to_buffer(inserted).to_pybytes(), others))
        return held, parts

    def _why(self, witnesses: Mapping[bytes, Codes], rule: Rule) -> Pair | None:
        """The rows that refuted a rule which held before."""
        codes = witnesses.get(self.sample.claim_of(rule).tobytes())
        if codes is None:
            return None
        t, s = self.sample.rows.find(codes.T).tolist()
        return t, s


def _ends(schema: Schema, end: str) -> list[str]:
    return [f"{end}_{cell}" for cell in cells(schema)]
