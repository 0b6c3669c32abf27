"""A graph of tables and the inclusions between them, as SVG. Referenced tables are on the right."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from holdfast.rules.rule import Ind

_WIDTH, _HEIGHT = 150, 40  # of a table
_COLUMN_STEP, _ROW_STEP, _MARGIN = 290, 84, 20


def graph_svg(tables: Sequence[str], references: Sequence[tuple[Ind, str]]) -> str:
    """The graph; empty for fewer than two tables. The page gives the colours: currentColor, and a class per status."""
    between = [(rule, status) for rule, status in references if rule.left_table != rule.right_table]
    if len(tables) < 2:
        return ""
    places = _places(tables, [(rule.left_table, rule.right_table) for rule, _ in between])
    width = max(x for x, _ in places.values()) + _WIDTH + _MARGIN
    height = max(y for _, y in places.values()) + _HEIGHT + _MARGIN
    parts = [f'<svg class="graph" role="img" aria-label="Tables and foreign keys" viewBox="0 0 {width} {height}"']
    parts[0] += f' width="{width}" height="{height}" xmlns="http://www.w3.org/2000/svg">'
    by_tables: dict[tuple[str, str], list[tuple[Ind, str]]] = {}
    for rule, status in between:
        by_tables.setdefault((rule.left_table, rule.right_table), []).append((rule, status))
    parts += [_arrow(places[left], places[right], rules) for (left, right), rules in by_tables.items()]
    parts += [_box(name, *places[name]) for name in tables]
    return "".join([*parts, "</svg>"])


def _places(tables: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """The corner of each table: one column to the right of the tables that refer to it. Cycles are cut."""
    column = dict.fromkeys(tables, 0)
    for _ in tables:
        for left, right in edges:
            if column[right] <= column[left] < len(tables) - 1:
                column[right] = column[left] + 1
    used_columns = sorted(set(column.values()))
    filled = dict.fromkeys(used_columns, 0)
    places = {}
    for name in tables:
        at = column[name]
        places[name] = (_MARGIN + used_columns.index(at) * _COLUMN_STEP, _MARGIN + filled[at] * _ROW_STEP)
        filled[at] += 1
    return places


def _box(name: str, x: int, y: int) -> str:
    text = name if len(name) <= 18 else f"{name[:17]}…"
    return (
        f'<g class="table"><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="none" '
        f'stroke="currentColor"/><text x="{x + _WIDTH // 2}" y="{y + _HEIGHT // 2 + 5}" text-anchor="middle" '
        f'fill="currentColor">{escape(text)}</text><title>{escape(name)}</title></g>'
    )


def _arrow(start: tuple[int, int], end: tuple[int, int], rules: Sequence[tuple[Ind, str]]) -> str:
    forward = end[0] > start[0]
    x1, x2 = (start[0] + _WIDTH, end[0]) if forward else (start[0], end[0] + _WIDTH)
    y1, y2 = start[1] + _HEIGHT // 2, end[1] + _HEIGHT // 2
    middle = (x1 + x2) // 2
    texts = [", ".join(rule.left) for rule, _ in rules]
    label = texts[0] if len(texts) == 1 else f"{texts[0]} and {len(texts) - 1} more"
    label = label if len(label) <= 22 else f"{label[:21]}…"
    status = "accepted" if any(status == "accepted" for _, status in rules) else rules[0][1]
    title = escape("\n".join(str(rule) for rule, _ in rules))
    head = 8 if forward else -8
    dashes = "" if status == "accepted" else ' stroke-dasharray="5 4"'
    curve = f"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}"
    return (
        f'<g class="reference {status}"><path d="{curve}" fill="none" stroke="currentColor"{dashes}/>'
        f'<path d="M{x2},{y2} l{-head},-4 l0,8 z" fill="currentColor"/>'
        f'<text x="{middle}" y="{(y1 + y2) // 2 - 6}" text-anchor="middle" fill="currentColor" font-size="12">'
        f"{escape(label)}</text><title>{title}</title></g>"
    )
