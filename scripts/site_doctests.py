"""An extension of Griffe for the documentation site: examples in docstrings become code blocks."""

from __future__ import annotations

from typing import Any

import griffe


class DoctestFences(griffe.Extension):
    """Puts each doctest of a docstring into a fenced block; Markdown would take `>>>` for a quotation."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with every doctest, from its first `>>>` to the next empty line, in a fence."""
    lines, inside = list[str](), False
    for line in text.splitlines():
        starts, ends = line.lstrip().startswith(">>>"), not line.strip()
        if starts and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif ends and inside:
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
