"""Removes trailing whitespace from the files that it is given, and ends each with one line end; a hook of pre-commit.

Exit status 1 if a file was changed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def tidied(text: bytes) -> bytes:
    r"""The text without blanks at line ends and with one line end at its end.

    >>> tidied(b"a \nb\t\n\n\n")
    b'a\nb\n'
    """
    lines = re.sub(rb"[ \t]+(?=\r?\n|\Z)", b"", text)
    return lines.rstrip(b"\r\n") + (b"\r\n" if lines.endswith(b"\r\n") else b"\n") if lines.strip() else b""


def main() -> int:
    changed = 0
    for path in map(Path, sys.argv[1:]):
        before = path.read_bytes()
        after = tidied(before)
        if after != before:
            path.write_bytes(after)
            print(f"{path}: tidied")
            changed = 1
    return changed


if __name__ == "__main__":
    sys.exit(main())
