"""Rules about single rows: columns that are never null, columns that are always ordered, ranges.

They are denial constraints of one row. For two columns, the strongest of `=`, `<`, `>`, `<=`, `>=` that hold are
reported, and nothing if no row has both values.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.indexes.rowtest import holds
from holdfast.rules.limit import most_within
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, Constant, IsNull
from holdfast.rules.rule import Dc, Rule
from holdfast.rules.ruleset import RuleSet
from holdfast.table.compare import common_codes, comparable
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.encode import decode_column
from holdfast.table.schema import Schema

_STRONGEST_FIRST = (Op.EQ, Op.LT, Op.GT, Op.LE, Op.GE)


def row_rules(
    schema: Schema,
    codes: Codes,
    nulls: str = "equal",
    max_error: float = 0.0,
    *,
    ranges: bool = False,
    table: str | None = None,
    budget: Budget | None = None,
) -> RuleSet:
    """The rules that at most `max_error` of the rows violate; with `ranges` also the least and the greatest value of
    each ordered column. If the budget runs out, those found until then, and a note in the budget. O(rows x pairs of
    ordered columns)."""
    budget = budget or Budget()
    rows = codes.shape[1]
    most = most_within(max_error, rows)
    forbidden = list(_never_null(schema, codes, most)) + list(_ordered_pairs(schema, codes, nulls, most, budget))
    forbidden += _ranges(schema, codes) if ranges else []
    rules = [Dc(frozenset({p}), table) for p, _ in forbidden] if rows else []
    ruleset = RuleSet.from_rules(rules, schema.names)
    if not max_error or not rules:
        return ruleset
    (block,) = ruleset.blocks
    errors: dict[Rule, float] = {rule: n / rows for rule, (_, n) in zip(rules, forbidden, strict=True)}
    return RuleSet.with_errors(block, np.array([errors[rule] for rule in block]))


def _never_null(schema: Schema, codes: Codes, most: int) -> Iterator[tuple[IsNull, int]]:
    """(predicate, violating rows) of each column that has at most `most` nulls."""
    for i, column in enumerate(schema.columns):
        count = int((codes[i] == NULL).sum())
        if count <= most:
            yield IsNull(Cell("t", column.name)), count


def _ordered_pairs(
    schema: Schema, codes: Codes, nulls: str, most: int, budget: Budget
) -> Iterator[tuple[Compare, int]]:
    """(predicate, violating rows) of each comparison of two ordered columns that at most `most` rows satisfy."""
    ordered = [i for i, column in enumerate(schema.columns) if column.kind.ordered]
    for a, b in combinations(ordered, 2):
        if budget.spent():
            budget.skip("rules about single rows: not all pairs of columns were compared")
            return
        first, second = schema.columns[a], schema.columns[b]
        if not comparable(first, second) or not (codes[[a, b]] != NULL).all(axis=0).any():
            continue
        compared, holding = common_codes(first, codes[a], second, codes[b]), list[Op]()
        for op in _STRONGEST_FIRST:
            if any(stronger.implies(op) for stronger in holding):
                continue
            count = int(np.count_nonzero(holds(op.inverse, *compared, nulls)))
            if count <= most:
                holding.append(op)
                yield Compare(Cell("t", first.name), op.inverse, Cell("t", second.name)), count


def _ranges(schema: Schema, codes: Codes) -> Iterator[tuple[Compare, int]]:
    """Predicates that no row satisfies: below the least value, above the greatest value."""
    for i, column in enumerate(schema.columns):
        values = codes[i][codes[i] != NULL]
        if column.kind.ordered and len(values):
            ends = decode_column(column, np.array([values.min(), values.max()]), TextDictionary()).to_pylist()
            if any(value != value for value in ends):
                continue  # NaN: rules have no literal for it
            for op, value in zip((Op.LT, Op.GT), ends, strict=True):
                yield Compare(Cell("t", column.name), op, Constant.of(value)), 0
