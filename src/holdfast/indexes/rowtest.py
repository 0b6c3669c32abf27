"""Predicates on single rows, over codes: filters of roles and rules about one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, IsNull, Predicate
from holdfast.table.compare import common_codes, mark
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.schema import Schema

Mask = npt.NDArray[np.bool_]


def rows_that_satisfy(
    predicates: Iterable[Predicate], schema: Schema, codes: Codes, dictionary: TextDictionary, nulls: str
) -> Mask:
    """Which rows of codes[column, row] satisfy all predicates, whichever of t and s they speak of. O(rows)."""
    return pairs_that_satisfy(predicates, schema, {"t": codes, "s": codes}, dictionary, nulls)


def pairs_that_satisfy(
    predicates: Iterable[Predicate], schema: Schema, codes: Mapping[str, Codes], dictionary: TextDictionary, nulls: str
) -> Mask:
    """The same of pairs of rows, given by the codes of t and of s, as many of each. O(pairs)."""
    kept = np.ones(codes["t"].shape[1], dtype=bool)
    for predicate in predicates:
        kept &= _satisfies(predicate, schema, codes, dictionary, nulls)
    return kept


def _satisfies(
    predicate: Predicate, schema: Schema, codes: Mapping[str, Codes], dictionary: TextDictionary, nulls: str
) -> Mask:
    cells = [codes[cell.row][schema.position(cell.column)] for cell in predicate.cells]
    if isinstance(predicate, IsNull):
        null: Mask = cells[0] == NULL
        return ~null if predicate.negated else null
    if isinstance(predicate.right, Cell):
        columns = [schema.column(cell.column) for cell in predicate.cells]
        return holds(predicate.op, *common_codes(columns[0], cells[0], columns[1], cells[1]), nulls)
    return _with_constant(predicate, schema, cells[0], dictionary, nulls)


def _with_constant(predicate: Compare, schema: Schema, left: Codes, dictionary: TextDictionary, nulls: str) -> Mask:
    assert not isinstance(predicate.right, Cell)
    place = mark(schema.column(predicate.left.column), predicate.right.value, dictionary)
    known = left != NULL
    missing = ~known if predicate.op is Op.NE and nulls != "sql" else np.zeros(len(left), dtype=bool)
    if place.exact:
        return np.asarray((known & _compare(predicate.op, left, np.int64(place.code))) | missing)
    if predicate.op in (Op.EQ, Op.NE):
        return np.asarray((known & (predicate.op is Op.NE)) | missing)
    below = predicate.op in (Op.LT, Op.LE)
    return np.asarray(known & ((left <= place.code) if below else (left > place.code)))


def holds(op: Op, left: Codes, right: Codes, nulls: str) -> Mask:
    """left op right under a null policy, value by value."""
    left_null, right_null = left == NULL, right == NULL
    some, both = left_null | right_null, left_null & right_null
    found = _compare(op, left, right) & ~some
    if nulls == "equal":
        also = some & ~both if op is Op.NE else both if op in (Op.EQ, Op.LE, Op.GE) else np.zeros_like(both)
        return np.asarray(found | also)
    return np.asarray(found | some) if nulls == "distinct" and op is Op.NE else found


def _compare(op: Op, left: Codes, right: Codes | np.int64) -> Mask:
    return np.asarray(_COMPARE[op](left, right))


_COMPARE = {
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
}
