"""Witness search on Spark: of some claims about the pairs of rows of a table, which are refuted, and by which rows?

Most false claims are refuted inside a partition, without a shuffle (`in_partitions`). For the others all pairs count
(`everywhere`), in one of three ways:

    together    A claim with equalities is about rows that agree on a column. All rows with the same value there go to
                one task, so one shuffle decides every claim with this column. If too many rows share a value, rows go
                by all columns of the claim's equalities.
    aggregates  If too many rows share these too, keys and FDs are decided by the extremes of each group.
    tiles       Other claims are searched in pairs of blocks of a column whose bounds leave room (`claim_tiles`).

After a change, claims that held before are refuted only by pairs with an inserted row (`following`): one scan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast.discovery.budget import Budget
from holdfast.discovery.witness.predicate_space import PredicateSpace
from holdfast.rules.masks import Masks
from holdfast.rules.operator import Op
from holdfast.spark.claim_tasks import AskedClaims, FollowTask, RowsTask
from holdfast.spark.claim_tiles import ClaimTiles
from holdfast.spark.frames import cells
from holdfast.spark.jobs import described
from holdfast.spark.state_files import union
from holdfast.table.dictionary import NULL, Codes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_OF_TASK = 250_000  # that are brought together, on average
MOST_OF_VALUE = 1_000_000  # rows that may share a value of a column by which rows are brought together
_WITNESSES = 4  # pairs for each refuted claim and way
Pivot = tuple[int, ...]  # columns by which rows are brought together


class Refutations(NamedTuple):
    """The claims that were searched, by number; and the cells of pairs (t, s) that refute some of them."""

    claims: Sequence[int]
    t: pa.Table
    s: pa.Table


@dataclass(frozen=True)
class InsertedRows:
    """Cells of inserted rows, as an Arrow file, and all rows that they are to meet besides each other."""

    inserted: bytes
    others: DataFrame


@dataclass(frozen=True)
class ClaimSearch:
    """Searches among the rows of a table. `sample`: codes of some of its rows; `count`: how many it has."""

    rows: DataFrame
    space: PredicateSpace
    sample: Codes
    count: int
    _shares: dict[Pivot, float] = field(default_factory=dict)

    def in_partitions(self, claims: Masks, budget: Budget) -> Refutations:
        """Pairs inside a partition. Claims without a pair are not proven by that."""
        with self._described(f"{len(claims)} claims inside each partition"):
            task = RowsTask(self._asked(claims, budget))
            return self._collected(range(len(claims)), self.rows.mapInArrow(task, self._both_rows))

    def following(self, claims: Masks, parts: Sequence[InsertedRows], budget: Budget) -> Refutations:
        """Pairs with an inserted row. No pair of other rows satisfies a claim."""
        asked, one, found = self._asked(claims, budget), self.rows.sparkSession.range(1), []
        for part in parts:
            found.append(one.mapInArrow(FollowTask(asked, part.inserted, alone=True), self._both_rows))
            found.append(part.others.mapInArrow(FollowTask(asked, part.inserted), self._both_rows))
        with self._described(f"{len(claims)} claims about inserted rows"):
            return self._collected(range(len(claims)), union(found))

    def everywhere(self, claims: Masks, budget: Budget) -> Iterator[Refutations]:
        """Pairs of all rows, some claims after the other: a claim without a pair is proven. Stops if the budget is
        spent."""
        works = list(self._works(claims, budget))
        for done, work in enumerate(works):
            budget.report("verifying rules on Spark", done / len(works))
            if budget.spent():
                return
            found = work()
            if budget.spent():
                return  # the tasks may have stopped early
            yield found

    def _works(self, claims: Masks, budget: Budget) -> Iterator[Callable[[], Refutations]]:
        by_pivot, alone = self._by_pivot(claims)
        for pivot, numbers in by_pivot.items():
            yield partial(self._together, claims, pivot, numbers, budget)
        agreements = {number: self.space.agreement(claims[number]) for number in alone}
        by_left: dict[Pivot, list[int]] = {}
        for number, agreement in agreements.items():
            if agreement is not None:
                by_left.setdefault(tuple(agreement[0]), []).append(number)
        for left, numbers in by_left.items():
            rights = [agreement[1] for number in numbers if (agreement := agreements[number]) is not None]
            yield partial(self._by_extremes, left, rights, numbers)
        rest = [number for number, agreement in agreements.items() if agreement is None]
        for tiles, numbers in ClaimTiles.of(self.rows, self.space, claims, rest, self.count):
            yield partial(self._in_tiles, tiles, numbers, claims, budget)

    # --- rows that share values -----------------------------------------------------------------------------

    def _by_pivot(self, claims: Masks) -> tuple[dict[Pivot, list[int]], list[int]]:
        """The claims by the columns that bring their rows together, as few as possible; and those without any."""
        equal = {number: self._equal(claim) for number, claim in enumerate(claims)}
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

    def _equal(self, claim: Masks) -> Pivot:
        comparisons = [self.space.comparisons[i] for i, op in self.space.terms(claim) if op is Op.EQ]
        return tuple(sorted(c.left for c in comparisons if c.left == c.right))

    def _fits(self, pivot: Pivot) -> bool:
        """Whether the rows with the same values there fit into a task, as far as the sample knows."""
        if pivot not in self._shares:
            codes = self.sample[list(pivot)]
            if self.space.nulls != "equal":
                codes = codes[:, (codes != NULL).all(axis=0)]
            most = np.unique(codes, axis=1, return_counts=True)[1].max(initial=0)
            self._shares[pivot] = float(most / max(1, self.sample.shape[1]))
        return self._shares[pivot] * self.count <= MOST_OF_VALUE

    def _together(self, claims: Masks, pivot: Pivot, numbers: Sequence[int], budget: Budget) -> Refutations:
        tasks = max(1, -(-self.count // ROWS_OF_TASK))
        rows = self.rows.repartition(tasks, *(f"c{place}" for place in pivot))
        task = RowsTask(self._asked(claims[numbers], budget), together=True)
        names = ", ".join(self.space.schema.names[place] for place in pivot)
        with self._described(f"{len(numbers)} claims about rows with the same {names}"):
            return self._collected(numbers, rows.mapInArrow(task, self._both_rows))

    def _by_extremes(self, left: Pivot, rights: Sequence[int | None], numbers: Sequence[int]) -> Refutations:
        """Keys and FDs with one left side: two rows of a group that differ in a right side, if there are any. A key is
        an FD whose right side differs between all rows."""
        nulls, row = self.space.nulls, f"struct({', '.join(cells(self.space.schema))})"
        rows = self.rows.select("*", F.monotonically_increasing_id().alias("id"))
        if nulls != "equal":
            rows = rows.where(" and ".join(f"c{c} is not null" for c in left) or "true")
        extremes, pairs = [], []
        for i, right in enumerate(rights):
            apart = f"if(c{right} is null, id, 0)" if nulls == "distinct" else "0"
            value = "struct(id)" if right is None else f"struct(c{right} is null, c{right}, {apart})"
            known = f"filter (where c{right} is not null)" if right is not None and nulls == "sql" else ""
            extremes += [f"{end}_by({row}, {value}) {known} as {end}{i}" for end in ("min", "max")]
            extremes.append(f"min({value}) {known} <=> max({value}) {known} as same{i}")
            pairs.append(f"any_value(struct(min{i} as t, max{i} as s)) filter (where not same{i}) as pair{i}")
        groups = rows.groupBy(*(f"c{c}" for c in left)).agg(*map(F.expr, extremes))
        first = groups.agg(*map(F.expr, pairs))
        listed = ", ".join(f"struct({i} as claim, pair{i} as pair)" for i in range(len(rights)))
        found = first.selectExpr(f"inline(array({listed}))").where("pair is not null")
        sides = [f"pair.{side}.{cell} as {side}_{cell}" for side in "ts" for cell in cells(self.space.schema)]
        names = ", ".join(self.space.schema.names[c] for c in left)
        with self._described(f"{len(numbers)} claims about rows with the same ({names})"):
            return self._read(numbers, found.selectExpr("claim", *sides))

    def _in_tiles(self, tiles: ClaimTiles, numbers: Sequence[int], claims: Masks, budget: Budget) -> Refutations:
        with self._described(f"{len(numbers)} claims in pairs of blocks"):
            found = tiles.found(self._asked(claims[numbers], budget), self._both_rows)
            return self._collected(numbers, found)

    # --- what tasks found -----------------------------------------------------------------------------------

    def _asked(self, claims: Masks, budget: Budget) -> AskedClaims:
        return AskedClaims(self.space, claims, budget.left())

    def _described(self, text: str) -> AbstractContextManager[None]:
        return described(self.rows.sparkSession, text)

    @cached_property
    def _both_rows(self) -> str:
        names = cells(self.space.schema)
        types = [(name, self.rows.schema[name].dataType.simpleString()) for name in names]
        return "claim int, " + ", ".join(f"{side}_{name} {type_}" for side in "ts" for name, type_ in types)

    def _collected(self, numbers: Sequence[int], found: DataFrame) -> Refutations:
        """Some pairs for each claim."""
        window = Window.partitionBy("claim").orderBy(F.lit(0))
        few = found.select("*", F.row_number().over(window).alias("place")).where(f"place <= {_WITNESSES}")
        return self._read(numbers, few.drop("place"))

    def _read(self, numbers: Sequence[int], found: DataFrame) -> Refutations:
        table, names = found.toArrow(), cells(self.space.schema)
        t, s = (table.select([f"{side}_{name}" for name in names]).rename_columns(names) for side in "ts")
        return Refutations(numbers, t, s)
