"""HTML tables for notebooks: bounded, escaped, and sortable by a click on a heading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

MAX_SHOWN_ROWS = 50
_SORT_SCRIPT = (
    "(function(h){var t=h.closest('table'),b=t.tBodies[0],i=[].indexOf.call(h.parentNode.children,h),"
    "d=h.dataset.d=h.dataset.d==='1'?'-1':'1';"
    "var v=function(r){var x=r.children[i].dataset.v||r.children[i].textContent,n=parseFloat(x);return isNaN(n)?x:n};"
    "[].slice.call(b.rows).sort(function(p,q){var a=v(p),c=v(q);return (a>c?1:a<c?-1:0)*d})"
    ".forEach(function(r){b.appendChild(r)})})(this)"
)


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]], total: int, most: int = MAX_SHOWN_ROWS) -> str:
    """The first `most` of `total` rows as HTML, with rules in `code` elements and numbers aligned right.

    >>> "<td>&lt;b&gt;</td>" in html_table(["x"], [["<b>"]], 1)
    True
    """
    head = f'<th style="cursor:pointer;text-align:left" onclick="{escape(_SORT_SCRIPT)}">'
    heads = "".join(f"{head}{escape(column)}</th>" for column in columns)
    cells = (zip(columns, row, strict=True) for row in islice(rows, most))
    body = "".join(f"<tr>{''.join(_cell(column, value) for column, value in row)}</tr>" for row in cells)
    more = f"<p>and {total - most:,} more</p>" if total > most else ""
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(column: str, value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
        return f'<td style="text-align:right" data-v="{value!r}">{shown}</td>'
    text = "" if value is None else escape(str(value))
    return f'<td style="text-align:left"><code>{text}</code></td>' if column == "rule" else f"<td>{text}</td>"
