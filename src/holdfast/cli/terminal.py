"""Output streams that are safe to print data to: values and names cannot control the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import IO, Any, ParamSpec, TextIO, TypeVar, cast

import rich.console
from rich.text import Text

from holdfast.errors import concealed
from holdfast.plain_text import HIDDEN, plain_text

P = ParamSpec("P")
R = TypeVar("R")
_UNPRINTABLE = re.compile("[\ud800-\udfff]")  # lone surrogates: no encoding has them


class PlainStream:
    """A stream that shows control characters as text. It claims to be no terminal, so that no library sends any."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        self.raw.write(plain_text(concealed(text)))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class Console(rich.console.Console):
    """Rich's console: its own colours reach the terminal, control characters in values are shown as text."""

    @property
    def file(self) -> IO[str]:
        file: IO[str] = _raw(super().file)
        return file

    @file.setter
    def file(self, new: IO[str]) -> None:
        self._file = new

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*map(_plain_object, objects), **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(plain_text(text), **options)


def _plain_object(thing: Any) -> Any:
    """Makes a Rich text plain: Rich wraps whatever is printed while it shows a progress bar."""
    return Text(plain_text(thing.plain)) if isinstance(thing, Text) and HIDDEN.search(thing.plain) else thing


def _raw(stream: Any) -> Any:
    return stream.raw if isinstance(stream, PlainStream) else stream


@contextmanager
def plain_output() -> Iterator[None]:
    """Makes everything that is printed or logged plain text."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, PlainStream(_raw(stream))) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def plain(command: Callable[P, R]) -> Callable[P, R]:
    """Decorates a command: its output is plain text."""

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> R:
        with plain_output():
            return command(*arguments, **options)

    return run


def print_exact(text: str, end: str = "\n") -> None:
    """Prints text for programs: unchanged to a file or pipe, as plain text to a terminal."""
    raw = _raw(sys.stdout)
    raw.write(plain_text(text + end) if raw.isatty() else _UNPRINTABLE.sub(_as_plain_text, text + end))


def _as_plain_text(match: re.Match[str]) -> str:
    return plain_text(match[0])
