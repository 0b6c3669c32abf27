"""Export to SQL: one file with a query for the rows that violate each rule."""

from __future__ import annotations

from holdfast.exchange.contract import Contract, Files, words_of
from holdfast.exchange.file_names import file_name


def files(contract: Contract, dialect: str) -> Files:
    parts = []
    for entry in contract.entries:
        query = contract.query(entry, dialect)
        if query is not None:
            about = f"{entry.id} ({entry.severity}): {entry.rule}\n{words_of(entry)}"
            parts.append("".join(f"-- {line}\n" for line in about.splitlines()) + f"{query};\n")
    return {f"{file_name(contract.name)}.{dialect}.sql": "\n".join(parts)}
