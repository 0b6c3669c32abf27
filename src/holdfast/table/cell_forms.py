"""How the cells of a text file are written where they are not plain: `31.12.2020`, `1.234,50`, `NA`.

A form is recognised from all values of a column, and only if they are numbers or dates then. What could be read in two
ways stays text: `01/02/2020` has no order unless another value of the column shows it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import HoldfastError, shown
from holdfast.table.kind import Kind
from holdfast.table.parse import infer_column

DEFAULT_NULLS = ("NA", "N/A", "n/a", "#N/A", "NULL", "Null", "null", "None", "nan", "-", "?")
COMMA, GROUPED = "1.234,5", "1,234.5"  # ways to write a number
_COMMA = re.compile(r"-?([0-9]{1,3}(\.[0-9]{3})+|[0-9]+)(,[0-9]+)?")
_GROUPED = re.compile(r"-?([0-9]{1,3}(,[0-9]{3})+|[0-9]+)(\.[0-9]+)?")
_GROUPS = {  # numbers whose signs could be groups of three digits, or a point or comma with three places behind it
    "1.234,5": re.compile(r"-?[0-9]{1,3}(\.[0-9]{3})*"),
    "1,234.5": re.compile(r"-?[0-9]{1,3}(,[0-9]{3})*"),
}
_EITHER = re.compile(r"-?[0-9]{1,3},[0-9]{3}")  # a decimal comma, or a group of three digits
_TIME = r"(?:[ T](?P<H>[0-9]{1,2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2}(?:\.[0-9]{1,6})?))?(?: ?(?P<p>[AaPp][Mm]))?)?"
_PARTS = {"d": r"(?P<d>[0-9]{1,2})", "m": r"(?P<m>[0-9]{1,2})", "Y": r"(?P<Y>[0-9]{4})"}
_ORDERS = ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%Y{0}%m{0}%d")
_SEPARATORS = ("/", ".", "-")
_LOOKED_AT = 1000  # first cells, which say whether a column may be one of numbers or dates
_MOST_MEANT = 0.1  # share of the values of a text column that may mean "empty"
_SAME_SHAPE = 0.05  # share of the other values that look like such a text: then it is a value like them


@dataclass(frozen=True)
class CellForm:
    """The form of a column's cells.

    `nulls`: texts that mean an empty cell. `date`: the order of day, month and year, `%d.%m.%Y`; a time may follow.
    `number`: a decimal comma, or groups of three digits. `unclear`: the orders of day and month in which all cells are
    dates, if there are several; such cells stay text.

    >>> CellForm(("NA",), "%d.%m.%Y").plain(pa.chunked_array([["1.12.2020", "NA", "3.1.2021 8:05"]])).to_pylist()
    ['2020-12-01', None, '2021-01-03T08:05:00']
    """

    nulls: tuple[str, ...] = ()
    date: str | None = None
    number: str | None = None
    unclear: tuple[str, ...] = ()

    def plain(self, strings: pa.ChunkedArray) -> pa.ChunkedArray:
        """The cells in plain form. A cell that does not have the form stays as it is."""
        encoded = pa.chunked_array(strings.chunks, strings.type).combine_chunks().dictionary_encode()
        texts = pa.array(self.plain_texts(encoded.dictionary.to_pylist()), strings.type)
        return pa.chunked_array([texts.take(encoded.indices)], strings.type)

    def plain_texts(self, texts: Sequence[str]) -> list[str | None]:
        """The same for single texts."""
        written = self._written
        return [None if text in self.nulls else written(text) for text in texts]

    @cached_property
    def _written(self) -> Callable[[str], str]:
        if self.date is not None:
            pattern = date_pattern(self.date)
            return lambda text: _iso(pattern, text)
        if self.number is not None:
            pattern, group, point = (_COMMA, ".", ",") if self.number == COMMA else (_GROUPED, ",", ".")
            return lambda text: text.replace(group, "").replace(point, ".") if pattern.fullmatch(text) else text
        return lambda text: text

    def is_so_written(self, text: str | None) -> bool:
        """Whether a cell has the form, as far as it is about numbers."""
        pattern = {COMMA: _COMMA, GROUPED: _GROUPED}.get(self.number or "")
        return pattern is None or text is None or text in self.nulls or pattern.fullmatch(text) is not None

    def __str__(self) -> str:
        """In words."""
        parts = [f"dates as {written_date(self.date)}"] if self.date else []
        parts += [f"numbers as {self.number}"] if self.number else []
        parts += [f"{', '.join(map(shown, self.nulls))} as empty"] if self.nulls else []
        orders = " or ".join(map(written_date, self.unclear))
        parts += [f"dates that may be {orders} as text (--date-format says which)"] if self.unclear else []
        return " and ".join(parts)

    def to_json(self) -> dict[str, Any]:
        form = {"nulls": list(self.nulls), "date": self.date, "number": self.number}
        return form | ({"unclear": list(self.unclear)} if self.unclear else {})

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> CellForm:
        return cls(tuple(record["nulls"]), record["date"], record["number"], tuple(record.get("unclear", ())))


def in_plain_form(table: pa.Table, forms: Mapping[str, CellForm]) -> pa.Table:
    """A table of cells with the columns that have a form in plain form."""
    for place, name in enumerate(table.column_names):
        if name in forms:
            table = table.set_column(place, name, forms[name].plain(table.column(place)))
    return table


def date_form(written: str) -> str:
    """`%d.%m.%Y` of `DD.MM.YYYY`, without a time.

    >>> date_form("DD.MM.YYYY"), date_form("%m/%d/%Y %H:%M")
    ('%d.%m.%Y', '%m/%d/%Y')
    """
    form = re.split("[ T]", written.replace("YYYY", "%Y").replace("MM", "%m").replace("DD", "%d"))[0]
    if sorted(re.findall(r"%(.)", form)) != ["Y", "d", "m"]:
        raise HoldfastError(f"{shown(written)} is no date format; write %d.%m.%Y or DD.MM.YYYY")
    return form


def date_pattern(form: str) -> re.Pattern[str]:
    """The pattern of `%d.%m.%Y`; a time may follow."""
    parts = re.split(r"%([dmY])", form)
    return re.compile("".join(_PARTS[p] if i % 2 else re.escape(p) for i, p in enumerate(parts)) + _TIME)


def written_date(form: str) -> str:
    """`DD.MM.YYYY`."""
    return form.replace("%Y", "YYYY").replace("%m", "MM").replace("%d", "DD")


def _iso(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.fullmatch(text)
    if found is None:
        return text
    date = f"{found['Y']}-{found['m']:0>2}-{found['d']:0>2}"
    if found["H"] is None:
        return date
    hour = int(found["H"])
    if found["p"]:
        hour = hour % 12 + 12 * (found["p"].lower() == "pm")
    return f"{date}T{hour:02}:{found['M']}:{found['S'] or '00'}"


@dataclass(frozen=True)
class FormFinder:
    """Finds the form of a column. `nulls` and `date`: as the user gave them; None: they are recognised."""

    nulls: tuple[str, ...] | None = None
    date: str | None = None

    def find(self, strings: pa.ChunkedArray) -> CellForm | None:
        """The form of a column of texts; None if it is plain."""
        tokens = DEFAULT_NULLS if self.nulls is None else self.nulls
        first = set(strings.drop_null().slice(0, _LOOKED_AT).to_pylist())
        meant = pa.array(tokens, strings.type)
        has_tokens = bool(tokens) and bool(pc.any(pc.is_in(strings, meant)).as_py())
        if not has_tokens and not any(map(_may_be_formed, first)):
            return None
        texts = pc.unique(strings).drop_null()
        if not has_tokens and infer_column("", pa.chunked_array([texts])).kind is not Kind.TEXT:
            return None
        present = [text for text in tokens if has_tokens and pc.is_in(pa.array([text], texts.type), texts)[0].as_py()]
        rest = [text for text in texts.to_pylist() if text not in present]
        for form in self._candidates(tuple(present), rest):
            plain = [text for text in form.plain_texts(rest) if text is not None]
            if plain and infer_column("", pa.chunked_array([plain])).kind is not Kind.TEXT:
                return form
        orders = _dates(rest) if self.date is None and rest else []
        unclear = tuple(orders) if len(orders) > 1 else ()
        odd = tuple(text for text in present if self.nulls is not None or unclear or _stands_out(text, rest, strings))
        return CellForm(odd, unclear=unclear) if odd or unclear else None

    def _candidates(self, present: tuple[str, ...], rest: Sequence[str]) -> Iterator[CellForm]:
        if present:
            yield CellForm(present)
        if self.date is not None:
            yield CellForm(present, self.date)
        yield from (CellForm(present, number=number) for number in _numbers(rest))
        dates = [] if self.date else _dates(rest)
        yield from (CellForm(present, date) for date in dates if len(dates) == 1)


def _may_be_formed(text: str) -> bool:
    return text[:1].isdigit() or text[:1] == "-"


def _numbers(texts: Sequence[str]) -> list[str]:
    """The way in which all texts are numbers; none if there are two."""
    with_comma = [text for text in texts if "," in text]
    if not with_comma or all(_EITHER.fullmatch(text) for text in with_comma):
        return []
    ways = {COMMA: _COMMA, GROUPED: _GROUPED}
    return [way for way, pattern in ways.items() if all(pattern.fullmatch(text) for text in texts)]


def _dates(texts: Sequence[str]) -> list[str]:
    """The orders of day, month and year in which all texts are dates."""
    found = []
    for separator in _SEPARATORS:
        for order in _ORDERS:
            pattern = date_pattern(order.format(separator))
            if all(_is_date(pattern.fullmatch(text)) for text in texts):
                found.append(order.format(separator))
    european = [order for order in found if order.startswith("%d.")]  # nobody writes the month first with points
    return european or found


def form_like(number: str, strings: pa.ChunkedArray, nulls: tuple[str, ...] = ()) -> CellForm | None:
    """The form of a column whose numbers could be read in two ways, if other columns of the file show the way."""
    texts = [text for text in pc.unique(strings).drop_null().to_pylist() if text not in nulls]
    group = "." if number == COMMA else ","
    if not any(group in text for text in texts) or not all(_GROUPS[number].fullmatch(text) for text in texts):
        return None
    return CellForm(nulls, number=number)


def _is_date(match: re.Match[str] | None) -> bool:
    return match is not None and 1 <= int(match["m"]) <= 12 and 1 <= int(match["d"]) <= 31


def _stands_out(text: str, others: Sequence[str], strings: pa.ChunkedArray) -> bool:
    """Whether a text of a text column means "empty": it is rare, and does not look like the other values."""
    count = pc.sum(pc.equal(strings, text)).as_py() or 0
    if count > _MOST_MEANT * max(1, len(strings) - strings.null_count):
        return False
    shapes = Counter(_shape(other) for other in others)
    return shapes[_shape(text)] <= _SAME_SHAPE * len(others)


def _shape(text: str) -> str:
    """`A9 a`: runs of capitals, digits and small letters."""
    return re.sub(r"(.)\1+", r"\1", re.sub("[a-z]", "a", re.sub("[A-Z]", "A", re.sub("[0-9]", "9", text))))
