"""The options of a table that are fixed when its rulebook is created: columns, kinds, key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict

from holdfast.errors import ReadError, SchemaError, shown
from holdfast.table.cell_forms import CellForm, in_plain_form
from holdfast.table.read import schema_of
from holdfast.table.read_path import with_plain_cells
from holdfast.table.reading import ReadAs, Reading
from holdfast.table.schema import Schema, column_of_type_text, unknown_name
from holdfast.table.source import Source

Names = str | Sequence[str]


@dataclass(frozen=True)
class TableOptions:
    """Schema and key of a table. The user chose the kind of `declared` columns and left out the `ignored` ones."""

    schema: Schema
    key: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    read_as: ReadAs | None = None  # the text file that the table was made of; change files have cells of the same form

    def with_columns(self, types: Mapping[str, str], *, declared: bool = True) -> TableOptions:
        """The options with more columns at the end. `declared`: a user chose their types."""
        for name in types:
            if name in self.schema:
                raise SchemaError(f"there is a column {name!r} already")
        columns = (*self.schema.columns, *(column_of_type_text(name, text) for name, text in types.items()))
        ignored = tuple(name for name in self.ignored if name not in types)
        all_declared = (*self.declared, *types) if declared else self.declared
        return replace(self, schema=Schema(columns), declared=all_declared, ignored=ignored)

    def with_wider(self, types: Mapping[str, str]) -> TableOptions:
        """The options with wider types for these columns."""
        columns = tuple(
            column_of_type_text(c.name, types[c.name]) if c.name in types else c for c in self.schema.columns
        )
        return replace(self, schema=Schema(columns))

    def to_json(self) -> dict[str, Any]:
        """The options as JSON values, for the store."""
        lists = {"key": list(self.key), "declared": list(self.declared), "ignored": list(self.ignored)}
        read_as = {"read_as": self.read_as.to_json()} if self.read_as is not None and str(self.read_as) else {}
        return {"schema": self.schema.to_json(), **lists, **read_as}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> TableOptions:
        lists = {name: tuple(record[name]) for name in ("key", "declared", "ignored")}
        read_as = ReadAs.from_json(record["read_as"]) if "read_as" in record else None
        return cls(Schema.from_json(record["schema"]), **lists, read_as=read_as)


def plain_change(source: Source, options: TableOptions) -> Source:
    """A source of changes with its cells in plain form, if they are written as in the table's own file."""
    if options.read_as is None or not source.has_cells or source.read_as is not None:
        return source
    for name, form in options.read_as.forms.items():
        if name in source.table.column_names:
            _require_form(source, name, form)
    return replace(source, table=in_plain_form(source.table, options.read_as.forms), written=source.table)


def _require_form(source: Source, name: str, form: CellForm) -> None:
    """Refuses numbers that are written in another way than in the table's own file: 1.250 would be another number."""
    texts = source.table.column(name).to_pylist() if form.number is not None else []
    for row, text in enumerate(texts):
        if not form.is_so_written(text):
            raise ReadError(
                f"{source.place.row(row)}, column {shown(name)}: {shown(text)} is not written as {form.number}, "
                f"as in the file that the table was made of"
            )


def maskable(tables: Mapping[str, TableOptions]) -> set[str]:
    """The names that can be masked: `ssn` masks a column in every table, `people.ssn` in one."""
    return {name for table, o in tables.items() for c in o.schema.names for name in (c, f"{table}.{c}")}


class ChoiceKeywords(TypedDict, total=False):
    """The fields of `Choices` as keyword arguments."""

    key: Names | Mapping[str, Names] | None
    types: Mapping[str, Any] | None
    columns: Names | Mapping[str, Names] | None
    exclude: Names | Mapping[str, Names] | None
    reading: Reading


@dataclass(frozen=True)
class Choices:
    """The user's choices: each is one value for all tables, or a mapping of table names to values. `reading`: how text
    files are read."""

    key: Names | Mapping[str, Names] | None = None
    types: Mapping[str, Any] | None = None
    columns: Names | Mapping[str, Names] | None = None
    exclude: Names | Mapping[str, Names] | None = None
    reading: Reading = field(default_factory=Reading)

    @classmethod
    def of(cls, function: str, keywords: Mapping[str, Any]) -> Choices:
        """The choices given as keyword arguments of a function."""
        require_keywords(function, keywords, CHOICE_KEYWORDS)
        return cls(**keywords)

    def settle(self, sources: Mapping[str, Source]) -> dict[str, tuple[Source, TableOptions]]:
        """Each source with its chosen columns, and its options."""
        self.require_tables(sources)
        return {name: self._settle_one(name, source, len(sources) == 1) for name, source in sources.items()}

    def require_tables(self, tables: Iterable[str]) -> None:
        """Raises an error if a choice is for a table that is not there."""
        known = list(tables)
        for choice in (self.key, self.columns, self.exclude):
            for name in choice if isinstance(choice, Mapping) else ():
                if name not in known:
                    raise SchemaError(unknown_name("table", name, known))

    def _settle_one(self, name: str, source: Source, alone: bool) -> tuple[Source, TableOptions]:
        present = source.table.column_names
        kept, key = self.columns_of(name, present, source.place.source)
        types = self.types_of(name, alone)
        texts = [column for column, type_ in types.items() if type_ == "text"]
        chosen = with_plain_cells(source.only(kept), self.reading, texts)
        ignored = tuple(n for n in present if n not in kept)
        return chosen, TableOptions(schema_of(chosen, types), key, tuple(types), ignored, chosen.read_as)

    def columns_of(self, name: str, present: Sequence[str], place: str) -> tuple[list[str], tuple[str, ...]]:
        """The chosen columns of a table that has the columns `present`, and its key."""
        columns, exclude, key = _names(self.columns, name), _names(self.exclude, name), self.key_of(name)
        _require_columns(place, (*columns, *exclude, *key), present)
        kept = [n for n in present if (self.columns is None or n in columns) and n not in exclude]
        _require_columns(place, key, kept)
        return kept, key

    def key_of(self, name: str) -> tuple[str, ...]:
        """The columns of a table's key."""
        return _names(self.key, name)

    def types_of(self, name: str, alone: bool) -> dict[str, str]:
        """The types of a table's columns; `types` is {table: {column: type}}, or {column: type} for the only table."""
        types = self.types or {}
        nested = types.get(name)
        if isinstance(nested, Mapping):
            return dict(nested)
        return dict(types) if alone else {}


CHOICE_KEYWORDS = frozenset(choice.name for choice in fields(Choices))


def require_keywords(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises a TypeError that names an unknown keyword argument, and the nearest known one."""
    names = sorted(known)
    for name in given:
        if name not in names:
            raise TypeError(f"{function}() got an {unknown_name('keyword argument', name, names)}")


def _names(choice: Names | Mapping[str, Names] | None, table: str) -> tuple[str, ...]:
    names = choice.get(table, ()) if isinstance(choice, Mapping) else choice or ()
    if not isinstance(names, str | Sequence) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f"columns are given by name, not as {names!r}")
    return (names,) if isinstance(names, str) else tuple(names)


def _require_columns(place: str, names: Sequence[str], present: Sequence[str]) -> None:
    for name in names:
        if name not in present:
            raise SchemaError(f"{place}: {unknown_name('column', name, present)}")
