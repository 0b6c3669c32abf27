"""Checks the nesting depth of a JSON file before it is parsed: Arrow's parser overflows its stack on deep nesting."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from holdfast.errors import ReadError

MAX_LEVELS = 64
_BLOCK_BYTES = 1 << 24
_STRING = re.compile(rb'"(?:[^"\\\n]|\\.)*"')
_ESCAPE = re.compile(rb"\\.")
_QUOTE, _NEWLINE, _OPEN, _CLOSE = b'"'[0], b"\n"[0], tuple(b"[{"), tuple(b"]}")
_OTHERS = bytes(byte for byte in range(256) if byte not in (_QUOTE, _NEWLINE, *_OPEN, *_CLOSE))


def require_shallow(path: Path, max_levels: int = MAX_LEVELS) -> None:
    """Raises an error that names the first line that is nested too deep. O(bytes), mostly in C."""
    depth, line = 0, 1
    with path.open("rb") as file:
        while lines := file.readlines(_BLOCK_BYTES):
            tokens = _tokens(b"".join(lines))
            steps = np.isin(tokens, _OPEN).astype(np.int64) - np.isin(tokens, _CLOSE)
            depths = depth + np.cumsum(steps)
            beyond = np.flatnonzero(depths > max_levels)
            if len(beyond):
                line += int((tokens[: beyond[0]] == _NEWLINE).sum())
                problem = f"nested more than {max_levels} levels deep; a row is an object of plain values"
                raise ReadError(f"{path}, line {line}: {problem}")
            depth, line = int(depths[-1]) if len(depths) else depth, line + len(lines)


def _tokens(text: bytes) -> npt.NDArray[np.uint8]:
    """The brackets outside of strings, and the line breaks."""
    escaped = _ESCAPE.sub(b"", text) if b"\\" in text else text
    tokens = np.frombuffer(escaped.translate(None, _OTHERS), np.uint8)
    inside = np.bitwise_xor.accumulate((tokens == _QUOTE).astype(np.uint8)).astype(bool)
    if inside[tokens == _NEWLINE].any():  # a string without an end: not JSON, but it may be nested deep
        tokens = np.frombuffer(_STRING.sub(b"", text).translate(None, _OTHERS), np.uint8)
        inside = np.zeros(len(tokens), bool)
    return np.asarray(tokens[~inside & (tokens != _QUOTE)], np.uint8)
