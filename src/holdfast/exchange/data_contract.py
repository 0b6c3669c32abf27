"""Export to the Open Data Contract Standard (ODCS) 3: tables with columns, keys, foreign keys and checks."""

from __future__ import annotations

from typing import Any

from holdfast.exchange.contract import Contract, Files, NotNull, Unique, is_plain, shape_of, words_of
from holdfast.exchange.file_names import file_name
from holdfast.exchange.yaml_text import as_yaml, block
from holdfast.rules.rule import Ind, Key
from holdfast.rules.rulefile import RuleEntry
from holdfast.table.kind import Kind
from holdfast.table.options import TableOptions

VERSION = "v3.1.0"
_LOGICAL = {
    Kind.INTEGER: "integer",
    Kind.DECIMAL: "number",
    Kind.FLOAT: "number",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.BOOLEAN: "boolean",
    Kind.TEXT: "string",
}
_SEVERITY = {"error": "error", "warn": "warning", "info": "info"}


def files(contract: Contract, dialect: str) -> Files:
    tables = [_table(contract, *part, dialect) for part in contract.by_table()]
    document = {"apiVersion": VERSION, "kind": "DataContract", "id": f"holdfast-{contract.name}", "version": "1.0.0"}
    document |= {"name": contract.name, "status": "active"}
    return {f"{file_name(contract.name)}.odcs.yaml": as_yaml(document | {"schema": tables})}


def _table(contract: Contract, name: str, options: TableOptions, entries: list[RuleEntry], dialect: str) -> Any:
    shapes = {entry.id: shape_of(entry.value) for entry in entries if entry.filter is None and entry.nulls == "sql"}
    required = {s.column for s in shapes.values() if isinstance(s, NotNull)}
    unique = {s.columns[0] for s in shapes.values() if isinstance(s, Unique) and len(s.columns) == 1}
    columns = []
    for column in options.schema.columns:
        described: dict[str, Any] = {
            "name": column.name,
            "logicalType": _LOGICAL[column.kind],
            "physicalType": column.type_text,
        }
        if column.name in options.key:
            described |= {"primaryKey": True, "primaryKeyPosition": options.key.index(column.name) + 1}
        described |= {"required": True} if column.name in required else {}
        described |= {"unique": True} if column.name in unique else {}
        columns.append(described)
    table: dict[str, Any] = {"name": name, "physicalType": "table", "properties": columns}
    references = [_reference(s) for s in shapes.values() if isinstance(s, Ind) and _is_plain(s)]
    checks = [check for entry in entries if (check := _check(contract, entry, dialect)) is not None]
    table |= {"relationships": references} if references else {}
    return table | ({"quality": checks} if checks else {})


def _reference(rule: Ind) -> dict[str, Any]:
    left = [f"{rule.left_table}.{column}" for column in rule.left]
    right = [f"{rule.right_table}.{column}" for column in rule.right]
    return {"type": "foreignKey"} | (
        {"from": left[0], "to": right[0]} if len(left) == 1 else {"from": left, "to": right}
    )


def _is_plain(rule: Ind) -> bool:
    """Whether `table.column` is unambiguous for all names. The check of the rule is exported in any case."""
    return all(map(is_plain, [rule.left_table, rule.right_table, *rule.left, *rule.right]))


def _check(contract: Contract, entry: RuleEntry, dialect: str) -> dict[str, Any] | None:
    query = contract.query(entry, dialect)
    if query is None:
        return None
    if "{" in query:
        contract.leave_out(entry, "readers of a data contract replace {...} in a query")
        return None
    check: dict[str, Any] = {"name": entry.id, "description": words_of(entry), "type": "sql"}
    check |= {"dimension": "uniqueness" if isinstance(entry.value, Key) else "consistency"}
    check |= {"severity": _SEVERITY[entry.severity]}
    return check | {"query": block(f"SELECT COUNT(*) FROM ({query}) AS failing"), "mustBe": 0}
