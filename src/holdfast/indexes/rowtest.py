"""Evaluates predicates on the codes of rows or pairs of rows, under a null policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from holdfast.arrays import Flags
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, IsNull, Predicate
from holdfast.table.compare import common_codes, mark
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.schema import Schema


def rows_that_satisfy(
    predicates: Iterable[Predicate], schema: Schema, codes: Codes, dictionary: TextDictionary, nulls: str
) -> Flags:
    """Rows of codes[column, row] that satisfy all predicates, with t and s both standing for the row. O(rows)."""
    return pairs_that_satisfy(predicates, schema, {"t": codes, "s": codes}, dictionary, nulls)


def pairs_that_satisfy(
    predicates: Iterable[Predicate], schema: Schema, codes: Mapping[str, Codes], dictionary: TextDictionary, nulls: str
) -> Flags:
    """Pairs of rows that satisfy all predicates. Pair i is row i of codes["t"] and row i of codes["s"]. O(pairs)."""
    satisfied = np.ones(codes["t"].shape[1], dtype=bool)
    for predicate in predicates:
        satisfied &= _satisfies(predicate, schema, codes, dictionary, nulls)
    return satisfied


def _satisfies(
    predicate: Predicate, schema: Schema, codes: Mapping[str, Codes], dictionary: TextDictionary, nulls: str
) -> Flags:
    cells = [codes[cell.row][schema.position(cell.column)] for cell in predicate.cells]
    if isinstance(predicate, IsNull):
        is_null: Flags = cells[0] == NULL
        return ~is_null if predicate.negated else is_null
    if isinstance(predicate.right, Cell):
        columns = [schema.column(cell.column) for cell in predicate.cells]
        return holds(predicate.op, *common_codes(columns[0], cells[0], columns[1], cells[1]), nulls)
    return _holds_with_constant(predicate, schema, cells[0], dictionary, nulls)


def _holds_with_constant(
    predicate: Compare, schema: Schema, left: Codes, dictionary: TextDictionary, nulls: str
) -> Flags:
    """Compares a column with a constant. A constant between two codes is given by the code below it."""
    assert not isinstance(predicate.right, Cell)
    constant = mark(schema.column(predicate.left.column), predicate.right.value, dictionary)
    not_null = left != NULL
    null_differs = ~not_null if predicate.op is Op.NE and nulls != "sql" else np.zeros(len(left), dtype=bool)
    if constant.exact:
        return np.asarray((not_null & _compare(predicate.op, left, np.int64(constant.code))) | null_differs)
    if predicate.op in (Op.EQ, Op.NE):
        return np.asarray((not_null & (predicate.op is Op.NE)) | null_differs)
    below = predicate.op in (Op.LT, Op.LE)
    return np.asarray(not_null & ((left <= constant.code) if below else (left > constant.code)))


def holds(op: Op, left: Codes, right: Codes, nulls: str) -> Flags:
    """Whether `left op right`, value by value, under a null policy."""
    left_null, right_null = left == NULL, right == NULL
    any_null, both_null = left_null | right_null, left_null & right_null
    values_hold = _compare(op, left, right) & ~any_null
    if nulls == "equal":
        if op is Op.NE:
            return np.asarray(values_hold | (any_null & ~both_null))
        return np.asarray(values_hold | both_null) if op in (Op.EQ, Op.LE, Op.GE) else values_hold
    return np.asarray(values_hold | any_null) if nulls == "distinct" and op is Op.NE else values_hold


def _compare(op: Op, left: Codes, right: Codes | np.int64) -> Flags:
    return np.asarray(_COMPARE[op](left, right))


_COMPARE = {
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
}
