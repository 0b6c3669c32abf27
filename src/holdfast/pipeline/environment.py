"""Environment variables in a pipeline file: `${NAME}` stands for a variable's value."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from holdfast.errors import ReadError, keep_secret

_VARIABLE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def expanded(value: Any, place: str) -> Any:
    """The value with all variables replaced, also inside mappings and lists. `$${` stands for `${` itself.

    `place` is the position in the file, for messages. Values of variables are kept out of all messages.
    """
    if isinstance(value, Mapping):
        return {key: expanded(item, f"{place}: {key}") for key, item in value.items()}
    if isinstance(value, list):
        return [expanded(item, f"{place}: {i + 1}") for i, item in enumerate(value)]
    return _VARIABLE.sub(lambda match: _value(match, place), value) if isinstance(value, str) else value


def _value(match: re.Match[str], place: str) -> str:
    if match[1]:
        return match[1]
    value = os.environ.get(match[2])
    if value is None:
        raise ReadError(f"{place}: the environment variable {match[2]} is not set")
    keep_secret(value)
    return value
