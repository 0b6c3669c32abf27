"""Export to DQX (Databricks Labs): a list of checks for each table, in Spark SQL."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

from holdfast.exchange.contract import Contract, Files, NotNull, Unique, is_plain, shape_of, words_of
from holdfast.exchange.file_names import file_names
from holdfast.exchange.yaml_text import as_yaml, block
from holdfast.rules.rule import Ind
from holdfast.rules.rulefile import RuleEntry

_SEVERITY = {"error": "error", "warn": "warn", "info": "warn"}


def files(contract: Contract, _: str) -> Files:
    texts = {}
    names = file_names(contract.tables)
    for name, options, entries in contract.by_table():
        checks = []
        for entry in entries:
            function = _function(contract, entry, options.key)
            if function is None:
                continue
            check: dict[str, Any] = {"name": entry.id.replace("-", "_"), "criticality": _SEVERITY[entry.severity]}
            check |= {"check": {"function": function[0], "arguments": function[1]}}
            checks.append(check | {"user_metadata": {"rule": entry.rule, "sentence": words_of(entry)}})
        texts[f"{names[name]}.checks.yml"] = as_yaml(checks)
    return texts


def _function(contract: Contract, entry: RuleEntry, key: tuple[str, ...]) -> tuple[str, dict[str, Any]] | None:
    """The check function for a rule and its arguments; None if DQX cannot express the rule."""
    shape = shape_of(entry.value)
    is_plain_rule = entry.filter is None and entry.nulls == "sql"
    if is_plain_rule and isinstance(shape, NotNull):
        return "is_not_null", {"column": _quoted(shape.column)}
    if is_plain_rule and isinstance(shape, Unique):
        return "is_unique", {"columns": [_quoted(c) for c in shape.columns]}
    if is_plain_rule and isinstance(shape, Ind):
        left, right = ([_quoted(c) for c in side] for side in (shape.left, shape.right))
        return "foreign_key", {"columns": left, "ref_columns": right, "ref_table": _quoted(shape.right_table)}
    if not key:
        contract.leave_out(entry, "DQX needs the key of the table, and the table has none")
        return None
    if any(re.search(r"[.`]|^\*$", column) for column in key):
        contract.leave_out(entry, "DQX cannot join by a key column with a dot or a backtick in its name")
        return None
    names, text = ", ".join(_quoted(c) for c in key), contract.query(entry, "spark")
    if text is None:
        return None
    # a placeholder that occurs nowhere else in the query
    data = next(name for i in count() if (name := f"data{i or ''}") not in names + text)
    placeholder = f"{{{{ {data} }}}}"
    query = contract.query(entry, "spark", lambda t: placeholder if t == contract.table_of(entry) else None)
    failing = f"SELECT {names}, true AS holdfast_fails FROM ({query})"
    arguments = {"query": block(failing), "input_placeholder": data, "merge_columns": list(key)}
    return "sql_query", arguments | {"condition_column": "holdfast_fails", "msg": f"violates {entry.rule}"}


def _quoted(column: str) -> str:
    return column if is_plain(column) else f"`{column.replace('`', '``')}`"
