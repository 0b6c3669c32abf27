"""Claims about the pairs of rows of a table on Spark: each is refuted by a pair, or proven.

A claim says that no pair of rows satisfies a conjunction. If it has equalities, all rows that agree on one of these
columns go to one task, which searches with the kernels of the process: one shuffle decides all claims with this
column. If a column has values that too many rows share, rows go by all columns of the claim's equalities. Other claims
are searched in tiles, one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast.discovery.budget import Budget
from holdfast.discovery.witness.clashes import Clashes
from holdfast.discovery.witness.predicate_space import PredicateSpace, Term
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Compare
from holdfast.rules.rule import Rule, as_dc
from holdfast.spark.frames import cells
from holdfast.spark.jobs import described
from holdfast.spark.pair_tasks import Batches, PairSearch, codes_of
from holdfast.spark.pair_tiles import TiledSearch
from holdfast.spark.tiles import ROWS_PER_TILE
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WITNESSES = 3  # pairs for each refuted claim
_ROWS_OF_TASK = ROWS_PER_TILE // 4
Pivot = tuple[int, ...]  # columns by which rows are brought together


@dataclass(frozen=True)
class ClaimTask:
    """Searches, among the rows of a task, a pair for each claim. Yields its number, and the cells of both rows."""

    space: PredicateSpace
    claims: tuple[tuple[int, tuple[Term, ...]], ...]

    def __call__(self, batches: Batches) -> Batches:
        received = list(batches)
        rows = pa.Table.from_batches(received) if received else None
        if rows is None or rows.num_rows < 2:
            return
        clashes = Clashes(self.space, codes_of(self.space.schema, rows, TextDictionary()))
        for number, terms in self.claims:
            pair = clashes.satisfying(terms)
            if pair is not None:
                yield _found(number, rows, *pair)


def _found(number: int, rows: pa.Table, t: int, s: int) -> pa.RecordBatch:
    columns = {"claim": pa.array([number], pa.int32())}
    for side, place in (("t", t), ("s", s)):
        for name in rows.column_names:
            columns[f"{side}_{name}"] = rows.column(name).slice(place, 1).combine_chunks()
    return pa.record_batch({name: _flat(values) for name, values in columns.items()})


def _flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values


@dataclass(frozen=True)
class ClaimSearch:
    """Decides claims about the rows of a table. `sample`: codes of some of its rows; `count`: how many it has."""

    rows: DataFrame
    space: PredicateSpace
    sample: Codes
    count: int

    def refutations(self, rules: Sequence[Rule], budget: Budget) -> Iterator[tuple[Rule, list[pa.Table] | None]]:
        """For each claim some pairs of rows that refute it, as tables of two rows; None if it is proven. Stops if the
        budget is spent."""
        terms = [self._terms(rule) for rule in rules]
        by_pivot, alone = self._by_pivot(terms)
        for pivot, numbers in by_pivot.items():
            if budget.spent():
                return
            names = ", ".join(self._schema.names[place] for place in pivot)
            with described(self.rows.sparkSession, f"{len(numbers)} claims about rows with the same {names}"):
                found = self._by_groups(pivot, {number: terms[number] for number in numbers})
            yield from ((rules[number], found.get(number)) for number in numbers)
        for number in alone:
            if budget.spent():
                return
            if [op for _, op in terms[number]] == [Op.NE]:  # the sample has the extremes of the column
                yield rules[number], None
                continue
            with described(self.rows.sparkSession, f"{rules[number]}: pairs of rows"):
                found = self._in_tiles(rules[number])
            yield rules[number], found.get(0)

    @property
    def _schema(self) -> Schema:
        return self.space.schema

    def _terms(self, rule: Rule) -> tuple[Term, ...]:
        """The comparisons of a claim, with their operators."""
        places = {(c.left, c.right): i for i, c in enumerate(self.space.comparisons)}
        terms = []
        for p in as_dc(rule).predicates:  # type: ignore[arg-type]
            assert isinstance(p, Compare), p
            left, right = (self._schema.position(cell.column) for cell in p.cells)
            op = p.op if p.cells[0].row == "t" else p.op.mirror
            terms.append((places[(left, right) if p.cells[0].row == "t" else (right, left)], op))
        return tuple(terms)

    # --- by groups ------------------------------------------------------------------------------------------

    def _by_pivot(self, terms: Sequence[tuple[Term, ...]]) -> tuple[dict[Pivot, list[int]], list[int]]:
        """The claims by the columns that bring their rows together, as few as possible; and those without any."""
        equal = {number: self._equal(claim) for number, claim in enumerate(terms)}
        chosen: dict[Pivot, list[int]] = {}
        while True:
            uses = Counter(c for columns in equal.values() for c in columns if self._fits((c,)))
            if not uses:
                break
            column = min(uses, key=lambda c: (-uses[c], c))
            chosen[column,] = [number for number, columns in equal.items() if column in columns]
            equal = {number: columns for number, columns in equal.items() if column not in columns}
        for number, columns in list(equal.items()):
            if columns and self._fits(columns):
                chosen.setdefault(columns, []).append(number)
                del equal[number]
        return chosen, list(equal)

    def _equal(self, claim: tuple[Term, ...]) -> Pivot:
        comparisons = [self.space.comparisons[i] for i, op in claim if op is Op.EQ]
        return tuple(sorted(c.left for c in comparisons if c.left == c.right))

    def _fits(self, pivot: Pivot) -> bool:
        """Whether the rows with the same values there fit into a task, as far as the sample knows."""
        if pivot not in self._shares:
            codes = self.sample[list(pivot)]
            if self.space.nulls != "equal":
                codes = codes[:, (codes != NULL).all(axis=0)]
            most = np.unique(codes, axis=1, return_counts=True)[1].max(initial=0)
            self._shares[pivot] = float(most / max(1, self.sample.shape[1]))
        return self._shares[pivot] * self.count <= ROWS_PER_TILE

    @cached_property
    def _shares(self) -> dict[Pivot, float]:
        return {}

    def _by_groups(self, pivot: Pivot, claims: Mapping[int, tuple[Term, ...]]) -> dict[int, list[pa.Table]]:
        tasks = max(1, -(-self.count // _ROWS_OF_TASK))
        together = self.rows.repartition(tasks, *(f"c{place}" for place in pivot))
        task = ClaimTask(self.space, tuple(claims.items()))
        found = together.mapInArrow(task, f"claim int, {self._both_rows}")
        window = Window.partitionBy("claim").orderBy(F.lit(0))
        few = found.select("*", F.row_number().over(window).alias("place")).where(f"place <= {_WITNESSES}")
        return self._collected(few.drop("place"))

    @cached_property
    def _both_rows(self) -> str:
        types = list(zip(cells(self._schema), self._types, strict=True))
        return ", ".join(f"{side}_{cell} {type_}" for side in "ts" for cell, type_ in types)

    @cached_property
    def _types(self) -> list[str]:
        return [self.rows.schema[cell].dataType.simpleString() for cell in cells(self._schema)]

    def _collected(self, found: DataFrame) -> dict[int, list[pa.Table]]:
        pairs: dict[int, list[pa.Table]] = {}
        table, names = found.toArrow(), cells(self._schema)
        for place, number in enumerate(table.column("claim").to_pylist()):
            sides = [
                table.slice(place, 1).select([f"{side}_{c}" for c in names]).rename_columns(names) for side in "ts"
            ]
            pairs.setdefault(number, []).append(pa.concat_tables(sides))
        return pairs

    # --- in tiles -------------------------------------------------------------------------------------------

    def _in_tiles(self, rule: Rule) -> dict[int, list[pa.Table]]:
        """Some pairs that refute one claim, as number 0."""
        names = cells(self._schema)
        with_id = self.rows.select(F.monotonically_increasing_id().alias("id"), "*")
        pairs = TiledSearch(PairSearch(rule, self._schema, self.space.nulls), with_id).pairs(names, self._types)
        sides = [f"{side}{i} as {side}_{cell}" for side in "ts" for i, cell in enumerate(names)]
        return self._collected(pairs.limit(_WITNESSES).selectExpr("0 as claim", *sides))
