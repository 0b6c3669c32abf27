"""Export to Great Expectations: a suite for each table, for SQL data sources."""

from __future__ import annotations

import json
import re
from typing import Any

from holdfast.exchange.contract import Below, Between, Contract, Files, NotNull, Unique, shape_of, words_of
from holdfast.exchange.file_names import file_names
from holdfast.plain_text import plain_json
from holdfast.rules.operator import Op
from holdfast.rules.rulefile import RuleEntry

_COMPOUND = "expect_compound_columns_to_be_unique"
_GREATER = "expect_column_pair_values_a_to_be_greater_than_b"
_PARAMETER = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")  # the pattern of SQLAlchemy's text()
_ESCAPED = re.compile(r"\\(:[\w$]*)(?![:\w$])")
_SEVERITY = {"error": "critical", "warn": "warning", "info": "info"}


def files(contract: Contract, dialect: str) -> Files:
    texts = {}
    names = file_names(contract.tables)
    for name, _, entries in contract.by_table():
        expectations = [e for entry in entries if (e := _expectation(contract, entry, dialect)) is not None]
        suite = {"name": f"{contract.name}_{name}", "expectations": expectations, "meta": {"made_by": "holdfast"}}
        texts[f"{names[name]}.suite.json"] = plain_json(json.dumps(suite, indent=2, ensure_ascii=False)) + "\n"
    return texts


def _expectation(contract: Contract, entry: RuleEntry, dialect: str) -> dict[str, Any] | None:
    type_, arguments = _simple(entry)
    if type_ is None:
        query = contract.query(entry, dialect, lambda table: _batch(contract, entry, table), _doubled)
        query = query if query is None or dialect == "spark" else _without_parameters(query)
        if query is None:
            contract.leave_out(entry, "a query of Great Expectations cannot express it")
            return None
        type_, arguments = "unexpected_rows_expectation", {"unexpected_rows_query": query}
    meta = {"holdfast_id": entry.id, "rule": entry.rule, "notes": words_of(entry)}
    return {"type": type_, "kwargs": arguments, "meta": meta, "severity": _SEVERITY[entry.severity]}


def _batch(contract: Contract, entry: RuleEntry, table: str) -> str | None:
    """The placeholder for the table of the suite; other tables keep their names."""
    return "{batch}" if table == contract.table_of(entry) else None


def _doubled(text: str) -> str:
    """Doubles braces, because Great Expectations formats the query."""
    return text.replace("{", "{{").replace("}", "}}")


def _without_parameters(query: str) -> str | None:
    """Escapes a query so that SQLAlchemy finds no parameter such as :name in it; None if that is impossible."""
    escaped = re.sub(r"(?<![:\w\\]):(?=\w+(?!:))|(?<=\\):", r"\:", query)
    return escaped if not _PARAMETER.search(escaped) and _ESCAPED.sub(r"\1", escaped) == query else None


def _simple(entry: RuleEntry) -> tuple[str | None, dict[str, Any]]:
    """The built-in expectation for a rule and its arguments; None if there is none."""
    shape = shape_of(entry.value)
    if entry.filter is not None or entry.nulls != "sql":
        return None, {}
    if isinstance(shape, NotNull):
        return "expect_column_values_to_not_be_null", {"column": shape.column}
    if isinstance(shape, Unique) and len(shape.columns) == 1:
        return "expect_column_values_to_be_unique", {"column": shape.columns[0]}
    if isinstance(shape, Unique):
        return _COMPOUND, {"column_list": list(shape.columns), "ignore_row_if": "any_value_is_missing"}
    if isinstance(shape, Below):
        columns = {"column_A": shape.larger, "column_B": shape.smaller}
        return _GREATER, columns | {"or_equal": not shape.strictly, "ignore_row_if": "either_value_is_missing"}
    if isinstance(shape, Between) and shape.value.kind == "number":
        side = "min" if shape.never in (Op.LT, Op.LE) else "max"
        strictly = shape.never in (Op.LE, Op.GE)
        limits = {f"{side}_value": float(str(shape.value)), f"strict_{side}": strictly}
        return "expect_column_values_to_be_between", {"column": shape.column} | limits
    return None, {}
