"""YAML documents from anywhere: bounded in depth and in what their aliases repeat, with the line in every error."""

from __future__ import annotations

import warnings
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.constructor import ConstructorError, RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import Node, ScalarNode
from ruamel.yaml.reader import ReaderError

from holdfast.errors import RuleError, shown

MAX_DEPTH = 50
MAX_REPEATED = 100_000  # values that all aliases of a document stand for
_MAX_MESSAGE = 300
# What ruamel.yaml raises for tags that do not fit their values, such as `!!bool maybe`, besides its own errors.
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
    """The document of a text, with its comments; what is wrong with it is said in one line, with its line number.

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


def round_trip() -> YAML:
    """Reads and writes YAML so that comments, order and layout survive."""
    yaml = YAML()
    yaml.Composer, yaml.Constructor = _BoundedComposer, _MarkedConstructor
    yaml.max_depth = MAX_DEPTH
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


class _BoundedComposer(Composer):
    """Refuses documents whose aliases stand for more values than people write ("billion laughs")."""

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
        """How many values a node stands for. Each node is counted once, however often it is repeated."""
        if isinstance(node, ScalarNode):
            return 1
        if id(node) not in self._sizes:
            parts = [part for child in node.value for part in (child if isinstance(child, tuple) else (child,))]
            self._sizes[id(node)] = 1 + sum(map(self._size, parts))
        return self._sizes[id(node)]


class _MarkedConstructor(RoundTripConstructor):
    """Says where a value is that cannot be read, such as the date 2026-99-99."""

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except _LIBRARY_ERRORS as error:
            if isinstance(error, MarkedYAMLError):
                raise
            value = shown(node.value) if isinstance(node, ScalarNode) else "a list or mapping"
            problem = f"{value} cannot be read as {str(node.tag).rpartition(':')[2]}"
            raise ConstructorError(None, None, problem, node.start_mark) from None


def _problem(error: MarkedYAMLError) -> str:
    problem = _in_one_line(error.problem or str(error))
    return _TOO_DEEP if problem.startswith("maximum depth") else problem


def _in_one_line(text: str) -> str:
    made = " ".join(text.split())
    return made if len(made) <= _MAX_MESSAGE else f"{made[:_MAX_MESSAGE]}..."
