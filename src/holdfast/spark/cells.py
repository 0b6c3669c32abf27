"""The cells of tables on Spark: how often each column has each value. A state for the inclusions that are found.

(kind, value, attribute, n): the kind group of the column, the identity of the value, the number of the column in the
database, and a signed count. The attributes of a value are its cluster; clusters are bits in 64-bit words, and only
clusters and their sizes come to the driver. A batch changes the values of its changed cells only (incremental S-INDD,
Example 4.11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from holdfast.discovery.ind.cells import Gains
from holdfast.discovery.ind.counts import Attribute, group_number
from holdfast.rules.masks import Masks, Numbers, words_for
from holdfast.spark.identity import identity
from holdfast.spark.state_files import union
from holdfast.spark.upkeep import total, touched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELLS = "cells"  # the name of the state
CELL = ["kind", "value", "attribute"]
_VALUE = ["kind", "value"]


class MovedValues(NamedTuple):
    """Values that a batch moved from one cluster to another: how many, and one of them."""

    before: Masks
    after: Masks
    counts: Numbers
    values: list[str]

    def gains(self) -> Gains:
        """By how many values each cluster grows."""
        return Gains(np.concatenate([self.before, self.after]), np.concatenate([-self.counts, self.counts]))


def cells_of(attributes: Sequence[Attribute], tables: Mapping[str, DataFrame]) -> DataFrame:
    """The cells of all rows of these tables. One shuffle of the values."""
    parts = []
    for name, rows in tables.items():
        present = [_cell(number, a, f"c{a.place}", "1") for number, a in enumerate(attributes) if a.table == name]
        parts.append(_inlined(rows, present))
    return total(union(parts), CELL)


def change_of_cells(attributes: Sequence[Attribute], moves: Mapping[str, DataFrame]) -> DataFrame:
    """What moves add to the cells: signed, and not summed. Cells that a move does not change are left out."""
    parts = []
    for name, moved in moves.items():
        ends = []
        for number, attribute in enumerate(attributes):
            if attribute.table == name:
                old, new = f"old_c{attribute.place}", f"new_c{attribute.place}"
                stays = f"existed and remains and {old} <=> {new}"
                ends.append(_cell(number, attribute, f"if(existed and not ({stays}), {old}, null)", "-1"))
                ends.append(_cell(number, attribute, f"if(remains and not ({stays}), {new}, null)", "1"))
        parts.append(_inlined(moved, ends))
    return union(parts)


def _inlined(frame: DataFrame, cells: Iterable[str]) -> DataFrame:
    return frame.selectExpr(f"inline(array({', '.join(cells)}))").where("value is not null")


def _cell(number: int, attribute: Attribute, cell: str, n: str) -> str:
    kind, value = group_number(attribute.column, as_text=False), identity(attribute.column, cell)
    return f"named_struct('kind', {kind}, 'value', {value}, 'attribute', {number}, 'n', cast({n} as bigint))"


def _words(count: int, name: str, present: str) -> list[str]:
    """SQL for the cluster of a value as 64-bit words: the attributes of the cells that are present."""
    return [
        f"coalesce(bit_or(case when {present} and attribute div 64 = {word} then shiftleft(1L, attribute % 64) end), "
        f"0L) as {name}{word}"
        for word in range(words_for(count))
    ]


def clusters(cells: DataFrame, attributes: int) -> Gains:
    """The clusters of all values, and their sizes."""
    words = [f"w{word}" for word in range(words_for(attributes))]
    by_value = _aggregated(cells, _VALUE, _words(attributes, "w", "true"))
    sizes = _aggregated(by_value, words, ["count(*) as values"]).toArrow()
    return Gains(_masks(sizes, words), sizes.column("values").to_numpy())


def moved_values(before: DataFrame, change: DataFrame, attributes: int, *, many: bool) -> MovedValues:
    """The values whose cluster a change moves. `before`: the cells before it, signed and not summed. Reads the touched
    values, and brings the pairs of clusters to the driver."""
    names = {end: [f"{end}{word}" for word in range(words_for(attributes))] for end in ("old", "new")}
    known = touched(before, change, _VALUE, many).selectExpr(*CELL, "n", "0L as dn")
    both = union([known, change.selectExpr(*CELL, "0L as n", "n as dn")])
    summed = _aggregated(both, CELL, ["sum(n) as n", "sum(dn) as dn"])
    ends = [*_words(attributes, "old", "n > 0"), *_words(attributes, "new", "n + dn > 0")]
    moved = _aggregated(summed, _VALUE, ends).where(
        " or ".join(f"{old} != {new}" for old, new in zip(names["old"], names["new"], strict=True))
    )
    columns = [*names["old"], *names["new"]]
    found = _aggregated(moved, columns, ["count(*) as values", "min(value) as value"]).toArrow()
    old, new = (_masks(found, names[end]) for end in ("old", "new"))
    return MovedValues(old, new, found.column("values").to_numpy(), found.column("value").to_pylist())


def changed_attributes(change: DataFrame) -> tuple[set[int], set[int]]:
    """The attributes from which a change removes cells, and those to which it adds some."""
    rows = _aggregated(change, ["attribute"], ["max(n < 0) as less", "max(n > 0) as more"]).collect()
    return {row["attribute"] for row in rows if row["less"]}, {row["attribute"] for row in rows if row["more"]}


def common_values(cells: DataFrame) -> list[tuple[int, int, int]]:
    """(A, B, n) for attributes A < B: the sum, over the values that both have, of the smaller count."""
    by_value = _aggregated(cells, _VALUE, ["collect_list(struct(attribute, n)) as owners"]).where("size(owners) > 1")
    pairs = (
        "explode(flatten(transform(owners, a -> transform(filter(owners, b -> b.attribute > a.attribute), "
        "b -> struct(a.attribute as a, b.attribute as b, least(a.n, b.n) as n))))) as pair"
    )
    shared = _aggregated(by_value.selectExpr(pairs).select("pair.*"), ["a", "b"], ["sum(n) as n"])
    return [(row["a"], row["b"], row["n"]) for row in shared.collect()]


def _aggregated(frame: DataFrame, by: list[str], numbers: list[str]) -> DataFrame:
    return frame.groupBy(by).agg(*(F.expr(number) for number in numbers))


def _masks(table: pa.Table, words: list[str]) -> Masks:
    columns = [table.column(word).to_numpy().astype(np.int64).view(np.uint64) for word in words]
    return np.ascontiguousarray(np.stack(columns, axis=1))
