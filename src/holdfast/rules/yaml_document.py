"""Reads untrusted YAML: depth and alias expansion are bounded, and errors name the line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.constructor import ConstructorError, RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import Node, ScalarNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.representer import RoundTripRepresenter

from holdfast.errors import RuleError, shown

MAX_DEPTH = 50
MAX_REPEATED = 100_000  # values that the aliases of a document expand to
_MAX_MESSAGE = 300
# ruamel.yaml also raises built-in errors, for tags that do not fit their values, such as `!!bool maybe`.
_LIBRARY_ERRORS = (
    YAMLError,
    TypeError,
    ValueError,
    OverflowError,
    LookupError,
    AttributeError,
    AssertionError,
    NotImplementedError,
)
_TOO_DEEP = f"lists and mappings are nested more than {MAX_DEPTH} deep"


def document_of(text: str, place: str) -> Any:
    """Parses a YAML text and keeps its comments. Errors are one line long and name the line of the text.

    >>> document_of("a: [1, 2]  # two", "f.yml")["a"]
    [1, 2]
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            return round_trip().load(text)
    except MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise RuleError(f"{place}{line}: {_problem(error)}") from None
    except ReaderError as error:
        line = f", line {text.count(chr(10), 0, error.position) + 1}"
        raise RuleError(f"{place}{line}: the character {shown(chr(error.character))} is not allowed in YAML") from None
    except RecursionError:
        raise RuleError(f"{place}: {_TOO_DEEP}") from None
    except _LIBRARY_ERRORS as error:
        raise RuleError(f"{place}: it cannot be read as YAML: {_in_one_line(str(error))}") from None


def entry_place(document: Any, index: int, place: str) -> str:
    """`rules.yml, line 12`; for a rule added since the file was read, its number."""
    marks = getattr(document.get("rules"), "lc", None)
    if marks is None or index not in (marks.data or {}):
        return f"{place}, rule {index + 1}"
    return f"{place}, line {marks.item(index)[0] + 1}"


def field_place(document: Any, field: Any, place: str) -> str:
    """The location of a top-level field: `rules.yml, line 1`."""
    marks = getattr(document, "lc", None)
    if marks is None or field not in (marks.data or {}):
        return place
    return f"{place}, line {marks.key(field)[0] + 1}"


def has_comment(document: Any, name: str, index: int) -> bool:
    """Whether there is a comment in or beside an item of the list `name`. One above it belongs to the item before, or
    to the list."""
    items = document[name]
    beside = [items[index], items[index - 1] if index else document]
    return any(map(_is_commented, beside)) or (not index and _has_own_comment(items))


def _is_commented(item: Any) -> bool:
    """Whether a mapping, or a part of it other than a list of mappings, has a comment."""
    parts = item.values() if isinstance(item, dict) else ()
    return _has_own_comment(item) or any(_has_own_comment(part) for part in parts)


def _has_own_comment(item: Any) -> bool:
    """Whether an item has a comment, and not only an empty line."""
    notes = getattr(item, "ca", None)
    return notes is not None and any("#" in token.value for token in _tokens([notes.comment, notes.items, notes.end]))


def _tokens(notes: Any) -> Iterator[Any]:
    """The tokens in nested lists and mappings."""
    if isinstance(notes, dict):
        notes = list(notes.values())
    if isinstance(notes, list | tuple):
        for note in notes:
            yield from _tokens(note)
    elif notes is not None:
        yield notes


def round_trip() -> YAML:
    """A reader and writer that preserves comments, order and layout.

    >>> import sys
    >>> from holdfast.rules.nulls import Nulls
    >>> round_trip().dump({"nulls": Nulls.SQL}, sys.stdout)
    nulls: sql
    """
    yaml = YAML()
    yaml.Composer, yaml.Constructor, yaml.Representer = _BoundedComposer, _MarkedConstructor, _EnumRepresenter
    yaml.max_depth = MAX_DEPTH
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


class _BoundedComposer(Composer):
    """Refuses documents whose aliases expand to too many values ("billion laughs")."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self._sizes: dict[int, int] = {}
        self._repeated = 0

    def return_alias(self, a: Node) -> Node:
        if not isinstance(a, ScalarNode) and a.end_mark is None:
            raise ComposerError(None, None, "an alias refers to the value that it is part of", a.start_mark)
        self._repeated += self._size(a)
        if self._repeated > MAX_REPEATED:
            problem = f"aliases stand for more than {MAX_REPEATED:,} values"
            raise ComposerError(None, None, problem, a.start_mark)
        return a

    def _size(self, node: Node) -> int:
        """The number of values that a node expands to. Results are cached, so each node is visited once."""
        if isinstance(node, ScalarNode):
            return 1
        if id(node) not in self._sizes:
            parts = [part for child in node.value for part in (child if isinstance(child, tuple) else (child,))]
            self._sizes[id(node)] = 1 + sum(map(self._size, parts))
        return self._sizes[id(node)]


class _MarkedConstructor(RoundTripConstructor):
    """Adds the location to errors about unreadable values, such as the date 2026-99-99."""

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except _LIBRARY_ERRORS as error:
            if isinstance(error, MarkedYAMLError):
                raise
            value = shown(node.value) if isinstance(node, ScalarNode) else "a list or mapping"
            problem = f"{value} cannot be read as {str(node.tag).rpartition(':')[2]}"
            raise ConstructorError(None, None, problem, node.start_mark) from None


class _EnumRepresenter(RoundTripRepresenter):
    """Writes string enums, such as null policies, as plain strings."""


_EnumRepresenter.add_multi_representer(StrEnum, lambda writer, value: writer.represent_str(str(value)))


def _problem(error: MarkedYAMLError) -> str:
    problem = _in_one_line(error.problem or str(error))
    return _TOO_DEEP if problem.startswith("maximum depth") else problem


def _in_one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_MESSAGE else f"{line[:_MAX_MESSAGE]}..."
