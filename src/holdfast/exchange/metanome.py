"""Export to the result files of Metanome: a file for each kind of rule, with a JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast.exchange.contract import Contract, Files
from holdfast.exchange.file_names import file_name
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, Constant
from holdfast.rules.rule import Calculation, Dc, Fd, Ind, Key, Order
from holdfast.rules.rulefile import RuleEntry

_FILE_ENDINGS = {"key": "uccs", "fd": "fds", "ind": "inds", "order": "ods", "dc": "dcs"}
_PACKAGE = "de.metanome.algorithm_integration"
_OPERATORS = {
    Op.EQ: "EQUAL",
    Op.NE: "UNEQUAL",
    Op.LT: "LESS",
    Op.LE: "LESS_EQUAL",
    Op.GT: "GREATER",
    Op.GE: "GREATER_EQUAL",
}


def files(contract: Contract, _: str) -> Files:
    lines_of: dict[str, list[str]] = {}
    for entry in contract.entries:
        result = _result(contract, entry)
        if result is not None:
            name = f"{file_name(contract.name)}_{_FILE_ENDINGS[entry.value.kind]}.json"
            lines_of.setdefault(name, []).append(json.dumps(result))
    return {name: "\n".join(lines) + "\n" for name, lines in lines_of.items()}


def _result(contract: Contract, entry: RuleEntry) -> dict[str, Any] | None:
    rule, table = entry.value, contract.table_of(entry)
    if entry.filter is not None:
        contract.leave_out(entry, f"Metanome's results are about all rows, not only those with {entry.filter}")
        return None
    if isinstance(rule, Key):
        return {"type": "UniqueColumnCombination", "columnCombination": _combination(table, sorted(rule.columns))}
    if isinstance(rule, Fd):
        ends = {"determinant": _combination(table, sorted(rule.left)), "dependant": _column(table, rule.right)}
        return {"type": "FunctionalDependency"} | ends
    if isinstance(rule, Ind):
        sides = {"dependant": _combination(table, rule.left), "referenced": _combination(rule.right_table, rule.right)}
        return {"type": "InclusionDependency"} | sides
    if isinstance(rule, Order):
        contract.leave_out(entry, "Metanome's order dependencies have no direction for each column")
        return None
    if isinstance(rule, Calculation):
        contract.leave_out(entry, "Metanome has no formulas")
        return None
    return _denial(contract, entry, rule, table)


def _denial(contract: Contract, entry: RuleEntry, rule: Dc, table: str) -> dict[str, Any] | None:
    predicates = []
    for predicate in sorted(rule.predicates, key=str):
        if not isinstance(predicate, Compare):
            contract.leave_out(entry, "Metanome has no tests for null")
            return None
        predicates.append(_predicate(predicate, table))
    return {"type": "DenialConstraint", "predicates": predicates}


def _predicate(predicate: Compare, table: str) -> dict[str, Any]:
    left: dict[str, Any] = {"op": _OPERATORS[predicate.op], "index1": _row(predicate.left)}
    left |= {"column1": _column(table, predicate.left.column)}
    if isinstance(predicate.right, Constant):
        return {"type": f"{_PACKAGE}.PredicateConstant"} | left | {"constant": str(predicate.right)}
    right = {"index2": _row(predicate.right), "column2": _column(table, predicate.right.column)}
    return {"type": f"{_PACKAGE}.PredicateVariable"} | left | right


def _row(cell: Cell) -> int:
    return 0 if cell.row == "t" else 1


def _column(table: str, column: str) -> dict[str, str]:
    return {"tableIdentifier": table, "columnIdentifier": column}


def _combination(table: str, columns: Sequence[str]) -> dict[str, Any]:
    return {"columnIdentifiers": [_column(table, column) for column in columns]}
