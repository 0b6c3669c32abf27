"""How deep a JSON file is nested, before a parser that would overflow its stack looks at it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from holdfast.errors import ReadError

DEEPEST = 64
_AT_ONCE = 1 << 24  # bytes
_STRING = re.compile(rb'"(?:[^"\\\n]|\\.)*"')
_ESCAPE = re.compile(rb"\\.")
_QUOTE, _NEWLINE, _OPEN, _CLOSE = b'"'[0], b"\n"[0], tuple(b"[{"), tuple(b"]}")
_OTHERS = bytes(byte for byte in range(256) if byte not in (_QUOTE, _NEWLINE, *_OPEN, *_CLOSE))


def require_shallow(path: Path, deepest: int = DEEPEST) -> None:
    """Raises an error that names the line where the file is nested deeper. O(bytes), mostly in C."""
    depth, line = 0, 1
    with path.open("rb") as file:
        while lines := file.readlines(_AT_ONCE):
            tokens = _tokens(b"".join(lines))
            steps = np.isin(tokens, _OPEN).astype(np.int64) - np.isin(tokens, _CLOSE)
            depths = depth + np.cumsum(steps)
            beyond = np.flatnonzero(depths > deepest)
            if len(beyond):
                line += int((tokens[: beyond[0]] == _NEWLINE).sum())
                raise ReadError(
                    f"{path}, line {line}: nested more than {deepest} levels deep; a row is an object of plain values"
                )
            depth, line = int(depths[-1]) if len(depths) else depth, line + len(lines)


def _tokens(text: bytes) -> npt.NDArray[np.uint8]:
    """The brackets outside of strings, and the ends of lines."""
    escaped = _ESCAPE.sub(b"", text) if b"\\" in text else text
    tokens = np.frombuffer(escaped.translate(None, _OTHERS), np.uint8)
    inside = np.bitwise_xor.accumulate((tokens == _QUOTE).astype(np.uint8)).astype(bool)
    if inside[tokens == _NEWLINE].any():  # a string that its line does not end: not JSON, but it may be deep
        tokens = np.frombuffer(_STRING.sub(b"", text).translate(None, _OTHERS), np.uint8)
        inside = np.zeros(len(tokens), bool)
    return np.asarray(tokens[~inside & (tokens != _QUOTE)], np.uint8)
