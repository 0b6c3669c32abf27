"""The inclusions that a rulebook on Spark finds and keeps true to its rows.

The driver has numbers: how many values of a column another column lacks (`InclusionCounts`), and the status of each
candidate of several columns (`WideInclusions`), which a query decides. The values are in the state `cells`.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F

from holdfast.discovery.ind.counts import InclusionCounts
from holdfast.discovery.ind.wide_inclusions import HOLDS, VACUOUS, Candidate, Status, WideInclusions
from holdfast.discovery.search_options import SearchOptions
from holdfast.errors import NotAvailable
from holdfast.rules.change import RuleChange
from holdfast.rules.masks import has
from holdfast.rules.ruleset import RuleSet
from holdfast.spark.cells import MovedValues, cells_of, change_of_cells, changed_attributes, clusters, moved_values
from holdfast.spark.identity import identity, shown_identity
from holdfast.spark.jobs import together
from holdfast.store.log import Record
from holdfast.table.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AT_A_TIME = 8  # candidates that are tested at the same time


def require_typed(search: SearchOptions) -> None:
    """Raises an error if inclusions are to compare values as text."""
    if "ind" in search.kinds and search.compare == "text":
        raise NotAvailable("on Spark, inclusions compare values by kind (compare='typed'), not as text")


@dataclass(frozen=True)
class FoundInclusions:
    """The inclusions of one version. A batch makes new ones."""

    counts: InclusionCounts
    wide: WideInclusions | None

    @classmethod
    def empty(cls, search: SearchOptions, schemas: Mapping[str, Schema]) -> FoundInclusions:
        counts = InclusionCounts(schemas, max_error=search.max_error)
        most = search.sizes["ind"]
        return cls(counts, None if most == 1 else WideInclusions(counts, most))

    def begin(self, cells: DataFrame, tables: Mapping[str, DataFrame]) -> None:
        """Finds the inclusions of the cells, and of the rows of these tables. Two shuffles of the values."""
        self.counts.count_clusters(clusters(cells, len(self.counts.attributes)))
        if self.wide is not None:
            self.wide.begin(self._tests(tables))

    def cells(self, tables: Mapping[str, DataFrame]) -> DataFrame:
        """The cells of all rows."""
        return cells_of(self.counts.attributes, tables)

    def change(self, moves: Mapping[str, DataFrame]) -> DataFrame:
        """What moves add to the cells: signed, and not summed."""
        return change_of_cells(self.counts.attributes, moves)

    def updated(
        self, before: DataFrame, moves: Mapping[str, DataFrame], tables: Mapping[str, DataFrame], *, many: bool
    ) -> tuple[FoundInclusions, RuleChange]:
        """The inclusions after a batch, and what it did to them. `before`: the cells before it; `tables`: the rows
        after it."""
        change = self.change(moves)
        moved = moved_values(before, change, len(self.counts.attributes), many=many)
        counts = copy(self.counts)
        counts.missing, counts.distinct = counts.missing.copy(), counts.distinct.copy()
        counts.count_clusters(moved.gains())
        unary = counts.changed_since(self.counts.valid(), partial(self._deciding_value, moved))
        if self.wide is None:
            return FoundInclusions(counts, None), unary
        wide = self.wide.following(counts)
        less, more = changed_attributes(change)
        after = FoundInclusions(counts, wide)
        return after, RuleChange.joined([unary, wide.update(after._tests(tables), less, more, list)])

    def _deciding_value(self, moved: MovedValues, left: int, right: int) -> object:
        """A value that became missing on the right, or is not missing any more; None if there is none."""
        lacks = [has(masks, left) & ~has(masks, right) for masks in (moved.before, moved.after)]
        deciding = [moved.values[i] for i in np.flatnonzero(lacks[0] != lacks[1])]
        return shown_identity(self.counts.attributes[left].column, min(deciding)) if deciding else None

    def rules(self) -> RuleSet:
        """All inclusions, and the columns without values."""
        unary = self.counts.rules()
        if self.wide is None:
            return unary
        return RuleSet(RuleSet.joined([unary, self.wide.ruleset()]).blocks, vacuous=unary.vacuous)

    # --- inclusions of several columns ------------------------------------------------------------------------

    def _tests(self, tables: Mapping[str, DataFrame]) -> Any:
        """Tests candidates, some at a time, each with a query of its own."""

        def tests(candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, Status]]:
            rest = iter(candidates)
            while some := list(islice(rest, _AT_A_TIME)):
                works = [partial(self._status, candidate, tables) for candidate in some]
                yield from zip(some, together(_session(tables), works), strict=True)

        return tests

    def _status(self, candidate: Candidate, tables: Mapping[str, DataFrame]) -> Status:
        left, right = (self._tuples([pair[side] for pair in candidate], tables) for side in (0, 1))
        both = left.selectExpr("tuple", "true as is_left").unionByName(right.selectExpr("tuple", "false as is_left"))
        by_tuple = both.groupBy("tuple").agg(
            F.expr("bool_and(is_left) as lacks"), F.expr("bool_or(is_left) as is_left")
        )
        (row,) = by_tuple.agg(
            F.expr("count_if(is_left) as tuples"), F.expr("min(case when lacks then tuple end) as witness")
        ).collect()
        if not row["tuples"]:
            return VACUOUS
        if row["witness"] is None:
            return HOLDS
        columns = [self.counts.attributes[left].column for left, _ in candidate]
        return tuple(map(shown_identity, columns, row["witness"]))

    def _tuples(self, attributes: list[int], tables: Mapping[str, DataFrame]) -> DataFrame:
        """The tuples of some columns of a table, as identities; without those that have a null."""
        chosen = [self.counts.attributes[a] for a in attributes]
        values = ", ".join(identity(a.column, f"c{a.place}") for a in chosen)
        filled = " and ".join(f"c{a.place} is not null" for a in chosen)
        return tables[chosen[0].table].where(filled).selectExpr(f"array({values}) as tuple")

    # --- in the manifest --------------------------------------------------------------------------------------

    def to_json(self) -> Record:
        status = {} if self.wide is None else self.wide.status
        return {
            "missing": _packed(self.counts.missing),
            "distinct": _packed(self.counts.distinct),
            "status": [[list(map(list, candidate)), status] for candidate, status in status.items()],
        }

    @classmethod
    def from_json(cls, record: Record, search: SearchOptions, schemas: Mapping[str, Schema]) -> FoundInclusions:
        found = cls.empty(search, schemas)
        shape = found.counts.missing.shape
        found.counts.missing = _unpacked(record["missing"]).reshape(shape)
        found.counts.distinct = _unpacked(record["distinct"])
        if found.wide is not None:
            found.wide.restore({_candidate(pairs): _restored(status) for pairs, status in record["status"]})
        return found


def _session(tables: Mapping[str, DataFrame]) -> SparkSession:
    return next(iter(tables.values())).sparkSession


def _packed(numbers: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(numbers.astype("<i8").tobytes())).decode()


def _unpacked(text: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i8").astype(np.int64)


def _candidate(pairs: list[list[int]]) -> Candidate:
    return tuple((left, right) for left, right in pairs)


def _restored(status: str | list[object]) -> Status:
    return status if isinstance(status, str) else tuple(status)
