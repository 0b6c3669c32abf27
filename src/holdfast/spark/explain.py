"""Explains the violations of a rule on Spark, from some of the violating rows, which come to the driver."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from holdfast.rulebook import Rulebook
from holdfast.rules.rule import Ind
from holdfast.rules.rulefile import RuleEntry
from holdfast.spark.frames import cells as cells_of
from holdfast.spark.frames import places
from holdfast.table.options import TableOptions
from holdfast.violations.explain import Explanation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOOKED_AT = 1000  # violations
_ID = "#id"


def explained(
    entry: RuleEntry, count: int, listed: DataFrame, tables: dict[str, DataFrame], options: dict[str, TableOptions],
    limit: int,
) -> Explanation:  # fmt: skip
    """The explanation of the first violations: their rows are checked again in the process."""
    table = entry.value.left_table if isinstance(entry.value, Ind) else entry.value.table or next(iter(options))
    chosen = listed.limit(LOOKED_AT)
    sides = [chosen.select(F.col(side).alias("name")) for side in chosen.columns]
    names = reduce(lambda one, other: one.union(other), sides).distinct()
    rows = {name: frame.limit(0) for name, frame in tables.items()}
    key = options[table].key
    cells = places(options[table].schema, key) or ["id"]
    parts = [f"name.`{column}`" for column in key] if len(cells) > 1 else ["name"]
    matches = F.expr(" and ".join(f"{cell} <=> {part}" for cell, part in zip(cells, parts, strict=True)))
    rows[table] = tables[table].join(F.broadcast(names), matches, "left_semi")
    if isinstance(entry.value, Ind):
        rows[entry.value.right_table] = tables[entry.value.right_table].limit(0)
    data, keys = {}, {}
    for name, frame in rows.items():
        schema = options[name].schema
        values = frame.select(*(["id"] if not options[name].key else []), *cells_of(schema)).toArrow()
        values = values.rename_columns([*([_ID] if not options[name].key else []), *schema.names])
        data[name], keys[name] = values, options[name].key or (_ID,)
    with Rulebook.create(None, data, key=keys, rules=[entry], on="process") as book:
        found: Explanation = book.explain(entry.id, limit)
    return replace(found, count=count, looked_at=min(found.count, count))
