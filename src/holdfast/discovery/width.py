"""Limits on the number of columns, and errors that say what to do about too many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from holdfast.errors import HoldfastError, shown
from holdfast.table.schema import Schema

MAX_COLUMNS = 4096  # of a table
MAX_COMPARED = 8192  # of all tables together, for inclusions


def require_narrow(schemas: Mapping[str, Schema]) -> None:
    """Raises an error that names a table with too many columns."""
    for name, schema in schemas.items():
        if len(schema) > MAX_COLUMNS:
            raise HoldfastError(
                f"table {shown(name)} has {len(schema):,} columns, and rules are found among at most {MAX_COLUMNS:,}; "
                f"choose some with columns= (--columns), or leave some out with exclude= (--exclude)"
            )


def require_comparable(columns: int) -> None:
    """Raises an error if the tables have too many columns for inclusions."""
    if columns > MAX_COMPARED:
        raise HoldfastError(
            f"the tables have {columns:,} columns, and inclusions are found among at most {MAX_COMPARED:,}; "
            f"choose some with columns= (--columns), or leave some out with exclude= (--exclude)"
        )


@contextmanager
def within_memory(schemas: Mapping[str, Schema]) -> Iterator[None]:
    """Turns `MemoryError` into an error that says what to do."""
    try:
        yield
    except MemoryError as error:
        columns = sum(map(len, schemas.values()))
        raise HoldfastError(
            f"memory does not suffice for the rules of {columns:,} columns ({error}); choose some columns with "
            f"columns= (--columns), fewer kinds with kinds= (--kind), or smaller rules with max_size= (--max-size)"
        ) from error
