"""Where output leaves. Whatever a command prints, values and names in it cannot steer the terminal."""

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
_UNPRINTABLE = re.compile("[\ud800-\udfff]")  # no encoding has them


class PlainStream:
    """A stream that shows control characters. It is no terminal to others: they would send some of their own."""

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
    """Rich's console for results: its own colours reach the terminal, those of values are shown as text."""

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
    """What others print while a progress bar is shown comes as Rich's text."""
    return Text(plain_text(thing.plain)) if isinstance(thing, Text) and HIDDEN.search(thing.plain) else thing


def _raw(stream: Any) -> Any:
    return stream.raw if isinstance(stream, PlainStream) else stream


@contextmanager
def plain_output() -> Iterator[None]:
    """While a command runs: all that is printed or logged is plain text."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, PlainStream(_raw(stream))) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def plain(command: Callable[P, R]) -> Callable[P, R]:
    """A command whose output is plain text."""

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> R:
        with plain_output():
            return command(*arguments, **options)

    return run


def print_exact(text: str, end: str = "\n") -> None:
    """Prints what programs read: as it is into a file or a pipe, and as plain text on a terminal."""
    raw = _raw(sys.stdout)
    raw.write(plain_text(text + end) if raw.isatty() else _UNPRINTABLE.sub(_shown, text + end))


def _shown(found: re.Match[str]) -> str:
    return plain_text(found[0])
