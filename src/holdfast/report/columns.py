"""What the columns of a table contain: how many cells are empty, how many values differ, ranges, common values, and
how texts are written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from holdfast.rulebook import Rulebook
from holdfast.table.dictionary import NULL, Codes, TextDictionary
from holdfast.table.encode import decode_table
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema
from holdfast.workflow.masking import Mask

_MAX_COMMON, _MAX_FORMS, _MAX_TEXT = 3, 2, 40  # values and forms that are shown, and characters of one
_LOOKED_AT = 20_000  # different texts, the commonest
_MIN_FORM = 0.2  # the least share of rows that a form of texts needs


@dataclass(frozen=True)
class ColumnFacts:
    """What a column contains. Of a masked column only counts. `range`: the least and the greatest value, of ordered
    kinds; `common`: values that occur more than once, with their rows; `forms`: how texts are written (`AA-99`), with
    the share of the rows that have a value."""

    name: str
    kind: str
    empty: int
    distinct: int
    range: tuple[str, str] | None = None
    common: tuple[tuple[str, int], ...] = ()
    forms: tuple[tuple[str, float], ...] = ()


def column_facts(book: Rulebook, table: str, mask: Mask) -> list[ColumnFacts]:
    """The columns of a table. O(rows x columns), sorted."""
    rows, dictionary = book.encoded.rows[table], book.encoded.dictionary
    return [
        _facts(column, codes, dictionary, is_hidden=mask.hides(table, column.name))
        for column, codes in zip(rows.schema.columns, rows.codes(), strict=True)
    ]


def _facts(column: Column, codes: Codes, dictionary: TextDictionary, *, is_hidden: bool) -> ColumnFacts:
    values, counts = np.unique(codes[codes != NULL], return_counts=True)
    filled = int(counts.sum())
    about = column.name, column.type_text, len(codes) - filled, len(values)
    if is_hidden or not len(values):
        return ColumnFacts(*about)
    commonest = np.argsort(-counts, kind="stable")
    top = commonest[:_MAX_COMMON]
    texts = _texts(column, values[top], dictionary)
    common = tuple((_short(t), int(n)) for t, n in zip(texts, counts[top], strict=True) if n > 1)
    if column.kind.ordered:
        ends = _texts(column, values[[0, -1, -2 if len(values) > 1 else -1]], dictionary)
        least, most = ends[0], ends[2] if ends[1] == "nan" else ends[1]  # NaN is larger than every number
        return ColumnFacts(*about, range=(least, most), common=common)
    if column.kind is not Kind.TEXT:
        return ColumnFacts(*about, common=common)
    looked_at = commonest[:_LOOKED_AT]
    forms = _forms(_texts(column, values[looked_at], dictionary), counts[looked_at].tolist())
    return ColumnFacts(*about, common=common, forms=forms)


def _texts(column: Column, codes: Codes, dictionary: TextDictionary) -> list[str]:
    return [str(value) for value in decode_table(Schema((column,)), codes[None, :], dictionary).column(0).to_pylist()]


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def _forms(texts: list[str], counts: list[int]) -> tuple[tuple[str, float], ...]:
    """The commonest forms of texts: with each letter, or with words as one letter where that says more."""
    total = sum(counts)
    for is_by_word in (False, True):
        found: Counter[str] = Counter()
        for text, count in zip(texts, counts, strict=True):
            found[form_of(text, by_word=is_by_word)] += count
        shares = [(_short(form), count / total) for form, count in found.most_common(_MAX_FORMS)]
        if shares[0][1] >= 0.5 or is_by_word:
            return tuple((form, share) for form, share in shares if share >= _MIN_FORM)
    return ()


def form_of(text: str, *, by_word: bool = False) -> str:
    """How a text is written: 9 for a digit, A and a for letters, or for words and numbers.

    >>> form_of("DE-1020"), form_of("New York 12", by_word=True)
    ('AA-9999', 'Aa Aa 9')
    """
    marks = "".join("9" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in text)
    if not by_word:
        return marks
    kept = [mark for mark, before in zip(marks, f"\0{marks}", strict=False) if mark != before or mark not in "9Aa"]
    return "".join(kept)
