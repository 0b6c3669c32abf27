"""How text files are read: what the user says, and what was recognised."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import HoldfastError, shown
from holdfast.table.cell_forms import CellForm, date_form

UTF_8, WINDOWS = "utf-8", "cp1252"
_NAMES = {"\t": "tabs", ";": "semicolons", "|": "bars"}


@dataclass(frozen=True)
class Reading:
    """How to read text files; what is None is recognised.

    `delimiter`: between cells. `encoding`: as Python names it. `date_format`: `%d.%m.%Y` or `DD.MM.YYYY`.
    `null_values`: texts that mean an empty cell, in every column.
    """

    delimiter: str | None = None
    encoding: str | None = None
    date_format: str | None = None
    null_values: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            written = {"\\t": "\t", "tab": "\t"}.get(self.delimiter, self.delimiter)
            if len(written.encode()) != 1 or written in '\r\n"':
                raise HoldfastError(f"a delimiter is one character, or \\t, not {shown(self.delimiter)}")
            object.__setattr__(self, "delimiter", written)
        if self.encoding is not None:
            try:
                is_text = codecs.lookup(self.encoding)._is_text_encoding
            except LookupError:
                is_text = False
            if not is_text:
                raise HoldfastError(f"{shown(self.encoding)} is no encoding; write utf-8, utf-16 or cp1252")
        if self.date_format is not None:
            object.__setattr__(self, "date_format", date_form(self.date_format))


@dataclass(frozen=True)
class ReadAs:
    """How a text file was read. `forms`: of the columns whose cells are not plain."""

    delimiter: str = ","
    encoding: str = UTF_8
    forms: Mapping[str, CellForm] = field(default_factory=dict)

    def __str__(self) -> str:
        """In words; empty if the file is plain."""
        parts = [f"cells between {_NAMES.get(self.delimiter, shown(self.delimiter))}"] if self.delimiter != "," else []
        parts += [f"encoding {self.encoding}"] if self.encoding != UTF_8 else []
        columns: dict[str, list[str]] = {}
        for name, form in self.forms.items():
            columns.setdefault(str(form), []).append(name)
        parts += [f"{form} ({', '.join(names)})" for form, names in columns.items()]
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        forms = {name: form.to_json() for name, form in self.forms.items()}
        return {"delimiter": self.delimiter, "encoding": self.encoding, "forms": forms}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> ReadAs:
        forms = {name: CellForm.from_json(form) for name, form in record["forms"].items()}
        return cls(record["delimiter"], record["encoding"], forms)
