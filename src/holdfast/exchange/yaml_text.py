"""Writes YAML that every version of YAML reads alike."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from holdfast.plain_text import HIDDEN

_NOT_TEXT = re.compile(r"[^A-Za-z]|(y|n|yes|no|on|off|true|false|null)$", re.IGNORECASE)  # not a string in YAML 1.1


def as_yaml(document: Any) -> str:
    """A document as YAML. Quotes text that YAML 1.1 or 1.2 could read as a number, boolean or null."""
    out = StringIO()
    writer = YAML()
    writer.width = 4096
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.dump(_quoted(document), out)
    return out.getvalue()


def _quoted(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {key: _quoted(value) for key, value in thing.items()}
    if isinstance(thing, list):
        return [_quoted(value) for value in thing]
    if not isinstance(thing, str):
        return thing
    is_block = isinstance(thing, LiteralScalarString)
    unsafe = HIDDEN.search(thing) or "\t" in thing
    return DoubleQuotedScalarString(thing) if unsafe or (not is_block and _needs_quotes(thing)) else thing


def _needs_quotes(text: str) -> bool:
    return not text or "\n" in text or _NOT_TEXT.match(text) is not None


def block(text: str) -> str:
    """A text to write as a literal block (`|`)."""
    literal: str = LiteralScalarString(text)
    return literal
