"""dbt: its own tests in schema.yml where it has them (unique, not_null, relationships), else a query in tests/."""

from __future__ import annotations

import re
from typing import Any

from holdfast.exchange.contract import Contract, Files, NotNull, Unique, shape_of, words_of
from holdfast.exchange.yaml_text import as_yaml
from holdfast.rules.rule import Ind
from holdfast.rules.rulefile import RuleEntry

_SEVERITY = {"error": "error", "warn": "warn", "info": "warn"}


def files(contract: Contract, dialect: str) -> Files:
    made: Files = {}
    models = []
    for name, options, entries in contract.by_table():
        columns: dict[str, list[Any]] = {column: [] for column in options.schema.names}
        for entry in entries:
            place, test = _generic(entry)
            if test is not None:
                columns[place].append(test)
                continue
            query = contract.query(entry, dialect, lambda table: f"{{{{ ref('{table}') }}}}")
            if query is not None:
                made[f"tests/{_file_name(entry)}.sql"] = _singular(entry, query)
        tested = [{"name": column, "data_tests": tests} for column, tests in columns.items() if tests]
        models.append({"name": name, "columns": tested} if tested else {"name": name})
    made["models/schema.yml"] = as_yaml({"version": 2, "models": models})
    return made


def _generic(entry: RuleEntry) -> tuple[str, Any]:
    """The column and the test that dbt has for a rule."""
    shape = shape_of(entry.value)
    config: dict[str, Any] = {"name": _file_name(entry), "config": {"severity": _SEVERITY[entry.severity]}}
    if entry.filter is not None or entry.nulls != "sql":
        return "", None
    if isinstance(shape, NotNull):
        return shape.column, {"not_null": config}
    if isinstance(shape, Unique) and len(shape.columns) == 1:
        return shape.columns[0], {"unique": config}
    if isinstance(shape, Ind) and len(shape.left) == 1:
        target = {"to": f"ref('{shape.right_table}')", "field": shape.right[0]}
        return shape.left[0], {"relationships": target | config}
    return "", None


def _singular(entry: RuleEntry, query: str) -> str:
    config = f"{{{{ config(severity='{_SEVERITY[entry.severity]}') }}}}"
    words = words_of(entry).replace("#}", "# }")
    return f"{config}\n{{# {words} #}}\n{query}\n"


def _file_name(entry: RuleEntry) -> str:
    return re.sub(r"\W", "_", f"holdfast_{entry.id}")
