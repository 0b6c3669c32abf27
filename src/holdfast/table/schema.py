"""Columns and schemas: values that describe a table without its rows."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from holdfast.errors import SchemaError, cell, shown
from holdfast.table.kind import Kind

MAX_SCALE = 18
Refusals = dict[int, str]  # by row: why its value does not fit the column


@dataclass(frozen=True)
class Column:
    """A named column of one kind. `scale` is the number of decimal places of a decimal."""

    name: str
    kind: Kind
    scale: int = 0

    @property
    def type_text(self) -> str:
        """`decimal(2)`, `text`, ...: the form that `types=` takes."""
        return f"decimal({self.scale})" if self.kind is Kind.DECIMAL else str(self.kind)

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of decoded values of this column."""
        if self.kind is Kind.DECIMAL:
            return pa.decimal128(38, self.scale)
        return _ARROW_TYPES[self.kind]


_ARROW_TYPES = {
    Kind.INTEGER: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TEXT: pa.large_string(),
}


@dataclass(frozen=True)
class Schema:
    """The columns of a table, in order.

    >>> schema = Schema.of(zip="integer", price="decimal(2)")
    >>> schema.names, schema.position("price")
    (('zip', 'price'), 1)
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise SchemaError("a table needs at least one column")
        if len(self._positions) < len(self.columns):
            duplicate = next(n for n in self.names if self.names.count(n) > 1)
            raise SchemaError(f"column {shown(duplicate)} stands twice")

    @classmethod
    def of(cls, **types: str) -> Schema:
        return cls(tuple(column_of_type_text(name, text) for name, text in types.items()))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {column.name: i for i, column in enumerate(self.columns)}

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __len__(self) -> int:
        return len(self.columns)

    def position(self, name: str) -> int:
        """The position of a column; SchemaError with similar names if there is no such column."""
        try:
            return self._positions[name]
        except KeyError:
            raise SchemaError(unknown_name("column", name, self.names)) from None

    def positions(self, names: Iterable[str]) -> list[int]:
        """The positions of columns by their names."""
        return [self.position(name) for name in names]

    def column(self, name: str) -> Column:
        """A column by its name."""
        return self.columns[self.position(name)]

    def to_json(self) -> list[dict[str, str]]:
        """The schema as JSON values."""
        return [{"name": c.name, "type": c.type_text} for c in self.columns]

    @classmethod
    def from_json(cls, records: Sequence[dict[str, str]]) -> Schema:
        return cls(tuple(column_of_type_text(r["name"], r["type"]) for r in records))

    def arrow(self) -> pa.Schema:
        """The schema as an Arrow schema."""
        return pa.schema([(c.name, c.arrow_type) for c in self.columns])


def unknown_name(what: str, name: str, names: Sequence[str]) -> str:
    """`unknown column 'citty'; did you mean 'city'?`"""
    similar = difflib.get_close_matches(name, names, n=3)
    if similar:
        return f"unknown {what} {cell(name)}; did you mean {', '.join(map(shown, similar))}?"
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"unknown {what} {cell(name)}; there are: {listed}"


def column_of_type_text(name: str, text: str) -> Column:
    """A column from `integer`, `decimal(2)`, `text`, ...

    >>> column_of_type_text("price", "decimal(2)").scale
    2
    """
    match = re.fullmatch(r"decimal\s*\(\s*(\d+)\s*\)", text.strip())
    if match:
        scale = int(match.group(1))
        if scale > MAX_SCALE:
            raise SchemaError(f"column {shown(name)}: decimals have at most {MAX_SCALE} places, not {scale}")
        return Column(name, Kind.DECIMAL, scale)
    if text in list(Kind) and text != Kind.DECIMAL:
        return Column(name, Kind(text))
    raise SchemaError(
        f"column {shown(name)}: {shown(text)} is not a type; write one of integer, decimal(places), float, date, "
        f"timestamp, boolean, text"
    )


def type_option(name: str, type_text: str) -> str:
    """`--type a=text`: the command-line option that sets a column's type, quoted for the shell."""
    return f"`--type {shlex.quote(f'{name}={type_text}')}`"


def text_or_float(name: str) -> str:
    """Advice for a number that fits no exact kind."""
    text, float_ = type_option(name, "text"), type_option(name, "float")
    return f"read it as text with {text}, or accept rounding with {float_} (in Python: types={{{name!r}: 'text'}})"


def as_float(name: str) -> str:
    """Advice for a float in a column of another kind."""
    return f"read the column with {type_option(name, 'float')} (in Python: types={{{name!r}: 'float'}})"


def more_places(name: str, places: int) -> str:
    """Advice for a number with more decimal places than its column."""
    if places > MAX_SCALE:
        return text_or_float(name)
    wider = f"decimal({places})"
    return f"read the column with {type_option(name, wider)} (in Python: types={{{name!r}: {wider!r}}})"


def column_of_arrow(field: pa.Field) -> Column:
    """The column for an Arrow field; SchemaError if no kind fits its type."""
    name, type_ = field.name, value_type(field.type)
    if pa.types.is_integer(type_):
        return Column(name, Kind.INTEGER)
    if pa.types.is_decimal(type_):
        return column_of_type_text(name, f"decimal({type_.scale})") if type_.scale >= 0 else Column(name, Kind.INTEGER)
    for test, kind in _KIND_TESTS:
        if test(type_):
            return Column(name, kind)
    raise SchemaError(
        f"column {shown(name)} has the type {type_}, which cannot be compared; leave it out (columns=, exclude=) "
        f"or read it as text (types={{{name!r}: 'text'}})"
    )


def value_type(type_: pa.DataType) -> pa.DataType:
    """The type of the values in a dictionary (categorical) or run-end encoding."""
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return value_type(type_.value_type)
    return type_


def is_string(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


_KIND_TESTS = (
    (pa.types.is_floating, Kind.FLOAT),
    (pa.types.is_date, Kind.DATE),
    (pa.types.is_timestamp, Kind.TIMESTAMP),
    (pa.types.is_boolean, Kind.BOOLEAN),
    (is_string, Kind.TEXT),
    (pa.types.is_null, Kind.TEXT),
)
