"""A graph of tables and the inclusions between them, as SVG. Referenced tables are to the right of those that refer to
them. Each table lists its referring columns, and an arrow starts at the column.

Tables are in layers, and an arrow over several layers has a place in each of them, so that it does not cross a table
(Sugiyama, Tagawa, Toda: "Methods for visual understanding of hierarchical system structures", 1981).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from holdfast.rules.rule import Ind

_WIDTH, _HEAD, _LINE, _FOOT = 156, 34, 20, 6  # of a table: its name, each referring column, the rest
_BEND, _GAP, _BETWEEN, _MARGIN = 8, 22, 64, 8  # height of a passing arrow; between tables, between layers, around
_MAX_NAME, _MAX_COLUMNS = 17, 21  # characters
_SWEEPS = 12
Edge = tuple[str, str]
Node = str | tuple[Edge, int]  # a table, or the place of an arrow in a layer
Point = tuple[int, int]


@dataclass(frozen=True)
class _Table:
    """A table, and the columns by which it refers to others, each with its inclusions."""

    name: str
    ports: dict[str, list[tuple[Ind, str]]] = field(default_factory=dict)

    @property
    def height(self) -> int:
        return _HEAD + _LINE * len(self.ports) + (_FOOT if self.ports else 0)


@dataclass(frozen=True)
class _Layout:
    """The corner of each table, the places through which arrows pass, and the size of the graph."""

    tables: dict[str, Point]
    bends: dict[Edge, list[Point]]
    width: int
    height: int


def graph_svg(tables: Sequence[str], references: Sequence[tuple[Ind, str]]) -> str:
    """The graph; empty if no table refers to another one. The page gives the colours: currentColor, and a class per
    status."""
    between = [(rule, status) for rule, status in references if rule.left_table != rule.right_table]
    if not between:
        return ""
    boxes = {name: _Table(name) for name in tables}
    for rule, status in between:
        boxes[rule.left_table].ports.setdefault(", ".join(rule.left), []).append((rule, status))
    linked = {name for rule, _ in between for name in (rule.left_table, rule.right_table)}
    alone = [name for name in tables if name not in linked]
    edges = list(dict.fromkeys((rule.left_table, rule.right_table) for rule, _ in between))
    layout = _laid_out([name for name in tables if name in linked], edges, boxes)
    places, width, height = layout.tables, layout.width, layout.height
    for number, name in enumerate(alone):  # tables without references are below, in rows
        row, column = divmod(number, max(1, (width - _MARGIN) // (_WIDTH + _GAP)))
        places[name] = (_MARGIN + column * (_WIDTH + _GAP), height + row * (_HEAD + _GAP))
    if alone:
        height = max(y for _, y in places.values()) + _HEAD + _MARGIN
    parts = [f'<svg class="graph" role="img" aria-label="Tables and foreign keys" viewBox="0 0 {width} {height}"']
    parts[0] += f' width="{width}" height="{height}" xmlns="http://www.w3.org/2000/svg">'
    parts += [
        _arrow(boxes[rule.left_table], port, rule, status, layout)
        for name in tables
        for port, rules in boxes[name].ports.items()
        for rule, status in rules
    ]
    parts += [_box(boxes[name], *places[name]) for name in tables]
    return "".join([*parts, "</svg>"])


def _laid_out(tables: Sequence[str], edges: Sequence[Edge], boxes: Mapping[str, _Table]) -> _Layout:
    """Where tables and arrows are. O(sweeps x arrows x layers)."""
    layer = _layers(tables, edges)
    layers: list[list[Node]] = [[] for _ in range(max(layer.values()) + 1)]
    for name in tables:
        layers[layer[name]].append(name)
    links: list[tuple[Node, Node]] = []
    for edge in edges:
        first, last = layer[edge[0]], layer[edge[1]]
        bends: list[Node] = [(edge, at) for at in range(first + 1, last)]
        for at, bend in enumerate(bends, start=first + 1):
            layers[at].append(bend)
        links += list(zip([edge[0], *bends], [*bends, edge[1]], strict=True)) if last > first else []
    _untangle(layers, links)
    heights = {node: boxes[node].height if isinstance(node, str) else _BEND for nodes in layers for node in nodes}
    totals = [sum(heights[node] + _GAP for node in nodes) - _GAP for nodes in layers]
    places, bends_of = dict[str, Point](), defaultdict[Edge, list[Point]](list)
    for number, nodes in enumerate(layers):
        x, y = _MARGIN + number * (_WIDTH + _BETWEEN), _MARGIN + (max(totals) - totals[number]) // 2
        for node in nodes:
            if isinstance(node, str):
                places[node] = x, y
            else:
                bends_of[node[0]].append((x, y))
            y += heights[node] + _GAP
    has_loops = any(layer[left] >= layer[right] for left, right in edges)
    width = 2 * _MARGIN + len(layers) * (_WIDTH + _BETWEEN) - _BETWEEN + (_BETWEEN // 2 if has_loops else 0)
    return _Layout(places, bends_of, width, max(totals) + 2 * _MARGIN)


def _layers(tables: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The layer of each table: just left of the nearest table that it refers to. Arrows that close a cycle do not
    count."""
    targets: dict[str, list[str]] = defaultdict(list)
    for left, right in edges:
        targets[left].append(right)
    depth: dict[str, int] = {}
    for name in tables:
        path = {name: iter(targets[name])} if name not in depth else {}
        while path:  # depth first
            at = next(reversed(path))
            below = next((target for target in path[at] if target not in depth and target not in path), None)
            if below is not None:
                path[below] = iter(targets[below])
                continue
            depth[at] = 1 + max((depth[target] for target in targets[at] if target in depth), default=-1)
            del path[at]
    most = max(depth.values())
    return {name: most - depth[name] for name in tables}


def _untangle(layers: list[list[Node]], links: Sequence[tuple[Node, Node]]) -> None:
    """Orders each layer by the mean place of the neighbours in the layer before, to and fro."""
    before, after = defaultdict[Node, list[Node]](list), defaultdict[Node, list[Node]](list)
    for left, right in links:
        before[right].append(left)
        after[left].append(right)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        at = {node: place / len(nodes) for nodes in layers for place, node in enumerate(nodes)}
        for nodes in layers if forward else reversed(layers):
            beside = before if forward else after
            mean = {node: _mean([at[other] for other in beside[node]], at[node]) for node in nodes}
            nodes.sort(key=mean.__getitem__)
            at |= {node: place / len(nodes) for place, node in enumerate(nodes)}


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _box(table: _Table, x: int, y: int) -> str:
    columns = "".join(
        f'<text x="{x + 12}" y="{y + _HEAD + _LINE * number + 13}" fill="currentColor" font-size="12">'
        f"{escape(_short(port, _MAX_COLUMNS))}</text>"
        for number, port in enumerate(table.ports)
    )
    line = f'<path d="M{x},{y + _HEAD - 4} h{_WIDTH}" stroke="currentColor" opacity="0.4"/>' if table.ports else ""
    return (
        f'<g class="table"><rect x="{x}" y="{y}" width="{_WIDTH}" height="{table.height}" rx="6" fill="none" '
        f'stroke="currentColor"/>{line}<text x="{x + 12}" y="{y + 21}" fill="currentColor" font-weight="600">'
        f"{escape(_short(table.name, _MAX_NAME))}</text>{columns}<title>{escape(table.name)}</title></g>"
    )


def _arrow(table: _Table, port: str, rule: Ind, status: str, layout: _Layout) -> str:
    """From a column to the head of the table that it refers to, through its places in the layers between."""
    x, y = layout.tables[table.name]
    x, y = x + _WIDTH, y + _HEAD + _LINE * list(table.ports).index(port) + 9
    end_x, end_y = layout.tables[rule.right_table]
    end_y += _HEAD // 2
    path = f"M{x},{y}"
    if end_x > x:
        for bend_x, bend_y in layout.bends.get((rule.left_table, rule.right_table), ()):
            path += f"{_curve(x, y, bend_x, bend_y)} h{_WIDTH}"
            x, y = bend_x + _WIDTH, bend_y
        path += _curve(x, y, end_x, end_y)
        head = f"M{end_x},{end_y} l-8,-4 l0,8 z"
    else:  # back, or in the same layer: around the right side
        end_x += _WIDTH
        out = max(x, end_x) + _BETWEEN // 2
        path += f" C{out},{y} {out},{end_y} {end_x},{end_y}"
        head = f"M{end_x},{end_y} l8,-4 l0,8 z"
    dashes = "" if status == "accepted" else ' stroke-dasharray="5 4"'
    return (
        f'<g class="reference {status}"><path d="{path}" fill="none" stroke="currentColor"{dashes}/>'
        f'<path d="{head}" fill="currentColor"/><title>{escape(str(rule))}</title></g>'
    )


def _curve(x: int, y: int, to_x: int, to_y: int) -> str:
    middle = (x + to_x) // 2
    return f" C{middle},{y} {middle},{to_y} {to_x},{to_y}"
