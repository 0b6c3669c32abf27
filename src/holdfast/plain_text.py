"""Escapes control characters, so that values and names cannot control a terminal."""

from __future__ import annotations

import re

# C0 except tab and newline, DEL and C1, bidirectional controls, surrogates and noncharacters
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


def plain_text(text: str) -> str:
    r"""The text with control characters replaced by visible escapes.

    >>> plain_text("caf\xe9\x1b[2J\u202e\r"), plain_text("two\n\tlines")
    ('café\\x1b[2J\\u202e\\x0d', 'two\n\tlines')
    """
    return HIDDEN.sub(_visible, text)


def plain_json(text: str) -> str:
    r"""JSON text with the same characters as JSON escapes, so that its values do not change.

    >>> plain_json('{"a": "\x7f\u202e"}')
    '{"a": "\\u007f\\u202e"}'
    """
    return HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
