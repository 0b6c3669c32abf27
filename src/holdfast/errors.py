"""What went wrong, in words that a user can act on.

Every error that bad input can cause is a `HoldfastError`; the command line turns it into exit status 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

HIDDEN = "•••"  # in place of a masked value
_LEAST_SECRET = 4  # characters: shorter texts occur everywhere
_secrets: set[str] = set()
_hiding: ContextVar[bool] = ContextVar("hiding", default=False)


class HoldfastError(Exception):
    """Base of everything Holdfast raises on purpose."""


class ReadError(HoldfastError):
    """A file or frame that cannot be read as a table."""


class ValueRefused(HoldfastError):
    """A value that does not fit its column; the message names place, column and value."""


class SchemaError(HoldfastError):
    """Columns that are missing, unknown, of another kind, or of a kind that is not supported."""


class ChangeRefused(HoldfastError):
    """A change that contradicts the table: absent rows, duplicate or null keys. Nothing was applied."""


class RuleError(HoldfastError):
    """A rule that cannot be read, is contradictory, or does not fit the schema."""


class ParseError(RuleError):
    """Rule text that does not parse; points at the place.

    >>> print(ParseError("a rule", "zip > city", 4))
    expected a rule
      zip > city
          ^
    """

    def __init__(self, expected: str, text: str, position: int) -> None:
        self.expected, self.text, self.position = expected, text, position
        excerpt, place = _excerpt(text, position)
        super().__init__(f"expected {expected}\n  {excerpt}\n  {' ' * place}^")

    @property
    def in_one_line(self) -> str:
        """The same without the arrow, for lists of messages.

        >>> ParseError("a rule", "zip > city", 4).in_one_line
        "expected a rule at character 5 of 'zip > city'"
        """
        return (
            f"expected {self.expected} at character {self.position + 1:,} of {_excerpt(self.text, self.position)[0]!r}"
        )


def _excerpt(text: str, position: int, before: int = 80, after: int = 80) -> tuple[str, int]:
    """One line of a text around a place, and where the place is in it; long texts are cut."""
    start = position - before if position > before else 0
    dots, rest = "..." if start else "", "..." if position + after < len(text) else ""
    shown_text = "".join(c if c.isprintable() else " " for c in text[start : position + after])
    return dots + shown_text + rest, len(dots) + position - start


class StoreError(HoldfastError):
    """A rulebook directory that cannot be opened or written."""


class NotAvailable(HoldfastError):
    """Something that this version, or this installation, does not have."""


@dataclass(frozen=True)
class Location:
    """Where a value stands in the input: `sales.csv, row 17`. Rows count from 1, without the header."""

    source: str

    def row(self, index: int) -> str:
        return f"{self.source}, row {index + 1}"


def shown(value: object, limit: int = 60) -> str:
    """A value as it appears in a message: quoted, and cut when long.

    >>> shown("abc"), shown("x" * 80)[-12:]
    ("'abc'", "xxxxxxx... '")
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # integers of thousands of digits, lists in themselves
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 5]}... {text[-1]}"


@contextmanager
def discreet(hide: bool = True) -> Iterator[None]:
    """While input is read for a rulebook that masks columns: messages quote no cell, whatever its column."""
    before = _hiding.set(hide or _hiding.get())
    try:
        yield
    finally:
        _hiding.reset(before)


def cell(value: object, limit: int = 60) -> str:
    """A value of the data as it appears in a message; hidden where messages are to be discreet.

    >>> with discreet():
    ...     cell("123-45-6789")
    '•••'
    """
    return HIDDEN if _hiding.get() else shown(value, limit)


def detail(error: object) -> str:
    """What another program says went wrong, in one line; it may quote the data."""
    if _hiding.get():
        return "details are hidden, because columns are masked"
    return " ".join(str(error).split()) or type(error).__name__


def keep_secret(text: str) -> None:
    """Messages never show this text from now on."""
    if len(text) >= _LEAST_SECRET:
        _secrets.add(text)


def concealed(text: str) -> str:
    """A message without secrets.

    >>> keep_secret("hunter2hunter2")
    >>> concealed("https://example.org/?token=hunter2hunter2 refused")
    'https://example.org/?token=••• refused'
    """
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
