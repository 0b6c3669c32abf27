"""Evaluates predicates on the codes of rows or pairs of rows, under a null policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from holdfast.arrays import Flags
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, IsNull, Miscalculated, Predicate
from holdfast.table.compare import common_codes, mark
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.schema import Column, Schema

_FITS = 2**63


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
    if isinstance(predicate, Miscalculated):
        return _miscalculated(predicate, [schema.column(cell.column) for cell in predicate.cells], cells)
    if isinstance(predicate.right, Cell):
        columns = [schema.column(cell.column) for cell in predicate.cells]
        return holds(predicate.op, *common_codes(columns[0], cells[0], columns[1], cells[1]), nulls)
    return _holds_with_constant(predicate, schema, cells[0], dictionary, nulls)


def _miscalculated(predicate: Miscalculated, columns: Sequence[Column], cells: Sequence[Codes]) -> Flags:
    """Where a number is not what the formula gives, exactly: in 64 bits, or as Python integers if these are too few."""
    filled = np.flatnonzero(np.all([codes != NULL for codes in cells], axis=0))
    numbers, scales = [codes[filled] for codes in cells], [column.scale for column in columns]
    is_sum = predicate.formula.op == "+"
    if is_sum:
        factors = [10 ** (max(scales) - scale) for scale in scales]
    else:
        places = scales[1] + scales[2]
        factors = [10 ** max(places - scales[0], 0), 10 ** max(scales[0] - places, 0), 1]
    most = [max(int(np.abs(n).max(initial=0)), 1) * factor for n, factor in zip(numbers, factors, strict=True)]
    if max(most[0], most[1] + most[2] if is_sum else most[1] * most[2]) >= _FITS:
        numbers = [n.astype(object) for n in numbers]
    result, left, right = (n * factor for n, factor in zip(numbers, factors, strict=True))
    wrong = np.zeros(len(cells[0]), bool)
    wrong[filled] = (result != (left + right if is_sum else left * right)).astype(bool)
    return wrong


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
