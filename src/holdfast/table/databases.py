"""Reads a table of a SQLite or DuckDB file: `shop.db::orders`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.errors import NotAvailable, ReadError, detail, shown
from holdfast.table.schema import unknown_name

SEPARATOR = "::"
_TABLES = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
_SQLITE = b"SQLite format 3\x00"


def is_in_database(text: str) -> bool:
    """Whether a text names a table of a database file, and not a file with such a name."""
    return SEPARATOR in text and not Path(text).exists()


def table_of(text: str) -> str:
    """The name of the table."""
    return text.rpartition(SEPARATOR)[2]


def read_from_database(text: str) -> pa.Table:
    """All rows of a table."""
    place, _, table = text.rpartition(SEPARATOR)
    path = Path(place)
    if not path.is_file():
        raise ReadError(f"{path}: there is no such file")
    with path.open("rb") as file:
        is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    return _from_sqlite(path, table) if is_sqlite else _from_duckdb(path, table)


def _from_sqlite(path: Path, table: str) -> pa.Table:
    import sqlite3

    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        known = [name for (name,) in connection.execute(_TABLES)]
        if table not in known:
            raise ReadError(f"{path}: {unknown_name('table', table, known)}")
        quoted = table.replace('"', '""')
        rows = connection.execute(f'SELECT * FROM "{quoted}"')
        names, values = [column[0] for column in rows.description], list(zip(*rows, strict=True))
    except sqlite3.Error as error:
        raise ReadError(f"{path}: {detail(error)}") from error
    finally:
        connection.close()
    return pa.table({name: _column(path, name, values[i] if values else ()) for i, name in enumerate(names)})


def _column(path: Path, name: str, values: tuple[object, ...]) -> pa.Array:
    """A column of SQLite, whose values may be of several kinds: then it is text."""
    try:
        return pa.array(values, None if any(value is not None for value in values) else pa.string())
    except (pa.ArrowException, OverflowError):
        if any(isinstance(value, bytes) for value in values):
            raise ReadError(f"{path}: column {shown(name)} has values of bytes, which cannot be compared") from None
        return pa.array([None if value is None else str(value) for value in values])


def _from_duckdb(path: Path, table: str) -> pa.Table:
    try:
        import duckdb
    except ImportError:
        raise NotAvailable(f"{path} is no SQLite file; for a DuckDB file: pip install duckdb") from None
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            return connection.table(_quoted(connection, table)).to_arrow_table()
    except duckdb.Error as error:
        raise ReadError(f"{path}: {detail(error)}") from error


def _quoted(connection: Any, table: str) -> str:
    """The name of a table for DuckDB; `schema.table` where there is no table of that name."""
    names = {name for (name,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()}
    parts = [table] if table in names else table.split(".")
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)
