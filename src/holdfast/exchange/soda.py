"""Export to Soda: a data contract (version 4) for each table.

Soda substitutes a variable for `${` in any text of a contract, and has no escape for it. Rules and columns with `${` in
a name are left out.
"""

from __future__ import annotations

from typing import Any

from holdfast.exchange.contract import Contract, Files, NotNull, Unique, shape_of, words_of
from holdfast.exchange.file_names import file_names
from holdfast.exchange.yaml_text import as_yaml, block
from holdfast.rules.rulefile import RuleEntry

_VARIABLE = "${"
_LEVEL = {"error": "fail", "warn": "warn", "info": "warn"}


def files(contract: Contract, dialect: str) -> Files:
    texts = {}
    names = file_names(contract.tables)
    for name, options, entries in contract.by_table():
        if "/" in name or _VARIABLE in name:
            contract.dropped.append(f"{name}: the whole table: Soda cannot name one with / or {_VARIABLE} in its name")
            continue
        columns: dict[str, list[Any]] = {column: [] for column in options.schema.names if _VARIABLE not in column}
        checks: list[Any] = []
        for entry in entries:
            shape, about = shape_of(entry.value), _about(entry)
            is_plain_rule = entry.filter is None and entry.nulls == "sql"
            if is_plain_rule and isinstance(shape, NotNull) and shape.column in columns:
                columns[shape.column].append({"missing": about})
            elif (
                is_plain_rule and isinstance(shape, Unique) and len(shape.columns) == 1 and shape.columns[0] in columns
            ):
                columns[shape.columns[0]].append({"duplicate": about})
            else:
                query = contract.query(entry, dialect)
                if query is not None and _VARIABLE in query:
                    contract.leave_out(entry, f"Soda would replace {_VARIABLE} in it")
                elif query is not None:
                    checks.append({"failed_rows": about | {"query": block(query)}})
        listed = [{"name": column} | ({"checks": tests} if tests else {}) for column, tests in columns.items()]
        document: dict[str, Any] = {"dataset": f"holdfast/main/{name}", "columns": listed}
        texts[f"{names[name]}.contract.yml"] = as_yaml(document | ({"checks": checks} if checks else {}))
    return texts


def _about(entry: RuleEntry) -> dict[str, Any]:
    about: dict[str, Any] = {"name": words_of(entry).replace(_VARIABLE, "$ {"), "qualifier": entry.id.replace("-", "_")}
    return about | ({"threshold": {"level": _LEVEL[entry.severity]}} if entry.severity != "error" else {})
