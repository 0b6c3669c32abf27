"""Soda: a data contract (version 4) for each table."""

from __future__ import annotations

from typing import Any

from holdfast.exchange.contract import Contract, Files, NotNull, Unique, shape_of, words_of
from holdfast.exchange.yaml_text import as_yaml, block
from holdfast.rules.rulefile import RuleEntry

_LEVEL = {"error": "fail", "warn": "warn", "info": "warn"}


def files(contract: Contract, dialect: str) -> Files:
    made = {}
    for name, options, entries in contract.by_table():
        columns: dict[str, list[Any]] = {column: [] for column in options.schema.names}
        checks: list[Any] = []
        for entry in entries:
            shape, about = shape_of(entry.value), _about(entry)
            plain = entry.filter is None and entry.nulls == "sql"
            if plain and isinstance(shape, NotNull):
                columns[shape.column].append({"missing": about})
            elif plain and isinstance(shape, Unique) and len(shape.columns) == 1:
                columns[shape.columns[0]].append({"duplicate": about})
            else:
                query = contract.query(entry, dialect)
                if query is not None:
                    checks.append({"failed_rows": about | {"query": block(query)}})
        listed = [{"name": column} | ({"checks": some} if some else {}) for column, some in columns.items()]
        document: dict[str, Any] = {"dataset": f"holdfast/main/{name}", "columns": listed}
        made[f"{name}.contract.yml"] = as_yaml(document | ({"checks": checks} if checks else {}))
    return made


def _about(entry: RuleEntry) -> dict[str, Any]:
    about: dict[str, Any] = {"name": words_of(entry), "qualifier": entry.id.replace("-", "_")}
    return about | ({"threshold": {"level": _LEVEL[entry.severity]}} if entry.severity != "error" else {})
