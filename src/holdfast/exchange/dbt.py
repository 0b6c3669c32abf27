"""Export to dbt: its own tests in schema.yml (unique, not_null, relationships), else a query in tests/.

dbt renders both with Jinja. So schema.yml has only plain identifiers, and queries are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from holdfast.exchange.contract import Contract, Files, NotNull, Shape, Unique, is_plain, shape_of, words_of
from holdfast.exchange.file_names import file_names
from holdfast.exchange.yaml_text import as_yaml
from holdfast.rules.rule import Ind
from holdfast.rules.rulefile import RuleEntry

_SEVERITY = {"error": "error", "warn": "warn", "info": "warn"}


def files(contract: Contract, dialect: str) -> Files:
    texts: Files = {}
    models = []
    names = file_names([entry.id for entry in contract.entries], lambda id_: re.sub(r"\W", "_", f"holdfast_{id_}"))
    for name, options, entries in contract.by_table():
        columns: dict[str, list[Any]] = {column: [] for column in options.schema.names}
        for entry in entries:
            column, test = _generic(entry, name, names[entry.id])
            if test is not None:
                columns[column].append(test)
                continue
            query = contract.query(entry, dialect, lambda table: f"{{{{ ref({_literal(table)}) }}}}", _inert)
            if query is not None:
                texts[f"tests/{names[entry.id]}.sql"] = _singular(entry, query)
        tested = [{"name": column, "data_tests": tests} for column, tests in columns.items() if tests]
        if is_plain(name):
            models.append({"name": name, "columns": tested} if tested else {"name": name})
    texts["models/schema.yml"] = as_yaml({"version": 2, "models": models})
    return texts


def _generic(entry: RuleEntry, table: str, name: str) -> tuple[str, Any]:
    """The column and the dbt test for a rule; no test if dbt has none or a name is not a plain identifier."""
    shape = shape_of(entry.value)
    config: dict[str, Any] = {"name": name, "config": {"severity": _SEVERITY[entry.severity]}}
    if entry.filter is not None or entry.nulls != "sql" or not all(map(is_plain, [table, *_names(shape)])):
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


def _names(shape: Shape) -> Sequence[str]:
    if isinstance(shape, NotNull):
        return [shape.column]
    if isinstance(shape, Unique):
        return shape.columns
    return [shape.right_table, *shape.left, *shape.right] if isinstance(shape, Ind) else []


def _inert(text: str) -> str:
    """Escapes text so that Jinja renders it unchanged, line ends included."""
    return re.sub(r"[{\r]", lambda match: f"{{{{ {_literal(match[0])} }}}}", text)


def _literal(text: str) -> str:
    """A Jinja string literal, with escapes for all special characters.

    >>> print(_literal("a{{ b }}'"))
    'a\\u007b\\u007b b \\u007d\\u007d\\u0027'
    """
    return "'" + re.sub(r"[^\w .-]", lambda match: _escape(ord(match[0])), text) + "'"


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
