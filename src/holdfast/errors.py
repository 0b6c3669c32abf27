"""The errors that users see, and helpers for their messages.

Every error that bad input can cause is a `HoldfastError`; the command line turns it into exit status 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

HIDDEN = "•••"  # replaces a masked value or a secret
_MIN_SECRET_LENGTH = 4  # replacing shorter texts would garble messages
_secrets: set[str] = set()
_hide_cells: ContextVar[bool] = ContextVar("hide_cells", default=False)


class HoldfastError(Exception):
    """Base class of all errors that Holdfast raises deliberately."""


class ReadError(HoldfastError):
    """A file or frame that cannot be read as a table."""


class ValueRefused(HoldfastError):
    """A value that does not fit its column; the message names the location, the column and the value."""


class SchemaError(HoldfastError):
    """Columns that are missing or unknown, or that have an unexpected or unsupported type."""


class ChangeRefused(HoldfastError):
    """A change that contradicts the table: missing rows, duplicate keys, null keys. Nothing was applied."""


class RuleError(HoldfastError):
    """A rule that cannot be parsed, contradicts itself, or does not fit the schema."""


class ParseError(RuleError):
    """Rule text that does not parse; the message points at the position.

    >>> print(ParseError("a rule", "zip > city", 4))
    expected a rule
      zip > city
          ^
    """

    def __init__(self, expected: str, text: str, position: int) -> None:
        self.expected, self.text, self.position = expected, text, position
        excerpt, offset = _excerpt(text, position)
        super().__init__(f"expected {expected}\n  {excerpt}\n  {' ' * offset}^")

    @property
    def in_one_line(self) -> str:
        """The message on one line, without the arrow.

        >>> ParseError("a rule", "zip > city", 4).in_one_line
        "expected a rule at character 5 of 'zip > city'"
        """
        excerpt, _ = _excerpt(self.text, self.position)
        return f"expected {self.expected} at character {self.position + 1:,} of {excerpt!r}"


def _excerpt(text: str, position: int, before: int = 80, after: int = 80) -> tuple[str, int]:
    """The text around a position on one line, and the offset of the position in it. Long texts are cut."""
    start = max(0, position - before)
    prefix, suffix = "..." if start else "", "..." if position + after < len(text) else ""
    printable = "".join(c if c.isprintable() else " " for c in text[start : position + after])
    return prefix + printable + suffix, len(prefix) + position - start


class StoreError(HoldfastError):
    """A rulebook directory or a file that cannot be opened or written."""


class NotAvailable(HoldfastError):
    """A feature that this version or this installation does not have."""


@dataclass(frozen=True)
class Location:
    """The source of a value in the input: `sales.csv, row 17`. Rows count from 1, without the header."""

    source: str

    def row(self, index: int) -> str:
        return f"{self.source}, row {index + 1}"


def shown(value: object, limit: int = 60) -> str:
    """The `repr` of a value for a message, cut if it is long.

    >>> shown("abc"), shown("x" * 80)[-12:]
    ("'abc'", "xxxxxxx... '")
    """
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list that contains itself
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 5]}... {text[-1]}"


@contextmanager
def discreet(hide: bool = True) -> Iterator[None]:
    """Within this context, messages quote no cells. Used while a rulebook with masked columns reads input."""
    token = _hide_cells.set(hide or _hide_cells.get())
    try:
        yield
    finally:
        _hide_cells.reset(token)


def cell(value: object, limit: int = 60) -> str:
    """A value of the data for a message: as `shown`, or hidden within `discreet`.

    >>> with discreet():
    ...     cell("123-45-6789")
    '•••'
    """
    return HIDDEN if _hide_cells.get() else shown(value, limit)


def detail(error: object) -> str:
    """The message of a library's error on one line; hidden within `discreet`, because it may quote the data."""
    if _hide_cells.get():
        return "details are hidden, because columns are masked"
    return " ".join(str(error).split()) or type(error).__name__


def keep_secret(text: str) -> None:
    """Registers a secret: `concealed` removes it from messages from now on."""
    if len(text) >= _MIN_SECRET_LENGTH:
        _secrets.add(text)


def concealed(text: str) -> str:
    """A message with every registered secret replaced.

    >>> keep_secret("hunter2hunter2")
    >>> concealed("https://example.org/?token=hunter2hunter2 refused")
    'https://example.org/?token=••• refused'
    """
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
