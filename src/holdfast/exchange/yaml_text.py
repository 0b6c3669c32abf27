"""Documents as YAML."""

from __future__ import annotations

from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString


def as_yaml(document: Any) -> str:
    out = StringIO()
    writer = YAML()
    writer.width = 4096
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.dump(document, out)
    return out.getvalue()


def block(text: str) -> str:
    """A text that stands in lines of its own."""
    made: str = LiteralScalarString(text)
    return made
