"""Rules as JSON records, for programs that do not parse rule text."""

from __future__ import annotations

from typing import Any

from holdfast.errors import RuleError, shown
from holdfast.rules.grammar import parse
from holdfast.rules.names import Rank, by_name
from holdfast.rules.predicate import Cell, Constant, IsNull, Miscalculated, Predicate
from holdfast.rules.rule import Calculation, Fd, Ind, Key, Marked, Order, Rule

Record = dict[str, Any]


def to_json(rule: Rule, rank: Rank = by_name) -> Record:
    """A record with the id, kind, table and text of a rule, and its parts.

    >>> from_json(to_json(parse("zip -> city"))) == parse("zip -> city")
    True
    """
    head = {"id": rule.id, "kind": rule.kind, "table": rule.table, "text": rule.text(rank)}
    return head | _parts(rule, rank)


def from_json(record: Record) -> Rule:
    """The rule of a record, parsed from its text; the other fields are ignored."""
    if not isinstance(record, dict) or "text" not in record:
        raise RuleError(f"a rule in JSON is an object with at least `text`, not {shown(record)}")
    return parse(record["text"])


def _parts(rule: Rule, rank: Rank) -> Record:
    if isinstance(rule, Key):
        return {"columns": sorted(rule.columns, key=rank)}
    if isinstance(rule, Fd):
        return {"left": sorted(rule.left, key=rank), "right": rule.right}
    if isinstance(rule, Ind):
        left = {"table": rule.left_table, "columns": list(rule.left)}
        return {"left": left, "right": {"table": rule.right_table, "columns": list(rule.right)}}
    if isinstance(rule, Order):
        marks = sorted(rule.left, key=lambda m: rank(m.column))
        return {"left": [_marked(m) for m in marks], "right": _marked(rule.right)}
    if isinstance(rule, Calculation):
        operands = sorted((rule.formula.left, rule.formula.right), key=rank)
        return {"result": rule.result, "op": rule.formula.op, "operands": operands}
    return {"predicates": [_predicate(p) for p in sorted(rule.predicates, key=lambda p: p.sort_key(rank))]}


def _marked(mark: Marked) -> Record:
    return {"column": mark.column, "op": str(mark.op)}


def _predicate(predicate: Predicate) -> Record:
    if isinstance(predicate, IsNull):
        return {"left": _operand(predicate.cell), "op": "is not null" if predicate.negated else "is null"}
    if isinstance(predicate, Miscalculated):
        return {"left": _operand(predicate.result), "op": "!=", "right": {"formula": predicate.formula.text()}}
    return {"left": _operand(predicate.left), "op": str(predicate.op), "right": _operand(predicate.right)}


def _operand(operand: Cell | Constant) -> Record:
    if isinstance(operand, Cell):
        return {"row": operand.row, "column": operand.column}
    return {"literal": str(operand)}
